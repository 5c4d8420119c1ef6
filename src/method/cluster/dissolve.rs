//! Giving up groups: each row of a group goes to the group where it adds least loss, if all lose less together then and
//! every group that took a row in still satisfies the models.

use super::boxes::{Boxes, charge, join, lost};
use super::greedy::{Group, Growth};
use super::refine::GAIN;
use crate::error::Result;
use crate::method::budget::Budget;

impl Growth<'_> {
    /// Tries to give up every group that loses something, the worst first.
    pub(super) fn dissolve_worst(&mut self, tuple_of: &[u32], mut budget: Budget) -> Result<()> {
        let worst = self.worst();
        let mut boxes = Boxes::new(self.rules.loss_columns, &self.groups);
        for at in worst {
            self.rules.cancel.check()?;
            if budget.is_spent() {
                break;
            }
            let rows = self.dissolve(at, tuple_of, &mut boxes);
            budget.spend(rows * self.groups.len());
        }
        self.groups.retain(|group| !group.rows.is_empty());
        Ok(())
    }

    /// Gives a group up if that loses less; says for how many rows a place was looked for.
    fn dissolve(&mut self, at: usize, tuple_of: &[u32], boxes: &mut Boxes) -> usize {
        let group = std::mem::take(&mut self.groups[at]);
        let mut gain = lost(boxes.columns, &group.center);
        let mut before: Vec<(usize, Group)> = Vec::new();
        let rows = group.rows.len();
        for (place, position) in group.rows.iter().enumerate() {
            let codes = self.tuples.codes_of(tuple_of[*position as usize]);
            let Some((cost, to)) = boxes.cheapest(&self.groups, &codes, gain - GAIN) else {
                self.restore(at, group, before, boxes);
                return place + 1;
            };
            gain -= cost;
            let taker = &mut self.groups[to];
            if before.iter().all(|(saved, _)| *saved != to) {
                before.push((to, taker.clone()));
            }
            taker.rows.push(*position);
            join(boxes.columns, &mut taker.center, &codes);
            charge(boxes.columns, &mut taker.center, &codes);
            boxes.update(to, &taker.center);
        }
        let takers: Vec<Vec<u32>> =
            before.iter().map(|(to, _)| self.groups[*to].rows.clone()).collect();
        if !takers.iter().all(|rows| self.holds(rows)) {
            self.restore(at, group, before, boxes);
        }
        rows
    }

    fn restore(&mut self, at: usize, group: Group, before: Vec<(usize, Group)>, boxes: &mut Boxes) {
        self.groups[at] = group;
        for (to, group) in before {
            boxes.update(to, &group.center);
            self.groups[to] = group;
        }
    }
}
