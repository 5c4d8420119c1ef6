//! The rows of each sensitive value, side by side and in canonical order.

use rayon::prelude::*;

use super::Plan;
use crate::error::Result;
use crate::method::blocks::slices;
use crate::model::RowTable;

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
pub(super) fn by_value(rows: &mut RowTable, plan: &Plan) -> Result<Vec<Group>> {
    let ids = rows.ids(0..rows.len());
    let groups = count(&ids, plan);
    let mut order = bring_together(rows, &ids, &groups, plan);
    drop(ids);
    plan.job.cancel.check()?;
    let by_rows = &*rows;
    slices(&mut order, &sizes(&groups)).into_par_iter().try_for_each(|stretch| {
        plan.job.cancel.check()?;
        stretch.par_sort_unstable_by(|(first, a), (other, b)| {
            let by_row = || by_rows.canonical_order(*a, *b, plan.job.keys);
            first.cmp(other).then_with(by_row)
        });
        Ok(())
    })?;
    let mut targets = vec![0; order.len()];
    (0u32..).zip(order).for_each(|(target, (_, from))| targets[from as usize] = target);
    rows.scatter(&targets);
    Ok(groups)
}

/// The groups of the values that occur, by level and value, with their places.
fn count(ids: &[u32], plan: &Plan) -> Vec<Group> {
    let mut counts = vec![0u32; plan.column.cardinality as usize];
    for id in ids {
        counts[plan.column.codes[*id as usize] as usize] += 1;
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

/// The positions of the rows group by group, each behind the first codes of its row.
fn bring_together(rows: &RowTable, ids: &[u32], groups: &[Group], plan: &Plan) -> Vec<(u64, u32)> {
    let mut next = vec![0u32; plan.column.cardinality as usize];
    groups.iter().for_each(|group| next[group.code as usize] = group.start);
    let mut order = vec![(0, 0); ids.len()];
    rows.for_each_leading(&mut |at, leading| {
        let place = &mut next[plan.column.codes[ids[at as usize] as usize] as usize];
        order[*place as usize] = (leading, at);
        *place += 1;
    });
    order
}
