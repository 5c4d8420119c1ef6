//! The open rows grouped by the projection of one constraint.

use rayon::prelude::*;

use super::number::{Numbered, number_tuples};
use crate::hierarchy::Tree;

/// Rows that one task looks at.
pub(super) const CHUNK: usize = 1 << 16;

/// Groups of equal projections, numbered, and which of them every open row is in.
///
/// Generalizing only ever merges groups. So rows are grouped once, from their values; a climb
/// regroups the groups, and the rows follow by one lookup each. The counts follow the same way, and
/// nothing is counted twice.
#[derive(Debug)]
pub(super) struct Grouping {
    /// The smallest group that may be published.
    k: u32,
    /// The columns of the projection, as places in the sub-table.
    places: Vec<usize>,
    /// The nodes that the rows of each group share, by column of the projection.
    nodes: Vec<Vec<u32>>,
    /// The group of each open row.
    group_of: Vec<u32>,
    /// Open rows in each group.
    open: Vec<u32>,
    /// Open rows in each group that are still candidates for freezing.
    candidates: Vec<u32>,
    /// Candidates in groups of fewer than k.
    short: usize,
    /// How often the candidates were scanned for them.
    scans: u32,
    /// Leads to them without a scan.
    members: Option<Members>,
}

/// Rows by group.
#[derive(Debug)]
pub(super) struct Members {
    /// Where the rows of each group start, and where the last one's end.
    starts: Vec<u32>,
    rows: Vec<u32>,
    /// Groups of fewer than k candidates. Those without any may be among them.
    short: Vec<u32>,
}

/// Scans of the candidates before it is worth listing the rows by group.
const SCANS: u32 = 4;

/// A scan is worth it while it drops at least one of so many candidates.
const CANDIDATES_PER_SHORT: usize = 8;

impl Grouping {
    /// Groups the rows by the columns at these places. A column comes with a bound on its codes.
    pub(super) fn new(k: u32, places: Vec<usize>, columns: &[(&[u32], u32)]) -> Self {
        let projection: Vec<(&[u32], u32)> = places.iter().map(|place| columns[*place]).collect();
        let numbered = number_tuples(&projection);
        let codes: Vec<&[u32]> = projection.iter().map(|(codes, _)| *codes).collect();
        let (open, nodes) = merge(&numbered, &codes, |_| 1);
        let candidates = vec![0; open.len()];
        Self {
            k,
            places,
            nodes,
            group_of: numbered.numbers,
            open,
            candidates,
            short: 0,
            scans: 0,
            members: None,
        }
    }

    /// Makes every open row a candidate.
    pub(super) fn start(&mut self) {
        self.candidates.clone_from(&self.open);
        (self.scans, self.members) = (0, None);
        self.find_short();
    }

    /// Candidates that this constraint rejects.
    pub(super) fn short(&self) -> usize {
        self.short
    }

    fn find_short(&mut self) {
        let short = self.candidates.iter().filter(|count| **count < self.k);
        self.short = short.map(|count| *count as usize).sum();
        if let Some(members) = &mut self.members {
            let groups = 0..self.candidates.len() as u32;
            let is_short = |group: &u32| self.candidates[*group as usize] < self.k;
            members.short = groups.filter(is_short).collect();
        }
    }

    /// Drops the candidates in groups of fewer than k and returns them; the counts stay.
    ///
    /// The last rows can fall one after the other, each by the fall of the one before. Scanning all
    /// candidates for each would be quadratic, so after a few scans the short groups are followed.
    pub(super) fn reject(&mut self, candidates: &mut Candidates) -> Vec<u32> {
        let few = self.short * CANDIDATES_PER_SHORT < candidates.rows.len();
        let dropped = if self.scans >= SCANS && few {
            self.follow(candidates)
        } else {
            self.scan(candidates)
        };
        for row in &dropped {
            candidates.is_in[*row as usize] = false;
        }
        dropped
    }

    fn scan(&mut self, candidates: &mut Candidates) -> Vec<u32> {
        self.scans += 1;
        let large = |row: u32| self.candidates[self.group_of[row as usize] as usize] >= self.k;
        let part = |rows: &[u32]| -> (Vec<u32>, Vec<u32>) {
            let rows = rows.iter().filter(|row| candidates.is_in[**row as usize]);
            rows.partition(|row| large(**row))
        };
        let parts: Vec<_> = candidates.rows.par_chunks(CHUNK).map(part).collect();
        let (kept, dropped): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        candidates.rows = kept.concat();
        dropped.concat()
    }

    fn follow(&mut self, candidates: &Candidates) -> Vec<u32> {
        if self.members.is_none() {
            self.members = Some(Members::new(&self.group_of, &self.open));
            self.find_short();
        }
        let mut dropped = Vec::with_capacity(self.short);
        if let Some(Members { starts, rows, short }) = &mut self.members {
            for group in short.drain(..).map(|group| group as usize) {
                if self.candidates[group] > 0 {
                    let rows = &rows[starts[group] as usize..starts[group + 1] as usize];
                    dropped.extend(rows.iter().filter(|row| candidates.is_in[**row as usize]));
                }
            }
        }
        dropped
    }

    /// Takes the dropped rows off the candidates, or counts the kept ones anew if that is less work.
    pub(super) fn drop_rows(&mut self, kept: &Candidates, dropped: &[u32]) {
        if kept.rows.len() + self.candidates.len() < dropped.len() {
            self.candidates.fill(0);
            for row in kept.rows.iter().filter(|row| kept.is_in[**row as usize]) {
                self.candidates[self.group_of[*row as usize] as usize] += 1;
            }
            self.find_short();
            return;
        }
        let k = self.k;
        for row in dropped {
            let count = &mut self.candidates[self.group_of[*row as usize] as usize];
            *count -= 1;
            if *count + 1 == k {
                self.short += *count as usize;
                if let Some(members) = &mut self.members {
                    members.short.push(self.group_of[*row as usize]);
                }
            } else if *count < k {
                self.short -= 1;
            }
        }
    }

    /// The candidates are frozen and leave: only the rows of `stays` remain.
    pub(super) fn close_candidates(&mut self, stays: &[bool]) {
        for (open, candidates) in self.open.iter_mut().zip(&self.candidates) {
            *open -= candidates;
        }
        let mut stays = stays.iter();
        self.group_of.retain(|_| stays.next().copied().unwrap_or(false));
    }

    /// Puts the parent in place of every node of one column of the sub-table.
    pub(super) fn climb(&mut self, place: usize, trees: &[&Tree]) {
        let Some(column) = self.places.iter().position(|own| *own == place) else {
            return;
        };
        // Groups without an open row are left behind.
        let live: Vec<u32> =
            (0..self.open.len() as u32).filter(|group| self.open[*group as usize] > 0).collect();
        for (at, nodes) in self.nodes.iter_mut().enumerate() {
            let node = |group: &u32| {
                let node = nodes[*group as usize];
                if at == column { trees[place].parent(node) } else { node }
            };
            *nodes = live.iter().map(node).collect();
        }
        let bounds: Vec<u32> = self.places.iter().map(|place| trees[*place].nodes()).collect();
        let projection: Vec<(&[u32], u32)> =
            self.nodes.iter().map(Vec::as_slice).zip(bounds).collect();
        let numbered = number_tuples(&projection);
        let old: Vec<&[u32]> = self.nodes.iter().map(Vec::as_slice).collect();
        let (open, nodes) = merge(&numbered, &old, |at| self.open[live[at] as usize]);
        let mut renumbered = vec![0; self.open.len()];
        for (old, new) in live.iter().zip(&numbered.numbers) {
            renumbered[*old as usize] = *new;
        }
        let follow = |group: &mut u32| *group = renumbered[*group as usize];
        self.group_of.par_iter_mut().with_min_len(CHUNK).for_each(follow);
        (self.open, self.nodes) = (open, nodes);
    }

    /// How many different nodes the open rows have in a column, `None` if it is not projected on.
    pub(super) fn distinct(&self, place: usize, tree: &Tree) -> Option<usize> {
        let column = self.places.iter().position(|own| *own == place)?;
        let mut seen = vec![false; tree.nodes() as usize];
        let mut distinct = 0;
        for (node, open) in self.nodes[column].iter().zip(&self.open) {
            let seen = &mut seen[*node as usize];
            if *open > 0 && !*seen {
                *seen = true;
                distinct += 1;
            }
        }
        Some(distinct)
    }

    /// Number of groups, those without an open row included.
    pub(super) fn groups(&self) -> usize {
        self.open.len()
    }
}

impl Members {
    /// Lists the rows of every group, given the group of every row and the rows in each.
    pub(super) fn new(group_of: &[u32], sizes: &[u32]) -> Self {
        let mut starts = Vec::with_capacity(sizes.len() + 1);
        let mut end = 0;
        starts.push(0);
        starts.extend(sizes.iter().map(|rows| {
            end += rows;
            end
        }));
        let mut next = starts.clone();
        let mut rows = vec![0; group_of.len()];
        for (row, group) in group_of.iter().enumerate() {
            let next = &mut next[*group as usize];
            rows[*next as usize] = row as u32;
            *next += 1;
        }
        Self { starts, rows, short: Vec::new() }
    }

    /// The rows of a group, in order.
    pub(super) fn of(&self, group: u32) -> &[u32] {
        let at = group as usize;
        &self.rows[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// The open rows that no constraint has rejected yet.
#[derive(Debug)]
pub(super) struct Candidates {
    /// The candidates in order, among them rows that were dropped since the last scan.
    rows: Vec<u32>,
    /// Whether each open row is one.
    is_in: Vec<bool>,
}

impl Candidates {
    /// All open rows.
    pub(super) fn all(open: usize) -> Self {
        Self { rows: (0..open as u32).collect(), is_in: vec![true; open] }
    }

    /// The candidates, in order.
    pub(super) fn into_rows(mut self) -> Vec<u32> {
        self.rows.retain(|row| self.is_in[*row as usize]);
        self.rows
    }
}

/// Puts tuples of the same number together: adds up their rows, and keeps their common nodes.
fn merge(
    numbered: &Numbered,
    tuples: &[&[u32]],
    rows: impl Fn(usize) -> u32,
) -> (Vec<u32>, Vec<Vec<u32>>) {
    let mut open: Vec<u32> = Vec::with_capacity(numbered.distinct);
    let mut nodes = vec![Vec::with_capacity(numbered.distinct); tuples.len()];
    for (at, group) in numbered.numbers.iter().enumerate() {
        match open.get_mut(*group as usize) {
            Some(open) => *open += rows(at),
            None => {
                open.push(rows(at));
                nodes.iter_mut().zip(tuples).for_each(|(nodes, tuple)| nodes.push(tuple[at]));
            }
        }
    }
    (open, nodes)
}
