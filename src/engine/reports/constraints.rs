//! From counts of published projections to whether every constraint holds.

use std::ops::Range;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;

use super::grouping::Groups;
use crate::hierarchy::TOP;
use crate::measure::Measure;

/// `privacy_report` with constraints, checked.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct ConstraintsSpec {
    /// What is checked, in the order in which it was written.
    pub(super) constraints: Vec<CheckedConstraint>,
    /// The columns of all constraints among the keys of the grouped input; bounds have two.
    pub(super) columns: Vec<Range<usize>>,
    /// Different sets of columns by which the input is grouped.
    pub(super) sets: Vec<Vec<usize>>,
}

/// One constraint of a report.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct CheckedConstraint {
    /// Names of the columns.
    pub(super) columns: String,
    pub(super) k: u32,
    /// Its columns, by their position among the sets.
    pub(super) set: usize,
}

/// Groups of equal projections on one set of columns.
#[derive(Debug, Default, Clone)]
struct Projections {
    /// Rows that publish nothing but `*`.
    suppressed: u64,
    /// Rows of every group, the one of `*` included: if it is small, it is known who is in it.
    sizes: Vec<u64>,
}

/// Reads the groups and measures them.
pub(super) async fn measure(
    spec: &ConstraintsSpec,
    mut published: SendableRecordBatchStream,
) -> Result<Vec<Measure>> {
    let mut found = vec![Projections::default(); spec.sets.len()];
    while let Some(batch) = published.next().await {
        let batch = batch?;
        for (number, projections) in found.iter_mut().enumerate() {
            projections.add(spec, number, &batch)?;
        }
    }
    let rows = found.first().map_or(0, Projections::rows);
    let mut measures = vec![Measure::of_table("rows", Some(rows as f64))];
    for (index, constraint) in spec.constraints.iter().enumerate() {
        measures.extend(found[constraint.set].measures(index, constraint.k));
    }
    Ok(measures)
}

impl Projections {
    fn rows(&self) -> u64 {
        self.sizes.iter().sum()
    }

    fn add(&mut self, spec: &ConstraintsSpec, number: usize, batch: &RecordBatch) -> Result<()> {
        let keys = spec.columns.last().map_or(0, |column| column.end);
        let columns = spec.sets[number].iter().map(|column| spec.columns[*column].clone());
        let widths: Vec<usize> = columns.clone().map(|column| column.len()).collect();
        let wanted = columns.flatten().map(|key| 1 + key);
        let groups = Groups::of_set(batch, 1 + keys, number as u32, wanted)?;
        for (group, rows) in groups.rows.iter().enumerate() {
            let mut parts = groups.columns.as_slice();
            let is_hidden = widths.iter().all(|width| {
                let (own, rest) = parts.split_at(*width);
                parts = rest;
                is_top(own, group)
            });
            let rows = rows.unsigned_abs();
            self.sizes.push(rows);
            if is_hidden {
                self.suppressed += rows;
            }
        }
        Ok(())
    }

    fn measures(&self, index: usize, k: u32) -> impl Iterator<Item = Measure> {
        let smallest = self.sizes.iter().min().map(|size| *size as f64);
        let violating = self.sizes.iter().filter(|size| **size < u64::from(k));
        let (mut groups, mut rows) = (0u64, 0u64);
        violating.for_each(|size| (groups, rows) = (groups + 1, rows + size));
        let holds = groups == 0 && smallest.is_some();
        let against_none = |name, found: u64| {
            Measure::of_table(name, Some(found as f64)).against(Some(0.0), found == 0)
        };
        let measures = [
            Measure::of_table("k", smallest).against(Some(f64::from(k)), holds),
            Measure::of_table("groups", Some(self.sizes.len() as f64)),
            against_none("violating_groups", groups),
            against_none("violating_rows", rows),
            Measure::of_table("suppressed_rows", Some(self.suppressed as f64)),
        ];
        measures.into_iter().map(move |measure| measure.of_column(index))
    }
}

/// Whether a published cell says nothing: `*`, or bounds without ends. NULL in a label is a missing
/// value, which says something.
fn is_top(cell: &[ArrayRef], at: usize) -> bool {
    match cell {
        [label] if *label.data_type() == DataType::Utf8View => {
            label.is_valid(at) && label.as_string_view().value(at) == TOP
        }
        [lower, upper] => lower.is_null(at) && upper.is_null(at),
        _ => false,
    }
}
