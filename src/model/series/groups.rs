//! Rows by group.

use std::ops::Range;

use rayon::prelude::*;

use crate::model::{GlobalShares, Requirement, SensitiveColumn, Tally};

/// The numbers of rows, those of a group side by side and in ascending order.
#[derive(Debug, Default)]
pub struct Groups {
    rows: Vec<u32>,
    starts: Vec<u32>,
}

impl Groups {
    /// Groups rows by the number of each row's group. Rows whose group is not below `groups` are left out.
    pub fn of(group_of: &[u32], groups: usize) -> Self {
        let mut starts = vec![0u32; groups + 1];
        let known = || group_of.iter().zip(0u32..).filter(|(group, _)| (**group as usize) < groups);
        known().for_each(|(group, _)| starts[*group as usize + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut rows = vec![0u32; starts[groups] as usize];
        let mut next = starts.clone();
        for (group, row) in known() {
            let place = &mut next[*group as usize];
            rows[*place as usize] = row;
            *place += 1;
        }
        Self { rows, starts }
    }

    /// Which of the wanted groups meet a requirement. Works on the current rayon pool.
    pub fn which_hold(
        &self,
        wanted: &[bool],
        requirement: &Requirement,
        sensitive: &[SensitiveColumn],
    ) -> Vec<bool> {
        let global = GlobalShares::new(requirement, sensitive);
        let per_thread = || Tally::new(requirement, sensitive, &global);
        let groups = (0..self.len()).into_par_iter().with_min_len(64);
        let holds = groups.map_init(per_thread, |tally, group| {
            wanted[group] && tally.holds_for(self.rows(group).iter().copied())
        });
        holds.collect()
    }

    /// Groups that stand one after the other in a list of rows.
    pub fn of_runs(rows: Vec<u32>, runs: impl Iterator<Item = Range<usize>>) -> Self {
        let mut starts = vec![0u32];
        starts.extend(runs.map(|run| run.end as u32));
        Self { rows, starts }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of a group.
    pub fn rows(&self, group: usize) -> &[u32] {
        &self.rows[self.starts[group] as usize..self.starts[group + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_beside_those_of_their_group() {
        let groups = Groups::of(&[2, 0, 9, 2, 0, 0], 4);
        let rows: Vec<&[u32]> = (0..groups.len()).map(|group| groups.rows(group)).collect();
        assert_eq!(rows, [&[1, 4, 5][..], &[], &[0, 3], &[]]);
        let runs = Groups::of_runs(vec![5, 3, 4], [0..2, 2..3].into_iter());
        assert_eq!((runs.len(), runs.rows(0), runs.rows(1)), (2, &[5, 3][..], &[4][..]));
    }
}
