//! A class in the making.

use crate::method::bounds::{Bounds, Losses};
use crate::model::{Code, Row};

/// Rows that are published together, with the box around them.
#[derive(Debug, Clone)]
pub(super) struct Class<C, const W: usize> {
    pub(super) rows: Vec<Row<C, W>>,
    pub(super) bounds: Bounds<C, W>,
    /// Loss of each row that misses no cell.
    pub(super) loss: f32,
    /// Missing cells by axis, and what the rows are spared for them.
    missing: [u32; W],
    spared: f64,
}

impl<C: Code, const W: usize> Class<C, W> {
    /// A class of at least one row.
    pub(super) fn new(rows: Vec<Row<C, W>>, losses: &Losses) -> Self {
        let bounds = Bounds::of(&rows);
        let (loss, missing) = (losses.of(&bounds), losses.missing(&rows));
        let spared = losses.spared(&bounds, &missing);
        Self { rows, bounds, loss, missing, spared }
    }

    /// Loss of all rows.
    pub(super) fn total(&self) -> f64 {
        self.rows.len() as f64 * f64::from(self.loss) - self.spared
    }

    /// Mean loss of a row.
    pub(super) fn mean(&self) -> f32 {
        (self.total() / self.rows.len() as f64) as f32
    }

    /// Loss of one of the rows, or of another one within the bounds.
    pub(super) fn loss_of(&self, codes: &[C; W], losses: &Losses) -> f64 {
        f64::from(self.loss) - losses.spared_row(&self.bounds, codes)
    }

    /// By how much the total grows if a row of these codes joins.
    #[inline]
    pub(super) fn cost_of(&self, codes: &[C; W], losses: &Losses) -> f64 {
        let bounds = self.bounds.with(codes);
        let mut missing = self.missing;
        losses.count_missing(&mut missing, codes);
        let spared = losses.spared(&bounds, &missing);
        (self.rows.len() + 1) as f64 * f64::from(losses.of(&bounds)) - spared - self.total()
    }

    /// Loss of all rows of two classes if they were one.
    pub(super) fn joined_total(&self, other: &Self, losses: &Losses) -> f64 {
        let bounds = self.bounds.join(&other.bounds);
        let rows = (self.rows.len() + other.rows.len()) as f64;
        let spared = losses.spared(&bounds, &self.missing) + losses.spared(&bounds, &other.missing);
        rows * f64::from(losses.of(&bounds)) - spared
    }

    pub(super) fn add(&mut self, row: Row<C, W>, losses: &Losses) {
        self.bounds.add(&row.codes);
        losses.count_missing(&mut self.missing, &row.codes);
        self.rows.push(row);
        self.loss = losses.of(&self.bounds);
        self.spared = losses.spared(&self.bounds, &self.missing);
    }

    /// Looks at the rows again after some have left.
    pub(super) fn tighten(&mut self, losses: &Losses) {
        *self = Self::new(std::mem::take(&mut self.rows), losses);
    }

    /// Gives away rows, fewer than there are, to a class with the bounds `towards`: one by one that
    /// which costs the other least and relieves this one most.
    pub(super) fn give(
        &mut self,
        rows: usize,
        towards: &Bounds<C, W>,
        losses: &Losses,
    ) -> Vec<Row<C, W>> {
        let mut towards = *towards;
        let mut given = Vec::with_capacity(rows);
        for _ in 0..rows {
            let n = self.rows.len();
            // Bounds of the rows behind each row; those before it are added on the way.
            let mut behind = vec![Bounds::none(); n + 1];
            for at in (0..n).rev() {
                behind[at] = behind[at + 1].with(&self.rows[at].codes);
            }
            let mut before = Bounds::none();
            let there = losses.of(&towards);
            let mut best = (f64::INFINITY, 0);
            for (at, row) in self.rows.iter().enumerate() {
                let without = losses.of(&before.join(&behind[at + 1]));
                let relief = f64::from(self.loss - without) * (n - 1) as f64;
                let cost = f64::from(losses.of(&towards.with(&row.codes)) - there) * (n - 1) as f64;
                if cost - relief < best.0 {
                    best = (cost - relief, at);
                }
                before.add(&row.codes);
            }
            let row = self.rows.remove(best.1);
            towards.add(&row.codes);
            given.push(row);
            self.tighten(losses);
        }
        given
    }
}

/// The classes in another order.
pub(super) fn in_order<C, const W: usize>(
    classes: Vec<Class<C, W>>,
    order: &[usize],
) -> Vec<Class<C, W>> {
    let mut classes: Vec<Option<Class<C, W>>> = classes.into_iter().map(Some).collect();
    order.iter().filter_map(|at| classes[*at].take()).collect()
}
