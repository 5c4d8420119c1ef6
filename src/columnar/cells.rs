//! Rows of one partition in the codes of the whole table, and what the operator that anonymizes a cell must know of that
//! table.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::{UInt32Type, UInt64Type};

use super::domain::Domain;
use super::intern::{Interner, MISSING};
use super::leaf_counts::ModelledCounts;
use super::levels::ListedLevels;
use super::pages::{Page, mismatched, page, pages_to_batch, to_bytes};
use super::read::Layout;
use super::table::changed_input;
use super::values::with_missing;
use crate::error::Result;
use crate::method::cells::CutTree;

/// All values of a quasi-identifier in code order; a missing one is the first.
const DOMAIN: u32 = 10;
/// The cut tree.
const TREE: u32 = 11;
/// Sensitive values and their levels.
const LEVELS: u32 = 12;
/// Values of a modelled column of the whole table, and how often each occurs.
const POPULATION: u32 = 20;
/// Rows of the cell, rows of the table, cells.
const TOTALS: u32 = 21;

/// What the rows of a table are coded and counted by.
#[derive(Debug)]
pub(crate) struct Survey {
    /// By quasi-identifier, all values in code order; a missing one is the first.
    pub(crate) values: Vec<ArrayRef>,
    pub(crate) tree: CutTree,
    pub(crate) levels: Option<ListedLevels>,
}

impl Survey {
    /// The values of these domains, by leaf of a tree.
    pub(crate) fn new(
        domains: &[Domain],
        tree: CutTree,
        levels: Option<ListedLevels>,
    ) -> Result<Self> {
        let values =
            |domain: &Domain| with_missing(&domain.values, domain.axis.missing, &domain.name);
        Ok(Self { values: domains.iter().map(values).collect::<Result<_>>()?, tree, levels })
    }

    pub(crate) fn to_pages(&self) -> Result<Vec<Page>> {
        let mut pages = value_pages(&self.values)?;
        pages.push(tree_page(&self.tree)?);
        if let Some(ListedLevels(levels)) = &self.levels {
            let texts: StringArray = levels.iter().map(|(value, _)| value.as_deref()).collect();
            let levels = UInt32Array::from_iter_values(levels.iter().map(|(_, level)| *level));
            pages.push(Page::new(LEVELS, 0, vec![Arc::new(texts), Arc::new(levels)])?);
        }
        Ok(pages)
    }

    /// The survey among pages; `sampled` quasi-identifiers are cut.
    pub(crate) fn of_pages(pages: &[Page], columns: usize, sampled: usize) -> Result<Self> {
        let values = values_of_pages(pages, columns)?;
        let tree = tree_of_pages(pages, sampled)?;
        let levels = pages.iter().find(|page| page.kind == LEVELS).map(|page| {
            let texts = page.array(0)?.as_string_opt::<i32>().ok_or_else(mismatched)?;
            let levels = page.numbers::<UInt32Type>(1)?.iter().copied();
            let texts = texts.iter().map(|text| text.map(str::to_owned));
            Ok(ListedLevels(texts.zip(levels).collect()))
        });
        Ok(Self { values, tree, levels: levels.transpose()? })
    }
}

pub(super) fn tree_page(tree: &CutTree) -> Result<Page> {
    Page::new(TREE, 0, vec![Arc::new(UInt32Array::from(tree.to_numbers()))])
}

pub(super) fn tree_of_pages(pages: &[Page], sampled: usize) -> Result<CutTree> {
    let tree = page(pages, TREE)?.numbers::<UInt32Type>(0)?;
    CutTree::of_numbers(tree, sampled).ok_or_else(mismatched)
}

fn value_pages(values: &[ArrayRef]) -> Result<Vec<Page>> {
    let page = |(at, values): (usize, &ArrayRef)| Page::new(DOMAIN, at, vec![Arc::clone(values)]);
    values.iter().enumerate().map(page).collect()
}

fn values_of_pages(pages: &[Page], columns: usize) -> Result<Vec<ArrayRef>> {
    let of_column = |at: usize| {
        let is_page = |page: &&Page| page.kind == DOMAIN && page.column as usize == at;
        let page = pages.iter().find(is_page).ok_or_else(mismatched)?;
        page.array(0).map(Arc::clone)
    };
    (0..columns).map(of_column).collect()
}

/// Encodes the quasi-identifiers of rows in the codes of the whole table.
#[derive(Debug)]
pub(crate) struct GlobalCodes {
    columns: Vec<GlobalColumn>,
}

#[derive(Debug)]
struct GlobalColumn {
    at: usize,
    interner: Interner,
    /// One more than the largest number that is a value of the table.
    known: u32,
    missing: bool,
    codes: Vec<u32>,
}

impl GlobalCodes {
    /// Codes of these values, which are in code order.
    pub(crate) fn new(layout: &Layout, values: &[ArrayRef]) -> Result<Self> {
        let column = |(at, values): (&usize, &ArrayRef)| {
            let field = layout.schema.field(*at);
            let mut interner = Interner::new(field.name(), field.data_type());
            interner.intern(values, &mut Vec::with_capacity(values.len()))?;
            let (known, missing) = (interner.len(), interner.has_missing());
            // Values come without repetition: their numbers are their places.
            if known as usize != values.len() + usize::from(!missing) {
                return Err(mismatched());
            }
            Ok(GlobalColumn { at: *at, interner, known, missing, codes: Vec::new() })
        };
        let columns = layout.quasi_identifiers.iter().zip(values).map(column);
        Ok(Self { columns: columns.collect::<Result<_>>()? })
    }

    /// Encodes a batch. Values that were not there when the table was surveyed are an error.
    pub(crate) fn read(&mut self, batch: &RecordBatch) -> Result<()> {
        for column in &mut self.columns {
            column.codes.clear();
            column.interner.intern(batch.column(column.at), &mut column.codes)?;
            let grown = column.interner.len() > column.known;
            if grown || column.interner.has_missing() != column.missing {
                return Err(changed_input());
            }
            let shift = u32::from(!column.missing);
            for code in &mut column.codes {
                *code -= shift;
            }
        }
        Ok(())
    }

    /// The codes of a row of the last batch.
    #[inline]
    pub(crate) fn row(&self, row: usize, codes: &mut [u32]) {
        for (code, column) in codes.iter_mut().zip(&self.columns) {
            *code = column.codes[row];
        }
    }

    /// Whether a row of the last batch misses one of the first quasi-identifiers.
    pub(crate) fn is_incomplete(&self, row: usize, columns: usize) -> bool {
        self.columns[..columns].iter().any(|column| column.missing && column.codes[row] == MISSING)
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }
}

/// What the operator that anonymizes cells must know of the whole table.
#[derive(Debug)]
pub(crate) struct TableHeader {
    /// By quasi-identifier, all values; a missing one is the first.
    pub(crate) values: Vec<ArrayRef>,
    /// By modelled column, where the whole table counts: all values, and how often each occurs.
    pub(crate) populations: Vec<Option<(ArrayRef, Arc<[u64]>)>>,
    /// Rows of the table.
    pub(crate) rows: u64,
    /// Cells of the table.
    pub(crate) cells: u64,
}

impl TableHeader {
    /// The values of a modelled column, in code order, and their counts.
    pub(crate) fn population(counts: &ModelledCounts) -> Result<(ArrayRef, Arc<[u64]>)> {
        let values =
            with_missing(&counts.values.values, counts.values.missing, &counts.values.name)?;
        Ok((values, counts.population().into()))
    }

    pub(crate) fn to_pages(&self) -> Result<Vec<Page>> {
        let mut pages = value_pages(&self.values)?;
        for (at, population) in self.populations.iter().enumerate() {
            if let Some((values, counts)) = population {
                let counts: ArrayRef = Arc::new(UInt64Array::from(counts.to_vec()));
                pages.push(Page::new(POPULATION, at, vec![Arc::clone(values), counts])?);
            }
        }
        let totals = UInt64Array::from(vec![self.rows, self.cells]);
        pages.push(Page::new(TOTALS, 0, vec![Arc::new(totals)])?);
        Ok(pages)
    }

    /// All pages as one value.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        to_bytes(&pages_to_batch(&self.to_pages()?)?)
    }

    pub(crate) fn of_pages(pages: &[Page], columns: usize, modelled: usize) -> Result<Self> {
        let population = |at: usize| {
            let is_page = |page: &&Page| page.kind == POPULATION && page.column as usize == at;
            let page = pages.iter().find(is_page);
            let population = page.map(|page| {
                let counts = page.numbers::<UInt64Type>(1)?;
                Ok((Arc::clone(page.array(0)?), Arc::from(counts)))
            });
            population.transpose()
        };
        let [rows, cells] = page(pages, TOTALS)?.numbers::<UInt64Type>(0)? else {
            return Err(mismatched());
        };
        Ok(Self {
            values: values_of_pages(pages, columns)?,
            populations: (0..modelled).map(population).collect::<Result<_>>()?,
            rows: *rows,
            cells: *cells,
        })
    }
}
