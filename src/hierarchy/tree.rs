//! The hierarchy of one column as the methods walk it.

use super::Levels;

/// What the top of every hierarchy is published as.
pub const TOP: &str = "*";

/// A tree over the codes of a column.
///
/// Codes number the observed values depth first, so every node covers a contiguous range of codes,
/// and the lowest common ancestor of a whole class is the one of its smallest and its largest code.
/// Nodes `0..codes` are the values themselves; the last node is the top.
///
/// ```text
///   codes      0   1   2   3          first..last
///              a   b   c   d
///              └─x─┘   └─y─┘          x: 0..1   y: 2..3
///                └─ * ─┘              *: 0..3
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    codes: u32,
    nodes: Vec<Node>,
    labels: Vec<String>,
    bounds: Vec<Option<(String, String)>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Node {
    parent: u32,
    first: u32,
    last: u32,
    loss: f64,
    level: u32,
}

impl Tree {
    /// The tree of the levels over `values` values, and the order in which its codes number them.
    ///
    /// With `missing`, code 0 stands for "missing" and hangs directly under the top.
    pub fn new(levels: &Levels, values: usize, missing: bool) -> (Self, Vec<u32>) {
        let order = depth_first(levels, values);
        let shift = u32::from(missing);
        let codes = values as u32 + shift;
        let leaf = |code| Node { parent: 0, first: code, last: code, loss: 0.0, level: 0 };
        let mut tree = Self {
            codes,
            nodes: (0..codes).map(leaf).collect(),
            labels: Vec::new(),
            bounds: Vec::new(),
        };
        // The node above each value on the level below, at first the value itself.
        let mut below: Vec<u32> = (shift..codes).collect();
        for (above, level) in levels.0.iter().enumerate() {
            let mut node_ids = vec![u32::MAX; level.labels.len()];
            for (position, value) in order.iter().enumerate() {
                let node = level.node_of[*value as usize] as usize;
                let code = position as u32 + shift;
                if node_ids[node] == u32::MAX {
                    node_ids[node] = tree.nodes.len() as u32;
                    let (loss, level_number) = (level.losses[node], above as u32 + 1);
                    tree.nodes.push(Node { loss, level: level_number, ..leaf(code) });
                    tree.labels.push(level.labels[node].clone());
                    tree.bounds.push(level.bounds.get(node).cloned());
                }
                tree.nodes[node_ids[node] as usize].last = code;
                tree.nodes[below[position] as usize].parent = node_ids[node];
                below[position] = node_ids[node];
            }
        }
        tree.add_top(&below, levels.0.len() as u32 + 1, missing);
        (tree, order)
    }

    fn add_top(&mut self, below: &[u32], level: u32, missing: bool) {
        let top = self.nodes.len() as u32;
        let last = self.codes.saturating_sub(1);
        self.nodes.push(Node { parent: top, first: 0, last, loss: 1.0, level });
        self.labels.push(TOP.to_owned());
        self.bounds.push(None);
        for node in below {
            self.nodes[*node as usize].parent = top;
        }
        if missing {
            self.nodes[0].parent = top;
        }
    }

    /// Number of codes, the missing one included.
    pub fn codes(&self) -> u32 {
        self.codes
    }

    /// Number of nodes, the values and the top included.
    pub fn nodes(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Steps from a value to the top.
    pub fn height(&self) -> u32 {
        self.nodes.last().map_or(0, |top| top.level)
    }

    /// Level of a node: 0 for a value, the height for the top.
    pub fn level(&self, node: u32) -> u32 {
        self.nodes[node as usize].level
    }

    /// The node above; the top is its own parent.
    pub fn parent(&self, node: u32) -> u32 {
        self.nodes[node as usize].parent
    }

    /// The lowest node over all codes from `low` to `high`.
    #[inline]
    pub fn ancestor(&self, low: u32, high: u32) -> u32 {
        let mut at = low;
        loop {
            let node = &self.nodes[at as usize];
            if node.last >= high && node.first <= low {
                return at;
            }
            at = node.parent;
        }
    }

    /// What publishing this node loses: 0 for a value, 1 for the top.
    #[inline]
    pub fn loss(&self, node: u32) -> f64 {
        self.nodes[node as usize].loss
    }

    /// The smallest and largest code under a node.
    pub fn range(&self, node: u32) -> (u32, u32) {
        let node = &self.nodes[node as usize];
        (node.first, node.last)
    }

    /// The label of a node above the values, `None` for a value (which publishes itself).
    pub fn label(&self, node: u32) -> Option<&str> {
        let above = node.checked_sub(self.codes)?;
        self.labels.get(above as usize).map(String::as_str)
    }

    /// The ends of an interval node, written as the column writes its values.
    pub fn bounds(&self, node: u32) -> Option<&(String, String)> {
        let above = node.checked_sub(self.codes)?;
        self.bounds.get(above as usize)?.as_ref()
    }
}

/// Value positions sorted so that every node's values are together; nodes and values stay in the
/// order of their first value. Stable sorts from the finest level upward do not disturb the finer levels.
pub(super) fn depth_first(levels: &Levels, values: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..values as u32).collect();
    for level in &levels.0 {
        let mut rank = vec![u32::MAX; level.labels.len()];
        for (position, value) in order.iter().enumerate() {
            let rank = &mut rank[level.node_of[*value as usize] as usize];
            *rank = (*rank).min(position as u32);
        }
        order.sort_by_key(|value| rank[level.node_of[*value as usize] as usize]);
    }
    order
}

#[cfg(test)]
impl Tree {
    /// The tree over all leaves of a table of labels, for tests.
    pub(crate) fn of_labels(table: &str, missing: bool) -> Self {
        let table = super::LabelTable::parse(table).unwrap_or_else(|_| unreachable!());
        let leaves: Vec<usize> = (0..table.leaves().len()).collect();
        Self::new(&table.levels_over(&leaves), leaves.len(), missing).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::{LabelTable, intervals};

    const DISEASES: &str = "a;x;*\nb;x;*\nc;y;*\nd;y;*\n";

    #[test]
    fn the_ancestor_of_a_range_is_the_lowest_node_over_it() {
        let tree = Tree::of_labels(DISEASES, false);
        assert_eq!(tree.label(tree.ancestor(0, 1)), Some("x"));
        assert_eq!(tree.label(tree.ancestor(1, 2)), Some("*"));
        assert_eq!(tree.ancestor(2, 2), 2);
        assert_eq!(tree.label(2), None);
        assert_eq!(tree.height(), 2);
        assert!((tree.loss(tree.ancestor(2, 3)) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn missing_hangs_directly_under_the_top() {
        let tree = Tree::of_labels(DISEASES, true);
        assert_eq!(tree.label(tree.ancestor(0, 1)), Some("*"));
        assert_eq!(tree.label(tree.ancestor(1, 2)), Some("x"));
        assert_eq!(tree.parent(0), tree.nodes() - 1);
    }

    #[test]
    fn values_of_a_node_become_neighbours() {
        // Even and odd numbers: no node is contiguous in the order of the values.
        let table = LabelTable::parse("1;odd;*\n2;even;*\n3;odd;*\n4;even;*\n");
        let levels = table.map(|table| {
            let by_value = |n: usize| table.leaves().iter().position(|leaf| *leaf == n.to_string());
            let positions: Vec<usize> = (1..=4).filter_map(by_value).collect();
            table.levels_over(&positions)
        });
        let (tree, order) = Tree::new(&levels.unwrap_or_default(), 4, false);
        assert_eq!(order, [0, 2, 1, 3]);
        assert_eq!(tree.label(tree.ancestor(0, 1)), Some("odd"));
        assert_eq!(tree.label(tree.ancestor(2, 3)), Some("even"));
    }

    #[test]
    fn intervals_make_a_tree_of_their_steps() {
        let values = [1, 4, 7, 12];
        let levels = intervals(&values, &[5, 10], &|value| value.to_string());
        let (tree, order) = Tree::new(&levels.unwrap_or_default(), 4, false);
        assert_eq!(order, [0, 1, 2, 3]);
        let label = |low, high| tree.label(tree.ancestor(low, high)).map(str::to_owned);
        assert_eq!(label(0, 1).as_deref(), Some("[0-4]"));
        assert_eq!(label(0, 2).as_deref(), Some("[0-9]"));
        assert_eq!(label(0, 3).as_deref(), Some("*"));
    }

    #[test]
    fn a_column_that_is_all_missing_has_a_tree() {
        let (tree, order) = Tree::new(&Levels::default(), 0, true);
        assert!(order.is_empty());
        assert_eq!(tree.codes(), 1);
        assert_eq!(tree.ancestor(0, 0), 0);
    }
}
