//! Layers: what can be a class at the present rungs is frozen, the rest climbs.

use super::cut::Cutter;
use super::ladder::Ladder;
use super::{Class, Context};
use crate::error::Result;
use crate::method::bounds::{Bounds, Losses, smallest_first};
use crate::method::counter::{Counter, node_key};
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
    counter: Counter,
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
            ladders,
            open,
            open_rows: rows.len(),
            lenders: Vec::new(),
            new_lenders: Vec::new(),
            counter: Counter::default(),
            classes: Vec::new(),
        }
    }

    /// Freezes and climbs until fewer than `enough` rows are open; returns the rows that still are.
    pub(super) fn run(mut self, enough: usize) -> Result<Frozen<C, W>> {
        loop {
            self.cutter.context.job.cancel.check()?;
            self.freeze();
            if self.open_rows < enough {
                break;
            }
            let Some(axis) = self.choose() else { break };
            self.climb(axis);
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

    /// Open rows with which a group may be frozen if others lend it what it lacks.
    fn own_rows(&self) -> u32 {
        (OWN_SHARE * self.context().k() as f64).ceil() as u32
    }

    /// Freezes every group that could be a class, with borrowed rows where it needs some.
    fn freeze(&mut self) {
        let (k, own) = (self.context().k() as u32, self.own_rows());
        self.counter.clear(self.open.len());
        self.open.iter().for_each(|tuple| self.counter.add(tuple.key, tuple.rows));
        let classes = &self.classes;
        self.lenders.retain(|lender| classes[lender.class].rows.len() > k as usize);
        for lender in &self.lenders {
            self.counter.lend(lender.key, classes[lender.class].rows.len() as u32 - k);
        }
        let ready = take_ready(&mut self.open, &self.counter, k, own);
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

    /// The axis on which most rows would freeze for the loss that climbing adds.
    fn choose(&mut self) -> Option<usize> {
        let (k, own) = (self.context().k() as u32, self.own_rows());
        let mut best: Option<(f64, usize)> = None;
        for axis in 0..self.ladders.len() {
            let ladder = &self.ladders[axis];
            let Some(steps) = steps(ladder, axis, self.level[axis]) else { continue };
            let low = ladder.low;
            self.counter.clear(self.open.len());
            let mut added = 0.0;
            for tuple in &self.open {
                let code = self.rows[tuple.start as usize].codes[axis].get();
                let (step, loss) = steps[(code - low) as usize];
                self.counter.add(tuple.key.wrapping_add(step), tuple.rows);
                added += f64::from(loss) * f64::from(tuple.rows);
            }
            for lender in &self.lenders {
                let class = &self.classes[lender.class];
                let code = class.rows[0].codes[axis].get();
                let key = lender.key.wrapping_add(steps[(code - low) as usize].0);
                self.counter.lend(key, (class.rows.len() as u32).saturating_sub(k));
            }
            let freeze = self.counter.ready_rows(k, own) as f64;
            let score = (freeze + OPEN_SHARE * self.open_rows as f64) / (added + 1e-6);
            if best.is_none_or(|(least, _)| score > least) {
                best = Some((score, axis));
            }
        }
        best.map(|(_, axis)| axis)
    }

    fn climb(&mut self, axis: usize) {
        let Some(steps) = steps(&self.ladders[axis], axis, self.level[axis]) else { return };
        let low = self.ladders[axis].low;
        let step = |row: &Row<C, W>| steps[(row.codes[axis].get() - low) as usize].0;
        for tuple in &mut self.open {
            tuple.key = tuple.key.wrapping_add(step(&self.rows[tuple.start as usize]));
        }
        for lender in &mut self.lenders {
            lender.key = lender.key.wrapping_add(step(&self.classes[lender.class].rows[0]));
        }
        self.level[axis] += 1;
    }
}

/// Takes the tuples out whose groups could be classes, and sorts them by key.
fn take_ready(open: &mut Vec<Tuple>, counter: &Counter, k: u32, own: u32) -> Vec<Tuple> {
    let (mut ready, rest): (Vec<Tuple>, Vec<Tuple>) =
        open.iter().partition(|tuple| counter.get(tuple.key).is_ready(k, own));
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
