//! Cuts at the nodes of a hierarchy.
//!
//! A cut in the middle straddles a node, and rows on both sides of the middle then publish the node above. Here a group
//! falls apart at the children of its lowest common node. A child with m ≥ k rows keeps ⌊m/k⌋·k of them; all other rows are
//! one more part, the *pool*. If the group has a multiple of k rows, so has every part, and whatever follows makes as many
//! classes as cuts in the middle would.

use super::survey::{CutPoint, WideAxis};
use super::{Context, Worker};
use crate::hierarchy::{Shape, Tree};
use crate::method::bounds::Bounds;
use crate::model::{Code, Row};

/// A cut of which the pool has more of the group than this is not looked at.
const MOST_POOLED: f64 = 0.75;
/// Parts of less entropy count as if they had this much.
const LEAST_ENTROPY: f64 = 0.3;

/// Where the values of an axis in a group are known from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Occurring {
    /// From the counters that start there.
    Counted(usize),
    /// From the list of values.
    Listed,
}

/// The children with enough rows for a class, by code.
#[derive(Debug)]
pub(super) struct NodeCut {
    axis: usize,
    children: Vec<Child>,
}

/// Its smallest and largest code in the group, and its rows.
#[derive(Debug, Clone, Copy)]
struct Child {
    low: u32,
    high: u32,
    rows: usize,
}

impl NodeCut {
    /// The child of a code; behind all children if it is in the pool.
    fn part(&self, code: u32) -> usize {
        let behind = self.children.partition_point(|child| child.low <= code);
        match behind.checked_sub(1) {
            Some(child) if code <= self.children[child].high => child,
            _ => self.children.len(),
        }
    }
}

impl Context<'_> {
    /// Gains are compared by what parts of such sizes tell, so that many small gains do not lose against one large cut. Where no
    /// group is cut at nodes all cuts have two sides of the same sizes.
    pub(super) fn per_entropy<const N: usize>(&self, gain: f64, parts: [usize; N]) -> f64 {
        match self.nodes {
            Some(_) => gain / entropy(parts.into_iter()).max(LEAST_ENTROPY),
            None => gain,
        }
    }
}

fn entropy(parts: impl Iterator<Item = usize> + Clone) -> f64 {
    let rows = parts.clone().sum::<usize>() as f64;
    let of = |part: usize| {
        let share = part as f64 / rows;
        if part > 0 { -share * share.ln() } else { 0.0 }
    };
    parts.map(of).sum()
}

impl Worker<'_> {
    /// Adds the cut at the children of the lowest common node of an axis to the candidates.
    pub(super) fn add_node_cut(&mut self, axis: &WideAxis, occurring: Occurring, rows: usize) {
        let (Some(nodes), Shape::Tree(tree)) =
            (&self.context.nodes, &self.context.job.axes[axis.index].shape)
        else {
            return;
        };
        let starts = nodes.branches[axis.index].under(tree, axis.low, axis.high);
        let mut children = Children { starts, next: 0, found: Vec::new() };
        match occurring {
            Occurring::Counted(start) => {
                let counts = &self.counts[start..=start + (axis.high - axis.low) as usize];
                let codes = (axis.low..).zip(counts).filter(|(_, count)| **count > 0);
                codes.for_each(|(code, count)| children.add(code, *count as usize));
            }
            Occurring::Listed => {
                self.values.sort_unstable();
                self.values.iter().for_each(|code| children.add(*code, 1));
            }
        }
        let k = self.context.k();
        let mut children = children.found;
        children.retain(|child| child.rows >= k);
        let kept: usize = children.iter().map(|child| child.rows - child.rows % k).sum();
        if (rows - kept) as f64 > MOST_POOLED * rows as f64 {
            return;
        }
        let cut = NodeCut { axis: axis.index, children };
        let gain = cut.gain(k, rows, |child| axis.loss - tree_loss(tree, child));
        let middle = CutPoint {
            axis: axis.index,
            value: 0,
            left: 0,
            left_high: 0,
            right_low: 0,
            gain,
            node_cut: Some(self.node_cuts.len()),
        };
        self.candidates.push(middle);
        self.node_cuts.push(cut);
    }

    /// The gain of a cut at nodes over all axes, if the rows of the group lose this much each.
    pub(super) fn node_gain<C: Code, const W: usize>(
        &self,
        rows: &[Row<C, W>],
        cut: usize,
        loss: f64,
    ) -> f64 {
        let (cut, Some(nodes)) = (&self.node_cuts[cut], &self.context.nodes) else { return 0.0 };
        let mut bounds = vec![Bounds::none(); cut.children.len() + 1];
        rows.iter().for_each(|row| bounds[cut.part(row.codes[cut.axis].get())].add(&row.codes));
        let mut bounds = bounds.iter();
        cut.gain(self.context.k(), rows.len(), |_| {
            bounds.next().map_or(0.0, |bounds| loss - f64::from(nodes.losses.of(bounds)))
        })
    }

    /// Brings the rows of every part together, the pool last, and returns how many each has.
    pub(super) fn arrange_nodes<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        cut: usize,
    ) -> Vec<usize> {
        let (cuts, k) = (std::mem::take(&mut self.node_cuts), self.context.k());
        let cut = &cuts[cut];
        let pooled = group_by_part(rows, cut);
        let center =
            self.center(if pooled < rows.len() { &rows[pooled..] } else { rows }, cut.axis);
        let mut parts = Vec::with_capacity(cut.children.len() + 1);
        let mut leaving = Vec::new();
        let (mut from, mut to) = (0, 0);
        for child in &cut.children {
            let of_child = &mut rows[from..from + child.rows];
            let kept = child.rows - child.rows % k;
            self.nearest_last(of_child, child.rows - kept, &center);
            leaving.extend_from_slice(&of_child[kept..]);
            rows.copy_within(from..from + kept, to);
            from += child.rows;
            to += kept;
            parts.push(kept);
        }
        rows[to..pooled].copy_from_slice(&leaving);
        if to < rows.len() {
            parts.push(rows.len() - to);
        }
        self.node_cuts = cuts;
        parts
    }

    /// The median code of every axis but one.
    fn center<C: Code, const W: usize>(
        &mut self,
        rows: &[Row<C, W>],
        except: usize,
    ) -> Vec<(usize, u32)> {
        let bounds = Bounds::of(rows);
        let mut center = Vec::new();
        for index in (0..self.context.job.axes.len()).filter(|axis| *axis != except) {
            let (low, high) = (bounds.low[index].get(), bounds.high[index].get());
            let axis = WideAxis { index, low, high, loss: 0.0 };
            center.push((index, self.value_at(rows, &axis, rows.len().div_ceil(2))));
        }
        center
    }

    /// Brings the rows that lie nearest to a center, so many of them, behind the others.
    fn nearest_last<C: Code, const W: usize>(
        &self,
        rows: &mut [Row<C, W>],
        leaving: usize,
        center: &[(usize, u32)],
    ) {
        let Some(nodes) = &self.context.nodes else { return };
        if leaving == 0 {
            return;
        }
        let far = |row: &Row<C, W>| {
            let mut far = 0.0;
            for (axis, code) in center {
                let own = row.codes[*axis].get();
                if own != *code {
                    far += nodes.losses.on(*axis, own.min(*code), own.max(*code));
                }
            }
            far
        };
        let keys = self.context.job.keys;
        // Never more than three times as many are kept in mind.
        let mut nearest: Vec<(f32, usize)> = Vec::new();
        let mut limit = f32::INFINITY;
        let forget_far = |nearest: &mut Vec<(f32, usize)>| {
            nearest.select_nth_unstable_by(leaving - 1, |a, b| {
                a.0.total_cmp(&b.0).then_with(|| rows[a.1].canonical_order(&rows[b.1], keys))
            });
            nearest.truncate(leaving);
            nearest[leaving - 1].0
        };
        for (at, row) in rows.iter().enumerate() {
            let far = far(row);
            if far <= limit {
                nearest.push((far, at));
                if nearest.len() >= 3 * leaving {
                    limit = forget_far(&mut nearest);
                }
            }
        }
        forget_far(&mut nearest);
        last_first(&mut nearest);
        for (end, (_, at)) in (0..rows.len()).rev().zip(nearest) {
            rows.swap(at, end);
        }
    }
}

fn last_first(places: &mut [(f32, usize)]) {
    places.sort_unstable_by_key(|(_, at)| std::cmp::Reverse(*at));
}

impl NodeCut {
    /// What the kept rows gain, if `gain_of` tells the gain of a row of a child, by what the parts tell. Rows of the pool
    /// gain nothing.
    fn gain(&self, k: usize, rows: usize, mut gain_of: impl FnMut(&Child) -> f64) -> f64 {
        let kept = |child: &Child| child.rows - child.rows % k;
        let gain: f64 = self.children.iter().map(|child| kept(child) as f64 * gain_of(child)).sum();
        let pool = rows - self.children.iter().map(kept).sum::<usize>();
        let parts = self.children.iter().map(kept).chain([pool]);
        gain / entropy(parts).max(LEAST_ENTROPY)
    }
}

fn tree_loss(tree: &Tree, child: &Child) -> f64 {
    match child.low == child.high {
        true => 0.0,
        false => tree.loss(tree.ancestor(child.low, child.high)),
    }
}

/// The children of a node that occur in a group, while its codes are looked at in order.
struct Children<'a> {
    starts: &'a [u32],
    /// The child behind the last code.
    next: usize,
    found: Vec<Child>,
}

impl Children<'_> {
    fn add(&mut self, code: u32, rows: usize) {
        let mut is_new = self.found.is_empty();
        while self.starts.get(self.next).is_some_and(|start| *start <= code) {
            self.next += 1;
            is_new = true;
        }
        match self.found.last_mut() {
            Some(child) if !is_new => {
                child.high = code;
                child.rows += rows;
            }
            _ => self.found.push(Child { low: code, high: code, rows }),
        }
    }
}

/// Brings the rows of every child together, by code, and behind them those of the pool; returns where these start.
fn group_by_part<C: Code, const W: usize>(rows: &mut [Row<C, W>], cut: &NodeCut) -> usize {
    let mut ends = Vec::with_capacity(cut.children.len() + 1);
    let mut end = 0;
    for child in &cut.children {
        end += child.rows;
        ends.push(end);
    }
    ends.push(rows.len());
    // The first place of every part whose row may belong elsewhere.
    let mut open: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).collect();
    for (part, end) in ends.iter().enumerate() {
        while open[part] < *end {
            let at = open[part];
            let of = cut.part(rows[at].codes[cut.axis].get());
            if of != part {
                rows.swap(at, open[of]);
            }
            open[of] += 1;
        }
    }
    end
}
