//! Where a group could be cut, and what each cut would lose.

use std::ops::Range;

use super::nodes::Occurring;
use super::{Cut, Split, Worker};
use crate::hierarchy::Axis;
use crate::method::bounds::Bounds;
use crate::model::{Code, Row};

/// Loss of a class of `rows` rows within these bounds, summed over its cells.
pub(super) fn loss<C: Code, const W: usize>(
    bounds: &Bounds<C, W>,
    axes: &[Axis],
    rows: usize,
) -> f64 {
    let axis_loss = |(index, axis): (usize, &Axis)| {
        axis.loss(bounds.low[index].get(), bounds.high[index].get())
    };
    rows as f64 * axes.iter().enumerate().map(axis_loss).sum::<f64>()
}

/// The axes on which a group has more than one value, the widest first, equally wide ones as declared.
pub(super) fn wide_axes<C: Code, const W: usize>(
    bounds: &Bounds<C, W>,
    axes: &[Axis],
) -> Vec<WideAxis> {
    let wide = |(index, axis): (usize, &Axis)| {
        let (low, high) = (bounds.low[index].get(), bounds.high[index].get());
        (low < high).then(|| WideAxis { index, low, high, loss: axis.loss(low, high) })
    };
    let mut wide: Vec<WideAxis> = axes.iter().enumerate().filter_map(wide).collect();
    sort_widest_first(&mut wide);
    wide
}

fn sort_widest_first(axes: &mut [WideAxis]) {
    axes.sort_by(|a, b| b.loss.total_cmp(&a.loss));
}

/// Stable: equal gains keep their order.
pub(super) fn sort_best_first(cuts: &mut [CutPoint]) {
    cuts.sort_by(|a, b| b.gain.total_cmp(&a.gain));
}

/// An axis on which a group has more than one value.
#[derive(Debug, Clone, Copy)]
pub(super) struct WideAxis {
    pub(super) index: usize,
    pub(super) low: u32,
    pub(super) high: u32,
    pub(super) loss: f64,
}

/// A cut that could be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct CutPoint {
    pub(super) axis: usize,
    /// Rows below this code go left, rows above it right.
    pub(super) value: u32,
    /// How many rows go left.
    pub(super) left: usize,
    /// The largest code on the left side.
    pub(super) left_high: u32,
    /// The smallest code on the right side.
    pub(super) right_low: u32,
    /// How much less the two halves lose than the group: larger is better.
    pub(super) gain: f64,
    /// For a cut at nodes, which of them it is; it has parts instead of the sides above.
    pub(super) node_cut: Option<usize>,
}

/// The value at which a number of rows is reached, and its neighbourhood.
#[derive(Debug, Clone, Copy)]
struct Position {
    value: u32,
    /// Rows with a smaller value.
    below: usize,
    /// Rows with this value or a smaller one.
    up_to: usize,
    /// The next smaller and larger value that occurs.
    previous: u32,
    next: u32,
}

/// Counting is worth it while the values of a group are not spread thinner than this.
const CODES_PER_ROW: usize = 8;

/// Values of a byte.
const BYTES: usize = 1 << u8::BITS;

impl Worker<'_> {
    /// Fills `candidates` with the cuts on these axes that take about `target` rows to the left, the best first.
    pub(super) fn survey<C: Code, const W: usize>(
        &mut self,
        rows: &[Row<C, W>],
        axes: &[WideAxis],
        target: usize,
    ) {
        self.candidates.clear();
        self.node_cuts.clear();
        let (counted, sparse) = dense_and_sparse(axes, rows.len());
        let starts = self.count(rows, &counted);
        for (axis, start) in counted.into_iter().zip(starts) {
            let counts = &self.counts[start..=start + (axis.high - axis.low) as usize];
            let position = position_by_counts(counts, axis.low, target);
            self.add_candidates(axis, position, target, rows.len());
            self.add_node_cut(axis, Occurring::Counted(start), rows.len());
        }
        for axis in sparse {
            self.values.clear();
            self.values.extend(rows.iter().map(|row| row.codes[axis.index].get()));
            let position = position_by_selection(&mut self.values, target);
            self.add_candidates(axis, position, target, rows.len());
            self.add_node_cut(axis, Occurring::Listed, rows.len());
        }
        if self.context.options.split == Split::LeastLoss {
            // Equal gains keep the order of the axes, which is by width, then as declared.
            sort_best_first(&mut self.candidates);
        }
    }

    /// Counts the values of all given axes in one pass; returns where each axis's counters start.
    fn count<C: Code, const W: usize>(
        &mut self,
        rows: &[Row<C, W>],
        axes: &[&WideAxis],
    ) -> Vec<usize> {
        if size_of::<C>() == 1 && 2 * axes.len() > W {
            return self.count_bytes(rows, axes);
        }
        let mut starts = Vec::with_capacity(axes.len());
        let mut total = 0;
        for axis in axes {
            starts.push(total);
            total += (axis.high - axis.low) as usize + 1;
        }
        self.clear_counts(0..total);
        // Counter of a code = base + code; the base may wrap below 0.
        let bases: Vec<(usize, usize)> = axes
            .iter()
            .zip(&starts)
            .map(|(axis, start)| (axis.index, start.wrapping_sub(axis.low as usize)))
            .collect();
        for row in rows {
            for (axis, base) in &bases {
                self.counts[base.wrapping_add(row.codes[*axis].get() as usize)] += 1;
            }
        }
        starts
    }

    /// The same for codes of one byte: every column has counters for all bytes, so that no index is
    /// looked up or checked. Those of other columns hold anything.
    fn count_bytes<C: Code, const W: usize>(
        &mut self,
        rows: &[Row<C, W>],
        axes: &[&WideAxis],
    ) -> Vec<usize> {
        self.clear_counts(W * BYTES..W * BYTES);
        for axis in axes {
            let start = axis.index * BYTES;
            self.clear_counts(start + axis.low as usize..start + axis.high as usize + 1);
        }
        if let [counts, ..] = self.counts.as_chunks_mut::<BYTES>().0.as_chunks_mut::<W>().0 {
            for row in rows {
                for axis in 0..W {
                    let counter = &mut counts[axis][row.codes[axis].get() as usize % BYTES];
                    *counter = counter.wrapping_add(1);
                }
            }
        }
        axes.iter().map(|axis| axis.index * BYTES + axis.low as usize).collect()
    }

    /// Makes sure that there are counters up to the end of a range, and that those in it are 0.
    fn clear_counts(&mut self, range: Range<usize>) {
        if self.counts.len() < range.end {
            self.counts.resize(range.end, 0);
        }
        self.counts[range].fill(0);
    }

    fn add_candidates(&mut self, axis: &WideAxis, at: Position, target: usize, rows: usize) {
        let cut = CutPoint {
            axis: axis.index,
            value: at.value,
            left: target,
            left_high: at.value,
            right_low: if target < at.up_to { at.value } else { at.next },
            gain: 0.0,
            node_cut: None,
        };
        if self.context.options.cut != Cut::Strict {
            self.add_candidate(axis, cut, rows);
            return;
        }
        // A value never straddles a strict cut: the median's rows all go left, or all go right.
        let k = self.context.k();
        let mut cuts = [(at.up_to, at.value, at.next), (at.below, at.previous, at.value)];
        cuts.sort_by_key(|(left, ..)| left.abs_diff(target));
        for (left, left_high, right_low) in cuts {
            if left >= k && rows - left >= k {
                let cut = CutPoint { left, left_high, right_low, ..cut };
                self.add_candidate(axis, cut, rows);
            }
        }
    }

    fn add_candidate(&mut self, axis: &WideAxis, cut: CutPoint, rows: usize) {
        let loss = |low, high| self.context.job.axes[axis.index].loss(low, high);
        let halves = cut.left as f64 * loss(axis.low, cut.left_high)
            + (rows - cut.left) as f64 * loss(cut.right_low, axis.high);
        let gain = rows as f64 * axis.loss - halves;
        let gain = self.context.per_entropy(gain, [cut.left, rows - cut.left]);
        self.candidates.push(CutPoint { gain, ..cut });
    }

    /// The value of an axis at which `target` rows are reached.
    pub(super) fn value_at<C: Code, const W: usize>(
        &mut self,
        rows: &[Row<C, W>],
        axis: &WideAxis,
        target: usize,
    ) -> u32 {
        let codes = rows.iter().map(|row| row.codes[axis.index].get());
        let width = (axis.high - axis.low) as usize + 1;
        if width > rows.len() {
            self.values.clear();
            self.values.extend(codes);
            return value_by_selection(&mut self.values, target);
        }
        self.clear_counts(0..width);
        codes.for_each(|code| self.counts[(code - axis.low) as usize] += 1);
        position_by_counts(&self.counts[..width], axis.low, target).value
    }
}

/// The axes with few enough codes for a group of `rows` rows to count every one, and the others.
fn dense_and_sparse(axes: &[WideAxis], rows: usize) -> (Vec<&WideAxis>, Vec<&WideAxis>) {
    axes.iter().partition(|axis| (axis.high - axis.low) as usize <= rows * CODES_PER_ROW)
}

/// The `target`-th smallest value, counted from 1.
fn value_by_selection(values: &mut [u32], target: usize) -> u32 {
    *values.select_nth_unstable(target - 1).1
}

/// Walks the counters to the value where `target` rows are reached.
fn position_by_counts(counts: &[u32], low: u32, target: usize) -> Position {
    let (mut below, mut at, mut previous) = (0usize, 0usize, 0usize);
    while below + (counts[at] as usize) < target {
        if counts[at] > 0 {
            previous = at;
        }
        below += counts[at] as usize;
        at += 1;
    }
    let next =
        counts[at + 1..].iter().position(|count| *count > 0).map_or(at, |skip| at + 1 + skip);
    Position {
        value: low + at as u32,
        below,
        up_to: below + counts[at] as usize,
        previous: low + previous as u32,
        next: low + next as u32,
    }
}

/// The same without counters, for a few rows spread over many values.
fn position_by_selection(values: &mut [u32], target: usize) -> Position {
    let (smaller, value, larger) = values.select_nth_unstable(target - 1);
    let value = *value;
    let equal = |side: &[u32]| side.iter().filter(|other| **other == value).count();
    let (equal_left, equal_right) = (equal(smaller), equal(larger));
    let previous = smaller.iter().filter(|other| **other < value).max();
    let next = larger.iter().filter(|other| **other > value).min();
    Position {
        value,
        below: smaller.len() - equal_left,
        up_to: smaller.len() + 1 + equal_right,
        previous: previous.copied().unwrap_or(value),
        next: next.copied().unwrap_or(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_selection_find_the_same_position() {
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let n = 1 + next(30) as usize;
            let mut values: Vec<u32> = (0..n).map(|_| 3 + next(9) as u32).collect();
            let target = 1 + next(n as u64) as usize;
            let mut counts = vec![0; 9];
            values.iter().for_each(|value| counts[(value - 3) as usize] += 1);
            let counted = position_by_counts(&counts, 3, target);
            let selected = position_by_selection(&mut values, target);
            assert_eq!(counted.value, selected.value);
            assert_eq!(counted.below, selected.below);
            assert_eq!(counted.up_to, selected.up_to);
            assert_eq!(counted.next, selected.next);
            if counted.below > 0 {
                assert_eq!(counted.previous, selected.previous);
            }
        }
    }
}
