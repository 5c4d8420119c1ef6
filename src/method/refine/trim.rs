//! Moving the rows at the edges of a class to classes where they cost less.

use std::ops::Range;

use super::Class;
use super::around::Around;
use super::neighbourhood::{GAIN, Neighbourhood};
use super::undo::Undo;
use crate::method::bounds::{Bounds, largest_first};
use crate::model::{Code, Row};

/// Rows at an edge that may move together, as a share of k.
const EDGE_SHARE: f64 = 0.9;
/// How many edges of a class are tried, the most promising first.
const EDGES: usize = 10;

/// The rows at one edge of a class.
struct Edge<C, const W: usize> {
    axis: usize,
    /// Positions in the order of the axis.
    rows: Range<usize>,
    /// Bounds and loss of the others.
    rest: Bounds<C, W>,
    loss: f32,
}

impl<C: Code, const W: usize> Neighbourhood<'_, C, W> {
    /// Moves the rows at one edge of a class to classes where they cost less. If fewer than k would
    /// stay, rows of other classes that fit in take their place.
    pub(super) fn trim(&mut self, at: usize) -> bool {
        let class = &self.classes[at];
        if class.rows.is_empty() || class.loss == 0.0 || !self.was_changed(at) {
            return false;
        }
        self.budget.spend(2 * class.rows.len() * self.context.losses.axes().len());
        let edges = self.edges(at);
        let (n, loss) = (class.rows.len() as f32, class.loss);
        let promise = |edge: &Edge<C, W>| (loss - edge.loss) * n / (edge.rows.len() as f32 + 0.5);
        // A class that models keep large costs much to look at, and one edge changes it little.
        let tried = EDGES.min(EDGES * 2 * self.context.k() / class.rows.len() + 2);
        let promising = largest_first(edges.iter().map(promise).zip(0..).collect());
        promising.iter().take(tried).any(|edge| self.move_edge(at, &edges[*edge]))
    }

    /// The edges whose rows could go: at most a share of k, fewer than all, and less loss without.
    fn edges(&self, at: usize) -> Vec<Edge<C, W>> {
        let class = &self.classes[at];
        let losses = &self.context.losses;
        let n = class.rows.len();
        let most = ((EDGE_SHARE * self.context.k() as f64) as usize).clamp(1, n - 1);
        let mut edges = Vec::new();
        for axis in 0..losses.axes().len() {
            if class.bounds.low[axis] == class.bounds.high[axis] {
                continue;
            }
            let order = order_along(&class.rows, axis);
            let code = |at: usize| class.rows[order[at] as usize].codes[axis];
            // Bounds of the rows that stay, growing from the last to the first that could go.
            let mut behind = Around::new(Bounds::of(&pick(&class.rows, &order[most..])));
            for end in (1..=most).rev() {
                if code(end - 1) != code(end) {
                    let loss = behind.loss(losses);
                    edges.push(Edge { axis, rows: 0..end, rest: behind.bounds, loss });
                }
                behind.add(&class.rows[order[end - 1] as usize].codes);
            }
            let mut before = Around::new(Bounds::of(&pick(&class.rows, &order[..n - most])));
            for (start, row) in order.iter().enumerate().skip(n - most) {
                if code(start - 1) != code(start) {
                    let loss = before.loss(losses);
                    edges.push(Edge { axis, rows: start..n, rest: before.bounds, loss });
                }
                before.add(&class.rows[*row as usize].codes);
            }
        }
        edges.retain(|edge| edge.loss < class.loss);
        edges
    }

    fn move_edge(&mut self, at: usize, edge: &Edge<C, W>) -> bool {
        let losses = &self.context.losses;
        let class = &self.classes[at];
        let mut order = order_along(&class.rows, edge.axis);
        let leaving: Vec<u32> = order.drain(edge.rows.clone()).collect();
        sort_positions(&mut order);
        let (leaving, mut staying) = (pick(&class.rows, &leaving), pick(&class.rows, &order));
        let lacking = self.context.k().saturating_sub(staying.len());
        let most = class.total() - losses.total(&edge.rest, &staying);
        self.budget.spend(class.rows.len());
        if most <= GAIN {
            return false;
        }
        self.budget.spend(if lacking > 0 { self.classes.len() } else { 0 });
        let Some(lenders) = self.lenders(at, edge, lacking) else { return false };
        let lent = |(lender, rows): &(usize, Vec<u32>)| {
            let lender = &self.classes[*lender];
            let added = |at: &u32| {
                let codes = &lender.rows[*at as usize].codes;
                let here = f64::from(edge.loss) - losses.spared_row(&edge.rest, codes);
                here - lender.loss_of(codes, losses)
            };
            rows.iter().map(added).sum::<f64>()
        };
        let mut gain = most - lenders.iter().map(lent).sum::<f64>();
        if gain <= GAIN {
            return false;
        }
        let mut undo = Undo::default();
        for row in leaving {
            let Some((cost, to)) = self.cheapest(&row, at, gain - GAIN) else {
                undo.roll_back(&mut self.classes);
                return false;
            };
            gain -= cost;
            undo.save(&self.classes, to);
            self.classes[to].add(row, losses);
        }
        for (lender, rows) in &lenders {
            undo.save(&self.classes, *lender);
            // Rows that joined the lender meanwhile stand behind those it lends.
            let positions: Vec<usize> = rows.iter().rev().map(|row| *row as usize).collect();
            staying.extend(self.classes[*lender].take(&positions));
            self.classes[*lender].tighten(losses);
        }
        undo.save(&self.classes, at);
        self.classes[at] = Class::new(staying, losses);
        self.keep(undo)
    }

    /// Rows of classes with more than k that lie within the rest of an edge's class: by class, the
    /// positions of the rows. `None` if there are not enough.
    fn lenders(
        &self,
        at: usize,
        edge: &Edge<C, W>,
        mut lacking: usize,
    ) -> Option<Vec<(usize, Vec<u32>)>> {
        if lacking == 0 {
            return Some(Vec::new());
        }
        let k = self.context.k();
        // A row that loses much where it is loses least by moving.
        let lenders = largest_first(self.losses_of(|other, class| {
            other != at && class.rows.len() > k && class.bounds.overlaps(&edge.rest)
        }));
        let mut lent = Vec::new();
        for lender in lenders {
            let rows = &self.classes[lender].rows;
            let fitting = (0..rows.len() as u32)
                .filter(|row| edge.rest.contains(&rows[*row as usize].codes))
                .take(lacking.min(rows.len() - k));
            let fitting: Vec<u32> = fitting.collect();
            lacking -= fitting.len();
            if !fitting.is_empty() {
                lent.push((lender, fitting));
            }
            if lacking == 0 {
                return Some(lent);
            }
        }
        None
    }
}

/// Positions of the rows, sorted by their code on an axis.
fn order_along<C: Code, const W: usize>(rows: &[Row<C, W>], axis: usize) -> Vec<u32> {
    // Of equal codes the first row first.
    let code = |(row, at): (&Row<C, W>, u64)| u64::from(row.codes[axis].get()) << 32 | at;
    sorted_positions(rows.iter().zip(0..).map(code).collect())
}

/// The lower halves of the keys, sorted by the keys.
fn sorted_positions(mut keys: Vec<u64>) -> Vec<u32> {
    keys.sort_unstable();
    keys.into_iter().map(|key| key as u32).collect()
}

fn sort_positions(positions: &mut [u32]) {
    positions.sort_unstable();
}

fn pick<C: Code, const W: usize>(rows: &[Row<C, W>], positions: &[u32]) -> Vec<Row<C, W>> {
    positions.iter().map(|at| rows[*at as usize]).collect()
}
