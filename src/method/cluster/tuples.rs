//! The rows of a block in canonical order, equal ones collapsed.

use std::cmp::Ordering;

use super::distance::Column;
use crate::model::{Code, Row, RowKeys};

/// The distinct tuples of a block.
///
/// Rows stand sorted by the codes of the columns, in the order the columns are searched, and then by
/// key: where a row stood in the input has no say in anything that follows.
#[derive(Debug)]
pub(super) struct Tuples {
    /// Per column the code of every tuple.
    pub(super) codes: Vec<Vec<u32>>,
    /// Position of the first row of every tuple, and the number of rows.
    starts: Vec<u32>,
    /// Number of every row in the payload.
    pub(super) ids: Vec<u32>,
}

impl Tuples {
    /// Sorts the rows and collapses them.
    pub(super) fn new<C: Code, const W: usize>(
        rows: &mut [Row<C, W>],
        columns: &[Column<'_>],
        keys: &RowKeys,
    ) -> Self {
        let compare_codes = |a: &Row<C, W>, b: &Row<C, W>| {
            let differ = |column: &Column<'_>| {
                let order = a.codes[column.index].cmp(&b.codes[column.index]);
                (order != Ordering::Equal).then_some(order)
            };
            columns.iter().find_map(differ).unwrap_or(Ordering::Equal)
        };
        rows.sort_unstable_by(|a, b| compare_codes(a, b).then_with(|| keys.compare(a.id, b.id)));
        let mut starts = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if at == 0 || compare_codes(&rows[at - 1], row) != Ordering::Equal {
                starts.push(at as u32);
            }
        }
        let codes_of = |column: &Column<'_>| {
            starts.iter().map(|at| rows[*at as usize].codes[column.index].get()).collect()
        };
        let codes = columns.iter().map(codes_of).collect();
        starts.push(rows.len() as u32);
        Self { codes, starts, ids: rows.iter().map(|row| row.id).collect() }
    }

    /// Number of distinct tuples.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.ids.len()
    }

    /// Positions of a tuple's rows.
    pub(super) fn positions(&self, tuple: usize) -> std::ops::Range<usize> {
        self.starts[tuple] as usize..self.starts[tuple + 1] as usize
    }

    /// The tuple of every row, by position.
    pub(super) fn tuple_of_rows(&self) -> Vec<u32> {
        (0..self.len()).flat_map(|tuple| self.positions(tuple).map(move |_| tuple as u32)).collect()
    }
}
