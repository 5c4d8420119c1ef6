//! A class in the making.

use crate::method::bounds::{Bounds, Losses, cheapest};
use crate::model::{Code, Row};

/// Rows are given away in at most this many rounds.
const MOST_ROUNDS: usize = 64;

/// Rows that are published together, with the box around them.
#[derive(Debug, Clone)]
pub(in crate::method) struct Class<C, const W: usize> {
    pub(in crate::method) rows: Vec<Row<C, W>>,
    pub(in crate::method) bounds: Bounds<C, W>,
    /// Loss of each row that misses no cell, and of its cells.
    pub(in crate::method) loss: f32,
    cells: [f32; W],
    /// Missing cells by axis, and what the rows are spared for them.
    missing: [u32; W],
    spared: f64,
}

impl<C: Code, const W: usize> Class<C, W> {
    /// A class of at least one row.
    pub(in crate::method) fn new(rows: Vec<Row<C, W>>, losses: &Losses) -> Self {
        let bounds = Bounds::of(&rows);
        let (cells, missing) = (losses.cells(&bounds), losses.missing(&rows));
        let (loss, spared) = (losses.sum(&cells), losses.spared(&bounds, &missing));
        Self { rows, bounds, loss, cells, missing, spared }
    }

    /// Loss of all rows.
    pub(in crate::method) fn total(&self) -> f64 {
        self.rows.len() as f64 * f64::from(self.loss) - self.spared
    }

    /// Mean loss of a row.
    pub(in crate::method) fn mean(&self) -> f32 {
        (self.total() / self.rows.len() as f64) as f32
    }

    /// Loss of one of the rows, or of another one within the bounds.
    pub(in crate::method) fn loss_of(&self, codes: &[C; W], losses: &Losses) -> f64 {
        f64::from(self.loss) - losses.spared_row(&self.bounds, codes)
    }

    /// By how much the total grows if a row of these codes joins, if that is below a limit.
    ///
    /// Whatever column is looked at next adds to the cost and takes nothing away, so that most classes are left after
    /// one or two.
    #[inline]
    pub(in crate::method) fn cost_below(
        &self,
        codes: &[C; W],
        losses: &Losses,
        limit: f64,
    ) -> Option<f64> {
        let rows = (self.rows.len() + 1) as f64;
        let mut cost = self.loss_of(codes, losses);
        for (axis, code) in codes.iter().enumerate().take(losses.axes().len()) {
            let (low, high) = (self.bounds.low[axis], self.bounds.high[axis]);
            if *code < low || *code > high {
                let (low, high) = (low.min(*code).get(), high.max(*code).get());
                let wider = losses.on(axis, low, high) - self.cells[axis];
                // Rows that all miss the cell lose nothing when another one has a value.
                let losing = if self.misses_all(axis, losses) { 1.0 } else { rows };
                cost += losing * f64::from(wider);
                if cost >= limit {
                    return None;
                }
            }
        }
        (cost < limit).then_some(cost)
    }

    fn misses_all(&self, axis: usize, losses: &Losses) -> bool {
        self.bounds.high[axis].get() == 0 && losses.axes()[axis].missing
    }

    /// Loss of all rows of two classes if they were one.
    pub(in crate::method) fn joined_total(&self, other: &Self, losses: &Losses) -> f64 {
        let bounds = self.bounds.join(&other.bounds);
        self.joined_rows(other) * f64::from(losses.of(&bounds))
            - self.joined_spared(other, &bounds, losses)
    }

    fn joined_rows(&self, other: &Self) -> f64 {
        (self.rows.len() + other.rows.len()) as f64
    }

    fn joined_spared(&self, other: &Self, bounds: &Bounds<C, W>, losses: &Losses) -> f64 {
        losses.spared(bounds, &self.missing) + losses.spared(bounds, &other.missing)
    }

    /// What joining another class adds to what this one loses, if that is below a limit.
    ///
    /// A cell of both loses at least what it loses in either, and that is known without looking anything up.
    #[inline]
    pub(in crate::method) fn joining_costs_below(
        &self,
        other: &Self,
        losses: &Losses,
        limit: f64,
    ) -> Option<f64> {
        let (bounds, rows) = (self.bounds.join(&other.bounds), self.joined_rows(other));
        let (spared, total) = (self.joined_spared(other, &bounds, losses), other.total());
        let cost = |loss: f32| rows * f64::from(loss) - spared - total;
        let mut cells = self.cells;
        cells.iter_mut().zip(&other.cells).for_each(|(cell, other)| *cell = cell.max(*other));
        if cost(losses.sum(&cells)) >= limit {
            return None;
        }
        Some(cost(losses.of(&bounds))).filter(|cost| *cost < limit)
    }

    pub(in crate::method) fn add(&mut self, row: Row<C, W>, losses: &Losses) {
        let wider = self.bounds.grow(&row.codes);
        losses.count_missing(&mut self.missing, &row.codes);
        self.rows.push(row);
        losses.update(&mut self.cells, &self.bounds, wider);
        self.loss = losses.sum(&self.cells);
        self.spared = losses.spared(&self.bounds, &self.missing);
    }

    /// Looks at the rows again after some have left.
    pub(in crate::method) fn tighten(&mut self, losses: &Losses) {
        *self = Self::new(std::mem::take(&mut self.rows), losses);
    }

    /// Gives away rows, fewer than there are, to a class with the bounds `towards`: one by one that
    /// which costs the other least and relieves this one most, or several at once if there are many.
    pub(in crate::method) fn give(
        &mut self,
        rows: usize,
        towards: &Bounds<C, W>,
        losses: &Losses,
    ) -> Vec<Row<C, W>> {
        let mut towards = *towards;
        let mut given = Vec::with_capacity(rows);
        while given.len() < rows {
            let at_once = rows.div_ceil(MOST_ROUNDS).min(rows - given.len());
            let chosen = cheapest(self.costs_of_giving(&towards, losses), at_once);
            let taken = self.take(&chosen);
            taken.iter().for_each(|row| towards.add(&row.codes));
            given.extend(taken);
            self.tighten(losses);
        }
        given
    }

    /// What each row costs the class that it would go to, less the relief here.
    fn costs_of_giving(&self, towards: &Bounds<C, W>, losses: &Losses) -> Vec<(f64, usize)> {
        let n = self.rows.len();
        // Bounds of the rows behind each row; those before it are added on the way.
        let mut behind = vec![Bounds::none(); n + 1];
        for at in (0..n).rev() {
            behind[at] = behind[at + 1].with(&self.rows[at].codes);
        }
        let mut before = Bounds::none();
        let there = losses.of(towards);
        let mut costs = Vec::with_capacity(n);
        for (at, row) in self.rows.iter().enumerate() {
            let without = losses.of(&before.join(&behind[at + 1]));
            let relief = f64::from(self.loss - without) * (n - 1) as f64;
            let cost = f64::from(losses.of(&towards.with(&row.codes)) - there) * (n - 1) as f64;
            costs.push((cost - relief, at));
            before.add(&row.codes);
        }
        costs
    }

    /// Takes the rows at these positions out, in this order; [`Class::tighten`] must follow.
    pub(in crate::method) fn take(&mut self, positions: &[usize]) -> Vec<Row<C, W>> {
        let taken = positions.iter().map(|at| self.rows[*at]).collect();
        let mut stays = vec![true; self.rows.len()];
        positions.iter().for_each(|at| stays[*at] = false);
        let mut stays = stays.into_iter();
        self.rows.retain(|_| stays.next().unwrap_or(true));
        taken
    }
}

/// The classes in another order.
pub(in crate::method) fn in_order<C, const W: usize>(
    classes: Vec<Class<C, W>>,
    order: &[usize],
) -> Vec<Class<C, W>> {
    let mut classes: Vec<Option<Class<C, W>>> = classes.into_iter().map(Some).collect();
    order.iter().filter_map(|at| classes[*at].take()).collect()
}
