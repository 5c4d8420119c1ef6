//! Which values of different columns go together: frequent sets of items and the rules in them.
//!
//! An *item* is a value or a hierarchy node of one column, held as a bitmap of the rows that have it.
//! A set of items has at most one of every column. The sets are found level by level (Apriori):
//! a set is counted only if all its subsets are frequent, and counting is an AND of bitmaps over
//! stretches of rows short enough for the cache.
//!
//! A table of many columns can have more frequent sets than anybody can count. [`Limits::work`] bounds
//! the words that are read: sets whose subsets have the least support are left out first, and how many
//! were left out is told ([`Frequent::cut`]).

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;

use crate::error::Result;
use crate::model::Cancel;

/// The most items a set can have.
pub const MAX_SET: usize = 8;

/// Rows that a set of bitmaps is counted over at once, in words of 64.
const STRETCH: usize = 256;

/// Words that may be read to find all frequent sets, unless a caller says otherwise: one to two
/// seconds on two cores.
pub const DEFAULT_WORK: u64 = 1 << 33;

/// The most sets that are remembered, so that memory stays bounded too.
const MOST_SETS: usize = 1 << 21;

/// Counting a set costs at least as much as this many words.
const LEAST_WORDS: u64 = 64;

/// Items of different columns, ascending; unused places hold `u16::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemSet([u16; MAX_SET]);

impl ItemSet {
    /// A set of these items, which must be at most [`MAX_SET`]; more are not taken in.
    pub fn new(items: &[u16]) -> Self {
        let mut set = [u16::MAX; MAX_SET];
        set.iter_mut().zip(items).for_each(|(place, item)| *place = *item);
        set.sort_unstable();
        Self(set)
    }

    /// The items in ascending order.
    pub fn items(&self) -> &[u16] {
        let len = self.0.iter().position(|item| *item == u16::MAX).unwrap_or(MAX_SET);
        &self.0[..len]
    }

    /// The set without the item at a position.
    pub fn without(&self, position: usize) -> Self {
        let mut set = self.0;
        set.copy_within(position + 1.., position);
        set[MAX_SET - 1] = u16::MAX;
        Self(set)
    }

    /// The set with another item at a position.
    pub fn with(&self, position: usize, item: u16) -> Self {
        let mut set = self.0;
        set[position] = item;
        set.sort_unstable();
        Self(set)
    }
}

/// Bitmaps of rows, one for every item.
#[derive(Debug, Default)]
pub struct Items {
    rows: usize,
    /// By item, its column.
    columns: Vec<u16>,
    bits: Vec<Vec<u64>>,
}

impl Items {
    /// No items yet of a table of so many rows.
    pub fn new(rows: usize) -> Self {
        Self { rows, columns: Vec::new(), bits: Vec::new() }
    }

    /// Adds an item: the rows of a column for which `has` says so. Items of one column must be added one
    /// after the other. Returns its number, `None` if there are too many.
    pub fn add(&mut self, column: u16, has: impl Fn(usize) -> bool) -> Option<u16> {
        let number = u16::try_from(self.bits.len()).ok().filter(|number| *number < u16::MAX)?;
        let word = |word: usize| {
            let rows = word * 64..(word * 64 + 64).min(self.rows);
            rows.fold(0u64, |bits, row| bits | (u64::from(has(row)) << (row % 64)))
        };
        self.bits.push((0..self.rows.div_ceil(64)).map(word).collect());
        self.columns.push(column);
        Some(number)
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.bits.len()
    }

    /// The column of an item.
    pub fn column(&self, item: u16) -> u16 {
        self.columns[item as usize]
    }

    fn support(&self, item: u16) -> u32 {
        self.bits[item as usize].iter().map(|word| word.count_ones()).sum()
    }
}

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The fewest rows that have all items of a set.
    pub support: u32,
    /// The most items of a set, at most [`MAX_SET`].
    pub items: usize,
    /// The most words that are read.
    pub work: u64,
}

/// Sets of items that enough rows have, with the number of those rows.
#[derive(Debug, Default)]
pub struct Frequent {
    /// By set, the rows that have all its items.
    pub supports: HashMap<ItemSet, u32, FixedState>,
    /// How many sets were not counted because the work would have been too much.
    pub cut: u64,
}

impl Frequent {
    /// Finds the frequent sets of one item or more. Works on the current rayon pool.
    pub fn find(items: &Items, limits: Limits, cancel: &Cancel) -> Result<Self> {
        let words = (items.rows.div_ceil(64) as u64).max(LEAST_WORDS);
        let mut left = limits.work;
        let mut found = Self::default();
        let mut level: Vec<ItemSet> = Vec::new();
        for item in 0..items.len() as u16 {
            let support = items.support(item);
            if support >= limits.support.max(1) {
                level.push(ItemSet::new(&[item]));
                found.supports.insert(ItemSet::new(&[item]), support);
            }
        }
        for size in 2..=limits.items.min(MAX_SET) {
            cancel.check()?;
            let affordable = usize::try_from(left / words).unwrap_or(usize::MAX);
            let affordable = affordable.min(MOST_SETS.saturating_sub(found.supports.len()));
            let candidates = found.candidates(&level, items, affordable, cancel)?;
            left = left.saturating_sub(candidates.len() as u64 * words);
            let supports = count(items, &candidates, size, cancel)?;
            level.clear();
            for (candidate, support) in candidates.into_iter().zip(supports) {
                if support >= limits.support.max(1) {
                    level.push(candidate);
                    found.supports.insert(candidate, support);
                }
            }
            if level.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// Sets of one item more whose subsets are all frequent, ascending. Of more than `most`, those
    /// whose subsets have the most support.
    fn candidates(
        &mut self,
        level: &[ItemSet],
        items: &Items,
        most: usize,
        cancel: &Cancel,
    ) -> Result<Vec<ItemSet>> {
        let mut candidates: Vec<(u32, ItemSet)> = Vec::new();
        // Sets of a level are ascending: those that share all but the last item are neighbours.
        for run in level.chunk_by(|a, b| {
            let last = a.items().len() - 1;
            a.items()[..last] == b.items()[..last]
        }) {
            cancel.check()?;
            for (at, one) in run.iter().enumerate() {
                for other in &run[at + 1..] {
                    let (Some(a), Some(b)) = (one.items().last(), other.items().last()) else {
                        continue;
                    };
                    if items.column(*a) == items.column(*b) {
                        continue;
                    }
                    let mut joined = one.0;
                    joined[one.items().len()] = *b;
                    let joined = ItemSet(joined);
                    if let Some(bound) = self.bound(&joined) {
                        candidates.push((bound, joined));
                    }
                    // Far more than can be counted: keep the best half, so that memory stays bounded.
                    if candidates.len() > most.saturating_mul(2).max(1 << 16) {
                        self.keep_best(&mut candidates, most);
                    }
                }
            }
        }
        self.keep_best(&mut candidates, most);
        let mut candidates: Vec<ItemSet> = candidates.into_iter().map(|(_, set)| set).collect();
        candidates.sort_unstable();
        Ok(candidates)
    }

    fn keep_best(&mut self, candidates: &mut Vec<(u32, ItemSet)>, most: usize) {
        if candidates.len() > most {
            candidates.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            self.cut += (candidates.len() - most) as u64;
            candidates.truncate(most);
        }
    }

    /// The most rows a set can have by its subsets, `None` if one of them is not frequent.
    fn bound(&self, set: &ItemSet) -> Option<u32> {
        let subsets = (0..set.items().len()).map(|position| set.without(position));
        subsets
            .map(|subset| self.supports.get(&subset).copied())
            .try_fold(u32::MAX, |least, of| of.map(|support| least.min(support)))
    }

    /// The best rule in a set: the largest share of the rows with all items but one that have the
    /// last one too. 0 for a set of one item.
    pub fn confidence(&self, set: &ItemSet) -> f64 {
        let Some(support) = self.supports.get(set) else { return 0.0 };
        let rules = (0..set.items().len()).filter_map(|position| {
            let rest = self.supports.get(&set.without(position))?;
            Some(f64::from(*support) / f64::from(*rest))
        });
        rules.fold(0.0, f64::max)
    }

    /// How many times as often one item of a set is where all others are as in the whole table of so many
    /// rows, for the item for which that is most. 0 for a set of one item.
    pub fn lift(&self, set: &ItemSet, rows: usize) -> f64 {
        let Some(support) = self.supports.get(set) else { return 0.0 };
        let rules = (0..set.items().len()).filter_map(|position| {
            let rest = self.supports.get(&set.without(position))?;
            let item = self.supports.get(&ItemSet::new(&[set.items()[position]]))?;
            Some(f64::from(*support) * rows as f64 / (f64::from(*rest) * f64::from(*item)))
        });
        rules.fold(0.0, f64::max)
    }

    /// The rules of all sets: if a row has all items of a set but the one at a position, it has that
    /// one too, in at least this share of the cases.
    pub fn rules(&self, confidence: f64) -> HashSet<(ItemSet, u16), FixedState> {
        let sets = self.supports.iter().filter(|(set, _)| set.items().len() > 1);
        let rules = sets.flat_map(|(set, support)| {
            (0..set.items().len()).filter_map(move |position| {
                let rest = self.supports.get(&set.without(position))?;
                let holds = f64::from(*support) >= confidence * f64::from(*rest) - ROUNDING;
                holds.then(|| (*set, set.items()[position]))
            })
        });
        rules.collect()
    }
}

/// A share met exactly must not fail by rounding.
const ROUNDING: f64 = 1e-6;

/// The rows that have all items of each set. Sets are ascending, so neighbours share most items.
fn count(items: &Items, sets: &[ItemSet], size: usize, cancel: &Cancel) -> Result<Vec<u32>> {
    let words = items.rows.div_ceil(64);
    let stretches: Vec<usize> = (0..words).step_by(STRETCH).collect();
    let parts = stretches.len().max(1);
    // Few rows and many sets, or many rows: whichever there is more of is shared out.
    let piece = sets.len().div_ceil(if parts > 8 { 1 } else { 64 }).max(1);
    let mut counts = vec![0u32; sets.len()];
    let work: Vec<Vec<u32>> = sets
        .par_chunks(piece)
        .map(|sets| {
            cancel.check()?;
            let of_stretch = |start: &usize| {
                let words = *start..(*start + STRETCH).min(words);
                count_stretch(items, sets, size, words)
            };
            let sum = |mut a: Vec<u32>, b: Vec<u32>| {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                a
            };
            Ok(stretches.par_iter().map(of_stretch).reduce(|| vec![0; sets.len()], sum))
        })
        .collect::<Result<_>>()?;
    counts.iter_mut().zip(work.into_iter().flatten()).for_each(|(count, of)| *count = of);
    Ok(counts)
}

fn count_stretch(
    items: &Items,
    sets: &[ItemSet],
    size: usize,
    words: std::ops::Range<usize>,
) -> Vec<u32> {
    let bits = |item: u16| &items.bits[item as usize][words.clone()];
    let mut prefix: Option<ItemSet> = None;
    let mut common = vec![0u64; words.len()];
    let count = |set: &ItemSet| -> u32 {
        let (last, shared) = (set.0[size - 1], set.without(size - 1));
        if prefix != Some(shared) {
            common.copy_from_slice(bits(set.0[0]));
            for item in &set.0[1..size - 1] {
                common.iter_mut().zip(bits(*item)).for_each(|(a, b)| *a &= b);
            }
            prefix = Some(shared);
        }
        common.iter().zip(bits(last)).map(|(a, b)| (a & b).count_ones()).sum()
    };
    sets.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows over three columns of three values; the last column repeats the first in all rows but one.
    fn table(rows: usize) -> Vec<[u16; 3]> {
        let row = |row: usize| {
            let first = (row * 7 % 10 / 4) as u16;
            [first, (row % 3) as u16, if row == 5 { 2 - first } else { first }]
        };
        (0..rows).map(row).collect()
    }

    fn items(table: &[[u16; 3]]) -> Items {
        let mut items = Items::new(table.len());
        for column in 0..3 {
            for value in 0..3 {
                items.add(column, |row| table[row][column as usize] == value);
            }
        }
        items
    }

    fn supports(table: &[[u16; 3]], set: &ItemSet) -> u32 {
        let has =
            |row: &&[u16; 3]| set.items().iter().all(|item| row[*item as usize / 3] == *item % 3);
        table.iter().filter(has).count() as u32
    }

    #[test]
    fn every_frequent_set_is_found_with_its_support() -> Result<()> {
        // More rows than one stretch holds, so that counts are put together.
        let table = table(STRETCH * 64 + 321);
        let least = table.len() as u32 / 20;
        let limits = Limits { support: least, items: 3, work: u64::MAX };
        let found = Frequent::find(&items(&table), limits, &Cancel::default())?;
        let mut expected = 0;
        for a in 0..4u16 {
            for b in 0..4u16 {
                for c in 0..4u16 {
                    let chosen = [(a, 0u16), (b, 3), (c, 6)];
                    let chosen = chosen.iter().filter(|(value, _)| *value < 3);
                    let set: Vec<u16> = chosen.map(|(value, first)| first + value).collect();
                    let set = ItemSet::new(&set);
                    let support = supports(&table, &set);
                    if !set.items().is_empty() && support >= least {
                        expected += 1;
                        assert_eq!(found.supports.get(&set), Some(&support), "{set:?}");
                    }
                }
            }
        }
        assert_eq!((found.supports.len(), found.cut), (expected, 0));
        Ok(())
    }

    #[test]
    fn rules_are_those_that_hold_often_enough() -> Result<()> {
        let table = table(100);
        let limits = Limits { support: 10, items: 3, work: u64::MAX };
        let found = Frequent::find(&items(&table), limits, &Cancel::default())?;
        let rules = found.rules(0.9);
        // The last column repeats the first, in both directions.
        assert!(rules.contains(&(ItemSet::new(&[0, 6]), 6)));
        assert!(rules.contains(&(ItemSet::new(&[0, 6]), 0)));
        assert!(rules.iter().all(|(set, then)| {
            let position = set.items().iter().position(|item| item == then);
            let rest = position.map(|position| supports(&table, &set.without(position)));
            f64::from(supports(&table, set)) >= 0.9 * f64::from(rest.unwrap_or(u32::MAX))
        }));
        assert!(!rules.iter().any(|(set, _)| set.items().iter().all(|item| *item < 6)));
        Ok(())
    }

    #[test]
    fn too_much_work_is_cut_and_counted() -> Result<()> {
        let table = table(100);
        let all = Limits { support: 1, items: 3, work: u64::MAX };
        let all = Frequent::find(&items(&table), all, &Cancel::default())?;
        let few = Limits { support: 1, items: 3, work: 20 * LEAST_WORDS };
        let few = Frequent::find(&items(&table), few, &Cancel::default())?;
        assert!(few.cut > 0 && few.supports.len() < all.supports.len());
        assert!(few.supports.iter().all(|(set, support)| all.supports.get(set) == Some(support)));
        let nothing = Limits { support: 1, items: 3, work: 0 };
        let nothing = Frequent::find(&items(&table), nothing, &Cancel::default())?;
        assert_eq!(nothing.supports.len(), 9, "single items cost nothing");
        Ok(())
    }
}
