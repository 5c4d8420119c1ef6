//! Refinement: rows change hands between groups as long as all lose less (`kaim`).
//!
//! The greedy never looks back: the last groups take what the others have left. When all rows have a group, the groups are
//! looked at once more, the worst first:
//!
//! 1. a group is dissolved into others (`dissolve.rs`);
//! 2. a group of 2k rows or more is cut in two, where both sides lose least;
//! 3. two groups near each other are put together and cut anew.
//!
//! Nothing of it looks at sensitive values, except that a change which breaks a model is not made.

use super::boxes::{Boxes, charge, join, lost};
use super::distance::Part;
use super::greedy::{Group, Growth};
use crate::error::Result;

/// A gain below this is rounding.
pub(super) const GAIN: f64 = 1e-3;
/// How many of its nearest groups a group is put together with.
const NEAREST: usize = 8;

impl Growth<'_> {
    /// Refines all groups, where the rules have columns of the loss.
    pub(super) fn refine(&mut self) -> Result<()> {
        let columns = self.rules.loss_columns;
        // Rows that followed their person stay together.
        if columns.is_empty() || self.rules.persons_to_follow().is_some() {
            return Ok(());
        }
        let tuple_of = self.tuples.tuple_of_rows();
        for group in &mut self.groups {
            group.center = self.tuples.center(columns, &group.rows, &tuple_of);
        }
        self.dissolve_worst(&tuple_of)?;
        self.halve_large(&tuple_of)?;
        self.recut_worst(&tuple_of)?;
        // What was put together and cut unevenly can have 2k rows again.
        self.halve_large(&tuple_of)
    }

    /// The groups that lose something, by what a row loses on average, the worst first; of equals the first.
    pub(super) fn worst(&self) -> Vec<usize> {
        let columns = self.rules.loss_columns;
        let mean = |group: &Group| lost(columns, &group.center) / group.rows.len() as f64;
        let mut worst: Vec<(f64, usize)> = self.groups.iter().map(mean).zip(0..).collect();
        worst.retain(|(loss, _)| *loss > GAIN);
        worst.sort_by(|a, b| b.0.total_cmp(&a.0));
        worst.into_iter().map(|(_, at)| at).collect()
    }

    /// Puts every group together with each of its nearest ones and cuts the two anew.
    fn recut_worst(&mut self, tuple_of: &[u32]) -> Result<()> {
        let columns = self.rules.loss_columns;
        let mut boxes = Boxes::new(columns, &self.groups);
        for at in self.worst() {
            self.rules.cancel.check()?;
            for other in boxes.nearest(&self.groups, at, NEAREST) {
                let (one, two) = (&self.groups[at], &self.groups[other]);
                let before = lost(columns, &one.center) + lost(columns, &two.center);
                let mut rows: Vec<u32> = one.rows.iter().chain(&two.rows).copied().collect();
                // Where a row came from has no say.
                rows.sort_unstable();
                if let Some([left, right]) = self.halves(&rows, before - GAIN, tuple_of) {
                    boxes.update(at, &left.center);
                    boxes.update(other, &right.center);
                    self.groups[at] = left;
                    self.groups[other] = right;
                }
            }
        }
        Ok(())
    }

    /// Cuts groups of 2k rows and more, as long as both sides are classes.
    fn halve_large(&mut self, tuple_of: &[u32]) -> Result<()> {
        let mut at = 0;
        // What is cut off is added behind and looked at as well.
        while at < self.groups.len() {
            self.rules.cancel.check()?;
            let rows = self.groups[at].rows.clone();
            match self.halves(&rows, f64::INFINITY, tuple_of) {
                Some([left, right]) => {
                    self.groups[at] = left;
                    self.groups.push(right);
                }
                None => at += 1,
            }
        }
        Ok(())
    }

    /// The two parts of at least 2k rows that lose least together, if that is below a limit and they are classes: the
    /// first and the last rows in the order of a column.
    fn halves(&mut self, rows: &[u32], limit: f64, tuple_of: &[u32]) -> Option<[Group; 2]> {
        let k = self.rules.k as usize;
        if rows.len() < 2 * k {
            return None;
        }
        let mut best = (limit, None);
        for codes in &self.tuples.codes {
            let mut sorted = rows.to_vec();
            sorted.sort_unstable_by_key(|at| (codes[tuple_of[*at as usize] as usize], *at));
            let left = self.losses_of_first(sorted.iter(), tuple_of);
            let right = self.losses_of_first(sorted.iter().rev(), tuple_of);
            for rows in k..=sorted.len() - k {
                let loss = left[rows - 1] + right[sorted.len() - rows - 1];
                if loss < best.0 {
                    best = (loss, Some([sorted[..rows].to_vec(), sorted[rows..].to_vec()]));
                }
            }
        }
        let halves = best.1?;
        let columns = self.rules.loss_columns;
        halves.iter().all(|rows| self.holds(rows)).then(|| {
            halves.map(|rows| Group { center: self.tuples.center(columns, &rows, tuple_of), rows })
        })
    }

    /// What the first row loses, the first two together, and so on.
    fn losses_of_first<'r>(
        &self,
        rows: impl Iterator<Item = &'r u32>,
        tuple_of: &[u32],
    ) -> Vec<f64> {
        let columns = self.rules.loss_columns;
        let mut center: Vec<Part> = Vec::new();
        let loss = |position: &u32| {
            let codes = self.tuples.codes_of(tuple_of[*position as usize]);
            match center.is_empty() {
                true => center.extend(columns.iter().zip(&codes).map(|(c, code)| c.part(*code))),
                false => join(columns, &mut center, &codes),
            }
            charge(columns, &mut center, &codes);
            lost(columns, &center)
        };
        rows.map(loss).collect()
    }
}
