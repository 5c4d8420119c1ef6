//! The order of rows that no quasi-identifier tells apart.
//!
//! Where a cut splits the rows of one tuple, some go left and some go right, and which do must say nothing
//! about them. Ordered by a hash of the sensitive value alone, rows of one value would stay together in every
//! tuple of the table, and a reader could learn the order of all values from one release. So rows are
//! ordered by a keyed hash of three things:
//!
//! 1. the tuple, so that every tuple has an order of values of its own;
//! 2. the sensitive values and the privacy unit, so that the order does not depend on how rows arrived;
//! 3. the row's number among those that are equal in both, so that rows of one value do not stay together.
//!
//! The kept columns that are read decide which of the equal rows gets which number. Rows that are equal there too
//! cannot be told apart. A query that reads fewer kept columns numbers the rows differently, but still puts the
//! same tuples and sensitive values into the same classes.

use std::cmp::Ordering;
use std::hash::Hasher;

use rayon::prelude::*;

use super::{Cancel, Code, Row, RowTable, Seed, Store, map_parts, with_rows};
use crate::error::{Error, Result};

/// Two keyed hashes per row, which order rows of equal quasi-identifiers independently of their order in the input.
#[derive(Debug, Default)]
pub struct RowKeys {
    /// Hash of the quasi-identifiers, the sensitive values and the number among equal rows; empty where
    /// rows have nothing beside their quasi-identifiers.
    pub ties: Store<u64>,
    /// Hash of the kept columns that are read, empty if there is none.
    pub kept: Store<u64>,
}

/// Rows that are sorted together, few enough for their hashes to stay in the cache.
const BUCKET_ROWS: usize = 2048;
const MOST_BUCKETS: usize = 1 << 16;

/// Bytes that [`RowKeys::break_ties`] takes.
pub fn work_bytes(rows: usize) -> usize {
    size_of::<u32>() * (rows + buckets(rows) + 1)
}

fn buckets(rows: usize) -> usize {
    (rows / BUCKET_ROWS).next_power_of_two().min(MOST_BUCKETS)
}

impl RowKeys {
    /// The keys of one row. Equal keys mean rows that nobody can tell apart.
    pub fn key(&self, id: u32) -> (u64, u64) {
        let at = |keys: &[u64]| keys.get(id as usize).copied().unwrap_or(0);
        (at(&self.ties), at(&self.kept))
    }

    /// Orders two rows of equal quasi-identifiers.
    pub fn compare(&self, a: u32, b: u32) -> Ordering {
        self.key(a).cmp(&self.key(b))
    }

    /// Turns `ties`, which holds the hashes of the sensitive values until then, into the keys of the rows. Every row
    /// must still be at the position that its id says. Works on the current rayon pool.
    pub fn break_ties(&mut self, rows: &RowTable, seed: Seed, cancel: &Cancel) -> Result<()> {
        if self.ties.is_empty() {
            return Ok(());
        }
        if self.ties.len() != rows.len() {
            return Err(Error::bug("rows and their keys are not equally many"));
        }
        let ties = &mut self.ties[..];
        with_rows!(rows, rows => hash_rows(rows, ties, seed))?;
        cancel.check()?;
        let mut order = in_buckets(ties);
        let kept = &self.kept[..];
        let key = |id: &u32| {
            let id = *id as usize;
            (ties[id], kept.get(id).copied().unwrap_or(0))
        };
        let sorted = order.slices().into_par_iter().try_for_each(|bucket| {
            cancel.check()?;
            // A single value of a single tuple may fill the bucket.
            bucket.par_sort_unstable_by_key(key);
            Ok(())
        });
        sorted?;
        number(ties, &order.ids, seed);
        Ok(())
    }
}

impl RowKeys {
    /// Makes the rows of one person with equal quasi-identifiers neighbours, so that a cut splits as few persons as
    /// possible. `units` are the persons by row. Only its person and its tuple decide where a row goes; the rows of
    /// one person keep their order.
    pub fn keep_persons_together(
        &mut self,
        rows: &RowTable,
        units: &[u32],
        seed: Seed,
    ) -> Result<()> {
        const PERSON: u64 = u64::MAX << 32;
        if self.ties.len() != rows.len() || units.len() != rows.len() {
            return Err(Error::bug("rows, their keys and their persons are not equally many"));
        }
        let mut persons: Vec<u64> = units.iter().map(|unit| u64::from(*unit)).collect();
        with_rows!(rows, rows => hash_rows(rows, &mut persons, seed))?;
        for (tie, person) in self.ties.iter_mut().zip(persons) {
            *tie = (person & PERSON) | (*tie >> 32);
        }
        Ok(())
    }
}

/// Rows that are hashed together.
const HASHED_ROWS: usize = 4096;

/// Puts the tuple into the hash of every row.
fn hash_rows<C: Code, const W: usize>(
    rows: &[Row<C, W>],
    ties: &mut [u64],
    seed: Seed,
) -> Result<()> {
    let chunks = rows.chunks(HASHED_ROWS).zip(ties.chunks_mut(HASHED_ROWS));
    let in_place = map_parts(chunks.zip(0..).collect(), &|((rows, ties), chunk)| {
        hash_chunk(rows, ties, seed, chunk * HASHED_ROWS)
    });
    match in_place.into_iter().all(|in_place| in_place) {
        true => Ok(()),
        false => Err(Error::bug("rows were moved before they had their keys")),
    }
}

/// The same for the rows from position `first` on; whether all of them are at the position that their id says.
fn hash_chunk<C: Code, const W: usize>(
    rows: &[Row<C, W>],
    ties: &mut [u64],
    seed: Seed,
    first: usize,
) -> bool {
    let mut in_place = true;
    for (at, (row, tie)) in rows.iter().zip(ties).enumerate() {
        let mut hasher = seed.hasher();
        match C::word(&row.codes) {
            Some(word) => hasher.write_u64(word),
            None => row.codes.chunks(2).for_each(|pair| {
                let of_pair = pair.iter().rev().map(|code| u64::from(code.get()));
                hasher.write_u64(of_pair.fold(0, |word, code| word << 32 | code));
            }),
        }
        hasher.write_u64(*tie);
        *tie = hasher.finish();
        in_place &= row.id as usize == first + at;
    }
    in_place
}

/// The numbers of all rows, those of equal hashes in the same bucket.
struct Buckets {
    ids: Vec<u32>,
    ends: Vec<u32>,
}

impl Buckets {
    fn slices(&mut self) -> Vec<&mut [u32]> {
        let mut slices = Vec::with_capacity(self.ends.len());
        let (mut rest, mut start) = (&mut self.ids[..], 0);
        for end in &self.ends {
            let (bucket, behind) = rest.split_at_mut((end - start) as usize);
            slices.push(bucket);
            (rest, start) = (behind, *end);
        }
        slices
    }
}

fn in_buckets(hashes: &[u64]) -> Buckets {
    let buckets = buckets(hashes.len());
    let bucket = |hash: &u64| *hash as usize & (buckets - 1);
    // Holds where each bucket starts, and once they are filled where each ends.
    let mut ends = vec![0u32; buckets + 1];
    hashes.iter().for_each(|hash| ends[bucket(hash) + 1] += 1);
    for at in 1..buckets {
        ends[at] += ends[at - 1];
    }
    ends.pop();
    let mut ids = vec![0u32; hashes.len()];
    for (id, hash) in hashes.iter().enumerate() {
        let place = &mut ends[bucket(hash)];
        ids[*place as usize] = id as u32;
        *place += 1;
    }
    Buckets { ids, ends }
}

/// Gives all rows of one hash but the first a new hash, by their number. In `order` equal hashes are neighbours.
fn number(ties: &mut [u64], order: &[u32], seed: Seed) {
    let (mut last, mut number) = (None, 0u32);
    for id in order {
        let tie = &mut ties[*id as usize];
        number = if last == Some(*tie) { number + 1 } else { 0 };
        last = Some(*tie);
        if number > 0 {
            let mut hasher = seed.hasher();
            hasher.write_u64(*tie);
            hasher.write_u32(number);
            *tie = hasher.finish();
        }
    }
}

#[cfg(test)]
mod tests;
