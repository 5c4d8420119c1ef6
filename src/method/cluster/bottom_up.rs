//! Merging from single rows upward (`bottom_up`).
//!
//! Rounds over the groups in canonical order: a group that is not yet a class merges with the group
//! for which the NCP summed over the rows grows least, and a group of 2k rows or more is halved on
//! the column that leaves the least. Equal rows start as one group, since merging them costs nothing.

use super::distance::{Column, Part};
use super::greedy::{Group, Rules};
use super::tuples::Tuples;
use crate::error::{Error, Result};
use crate::model::Tally;

/// Groups the rows of a block.
pub(super) fn bottom_up<'a>(
    rules: Rules<'a>,
    tuples: &'a Tuples,
    tallies: Vec<Tally<'a>>,
) -> Result<Vec<Group>> {
    let mut merging =
        Merging { rules, tuples, tuple_of: tuples.tuple_of_rows(), tallies, groups: Vec::new() };
    for tuple in 0..tuples.len() {
        let rows = tuples.positions(tuple).map(|position| position as u32).collect();
        merging.add_halved(rows);
    }
    while merging.round()? {
        merging.groups.retain(|group| !group.rows.is_empty());
    }
    let groups = merging.groups.into_iter().filter(|group| !group.rows.is_empty());
    Ok(groups.map(|group| Group { center: group.center, rows: group.rows }).collect())
}

struct Merging<'a> {
    rules: Rules<'a>,
    tuples: &'a Tuples,
    tuple_of: Vec<u32>,
    tallies: Vec<Tally<'a>>,
    groups: Vec<Cluster>,
}

/// A group; one without rows has been merged away.
struct Cluster {
    center: Vec<Part>,
    rows: Vec<u32>,
    /// Loss of one row, summed over the columns.
    loss: f64,
    is_class: bool,
}

impl Merging<'_> {
    /// Merges every group that is not a class; says whether there was one.
    fn round(&mut self) -> Result<bool> {
        let mut merged = false;
        // Halves are added behind; they are classes and wait for the next round anyway.
        for at in 0..self.groups.len() {
            if self.groups[at].is_class || self.groups[at].rows.is_empty() {
                continue;
            }
            self.rules.cancel.check()?;
            let Some(other) = self.cheapest(at) else {
                return Err(Error::bug("the rows of a block do not form a class together"));
            };
            let other = std::mem::take(&mut self.groups[other].rows);
            let mut rows = std::mem::take(&mut self.groups[at].rows);
            rows.extend(other);
            match self.halve(&rows) {
                Some((left, right)) => {
                    self.groups[at] = self.cluster(left);
                    self.add_halved(right);
                }
                None => self.groups[at] = self.cluster(rows),
            }
            merged = true;
        }
        Ok(merged)
    }

    /// Adds a group, or the halves of it if they are classes.
    fn add_halved(&mut self, rows: Vec<u32>) {
        match self.halve(&rows) {
            Some((left, right)) => {
                self.add_halved(left);
                self.add_halved(right);
            }
            None => {
                let cluster = self.cluster(rows);
                self.groups.push(cluster);
            }
        }
    }

    fn cluster(&mut self, rows: Vec<u32>) -> Cluster {
        let center = self.center(&rows);
        let loss = self.loss(&center);
        let is_class = self.is_class(&rows);
        Cluster { center, rows, loss, is_class }
    }

    fn is_class(&mut self, rows: &[u32]) -> bool {
        let ids = || rows.iter().map(|position| self.tuples.ids[*position as usize]);
        rows.len() >= self.rules.k as usize
            && self.tallies.iter_mut().all(|tally| tally.holds_for(ids()))
    }

    fn center(&self, rows: &[u32]) -> Vec<Part> {
        let center = |(column, codes): (&Column<'_>, &Vec<u32>)| {
            let mut codes = rows.iter().map(|at| codes[self.tuple_of[*at as usize] as usize]);
            let mut part = codes.next().map(|code| column.part(code)).unwrap_or_default();
            codes.for_each(|code| {
                column.join(&mut part, code);
            });
            part
        };
        self.rules.columns.iter().zip(&self.tuples.codes).map(center).collect()
    }

    fn loss(&self, center: &[Part]) -> f64 {
        self.rules.columns.iter().zip(center).map(|(column, part)| column.loss(part)).sum()
    }

    /// The other group whose merger with this one adds least loss.
    fn cheapest(&self, at: usize) -> Option<usize> {
        let own = &self.groups[at];
        let mut best = (f64::INFINITY, None);
        for (index, other) in self.groups.iter().enumerate() {
            if index == at || other.rows.is_empty() {
                continue;
            }
            let rows = (own.rows.len() + other.rows.len()) as f64;
            let already = other.rows.len() as f64 * other.loss;
            let mut joined = 0.0;
            for ((column, part), other) in
                self.rules.columns.iter().zip(&own.center).zip(&other.center)
            {
                joined += column.joined_loss(part, other);
                if rows * joined - already >= best.0 {
                    break;
                }
            }
            if rows * joined - already < best.0 {
                best = (rows * joined - already, Some(index));
            }
        }
        best.1
    }

    /// The halves of a group of at least 2k rows that lose least together and are both classes.
    fn halve(&mut self, rows: &[u32]) -> Option<(Vec<u32>, Vec<u32>)> {
        if rows.len() < 2 * self.rules.k as usize {
            return None;
        }
        let tuples = self.tuples;
        let mut halves = Vec::new();
        for (depth, codes) in tuples.codes.iter().enumerate() {
            let code_of = |position: &u32| codes[self.tuple_of[*position as usize] as usize];
            let is_same = rows.iter().all(|position| code_of(position) == code_of(&rows[0]));
            if is_same && depth + 1 < tuples.codes.len() {
                continue;
            }
            let mut sorted = rows.to_vec();
            sorted.sort_unstable_by_key(|position| (code_of(position), *position));
            let right = sorted.split_off(sorted.len() / 2);
            let total = |half: &Vec<u32>| half.len() as f64 * self.loss(&self.center(half));
            halves.push((total(&sorted) + total(&right), sorted, right));
        }
        halves.sort_by(|a, b| a.0.total_cmp(&b.0));
        let both =
            halves.into_iter().find(|(_, left, right)| self.is_class(left) && self.is_class(right));
        both.map(|(_, left, right)| (left, right))
    }
}
