//! An order of classes that reveals nothing about how they were made.

use std::hash::Hasher;
use std::ops::Range;

use rayon::prelude::*;

use super::{Classes, Code, Row, RowKeys, RowTable, Seed, with_rows};
use crate::error::Result;

impl RowTable {
    /// Moves every row to its target position, one cycle after the other. Targets are a permutation.
    pub fn permute(&mut self, targets: Vec<u32>) {
        with_rows!(self, rows => permute(rows, targets));
    }

    /// The same for the rows from a position on; targets count from there.
    pub(crate) fn permute_from(&mut self, start: usize, targets: Vec<u32>) {
        with_rows!(self, rows => permute(&mut rows[start..], targets));
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

    /// Brings classes into another order. Rows behind them stay where they are.
    pub fn reorder_classes(&mut self, classes: &Classes, order: &[u32]) -> Result<Classes> {
        let mut targets: Vec<u32> = (0..self.len() as u32).collect();
        let mut sizes = Vec::with_capacity(order.len());
        let mut start = 0;
        for class in order {
            let positions = classes.range(*class as usize);
            sizes.push(positions.len() as u32);
            let to = start..start + positions.len() as u32;
            start = to.end;
            targets[positions].iter_mut().zip(to).for_each(|(target, to)| *target = to);
        }
        self.permute(targets);
        Classes::from_sizes(&sizes)
    }

    /// A keyed hash of the codes and the sensitive values of one row.
    pub(crate) fn keyed_hash(&self, position: usize, keys: &RowKeys, seed: Seed) -> u64 {
        with_rows!(self, rows => rows[position].keyed_hash(keys, seed))
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        with_rows!(self, rows => size_of_val(&rows[..]))
    }
}

/// Moves every item to its target, one cycle after the other.
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
    let of_class = |class: usize| class_hash(rows, classes.range(class), keys, seed);
    let hashes: Vec<u64> = (0..classes.len()).into_par_iter().map(of_class).collect();
    let mut order: Vec<u32> = (0..classes.len() as u32).collect();
    order.par_sort_unstable_by_key(|class| (hashes[*class as usize], *class));
    rows.reorder_classes(classes, &order)
}

/// A keyed hash of the quasi-identifiers and sensitive values of the rows at some positions, whatever
/// their order.
pub fn class_hash(rows: &RowTable, positions: Range<usize>, keys: &RowKeys, seed: Seed) -> u64 {
    let sum = with_rows!(rows, rows => {
        let hashes = rows[positions].iter().map(|row| row.keyed_hash(keys, seed));
        hashes.fold(0u64, u64::wrapping_add)
    });
    let mut hasher = seed.hasher();
    hasher.write_u64(sum);
    hasher.finish()
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
