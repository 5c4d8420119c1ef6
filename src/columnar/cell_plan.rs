//! Which rows belong to which cell, as it is sent to the partitions of the input.

use std::sync::Arc;

use arrow::array::{UInt32Array, UInt64Array};
use arrow::datatypes::{UInt32Type, UInt64Type};

use super::cells::{TableHeader, tree_of_pages, tree_page};
use super::pages::{Page, mismatched, page};
use crate::error::Result;
use crate::method::cells::CutTree;

/// The cell of every leaf.
const CELL_OF_LEAF: u32 = 30;
/// By cell, the key that its rows are exchanged by, and how many there are.
const CELLS: u32 = 31;

/// The cells of a table, and what each of them must know of it.
#[derive(Debug)]
pub(crate) struct CellPlan {
    pub(crate) tree: CutTree,
    pub(crate) cell_of_leaf: Vec<u32>,
    /// What the rows of each cell are exchanged by.
    pub(crate) keys: Vec<u32>,
    /// Rows of each cell.
    pub(crate) rows: Vec<u64>,
    /// What every partition of cells must know of the table.
    pub(crate) header: TableHeader,
}

impl CellPlan {
    pub(crate) fn to_pages(&self) -> Result<Vec<Page>> {
        let mut pages = self.header.to_pages()?;
        pages.push(tree_page(&self.tree)?);
        let cell_of_leaf = UInt32Array::from(self.cell_of_leaf.clone());
        pages.push(Page::new(CELL_OF_LEAF, 0, vec![Arc::new(cell_of_leaf)])?);
        let (keys, rows) =
            (UInt32Array::from(self.keys.clone()), UInt64Array::from(self.rows.clone()));
        pages.push(Page::new(CELLS, 0, vec![Arc::new(keys), Arc::new(rows)])?);
        Ok(pages)
    }

    /// The plan among pages; of the quasi-identifiers, `sampled` are cut.
    pub(crate) fn of_pages(
        pages: &[Page],
        columns: usize,
        sampled: usize,
        modelled: usize,
    ) -> Result<Self> {
        let tree = tree_of_pages(pages, sampled)?;
        let cell_of_leaf = page(pages, CELL_OF_LEAF)?.numbers::<UInt32Type>(0)?.to_vec();
        let cells = page(pages, CELLS)?;
        let keys = cells.numbers::<UInt32Type>(0)?.to_vec();
        let rows = cells.numbers::<UInt64Type>(1)?.to_vec();
        let is_cell = |cell: &u32| (*cell as usize) < keys.len();
        if cell_of_leaf.len() != tree.leaves() as usize || !cell_of_leaf.iter().all(is_cell) {
            return Err(mismatched());
        }
        let header = TableHeader::of_pages(pages, columns, modelled)?;
        Ok(Self { tree, cell_of_leaf, keys, rows, header })
    }
}
