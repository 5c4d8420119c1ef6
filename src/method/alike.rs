//! Classes that publish the same are emitted in an order that reveals nothing more.
//!
//! Methods leave classes in the order of exact codes, and rows of equal codes in the order of their keys. Two
//! classes look alike to a reader if their values generalize to the same hierarchy nodes, have the same bounds, or
//! come from a single tuple that was split. Their order would reveal which of the two has the smaller values, or the
//! smaller keys. So classes that look alike are shuffled among themselves, by a keyed hash of their rows.

use std::hash::Hasher;

use rayon::prelude::*;

use super::bounds::Bounds;
use crate::error::Result;
use crate::hierarchy::{Axis, MAX_SET_VALUES, Shape};
use crate::model::{Classes, Code, Row, RowKeys, RowTable, Seed, class_hash, with_rows};

/// Bytes that [`shuffle_alike`] takes.
pub fn work_bytes(rows: usize, classes: usize) -> usize {
    rows * size_of::<u32>() + classes * size_of::<(u64, u32, u32)>()
}

/// How the quasi-identifiers of a class are published.
#[derive(Debug, Clone, Copy)]
pub struct PublishedAs<'a> {
    /// The quasi-identifiers, in the order of the codes.
    pub axes: &'a [Axis],
    /// Whether numbers are published as the mean of their class.
    pub means: bool,
}

/// Reorders classes that publish the same among the places they have. Rows behind the classes stay
/// where they are.
pub fn shuffle_alike(
    rows: &mut RowTable,
    classes: &Classes,
    published: PublishedAs,
    keys: &RowKeys,
    seed: Seed,
) -> Result<Classes> {
    let of_class = |class: u32| {
        let range = classes.range(class as usize);
        (with_rows!(&*rows, rows => class_appearance(&rows[range], published, seed)), class)
    };
    let mut appearances: Vec<(u64, u32)> =
        (0..classes.len() as u32).into_par_iter().map(of_class).collect();
    appearances.par_sort_unstable();
    // The class that comes to every place.
    let mut order: Vec<u32> = (0..classes.len() as u32).collect();
    for alike in appearances.chunk_by(|a, b| a.0 == b.0).filter(|alike| alike.len() > 1) {
        let of_class = |(_, class): &(u64, u32)| {
            (class_hash(rows, classes.range(*class as usize), keys, seed), *class)
        };
        let mut shuffled: Vec<(u64, u32)> = alike.par_iter().map(of_class).collect();
        shuffled.sort_unstable();
        for ((_, place), (_, class)) in alike.iter().zip(shuffled) {
            order[*place as usize] = class;
        }
    }
    drop(appearances);
    rows.reorder_classes(classes, &order)
}

/// A keyed hash of what a class publishes.
fn class_appearance<C: Code, const W: usize>(
    rows: &[Row<C, W>],
    published: PublishedAs,
    seed: Seed,
) -> u64 {
    let bounds = Bounds::of(rows);
    let mut hasher = seed.hasher();
    for (at, axis) in published.axes.iter().enumerate() {
        let (low, high) = (bounds.low[at].get(), bounds.high[at].get());
        let appearance = match &axis.shape {
            Shape::Line(positions) if published.means && !(axis.missing && low == 0) => {
                mean_appearance(rows.iter().map(|row| positions[row.codes[at].get() as usize]))
            }
            _ => appearance(axis, low, high),
        };
        hasher.write_u64(appearance);
    }
    hasher.finish()
}

/// A number that tells a published cell apart from others of its column; `*` is the same for all. Cells that look
/// different may have one number here: their classes are then shuffled needlessly, which does no harm.
fn appearance(axis: &Axis, low: u32, high: u32) -> u64 {
    let exact = (u64::from(low) << 32) | u64::from(high);
    if axis.missing && low == 0 {
        return if high == 0 { exact } else { u64::MAX };
    }
    let is_whole = low == u32::from(axis.missing) && high + 1 == axis.codes;
    match &axis.shape {
        Shape::Tree(_) | Shape::Set if is_whole && low < high => u64::MAX,
        Shape::Tree(tree) => u64::from(tree.ancestor(low, high)),
        // A set may have fewer values than there are in between.
        Shape::Set if (high - low) as usize >= MAX_SET_VALUES => u64::MAX,
        Shape::Line(_) | Shape::Set => exact,
    }
}

/// The same for all classes of one mean and for those with a mean close by. Summed in whole numbers, so that
/// the order of the rows does not matter.
fn mean_appearance(positions: impl ExactSizeIterator<Item = f64>) -> u64 {
    let rows = positions.len().max(1) as f64;
    let sum: i64 = positions.map(|position| (position * f64::from(1 << 30)) as i64).sum();
    let mean = sum as f64 / rows / f64::from(1 << 30);
    // The offset keeps round means away from the ends of a stretch.
    ((mean + 0.000_377) * 512.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many values in two nodes.
    fn halves(values: usize, missing: bool) -> Axis {
        let leaf = |at: usize| format!("{at};half {};*\n", at / (values / 2));
        Axis::of_labels(&(0..values).map(leaf).collect::<String>(), missing)
    }

    fn shuffled(codes: &[[u32; 1]], axis: Axis, means: bool, seed: u8) -> Vec<Vec<u32>> {
        let mut rows = RowTable::from_codes(codes).unwrap_or_else(|| unreachable!());
        let sizes = vec![2; codes.len() / 2];
        let classes = Classes::from_sizes(&sizes).unwrap_or_else(|_| unreachable!());
        let keys = RowKeys::default();
        let published = PublishedAs { axes: &[axis], means };
        let seed = Seed::from_bytes(&[seed]);
        let classes = shuffle_alike(&mut rows, &classes, published, &keys, seed);
        let classes = classes.unwrap_or_else(|_| unreachable!());
        let of_class = |range: std::ops::Range<usize>| -> Vec<u32> {
            with_rows!(&rows, rows => rows[range].iter().map(|row| row.codes[0].get()).collect())
        };
        classes.ranges().map(of_class).collect()
    }

    #[test]
    fn only_classes_under_one_node_change_places() {
        // half 0, half 0, half 1, a single value, half 0
        let codes = [[0], [1], [1], [2], [4], [5], [3], [3], [2], [3]];
        let seen: std::collections::BTreeSet<_> =
            (0..64).map(|seed| shuffled(&codes, halves(8, false), false, seed)).collect();
        assert_eq!(seen.len(), 6, "every order of the three classes of half 0");
        for order in &seen {
            assert_eq!((&order[2], &order[3]), (&vec![4, 5], &vec![3, 3]));
        }
        // A line publishes exact ends.
        let line = || Axis::line(&[0., 1., 2., 3., 4., 5.], false);
        assert_eq!(
            shuffled(&codes, line(), false, 0),
            codes.chunks(2).map(|c| vec![c[0][0], c[1][0]]).collect::<Vec<_>>()
        );
    }

    #[test]
    fn classes_with_the_same_ends_change_places_without_a_hierarchy() {
        let line = || Axis::line(&[0., 1., 2., 3.], false);
        let codes = [[0, 0], [1, 1], [3, 0], [0, 0], [2, 1], [3, 1]];
        let firsts: std::collections::BTreeSet<u32> = (0..64)
            .map(|seed| {
                let mut rows = RowTable::from_codes(&codes).unwrap_or_else(|| unreachable!());
                let classes = Classes::from_sizes(&[3, 3]).unwrap_or_else(|_| unreachable!());
                let (axes, keys) = ([line(), line()], RowKeys::default());
                let published = PublishedAs { axes: &axes, means: false };
                let seed = Seed::from_bytes(&[seed]);
                let shuffled = shuffle_alike(&mut rows, &classes, published, &keys, seed);
                assert_eq!(shuffled.map(|classes| classes.len()), Ok(2));
                rows.id_at(0)
            })
            .collect();
        assert_eq!(firsts.into_iter().collect::<Vec<_>>(), [0, 3]);
    }

    #[test]
    fn equal_means_and_stars_of_every_kind_look_alike() {
        let line = || Axis::line(&[0., 1., 2., 3., 4., 5., 6.], false);
        // Means of 3, 3 and 3 from other ends.
        let codes = [[0], [6], [1], [5], [2], [4]];
        let seen: std::collections::BTreeSet<_> =
            (0..64).map(|seed| shuffled(&codes, line(), true, seed)).collect();
        assert_eq!(seen.len(), 6);
        // NULL with a value, and values from both halves: both publish a star.
        let seen: std::collections::BTreeSet<_> = (0..64)
            .map(|seed| shuffled(&[[0], [1], [1], [4]], halves(4, true), false, seed))
            .collect();
        assert_eq!(seen.len(), 2);
    }
}
