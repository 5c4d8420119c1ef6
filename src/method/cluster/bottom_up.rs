//! Merging from single rows upward (`bottom_up`).
//!
//! Rounds over the groups in canonical order: a group that is not yet a class merges with the group
//! for which the NCP summed over the rows grows least, and a group of 2k rows or more is halved on
//! the column that leaves the least, or on the widest one ([`Split`]). Equal rows start as one group, since merging them
//! costs nothing.
//!
//! **Departures.** As printed, the widest column is halved, and the table is one block, so that every group is compared with
//! all others. In blocks the cost grows with the rows instead of their square, for some loss: on Adult
//! (30 162 rows, eight quasi-identifiers) NCP 0.0313 against 0.0277 at k = 5 and 0.0536 against 0.0475 at k = 10, in less than
//! a tenth of the time. In one block and on the best column it would be 0.0274 and 0.0470.

use super::distance::Part;
use super::greedy::{Group, Rules};
use super::tuples::Tuples;
use crate::error::{Error, Result};
use crate::method::partition::Split;
use crate::model::Tally;

/// All groups are compared with all others. Where k is so large that a block has more tuples, groups of a few neighbouring
/// rows are where it starts, unless it runs as printed.
const MOST_GROUPS: usize = 8192;

/// Groups the rows of a block.
pub(super) fn bottom_up<'a>(
    rules: Rules<'a>,
    tuples: &'a Tuples,
    tallies: Vec<Tally<'a>>,
    split: Split,
) -> Result<Vec<Group>> {
    let tuple_of = tuples.tuple_of_rows();
    let mut merging = Merging { rules, split, tuples, tuple_of, tallies, groups: Vec::new() };
    if tuples.len() <= MOST_GROUPS || !rules.takes_shortcuts {
        for tuple in 0..tuples.len() {
            let rows = tuples.positions(tuple).map(|position| position as u32).collect();
            merging.add_halved(rows);
        }
    } else {
        let most = tuples.rows().div_ceil(MOST_GROUPS);
        merging.add_parts((0..tuples.rows() as u32).collect(), most);
    }
    while merging.round()? {
        merging.groups.retain(|group| !group.rows.is_empty());
    }
    let groups = merging.groups.into_iter().filter(|group| !group.rows.is_empty());
    Ok(groups.map(|group| Group { center: group.center, rows: group.rows }).collect())
}

struct Merging<'a> {
    rules: Rules<'a>,
    split: Split,
    tuples: &'a Tuples,
    tuple_of: Vec<u32>,
    tallies: Vec<Tally<'a>>,
    groups: Vec<Cluster>,
}

/// A group; one without rows has been merged away.
struct Cluster {
    center: Vec<Part>,
    rows: Vec<u32>,
    /// Loss of its rows, summed over the columns.
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

    /// Adds the parts of a group that has more rows than that, halved again and again where the halves lose least.
    fn add_parts(&mut self, rows: Vec<u32>, most: usize) {
        let halves = match rows.len() <= most {
            true => None,
            false => self.halves_by_loss(&rows).into_iter().next(),
        };
        match halves {
            Some((left, right)) => {
                self.add_parts(left, most);
                self.add_parts(right, most);
            }
            None => self.add_halved(rows),
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
        self.tuples.center(self.rules.columns, rows, &self.tuple_of)
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
            let mut added = -other.loss;
            for ((column, part), other) in
                self.rules.columns.iter().zip(&own.center).zip(&other.center)
            {
                added += column.joined_loss(part, other);
                if added >= best.0 {
                    break;
                }
            }
            if added < best.0 {
                best = (added, Some(index));
            }
        }
        best.1
    }

    /// The first halves of a group of at least 2k rows that are both classes.
    fn halve(&mut self, rows: &[u32]) -> Option<(Vec<u32>, Vec<u32>)> {
        if rows.len() < 2 * self.rules.k as usize {
            return None;
        }
        let mut halves = match self.split {
            Split::LeastLoss => self.halves_by_loss(rows).into_iter(),
            Split::Widest => self.halves_by_width(rows).into_iter(),
        };
        halves.find(|(left, right)| self.is_class(left) && self.is_class(right))
    }

    /// The halves on every column on which the rows differ, those that lose least together first.
    fn halves_by_loss(&self, rows: &[u32]) -> Vec<(Vec<u32>, Vec<u32>)> {
        let tuples = self.tuples;
        let mut halves = Vec::new();
        for (depth, codes) in tuples.codes.iter().enumerate() {
            let code_of = |position: &u32| codes[self.tuple_of[*position as usize] as usize];
            let is_same = rows.iter().all(|position| code_of(position) == code_of(&rows[0]));
            if is_same && depth + 1 < tuples.codes.len() {
                continue;
            }
            let (left, right) = self.halves_on(depth, rows);
            let total = |half: &Vec<u32>| self.loss(&self.center(half));
            halves.push((total(&left) + total(&right), (left, right)));
        }
        halves.sort_by(|a, b| a.0.total_cmp(&b.0));
        halves.into_iter().map(|(_, halves)| halves).collect()
    }

    /// The halves on every column, the widest first, equally wide ones as declared.
    fn halves_by_width(&self, rows: &[u32]) -> Vec<(Vec<u32>, Vec<u32>)> {
        let center = self.center(rows);
        let columns = self.rules.columns.iter().zip(&center).enumerate();
        let mut widths: Vec<(f64, usize, usize)> = columns
            .map(|(depth, (column, part))| (column.loss(part), column.index, depth))
            .collect();
        widths.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        widths.into_iter().map(|(.., depth)| self.halves_on(depth, rows)).collect()
    }

    fn halves_on(&self, depth: usize, rows: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let codes = &self.tuples.codes[depth];
        let code_of = |position: &u32| codes[self.tuple_of[*position as usize] as usize];
        let mut left = rows.to_vec();
        left.sort_unstable_by_key(|position| (code_of(position), *position));
        let right = left.split_off(left.len() / 2);
        (left, right)
    }
}
