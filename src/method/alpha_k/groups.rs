//! The rows of each sensitive value, side by side and in canonical order.

use rayon::prelude::*;

use super::Plan;
use crate::error::Result;
use crate::method::blocks::slices;
use crate::model::{Code, Row};

/// The rows of one sensitive value: a stretch of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// The value.
    pub(super) code: u32,
    /// Its level, from 1.
    pub(super) level: u32,
    /// Where its rows begin.
    pub(super) start: u32,
    /// The first row that is not in a class yet.
    pub(super) next: u32,
    /// Behind its last row.
    pub(super) end: u32,
}

impl Group {
    /// Rows that are not in a class yet.
    pub(super) fn left(&self) -> u32 {
        self.end - self.next
    }
}

/// Rows of each group.
pub(super) fn sizes(groups: &[Group]) -> Vec<u32> {
    groups.iter().map(|group| group.end - group.start).collect()
}

/// Sorts the rows by level, then value, then canonically, and says where each value's rows are.
pub(super) fn by_value<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    plan: &Plan,
) -> Result<Vec<Group>> {
    let groups = count(rows, plan);
    let mut group_of = vec![0u32; plan.column.cardinality as usize];
    for (index, group) in groups.iter().enumerate() {
        group_of[group.code as usize] = index as u32;
    }
    bring_together(rows, &groups, |id| group_of[plan.column.codes[id as usize] as usize]);
    plan.job.cancel.check()?;
    let keys = plan.job.keys;
    slices(rows, &sizes(&groups)).into_par_iter().try_for_each(|stretch| {
        plan.job.cancel.check()?;
        stretch.par_sort_unstable_by(|a, b| a.canonical_order(b, keys));
        Ok(())
    })?;
    Ok(groups)
}

/// The groups of the values that occur, by level and value, with their places.
fn count<C: Code, const W: usize>(rows: &[Row<C, W>], plan: &Plan) -> Vec<Group> {
    let mut counts = vec![0u32; plan.column.cardinality as usize];
    for row in rows {
        counts[plan.column.codes[row.id as usize] as usize] += 1;
    }
    let occurring = (0..plan.column.cardinality).filter(|code| counts[*code as usize] > 0);
    let mut codes: Vec<u32> = occurring.collect();
    codes.sort_by_key(|code| plan.grades.level(*code));
    let mut end = 0;
    let group = |code: u32| {
        let start = end;
        end += counts[code as usize];
        Group { code, level: plan.grades.level(code), start, next: start, end }
    };
    codes.into_iter().map(group).collect()
}

/// Swaps every row to a place of its group.
fn bring_together<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    groups: &[Group],
    group_of: impl Fn(u32) -> u32,
) {
    let mut next: Vec<usize> = groups.iter().map(|group| group.start as usize).collect();
    for (index, group) in groups.iter().enumerate() {
        while next[index] < group.end as usize {
            let at = next[index];
            let home = group_of(rows[at].id) as usize;
            rows.swap(at, next[home]);
            next[home] += 1;
        }
    }
}
