//! One neighbourhood of classes: joining and cutting anew, moving edges, dissolving.

use std::ops::Range;

use super::cut::Cutter;
use super::{Class, Context};
use crate::error::Result;
use crate::method::bounds::{self, Bounds, largest_first, smallest_first};
use crate::model::{Code, Row};

/// Rounds over the classes; later ones look only at what the round before has changed.
const ROUNDS: usize = 5;
/// How many of its nearest classes a class is joined with and cut anew.
const NEAREST: usize = 8;
/// Rows at an edge that may move together, as a share of k.
const EDGE_SHARE: f64 = 0.9;
/// How often one class gives an edge away in a round.
const TRIMS: usize = 16;
/// How many edges of a class are tried, the most promising first.
const EDGES: usize = 40;
/// A gain below this is rounding.
const GAIN: f64 = 1e-3;

/// Classes among which rows change hands. Dissolved ones stay behind without rows.
pub(super) struct Neighbourhood<'a, C, const W: usize> {
    context: &'a Context<'a>,
    cutter: Cutter<'a>,
    classes: Vec<Class<C, W>>,
    /// The round in which a class was changed last.
    changed: Vec<usize>,
    round: usize,
}

/// The rows at one edge of a class.
struct Edge<C, const W: usize> {
    axis: usize,
    /// Positions in the order of the axis.
    rows: Range<usize>,
    /// Bounds and loss of the others.
    rest: Bounds<C, W>,
    loss: f32,
}

impl<'a, C: Code, const W: usize> Neighbourhood<'a, C, W> {
    pub(super) fn new(classes: Vec<Class<C, W>>, context: &'a Context<'a>) -> Self {
        let changed = vec![0; classes.len()];
        Self { context, cutter: Cutter::new(context), classes, changed, round: 0 }
    }

    pub(super) fn run(mut self) -> Result<Vec<Class<C, W>>> {
        for round in 0..ROUNDS {
            self.round = round;
            let worst = self.worst();
            for class in &worst {
                self.context.job.cancel.check()?;
                self.spare(*class);
            }
            for class in &worst {
                self.context.job.cancel.check()?;
                self.recut(*class);
            }
            for class in &worst {
                for _ in 0..TRIMS {
                    self.context.job.cancel.check()?;
                    if !self.trim(*class) {
                        break;
                    }
                }
            }
            for class in &worst[..worst.len() / 2] {
                self.context.job.cancel.check()?;
                self.dissolve(*class);
            }
        }
        self.classes.retain(|class| !class.rows.is_empty());
        Ok(self.classes)
    }

    /// The classes to be refined, the worst first.
    fn worst(&self) -> Vec<usize> {
        let mut worst = largest_first(self.losses_of(|_, class| class.loss > 0.0));
        worst.truncate((self.classes.len() as f64 * self.context.refined).ceil() as usize);
        worst
    }

    /// The classes that have rows and satisfy the predicate, with their losses.
    fn losses_of(&self, is_one: impl Fn(usize, &Class<C, W>) -> bool) -> Vec<(f32, usize)> {
        let mut losses = Vec::new();
        for (at, class) in self.classes.iter().enumerate() {
            if !class.rows.is_empty() && is_one(at, class) {
                losses.push((class.mean(), at));
            }
        }
        losses
    }

    fn was_changed(&self, class: usize) -> bool {
        self.changed[class] + 1 >= self.round
    }

    /// Gives the rows that a class has beyond k to classes that lose less and hold them anyway.
    fn spare(&mut self, at: usize) {
        let class = &self.classes[at];
        let spare = class.rows.len().saturating_sub(self.context.k());
        if spare == 0 {
            return;
        }
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
        for (_, row, to) in moves {
            undo.save(&self.classes, to);
            let row = self.classes[at].rows.remove(row);
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
        for other in self.nearest(at) {
            let (class, near) = (&self.classes[at], &self.classes[other]);
            if near.rows.is_empty() || !(self.was_changed(at) || self.was_changed(other)) {
                continue;
            }
            let before = class.total() + near.total();
            let rows = class.rows.iter().chain(&near.rows).copied().collect();
            let mut cut = Vec::new();
            self.cutter.divide(rows, &mut cut);
            let after: f64 = cut.iter().map(Class::total).sum();
            if after + GAIN < before {
                self.replace(&[at, other], cut);
            }
        }
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
        let costs = (self.classes.iter().enumerate())
            .filter(|(other, near)| *other != at && !near.rows.is_empty())
            .map(|(other, near)| {
                (class.joined_total(near, &self.context.losses) - near.total(), other)
            });
        bounds::cheapest(costs.collect(), NEAREST)
    }

    /// Moves the rows at one edge of a class to classes where they cost less. If fewer than k would
    /// stay, rows of other classes that fit in take their place.
    fn trim(&mut self, at: usize) -> bool {
        let class = &self.classes[at];
        if class.rows.is_empty() || class.loss == 0.0 || !self.was_changed(at) {
            return false;
        }
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
            let mut behind = Bounds::of(&pick(&class.rows, &order[most..]));
            for end in (1..=most).rev() {
                if code(end - 1) != code(end) {
                    let loss = losses.of(&behind);
                    edges.push(Edge { axis, rows: 0..end, rest: behind, loss });
                }
                behind.add(&class.rows[order[end - 1] as usize].codes);
            }
            let mut before = Bounds::of(&pick(&class.rows, &order[..n - most]));
            for (start, row) in order.iter().enumerate().skip(n - most) {
                if code(start - 1) != code(start) {
                    let loss = losses.of(&before);
                    edges.push(Edge { axis, rows: start..n, rest: before, loss });
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
        let mut gain = class.total()
            - losses.total(&edge.rest, &staying)
            - lenders.iter().map(lent).sum::<f64>();
        if gain <= GAIN {
            return false;
        }
        let mut undo = Undo::default();
        for row in leaving {
            let (cost, to) = self.cheapest(&row, at);
            gain -= cost;
            if gain <= GAIN {
                undo.roll_back(&mut self.classes);
                return false;
            }
            undo.save(&self.classes, to);
            self.classes[to].add(row, losses);
        }
        for (lender, rows) in &lenders {
            undo.save(&self.classes, *lender);
            // Rows that joined the lender meanwhile stand behind those it lends.
            for row in rows.iter().rev() {
                staying.push(self.classes[*lender].rows.remove(*row as usize));
            }
            self.classes[*lender].tighten(losses);
        }
        undo.save(&self.classes, at);
        self.classes[at] = Class::new(staying, losses);
        self.keep(undo)
    }

    /// Keeps a change if all classes that it touched may be classes, and cuts those that grew.
    fn keep(&mut self, undo: Undo<C, W>) -> bool {
        let touched = undo.touched();
        let models = !self.context.job.requirement.models.is_empty();
        if models && !touched.iter().all(|at| self.is_empty_or_holds(*at)) {
            undo.roll_back(&mut self.classes);
            return false;
        }
        for at in touched {
            self.changed[at] = self.round + 1;
            if self.classes[at].rows.len() >= 2 * self.context.k() {
                let rows = std::mem::take(&mut self.classes[at].rows);
                let mut cut = Vec::new();
                self.cutter.divide(rows, &mut cut);
                self.replace(&[at], cut);
            }
        }
        true
    }

    fn is_empty_or_holds(&mut self, at: usize) -> bool {
        self.classes[at].rows.is_empty() || self.cutter.holds(&self.classes[at].rows)
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

    /// The class where a row costs least, and the cost.
    fn cheapest(&self, row: &Row<C, W>, except: usize) -> (f64, usize) {
        let mut best = (f64::INFINITY, except);
        for (at, class) in self.classes.iter().enumerate() {
            if at != except && !class.rows.is_empty() {
                let cost = class.cost_of(&row.codes, &self.context.losses);
                if cost < best.0 {
                    best = (cost, at);
                }
            }
        }
        best
    }

    /// Gives the rows of a class to others if that loses less.
    fn dissolve(&mut self, at: usize) {
        let mut gain = self.classes[at].total();
        let mut undo = Undo::default();
        for row in self.classes[at].rows.clone() {
            let (cost, to) = self.cheapest(&row, at);
            gain -= cost;
            if gain <= GAIN {
                undo.roll_back(&mut self.classes);
                return;
            }
            undo.save(&self.classes, to);
            self.classes[to].add(row, &self.context.losses);
        }
        undo.save(&self.classes, at);
        self.classes[at].rows.clear();
        self.keep(undo);
    }
}

/// Classes as they were before a change.
struct Undo<C, const W: usize>(Vec<(usize, Class<C, W>)>);

impl<C, const W: usize> Default for Undo<C, W> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<C: Code, const W: usize> Undo<C, W> {
    fn save(&mut self, classes: &[Class<C, W>], at: usize) {
        if self.0.iter().all(|(saved, _)| *saved != at) {
            self.0.push((at, classes[at].clone()));
        }
    }

    fn touched(&self) -> Vec<usize> {
        self.0.iter().map(|(at, _)| *at).collect()
    }

    fn roll_back(self, classes: &mut [Class<C, W>]) {
        self.0.into_iter().for_each(|(at, class)| classes[at] = class);
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

/// A row of a class that could go to another class: the loss there, the row, the class.
type Move = (f32, usize, usize);

/// Keeps the cheapest moves, those of the last rows first.
fn keep_cheapest(moves: &mut Vec<Move>, most: usize) {
    moves.sort_by(|a, b| a.0.total_cmp(&b.0));
    moves.truncate(most);
    moves.sort_by_key(|(_, row, _)| std::cmp::Reverse(*row));
}

fn pick<C: Code, const W: usize>(rows: &[Row<C, W>], positions: &[u32]) -> Vec<Row<C, W>> {
    positions.iter().map(|at| rows[*at as usize]).collect()
}
