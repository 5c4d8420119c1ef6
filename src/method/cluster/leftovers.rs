//! The rows that are left when no further group can be made.

use super::greedy::{Group, Growth};
use crate::error::{Error, Result};
use crate::model::Tally;

impl Growth<'_> {
    /// Gives every row left to the nearest group that stays a class with it. Rows that fit nowhere
    /// make a group of their own, which takes in its nearest groups until it is a class.
    pub(super) fn place_leftovers(&mut self) -> Result<()> {
        let tuple_of = self.tuples.tuple_of_rows();
        let mut unplaced: Option<Group> = None;
        for position in std::mem::take(&mut self.leftovers) {
            self.rules.cancel.check()?;
            let tuple = tuple_of[position as usize] as usize;
            match self.nearest_group(position, tuple) {
                Some(nearest) => self.join(nearest, position, tuple),
                None => {
                    let group = unplaced.get_or_insert_with(Group::default);
                    group.rows.push(position);
                }
            }
        }
        match unplaced {
            Some(group) => self.complete(group, &tuple_of),
            None => Ok(()),
        }
    }

    fn distance(&self, group: &Group, tuple: usize) -> u64 {
        let columns = self.rules.columns.iter().zip(&group.center).zip(&self.tuples.codes);
        columns.map(|((column, part), codes)| column.distance(part, codes[tuple])).sum()
    }

    fn join(&mut self, group: usize, position: u32, tuple: usize) {
        let group = &mut self.groups[group];
        group.rows.push(position);
        for ((column, part), codes) in
            self.rules.columns.iter().zip(&mut group.center).zip(&self.tuples.codes)
        {
            column.join(part, codes[tuple]);
            column.charge(part, codes[tuple], 1);
        }
    }

    fn nearest_group(&mut self, position: u32, tuple: usize) -> Option<usize> {
        let far = |(index, group): (usize, &Group)| (self.distance(group, tuple), index);
        if self.rules.models.is_empty() {
            return self.groups.iter().enumerate().map(far).min().map(|(_, index)| index);
        }
        let mut nearest: Vec<(u64, usize)> = self.groups.iter().enumerate().map(far).collect();
        nearest.sort_unstable();
        nearest.into_iter().map(|(_, index)| index).find(|index| self.holds_with(*index, position))
    }

    /// Whether a group stays a class when this row joins it.
    fn holds_with(&mut self, group: usize, position: u32) -> bool {
        let mut rows = self.groups[group].rows.clone();
        rows.push(position);
        self.holds(&rows)
    }

    /// Whether rows satisfy the models.
    pub(super) fn holds(&mut self, rows: &[u32]) -> bool {
        let ids = || rows.iter().map(|position| self.tuples.ids[*position as usize]);
        self.tallies.iter_mut().all(|tally| tally.holds_for(ids()))
    }

    /// Lets a group take in its nearest groups until it is a class.
    fn complete(&mut self, mut open: Group, tuple_of: &[u32]) -> Result<()> {
        let columns = self.rules.columns;
        open.center = self.tuples.center(columns, &open.rows, tuple_of);
        self.tallies.iter_mut().for_each(Tally::clear);
        let mut joined = 0;
        loop {
            for position in &open.rows[joined..] {
                let id = self.tuples.ids[*position as usize];
                self.tallies.iter_mut().for_each(|tally| tally.add(id));
            }
            joined = open.rows.len();
            let is_class = joined >= self.rules.k as usize
                && self.tallies.iter_mut().all(|tally| tally.holds());
            if is_class {
                self.groups.push(open);
                return Ok(());
            }
            self.rules.cancel.check()?;
            // Both ends of the open group's center stand for it.
            let far = |(index, group): (usize, &Group)| {
                let parts = columns.iter().zip(&group.center).zip(&open.center);
                let ends = parts.map(|((column, part), open)| {
                    column.distance(part, open.low).max(column.distance(part, open.high))
                });
                (ends.sum::<u64>(), index)
            };
            let Some((_, nearest)) = self.groups.iter().enumerate().map(far).min() else {
                return Err(Error::bug("the rows of a block do not form a class together"));
            };
            let mut nearest = self.groups.remove(nearest);
            open.rows.append(&mut nearest.rows);
            for ((column, part), other) in columns.iter().zip(&mut open.center).zip(&nearest.center)
            {
                column.join_part(part, other);
            }
        }
    }
}
