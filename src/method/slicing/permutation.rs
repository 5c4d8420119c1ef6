//! Permutations of a bucket's columns, drawn by the seed.
//!
//! No row keeps its own part of a column, and none keeps its own parts of any two columns: the
//! permutations differ from each other, and from leaving everything where it is, at every row.

use std::hash::Hasher;

use crate::error::{Error, Result};
use crate::model::Seed;

/// How often a permutation is drawn anew before one is mended instead. One in about 3^columns is good.
const TRIES: usize = 256;

/// If a permutation must differ from more than this many others, drawing one is hopeless: it is repaired at once.
const MOST_DRAWN: usize = 5;

/// A secret stream of numbers for one bucket.
struct Draws<'a> {
    seed: &'a Seed,
    /// A keyed hash of the bucket's rows: buckets of other rows are permuted in other ways.
    bucket: u64,
    drawn: u64,
}

impl Draws<'_> {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        let mut hasher = self.seed.hasher();
        // Told apart from every other hash under this seed.
        hasher.write_u8(3);
        hasher.write_u64(self.bucket);
        hasher.write_u64(self.drawn);
        self.drawn += 1;
        // The high half of the product: as even as 64 bits allow.
        ((u128::from(hasher.finish()) * end as u128) >> 64) as usize
    }
}

/// So many permutations of a bucket of so many rows. There must be fewer than the rows.
pub(super) fn permutations(
    seed: &Seed,
    bucket: u64,
    rows: usize,
    count: usize,
) -> Result<Vec<Vec<u32>>> {
    if count >= rows {
        return Err(Error::bug("a bucket has too few rows for its columns"));
    }
    let mut draws = Draws { seed, bucket, drawn: 0 };
    let mut taken: Vec<Vec<u32>> = vec![(0..rows as u32).collect()];
    for _ in 0..count {
        let tries = if taken.len() > MOST_DRAWN { 0 } else { TRIES };
        let drawn = (0..tries).find_map(|_| draw(&mut draws, &taken, rows));
        let permutation = match drawn.or_else(|| mend(&mut draws, &taken, rows)) {
            Some(permutation) => permutation,
            None => put_together(&mut draws, &taken, rows)?,
        };
        taken.push(permutation);
    }
    taken.remove(0);
    Ok(taken)
}

/// Whether a row may get a value, given the permutations there are.
fn may(taken: &[Vec<u32>], row: usize, value: u32) -> bool {
    taken.iter().all(|permutation| permutation[row] != value)
}

/// One permutation out of all, `None` at the first row that may not have its value.
fn draw(draws: &mut Draws, taken: &[Vec<u32>], rows: usize) -> Option<Vec<u32>> {
    let mut values: Vec<u32> = (0..rows as u32).collect();
    for row in 0..rows {
        let other = row + draws.below(rows - row);
        values.swap(row, other);
        if !may(taken, row, values[row]) {
            return None;
        }
    }
    Some(values)
}

/// Any permutation, each as likely as the others.
fn shuffled(draws: &mut Draws, rows: usize) -> Vec<u32> {
    let mut values: Vec<u32> = (0..rows as u32).collect();
    for row in 0..rows {
        let other = row + draws.below(rows - row);
        values.swap(row, other);
    }
    values
}

/// A permutation out of all in which every row that may not have its value changes with a random other one:
/// where there are many columns and many rows. `None` if no other one is found.
fn mend(draws: &mut Draws, taken: &[Vec<u32>], rows: usize) -> Option<Vec<u32>> {
    let mut values = shuffled(draws, rows);
    for row in 0..rows {
        if may(taken, row, values[row]) {
            continue;
        }
        let other = (0..TRIES)
            .map(|_| draws.below(rows))
            .find(|other| may(taken, row, values[*other]) && may(taken, *other, values[row]))?;
        values.swap(row, other);
    }
    Some(values)
}

/// A permutation found by augmenting paths from a random start. There always is one: every row may get
/// as many values as every value may get rows.
fn put_together(draws: &mut Draws, taken: &[Vec<u32>], rows: usize) -> Result<Vec<u32>> {
    let order = shuffled(draws, rows);
    // By value, the row that has it.
    let mut row_of: Vec<Option<usize>> = vec![None; rows];
    for row in 0..rows {
        let mut seen = vec![false; rows];
        if !place(row, taken, &order, &mut row_of, &mut seen) {
            return Err(Error::bug("a bucket has no permutation"));
        }
    }
    let mut values = vec![0; rows];
    for (value, row) in row_of.into_iter().enumerate() {
        if let Some(row) = row {
            values[row] = value as u32;
        }
    }
    Ok(values)
}

/// Gives a row a value, moving others along a path where that is needed. Paths are walked with a list:
/// a bucket may be large.
fn place(
    row: usize,
    taken: &[Vec<u32>],
    order: &[u32],
    row_of: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    // Rows on the path, each with the next place in the order to try and the value it came by.
    let mut path: Vec<(usize, usize)> = vec![(row, 0)];
    let mut values: Vec<u32> = Vec::new();
    while let Some((row, next)) = path.last_mut() {
        let Some(value) = order.get(*next).copied() else {
            path.pop();
            values.pop();
            continue;
        };
        *next += 1;
        if seen[value as usize] || !may(taken, *row, value) {
            continue;
        }
        seen[value as usize] = true;
        values.push(value);
        match row_of[value as usize] {
            Some(holder) => path.push((holder, 0)),
            None => {
                for ((row, _), value) in path.iter().zip(&values) {
                    row_of[*value as usize] = Some(*row);
                }
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sound(permutations: &[Vec<u32>], rows: usize) {
        for (number, permutation) in permutations.iter().enumerate() {
            let mut sorted = permutation.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..rows as u32), "not a permutation");
            assert!(permutation.iter().enumerate().all(|(at, value)| at as u32 != *value));
            for other in &permutations[..number] {
                assert!(permutation.iter().zip(other).all(|(a, b)| a != b));
            }
        }
    }

    #[test]
    fn no_row_keeps_its_own_part_of_any_two_columns() -> Result<()> {
        let seed = Seed::from_bytes(b"permutations");
        for rows in 2..=24 {
            for count in 1..rows {
                is_sound(&permutations(&seed, rows as u64, rows, count)?, rows);
            }
        }
        is_sound(&permutations(&seed, 0, 5_000, 3)?, 5_000);
        is_sound(&permutations(&seed, 0, 5_000, 20)?, 5_000);
        assert!(permutations(&seed, 0, 3, 3).is_err());
        Ok(())
    }

    #[test]
    fn permutations_put_together_are_sound_too() -> Result<()> {
        let seed = Seed::from_bytes(b"paths");
        for rows in 2..30 {
            let mut draws = Draws { seed: &seed, bucket: 7, drawn: 0 };
            let mut taken: Vec<Vec<u32>> = vec![(0..rows as u32).collect()];
            while taken.len() < rows {
                let next = put_together(&mut draws, &taken, rows)?;
                taken.push(next);
            }
            is_sound(&taken[1..], rows);
        }
        Ok(())
    }

    #[test]
    fn every_derangement_is_as_likely_as_any_other() -> Result<()> {
        // Four rows have nine derangements.
        let mut counts = std::collections::BTreeMap::new();
        for bucket in 0..9_000 {
            let drawn = permutations(&Seed::from_bytes(b"even"), bucket, 4, 1)?;
            *counts.entry(drawn).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 9);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
        Ok(())
    }
}
