//! The children of the nodes of a hierarchy.

use crate::hierarchy::{Axis, Shape, Tree};

/// The first code under each child of every node of a hierarchy, ascending; nothing for other axes.
#[derive(Debug)]
pub(super) struct Branches(Vec<Vec<u32>>);

impl Branches {
    pub(super) fn new(axis: &Axis) -> Self {
        let Shape::Tree(tree) = &axis.shape else { return Self(Vec::new()) };
        let mut starts = vec![Vec::new(); tree.nodes() as usize];
        for node in (0..tree.nodes()).filter(|node| tree.parent(*node) != *node) {
            starts[tree.parent(node) as usize].push(tree.range(node).0);
        }
        starts.iter_mut().for_each(|starts| starts.sort_unstable());
        Self(starts)
    }

    /// The first codes of the children of the lowest node over these codes.
    pub(super) fn under(&self, tree: &Tree, low: u32, high: u32) -> &[u32] {
        &self.0[tree.ancestor(low, high) as usize]
    }
}
