//! A class in the making.

use crate::method::bounds::{Bounds, Losses};
use crate::model::{Code, Row};

/// Rows that are published together, with the box around them.
#[derive(Debug, Clone)]
pub(super) struct Class<C, const W: usize> {
    pub(super) rows: Vec<Row<C, W>>,
    pub(super) bounds: Bounds<C, W>,
    /// Loss of each row.
    pub(super) loss: f32,
}

impl<C: Code, const W: usize> Class<C, W> {
    /// A class of at least one row.
    pub(super) fn new(rows: Vec<Row<C, W>>, losses: &Losses) -> Self {
        let bounds = Bounds::of(&rows);
        let loss = losses.of(&bounds);
        Self { rows, bounds, loss }
    }

    /// Loss of all rows.
    pub(super) fn total(&self) -> f64 {
        self.rows.len() as f64 * f64::from(self.loss)
    }

    /// By how much the total grows if a row of these codes joins.
    #[inline]
    pub(super) fn cost_of(&self, codes: &[C; W], losses: &Losses) -> f64 {
        let loss = losses.of(&self.bounds.with(codes));
        (self.rows.len() + 1) as f64 * f64::from(loss) - self.total()
    }

    pub(super) fn add(&mut self, row: Row<C, W>, losses: &Losses) {
        self.bounds.add(&row.codes);
        self.rows.push(row);
        self.loss = losses.of(&self.bounds);
    }

    /// Looks at the rows again after some have left.
    pub(super) fn tighten(&mut self, losses: &Losses) {
        self.bounds = Bounds::of(&self.rows);
        self.loss = losses.of(&self.bounds);
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
