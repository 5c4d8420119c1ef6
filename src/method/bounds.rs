//! The box around some rows, and what publishing it loses.

use std::cmp::Ordering;

use super::lanes;
use crate::hierarchy::Axis;
use crate::model::{Code, Row, RowKeys};

/// The smallest and largest code of every quasi-identifier among some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::method) struct Bounds<C, const W: usize> {
    pub(in crate::method) low: [C; W],
    pub(in crate::method) high: [C; W],
}

impl<C: Code, const W: usize> Bounds<C, W> {
    /// Around no row at all; has no loss to ask for.
    pub(in crate::method) fn none() -> Self {
        Self { low: [C::MAX; W], high: [C::default(); W] }
    }

    pub(in crate::method) fn of(rows: &[Row<C, W>]) -> Self {
        if let Some(bounds) = lanes::bounds(rows) {
            return bounds;
        }
        let mut bounds = Self::none();
        rows.iter().for_each(|row| bounds.add(&row.codes));
        bounds
    }

    #[inline]
    pub(in crate::method) fn add(&mut self, codes: &[C; W]) {
        for (axis, code) in codes.iter().enumerate() {
            self.low[axis] = self.low[axis].min(*code);
            self.high[axis] = self.high[axis].max(*code);
        }
    }

    /// Takes a row in and says which axes that made wider, a bit for each.
    #[inline]
    pub(in crate::method) fn grow(&mut self, codes: &[C; W]) -> u64 {
        let mut wider = 0;
        for (axis, code) in codes.iter().enumerate() {
            wider |= u64::from(*code < self.low[axis] || *code > self.high[axis]) << axis;
            self.low[axis] = self.low[axis].min(*code);
            self.high[axis] = self.high[axis].max(*code);
        }
        wider
    }

    #[inline]
    pub(in crate::method) fn with(&self, codes: &[C; W]) -> Self {
        let mut wider = *self;
        wider.add(codes);
        wider
    }

    #[inline]
    pub(in crate::method) fn join(&self, other: &Self) -> Self {
        let mut wider = *self;
        for axis in 0..W {
            wider.low[axis] = wider.low[axis].min(other.low[axis]);
            wider.high[axis] = wider.high[axis].max(other.high[axis]);
        }
        wider
    }

    pub(in crate::method) fn contains(&self, codes: &[C; W]) -> bool {
        (0..W).all(|axis| self.low[axis] <= codes[axis] && codes[axis] <= self.high[axis])
    }

    pub(in crate::method) fn overlaps(&self, other: &Self) -> bool {
        (0..W).all(|axis| self.low[axis] <= other.high[axis] && other.low[axis] <= self.high[axis])
    }

    pub(in crate::method) fn is_one_tuple(&self) -> bool {
        self.low == self.high
    }
}

/// Axes of at most this many codes have the loss of every stretch in a table.
const TABLED_CODES: u32 = 128;

/// Losses (NCP) of boxes, looked up where that is faster than walking a hierarchy.
///
/// A cell that is missing loses nothing, even where its class publishes `*` because others have a value. So the loss of
/// a box is that of a row without missing cells, and all rows of a class together lose that, less what they are
/// [spared](Losses::spared).
#[derive(Debug)]
pub(in crate::method) struct Losses<'a> {
    axes: &'a [Axis],
    /// How much a cell of each axis counts.
    weights: Vec<f32>,
    /// By smallest and largest code; empty for an axis of many codes.
    tables: Vec<Vec<f32>>,
    /// The axes on which cells can be missing.
    gaps: Vec<usize>,
}

impl<'a> Losses<'a> {
    pub(in crate::method) fn new(axes: &'a [Axis]) -> Self {
        Self::weighted(axes, &vec![1.0; axes.len()])
    }

    /// The same where a cell of each axis counts so much.
    pub(in crate::method) fn weighted(axes: &'a [Axis], weights: &[f64]) -> Self {
        let weights: Vec<f32> = weights.iter().map(|weight| *weight as f32).collect();
        let table = |(axis, weight): (&Axis, &f32)| {
            if axis.codes > TABLED_CODES {
                return Vec::new();
            }
            let loss = |low: u32, high: u32| match low <= high {
                true => axis.loss(low, high) as f32 * weight,
                false => 0.0,
            };
            (0..axis.codes)
                .flat_map(|low| (0..axis.codes).map(move |high| loss(low, high)))
                .collect()
        };
        let gaps = (0..axes.len()).filter(|axis| axes[*axis].missing).collect();
        Self { axes, tables: axes.iter().zip(&weights).map(table).collect(), weights, gaps }
    }

    /// What one row loses on one axis in a class with these codes.
    #[inline]
    pub(in crate::method) fn on(&self, axis: usize, low: u32, high: u32) -> f32 {
        let table = &self.tables[axis];
        if table.is_empty() {
            return self.axes[axis].loss(low, high) as f32 * self.weights[axis];
        }
        table[(low * self.axes[axis].codes + high) as usize]
    }

    /// What every row of a class loses over all axes. Summed in the order of the axes, so that equal
    /// boxes lose the same to the last digit.
    #[inline]
    pub(in crate::method) fn of<C: Code, const W: usize>(&self, bounds: &Bounds<C, W>) -> f32 {
        let mut loss = 0.0;
        for axis in 0..self.axes.len() {
            loss += self.on(axis, bounds.low[axis].get(), bounds.high[axis].get());
        }
        loss
    }

    /// What every cell of such a row loses.
    pub(in crate::method) fn cells<C: Code, const W: usize>(
        &self,
        bounds: &Bounds<C, W>,
    ) -> [f32; W] {
        let mut cells = [0.0; W];
        for (axis, cell) in cells.iter_mut().enumerate().take(self.axes.len()) {
            *cell = self.on(axis, bounds.low[axis].get(), bounds.high[axis].get());
        }
        cells
    }

    /// Brings the losses of the cells on some axes, a bit for each, up to date.
    #[inline]
    pub(in crate::method) fn update<C: Code, const W: usize>(
        &self,
        cells: &mut [f32; W],
        bounds: &Bounds<C, W>,
        mut axes: u64,
    ) {
        while axes != 0 {
            let axis = axes.trailing_zeros() as usize;
            // The columns behind the last axis are padding.
            if axis >= self.axes.len() {
                break;
            }
            cells[axis] = self.on(axis, bounds.low[axis].get(), bounds.high[axis].get());
            axes &= axes - 1;
        }
    }

    /// What a row of such cells loses: to the last digit what [`Losses::of`] says of their bounds.
    #[inline]
    pub(in crate::method) fn sum<const W: usize>(&self, cells: &[f32; W]) -> f32 {
        cells.iter().take(self.axes.len()).fold(0.0, |sum, cell| sum + cell)
    }

    /// Cells that miss a value, by axis.
    pub(in crate::method) fn missing<C: Code, const W: usize>(
        &self,
        rows: &[Row<C, W>],
    ) -> [u32; W] {
        let mut missing = [0; W];
        rows.iter().for_each(|row| self.count_missing(&mut missing, &row.codes));
        missing
    }

    /// Counts the missing cells of one more row.
    #[inline]
    pub(in crate::method) fn count_missing<C: Code, const W: usize>(
        &self,
        missing: &mut [u32; W],
        codes: &[C; W],
    ) {
        for axis in &self.gaps {
            missing[*axis] += u32::from(codes[*axis].get() == 0);
        }
    }

    /// What rows with these missing cells do not lose of the loss of their box: the cells that are missing where others
    /// have a value, which loses all of it.
    #[inline]
    pub(in crate::method) fn spared<C: Code, const W: usize>(
        &self,
        bounds: &Bounds<C, W>,
        missing: &[u32; W],
    ) -> f64 {
        let mixed = self.gaps.iter().filter(|axis| bounds.high[**axis].get() > 0);
        mixed.map(|axis| f64::from(missing[*axis]) * f64::from(self.weights[*axis])).sum()
    }

    /// What a row is spared within these bounds.
    #[inline]
    pub(in crate::method) fn spared_row<C: Code, const W: usize>(
        &self,
        bounds: &Bounds<C, W>,
        codes: &[C; W],
    ) -> f64 {
        let mixed = self.gaps.iter().filter(|axis| bounds.high[**axis].get() > 0);
        let is_missing = |axis: &&usize| codes[**axis].get() == 0;
        mixed.filter(is_missing).map(|axis| f64::from(self.weights[*axis])).sum()
    }

    /// What these rows lose together within these bounds.
    pub(in crate::method) fn total<C: Code, const W: usize>(
        &self,
        bounds: &Bounds<C, W>,
        rows: &[Row<C, W>],
    ) -> f64 {
        let all = rows.len() as f64 * f64::from(self.of(bounds));
        if self.gaps.is_empty() { all } else { all - self.spared(bounds, &self.missing(rows)) }
    }

    /// The axes on which rows within these bounds can differ, the widest first, equally wide ones as
    /// declared.
    pub(in crate::method) fn wide_axes<C: Code, const W: usize>(
        &self,
        bounds: &Bounds<C, W>,
    ) -> Vec<usize> {
        let mut wide = Vec::with_capacity(self.axes.len());
        for axis in 0..self.axes.len() {
            let (low, high) = (bounds.low[axis].get(), bounds.high[axis].get());
            if low < high {
                wide.push((self.on(axis, low, high), axis));
            }
        }
        largest_first(wide)
    }

    pub(in crate::method) fn axes(&self) -> &'a [Axis] {
        self.axes
    }
}

/// Stable: of equals the first comes first.
pub(in crate::method) fn smallest_first(mut weighed: Vec<(f32, usize)>) -> Vec<usize> {
    weighed.sort_by(|a, b| a.0.total_cmp(&b.0));
    weighed.into_iter().map(|(_, at)| at).collect()
}

/// Stable: of equals the first comes first.
pub(in crate::method) fn largest_first(mut weighed: Vec<(f32, usize)>) -> Vec<usize> {
    weighed.sort_by(|a, b| b.0.total_cmp(&a.0));
    weighed.into_iter().map(|(_, at)| at).collect()
}

/// The numbers below `count`, sorted by a comparison; equal ones keep their order.
pub(in crate::method) fn order_by(
    count: usize,
    compare: &dyn Fn(usize, usize) -> Ordering,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

/// The `most` cheapest by their cost, in that order; of equals the first.
pub(in crate::method) fn cheapest(mut costs: Vec<(f64, usize)>, most: usize) -> Vec<usize> {
    let by_cost = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    if costs.len() > most {
        costs.select_nth_unstable_by(most, by_cost);
        costs.truncate(most);
    }
    costs.sort_by(by_cost);
    costs.into_iter().map(|(_, at)| at).collect()
}

/// The cheapest of what is offered, so many of them.
#[derive(Debug)]
pub(in crate::method) struct Nearest {
    most: usize,
    found: Vec<(f64, usize)>,
}

impl Nearest {
    pub(in crate::method) fn new(most: usize) -> Self {
        Self { most, found: Vec::with_capacity(most + 1) }
    }

    /// What costs as much as this or more is not among them.
    pub(in crate::method) fn limit(&self) -> f64 {
        match self.found.len() < self.most {
            true => f64::INFINITY,
            false => self.found.last().map_or(f64::NEG_INFINITY, |(cost, _)| *cost),
        }
    }

    /// Keeps what is cheaper than the limit; of equals the first.
    pub(in crate::method) fn offer(&mut self, cost: f64, at: usize) {
        if cost < self.limit() {
            let place = self.found.partition_point(|(other, _)| *other <= cost);
            self.found.insert(place, (cost, at));
            self.found.truncate(self.most);
        }
    }

    /// What was kept, the cheapest first.
    pub(in crate::method) fn places(&self) -> Vec<usize> {
        self.found.iter().map(|(_, at)| *at).collect()
    }
}

/// Rows of a group in the order of one axis.
#[derive(Debug, Default)]
pub(in crate::method) struct Sorter {
    keys: Vec<(u64, u32)>,
}

impl Sorter {
    /// Sorts rows by one axis and then by the others on which they differ, the widest first, so that a
    /// cut among equal values keeps both boxes tight. Rows of equal codes keep their order.
    ///
    /// The codes of a row are packed into one number as far as they fit; the places of the widest axes
    /// that do not are left to the order the rows had.
    pub(in crate::method) fn sort_along<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        bounds: &Bounds<C, W>,
        axis: usize,
        wide: &[usize],
    ) {
        let bits = |axis: usize| {
            let width = bounds.high[axis].get() - bounds.low[axis].get();
            u32::BITS - width.leading_zeros()
        };
        let mut places = Vec::with_capacity(wide.len());
        let mut free = u64::BITS;
        for axis in std::iter::once(axis).chain(wide.iter().copied().filter(|other| *other != axis))
        {
            let Some(rest) = free.checked_sub(bits(axis)) else { break };
            free = rest;
            places.push((axis, bounds.low[axis].get(), free));
        }
        let key = |row: &Row<C, W>| {
            let place = |(axis, low, shift): &(usize, u32, u32)| {
                u64::from(row.codes[*axis].get() - low) << shift
            };
            places.iter().map(place).sum()
        };
        self.keys.clear();
        self.keys.extend(rows.iter().zip(0u32..).map(|(row, at)| (key(row), at)));
        self.keys.sort_unstable();
        self.arrange(rows);
    }

    /// Sorts rows canonically.
    pub(in crate::method) fn sort_canonically<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        keys: &RowKeys,
    ) {
        self.keys.clear();
        self.keys.extend(rows.iter().zip(0u32..).map(|(row, at)| (row.leading(), at)));
        let by_rows = &*rows;
        sort_keys(&mut self.keys, &|a, b| {
            by_rows[a as usize].canonical_order(&by_rows[b as usize], keys)
        });
        self.arrange(rows);
    }

    /// Brings the rows into the order of the keys.
    fn arrange<C: Code, const W: usize>(&self, rows: &mut [Row<C, W>]) {
        let sorted: Vec<Row<C, W>> = self.keys.iter().map(|(_, at)| rows[*at as usize]).collect();
        rows.copy_from_slice(&sorted);
    }
}

/// Sorts pairs of key and position by key; equal keys by comparing what is at their positions.
fn sort_keys(keys: &mut [(u64, u32)], compare: &dyn Fn(u32, u32) -> Ordering) {
    keys.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| compare(a.1, b.1)).then_with(|| a.1.cmp(&b.1))
    });
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

    #[test]
    fn missing_cells_lose_nothing_where_others_have_a_value() {
        let axes = [Axis::line(&[0.0, 1.0, 4.0], true), Axis::line(&[0.0, 1.0], true)];
        let losses = Losses::new(&axes);
        let total = |codes: &[[u32; 2]]| {
            let rows: Vec<Row<u32, 2>> =
                codes.iter().zip(0..).map(|(codes, id)| Row { codes: *codes, id }).collect();
            losses.total(&Bounds::of(&rows), &rows)
        };
        assert_eq!(total(&[[1, 1], [2, 1]]), 2.0 * 0.25);
        assert_eq!(total(&[[0, 1], [2, 1], [3, 1]]), 2.0, "two of three rows had a value");
        assert_eq!(total(&[[0, 0], [0, 0]]), 0.0, "missing stays missing");
        assert_eq!(total(&[[0, 0], [0, 1], [3, 0]]), 1.0 + 1.0);
        let bounds = Bounds { low: [0u32, 1], high: [2, 1] };
        assert_eq!(losses.spared_row(&bounds, &[0, 1]), 1.0);
        assert_eq!(losses.spared_row(&bounds, &[2, 1]), 0.0);
    }

    #[test]
    fn bounds_are_the_same_for_every_shape_of_rows() {
        let next = |at: u32| at.wrapping_mul(2_654_435_761) >> 9;
        let codes = |at: u32| -> [u32; 8] {
            std::array::from_fn(|axis| next(8 * at + axis as u32) % [256, 2, 99, 5][axis % 4])
        };
        for rows in [1u32, 2, 3, 16, 97] {
            let wide: Vec<Row<u32, 8>> = (0..rows).map(|id| Row { codes: codes(id), id }).collect();
            let narrow: Vec<Row<u8, 8>> =
                (0..rows).map(|id| Row { codes: codes(id).map(|code| code as u8), id }).collect();
            let same = |narrow: &Bounds<u8, 8>, wide: &Bounds<u32, 8>| {
                assert_eq!(narrow.low.map(u32::from), wide.low.map(|code| code.min(255)));
                assert_eq!(narrow.high.map(u32::from), wide.high);
            };
            same(&Bounds::of(&narrow), &Bounds::of(&wide));
        }
        assert!(lanes::bounds(&[Row { codes: [1u16; 8], id: 0 }]).is_none());
    }

    #[test]
    fn rows_are_sorted_by_the_axis_and_then_by_the_widest() {
        let row = |codes: [u32; 3], id| Row { codes, id };
        let mut rows = [
            row([5, 1, 9], 0),
            row([4, 2, 9], 1),
            row([5, 0, 8], 2),
            row([4, 2, 8], 3),
            row([5, 0, 8], 4),
        ];
        let bounds = Bounds::of(&rows);
        Sorter::default().sort_along(&mut rows, &bounds, 0, &[1, 2, 0]);
        assert_eq!(rows.map(|row| row.id), [3, 1, 2, 4, 0]);
        // Codes that do not fit beside each other leave the order as it was.
        let mut rows = [
            row([u32::MAX, 0, 7], 0),
            row([0, u32::MAX, 3], 1),
            row([0, 1, 2], 2),
            row([0, 1, 1], 3),
        ];
        let bounds = Bounds::of(&rows);
        Sorter::default().sort_along(&mut rows, &bounds, 0, &[0, 1, 2]);
        assert_eq!(rows.map(|row| row.id), [2, 3, 1, 0]);
    }
}
