//! What each code of a column would cost the group that is growing, computed at most once.

use super::distance::{Column, Cost, Part};

/// Columns with more codes than this are not cached: the table would be larger than what it saves.
const CACHED_CODES: u32 = 1 << 16;

/// Costs of joining the growing group in one column, by code, each computed when it is first asked for.
#[derive(Debug)]
pub(super) struct CostCache<'a> {
    pub(super) column: &'a Column<'a>,
    pub(super) part: Part,
    /// The cost no code is below.
    pub(super) least: u64,
    known: Vec<(u32, Cost)>,
    stamp: u32,
}

impl<'a> CostCache<'a> {
    pub(super) fn new(column: &'a Column<'a>) -> Self {
        let codes = column.axis.codes;
        let known = if codes <= CACHED_CODES { codes as usize } else { 0 };
        let known = vec![(0, Cost::default()); known];
        Self { column, part: Part::default(), least: 0, known, stamp: 0 }
    }

    /// Starts over with a center of which no row is charged yet.
    pub(super) fn start_at(&mut self, code: u32) {
        self.part = self.column.part(code);
        self.forget();
    }

    /// Lets a row join the center; says whether that changed it. [`CostCache::charge`] must follow.
    pub(super) fn join(&mut self, code: u32) -> bool {
        self.column.join(&mut self.part, code)
    }

    /// Counts rows of the group, which changes all costs.
    pub(super) fn charge(&mut self, code: u32, rows: u32) {
        self.column.charge(&mut self.part, code, rows);
        self.forget();
    }

    fn forget(&mut self) {
        self.least = self.column.least(&self.part);
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
                let cost = self.column.cost(&self.part, code);
                *known = (self.stamp, cost);
                cost
            }
            None => self.column.cost(&self.part, code),
        }
    }

    /// The NCP cost no code but the missing one is above.
    pub(super) fn most(&self) -> u64 {
        self.column.most(&self.part)
    }
}
