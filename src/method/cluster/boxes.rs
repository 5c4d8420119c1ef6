//! The boxes of all groups side by side: where a row or a group costs least, looking at all of them.

use super::distance::{Column, Part};
use super::greedy::Group;
use crate::hierarchy::Shape;
use crate::method::bounds::Nearest;

/// Columns of at most this many codes have the loss of every stretch in a table.
const TABLED_CODES: u32 = 128;

/// The losses of all stretches of a column, by their ends; empty for sets and columns of many codes.
pub(super) fn stretches(column: &Column) -> Vec<f32> {
    let axis = column.axis;
    if axis.codes > TABLED_CODES || axis.shape == Shape::Set {
        return Vec::new();
    }
    let ends = (0..axis.codes).flat_map(|low| (0..axis.codes).map(move |high| (low, high)));
    ends.map(|(low, high)| if low < high { axis.loss(low, high) as f32 } else { 0.0 }).collect()
}

/// Bytes of that for a column of so many codes.
pub(super) fn stretch_bytes(codes: u32) -> usize {
    if codes > TABLED_CODES { 0 } else { (codes * codes) as usize * size_of::<f32>() }
}

/// The part of a center that tells the loss, except of a set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) low: u32,
    pub(super) high: u32,
    pub(super) charged: f32,
    pub(super) value: f32,
}

/// That of a group without rows.
const NONE: Extent = Extent { low: 0, high: 0, charged: 0.0, value: 0.0 };

/// A code that could join centers of its column.
#[derive(Debug)]
pub(super) struct AddedLoss<'c> {
    pub(super) column: &'c Column<'c>,
    pub(super) stretches: &'c [f32],
    pub(super) is_set: bool,
    pub(super) code: u32,
    /// Rows that lose beside those of the group: 1, or 0 if the cell is missing.
    pub(super) own: f32,
    pub(super) weight: f32,
}

impl AddedLoss<'_> {
    /// By how much the loss of a group grows; `part` is its center and `extent` the short form of it.
    #[inline]
    pub(super) fn to(&self, extent: &Extent, part: &Part) -> f64 {
        if !self.is_set && extent.low <= self.code && self.code <= extent.high {
            return f64::from(self.weight * self.own * extent.value);
        }
        if self.stretches.is_empty() {
            return self.column.added_loss(part, self.code);
        }
        let (low, high) = (extent.low.min(self.code), extent.high.max(self.code));
        let joined = self.stretches[(low * self.column.axis.codes + high) as usize];
        let added = (extent.charged + self.own) * joined - extent.charged * extent.value;
        f64::from(self.weight * added)
    }
}

/// What the rows of a group lose together.
pub(super) fn lost(columns: &[Column<'_>], center: &[Part]) -> f64 {
    columns.iter().zip(center).map(|(column, part)| column.loss(part)).sum()
}

/// Joins a row with a center; [`charge`] must follow.
pub(super) fn join(columns: &[Column<'_>], center: &mut [Part], codes: &[u32]) {
    for ((column, part), code) in columns.iter().zip(center).zip(codes) {
        column.join(part, *code);
    }
}

/// Counts a row of a center.
pub(super) fn charge(columns: &[Column<'_>], center: &mut [Part], codes: &[u32]) {
    for ((column, part), code) in columns.iter().zip(center).zip(codes) {
        column.charge(part, *code, 1);
    }
}

/// The extents of all groups, column by column.
pub(super) struct Boxes<'a> {
    pub(super) columns: &'a [Column<'a>],
    extents: Vec<Vec<Extent>>,
}

impl<'a> Boxes<'a> {
    pub(super) fn new(columns: &'a [Column<'a>], groups: &[Group]) -> Self {
        let of_column = |column: usize| {
            groups.iter().map(|group| group.center.get(column).map_or(NONE, Part::extent)).collect()
        };
        Self { columns, extents: (0..columns.len()).map(of_column).collect() }
    }

    pub(super) fn update(&mut self, group: usize, center: &[Part]) {
        for (extents, part) in self.extents.iter_mut().zip(center) {
            extents[group] = part.extent();
        }
    }

    /// The group to which a row adds least loss, if that is below a limit; of equals the first.
    pub(super) fn cheapest(
        &self,
        groups: &[Group],
        codes: &[u32],
        limit: f64,
    ) -> Option<(f64, usize)> {
        // Columns of many values come last and tell groups apart best.
        let added: Vec<AddedLoss> =
            self.columns.iter().zip(codes).map(|(column, code)| column.added_by(*code)).collect();
        let mut best = (limit, None);
        for (at, group) in groups.iter().enumerate() {
            let mut sum = 0.0;
            for (index, added) in added.iter().enumerate().rev() {
                let Some(part) = group.center.get(index) else { break };
                sum += added.to(&self.extents[index][at], part);
                if sum >= best.0 {
                    break;
                }
            }
            if sum < best.0 && !group.rows.is_empty() {
                best = (sum, Some(at));
            }
        }
        best.1.map(|at| (best.0, at))
    }

    /// The groups for which being put together with a group costs least.
    pub(super) fn nearest(&self, groups: &[Group], at: usize, most: usize) -> Vec<usize> {
        let mut nearest = Nearest::new(most);
        for (other, group) in groups.iter().enumerate().filter(|(other, _)| *other != at) {
            let parts = groups[at].center.iter().zip(&group.center);
            let columns = self.columns.iter().zip(&self.extents).zip(parts);
            let cost = columns.map(|((column, extents), parts)| {
                column.added_by_joining((&extents[at], &extents[other]), parts)
            });
            nearest.offer(cost.sum(), other);
        }
        nearest.places()
    }
}
