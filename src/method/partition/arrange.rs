//! Moving the rows of a group to the two sides of a cut.

use super::Worker;
use super::survey::wide_axes;
use crate::method::bounds::Bounds;
use crate::model::{Code, Row};

impl Worker<'_> {
    /// Brings the rows of the left side of a cut to the front: rows below `value`, then as many rows
    /// equal to it as `left` asks for.
    pub(super) fn arrange<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        axis: usize,
        value: u32,
        left: usize,
    ) {
        let value = C::from_u32(value);
        let below = bring_forward(rows, |row| row.codes[axis] < value);
        if below == left {
            return;
        }
        let rows = &mut rows[below..];
        let equal = bring_forward(rows, |row| row.codes[axis] == value);
        if below + equal > left {
            self.arrange_equal(&mut rows[..equal], left - below);
        }
    }

    /// Chooses `left` of the rows that are equal on the cut: by the axis on which they differ most,
    /// again and again, so that both sides stay tight; by key where no axis tells them apart.
    fn arrange_equal<C: Code, const W: usize>(&mut self, rows: &mut [Row<C, W>], left: usize) {
        match wide_axes(&Bounds::of(rows), self.context.job.axes).first() {
            Some(widest) => {
                let value = self.value_at(rows, widest, left);
                self.arrange(rows, widest.index, value, left);
            }
            None => {
                // In place: they may be most of the table.
                let keys = self.context.job.keys;
                rows.select_nth_unstable_by(left, |a, b| keys.compare(a.id, b.id));
            }
        }
    }

    /// Takes the numbers of the rows into the buffer of values.
    pub(super) fn take_ids<C: Code, const W: usize>(&mut self, rows: &[Row<C, W>]) {
        self.values.clear();
        self.values.extend(rows.iter().map(|row| row.id));
    }

    /// Sorts the row numbers taken by key.
    pub(super) fn sort_ids(&mut self) {
        let keys = self.context.job.keys;
        self.values.sort_unstable_by(|a, b| keys.compare(*a, *b));
    }
}

/// Moves the rows that satisfy the predicate to the front and counts them.
///
/// Every row is swapped whether it satisfies the predicate or not: at the median a branch on it would
/// be mispredicted every other row.
#[inline(always)]
fn bring_forward<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    predicate: impl Fn(&Row<C, W>) -> bool,
) -> usize {
    let mut front = 0;
    for at in 0..rows.len() {
        let satisfied = predicate(&rows[at]);
        rows.swap(front, at);
        front += usize::from(satisfied);
    }
    front
}
