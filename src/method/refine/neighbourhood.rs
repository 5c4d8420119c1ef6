//! One neighbourhood of classes: joining and cutting anew, dissolving, and (`trim.rs`) moving edges.

use super::cut::Cutter;
use super::undo::Undo;
use super::{Class, Context};
use crate::error::Result;
use crate::method::bounds::{Nearest, largest_first, smallest_first};
use crate::method::budget::Budget;
use crate::model::{Code, Row};

/// Rounds over the classes; later ones look only at what the round before has changed.
const ROUNDS: usize = 5;
/// How many of its nearest classes a class is joined with and cut anew. Twice as many gain a fifth of a per cent.
const NEAREST: usize = 4;
/// How often one class gives an edge away in a round.
const TRIMS: usize = 16;
/// A gain below this is rounding.
pub(super) const GAIN: f64 = 1e-3;

/// Classes among which rows change hands. Dissolved ones stay behind without rows.
pub(super) struct Neighbourhood<'a, C, const W: usize> {
    pub(super) context: &'a Context<'a>,
    cutter: Cutter<'a>,
    pub(super) classes: Vec<Class<C, W>>,
    /// The round in which a class was changed last.
    changed: Vec<usize>,
    round: usize,
    pub(super) budget: Budget,
}

impl<'a, C: Code, const W: usize> Neighbourhood<'a, C, W> {
    pub(super) fn new(classes: Vec<Class<C, W>>, context: &'a Context<'a>, budget: Budget) -> Self {
        let changed = vec![0; classes.len()];
        Self { context, cutter: Cutter::new(context), classes, changed, round: 0, budget }
    }

    /// Refines the classes, the worst first, until the budget is spent.
    pub(super) fn run(mut self) -> Result<Vec<Class<C, W>>> {
        let steps: [fn(&mut Self, usize); 4] =
            [Self::spare, Self::recut, Self::trim_often, Self::dissolve];
        for round in 0..ROUNDS {
            self.round = round;
            let worst = self.worst();
            for (at, step) in steps.iter().enumerate() {
                // Where little is lost, dissolving a class gains nothing.
                let classes = if at == 3 { worst.len() / 2 } else { worst.len() };
                for class in &worst[..classes] {
                    self.context.job.cancel.check()?;
                    if self.budget.is_spent() {
                        break;
                    }
                    step(&mut self, *class);
                }
            }
        }
        self.classes.retain(|class| !class.rows.is_empty());
        Ok(self.classes)
    }

    /// The classes that lose something, the worst first.
    fn worst(&self) -> Vec<usize> {
        largest_first(self.losses_of(|_, class| class.loss > 0.0))
    }

    /// The classes that have rows and satisfy the predicate, with their losses.
    pub(super) fn losses_of(
        &self,
        is_one: impl Fn(usize, &Class<C, W>) -> bool,
    ) -> Vec<(f32, usize)> {
        let mut losses = Vec::new();
        for (at, class) in self.classes.iter().enumerate() {
            if !class.rows.is_empty() && is_one(at, class) {
                losses.push((class.mean(), at));
            }
        }
        losses
    }

    pub(super) fn was_changed(&self, class: usize) -> bool {
        self.changed[class] + 1 >= self.round
    }

    fn trim_often(&mut self, at: usize) {
        for _ in 0..TRIMS {
            if self.budget.is_spent() || !self.trim(at) {
                return;
            }
        }
    }

    /// Gives the rows that a class has beyond k to classes that lose less and hold them anyway.
    fn spare(&mut self, at: usize) {
        let class = &self.classes[at];
        let spare = class.rows.len().saturating_sub(self.context.k());
        if spare == 0 {
            return;
        }
        self.budget.spend(self.classes.len() + class.rows.len());
        let better =
            smallest_first(self.losses_of(|_, other| {
                other.loss < class.loss && other.bounds.overlaps(&class.bounds)
            }));
        let losses = &self.context.losses;
        let mut moves: Vec<Move> = Vec::new();
        for (row_at, row) in class.rows.iter().enumerate() {
            let here = class.loss_of(&row.codes, losses);
            let is_better = |to: &&usize| {
                let other = &self.classes[**to];
                other.bounds.contains(&row.codes) && other.loss_of(&row.codes, losses) < here
            };
            if let Some(to) = better.iter().find(is_better) {
                moves.push((self.classes[*to].mean(), row_at, *to));
            }
        }
        if moves.is_empty() {
            return;
        }
        keep_cheapest(&mut moves, spare);
        let mut undo = Undo::default();
        undo.save(&self.classes, at);
        let positions: Vec<usize> = moves.iter().map(|(_, row, _)| *row).collect();
        let rows = self.classes[at].take(&positions);
        for (row, (.., to)) in rows.into_iter().zip(moves) {
            undo.save(&self.classes, to);
            self.classes[to].add(row, &self.context.losses);
        }
        self.classes[at].tighten(&self.context.losses);
        self.keep(undo);
    }

    /// Joins a class with each of its nearest ones and cuts the two anew.
    fn recut(&mut self, at: usize) {
        if self.classes[at].rows.is_empty() {
            return;
        }
        self.budget.spend(2 * self.classes.len());
        for other in self.nearest(at) {
            let (class, near) = (&self.classes[at], &self.classes[other]);
            if near.rows.is_empty() || !(self.was_changed(at) || self.was_changed(other)) {
                continue;
            }
            let before = class.total() + near.total();
            let rows = class.rows.iter().chain(&near.rows).copied().collect();
            let cut = self.divide(rows);
            let after: f64 = cut.iter().map(Class::total).sum();
            if after + GAIN < before {
                self.replace(&[at, other], cut);
            }
        }
    }

    /// Cuts rows into classes.
    fn divide(&mut self, rows: Vec<Row<C, W>>) -> Vec<Class<C, W>> {
        let mut cut = Vec::new();
        self.cutter.divide(rows, &mut cut);
        self.budget.spend(self.cutter.take_looks());
        cut
    }

    /// Puts classes in the place of others.
    fn replace(&mut self, places: &[usize], classes: Vec<Class<C, W>>) {
        for place in places {
            self.classes[*place].rows.clear();
            self.changed[*place] = self.round + 1;
        }
        let mut places = places.iter();
        for class in classes {
            match places.next() {
                Some(place) => self.classes[*place] = class,
                None => {
                    self.classes.push(class);
                    self.changed.push(self.round + 1);
                }
            }
        }
    }

    /// The classes for which joining a class with them costs least.
    fn nearest(&self, at: usize) -> Vec<usize> {
        let class = &self.classes[at];
        let losses = &self.context.losses;
        let mut nearest = Nearest::new(NEAREST);
        for (other, near) in self.classes.iter().enumerate() {
            if other != at && !near.rows.is_empty() {
                let cost = class.joining_costs_below(near, losses, nearest.limit());
                cost.into_iter().for_each(|cost| nearest.offer(cost, other));
            }
        }
        nearest.places()
    }

    /// Keeps a change if all classes that it touched may be classes, and cuts those that grew.
    pub(super) fn keep(&mut self, undo: Undo<C, W>) -> bool {
        let touched = undo.touched();
        if !self.context.job.requirement.models.is_empty() {
            let hold = touched.iter().all(|at| self.is_empty_or_holds(*at));
            self.budget.spend(self.cutter.take_looks());
            if !hold {
                undo.roll_back(&mut self.classes);
                return false;
            }
        }
        for at in touched {
            self.changed[at] = self.round + 1;
            if self.classes[at].rows.len() >= 2 * self.context.k() {
                let rows = std::mem::take(&mut self.classes[at].rows);
                let cut = self.divide(rows);
                self.replace(&[at], cut);
            }
        }
        true
    }

    fn is_empty_or_holds(&mut self, at: usize) -> bool {
        self.classes[at].rows.is_empty() || self.cutter.holds(&self.classes[at].rows)
    }

    /// The class where a row costs least, and the cost, if that is below a limit.
    pub(super) fn cheapest(
        &mut self,
        row: &Row<C, W>,
        except: usize,
        limit: f64,
    ) -> Option<(f64, usize)> {
        self.budget.spend(2 * self.classes.len());
        let mut best = None;
        let mut least = limit;
        for (at, class) in self.classes.iter().enumerate() {
            if at != except && !class.rows.is_empty() {
                let cost = class.cost_below(&row.codes, &self.context.losses, least);
                if let Some(cost) = cost {
                    (least, best) = (cost, Some((cost, at)));
                }
            }
        }
        best
    }

    /// Gives the rows of a class to others if that loses less.
    fn dissolve(&mut self, at: usize) {
        if self.classes[at].rows.is_empty() {
            return;
        }
        let mut gain = self.classes[at].total();
        let mut undo = Undo::default();
        for row in self.classes[at].rows.clone() {
            let Some((cost, to)) = self.cheapest(&row, at, gain - GAIN) else {
                undo.roll_back(&mut self.classes);
                return;
            };
            gain -= cost;
            undo.save(&self.classes, to);
            self.classes[to].add(row, &self.context.losses);
        }
        undo.save(&self.classes, at);
        self.classes[at].rows.clear();
        self.keep(undo);
    }
}

/// A row of a class that could go to another class: the loss there, the row, the class.
type Move = (f32, usize, usize);

/// Keeps the cheapest moves, those of the last rows first.
fn keep_cheapest(moves: &mut Vec<Move>, most: usize) {
    moves.sort_by(|a, b| a.0.total_cmp(&b.0));
    moves.truncate(most);
    moves.sort_by_key(|(_, row, _)| std::cmp::Reverse(*row));
}
