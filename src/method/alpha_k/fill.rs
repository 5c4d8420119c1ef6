//! Classes from the counts of the sensitive values, one class at a time.
//!
//! Nothing here sees a row: which values stand together depends on how often each occurs, and on nothing
//! else. So the composition of a class says nothing about the quasi-identifiers in it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use super::groups::Group;
use super::{Made, NO_CLASS, Plan};
use crate::error::Result;
use crate::model::{AlphaScope, Grades};

/// How many sizes beyond the smallest are tried. One of a hundred in a row is a multiple of 100, at which every alpha
/// of two decimals allows a whole number of rows.
const SIZES_TRIED: u32 = 100;

/// Makes classes until the rows left can fill none.
pub(super) fn classes(groups: Vec<Group>, plan: &Plan) -> Result<Made> {
    let mut filler = Filler::new(groups, plan);
    loop {
        plan.job.cancel.check()?;
        filler.trim();
        let Some(size) = filler.size() else { return Ok(filler.made) };
        filler.fill(size);
    }
}

struct Filler<'a> {
    k: u32,
    grades: &'a Grades,
    made: Made,
    levels: Vec<Level>,
    /// Rows in all levels.
    rows: u32,
    /// Rows of each group for further classes, and in the class under construction.
    open: Vec<u32>,
    counts: Vec<u32>,
    /// The groups that have some there.
    used: Vec<u32>,
    /// A size to use although it does not fit, and the number of rows left at which to look for a better one.
    makeshift: Option<(u32, u32)>,
}

/// What a level has left for further classes. Rows that were trimmed are not counted.
#[derive(Default)]
struct Level {
    rows: u32,
    /// The smallest class in which one of its values may stand.
    fewest: u32,
    /// Its groups by rows left, then by value, without those that have rows in the class under construction.
    fresh: BinaryHeap<(u32, Reverse<u32>)>,
    /// Those that have and may give more, by how far they are behind their quota.
    again: BinaryHeap<(i128, Reverse<u32>)>,
    /// Rows in the class under construction.
    taken: u32,
}

impl Level {
    /// Rows of the bin that has most of them.
    fn largest_bin(&self, scope: AlphaScope) -> u32 {
        match scope {
            AlphaScope::Value => self.fresh.peek().map_or(0, |(rows, _)| *rows),
            AlphaScope::Level => self.rows,
        }
    }
}

/// A class under construction.
struct Aim {
    size: u32,
    /// Rows that were left before it.
    rows: u32,
    /// What a bin of each level may hold.
    most: Vec<u32>,
}

impl Aim {
    /// How far a level or value is behind its share of the rows left, in rows, times `rows`: a whole number.
    fn behind(&self, left: u32, taken: u32) -> i128 {
        i128::from(left) * i128::from(self.size) - i128::from(taken) * i128::from(self.rows)
    }
}

impl<'a> Filler<'a> {
    fn new(groups: Vec<Group>, plan: &Plan<'a>) -> Self {
        let of_level = |level| Level { fewest: plan.grades.fewest(level), ..Level::default() };
        let mut levels: Vec<Level> = (1..=plan.grades.levels()).map(of_level).collect();
        for (number, group) in groups.iter().enumerate() {
            let level = &mut levels[group.level as usize - 1];
            level.rows += group.left();
            level.fresh.push((group.left(), Reverse(number as u32)));
        }
        let rows = groups.last().map_or(0, |group| group.end);
        Self {
            k: plan.k,
            grades: plan.grades,
            open: groups.iter().map(Group::left).collect(),
            counts: vec![0; groups.len()],
            used: Vec::new(),
            makeshift: None,
            made: Made { groups, class_of: vec![NO_CLASS; rows as usize], sizes: Vec::new() },
            levels,
            rows,
        }
    }

    /// The levels that have rows left, with their numbers.
    fn open(&self) -> impl Iterator<Item = (u32, &Level)> {
        (1..).zip(&self.levels).filter(|(_, level)| level.rows > 0)
    }

    /// Sets rows aside of every bin whose share of the rows left is larger than it may be in a class. The rest could
    /// be a single class.
    fn trim(&mut self) {
        while let Some(at) = self.level_to_trim() {
            let Some((_, Reverse(group))) = self.levels[at].fresh.pop() else { return };
            self.give_up(group, 1);
        }
    }

    fn level_to_trim(&self) -> Option<usize> {
        let is_too_large = |(number, level): &(u32, &Level)| {
            let rows = level.largest_bin(self.grades.scope());
            !self.grades.allows(*number, rows, self.rows)
        };
        self.open().find(is_too_large).map(|(number, _)| number as usize - 1)
    }

    /// Takes rows from what a group has for further classes, and queues it again.
    fn give_up(&mut self, group: u32, rows: u32) {
        let level = &mut self.levels[self.made.groups[group as usize].level as usize - 1];
        let open = &mut self.open[group as usize];
        *open -= rows;
        level.rows -= rows;
        self.rows -= rows;
        if *open > 0 {
            level.fresh.push((*open, Reverse(group)));
        }
    }

    /// The smallest size in which every bin may have its share of the rows left.
    fn size(&mut self) -> Option<u32> {
        let smallest = self.open().map(|(_, level)| level.fewest).fold(self.k, u32::max);
        if self.rows < smallest {
            return None;
        }
        if let Some((size, until)) = self.makeshift
            && self.rows > until
            && size >= smallest
            && self.is_fillable(size)
        {
            return Some(size);
        }
        self.makeshift = None;
        let sizes = smallest..=self.rows.min(smallest.saturating_add(SIZES_TRIED));
        let size = match sizes.clone().find(|size| self.excess(*size) <= 0) {
            Some(size) => size,
            None => self.makeshift(sizes)?,
        };
        // Rows that would be too few for another class stay with this one.
        Some(if self.rows - size < smallest { self.rows } else { size })
    }

    /// The size that comes closest, kept for as many rows as sizes were looked at.
    fn makeshift(&mut self, sizes: RangeInclusive<u32>) -> Option<u32> {
        let share = |size: u32| self.excess(size) as f64 / f64::from(size);
        let mut sizes: Vec<u32> = sizes.collect();
        sizes.sort_by(|a, b| share(*a).total_cmp(&share(*b)));
        let size = sizes.into_iter().find(|size| self.is_fillable(*size))?;
        self.makeshift = Some((size, self.rows.saturating_sub(SIZES_TRIED)));
        Some(size)
    }

    /// By how many rows of a class of this size the worst bin would exceed what it may have there, times the number
    /// of rows left: a whole number. At most 0 if all bins fit.
    fn excess(&self, size: u32) -> i128 {
        let excess = self.open().map(|(number, level)| {
            let largest = level.largest_bin(self.grades.scope());
            let most = self.grades.most(number, size);
            i128::from(largest) * i128::from(size) - i128::from(most) * i128::from(self.rows)
        });
        excess.max().unwrap_or(0)
    }

    /// Whether the rows left can fill a class of this size.
    fn is_fillable(&self, size: u32) -> bool {
        let mut room = 0;
        for (number, level) in self.open() {
            let most = self.grades.most(number, size);
            match self.grades.scope() {
                AlphaScope::Level => room += u64::from(level.rows.min(most)),
                AlphaScope::Value => {
                    for (rows, _) in &level.fresh {
                        room += u64::from(most.min(*rows));
                        if room >= u64::from(size) {
                            return true;
                        }
                    }
                }
            }
        }
        room >= u64::from(size)
    }

    /// Makes a class of a size that can be filled: a row of the most sensitive level, then rows of whichever
    /// level is farthest behind its quota.
    fn fill(&mut self, size: u32) {
        let most = (1..=self.grades.levels()).map(|level| self.grades.most(level, size)).collect();
        let aim = Aim { size, rows: self.rows, most };
        let leader = self.levels.iter().position(|level| level.rows > 0);
        let mut next = leader;
        for _ in 0..size {
            let Some(level) = next else { break };
            self.take(level, &aim);
            next = self.farthest_behind(&aim);
        }
        self.finish();
    }

    /// Of the levels that may give a row the one that is farthest behind; of equals the least sensitive.
    fn farthest_behind(&self, aim: &Aim) -> Option<usize> {
        let may_give = |at: &usize| {
            let level = &self.levels[*at];
            let has_room = match self.grades.scope() {
                AlphaScope::Value => true,
                AlphaScope::Level => level.taken < aim.most[*at],
            };
            has_room && !(level.fresh.is_empty() && level.again.is_empty())
        };
        let behind = |at: &usize| aim.behind(self.levels[*at].rows, self.levels[*at].taken);
        (0..self.levels.len()).filter(may_give).max_by_key(|at| (behind(at), *at))
    }

    /// Moves a row of a level into the class: one of the value that is farthest behind its own quota.
    fn take(&mut self, at: usize, aim: &Aim) {
        let level = &mut self.levels[at];
        let fresh = level.fresh.peek().map(|(rows, group)| (aim.behind(*rows, 0), *group));
        let of = match (fresh, level.again.peek()) {
            (Some(fresh), Some(again)) if *again > fresh => level.again.pop(),
            (Some(fresh), _) => {
                level.fresh.pop();
                self.used.push(fresh.1.0);
                Some(fresh)
            }
            (None, _) => level.again.pop(),
        };
        let Some((behind, Reverse(number))) = of else { return };
        let group = &mut self.made.groups[number as usize];
        self.made.class_of[group.next as usize] = self.made.sizes.len() as u32;
        group.next += 1;
        level.taken += 1;
        let count = &mut self.counts[number as usize];
        *count += 1;
        let is_full = self.grades.scope() == AlphaScope::Value && *count >= aim.most[at];
        if !is_full && *count < self.open[number as usize] {
            level.again.push((behind - i128::from(aim.rows), Reverse(number)));
        }
    }

    fn finish(&mut self) {
        for level in &mut self.levels {
            level.again.clear();
            level.taken = 0;
        }
        let mut size = 0;
        for group in std::mem::take(&mut self.used) {
            let count = std::mem::take(&mut self.counts[group as usize]);
            size += count;
            self.give_up(group, count);
        }
        self.made.sizes.push(size);
    }
}
