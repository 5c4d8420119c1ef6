//! The rows of a block in canonical order, equal ones collapsed.

use std::ops::Range;

use super::distance::{Column, Part};
use crate::model::{RowKeys, RowTable};

/// The distinct tuples of a block.
///
/// Rows are sorted by the codes of the columns, in the order the columns are searched, and then by
/// key: where a row stood in the input has no say in anything that follows.
#[derive(Debug)]
pub(super) struct Tuples {
    /// Per column the code of every tuple.
    pub(super) codes: Vec<Vec<u32>>,
    /// Position of the first row of every tuple, and the number of rows.
    starts: Vec<u32>,
    /// Number of every row in the payload.
    pub(super) ids: Vec<u32>,
    /// Where every row stood in the block.
    pub(super) order: Vec<u32>,
}

impl Tuples {
    /// Collapses the rows of a block, whose codes are read once so that they are compared whatever their shape.
    pub(super) fn new(
        rows: &RowTable,
        block: Range<usize>,
        columns: &[Column<'_>],
        keys: &RowKeys,
    ) -> Self {
        let width = columns.len();
        let mut codes = Vec::with_capacity(block.len() * width);
        let mut ids = Vec::with_capacity(block.len());
        let mut row = vec![0; columns.iter().map(|column| column.index + 1).max().unwrap_or(0)];
        for at in block {
            ids.push(rows.read(at, &mut row));
            codes.extend(columns.iter().map(|column| row[column.index]));
        }
        let tuple = |at: u32| &codes[at as usize * width..][..width];
        let id = |at: u32| ids[at as usize];
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        order.sort_unstable_by(|a, b| {
            tuple(*a).cmp(tuple(*b)).then_with(|| keys.compare(id(*a), id(*b)))
        });
        let is_first = |at: &usize| *at == 0 || tuple(order[*at - 1]) != tuple(order[*at]);
        let mut starts: Vec<u32> = (0..order.len()).filter(is_first).map(|at| at as u32).collect();
        let codes_of =
            |column: usize| starts.iter().map(|at| tuple(order[*at as usize])[column]).collect();
        let codes = (0..width).map(codes_of).collect();
        starts.push(order.len() as u32);
        Self { codes, starts, ids: order.iter().map(|at| id(*at)).collect(), order }
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

    /// The center of the rows at these positions, given the tuple of every row.
    pub(super) fn center(
        &self,
        columns: &[Column<'_>],
        rows: &[u32],
        tuple_of: &[u32],
    ) -> Vec<Part> {
        let center = |(column, codes): (&Column<'_>, &Vec<u32>)| {
            column.center(rows.iter().map(|at| codes[tuple_of[*at as usize] as usize]))
        };
        columns.iter().zip(&self.codes).map(center).collect()
    }
}
