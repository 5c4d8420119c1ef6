//! Layers: what can be a class at the present rungs is frozen, the rest climbs.

use super::ladder::Ladder;
use super::sketch::{Ready, Sketch};
use super::{Class, Context, Cutter};
use crate::error::Result;
use crate::method::bounds::{Bounds, Losses, order_by, smallest_first};
use crate::method::counter::node_key;
use crate::model::{Code, Row};

/// A rung is chosen by the rows that would freeze and this share of the open rows, per loss added:
/// with a smaller share rows freeze sooner, on rungs that cost others more.
const OPEN_SHARE: f64 = 0.4;

/// A group with at least this share of k open rows may borrow the others from classes with more than
/// k. With fewer, the borrowed rows lose more than the open ones gain.
const OWN_SHARE: f64 = 0.6;

/// Open rows of equal codes.
#[derive(Debug, Clone, Copy)]
struct Tuple {
    /// Hash of the nodes on the present rungs.
    key: u64,
    /// Position of the first row in the block.
    start: u32,
    rows: u32,
}

/// A class that can give away rows. Its rows share their nodes on all rungs from where it was frozen.
#[derive(Debug, Clone, Copy)]
struct Lender {
    key: u64,
    class: usize,
}

/// Climbing one rung on an axis.
struct Climb {
    /// What it does to a key and adds to the loss, by code.
    steps: Vec<(u64, f32)>,
    /// What it adds to the loss of all open rows, and how many they were then.
    added: (f64, usize),
}

/// Classes, and the rows that are still open.
pub(super) type Frozen<C, const W: usize> = (Vec<Class<C, W>>, Vec<Row<C, W>>);

/// The layers of one block.
pub(super) struct Layers<'b, 'a, C, const W: usize> {
    cutter: &'b mut Cutter<'a>,
    rows: &'b [Row<C, W>],
    ladders: Vec<Ladder>,
    level: Vec<usize>,
    open: Vec<Tuple>,
    open_rows: usize,
    lenders: Vec<Lender>,
    /// Classes frozen on the present rungs: no other group there has their key.
    new_lenders: Vec<Lender>,
    sketch: Sketch,
    /// By axis, what climbing one rung does; made when it is asked for.
    climbs: Vec<Option<Climb>>,
    pub(super) classes: Vec<Class<C, W>>,
}

impl<'b, 'a, C: Code, const W: usize> Layers<'b, 'a, C, W> {
    /// The rows must be in canonical order.
    pub(super) fn new(cutter: &'b mut Cutter<'a>, rows: &'b [Row<C, W>]) -> Self {
        let bounds = Bounds::of(rows);
        let losses: &Losses = &cutter.context.losses;
        let ladder = |axis: usize| {
            Ladder::new(losses, axis, bounds.low[axis].get(), bounds.high[axis].get())
        };
        let ladders: Vec<Ladder> = (0..losses.axes().len()).map(ladder).collect();
        let mut open = Vec::new();
        let mut start = 0;
        for tuple in rows.chunk_by(|a, b| a.codes == b.codes) {
            let mut key = 0u64;
            for axis in 0..ladders.len() {
                key = key.wrapping_add(node_key(axis, tuple[0].codes[axis].get()));
            }
            open.push(Tuple { key, start, rows: tuple.len() as u32 });
            start += tuple.len() as u32;
        }
        Self {
            cutter,
            rows,
            level: vec![0; ladders.len()],
            climbs: ladders.iter().map(|_| None).collect(),
            ladders,
            open,
            open_rows: rows.len(),
            lenders: Vec::new(),
            new_lenders: Vec::new(),
            sketch: Sketch::default(),
            classes: Vec::new(),
        }
    }

    /// Freezes and climbs until fewer than `enough` rows are open; returns the rows that still are.
    pub(super) fn run(mut self, enough: usize) -> Result<Frozen<C, W>> {
        self.freeze();
        while self.open_rows >= enough {
            self.cutter.context.job.cancel.check()?;
            let Some((axis, freeze)) = self.choose() else { break };
            self.climb(axis);
            if freeze > 0 {
                self.freeze();
            }
        }
        let open = self.open.iter().flat_map(|tuple| self.rows_of(tuple)).copied().collect();
        Ok((self.classes, open))
    }

    fn context(&self) -> &'a Context<'a> {
        self.cutter.context
    }

    fn rows_of(&self, tuple: &Tuple) -> &'b [Row<C, W>] {
        &self.rows[tuple.start as usize..(tuple.start + tuple.rows) as usize]
    }

    /// When a group may be frozen, with what others lend it if it lacks some.
    fn ready(&self) -> Ready {
        let k = self.context().k();
        Ready { k: k as u32, own: (OWN_SHARE * k as f64).ceil() as u32 }
    }

    /// Freezes every group that could be a class, with borrowed rows where it needs some.
    fn freeze(&mut self) {
        let (k, enough) = (self.context().k(), self.ready());
        self.sketch.clear(self.open.len());
        self.open.iter().for_each(|tuple| self.sketch.add(tuple.key, tuple.rows));
        let classes = &self.classes;
        self.lenders.retain(|lender| classes[lender.class].rows.len() > k);
        for lender in &self.lenders {
            self.sketch.lend(lender.key, (classes[lender.class].rows.len() - k) as u32);
        }
        let ready = take_ready(&mut self.open, &self.sketch, enough);
        if ready.is_empty() {
            return;
        }
        sort_by_key(&mut self.lenders);
        for group in ready.chunk_by(|a, b| a.key == b.key) {
            let rows = group.iter().flat_map(|tuple| self.rows_of(tuple)).copied().collect();
            if self.freeze_group(group[0].key, rows) {
                self.open_rows -= group.iter().map(|tuple| tuple.rows as usize).sum::<usize>();
            } else {
                self.open.extend(group);
            }
        }
        self.lenders.append(&mut self.new_lenders);
        // Canonical order again, whatever was put back.
        sort_by_start(&mut self.open);
    }

    fn freeze_group(&mut self, key: u64, mut rows: Vec<Row<C, W>>) -> bool {
        let k = self.context().k();
        if rows.len() < k && !self.borrow(&mut rows, &classes_of(&self.lenders, key)) {
            return false;
        }
        if !self.cutter.holds(&rows) {
            return false;
        }
        let made = self.classes.len();
        self.cutter.divide(rows, &mut self.classes);
        let lenders = (made..self.classes.len()).map(|class| Lender { key, class });
        self.new_lenders.extend(lenders);
        true
    }

    /// Fills a group up to k with rows of classes that have more, nearest classes first.
    fn borrow(&mut self, rows: &mut Vec<Row<C, W>>, lenders: &[usize]) -> bool {
        let k = self.context().k();
        let losses = &self.context().losses;
        let around = Bounds::of(rows);
        let cost = |class: &Class<C, W>| losses.of(&around.join(&class.bounds)) - class.loss;
        let lenders = lenders.iter().map(|lender| (cost(&self.classes[*lender]), *lender));
        let lenders = smallest_first(lenders.collect());
        let own = rows.len();
        let mut undo = Vec::new();
        for lender in lenders {
            let before = self.classes[lender].rows.len();
            let wanted = (k - rows.len()).min(before.saturating_sub(k));
            if wanted == 0 {
                continue;
            }
            let class = &mut self.classes[lender];
            let saved = class.clone();
            let mut given = class.give(wanted, &Bounds::of(rows), losses);
            if self.cutter.holds(&self.classes[lender].rows) {
                rows.append(&mut given);
                undo.push((lender, saved));
            } else {
                self.classes[lender] = saved;
            }
        }
        if rows.len() >= k && self.cutter.holds(rows) {
            return true;
        }
        rows.truncate(own);
        undo.into_iter().for_each(|(lender, class)| self.classes[lender] = class);
        false
    }

    /// The axis on which most rows would freeze for the loss that climbing adds, and about how many; none if 0.
    fn choose(&mut self) -> Option<(usize, u64)> {
        let open_rows = self.open_rows as f64;
        let mut axes: Vec<(f64, usize)> = Vec::new();
        for axis in 0..self.ladders.len() {
            axes.extend(self.added(axis).map(|added| (added, axis)));
        }
        let mut best: Option<(f64, usize, u64)> = None;
        for axis in smallest_first_by_loss(&axes) {
            let (added, axis) = axes[axis];
            let score = |freeze: f64| (freeze + OPEN_SHARE * open_rows) / (added + 1e-6);
            // The axes behind it add more still.
            if best.is_some_and(|(most, ..)| score(open_rows) < most) {
                break;
            }
            let freeze = self.would_freeze(axis);
            let score = score(freeze as f64);
            let is_better = |(most, first, _)| score > most || (score == most && axis < first);
            if best.is_none_or(is_better) {
                best = Some((score, axis, freeze));
            }
        }
        best.map(|(_, axis, freeze)| (axis, freeze))
    }

    /// What climbing on an axis adds to the loss of the open rows; `None` at the end of its ladder.
    fn added(&mut self, axis: usize) -> Option<f64> {
        let mut climb = match self.climbs[axis].take() {
            Some(climb) => climb,
            None => {
                let steps = steps(&self.ladders[axis], axis, self.level[axis])?;
                Climb { steps, added: (0.0, 0) }
            }
        };
        if climb.added.1 != self.open_rows {
            let mut added = 0.0;
            for tuple in &self.open {
                let (_, loss) = climb.steps[self.step_of(tuple, axis)];
                added += f64::from(loss) * f64::from(tuple.rows);
            }
            climb.added = (added, self.open_rows);
        }
        let (added, _) = climb.added;
        self.climbs[axis] = Some(climb);
        Some(added)
    }

    /// The place of an open tuple among the steps of an axis.
    fn step_of(&self, tuple: &Tuple, axis: usize) -> usize {
        let code = self.rows[tuple.start as usize].codes[axis].get();
        (code - self.ladders[axis].low) as usize
    }

    /// How many open rows would freeze after climbing on an axis.
    fn would_freeze(&mut self, axis: usize) -> u64 {
        let Some(climb) = &self.climbs[axis] else { return 0 };
        let mut sketch = std::mem::take(&mut self.sketch);
        sketch.clear(self.open.len());
        for tuple in &self.open {
            let (step, _) = climb.steps[self.step_of(tuple, axis)];
            sketch.add(tuple.key.wrapping_add(step), tuple.rows);
        }
        let (k, low) = (self.context().k(), self.ladders[axis].low);
        for lender in &self.lenders {
            let rows = &self.classes[lender.class].rows;
            let (step, _) = climb.steps[(rows[0].codes[axis].get() - low) as usize];
            let spare = rows.len().saturating_sub(k);
            if spare > 0 {
                sketch.lend(lender.key.wrapping_add(step), spare as u32);
            }
        }
        self.sketch = sketch;
        self.sketch.ready_rows(self.ready())
    }

    fn climb(&mut self, axis: usize) {
        let Some(climb) = self.climbs[axis].take() else { return };
        let low = self.ladders[axis].low;
        let step = |row: &Row<C, W>| climb.steps[(row.codes[axis].get() - low) as usize].0;
        for tuple in &mut self.open {
            tuple.key = tuple.key.wrapping_add(step(&self.rows[tuple.start as usize]));
        }
        for lender in &mut self.lenders {
            lender.key = lender.key.wrapping_add(step(&self.classes[lender.class].rows[0]));
        }
        self.level[axis] += 1;
    }
}

/// The places of the axes, those that add least first; of equals the first.
fn smallest_first_by_loss(axes: &[(f64, usize)]) -> Vec<usize> {
    order_by(axes.len(), &|a, b| axes[a].0.total_cmp(&axes[b].0))
}

/// Takes the tuples out whose groups could be classes, and sorts them by key.
fn take_ready(open: &mut Vec<Tuple>, sketch: &Sketch, enough: Ready) -> Vec<Tuple> {
    let (mut ready, rest): (Vec<Tuple>, Vec<Tuple>) =
        open.iter().partition(|tuple| sketch.is_ready(tuple.key, enough));
    *open = rest;
    ready.sort_by_key(|tuple| tuple.key);
    ready
}

fn sort_by_key(lenders: &mut [Lender]) {
    lenders.sort_by_key(|lender| lender.key);
}

fn sort_by_start(tuples: &mut [Tuple]) {
    tuples.sort_unstable_by_key(|tuple| tuple.start);
}

/// The classes that can lend under a key; lenders are sorted by key.
fn classes_of(lenders: &[Lender], key: u64) -> Vec<usize> {
    let first = lenders.partition_point(|lender| lender.key < key);
    let same = lenders[first..].iter().take_while(|lender| lender.key == key);
    same.map(|lender| lender.class).collect()
}

/// What climbing one rung on an axis does to a key and adds to the loss, by code; `None` at the
/// end of the ladder.
fn steps(ladder: &Ladder, axis: usize, level: usize) -> Option<Vec<(u64, f32)>> {
    let rung = ladder.above(level)?;
    let step = |(at, (node, loss)): (usize, (&u32, &f32))| {
        let code = ladder.low + at as u32;
        let key = node_key(axis, *node).wrapping_sub(node_key(axis, ladder.node(level, code)));
        (key, loss - ladder.loss(level, code))
    };
    Some(rung.nodes.iter().zip(&rung.losses).enumerate().map(step).collect())
}
