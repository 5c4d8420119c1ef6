//! Cutting a large table into blocks that are worked on one by one.
//!
//! Methods that compare all rows with each other take quadratic time; in blocks the square is that of a block. Rows of a
//! block should be near each other. So rows that miss a column are first separated from rows that have it, as long as
//! both sides stay large enough, because a class with both loses the whole column; then the rounded partition cuts by
//! value.

use std::ops::Range;

use crate::error::Result;
use crate::method::partition::{Cut, Job, Split, partition_rows};
use crate::model::{Code, GlobalShares, Requirement, Row, Tally};

/// A block holds at least this many classes' worth of rows, whatever `block_rows` says.
const LEAST_CLASSES: usize = 8;
/// Rows part by what they miss only into sides of at least one in this many of a block.
const PATTERN_SHARE: usize = 16;

/// Rows that a block holds whatever it is asked for.
pub(super) fn least(k: usize) -> usize {
    LEAST_CLASSES.saturating_mul(k)
}

/// Cuts the rows into blocks and leaves them in block order; returns the sizes.
pub(super) fn cut<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    job: &Job,
    global: &GlobalShares,
    block_rows: usize,
) -> Result<Vec<u32>> {
    let least = least(job.requirement.k as usize);
    let block_rows = block_rows.max(least);
    let side = least.max(block_rows / PATTERN_SHARE);
    let tally = Tally::new(job.requirement, job.sensitive, global);
    let mut cutter = Cutter { job, block_rows, side, tally, sizes: Vec::new() };
    cutter.cut(rows)?;
    Ok(cutter.sizes)
}

/// The blocks as ranges of positions.
pub(super) fn ranges(sizes: &[u32]) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |size: &u32| {
        let start = end;
        end += *size as usize;
        start..end
    };
    sizes.iter().map(range).collect()
}

/// The blocks as slices.
pub(super) fn slices<'r, T>(mut rows: &'r mut [T], sizes: &[u32]) -> Vec<&'r mut [T]> {
    let mut slices = Vec::with_capacity(sizes.len());
    for size in sizes {
        let (block, rest) = rows.split_at_mut(*size as usize);
        slices.push(block);
        rows = rest;
    }
    slices
}

struct Cutter<'a> {
    job: &'a Job<'a>,
    block_rows: usize,
    /// Smallest side when rows part by what they miss.
    side: usize,
    tally: Tally<'a>,
    sizes: Vec<u32>,
}

impl Cutter<'_> {
    fn cut<C: Code, const W: usize>(&mut self, rows: &mut [Row<C, W>]) -> Result<()> {
        self.job.cancel.check()?;
        if rows.len() <= self.block_rows {
            self.sizes.push(rows.len() as u32);
            return Ok(());
        }
        if let Some(missing) = self.part_by_missing(rows) {
            let (missing, present) = rows.split_at_mut(missing);
            self.cut(missing)?;
            return self.cut(present);
        }
        let blocks = rows.len().div_ceil(self.block_rows);
        let requirement = Requirement {
            k: (rows.len() / blocks) as u32,
            models: self.job.requirement.models.clone(),
        };
        let job = Job { requirement: &requirement, ..*self.job };
        let mut sizes = partition_rows(rows, &job, Cut::Rounded, Split::LeastLoss, false)?;
        self.sizes.append(&mut sizes);
        Ok(())
    }

    /// Brings the rows that miss a column to the front and counts them: the column that parts the
    /// rows most evenly, if both sides are large enough and satisfy the models.
    fn part_by_missing<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
    ) -> Option<usize> {
        let mut columns = Vec::new();
        for (index, _) in self.job.axes.iter().enumerate().filter(|(_, axis)| axis.missing) {
            let missing = rows.iter().filter(|row| row.codes[index].get() == 0).count();
            let smaller = missing.min(rows.len() - missing);
            if smaller >= self.side {
                columns.push((smaller, index));
            }
        }
        most_even_first(&mut columns);
        columns.into_iter().find_map(|(_, index)| {
            let mut missing = 0;
            for at in 0..rows.len() {
                if rows[at].codes[index].get() == 0 {
                    rows.swap(missing, at);
                    missing += 1;
                }
            }
            let (left, right) = rows.split_at(missing);
            let holds = self.job.requirement.models.is_empty()
                || (self.tally.holds_for(left.iter().map(|row| row.id))
                    && self.tally.holds_for(right.iter().map(|row| row.id)));
            holds.then_some(missing)
        })
    }
}

/// Sorts columns by the size of the smaller side. A function of its own, so that it is not compiled for every shape.
fn most_even_first(columns: &mut [(usize, usize)]) {
    columns.sort_by_key(|(smaller, _)| std::cmp::Reverse(*smaller));
}
