//! How the values of one quasi-identifier climb: rung by rung to one node over all of them.

use crate::hierarchy::{Axis, Shape, Tree};
use crate::method::bounds::Losses;

/// Numbers, dates and strings without a hierarchy climb through at most this many aligned intervals
/// of a block's range, each rung half as many as the one before.
const FINEST_PARTS: u32 = 64;

/// One rung: which values share a node, and what each loses there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rung {
    /// Node by code, counted from the smallest code of the block.
    pub(super) nodes: Vec<u32>,
    /// Loss by code.
    pub(super) losses: Vec<f32>,
}

/// The rungs above the values themselves for the codes of one block. Rungs that join nothing in the
/// block are left out; the last one joins everything.
#[derive(Debug)]
pub(super) struct Ladder {
    pub(super) low: u32,
    rungs: Vec<Rung>,
}

impl Ladder {
    pub(super) fn new(losses: &Losses, index: usize, low: u32, high: u32) -> Self {
        let axis = &losses.axes()[index];
        let mut rungs = match &axis.shape {
            _ if low == high => Vec::new(),
            Shape::Tree(tree) => tree_rungs(tree, low, high),
            Shape::Line(_) | Shape::Set => interval_rungs(axis, low, high),
        };
        if axis.missing && low == 0 {
            // A missing cell has nothing to lose.
            rungs.iter_mut().for_each(|rung| rung.losses[0] = 0.0);
        }
        Self { low, rungs }
    }

    /// The rung that values on rung `level` climb to; 0 is the values themselves.
    pub(super) fn above(&self, level: usize) -> Option<&Rung> {
        self.rungs.get(level)
    }

    /// Node of a code on a rung.
    pub(super) fn node(&self, level: usize, code: u32) -> u32 {
        match level.checked_sub(1) {
            None => code,
            Some(rung) => self.rungs[rung].nodes[(code - self.low) as usize],
        }
    }

    /// Loss of a code on a rung.
    pub(super) fn loss(&self, level: usize, code: u32) -> f32 {
        match level.checked_sub(1) {
            None => 0.0,
            Some(rung) => self.rungs[rung].losses[(code - self.low) as usize],
        }
    }
}

fn tree_rungs(tree: &Tree, low: u32, high: u32) -> Vec<Rung> {
    let mut rungs = Vec::new();
    let mut nodes: Vec<u32> = (low..=high).collect();
    let mut distinct = nodes.len();
    while distinct > 1 {
        nodes.iter_mut().for_each(|node| *node = tree.parent(*node));
        // Codes number the leaves depth first, so equal nodes are neighbours.
        let now = 1 + nodes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if now < distinct {
            let losses = nodes.iter().map(|node| tree.loss(*node) as f32).collect();
            rungs.push(Rung { nodes: nodes.clone(), losses });
            distinct = now;
        }
    }
    rungs
}

fn interval_rungs(axis: &Axis, low: u32, high: u32) -> Vec<Rung> {
    let with_missing = axis.missing && low == 0;
    let first = low + u32::from(with_missing);
    let position = |code: u32| match &axis.shape {
        Shape::Line(positions) => positions[code as usize] - positions[first as usize],
        Shape::Tree(_) | Shape::Set => f64::from(code - first),
    };
    let (width, loss) = (position(high), axis.loss(first, high));
    let values = high - first + 1;
    let mut rungs = Vec::new();
    let mut parts =
        if values > 1 { values.next_power_of_two().min(2 * FINEST_PARTS) / 2 } else { 0 };
    while parts > 0 {
        let node = |code: u32| ((position(code) / width * f64::from(parts)) as u32).min(parts - 1);
        // Missing values share no node with others below the top.
        let missing = with_missing.then_some(u32::MAX);
        let nodes = missing.into_iter().chain((first..=high).map(node)).collect();
        let part = (loss / f64::from(parts)) as f32;
        rungs.push(Rung { nodes, losses: vec![part; (high - low + 1) as usize] });
        parts /= 2;
    }
    if with_missing {
        let codes = (high - low + 1) as usize;
        rungs.push(Rung { nodes: vec![0; codes], losses: vec![1.0; codes] });
    }
    rungs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distinct(rung: &Rung) -> usize {
        let mut nodes = rung.nodes.clone();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    }

    fn check(axis: &Axis, low: u32, high: u32) {
        let losses = Losses::new(std::slice::from_ref(axis));
        let ladder = Ladder::new(&losses, 0, low, high);
        let mut level = 0;
        while let Some(rung) = ladder.above(level) {
            level += 1;
            for a in low..=high {
                for b in low..=high {
                    let together = |level| ladder.node(level, a) == ladder.node(level, b);
                    assert!(!together(level - 1) || together(level), "rungs only join");
                }
                assert!(ladder.loss(level, a) + 1e-6 >= ladder.loss(level - 1, a));
            }
            assert!(ladder.above(level).is_some() || distinct(rung) == 1, "the last joins all");
        }
        assert_eq!(level == 0, low == high);
    }

    #[test]
    fn rungs_join_more_and_more_until_all_are_one() {
        let values: Vec<f64> = (0..300).map(|value| f64::from(value * value)).collect();
        for axis in [Axis::line(&values, false), Axis::line(&values, true), Axis::set(90, true)] {
            for (low, high) in [(0, 0), (0, 1), (0, 77), (1, 2), (40, 77), (5, 5)] {
                check(&axis, low, high);
            }
        }
    }

    #[test]
    fn a_tree_climbs_its_own_nodes_and_skips_those_that_join_nothing() {
        let axis = Axis::of_labels("a;p;x;*\nb;p;x;*\nc;q;x;*\nd;r;y;*\n", true);
        for (low, high) in [(0, 4), (1, 4), (1, 3), (2, 3), (0, 1)] {
            check(&axis, low, high);
        }
        let losses = Losses::new(std::slice::from_ref(&axis));
        // b and c have different parents and share their grandparent.
        assert_eq!(Ladder::new(&losses, 0, 2, 3).rungs.len(), 1);
    }

    #[test]
    fn missing_cells_climb_for_nothing() {
        let tree = Axis::of_labels("a;p;x;*\nb;p;x;*\nc;q;x;*\nd;r;y;*\n", true);
        for axis in [tree, Axis::line(&[1.0, 2.0, 5.0, 9.0], true), Axis::set(4, true)] {
            let losses = Losses::new(std::slice::from_ref(&axis));
            let ladder = Ladder::new(&losses, 0, 0, 4);
            let mut level = 0;
            while ladder.above(level).is_some() {
                level += 1;
                assert_eq!(ladder.loss(level, 0), 0.0);
                assert!(ladder.loss(level, 4) > 0.0 || ladder.above(level).is_some());
            }
            assert!(level >= 2);
        }
    }
}
