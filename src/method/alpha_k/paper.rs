//! Classes as the paper makes them: the first row of the first group, then sweeps over the levels.

use std::cmp::Ordering;

use super::groups::Group;
use super::queue::Queue;
use super::{Made, NO_CLASS, Plan};
use crate::error::Result;
use crate::model::{AlphaScope, Grades, RowKeys, RowTable};

/// How many sizes beyond the smallest a class may try. Whole rows may need a size at which several
/// shares come out even; shares that need a still larger one are as good as unsatisfiable.
const SIZES_TRIED: u32 = 1024;

/// Makes classes until no group can start one.
pub(super) fn classes(rows: &RowTable, groups: Vec<Group>, plan: &Plan) -> Result<Made> {
    let mut builder = Builder::new(rows, groups, plan);
    while let Some(leader) = builder.next_leader() {
        plan.job.cancel.check()?;
        // After a failure fewer rows are open: if they cannot fill any class, no leader can.
        if !builder.build(leader) && !builder.could_fill_a_class() {
            break;
        }
    }
    Ok(builder.made)
}

/// Which of two groups of one level comes first.
fn priority(rows: &RowTable, keys: &RowKeys, a: &Group, b: &Group) -> Ordering {
    b.left().cmp(&a.left()).then_with(|| earlier(rows, keys, a, b))
}

/// Which of two groups has the earlier row left.
pub(super) fn earlier(rows: &RowTable, keys: &RowKeys, a: &Group, b: &Group) -> Ordering {
    rows.canonical_order(a.next, b.next, keys).then_with(|| a.code.cmp(&b.code))
}

struct Builder<'a> {
    rows: &'a RowTable,
    plan: &'a Plan<'a>,
    made: Made,
    /// The groups that can give a row, by level.
    queues: Vec<Queue>,
    /// Groups that cannot give at the size aimed at.
    aside: Vec<u32>,
    /// The group of each row of the class under construction, in the order they were taken.
    taken: Vec<u32>,
    /// Rows of each bin in it.
    counts: Vec<u32>,
    aim: Aim,
}

/// Whether the rows left can fill a class.
enum Fillable {
    At(u32),
    /// At no size.
    Never,
    /// At none of the sizes tried.
    Beyond,
}

/// The size a class aims at, and what each level's bins may hold at that size.
#[derive(Debug)]
struct Aim {
    size: u32,
    most: Vec<u32>,
}

impl Aim {
    fn set(&mut self, size: u32, grades: &Grades) {
        if self.size != size {
            self.size = size;
            self.most = (1..=grades.levels()).map(|level| grades.most(level, size)).collect();
        }
    }

    fn most(&self, level: u32) -> u32 {
        self.most[level as usize - 1]
    }
}

impl<'a> Builder<'a> {
    fn new(rows: &'a RowTable, groups: Vec<Group>, plan: &'a Plan<'a>) -> Self {
        let levels = plan.grades.levels() as usize;
        let numbers = 0..groups.len() as u32;
        let mut builder = Self {
            rows,
            plan,
            queues: (0..levels).map(|_| Queue::default()).collect(),
            aside: Vec::new(),
            taken: Vec::new(),
            counts: vec![0; groups.len().max(levels)],
            aim: Aim { size: 0, most: Vec::new() },
            made: Made { groups, class_of: vec![NO_CLASS; rows.len()], sizes: Vec::new() },
        };
        numbers.for_each(|group| builder.enqueue(group));
        builder
    }

    fn group(&self, group: u32) -> &Group {
        &self.made.groups[group as usize]
    }

    /// Where the rows of a group are counted.
    fn bin(&self, group: u32) -> usize {
        match self.plan.grades.scope() {
            AlphaScope::Value => group as usize,
            AlphaScope::Level => self.group(group).level as usize - 1,
        }
    }

    fn may_give(&self, group: u32) -> bool {
        self.counts[self.bin(group)] < self.aim.most(self.group(group).level)
    }

    fn is_complete(&self) -> bool {
        self.taken.len() as u32 == self.aim.size
    }

    /// Queues a group, if it has a row left.
    fn enqueue(&mut self, group: u32) {
        let (rows, keys, groups) = (self.rows, self.plan.job.keys, &self.made.groups);
        let level = groups[group as usize].level as usize;
        if groups[group as usize].left() > 0 {
            self.queues[level - 1].push(group, |a, b| {
                priority(rows, keys, &groups[a as usize], &groups[b as usize]).is_lt()
            });
        }
    }

    fn dequeue(&mut self, level: u32) -> Option<u32> {
        let (rows, keys, groups) = (self.rows, self.plan.job.keys, &self.made.groups);
        self.queues[level as usize - 1]
            .pop(|a, b| priority(rows, keys, &groups[a as usize], &groups[b as usize]).is_lt())
    }

    /// The group with the highest priority of all, taken out of its queue.
    fn next_leader(&mut self) -> Option<u32> {
        let level = self.queues.iter().position(|queue| !queue.is_empty())?;
        self.dequeue(level as u32 + 1)
    }

    /// Makes one class that starts with a row of `leader`, or sets that group aside for good. Whether a
    /// class was made.
    fn build(&mut self, leader: u32) -> bool {
        let level = self.group(leader).level;
        self.aim.set(self.plan.grades.fewest(level).max(self.plan.k), self.plan.grades);
        self.take(leader);
        self.enqueue(leader);
        loop {
            self.fill(leader);
            if self.is_complete() {
                self.finish();
                return true;
            }
            match self.fillable_size(self.aim.size + 1) {
                Fillable::At(size) => {
                    self.aim.set(size, self.plan.grades);
                    self.bring_back();
                }
                Fillable::Never | Fillable::Beyond => {
                    self.undo(leader);
                    return false;
                }
            }
        }
    }

    /// Moves the next row of a group, which must not be queued, into the class.
    fn take(&mut self, group: u32) {
        let class = self.made.sizes.len() as u32;
        let bin = self.bin(group);
        let next = &mut self.made.groups[group as usize].next;
        self.made.class_of[*next as usize] = class;
        *next += 1;
        self.counts[bin] += 1;
        self.taken.push(group);
    }

    /// Steps 4 and 5: sweeps until the class is complete or nothing can be taken at its size.
    fn fill(&mut self, leader: u32) {
        let own = self.group(leader).level;
        while !self.is_complete() {
            let swept = match self.plan.grades.levels() {
                1 => self.sweep_values(leader),
                levels => self.sweep_levels(levels, own),
            };
            if !swept && !self.take_first(own) {
                return;
            }
        }
    }

    /// One row from every level but `own`, the least sensitive first. Whether there was any.
    fn sweep_levels(&mut self, levels: u32, own: u32) -> bool {
        let before = self.taken.len();
        for level in (1..=levels).rev().filter(|level| *level != own) {
            if self.is_complete() {
                break;
            }
            self.take_first(level);
        }
        self.taken.len() > before
    }

    /// One row from the first group of a level that may give one. Whether there was any.
    fn take_first(&mut self, level: u32) -> bool {
        let by_level = self.plan.grades.scope() == AlphaScope::Level;
        if by_level && self.counts[level as usize - 1] >= self.aim.most(level) {
            return false;
        }
        while let Some(group) = self.dequeue(level) {
            if self.may_give(group) {
                self.take(group);
                self.enqueue(group);
                return true;
            }
            self.aside.push(group);
        }
        false
    }

    /// With one level: one row from every group but the leader. Whether there was any.
    fn sweep_values(&mut self, leader: u32) -> bool {
        let before = self.taken.len();
        let mut passed = Vec::new();
        while !self.is_complete() {
            let Some(group) = self.dequeue(1) else { break };
            if group == leader {
                passed.push(group);
            } else if self.may_give(group) {
                self.take(group);
                passed.push(group);
            } else {
                self.aside.push(group);
            }
        }
        passed.into_iter().for_each(|group| self.enqueue(group));
        self.taken.len() > before
    }

    /// Whether some size could be filled from the rows that are open, none being taken.
    fn could_fill_a_class(&self) -> bool {
        let levels = (1..=self.plan.grades.levels()).zip(&self.queues);
        let open = levels.filter(|(_, queue)| !queue.is_empty());
        let fewest = open.map(|(level, _)| self.plan.grades.fewest(level)).min();
        fewest.is_some_and(|fewest| {
            !matches!(self.fillable_size(fewest.max(self.plan.k)), Fillable::Never)
        })
    }

    /// The next size, `from` or more, that the rows left can fill without passing a share.
    fn fillable_size(&self, from: u32) -> Fillable {
        let queued = self.queues.iter().flat_map(Queue::groups);
        let open: Vec<u32> = self.aside.iter().chain(queued).copied().collect();
        let mut capacity = Capacity::new(self, &open);
        for size in from..from.saturating_add(SIZES_TRIED) {
            let (whole, fractional) = capacity.at(size, self.plan.grades);
            if whole >= u64::from(size) {
                return Fillable::At(size);
            }
            // Even with fractions of rows the shares do not add up, and they never will again: the
            // capacity is concave in the size and was enough at size 0.
            if fractional < f64::from(size) {
                return Fillable::Never;
            }
        }
        Fillable::Beyond
    }

    fn bring_back(&mut self) {
        while let Some(group) = self.aside.pop() {
            self.enqueue(group);
        }
    }

    fn finish(&mut self) {
        self.made.sizes.push(self.taken.len() as u32);
        self.forget();
        self.bring_back();
    }

    fn forget(&mut self) {
        while let Some(group) = self.taken.pop() {
            let bin = self.bin(group);
            self.counts[bin] = 0;
        }
    }

    /// Gives all rows back and leaves `leader` out of the queues.
    fn undo(&mut self, leader: u32) {
        let mut open: Vec<u32> = self.queues.iter_mut().flat_map(Queue::drain).collect();
        open.append(&mut self.aside);
        for group in &self.taken {
            let next = &mut self.made.groups[*group as usize].next;
            *next -= 1;
            self.made.class_of[*next as usize] = NO_CLASS;
        }
        open.extend(&self.taken);
        self.forget();
        open.sort_unstable();
        open.dedup();
        open.into_iter().filter(|group| *group != leader).for_each(|group| self.enqueue(group));
    }
}

/// How many rows a class could have at a size, from what each bin has and could still get.
struct Capacity {
    /// Rows of the class that no open group can add to.
    fixed: u64,
    /// Level, rows in the class and rows left of every bin that can still give.
    bins: Vec<(u32, u32, u64)>,
}

impl Capacity {
    fn new(builder: &Builder, open: &[u32]) -> Self {
        let mut bins: Vec<(usize, u32, u64)> = open
            .iter()
            .map(|group| {
                let of = builder.group(*group);
                (builder.bin(*group), of.level, u64::from(of.left()))
            })
            .collect();
        bins.sort_unstable();
        bins.dedup_by(|next, bin| {
            let same = next.0 == bin.0;
            bin.2 += if same { next.2 } else { 0 };
            same
        });
        let has = |bin: usize| builder.counts[bin];
        let open_rows: u64 = bins.iter().map(|(bin, ..)| u64::from(has(*bin))).sum();
        let bins = bins.into_iter().map(|(bin, level, left)| (level, has(bin), left)).collect();
        Self { fixed: builder.taken.len() as u64 - open_rows, bins }
    }

    /// The largest class whose shares hold at this size: in whole rows, and in fractions of rows.
    fn at(&mut self, size: u32, grades: &Grades) -> (u64, f64) {
        let (mut whole, mut fractional) = (self.fixed, self.fixed as f64);
        for (level, has, left) in &self.bins {
            let all = u64::from(*has) + left;
            whole += all.min(u64::from(grades.most(*level, size)));
            // A hair above the bound, so that rounding never ends the search too early.
            let share = (grades.alpha(*level) + 1e-6) * f64::from(size);
            fractional += share.min(all as f64);
        }
        (whole, fractional)
    }
}
