//! The box around some rows, and what publishing it loses.

use crate::hierarchy::Axis;
use crate::model::{Code, Row};

/// The smallest and largest code of every quasi-identifier among some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds<C, const W: usize> {
    pub(super) low: [C; W],
    pub(super) high: [C; W],
}

impl<C: Code, const W: usize> Bounds<C, W> {
    /// Around no row at all; has no loss to ask for.
    pub(super) fn none() -> Self {
        Self { low: [C::MAX; W], high: [C::default(); W] }
    }

    pub(super) fn of(rows: &[Row<C, W>]) -> Self {
        let mut bounds = Self::none();
        rows.iter().for_each(|row| bounds.add(&row.codes));
        bounds
    }

    #[inline]
    pub(super) fn add(&mut self, codes: &[C; W]) {
        for axis in 0..W {
            self.low[axis] = self.low[axis].min(codes[axis]);
            self.high[axis] = self.high[axis].max(codes[axis]);
        }
    }

    #[inline]
    pub(super) fn with(&self, codes: &[C; W]) -> Self {
        let mut wider = *self;
        wider.add(codes);
        wider
    }

    #[inline]
    pub(super) fn join(&self, other: &Self) -> Self {
        let mut wider = *self;
        for axis in 0..W {
            wider.low[axis] = wider.low[axis].min(other.low[axis]);
            wider.high[axis] = wider.high[axis].max(other.high[axis]);
        }
        wider
    }

    pub(super) fn contains(&self, codes: &[C; W]) -> bool {
        (0..W).all(|axis| self.low[axis] <= codes[axis] && codes[axis] <= self.high[axis])
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        (0..W).all(|axis| self.low[axis] <= other.high[axis] && other.low[axis] <= self.high[axis])
    }

    pub(super) fn is_one_tuple(&self) -> bool {
        self.low == self.high
    }
}

/// Axes of at most this many codes have the loss of every stretch in a table.
const TABLED_CODES: u32 = 128;

/// Losses (NCP) of boxes, looked up where that is faster than walking a hierarchy.
#[derive(Debug)]
pub(super) struct Losses<'a> {
    axes: &'a [Axis],
    /// By smallest and largest code; empty for an axis of many codes.
    tables: Vec<Vec<f32>>,
}

impl<'a> Losses<'a> {
    pub(super) fn new(axes: &'a [Axis]) -> Self {
        let table = |axis: &Axis| {
            if axis.codes > TABLED_CODES {
                return Vec::new();
            }
            let loss = |low: u32, high: u32| match low <= high {
                true => axis.loss(low, high) as f32,
                false => 0.0,
            };
            (0..axis.codes)
                .flat_map(|low| (0..axis.codes).map(move |high| loss(low, high)))
                .collect()
        };
        Self { axes, tables: axes.iter().map(table).collect() }
    }

    /// What one row loses on one axis in a class with these codes.
    #[inline]
    pub(super) fn on(&self, axis: usize, low: u32, high: u32) -> f32 {
        let table = &self.tables[axis];
        if table.is_empty() {
            return self.axes[axis].loss(low, high) as f32;
        }
        table[(low * self.axes[axis].codes + high) as usize]
    }

    /// What every row of a class loses over all axes. Summed in the order of the axes, so that equal
    /// boxes lose the same to the last digit.
    #[inline]
    pub(super) fn of<C: Code, const W: usize>(&self, bounds: &Bounds<C, W>) -> f32 {
        let mut loss = 0.0;
        for axis in 0..self.axes.len() {
            loss += self.on(axis, bounds.low[axis].get(), bounds.high[axis].get());
        }
        loss
    }

    pub(super) fn axes(&self) -> &'a [Axis] {
        self.axes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_and_the_axis_tell_the_same_loss() {
        let values: Vec<f64> = (0..200).map(f64::from).collect();
        let axes =
            [Axis::line(&values[..100], true), Axis::line(&values, false), Axis::set(50, false)];
        let losses = Losses::new(&axes);
        for (index, axis) in axes.iter().enumerate() {
            for low in 0..axis.codes {
                for high in low..axis.codes {
                    assert_eq!(losses.on(index, low, high), axis.loss(low, high) as f32);
                }
            }
        }
    }
}
