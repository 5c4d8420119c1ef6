//! An order of classes that tells nothing about how they were made.

use std::hash::Hasher;

use rayon::prelude::*;

use super::{Classes, Code, Row, RowKeys, RowTable, Seed, with_rows};
use crate::error::Result;

impl RowTable {
    /// Moves every row to its target position, one cycle after the other. Targets are a permutation.
    pub fn permute(&mut self, targets: Vec<u32>) {
        with_rows!(self, rows => permute(rows, targets));
    }

    /// The same through a second table: faster, because rows are read one after the other.
    pub fn scatter(&mut self, targets: &[u32]) {
        with_rows!(self, rows => {
            let before = rows.to_vec();
            for (row, target) in before.iter().zip(targets) {
                rows[*target as usize] = *row;
            }
        });
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        with_rows!(self, rows => size_of_val(&rows[..]))
    }
}

fn permute<T>(rows: &mut [T], mut targets: Vec<u32>) {
    for at in 0..targets.len().min(rows.len()) {
        while targets[at] as usize != at {
            let target = targets[at] as usize;
            rows.swap(at, target);
            targets.swap(at, target);
        }
    }
}

/// Reorders classes by a keyed hash of their rows' quasi-identifiers and sensitive values. Rows behind
/// the classes stay where they are.
///
/// A method that makes classes one after the other leaves them in an order that links rows: the
/// third class was made from the third row with some sensitive value. After this the number of a
/// class depends on nothing but its own rows and the secret seed, so it is also the same whatever
/// kept columns were read.
pub fn shuffle_classes(
    rows: &mut RowTable,
    classes: &Classes,
    keys: &RowKeys,
    seed: Seed,
) -> Result<Classes> {
    let hashes: Vec<u64> = with_rows!(&*rows, rows => {
        let of_class = |class: usize| {
            let rows = rows[classes.range(class)].iter();
            // A sum: the rows of a class are in no order.
            let sum = rows.fold(0u64, |sum, row| sum.wrapping_add(row.keyed_hash(keys, seed)));
            let mut hasher = seed.hasher();
            hasher.write_u64(sum);
            hasher.finish()
        };
        (0..classes.len()).into_par_iter().map(of_class).collect()
    });
    let mut order: Vec<u32> = (0..classes.len() as u32).collect();
    order.par_sort_unstable_by_key(|class| (hashes[*class as usize], *class));
    let sizes: Vec<u32> =
        order.iter().map(|class| classes.range(*class as usize).len() as u32).collect();
    let shuffled = Classes::from_sizes(&sizes)?;
    with_rows!(rows, rows => {
        let before = rows.to_vec();
        let mut start = 0;
        for class in order {
            let of_class = &before[classes.range(class as usize)];
            rows[start..start + of_class.len()].copy_from_slice(of_class);
            start += of_class.len();
        }
    });
    Ok(shuffled)
}

impl<C: Code, const W: usize> Row<C, W> {
    /// A keyed hash of the codes and the sensitive values.
    pub(crate) fn keyed_hash(&self, keys: &RowKeys, seed: Seed) -> u64 {
        let mut hasher = seed.hasher();
        self.codes.iter().for_each(|code| hasher.write_u32(code.get()));
        hasher.write_u64(keys.key(self.id).0);
        hasher.finish()
    }

    /// A keyed hash of the quasi-identifiers alone.
    pub fn quasi_identifier_hash(&self, seed: Seed) -> u64 {
        let mut hasher = seed.hasher();
        // Told apart from every other hash under this seed.
        hasher.write_u8(1);
        self.codes.iter().for_each(|code| hasher.write_u32(code.get()));
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffled(codes: &[[u32; 1]], sizes: &[u32], seed: &[u8]) -> Option<(Vec<Vec<u32>>, u32)> {
        let mut rows = RowTable::from_codes(codes)?;
        let classes = Classes::from_sizes(sizes).ok()?;
        let seed = Seed::from_bytes(seed);
        let classes = shuffle_classes(&mut rows, &classes, &RowKeys::default(), seed).ok()?;
        let mut of_class = |range: std::ops::Range<usize>| {
            let mut codes: Vec<u32> = with_rows!(&rows, rows => {
                rows[range].iter().map(|row| row.codes[0].get()).collect()
            });
            codes.sort_unstable();
            codes
        };
        let all = classes.ranges().map(&mut of_class).collect();
        Some((all, rows.id_at(codes.len() - 1)))
    }

    #[test]
    fn the_order_depends_on_the_rows_and_the_seed_only() {
        let one = shuffled(&[[1], [2], [3], [4], [5], [6], [9]], &[2, 1, 3], b"s");
        // The same classes, made in another order.
        let other = shuffled(&[[6], [4], [5], [2], [1], [3], [9]], &[3, 2, 1], b"s");
        assert_eq!(one.as_ref().map(|(classes, _)| classes.len()), Some(3));
        assert_eq!(one, other);
        // The row behind the classes stays there.
        assert_eq!(one.map(|(_, last)| last), Some(6));
    }

    #[test]
    fn another_seed_gives_another_order() {
        let codes: Vec<[u32; 1]> = (0..64).map(|code| [code]).collect();
        let orders: Vec<_> = (0..4u8).map(|seed| shuffled(&codes, &[1; 64], &[seed])).collect();
        assert!(orders.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
