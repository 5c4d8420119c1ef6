//! Rows, modelled values and persons, counted by leaf of a cut tree: per partition, then merged.
//!
//! Numbers of pages are shared with [`cells`](super::cells).

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{UInt32Type, UInt64Type};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::domain::plain_codes;
use super::intern::{Interner, MISSING};
use super::levels::ModelledValues;
use super::pages::{Page, mismatched, page};
use super::read::Layout;
use super::row_hash::RowHasher;
use super::values::with_missing;
use crate::error::{Error, Result};
use crate::model::Seed;

/// Rows by leaf.
const ROWS: u32 = 13;
/// Values of a modelled column.
const MODELLED: u32 = 14;
/// Leaf, value by its place among the values, rows.
const MODELLED_COUNTS: u32 = 15;
/// Leaf, keyed hash of a person.
const PERSONS: u32 = 16;
/// How many rows name no person.
const NOBODY: u32 = 17;

/// Counts the rows of one partition by leaf.
#[derive(Debug)]
pub(crate) struct LeafCounter {
    rows: Vec<u64>,
    modelled: Vec<ModelledCounter>,
    persons: Option<PersonCounter>,
}

#[derive(Debug)]
struct ModelledCounter {
    at: usize,
    interner: Interner,
    numbers: Vec<u32>,
    counts: HashMap<(u32, u32), u64, FixedState>,
}

/// The persons with the smallest keyed hashes, as many as the requirement counts.
#[derive(Debug)]
struct PersonCounter {
    at: usize,
    hasher: RowHasher,
    hashes: Vec<u64>,
    most: usize,
    by_leaf: Vec<BTreeSet<u64>>,
    /// Rows without a person.
    nobody: u64,
}

impl PersonCounter {
    fn add(&mut self, leaf: usize, hash: u64) {
        let persons = &mut self.by_leaf[leaf];
        if persons.len() < self.most || persons.last().is_some_and(|last| hash < *last) {
            persons.insert(hash);
            if persons.len() > self.most {
                persons.pop_last();
            }
        }
    }
}

impl LeafCounter {
    /// Counts by leaf: rows, values of the first `modelled` columns that models look at and, up to `persons`,
    /// the persons of the last, the privacy unit.
    pub(crate) fn new(
        layout: &Layout,
        leaves: usize,
        modelled: usize,
        persons: Option<usize>,
        seed: Seed,
    ) -> Result<Self> {
        let unit = persons.zip(layout.modelled.last()).map(|(most, unit)| (*unit, most));
        let modelled = &layout.modelled[..modelled.min(layout.modelled.len())];
        let counter = |at: &usize| {
            let field = layout.schema.field(*at);
            ModelledCounter {
                at: *at,
                interner: Interner::new(field.name(), field.data_type()),
                numbers: Vec::new(),
                counts: HashMap::with_hasher(FixedState::default()),
            }
        };
        let persons = unit.map(|(at, most)| {
            let data_type = layout.schema.field(at).data_type().clone();
            let hasher = RowHasher::new(&[0], &[data_type], seed)?;
            let hasher = hasher.ok_or_else(|| Error::bug("a column has no hash"))?;
            let by_leaf = vec![BTreeSet::new(); leaves];
            Ok(PersonCounter { at, hasher, hashes: Vec::new(), most, by_leaf, nobody: 0 })
        });
        Ok(Self {
            rows: vec![0; leaves],
            modelled: modelled.iter().map(counter).collect(),
            persons: persons.transpose()?,
        })
    }

    /// Counts a batch; `leaf_of` tells the leaf of a row.
    pub(crate) fn push(
        &mut self,
        batch: &RecordBatch,
        leaf_of: impl Fn(usize) -> u32,
    ) -> Result<()> {
        for column in &mut self.modelled {
            column.numbers.clear();
            column.interner.intern(batch.column(column.at), &mut column.numbers)?;
        }
        if let Some(persons) = &mut self.persons {
            persons.hashes.clear();
            let column = Arc::clone(batch.column(persons.at));
            persons.nobody += column.logical_null_count() as u64;
            persons.hasher.hash(&[column], &mut persons.hashes)?;
        }
        for row in 0..batch.num_rows() {
            let leaf = leaf_of(row);
            self.rows[leaf as usize] += 1;
            for column in &mut self.modelled {
                *column.counts.entry((leaf, column.numbers[row])).or_default() += 1;
            }
            if let Some(persons) = &mut self.persons {
                persons.add(leaf as usize, persons.hashes[row]);
            }
        }
        Ok(())
    }

    /// Bytes held, roughly.
    pub(crate) fn memory(&self) -> usize {
        let modelled = self.modelled.iter();
        let modelled = modelled.map(|of| of.interner.memory() + of.counts.capacity() * 20);
        let persons = self.persons.iter().flat_map(|persons| &persons.by_leaf);
        modelled.sum::<usize>() + persons.map(|leaf| leaf.len() * 12).sum::<usize>()
    }

    /// The counts as pages.
    pub(crate) fn finish(self) -> Result<Vec<Page>> {
        let rows: ArrayRef = Arc::new(UInt64Array::from(self.rows));
        let mut pages = vec![Page::new(ROWS, 0, vec![rows])?];
        for (at, column) in self.modelled.into_iter().enumerate() {
            let values = column.interner.values()?;
            pages.push(Page::new(MODELLED, at, vec![with_missing(&values, true, "any")?])?);
            let counts: Vec<((u32, u32), u64)> = column.counts.into_iter().collect();
            let leaves = UInt32Array::from_iter_values(counts.iter().map(|((leaf, _), _)| *leaf));
            let numbers = UInt32Array::from_iter_values(counts.iter().map(|((_, at), _)| *at));
            let rows = UInt64Array::from_iter_values(counts.iter().map(|(_, rows)| *rows));
            let arrays: Vec<ArrayRef> = vec![Arc::new(leaves), Arc::new(numbers), Arc::new(rows)];
            pages.push(Page::new(MODELLED_COUNTS, at, arrays)?);
        }
        if let Some(persons) = self.persons {
            let of_leaf = persons.by_leaf.into_iter().enumerate();
            let all: Vec<(u32, u64)> = of_leaf
                .flat_map(|(leaf, of)| of.into_iter().map(move |hash| (leaf as u32, hash)))
                .collect();
            let leaves = UInt32Array::from_iter_values(all.iter().map(|(leaf, _)| *leaf));
            let hashes = UInt64Array::from_iter_values(all.iter().map(|(_, hash)| *hash));
            pages.push(Page::new(PERSONS, 0, vec![Arc::new(leaves), Arc::new(hashes)])?);
            let nobody = UInt64Array::from(vec![persons.nobody]);
            pages.push(Page::new(NOBODY, 0, vec![Arc::new(nobody)])?);
        }
        Ok(pages)
    }
}

/// The counts of all partitions together.
#[derive(Debug)]
pub(crate) struct LeafCounts {
    /// Rows by leaf.
    pub(crate) rows: Vec<u64>,
    /// The modelled columns; the privacy unit is the last of them if the rows of persons are counted.
    pub(crate) modelled: Vec<ModelledCounts>,
    /// Smallest keyed hashes of the persons, by leaf; empty without a privacy unit.
    pub(crate) persons: Vec<BTreeSet<u64>>,
    /// Rows whose privacy unit is NULL.
    pub(crate) nobody: u64,
}

/// A modelled column of the whole table.
#[derive(Debug)]
pub(crate) struct ModelledCounts {
    pub(crate) values: ModelledValues,
    /// By leaf, code and rows.
    pub(crate) by_leaf: Vec<Vec<(u32, u64)>>,
}

impl ModelledCounts {
    pub(crate) fn codes(&self) -> usize {
        self.values.values.len() + usize::from(self.values.missing)
    }

    /// How often each code occurs in the table.
    pub(crate) fn population(&self) -> Vec<u64> {
        let mut population = vec![0; self.codes()];
        for (code, rows) in self.by_leaf.iter().flatten() {
            population[*code as usize] += rows;
        }
        population
    }

    fn merge(layout: &Layout, partitions: &[Vec<Page>], at: usize, leaves: usize) -> Result<Self> {
        let field = layout.schema.field(layout.modelled[at]);
        let of_column = |pages: &'_ [Page], kind: u32| {
            let found = pages.iter().find(|page| page.kind == kind && page.column as usize == at);
            found.cloned().ok_or_else(mismatched)
        };
        let mut interner = Interner::new(field.name(), field.data_type());
        let mut by_leaf: Vec<HashMap<u32, u64, FixedState>> = vec![HashMap::default(); leaves];
        let mut has_missing = false;
        for pages in partitions {
            let mut numbers = Vec::new();
            // The first one is missing in name: that tells nothing about the column.
            interner.intern(of_column(pages, MODELLED)?.array(0)?, &mut numbers)?;
            let counts = of_column(pages, MODELLED_COUNTS)?;
            let leaves = counts.numbers::<UInt32Type>(0)?.iter();
            let places = counts.numbers::<UInt32Type>(1)?;
            for ((leaf, place), rows) in leaves.zip(places).zip(counts.numbers::<UInt64Type>(2)?) {
                let number = *numbers.get(*place as usize).ok_or_else(mismatched)?;
                has_missing |= number == MISSING;
                let counts = by_leaf.get_mut(*leaf as usize).ok_or_else(mismatched)?;
                *counts.entry(number).or_default() += rows;
            }
        }
        let (mut values, remaps) = plain_codes(field.name(), &[&interner])?;
        // Codes were made as if something were missing.
        let shift = u32::from(!has_missing);
        values.missing = has_missing;
        let remap = remaps.first().ok_or_else(mismatched)?;
        let in_codes = |counts: HashMap<u32, u64, FixedState>| {
            let code = |(number, rows): (u32, u64)| match number {
                MISSING => (0, rows),
                _ => (remap[number as usize] - shift, rows),
            };
            let mut counts: Vec<(u32, u64)> = counts.into_iter().map(code).collect();
            counts.sort_unstable();
            counts
        };
        Ok(Self { values, by_leaf: by_leaf.into_iter().map(in_codes).collect() })
    }
}

impl LeafCounts {
    /// Merges the pages of all partitions; their order does not matter.
    pub(crate) fn merge(
        layout: &Layout,
        partitions: &[Vec<Page>],
        leaves: usize,
        modelled: usize,
    ) -> Result<Self> {
        let mut rows = vec![0; leaves];
        let mut persons: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); leaves];
        let mut nobody = 0;
        for pages in partitions {
            let counts = page(pages, ROWS)?.numbers::<UInt64Type>(0)?;
            if counts.len() != leaves {
                return Err(mismatched());
            }
            rows.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            for page in pages.iter().filter(|page| page.kind == PERSONS) {
                let leaves = page.numbers::<UInt32Type>(0)?;
                for (leaf, hash) in leaves.iter().zip(page.numbers::<UInt64Type>(1)?) {
                    persons.get_mut(*leaf as usize).ok_or_else(mismatched)?.insert(*hash);
                }
            }
            for page in pages.iter().filter(|page| page.kind == NOBODY) {
                nobody += page.numbers::<UInt64Type>(0)?.iter().sum::<u64>();
            }
        }
        let modelled = (0..modelled)
            .map(|at| ModelledCounts::merge(layout, partitions, at, leaves))
            .collect::<Result<_>>()?;
        Ok(Self { rows, modelled, persons, nobody })
    }
}
