//! The open rows grouped by the projection of one constraint.

use rayon::prelude::*;

use super::number::{Numbered, number_tuples};

/// Rows or tuples that one task looks at.
pub(super) const CHUNK: usize = 1 << 16;

/// Groups of equal projections, numbered, and which of them every open tuple is in. A tuple is the open
/// rows that agree in all columns of the part; they share every group.
///
/// Generalizing only ever merges groups. So tuples are grouped once, from their values; a climb
/// regroups the groups, and the tuples follow by one lookup each. The counts follow the same way, and
/// nothing is counted twice.
#[derive(Debug, Default)]
pub(super) struct Grouping {
    /// The smallest group that may be published.
    pub(super) k: u32,
    /// The columns of the projection, as places in the sub-table.
    pub(super) places: Vec<usize>,
    /// The nodes that the rows of each group share, by column of the projection.
    pub(super) nodes: Vec<Vec<u32>>,
    /// The group of each open tuple.
    pub(super) group_of: Vec<u32>,
    /// Open rows in each group.
    pub(super) open: Vec<u32>,
    /// Frozen rows that publish the nodes of each group, as far as they count.
    pub(super) frozen: Vec<u32>,
    /// A key of each group's nodes, once it is needed.
    pub(super) keys: Vec<u64>,
    pub(super) sieve: Sieve,
}

/// The search for the tuples that one constraint rejects.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    /// Open rows in each group that are still candidates for freezing.
    candidates: Vec<u32>,
    /// Candidates in groups below k.
    short: usize,
    /// How often the candidates were scanned for them.
    scans: u32,
    /// Leads to them without a scan.
    members: Option<Members>,
}

/// Tuples by group.
#[derive(Debug)]
pub(super) struct Members {
    /// Where the tuples of each group start, and where the last one's end.
    starts: Vec<u32>,
    tuples: Vec<u32>,
    /// Groups below k. Those without a candidate may be among them.
    short: Vec<u32>,
}

/// Scans of the candidates before it is worth listing the tuples by group.
const SCANS: u32 = 4;

/// A scan is worth it while it drops at least one of so many candidates.
const CANDIDATES_PER_SHORT: usize = 8;

impl Grouping {
    /// Groups tuples of these many rows each, all of them different, by the columns at these places. A column
    /// comes with a bound on its codes.
    pub(super) fn new(
        k: u32,
        places: Vec<usize>,
        columns: &[(&[u32], u32)],
        sizes: &[u32],
    ) -> Self {
        let projection: Vec<(&[u32], u32)> = places.iter().map(|place| columns[*place]).collect();
        let numbered = if projection.len() == columns.len() {
            Numbered { numbers: (0..sizes.len() as u32).collect(), distinct: sizes.len() }
        } else {
            number_tuples(&projection)
        };
        let codes: Vec<&[u32]> = projection.iter().map(|(codes, _)| *codes).collect();
        let open = numbered.sum(|tuple| sizes[tuple]);
        Self {
            k,
            places,
            nodes: numbered.first_of_each(&codes),
            group_of: numbered.numbers,
            frozen: vec![0; open.len()],
            open,
            ..Self::default()
        }
    }

    /// Makes every open row a candidate.
    pub(super) fn start(&mut self) {
        self.sieve.candidates.clone_from(&self.open);
        (self.sieve.scans, self.sieve.members) = (0, None);
        self.find_short();
    }

    /// Candidates that this constraint rejects.
    pub(super) fn short(&self) -> usize {
        self.sieve.short
    }

    fn is_short(&self, group: u32) -> bool {
        self.sieve.candidates[group as usize] + self.frozen[group as usize] < self.k
    }

    fn find_short(&mut self) {
        let counts = self.sieve.candidates.iter().zip(&self.frozen);
        let short = counts.filter(|(candidates, frozen)| **candidates + **frozen < self.k);
        self.sieve.short = short.map(|(candidates, _)| *candidates as usize).sum();
        if let Some(mut members) = self.sieve.members.take() {
            let groups = 0..self.sieve.candidates.len() as u32;
            members.short = groups.filter(|group| self.is_short(*group)).collect();
            self.sieve.members = Some(members);
        }
    }

    /// Drops the candidates in groups below k and returns their tuples; the counts stay.
    ///
    /// The last tuples can fall one after the other, each by the fall of the one before. Scanning all
    /// candidates for each would be quadratic, so after a few scans the short groups are followed.
    pub(super) fn reject(&mut self, candidates: &mut Candidates) -> Vec<u32> {
        let few = self.sieve.short * CANDIDATES_PER_SHORT < candidates.tuples.len();
        let dropped = if self.sieve.scans >= SCANS && few {
            self.follow(candidates)
        } else {
            self.scan(candidates)
        };
        for tuple in &dropped {
            candidates.is_in[*tuple as usize] = false;
        }
        dropped
    }

    fn scan(&mut self, candidates: &mut Candidates) -> Vec<u32> {
        self.sieve.scans += 1;
        let part = |tuples: &[u32]| -> (Vec<u32>, Vec<u32>) {
            let tuples = tuples.iter().filter(|tuple| candidates.is_in[**tuple as usize]);
            tuples.partition(|tuple| !self.is_short(self.group_of[**tuple as usize]))
        };
        let parts: Vec<_> = candidates.tuples.par_chunks(CHUNK).map(part).collect();
        let (kept, dropped): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        candidates.tuples = kept.concat();
        dropped.concat()
    }

    fn follow(&mut self, candidates: &Candidates) -> Vec<u32> {
        if self.sieve.members.is_none() {
            let mut tuples = vec![0; self.open.len()];
            self.group_of.iter().for_each(|group| tuples[*group as usize] += 1);
            self.sieve.members = Some(Members::new(&self.group_of, &tuples));
            self.find_short();
        }
        let mut dropped = Vec::with_capacity(self.sieve.short);
        if let Some(Members { starts, tuples, short }) = &mut self.sieve.members {
            for group in short.drain(..).map(|group| group as usize) {
                if self.sieve.candidates[group] > 0 {
                    let tuples = &tuples[starts[group] as usize..starts[group + 1] as usize];
                    dropped.extend(tuples.iter().filter(|at| candidates.is_in[**at as usize]));
                }
            }
        }
        dropped
    }

    /// Takes the dropped tuples off the candidates, or counts the kept ones anew if that is less work.
    pub(super) fn drop_tuples(&mut self, kept: &Candidates, dropped: &[u32], sizes: &[u32]) {
        if kept.tuples.len() + self.sieve.candidates.len() < dropped.len() {
            self.sieve.candidates.fill(0);
            for tuple in kept.tuples.iter().filter(|tuple| kept.is_in[**tuple as usize]) {
                let group = self.group_of[*tuple as usize];
                self.sieve.candidates[group as usize] += sizes[*tuple as usize];
            }
            self.find_short();
            return;
        }
        for tuple in dropped {
            let (group, size) = (self.group_of[*tuple as usize], sizes[*tuple as usize]);
            let count = &mut self.sieve.candidates[group as usize];
            let had = *count + self.frozen[group as usize];
            *count -= size;
            if had < self.k {
                self.sieve.short -= size as usize;
            } else if had - size < self.k {
                self.sieve.short += *count as usize;
                if let Some(members) = &mut self.sieve.members {
                    members.short.push(group);
                }
            }
        }
    }

    /// Tuples of a satisfying set are frozen and leave: only those of `stays` remain.
    pub(super) fn freeze(&mut self, stays: &[bool], sizes: &[u32], counts_frozen: bool) {
        let frozen = stays.iter().zip(sizes).zip(&self.group_of).filter(|((stays, _), _)| !**stays);
        for ((_, size), group) in frozen {
            self.open[*group as usize] -= size;
            if counts_frozen {
                self.frozen[*group as usize] += size;
            }
        }
        let mut stays = stays.iter();
        self.group_of.retain(|_| stays.next().copied().unwrap_or(false));
    }

    /// The groups of the open tuples, and how many groups there are.
    pub(super) fn column(&self) -> (&[u32], u32) {
        (&self.group_of, self.open.len() as u32)
    }

    /// Only these tuples are left, in this order: others publish the same as one of them.
    pub(super) fn keep_tuples(&mut self, kept: &[u32]) {
        self.group_of = kept.iter().map(|tuple| self.group_of[*tuple as usize]).collect();
    }

    /// Number of groups, those without an open row included.
    pub(super) fn groups(&self) -> usize {
        self.open.len()
    }
}

impl Members {
    /// Lists the tuples of every group, given the group of every tuple and the tuples in each.
    pub(super) fn new(group_of: &[u32], sizes: &[u32]) -> Self {
        let mut starts = Vec::with_capacity(sizes.len() + 1);
        let mut end = 0;
        starts.push(0);
        starts.extend(sizes.iter().map(|tuples| {
            end += tuples;
            end
        }));
        let mut next = starts.clone();
        let mut tuples = vec![0; group_of.len()];
        for (tuple, group) in group_of.iter().enumerate() {
            let next = &mut next[*group as usize];
            tuples[*next as usize] = tuple as u32;
            *next += 1;
        }
        Self { starts, tuples, short: Vec::new() }
    }

    /// The tuples of a group, in order.
    pub(super) fn of(&self, group: u32) -> &[u32] {
        let at = group as usize;
        &self.tuples[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// The open tuples that no constraint has rejected yet.
#[derive(Debug)]
pub(super) struct Candidates {
    /// The candidates in order, among them tuples that were dropped since the last scan.
    tuples: Vec<u32>,
    /// Whether each open tuple is one.
    is_in: Vec<bool>,
}

impl Candidates {
    /// All open tuples.
    pub(super) fn all(open: usize) -> Self {
        Self { tuples: (0..open as u32).collect(), is_in: vec![true; open] }
    }

    /// The candidates, in order.
    pub(super) fn into_tuples(mut self) -> Vec<u32> {
        self.tuples.retain(|tuple| self.is_in[*tuple as usize]);
        self.tuples
    }
}
