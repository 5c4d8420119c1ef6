//! The order in which rows of one class leave: by what is published of them, so that it tells nothing more.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::{ArrayRef, UInt32Array, make_comparator};
use arrow::compute::SortOptions;

use super::{Cells, OutputColumn, Publisher, TieKeys};
use crate::columnar::kernel_failed;
use crate::columnar::payload::Gathered;
use crate::columnar::row_hash::comparable;
use crate::error::Result;

impl Publisher {
    /// The order in which the rows of some classes leave.
    pub(super) fn order(
        &self,
        ids: &[u32],
        classes: &Range<usize>,
        payload: &[Option<Gathered>],
    ) -> Result<UInt32Array> {
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        if !self.form.columns.iter().any(OutputColumn::differs_in_class) {
            return Ok(UInt32Array::from(order));
        }
        let classes_of_rows: Vec<u32> = match &self.table.cells {
            Cells::Sliced { .. } => {
                let rows_of = |class: usize| self.table.classes.range(class).len();
                classes.clone().flat_map(|class| vec![class as u32; rows_of(class)]).collect()
            }
            Cells::Covering | Cells::Nodes(_) => Vec::new(),
        };
        let positions = self.table.positions(classes);
        let codes_of = |column: usize| self.table.rows.codes(positions.clone(), column);
        let class_of = |at: usize| classes_of_rows[at] as usize;
        let class_of = &class_of;
        let compare = |column: &OutputColumn| -> Result<Option<Compare>> {
            Ok(match *column {
                OutputColumn::ExactQuasiIdentifier(index) => {
                    let codes = codes_of(index);
                    Some(Box::new(move |a, b| codes[a].cmp(&codes[b])))
                }
                OutputColumn::SlicedQuasiIdentifier(index) => {
                    let codes = codes_of(index);
                    let is_covered = move |at: usize| self.table.cells.covers(class_of(at), index);
                    Some(Box::new(move |a, b| match is_covered(a) {
                        true => Ordering::Equal,
                        false => codes[a].cmp(&codes[b]),
                    }))
                }
                OutputColumn::Payload(index) | OutputColumn::PayloadApart(index) => {
                    match &payload[index] {
                        Some(Gathered::Values(values)) => Some(comparator(values)?),
                        Some(Gathered::Ranks(ranks, _)) => {
                            Some(Box::new(move |a, b| ranks[a].cmp(&ranks[b])))
                        }
                        None => None,
                    }
                }
                OutputColumn::QuasiIdentifier(_)
                | OutputColumn::ClassId
                | OutputColumn::ColumnGroups
                | OutputColumn::Cohort
                | OutputColumn::Held
                | OutputColumn::Person => None,
            })
        };
        let compare = self.form.order_by.iter().filter_map(|column| compare(column).transpose());
        let compare = compare.collect::<Result<Vec<Compare>>>()?;
        let start = positions.start;
        let tie = |at: usize| self.tie(start + at, ids[at]);
        for class in classes.clone() {
            let range = self.table.classes.range(class);
            order[range.start - start..range.end - start].sort_unstable_by(|a, b| {
                let (a, b) = (*a as usize, *b as usize);
                let by_column = |compare: &Compare| compare(a, b);
                let visible = compare.iter().map(by_column).find(|order| order.is_ne());
                visible.unwrap_or_else(|| tie(a).cmp(&tie(b)))
            });
        }
        Ok(UInt32Array::from(order))
    }

    /// What orders the row of a number, which is at this position, among those that look the same.
    fn tie(&self, position: usize, id: u32) -> (u64, u64) {
        if let Some(tie) = self.table.cohorts.as_ref().and_then(|cohorts| cohorts.tie(id)) {
            return (tie, 0);
        }
        let (whole, kept) = self.table.keys.key(id);
        match self.form.ties {
            TieKeys::WholeRow => (whole, kept),
            TieKeys::QuasiIdentifiersAndKept(seed) => {
                (self.table.rows.quasi_identifier_hash(position, seed), kept)
            }
        }
    }
}

/// Compares two rows of a batch.
type Compare<'a> = Box<dyn Fn(usize, usize) -> Ordering + 'a>;

fn comparator(column: &ArrayRef) -> Result<Compare<'static>> {
    let column = comparable(column)?;
    let compare = make_comparator(&column, &column, SortOptions::default())
        .map_err(kernel_failed("sensitive or kept"))?;
    Ok(compare)
}
