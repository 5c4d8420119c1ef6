//! What a climb does to the groups of one constraint.

use rayon::prelude::*;

use super::group::{CHUNK, Grouping};
use super::number::{Numbered, number_tuples};
use crate::hierarchy::Tree;
use crate::method::counter::{Counter, node_key};

/// Up to twice as many groups are all counted.
const COUNTED_GROUPS: usize = 1 << 16;

/// Fewer groups than this do not stand for the others.
const SAMPLED_GROUPS: usize = 1 << 12;

/// The groups of a grouping after a climb.
pub(super) struct Merged {
    /// The old groups in which open rows are, or frozen rows that count on.
    live: Vec<u32>,
    /// The nodes of those after the climb, by column of the projection.
    raised: Vec<Vec<u32>>,
    /// Their new groups.
    numbered: Numbered,
    /// Open rows in each new group.
    open: Vec<u32>,
    /// Frozen rows in each new group.
    frozen: Vec<u32>,
}

impl Grouping {
    /// The groups after every node of one column of the sub-table gave way to its parent, `None` if the column is
    /// not projected on.
    pub(super) fn merged(&self, place: usize, trees: &[&Tree]) -> Option<Merged> {
        let column = self.places.iter().position(|own| *own == place)?;
        // Frozen rows keep their nodes, so they count on only where a climb leads to the same node: at the top.
        let frozen = |group: u32| {
            let node = self.nodes[column][group as usize];
            if trees[place].parent(node) == node { self.frozen[group as usize] } else { 0 }
        };
        let is_live = |group: &u32| self.open[*group as usize] > 0 || frozen(*group) > 0;
        let live: Vec<u32> = (0..self.open.len() as u32).filter(is_live).collect();
        let raise = |(at, nodes): (usize, &Vec<u32>)| {
            let nodes = live.iter().map(|group| nodes[*group as usize]);
            if at == column {
                nodes.map(|node| trees[place].parent(node)).collect()
            } else {
                nodes.collect()
            }
        };
        let raised: Vec<Vec<u32>> = self.nodes.iter().enumerate().map(raise).collect();
        let bounds = self.places.iter().map(|place| trees[*place].nodes());
        let projection: Vec<(&[u32], u32)> = raised.iter().map(Vec::as_slice).zip(bounds).collect();
        let numbered = number_tuples(&projection);
        Some(Merged {
            open: numbered.sum(|at| self.open[live[at] as usize]),
            frozen: numbered.sum(|at| frozen(live[at])),
            live,
            raised,
            numbered,
        })
    }

    /// The grouping after a climb.
    pub(super) fn climbed(&self, merged: Merged) -> Self {
        let Merged { live, raised, numbered, open, frozen } = merged;
        let raised: Vec<&[u32]> = raised.iter().map(Vec::as_slice).collect();
        let mut renumbered = vec![0; self.open.len()];
        for (old, new) in live.iter().zip(&numbered.numbers) {
            renumbered[*old as usize] = *new;
        }
        let groups = self.group_of.par_iter().with_min_len(CHUNK);
        let group_of = groups.map(|group| renumbered[*group as usize]).collect();
        let (k, places) = (self.k, self.places.clone());
        let nodes = numbered.first_of_each(&raised);
        Self { k, places, nodes, group_of, open, frozen, ..Self::default() }
    }

    /// Has the keys of all groups ready for counting.
    pub(super) fn number_keys(&mut self) {
        if self.keys.len() == self.open.len() {
            return;
        }
        self.keys = vec![0; self.open.len()];
        for (place, nodes) in self.places.iter().zip(&self.nodes) {
            for (key, node) in self.keys.iter_mut().zip(nodes) {
                *key = key.wrapping_add(node_key(*place, *node));
            }
        }
    }

    /// Open rows that this constraint alone does not reject after a column has climbed. Of many groups those with
    /// some keys stand for all: which column climbs does not need every row, and a small table of counts
    /// stays in the cache.
    pub(super) fn fitting(&self, place: usize, tree: &Tree, counter: &mut Counter) -> u64 {
        let Some(column) = self.places.iter().position(|own| *own == place) else {
            let groups = self.open.iter().zip(&self.frozen);
            let fitting = groups.filter(|(open, frozen)| **open + **frozen >= self.k);
            return fitting.map(|(open, _)| u64::from(*open)).sum();
        };
        let step = |node: u32| {
            let parent = tree.parent(node);
            (node_key(place, parent).wrapping_sub(node_key(place, node)), parent == node)
        };
        let steps: Vec<(u64, bool)> = (0..tree.nodes()).map(step).collect();
        let one_of = (self.open.len() / COUNTED_GROUPS).next_power_of_two() as u64;
        let sampled = self.count_fitting(column, &steps, one_of, counter);
        if one_of == 1 || counter.keys() >= SAMPLED_GROUPS {
            let open: u64 = self.open.iter().map(|open| u64::from(*open)).sum();
            return (sampled * one_of).min(open);
        }
        self.count_fitting(column, &steps, 1, counter)
    }

    /// Open rows in groups that reach k after a column has climbed, of those groups whose keys are one of so many. A
    /// step is what climbing adds to the key of a node, and whether it leads to the same node.
    fn count_fitting(
        &self,
        column: usize,
        steps: &[(u64, bool)],
        one_of: u64,
        counter: &mut Counter,
    ) -> u64 {
        // The table takes its places from the lower half of a key.
        let is_counted = |key: u64| key >> 32 & (one_of - 1) == 0;
        let (mut open_rows, mut frozen_rows) = (Vec::new(), Vec::new());
        for (group, (key, node)) in self.keys.iter().zip(&self.nodes[column]).enumerate() {
            let (step, stays) = steps[*node as usize];
            let key = key.wrapping_add(step);
            if is_counted(key) {
                let (open, frozen) = (self.open[group], self.frozen[group]);
                if open > 0 {
                    open_rows.push((key, open));
                }
                if stays && frozen > 0 {
                    frozen_rows.push((key, frozen));
                }
            }
        }
        counter.clear(open_rows.len());
        open_rows.iter().for_each(|(key, rows)| counter.add(*key, *rows));
        frozen_rows.iter().for_each(|(key, rows)| counter.lend(*key, *rows));
        counter.ready_rows(self.k, 1)
    }

    /// How many open rows have each node of a column, `None` if it is not projected on.
    pub(super) fn rows_by_node(&self, place: usize, tree: &Tree) -> Option<Vec<u64>> {
        let column = self.places.iter().position(|own| *own == place)?;
        let mut rows = vec![0; tree.nodes() as usize];
        for (node, open) in self.nodes[column].iter().zip(&self.open) {
            rows[*node as usize] += u64::from(*open);
        }
        Some(rows)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::hierarchy::{Levels, intervals};

    #[test]
    fn frozen_rows_count_on_where_a_climb_leads_to_the_same_node() {
        // A missing value is at the top one climb before the others.
        let tree = Tree::of_labels("a;x;*\nb;x;*\nc;y;*\n", true);
        let (trees, sizes) = ([&tree], [2, 1, 1]);
        for (counts_frozen, short) in [(true, 0), (false, 2)] {
            let mut grouping = Grouping::new(3, vec![0], &[(&[0, 1, 3], 4)], &sizes);
            grouping = grouping.climbed(grouping.merged(0, &trees).unwrap());
            grouping.freeze(&[false, true, true], &sizes, counts_frozen);
            grouping.number_keys();
            let fitting = grouping.fitting(0, &tree, &mut Counter::default());
            grouping = grouping.climbed(grouping.merged(0, &trees).unwrap());
            grouping.start();
            assert_eq!((grouping.short(), fitting), (short, 2 - short as u64));
        }
        // Below the top they publish a node that nobody reaches any more.
        let mut grouping = Grouping::new(2, vec![0], &[(&[1, 2], 4)], &[2, 1]);
        grouping.freeze(&[false, true], &[2, 1], true);
        grouping = grouping.climbed(grouping.merged(0, &trees).unwrap());
        grouping.start();
        assert_eq!(grouping.short(), 1);
    }

    #[test]
    fn a_part_of_many_groups_stands_for_all() {
        // Pairs of rows meet one level up; one pair in three has a third row.
        let values: Vec<i128> = (0..600_000).collect();
        let levels = intervals(&values, &[2], &|value| value.to_string()).unwrap();
        let tree = Tree::new(&levels, values.len(), false).0;
        let codes: Vec<u32> = (0..600_000).collect();
        let sizes: Vec<u32> = codes.iter().map(|code| 1 + u32::from(code % 6 == 0)).collect();
        let mut grouping = Grouping::new(3, vec![0], &[(&codes, 600_000)], &sizes);
        grouping.number_keys();
        let fitting = grouping.fitting(0, &tree, &mut Counter::default());
        assert_ne!(fitting, 300_000, "all groups were counted");
        assert!((280_000..320_000).contains(&fitting), "{fitting}");
        // All groups become one, which no sample could tell.
        let all = Tree::new(&Levels::default(), values.len(), false).0;
        let fitting = grouping.fitting(0, &all, &mut Counter::default());
        assert_eq!(fitting, 700_000);
    }
}
