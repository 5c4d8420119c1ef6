//! The columns of one independent part of the constraints, solved alone.

use rayon::prelude::*;

use super::group::{CHUNK, Candidates, Grouping};
use super::plan::Part;
use super::{Constraint, Search};
use crate::error::Result;
use crate::hierarchy::Tree;
use crate::model::Cancel;

/// The open rows of a part: all at the same levels, grouped once per constraint.
#[derive(Debug)]
pub(super) struct SubTable<'a> {
    part: &'a Part,
    trees: Vec<&'a Tree>,
    cancel: &'a Cancel,
    /// How far each column of the part has been generalized for the open rows.
    levels: Vec<u32>,
    groupings: Vec<Grouping>,
    /// The open rows, by their positions in the table.
    open: Vec<u32>,
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

impl<'a> SubTable<'a> {
    /// Groups all rows of the table, given by columns of codes, by every constraint to be filtered by.
    pub(super) fn new(
        part: &'a Part,
        constraints: &[Constraint],
        columns: &[Vec<u32>],
        trees: &[&'a Tree],
        cancel: &'a Cancel,
    ) -> Result<Self> {
        let trees: Vec<&Tree> = part.columns.iter().map(|column| trees[*column]).collect();
        let codes = part.columns.iter().map(|column| columns[*column].as_slice());
        let bounded: Vec<(&[u32], u32)> = codes.zip(trees.iter().map(|t| t.codes())).collect();
        let rows = bounded.first().map_or(0, |(codes, _)| codes.len());
        let groupings = constraints.par_iter().map(|constraint| {
            cancel.check()?;
            let is_listed = |place: &usize| constraint.columns.contains(&part.columns[*place]);
            let places = (0..part.columns.len()).filter(is_listed).collect();
            Ok(Grouping::new(constraint.k, places, &bounded))
        });
        Ok(Self {
            groupings: groupings.collect::<Result<_>>()?,
            levels: vec![0; trees.len()],
            open: (0..rows as u32).collect(),
            outcome: Outcome { step_of: vec![0; rows], ..Outcome::default() },
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

    /// The largest set of open rows that satisfies every constraint by itself. It is unique, because
    /// the union of two such sets is one, so the order of the constraints only changes the cost.
    pub(super) fn largest_subset(&mut self, search: Search) -> Result<Vec<u32>> {
        self.groupings.par_iter_mut().for_each(Grouping::start);
        let all = self.groupings.len();
        let mut candidates = Candidates::all(self.open.len());
        let first = if search == Search::Partial { 1 } else { all };
        for constraints in first..=all {
            self.sieve(&mut candidates, constraints)?;
        }
        Ok(candidates.into_rows())
    }

    /// Drops the candidates that one of the first constraints rejects, until none is rejected.
    fn sieve(&mut self, candidates: &mut Candidates, constraints: usize) -> Result<()> {
        while self.groupings[..constraints].iter().any(|grouping| grouping.short() > 0) {
            for index in 0..constraints {
                if self.groupings[index].short() == 0 {
                    continue;
                }
                self.cancel.check()?;
                let dropped = self.groupings[index].reject(candidates);
                let each = |grouping: &mut Grouping| grouping.drop_rows(candidates, &dropped);
                if dropped.len() < CHUNK {
                    self.groupings.iter_mut().for_each(each);
                } else {
                    self.groupings.par_iter_mut().for_each(each);
                }
            }
        }
        Ok(())
    }

    /// Publishes the rows of the largest subset on the current levels.
    pub(super) fn freeze(&mut self, subset: &[u32]) {
        if subset.is_empty() {
            return;
        }
        let step = self.outcome.levels.len() as u32;
        self.outcome.levels.push(self.levels.clone());
        let mut stays = vec![true; self.open.len()];
        for row in subset {
            stays[*row as usize] = false;
            self.outcome.step_of[self.open[*row as usize] as usize] = step;
        }
        self.groupings.par_iter_mut().for_each(|grouping| grouping.close_candidates(&stays));
        let mut stays = stays.iter();
        self.open.retain(|_| stays.next().copied().unwrap_or(false));
    }

    /// Generalizes the column with the most different values among the open rows by one level.
    /// Returns whether there was one below its top.
    pub(super) fn climb(&mut self) -> bool {
        let below_top = |place: &usize| self.levels[*place] < self.trees[*place].height();
        let places: Vec<usize> = (0..self.levels.len()).filter(below_top).collect();
        let values: Vec<usize> = places.par_iter().map(|place| self.distinct(*place)).collect();
        // The first of several maxima: ties go to the column declared first.
        let widest = values.iter().zip(places).rev().max_by_key(|(values, _)| **values);
        let Some((_, place)) = widest else {
            return false;
        };
        self.levels[place] += 1;
        let trees = &self.trees;
        self.groupings.par_iter_mut().for_each(|grouping| grouping.climb(place, trees));
        true
    }

    fn distinct(&self, place: usize) -> usize {
        let mut groupings: Vec<&Grouping> = self.groupings.iter().collect();
        groupings.sort_by_key(|grouping| grouping.groups());
        let tree = self.trees[place];
        groupings.iter().find_map(|grouping| grouping.distinct(place, tree)).unwrap_or(0)
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
