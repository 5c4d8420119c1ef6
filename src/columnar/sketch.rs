//! What must be known of a whole table before it can be cut into cells: all values of the quasi-identifiers, and a
//! sample of how they occur together.
//!
//! The sample holds the tuples with the smallest keyed hashes, each with the exact number of its rows.
//! Which tuples these are depends on values and the seed: not on where rows stand, how they are
//! partitioned, or which part is merged first.

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{UInt32Type, UInt64Type};

use super::domain::{Domain, ResolvedHierarchy};
use super::intern::{Interner, MISSING};
use super::kernel_failed;
use super::pages::Page;
use super::read::Layout;
use super::row_hash::RowHasher;
use super::values::with_missing;
use crate::error::{Error, Result};
use crate::model::Seed;

/// Tuples in the sample of a table.
const SAMPLE_TUPLES: usize = 1 << 16;

/// All values of a column; a missing one is the first.
const VALUES: u32 = 1;
/// Hashes, counts and values, by their numbers, of sampled tuples.
const SAMPLE: u32 = 2;

/// Takes in the rows of one partition.
#[derive(Debug)]
pub(crate) struct Sketcher {
    columns: Vec<SketchedColumn>,
    /// The first columns, which sampled tuples are made of.
    sampled: usize,
    sample: Smallest,
    most_tuples: usize,
}

/// One quasi-identifier: its values by number and the keyed hash of each.
#[derive(Debug)]
struct SketchedColumn {
    at: usize,
    interner: Interner,
    hasher: RowHasher,
    /// By number.
    hashes: Vec<u128>,
    numbers: Vec<u32>,
}

impl SketchedColumn {
    fn new(layout: &Layout, at: usize, seed: Seed) -> Result<Self> {
        let field = layout.schema.field(at);
        let interner = Interner::new(field.name(), field.data_type());
        let hasher = RowHasher::new(&[0], &[interner.plain_type().clone()], seed)?;
        Ok(Self {
            at,
            interner,
            hasher: hasher.ok_or_else(|| Error::bug("a column has no hash"))?,
            hashes: vec![mixed(u64::MAX)],
            numbers: Vec::new(),
        })
    }

    /// Numbers the values of a batch and hashes those that are new.
    fn take_in(&mut self, array: &ArrayRef) -> Result<()> {
        self.numbers.clear();
        self.interner.intern(array, &mut self.numbers)?;
        let mut fresh = Vec::new();
        for (row, number) in self.numbers.iter().enumerate() {
            if *number as usize == self.hashes.len() + fresh.len() {
                fresh.push(row as u32);
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let values = take(array, &UInt32Array::from(fresh), None).map_err(kernel_failed("any"))?;
        // The same value has the same hash in any encoding.
        let values = self.interner.plain(&values)?;
        let mut hashes = Vec::new();
        self.hasher.hash(&[values], &mut hashes)?;
        self.hashes.extend(hashes.into_iter().map(mixed));
        match self.hashes.len() == self.interner.len() as usize {
            true => Ok(()),
            false => Err(Error::bug("a value was numbered and not hashed")),
        }
    }
}

/// Widens a hash to 128 bits, so that no two tuples of a table collide by chance.
fn mixed(hash: u64) -> u128 {
    let half = |key: u64| {
        let mut hasher = siphasher::sip::SipHasher13::new_with_keys(key, 0);
        hasher.write_u64(hash);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

/// The hash of a tuple from those of its values; the place of a value counts.
fn joined(hash: u128, value: u128) -> u128 {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let folded = (hash ^ value).wrapping_mul(ODD);
    folded ^ folded.rotate_left(61)
}

impl Sketcher {
    /// Of these quasi-identifiers of a layout the first `sampled` ones are looked at together.
    pub(crate) fn new(layout: &Layout, sampled: usize, seed: Seed) -> Result<Self> {
        let column = |at: &usize| SketchedColumn::new(layout, *at, seed);
        Ok(Self {
            columns: layout.quasi_identifiers.iter().map(column).collect::<Result<_>>()?,
            sampled,
            sample: Smallest::default(),
            most_tuples: SAMPLE_TUPLES,
        })
    }

    /// Takes in a batch of the input.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        for column in &mut self.columns {
            let array = batch.column(column.at);
            column.take_in(array)?;
        }
        let sampled = &self.columns[..self.sampled];
        for row in 0..batch.num_rows() {
            let hash = sampled
                .iter()
                .fold(0, |hash, column| joined(hash, column.hashes[column.numbers[row] as usize]));
            let tuple = || sampled.iter().map(|column| column.numbers[row]).collect();
            self.sample.add(hash, 1, tuple, self.most_tuples);
        }
        Ok(())
    }

    /// Bytes held, roughly.
    pub(crate) fn memory(&self) -> usize {
        let columns = self.columns.iter();
        let values = columns.map(|column| column.interner.memory() + column.hashes.len() * 16);
        values.sum::<usize>() + self.sample.tuples.len() * (48 + 4 * self.sampled)
    }

    /// The sketch of this partition as pages.
    pub(crate) fn finish(mut self) -> Result<Vec<Page>> {
        let mut pages = Vec::with_capacity(self.columns.len() + 1);
        for (at, column) in self.columns.iter().enumerate() {
            let values = column.interner.values()?;
            let values = with_missing(&values, column.interner.has_missing(), "any")?;
            pages.push(Page::new(VALUES, at, vec![values])?);
        }
        self.sample.shrink(self.most_tuples);
        let sample = self.sample.in_order();
        let half = |shift: u32| {
            let halves = sample.iter().map(|(hash, _)| (hash >> shift) as u64);
            Arc::new(UInt64Array::from_iter_values(halves)) as ArrayRef
        };
        let counts = sample.iter().map(|(_, tuple)| tuple.rows);
        let mut arrays =
            vec![half(64), half(0), Arc::new(UInt64Array::from_iter_values(counts)) as ArrayRef];
        for column in 0..self.sampled {
            let numbers = sample.iter().map(|(_, tuple)| tuple.values[column]);
            arrays.push(Arc::new(UInt32Array::from_iter_values(numbers)));
        }
        pages.push(Page::new(SAMPLE, 0, arrays)?);
        Ok(pages)
    }
}

#[derive(Debug, Clone)]
struct Tuple {
    rows: u64,
    values: Vec<u32>,
}

/// The tuples with the smallest hashes.
#[derive(Debug)]
struct Smallest {
    tuples: HashMap<u128, Tuple>,
    /// Larger hashes are not among them any more.
    largest: u128,
}

impl Default for Smallest {
    fn default() -> Self {
        Self { tuples: HashMap::new(), largest: u128::MAX }
    }
}

impl Smallest {
    #[inline]
    fn add(&mut self, hash: u128, rows: u64, values: impl FnOnce() -> Vec<u32>, most: usize) {
        if hash > self.largest {
            return;
        }
        self.tuples
            .entry(hash)
            .and_modify(|tuple| tuple.rows += rows)
            .or_insert_with(|| Tuple { rows, values: values() });
        if self.tuples.len() > 2 * most {
            self.shrink(most);
        }
    }

    fn shrink(&mut self, most: usize) {
        if self.tuples.len() <= most {
            return;
        }
        let mut hashes: Vec<u128> = self.tuples.keys().copied().collect();
        let (_, largest, _) = hashes.select_nth_unstable(most - 1);
        self.largest = *largest;
        self.tuples.retain(|hash, _| *hash <= self.largest);
    }

    fn in_order(&self) -> Vec<(u128, &Tuple)> {
        let mut tuples: Vec<(u128, &Tuple)> =
            self.tuples.iter().map(|(hash, tuple)| (*hash, tuple)).collect();
        tuples.sort_unstable_by_key(|(hash, _)| *hash);
        tuples
    }
}

/// Sketches of all partitions together.
#[derive(Debug)]
pub(crate) struct Sketch {
    /// The quasi-identifiers of the whole table.
    pub(crate) domains: Vec<Domain>,
    /// Codes of the sampled tuples, one after the other.
    pub(crate) codes: Vec<u32>,
    /// Rows of each of them.
    pub(crate) weights: Vec<u64>,
}

impl Sketch {
    /// Merges the pages of all partitions; their order does not matter.
    pub(crate) fn merge(
        layout: &Layout,
        partitions: &[Vec<Page>],
        hierarchies: &[Option<ResolvedHierarchy>],
    ) -> Result<Self> {
        let field = |at: usize| layout.schema.field(layout.quasi_identifiers[at]);
        let mut interners: Vec<Interner> = (0..layout.quasi_identifiers.len())
            .map(|at| Interner::new(field(at).name(), field(at).data_type()))
            .collect();
        let mut sample = Smallest::default();
        for pages in partitions {
            let mut numbers: Vec<Vec<u32>> = vec![Vec::new(); interners.len()];
            for page in pages.iter().filter(|page| page.kind == VALUES) {
                let at = page.column as usize;
                let interner = interners.get_mut(at).ok_or_else(foreign)?;
                interner.intern(page.array(0)?, &mut numbers[at])?;
                // Numbers of the partition start behind that of the missing value.
                if numbers[at].first() != Some(&MISSING) {
                    numbers[at].insert(0, MISSING);
                }
            }
            for page in pages.iter().filter(|page| page.kind == SAMPLE) {
                sample.add_page(page, &numbers)?;
            }
        }
        sample.shrink(SAMPLE_TUPLES);
        let (mut domains, mut remaps) = (Vec::new(), Vec::new());
        for (at, (interner, hierarchy)) in interners.iter().zip(hierarchies).enumerate() {
            let (name, data_type) = (field(at).name(), field(at).data_type());
            let (domain, remap) = Domain::new(name, data_type, &[interner], hierarchy.as_ref())?;
            domains.push(domain);
            remaps.extend(remap);
        }
        let (mut codes, mut weights) = (Vec::new(), Vec::new());
        for (_, tuple) in sample.in_order() {
            weights.push(tuple.rows);
            let coded = tuple.values.iter().zip(&remaps);
            codes.extend(coded.map(|(number, remap)| remap[*number as usize]));
        }
        Ok(Self { domains, codes, weights })
    }
}

fn foreign() -> Error {
    Error::bug("a sketch of another table came along")
}

impl Smallest {
    /// Adds the sample of a partition; `numbers` translates its values.
    fn add_page(&mut self, page: &Page, numbers: &[Vec<u32>]) -> Result<()> {
        let [high, low, rows] =
            [0, 1, 2].map(|at| page.numbers::<UInt64Type>(at).map(<[u64]>::to_vec));
        let (high, low, rows) = (high?, low?, rows?);
        let columns = page.table.num_columns() - 3;
        let tuples = (0..columns).map(|at| page.numbers::<UInt32Type>(3 + at));
        let tuples = tuples.collect::<Result<Vec<&[u32]>>>()?;
        for row in 0..page.table.num_rows() {
            let hash = u128::from(high[row]) << 64 | u128::from(low[row]);
            let values = tuples.iter().zip(numbers);
            let values = values.map(|(tuple, numbers)| numbers.get(tuple[row] as usize).copied());
            let values: Vec<u32> = values.collect::<Option<_>>().ok_or_else(foreign)?;
            self.add(hash, rows[row], || values, SAMPLE_TUPLES);
        }
        Ok(())
    }
}
