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

use super::boxes::{Boxes, lost};
use super::distance::Part;
use super::greedy::{Group, Growth};
use crate::error::Result;
use crate::method::budget::Budget;

/// A gain below this is rounding.
pub(super) const GAIN: f64 = 1e-3;
/// How many of its nearest groups a group is put together with.
const NEAREST: usize = 4;
/// How many cells either step may look at for each cell of the block.
const LOOKS: f64 = 60.0;

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
        let budget = Budget::of_cells(LOOKS, self.tuples.rows(), columns.len());
        self.dissolve_worst(&tuple_of, budget)?;
        self.halve_large(&tuple_of)?;
        self.recut_worst(&tuple_of, budget)?;
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
    fn recut_worst(&mut self, tuple_of: &[u32], mut budget: Budget) -> Result<()> {
        let columns = self.rules.loss_columns;
        let mut boxes = Boxes::new(columns, &self.groups);
        for at in self.worst() {
            self.rules.cancel.check()?;
            if budget.is_spent() {
                break;
            }
            budget.spend(2 * self.groups.len());
            for other in boxes.nearest(&self.groups, at, NEAREST) {
                let (one, two) = (&self.groups[at], &self.groups[other]);
                let before = lost(columns, &one.center) + lost(columns, &two.center);
                let mut rows: Vec<u32> = one.rows.iter().chain(&two.rows).copied().collect();
                // Where a row came from has no say.
                rows.sort_unstable();
                budget.spend(4 * (rows.len() + 8) * columns.len());
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
        let (k, n) = (self.rules.k as usize, rows.len());
        if n < 2 * k {
            return None;
        }
        let of_column = |codes: &Vec<u32>| -> Vec<u32> {
            rows.iter().map(|at| codes[tuple_of[*at as usize] as usize]).collect()
        };
        let codes: Vec<Vec<u32>> = self.tuples.codes.iter().map(of_column).collect();
        let order_of = |column: usize| {
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_unstable_by_key(|at| (codes[column][*at], rows[*at]));
            order
        };
        let mut best = (limit, None);
        let mut had_constant = false;
        for (column, own) in codes.iter().enumerate() {
            // All columns of one value have the same order.
            let is_constant = own.iter().all(|code| *code == own[0]);
            if is_constant && std::mem::replace(&mut had_constant, true) {
                continue;
            }
            let order = order_of(column);
            let left = self.losses_of_first(&codes, &order[..=n - k].iter());
            let right = self.losses_of_first(&codes, &order[k - 1..].iter().rev());
            for rows in k..=n - k {
                let loss = left[rows - 1] + right[n - rows - 1];
                if loss < best.0 {
                    best = (loss, Some((column, rows)));
                }
            }
        }
        let (column, left) = best.1?;
        let sorted: Vec<u32> = order_of(column).into_iter().map(|at| rows[at]).collect();
        let halves = [sorted[..left].to_vec(), sorted[left..].to_vec()];
        let columns = self.rules.loss_columns;
        halves.iter().all(|rows| self.holds(rows)).then(|| {
            halves.map(|rows| Group { center: self.tuples.center(columns, &rows, tuple_of), rows })
        })
    }

    /// What the first row loses, the first two together, and so on.
    fn losses_of_first<'r>(
        &self,
        codes: &[Vec<u32>],
        order: &(impl Iterator<Item = &'r usize> + Clone),
    ) -> Vec<f64> {
        let mut losses = Vec::new();
        for (column, codes) in self.rules.loss_columns.iter().zip(codes) {
            let mut center: Option<Part> = None;
            for (at, row) in order.clone().enumerate() {
                let code = codes[*row];
                let part = center.get_or_insert_with(|| column.part(code));
                column.join(part, code);
                column.charge(part, code, 1);
                if losses.len() <= at {
                    losses.push(0.0);
                }
                losses[at] += column.loss(part);
            }
        }
        losses
    }
}
