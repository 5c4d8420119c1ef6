//! Cutting a table into cells that are anonymized apart, wherever their rows are.
//!
//! A cell is a box of the quasi-identifiers' codes. Which cell a row is in depends on its codes and on
//! nothing else, so that any machine that has the tree of cuts can tell.
//!
//! **Steps.**
//!
//! 1. [`CutTree::grow`] cuts a weighted sample of the table, again and again, until there are as many
//!    leaves as cells were asked for: at the value that parts the weight most evenly, on the
//!    quasi-identifier whose cut loses least;
//! 2. the rows of every leaf are counted exactly, where they are;
//! 3. [`CutTree::cells`] undoes cuts that leave a side without what a cell needs. What is left of the tree
//!    are the cells, and every one of them has what it needs.
//!
//! **Guarantee.** Every cell has the rows that were asked for and satisfies the requirement as a whole, or there is one
//! cell, the table. Cells are boxes, disjoint, and together everything.
//!
//! **Cost.** O(s·d·log s) per level of the tree for a sample of s tuples of d quasi-identifiers; a row finds
//! its cell in log2(cells) steps.

use std::ops::Range;

use crate::hierarchy::Axis;

/// Tuples of codes, each with the number of rows it stands for.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The quasi-identifiers that may be cut, in the order of the codes.
    pub axes: &'a [Axis],
    /// The codes of all tuples, one tuple after the other.
    pub codes: &'a [u32],
    /// How many rows have each tuple.
    pub weights: &'a [u64],
}

/// Cuts of boxes in two; the leaves are numbered from left to right.
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::Axis;
/// use datafusion_anonymize::pure::method::cells::{CutTree, Sample};
///
/// let axes = [Axis::line(&[20., 30., 40., 50.], false)];
/// let sample = Sample { axes: &axes, codes: &[0, 1, 2, 3], weights: &[5, 5, 5, 5] };
/// let tree = CutTree::grow(&sample, 2);
/// assert_eq!([0, 1, 2, 3].map(|code| tree.leaf(&[code])), [0, 0, 1, 1]);
/// // The right side cannot stand alone: the cut is undone.
/// let cells = tree.cells(&mut |leaves| leaves != (1..2));
/// assert_eq!(cells, [0, 0]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutTree {
    /// The root comes first.
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Leaf(u32),
    /// Codes up to `code` go to the node behind this one, the others to `right`.
    Cut {
        axis: u32,
        code: u32,
        right: u32,
    },
}

/// A side may hold this many times its share of the rows before another axis is preferred.
const MOST_UNEVEN: f64 = 1.25;

impl CutTree {
    /// Cuts a sample into at most as many leaves.
    pub fn grow(sample: &Sample, leaves: u32) -> Self {
        let mut tuples: Vec<u32> = (0..sample.weights.len() as u32).collect();
        let mut tree = Self { nodes: Vec::new() };
        let mut next_leaf = 0;
        tree.divide(sample, &mut tuples, leaves.max(1), &mut next_leaf);
        tree
    }

    fn divide(&mut self, sample: &Sample, tuples: &mut [u32], leaves: u32, next_leaf: &mut u32) {
        let best = if leaves > 1 { sample.best_cut(tuples, leaves) } else { None };
        let Some(cut) = best else {
            self.nodes.push(Node::Leaf(*next_leaf));
            *next_leaf += 1;
            return;
        };
        tuples.sort_unstable_by_key(|tuple| (sample.code(*tuple, cut.axis), *tuple));
        let left = tuples.partition_point(|tuple| sample.code(*tuple, cut.axis) <= cut.code);
        let (left, right) = tuples.split_at_mut(left);
        let at = self.nodes.len();
        self.nodes.push(Node::Leaf(0));
        self.divide(sample, left, cut.left_leaves, next_leaf);
        let behind = self.nodes.len() as u32;
        self.nodes[at] = Node::Cut { axis: cut.axis as u32, code: cut.code, right: behind };
        self.divide(sample, right, leaves - cut.left_leaves, next_leaf);
    }

    /// Number of leaves.
    pub fn leaves(&self) -> u32 {
        self.nodes.iter().filter(|node| matches!(node, Node::Leaf(_))).count() as u32
    }

    /// The leaf of a row, by its codes.
    #[inline]
    pub fn leaf(&self, codes: &[u32]) -> u32 {
        let mut at = 0;
        loop {
            match self.nodes[at] {
                Node::Leaf(leaf) => return leaf,
                Node::Cut { axis, code, .. } if codes[axis as usize] <= code => at += 1,
                Node::Cut { right, .. } => at = right as usize,
            }
        }
    }

    /// The cell of every leaf. `is_valid` says whether consecutive leaves could form a cell; it is not called for the
    /// whole table.
    pub fn cells(&self, is_valid: &mut dyn FnMut(Range<u32>) -> bool) -> Vec<u32> {
        let mut cells = vec![0; self.leaves() as usize];
        let mut next_cell = 0;
        self.merge(0, &mut cells, is_valid, &mut next_cell);
        cells
    }

    fn merge(
        &self,
        node: usize,
        cells: &mut [u32],
        is_valid: &mut dyn FnMut(Range<u32>) -> bool,
        next_cell: &mut u32,
    ) {
        if let Node::Cut { right, .. } = self.nodes[node] {
            let right = right as usize;
            if is_valid(self.range(node + 1)) && is_valid(self.range(right)) {
                self.merge(node + 1, cells, is_valid, next_cell);
                return self.merge(right, cells, is_valid, next_cell);
            }
        }
        for leaf in self.range(node) {
            cells[leaf as usize] = *next_cell;
        }
        *next_cell += 1;
    }

    /// The leaves below a node.
    fn range(&self, node: usize) -> Range<u32> {
        let (mut first, mut last) = (node, node);
        while let Node::Cut { .. } = self.nodes[first] {
            first += 1;
        }
        while let Node::Cut { right, .. } = self.nodes[last] {
            last = right as usize;
        }
        match (self.nodes[first], self.nodes[last]) {
            (Node::Leaf(first), Node::Leaf(last)) => first..last + 1,
            _ => 0..0,
        }
    }

    /// Serializes the tree as numbers, four for every node.
    pub fn to_numbers(&self) -> Vec<u32> {
        let numbers = self.nodes.iter().map(|node| match *node {
            Node::Leaf(leaf) => [0, leaf, 0, 0],
            Node::Cut { axis, code, right } => [1, axis, code, right],
        });
        numbers.flatten().collect()
    }

    /// Reads a tree back from its numbers; `None` if they are no tree over `axes` axes.
    pub fn of_numbers(numbers: &[u32], axes: usize) -> Option<Self> {
        let (fours, rest) = numbers.as_chunks::<4>();
        let node = |(at, four): (usize, &[u32; 4])| match *four {
            [0, leaf, 0, 0] => Some(Node::Leaf(leaf)),
            // Children stand behind their parent, so that every walk ends.
            [1, axis, code, right] => ((axis as usize) < axes
                && right as usize > at + 1
                && (right as usize) < fours.len())
            .then_some(Node::Cut { axis, code, right }),
            _ => None,
        };
        let nodes: Vec<Node> = fours.iter().enumerate().map(node).collect::<Option<_>>()?;
        let leaves = nodes.iter().filter_map(|node| match node {
            Node::Leaf(leaf) => Some(*leaf),
            Node::Cut { .. } => None,
        });
        let in_order = leaves.enumerate().all(|(at, leaf)| at as u32 == leaf);
        let ends = matches!(nodes.last(), Some(Node::Leaf(_)));
        (rest.is_empty() && in_order && ends).then_some(Self { nodes })
    }
}

#[derive(Debug, Clone, Copy)]
struct BestCut {
    axis: usize,
    code: u32,
    left_leaves: u32,
    /// How much more than its part the fuller side holds, 1 for an even cut.
    unevenness: f64,
    /// Loss of both sides on this axis, by weight, less that of the whole.
    gain: f64,
}

impl Sample<'_> {
    fn code(&self, tuple: u32, axis: usize) -> u32 {
        self.codes[tuple as usize * self.axes.len() + axis]
    }

    /// The cut with the largest gain among those that are even enough; else the most even one.
    fn best_cut(&self, tuples: &[u32], leaves: u32) -> Option<BestCut> {
        let cuts = (0..self.axes.len()).filter_map(|axis| self.cut_on(tuples, axis, leaves));
        let mut best: Option<BestCut> = None;
        for cut in cuts {
            let is_even = |cut: &BestCut| cut.unevenness <= MOST_UNEVEN;
            let better = best.as_ref().is_none_or(|best| match (is_even(&cut), is_even(best)) {
                (true, true) => cut.gain > best.gain,
                (false, false) => cut.unevenness < best.unevenness,
                (even, _) => even,
            });
            if better {
                best = Some(cut);
            }
        }
        best
    }

    /// The most even cut on an axis, `None` if all tuples have one code there.
    fn cut_on(&self, tuples: &[u32], axis: usize, leaves: u32) -> Option<BestCut> {
        let mut by_code: Vec<(u32, u64)> = tuples
            .iter()
            .map(|tuple| (self.code(*tuple, axis), self.weights[*tuple as usize]))
            .collect();
        by_code.sort_unstable();
        let low = by_code.first()?.0;
        let high = by_code.last()?.0;
        let total = by_code.iter().map(|(_, weight)| weight).sum::<u64>().max(1) as f64;
        // Even sides first; then halves, because a cut far from the middle leaves one side as wide as before.
        let (mut best, mut left): (Option<(f64, BestCut)>, u64) = (None, 0);
        for codes in by_code.chunk_by(|a, b| a.0 == b.0) {
            let code = codes[0].0;
            left += codes.iter().map(|(_, weight)| weight).sum::<u64>();
            if code == high {
                break;
            }
            let share = left as f64 / total;
            let left_leaves = ((share * f64::from(leaves)).round() as u32).clamp(1, leaves - 1);
            let part = f64::from(left_leaves) / f64::from(leaves);
            let unevenness = (share / part).max((1.0 - share) / (1.0 - part));
            let score = unevenness * (1.0 + (share - 0.5).abs());
            if best.as_ref().is_none_or(|(least, _)| score < *least) {
                best = Some((score, BestCut { axis, code, left_leaves, unevenness, gain: 0.0 }));
            }
        }
        let (_, mut best) = best?;
        let next = by_code.iter().map(|(code, _)| *code).find(|code| *code > best.code)?;
        let left = by_code.iter().filter(|(code, _)| *code <= best.code);
        let left = left.map(|(_, weight)| weight).sum::<u64>() as f64;
        let loss = |low, high| self.axes[axis].loss(low, high);
        best.gain = total * loss(low, high)
            - left * loss(low, best.code)
            - (total - left) * loss(next, high);
        Some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Vec<Axis> {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        vec![Axis::line(&values, false), Axis::set(3, true)]
    }

    /// 400 tuples: every number with every string.
    fn grid() -> (Vec<u32>, Vec<u64>) {
        let codes = (0..100u32).flat_map(|a| (0..4).flat_map(move |b| [a, b])).collect();
        (codes, vec![3; 400])
    }

    fn grown(leaves: u32) -> CutTree {
        let (codes, weights) = grid();
        CutTree::grow(&Sample { axes: &axes(), codes: &codes, weights: &weights }, leaves)
    }

    fn sizes(tree: &CutTree) -> Vec<usize> {
        let mut sizes = vec![0; tree.leaves() as usize];
        for codes in grid().0.chunks(2) {
            sizes[tree.leaf(codes) as usize] += 1;
        }
        sizes
    }

    #[test]
    fn leaves_are_as_many_as_asked_for_and_evenly_filled() {
        for leaves in [1, 2, 3, 5, 8, 13] {
            let sizes = sizes(&grown(leaves));
            assert_eq!(sizes.len(), leaves as usize);
            let part = 400 / leaves as usize;
            assert!(sizes.iter().all(|size| *size >= part / 2 && *size <= 2 * part), "{sizes:?}");
        }
    }

    #[test]
    fn a_single_tuple_is_not_cut() {
        let tree = CutTree::grow(&Sample { axes: &axes(), codes: &[7, 1], weights: &[1000] }, 8);
        assert_eq!(tree.leaves(), 1);
        let none = CutTree::grow(&Sample { axes: &axes(), codes: &[], weights: &[] }, 8);
        assert_eq!(none.leaf(&[5, 0]), 0);
    }

    #[test]
    fn the_order_of_the_sample_does_not_matter() {
        let (codes, weights) = grid();
        let reversed: Vec<u32> = codes.chunks(2).rev().flatten().copied().collect();
        let sample = Sample { axes: &axes(), codes: &reversed, weights: &weights };
        assert_eq!(CutTree::grow(&sample, 8), grown(8));
    }

    #[test]
    fn sides_that_cannot_stand_are_joined_with_their_neighbours() {
        let tree = grown(8);
        let sizes = sizes(&tree);
        let rows = |leaves: Range<u32>| leaves.map(|leaf| sizes[leaf as usize]).sum::<usize>();
        for least in [1, 60, 120, 210, 400] {
            let cells = tree.cells(&mut |leaves| rows(leaves) >= least);
            let count = cells.iter().max().map_or(0, |last| last + 1);
            for cell in 0..count {
                let of_cell = (0..8u32).filter(|leaf| cells[*leaf as usize] == cell);
                let size: usize = of_cell.map(|leaf| sizes[leaf as usize]).sum();
                assert!(size >= least);
            }
            assert!(cells.is_sorted());
            assert_eq!(count == 1, least > 200, "{least}");
        }
    }

    #[test]
    fn a_tree_survives_its_way_and_nonsense_does_not() {
        let tree = grown(5);
        let numbers = tree.to_numbers();
        assert_eq!(CutTree::of_numbers(&numbers, 2), Some(tree));
        assert_eq!(CutTree::of_numbers(&numbers, 0), None, "an axis that is not there");
        assert_eq!(CutTree::of_numbers(&numbers[..numbers.len() - 4], 2), None, "a leaf is gone");
        assert_eq!(CutTree::of_numbers(&[1, 0, 5, 0], 2), None, "a way back to itself");
        assert_eq!(CutTree::of_numbers(&[], 2), None);
    }
}
