//! Numbering tuples: equal tuples get the same number, in the order in which they first occur.
//!
//! The one expensive step of grouping, so it looks at the data three ways: a few possible tuples are
//! addressed directly; otherwise keys are hashed, and many of them are first scattered by their
//! hash, so that every table stays in the cache and ten times the rows cost ten times the time.

use rayon::prelude::*;

/// Numbers of a list of tuples.
#[derive(Debug)]
pub(super) struct Numbered {
    /// Number of each tuple. A number not seen before is one more than the largest before it, so
    /// that what is looked up by number lies near for tuples that lie near.
    pub(super) numbers: Vec<u32>,
    /// How many different tuples there are.
    pub(super) distinct: usize,
}

impl Numbered {
    /// Adds up what the tuples of each number count.
    pub(super) fn sum(&self, of_tuple: impl Fn(usize) -> u32) -> Vec<u32> {
        let mut sums = vec![0; self.distinct];
        for (at, number) in self.numbers.iter().enumerate() {
            sums[*number as usize] += of_tuple(at);
        }
        sums
    }

    /// Where the first tuple of each number stands.
    pub(super) fn firsts(&self) -> Vec<u32> {
        let mut firsts = Vec::with_capacity(self.distinct);
        for (at, number) in self.numbers.iter().enumerate() {
            if *number as usize == firsts.len() {
                firsts.push(at as u32);
            }
        }
        firsts
    }

    /// The columns of the first tuple of each number.
    pub(super) fn first_of_each(&self, columns: &[&[u32]]) -> Vec<Vec<u32>> {
        let firsts = self.firsts();
        let column = |column: &&[u32]| firsts.iter().map(|at| column[*at as usize]).collect();
        columns.iter().map(column).collect()
    }
}

/// Up to this many possible keys are addressed directly; the table fits a second-level cache.
const DIRECT_KEYS: u64 = 1 << 18;

/// Keys that share one hash table, when there are more than that.
const KEYS_PER_BUCKET: usize = 1 << 14;

/// Marks a free place.
const FREE: u32 = u32::MAX;

/// Numbers the tuples whose components stand in `columns`; those of a column are below its bound.
pub(super) fn number_tuples(columns: &[(&[u32], u32)]) -> Numbered {
    let Some(((first, bound), rest)) = columns.split_first() else {
        return Numbered { numbers: Vec::new(), distinct: 0 };
    };
    let mut keys: Vec<u64> = first.iter().map(|value| u64::from(*value)).collect();
    let mut space = u64::from(*bound).max(1);
    for (values, bound) in rest {
        let bound = u64::from(*bound).max(1);
        space = match space.checked_mul(bound) {
            Some(product) => product,
            None => {
                // Too many possible keys for 64 bits: the tuples so far are fewer than 2^32.
                let so_far = number_keys(&keys, space);
                keys.clear();
                keys.extend(so_far.numbers.iter().map(|number| u64::from(*number)));
                so_far.distinct as u64 * bound
            }
        };
        for (key, value) in keys.iter_mut().zip(*values) {
            *key = *key * bound + u64::from(*value);
        }
    }
    number_keys(&keys, space)
}

fn number_keys(keys: &[u64], space: u64) -> Numbered {
    if space <= DIRECT_KEYS {
        number_directly(keys, space as usize)
    } else if keys.len() <= 4 * KEYS_PER_BUCKET {
        let mut numbers = vec![0; keys.len()];
        let distinct = Table::default().number(keys, &mut numbers);
        Numbered { numbers, distinct }
    } else {
        number_scattered(keys)
    }
}

fn number_directly(keys: &[u64], space: usize) -> Numbered {
    let mut number_of = vec![FREE; space];
    let mut distinct = 0;
    let number = |key: &u64| {
        let number = &mut number_of[*key as usize];
        if *number == FREE {
            *number = distinct;
            distinct += 1;
        }
        *number
    };
    let numbers = keys.iter().map(number).collect();
    Numbered { numbers, distinct: distinct as usize }
}

fn number_scattered(keys: &[u64]) -> Numbered {
    let buckets = keys.len().div_ceil(KEYS_PER_BUCKET).next_power_of_two();
    let bucket_of = |key: u64| (mix(key) >> 32) as usize & (buckets - 1);
    let mut starts = vec![0u32; buckets + 1];
    for key in keys {
        starts[bucket_of(*key) + 1] += 1;
    }
    for bucket in 0..buckets {
        starts[bucket + 1] += starts[bucket];
    }
    let mut next = starts.clone();
    let mut scattered = vec![0u64; keys.len()];
    let place = |key: &u64| {
        let next = &mut next[bucket_of(*key)];
        let place = *next;
        scattered[place as usize] = *key;
        *next += 1;
        place
    };
    let places: Vec<u32> = keys.iter().map(place).collect();
    let (by_place, distinct) = number_buckets(&scattered, &starts);
    let mut number_of = vec![FREE; distinct];
    let mut next = 0;
    let mut numbers = places;
    for place in &mut numbers {
        let number = &mut number_of[by_place[*place as usize] as usize];
        if *number == FREE {
            *number = next;
            next += 1;
        }
        *place = *number;
    }
    Numbered { numbers, distinct }
}

/// Numbers every bucket apart, then moves the numbers of each behind those of the earlier ones.
fn number_buckets(scattered: &[u64], starts: &[u32]) -> (Vec<u32>, usize) {
    let mut numbers = vec![0u32; scattered.len()];
    let mut buckets = Vec::with_capacity(starts.len());
    let (mut keys_left, mut numbers_left) = (scattered, numbers.as_mut_slice());
    for ends in starts.windows(2) {
        let rows = (ends[1] - ends[0]) as usize;
        let (keys, more_keys) = keys_left.split_at(rows);
        let (places, more_places) = numbers_left.split_at_mut(rows);
        buckets.push((keys, places));
        (keys_left, numbers_left) = (more_keys, more_places);
    }
    let distinct: Vec<usize> = buckets
        .par_iter_mut()
        .map_init(Table::default, |table, (keys, numbers)| table.number(keys, numbers))
        .collect();
    let mut before = 0u32;
    let bases = distinct.iter().map(|distinct| {
        let base = before;
        before += *distinct as u32;
        base
    });
    let bases: Vec<u32> = bases.collect();
    buckets.par_iter_mut().zip(bases).for_each(|((_, numbers), base)| {
        numbers.iter_mut().for_each(|number| *number += base);
    });
    (numbers, before as usize)
}

/// A hash table from keys to their numbers, cleared and used again for every bucket.
#[derive(Debug, Default)]
struct Table {
    keys: Vec<u64>,
    numbers: Vec<u32>,
}

impl Table {
    /// Writes the number of each key, from 0 up, and returns how many keys are different.
    fn number(&mut self, keys: &[u64], numbers: &mut [u32]) -> usize {
        let places = (2 * keys.len()).next_power_of_two();
        self.keys.resize(places, 0);
        self.numbers.clear();
        self.numbers.resize(places, FREE);
        let mut distinct = 0;
        for (key, number) in keys.iter().zip(numbers) {
            let mut at = mix(*key) as usize & (places - 1);
            while self.numbers[at] != FREE && self.keys[at] != *key {
                at = (at + 1) & (places - 1);
            }
            if self.numbers[at] == FREE {
                (self.keys[at], self.numbers[at]) = (*key, distinct);
                distinct += 1;
            }
            *number = self.numbers[at];
        }
        distinct as usize
    }
}

/// Spreads the key over all bits: its low half chooses the place, its high half the bucket.
#[inline(always)]
fn mix(key: u64) -> u64 {
    let product = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    let folded = product as u64 ^ (product >> 64) as u64;
    (folded ^ (folded >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (folded >> 32)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn assert_numbered(keys: &[u64], numbered: &Numbered) {
        let mut number_of = HashMap::new();
        for (key, number) in keys.iter().zip(&numbered.numbers) {
            assert_eq!(number_of.entry(key).or_insert(number), &number);
        }
        let mut next = 0;
        for number in &numbered.numbers {
            assert!(*number <= next, "numbers are not in the order of their first tuples");
            next += u32::from(*number == next);
        }
        assert_eq!((next as usize, number_of.len()), (numbered.distinct, numbered.distinct));
    }

    #[test]
    fn every_way_of_numbering_tells_the_same_tuples_apart() {
        let n = 5 * KEYS_PER_BUCKET as u64;
        let keys: Vec<u64> = (0..n).map(|i| i * i % 9973 % 5000).collect();
        assert_numbered(&keys, &number_directly(&keys, 5000));
        assert_numbered(&keys, &number_keys(&keys, u64::MAX));
        assert_numbered(&keys, &number_scattered(&keys));
        let unique: Vec<u64> = (0..n).map(|i| i << 40).collect();
        assert_numbered(&unique, &number_scattered(&unique));
        assert_numbered(&unique[..100], &number_keys(&unique[..100], u64::MAX));
    }

    #[test]
    fn tuples_wider_than_a_key_are_numbered_in_steps() {
        let columns: Vec<Vec<u32>> =
            (0..6).map(|c| (0..300u32).map(|i| i / 3 % (c + 2)).collect()).collect();
        let wide: Vec<(&[u32], u32)> = columns.iter().map(|c| (c.as_slice(), u32::MAX)).collect();
        let numbered = number_tuples(&wide);
        // All residues up to 7 of i / 3 are equal exactly for equal residues modulo 420.
        let keys: Vec<u64> = (0..300).map(|i| i / 3 % 420).collect();
        assert_numbered(&keys, &numbered);
        assert_eq!(numbered.distinct, 100);
    }
}
