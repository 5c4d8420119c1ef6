//! Rows that are left over join classes that stay valid.
//!
//! A row may join if its own bin keeps its share; all other shares only fall. So a class is known
//! well enough by its size and its set of levels, and classes that agree in both wait in one pool.
//! Pools are visited by distance. A class without the row's level takes it if it is large enough,
//! which is a matter of its pool; only classes with the row's level can refuse, and a bin is refused
//! at most once per row it already has in classes. That makes the work of one round linear in the
//! rows of the bins that have rows left.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::groups::Group;
use super::{Made, NO_CLASS, Plan};
use crate::error::Result;
use crate::model::AlphaScope;

/// Lets as many left-over rows as possible join a class.
///
/// Groups with most rows left go first; `ties` orders those that have as many.
pub(super) fn leftovers(
    made: &mut Made,
    plan: &Plan,
    ties: impl Fn(&Group, &Group) -> Ordering,
) -> Result<()> {
    let mut bins = open_bins(&made.groups, plan, ties);
    if bins.is_empty() {
        return Ok(());
    }
    let mut joiner = Joiner::new(made, plan);
    // A row that joins makes room for rows of other bins, so one round may not be enough.
    loop {
        let mut joined = false;
        for bin in &mut bins {
            plan.job.cancel.check()?;
            joined |= joiner.join(bin);
        }
        bins.retain(|bin| !bin.is_empty());
        if !joined || bins.is_empty() {
            return Ok(());
        }
    }
}

/// Left-over rows whose share is bounded together: those of a value or of a level.
#[derive(Debug)]
struct Bin {
    level: u32,
    /// All rows of the bin, in classes or not.
    covers: Range<u32>,
    /// The rows without a class, those to go first at the end.
    left: Vec<Range<u32>>,
}

impl Bin {
    fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    fn next(&mut self) -> Option<u32> {
        let stretch = self.left.last_mut()?;
        let next = stretch.next();
        if stretch.start == stretch.end {
            self.left.pop();
        }
        next
    }
}

/// The bins that have rows left, the most sensitive first.
fn open_bins(groups: &[Group], plan: &Plan, ties: impl Fn(&Group, &Group) -> Ordering) -> Vec<Bin> {
    let mut open: Vec<&Group> = groups.iter().filter(|group| group.left() > 0).collect();
    let rank = |group: &Group| (group.level, Reverse(group.left()));
    open.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| ties(a, b)));
    let left = |group: &Group| group.next..group.end;
    let of_level = |level: u32| {
        // Groups stand by level.
        let from = groups.partition_point(|group| group.level < level);
        let to = groups.partition_point(|group| group.level <= level);
        groups[from].start..groups[to - 1].end
    };
    match plan.grades.scope() {
        AlphaScope::Value => open
            .into_iter()
            .map(|group| Bin {
                level: group.level,
                covers: group.start..group.end,
                left: vec![left(group)],
            })
            .collect(),
        AlphaScope::Level => open
            .chunk_by(|a, b| a.level == b.level)
            .map(|same| Bin {
                level: same[0].level,
                covers: of_level(same[0].level),
                left: same.iter().rev().map(|group| left(group)).collect(),
            })
            .collect(),
    }
}

/// What a class's pool is found by: its levels as a set of bits, and its size.
type PoolKey = (u64, u32);

struct Joiner<'a> {
    made: &'a mut Made,
    plan: &'a Plan<'a>,
    /// The levels of each class, level 1 in the lowest bit.
    levels: Vec<u64>,
    pools: BTreeMap<PoolKey, VecDeque<u32>>,
    /// Rows of the bin at hand in each class.
    counts: Vec<u32>,
}

impl<'a> Joiner<'a> {
    fn new(made: &'a mut Made, plan: &'a Plan<'a>) -> Self {
        let mut levels = vec![0u64; made.sizes.len()];
        for group in &made.groups {
            for class in &made.class_of[group.start as usize..group.next as usize] {
                levels[*class as usize] |= 1 << (group.level - 1);
            }
        }
        let counts = vec![0; made.sizes.len()];
        let mut joiner = Self { made, plan, levels, pools: BTreeMap::new(), counts };
        (0..joiner.counts.len() as u32).for_each(|class| joiner.enter_pool(class));
        joiner
    }

    fn enter_pool(&mut self, class: u32) {
        let key = (self.levels[class as usize], self.made.sizes[class as usize]);
        self.pools.entry(key).or_default().push_back(class);
    }

    /// Lets the rows of a bin join. Whether any did.
    fn join(&mut self, bin: &mut Bin) -> bool {
        self.for_each_row(bin, |count| *count += 1);
        let mut again = VecDeque::new();
        for key in self.pools_by_distance(bin.level) {
            if bin.is_empty() {
                break;
            }
            self.visit_pool(key, bin, &mut again);
        }
        let joined = !again.is_empty();
        // Every class got one row; now further ones, in turn.
        while !bin.is_empty()
            && let Some(class) = again.pop_front()
        {
            if self.accept(class, bin) {
                again.push_back(class);
            } else {
                self.enter_pool(class);
            }
        }
        again.into_iter().for_each(|class| self.enter_pool(class));
        self.for_each_row(bin, |count| *count = 0);
        joined
    }

    /// Changes the count of its class for every row of a bin that has one.
    fn for_each_row(&mut self, bin: &Bin, change: impl Fn(&mut u32)) {
        let Range { start, end } = bin.covers;
        let classes = self.made.class_of[start as usize..end as usize].iter();
        for class in classes.filter(|class| **class != NO_CLASS) {
            change(&mut self.counts[*class as usize]);
        }
    }

    /// The pools whose classes are large enough for one row of this level, farthest first.
    fn pools_by_distance(&self, level: u32) -> Vec<PoolKey> {
        let large_enough = |key: &&PoolKey| self.plan.grades.allows(level, 1, key.1 + 1);
        let mut keys: Vec<PoolKey> = self.pools.keys().filter(large_enough).copied().collect();
        keys.sort_by_key(|(levels, size)| (Reverse(distance(*levels, level)), *size, *levels));
        keys
    }

    /// Offers a row to each class of a pool; those that take one leave it for `again`.
    fn visit_pool(&mut self, key: PoolKey, bin: &mut Bin, again: &mut VecDeque<u32>) {
        let Some(mut pool) = self.pools.remove(&key) else { return };
        let mut refused = Vec::new();
        while !bin.is_empty()
            && let Some(class) = pool.pop_front()
        {
            if self.accept(class, bin) {
                again.push_back(class);
            } else {
                refused.push(class);
            }
        }
        refused.into_iter().rev().for_each(|class| pool.push_front(class));
        if !pool.is_empty() {
            self.pools.insert(key, pool);
        }
    }

    /// Adds a row of the bin to a class if its share holds.
    fn accept(&mut self, class: u32, bin: &mut Bin) -> bool {
        let at = class as usize;
        let (count, size) = (self.counts[at] + 1, self.made.sizes[at] + 1);
        if !self.plan.grades.allows(bin.level, count, size) {
            return false;
        }
        let Some(row) = bin.next() else { return false };
        self.made.class_of[row as usize] = class;
        self.made.sizes[at] = size;
        self.counts[at] = count;
        self.levels[at] |= 1 << (bin.level - 1);
        true
    }
}

/// Steps from a level to the nearest level of a class, 0 if the class has it.
fn distance(levels: u64, level: u32) -> u32 {
    let at = level - 1;
    let above = (levels >> at).trailing_zeros();
    let below = (levels << (63 - at)).leading_zeros();
    above.min(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_is_that_to_the_nearest_level() {
        let levels = |levels: &[u32]| levels.iter().fold(0u64, |set, level| set | 1 << (level - 1));
        assert_eq!(distance(levels(&[1, 5]), 5), 0);
        assert_eq!(distance(levels(&[1, 5]), 2), 1);
        assert_eq!(distance(levels(&[1, 5]), 3), 2);
        assert_eq!(distance(levels(&[4]), 1), 3);
        assert_eq!(distance(levels(&[1]), 64), 63);
        assert_eq!(distance(levels(&[64]), 1), 63);
    }
}
