//! Normalized certainty penalty: the mean share of a cell that generalization lost.

use std::ops::Range;

use rayon::prelude::*;

use crate::hierarchy::{Axis, MAX_SET_VALUES, Shape};
use crate::model::{Classes, Code, MAX_QUASI_IDENTIFIERS, Row, RowTable, with_rows};

/// Mean loss over all cells of the quasi-identifiers, from 0 (unchanged) to 1 (nothing left).
///
/// Rows must be in class order. A set of strings loses by the values it lists.
pub fn loss(rows: &RowTable, classes: &Classes, axes: &[&Axis]) -> f64 {
    let lost = lost_by(rows, classes, axes, &|_| true);
    lost / classes.rows().max(1) as f64
}

/// The same, summed over the rows of some of the classes.
pub fn lost_by(
    rows: &RowTable,
    classes: &Classes,
    axes: &[&Axis],
    counts: &(dyn Fn(usize) -> bool + Sync),
) -> f64 {
    if classes.rows() == 0 || axes.is_empty() {
        return 0.0;
    }
    // Summed per thousand classes and then in order, so that the figure does not depend on threads.
    const BLOCK: usize = 1024;
    let blocks: Vec<f64> = (0..classes.len().div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let block = block * BLOCK..((block + 1) * BLOCK).min(classes.len());
            let counted = block.filter(|class| counts(*class));
            counted.map(|class| class_loss(rows, classes.range(class), axes, u64::MAX)).sum()
        })
        .collect();
    blocks.iter().sum::<f64>() / axes.len() as f64
}

/// Summed loss of the rows of a sliced table, 1 for a row that has lost everything: only what covers a
/// bucket has lost something, in the columns whose bits are set.
pub fn cover_loss(rows: &RowTable, buckets: &Classes, axes: &[Axis], covered: &[u64]) -> f64 {
    let axes: Vec<&Axis> = axes.iter().collect();
    let with_cover = buckets.ranges().zip(covered).filter(|(_, covered)| **covered != 0);
    let lost: f64 =
        with_cover.map(|(range, covered)| class_loss(rows, range, &axes, *covered)).sum();
    lost / axes.len().max(1) as f64
}

/// Loss of one class, summed over its rows and those axes whose bits are set.
fn class_loss(rows: &RowTable, class: Range<usize>, axes: &[&Axis], of: u64) -> f64 {
    let (mut low, mut high) = ([0; MAX_QUASI_IDENTIFIERS], [0; MAX_QUASI_IDENTIFIERS]);
    with_rows!(rows, rows => bounds(&rows[class.clone()], &mut low, &mut high));
    let cell = |(index, axis): (usize, &&Axis)| {
        let (low, high) = (low[index], high[index]);
        if axis.shape == Shape::Set && low < high && !(axis.missing && low == 0) {
            let mut codes = rows.codes(class.clone(), index);
            codes.sort_unstable();
            codes.dedup();
            if codes.len() > MAX_SET_VALUES {
                return 1.0;
            }
            let values = axis.codes - u32::from(axis.missing);
            return (codes.len() - 1) as f64 / f64::from(values.saturating_sub(1).max(1));
        }
        axis.loss(low, high)
    };
    let axes = axes.iter().enumerate().filter(|(index, _)| (of >> index) & 1 == 1);
    class.len() as f64 * axes.map(cell).sum::<f64>()
}

/// The smallest and the largest code of every column.
fn bounds<C: Code, const W: usize>(rows: &[Row<C, W>], lows: &mut [u32], highs: &mut [u32]) {
    let (mut low, mut high) = ([C::MAX; W], [C::default(); W]);
    for row in rows {
        for axis in 0..W {
            low[axis] = low[axis].min(row.codes[axis]);
            high[axis] = high[axis].max(row.codes[axis]);
        }
    }
    lows.iter_mut().zip(low).for_each(|(to, code)| *to = code.get());
    highs.iter_mut().zip(high).for_each(|(to, code)| *to = code.get());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_covers_a_bucket_has_lost_something() {
        let rows = RowTable::from_codes(&[[0, 0], [1, 2], [2, 0], [0, 2]]);
        let axes = [Axis::line(&[0.0, 1.0, 4.0], false), Axis::line(&[0.0, 1.0, 2.0], false)];
        let buckets = Classes::from_sizes(&[2, 2]).ok();
        let lost = rows.zip(buckets).map(|(rows, buckets)| {
            [[0, 0], [0b01, 0], [0b10, 0b01]]
                .map(|covered| cover_loss(&rows, &buckets, &axes, &covered))
        });
        assert_eq!(lost, Some([0.0, 0.25, 1.0 + 1.0]));
    }

    #[test]
    fn loss_is_the_mean_over_cells() {
        // Two classes of two rows; the line loses 1/4 and 0, the set loses 0 and 1/2 of a cell.
        let rows = RowTable::from_codes(&[[0, 0], [1, 0], [2, 0], [2, 2]]);
        let line = Axis::line(&[0.0, 1.0, 4.0], false);
        let set = Axis::set(3, false);
        let classes = Classes::from_sizes(&[2, 2]);
        let loss =
            rows.zip(classes.ok()).map(|(rows, classes)| loss(&rows, &classes, &[&line, &set]));
        assert_eq!(loss, Some((0.25 + 0.25 + 0.0 + 0.0 + 0.0 + 0.0 + 0.5 + 0.5) / 8.0));
    }
}
