//! The columns of one independent part of the constraints, solved alone.

use rayon::prelude::*;

use super::group::{CHUNK, Candidates, Grouping};
use super::number::number_tuples;
use super::plan::Part;
use super::{Constraint, Search};
use crate::error::Result;
use crate::hierarchy::Tree;
use crate::method::Variant;
use crate::model::Cancel;

/// The open rows of a part: all at the same levels, grouped once per constraint.
#[derive(Debug)]
pub(super) struct SubTable<'a> {
    part: &'a Part,
    pub(super) trees: Vec<&'a Tree>,
    variant: Variant,
    pub(super) cancel: &'a Cancel,
    /// How far each column of the part has been generalized for the open rows.
    levels: Vec<u32>,
    pub(super) groupings: Vec<Grouping>,
    /// The open rows, by their positions in the table.
    open: Vec<u32>,
    /// The tuple of each open row.
    tuple_of: Vec<u32>,
    /// Rows of each tuple.
    sizes: Vec<u32>,
    outcome: Outcome,
}

/// On which levels the rows of a part are published.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The step at which each row of the table was frozen or suppressed.
    pub(super) step_of: Vec<u32>,
    /// The level of each column of the part, by step.
    pub(super) levels: Vec<Vec<u32>>,
    /// The suppressed rows, in order.
    pub(super) suppressed: Vec<u32>,
}

/// Open tuples that satisfy all constraints.
#[derive(Debug)]
pub(super) struct Subset {
    pub(super) tuples: Vec<u32>,
    pub(super) rows: u64,
}

impl<'a> SubTable<'a> {
    /// Groups all rows of the table, given by columns of codes, by every constraint to be filtered by.
    pub(super) fn new(
        part: &'a Part,
        constraints: &[Constraint],
        columns: &[Vec<u32>],
        job: &super::Job<'a>,
    ) -> Result<Self> {
        let cancel = job.cancel;
        let trees: Vec<&Tree> = part.columns.iter().map(|column| job.trees[*column]).collect();
        let codes = part.columns.iter().map(|column| columns[*column].as_slice());
        let bounds = trees.iter().map(|tree| tree.codes());
        let (codes, bounds): (Vec<&[u32]>, Vec<u32>) = (codes.collect(), bounds.collect());
        let rows = codes.first().map_or(0, |codes| codes.len());
        let bounded: Vec<_> = codes.iter().copied().zip(bounds.iter().copied()).collect();
        let numbered = number_tuples(&bounded);
        let tuples = numbered.first_of_each(&codes);
        let tuples: Vec<_> = tuples.iter().map(Vec::as_slice).zip(bounds).collect();
        let sizes = numbered.sum(|_| 1);
        let groupings = constraints.par_iter().map(|constraint| {
            cancel.check()?;
            let is_listed = |place: &usize| constraint.columns.contains(&part.columns[*place]);
            let places = (0..part.columns.len()).filter(is_listed).collect();
            Ok(Grouping::new(constraint.k, places, &tuples, &sizes))
        });
        Ok(Self {
            groupings: groupings.collect::<Result<_>>()?,
            levels: vec![0; trees.len()],
            open: (0..rows as u32).collect(),
            tuple_of: numbered.numbers,
            sizes,
            outcome: Outcome { step_of: vec![0; rows], ..Outcome::default() },
            variant: job.variant,
            part,
            trees,
            cancel,
        })
    }

    /// Whether enough rows are open for another round.
    pub(super) fn is_worth_a_round(&self) -> bool {
        self.open.len() >= self.part.max_k() as usize
    }

    /// Number of open rows.
    pub(super) fn open_rows(&self) -> usize {
        self.open.len()
    }

    /// The largest set of open rows that satisfies every constraint, by itself or together with the frozen
    /// rows that count. It is unique, because the union of two such sets is one, so the order of the
    /// constraints only changes the cost.
    pub(super) fn largest_subset(&mut self, search: Search) -> Result<Subset> {
        self.groupings.par_iter_mut().for_each(Grouping::start);
        let all = self.groupings.len();
        let mut candidates = Candidates::all(self.sizes.len());
        let first = if search == Search::Partial { 1 } else { all };
        for constraints in first..=all {
            self.sieve(&mut candidates, constraints)?;
        }
        let tuples = candidates.into_tuples();
        let rows = tuples.iter().map(|tuple| u64::from(self.sizes[*tuple as usize])).sum();
        Ok(Subset { tuples, rows })
    }

    /// Drops the candidates that one of the first constraints rejects, until none is rejected.
    fn sieve(&mut self, candidates: &mut Candidates, constraints: usize) -> Result<()> {
        let sizes = &self.sizes;
        while self.groupings[..constraints].iter().any(|grouping| grouping.short() > 0) {
            for index in 0..constraints {
                if self.groupings[index].short() == 0 {
                    continue;
                }
                self.cancel.check()?;
                let dropped = self.groupings[index].reject(candidates);
                let each =
                    |grouping: &mut Grouping| grouping.drop_tuples(candidates, &dropped, sizes);
                if dropped.len() < CHUNK {
                    self.groupings.iter_mut().for_each(each);
                } else {
                    self.groupings.par_iter_mut().for_each(each);
                }
            }
        }
        Ok(())
    }

    /// Publishes the rows of a satisfying subset on the current levels.
    pub(super) fn freeze(&mut self, subset: &Subset) {
        if subset.tuples.is_empty() {
            return;
        }
        let step = self.outcome.levels.len() as u32;
        self.outcome.levels.push(self.levels.clone());
        let mut stays = vec![true; self.sizes.len()];
        subset.tuples.iter().for_each(|tuple| stays[*tuple as usize] = false);
        let counts_frozen = self.variant == Variant::Best;
        let sizes = &self.sizes;
        let freeze = |grouping: &mut Grouping| grouping.freeze(&stays, sizes, counts_frozen);
        self.groupings.par_iter_mut().for_each(freeze);
        let mut next = 0;
        let renumbered: Vec<u32> = (stays.iter())
            .map(|stays| {
                next += u32::from(*stays);
                next.wrapping_sub(1)
            })
            .collect();
        let mut kept = 0;
        for at in 0..self.open.len() {
            let (row, tuple) = (self.open[at], self.tuple_of[at] as usize);
            if stays[tuple] {
                (self.open[kept], self.tuple_of[kept]) = (row, renumbered[tuple]);
                kept += 1;
            } else {
                self.outcome.step_of[row as usize] = step;
            }
        }
        self.open.truncate(kept);
        self.tuple_of.truncate(kept);
        let mut stays = stays.iter();
        self.sizes.retain(|_| stays.next().copied().unwrap_or(false));
    }

    /// Generalizes one column of the open rows by one level and finds the largest subset there; `None` if all
    /// columns are at their tops.
    pub(super) fn climb(&mut self, search: Search) -> Result<Option<Subset>> {
        match self.variant {
            Variant::Best => self.climb_by_gain(search),
            Variant::Paper => self.climb_by_width(search),
        }
    }

    /// Has the keys of all groups ready for counting.
    pub(super) fn number_keys(&mut self) {
        self.groupings.par_iter_mut().for_each(Grouping::number_keys);
    }

    /// The columns below their tops.
    pub(super) fn places(&self) -> Vec<usize> {
        let below_top = |place: &usize| self.levels[*place] < self.trees[*place].height();
        (0..self.levels.len()).filter(below_top).collect()
    }

    /// Climbs the column with the most different values among the open rows, the first declared of several.
    pub(super) fn climb_by_width(&mut self, search: Search) -> Result<Option<Subset>> {
        self.merge_tuples();
        let places = self.places();
        let distinct =
            |place: &usize| self.rows_by_node(*place).iter().filter(|rows| **rows > 0).count();
        let values: Vec<usize> = places.par_iter().map(distinct).collect();
        let widest = values.iter().zip(&places).rev().max_by_key(|(values, _)| **values);
        let Some((_, place)) = widest else {
            return Ok(None);
        };
        let climbed = self.climbed(*place);
        self.install(*place, climbed);
        self.largest_subset(search).map(Some)
    }

    /// The groupings that change when a column climbs, by their position.
    pub(super) fn climbed(&self, place: usize) -> Vec<(usize, Grouping)> {
        let climb = |(index, grouping): (usize, &Grouping)| {
            let merged = grouping.merged(place, &self.trees)?;
            Some((index, grouping.climbed(merged)))
        };
        self.groupings.par_iter().enumerate().filter_map(climb).collect()
    }

    pub(super) fn swap(&mut self, climbed: &mut [(usize, Grouping)]) {
        for (index, grouping) in climbed {
            std::mem::swap(&mut self.groupings[*index], grouping);
        }
    }

    pub(super) fn install(&mut self, place: usize, mut climbed: Vec<(usize, Grouping)>) {
        self.swap(&mut climbed);
        self.levels[place] += 1;
    }

    /// Makes one tuple of those that a climb made equal. Every column is in a constraint, so tuples are equal
    /// whose groups are.
    pub(super) fn merge_tuples(&mut self) {
        if self.levels.iter().all(|level| *level == 0) {
            return;
        }
        let columns: Vec<(&[u32], u32)> = self.groupings.iter().map(Grouping::column).collect();
        let numbered = number_tuples(&columns);
        if numbered.distinct == self.sizes.len() {
            return;
        }
        let firsts = numbered.firsts();
        self.groupings.par_iter_mut().for_each(|grouping| grouping.keep_tuples(&firsts));
        self.sizes = numbered.sum(|tuple| self.sizes[tuple]);
        let follow = |tuple: &mut u32| *tuple = numbered.numbers[*tuple as usize];
        self.tuple_of.par_iter_mut().with_min_len(CHUNK).for_each(follow);
    }

    pub(super) fn rows_by_node(&self, place: usize) -> Vec<u64> {
        let mut groupings: Vec<&Grouping> = self.groupings.iter().collect();
        groupings.sort_by_key(|grouping| grouping.groups());
        let tree = self.trees[place];
        groupings.iter().find_map(|grouping| grouping.rows_by_node(place, tree)).unwrap_or_default()
    }

    /// Suppresses the rows that are still open.
    pub(super) fn finish(mut self) -> Outcome {
        let step = self.outcome.levels.len() as u32;
        self.outcome.levels.push(self.trees.iter().map(|tree| tree.height()).collect());
        for row in &self.open {
            self.outcome.step_of[*row as usize] = step;
        }
        self.outcome.suppressed = self.open;
        self.outcome
    }
}

#[cfg(test)]
impl SubTable<'_> {
    /// The open rows of a subset, by their positions in the table.
    pub(super) fn rows_of(&self, subset: &Subset) -> Vec<u32> {
        let open = self.open.iter().zip(&self.tuple_of);
        let of_subset = open.filter(|(_, tuple)| subset.tuples.contains(tuple));
        of_subset.map(|(row, _)| *row).collect()
    }
}

impl Outcome {
    /// Replaces the codes of the column at a place of the part by the nodes to publish.
    pub(super) fn publish(&self, place: usize, codes: &mut [u32], tree: &Tree) {
        let mut node_of: Vec<Vec<u32>> = vec![(0..tree.codes()).collect()];
        for level in 0..tree.height() as usize {
            node_of.push(node_of[level].iter().map(|node| tree.parent(*node)).collect());
        }
        let by_step: Vec<&[u32]> =
            self.levels.iter().map(|levels| node_of[levels[place] as usize].as_slice()).collect();
        let steps = self.step_of.par_iter().with_min_len(CHUNK);
        codes.par_iter_mut().zip(steps).for_each(|(cell, step)| {
            *cell = by_step[*step as usize][*cell as usize];
        });
    }
}
