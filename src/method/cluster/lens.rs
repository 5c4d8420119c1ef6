//! A column as the group that is growing sees it.

use super::distance::{Column, Cost, Part};

/// Columns with more codes than this are computed anew at every look.
const REMEMBERED_CODES: u32 = 1 << 16;

/// A column seen from the group that is growing: costs by code, each computed at its first look.
#[derive(Debug)]
pub(super) struct Lens<'a> {
    pub(super) column: &'a Column<'a>,
    pub(super) part: Part,
    size: u32,
    /// The cost no code is below.
    pub(super) least: u64,
    known: Vec<(u32, Cost)>,
    stamp: u32,
}

impl<'a> Lens<'a> {
    pub(super) fn new(column: &'a Column<'a>) -> Self {
        let codes = column.axis.codes;
        let known = if codes <= REMEMBERED_CODES { codes as usize } else { 0 };
        let known = vec![(0, Cost::default()); known];
        Self { column, part: Part::default(), size: 1, least: 0, known, stamp: 0 }
    }

    /// Looks from a single row.
    pub(super) fn focus(&mut self, code: u32) {
        self.part = self.column.part(code);
        self.resize(1);
    }

    /// Lets a row join the center; says whether that changed it. [`Lens::resize`] must follow.
    pub(super) fn widen(&mut self, code: u32) -> bool {
        self.column.join(&mut self.part, code)
    }

    /// Looks from a group that has `size` rows by now.
    pub(super) fn resize(&mut self, size: u32) {
        self.size = size;
        self.least = self.column.least(&self.part, size);
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.known.fill((0, Cost::default()));
            self.stamp = 1;
        }
    }

    /// Cost of a code.
    #[inline]
    pub(super) fn cost(&mut self, code: u32) -> Cost {
        match self.known.get_mut(code as usize) {
            Some((stamp, cost)) if *stamp == self.stamp => *cost,
            Some(known) => {
                let cost = self.column.cost(&self.part, self.size, code);
                *known = (self.stamp, cost);
                cost
            }
            None => self.column.cost(&self.part, self.size, code),
        }
    }

    /// The NCP cost no code but the missing one is above.
    pub(super) fn most(&self) -> u64 {
        self.column.most(&self.part, self.size)
    }
}
