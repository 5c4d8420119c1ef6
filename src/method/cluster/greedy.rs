//! Growing groups one after the other, each by the rows nearest to it (`kaim` and `k_member`).

use std::hash::Hasher;

use super::cost_cache::CostCache;
use super::distance::{Column, Part};
use super::trie::Trie;
use super::tuples::Tuples;
use crate::error::Result;
use crate::model::{Cancel, Model, Seed, SensitiveColumn, Tally};

/// Where the next group starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// At a random free row (`kaim` as printed).
    Random,
    /// At a random row among those that miss fewest cells (`kaim`).
    Complete,
    /// At the free row furthest from the last row taken (`k_member`), the first at random.
    Furthest,
}

/// What growing works from, beside the tuples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) columns: &'a [Column<'a>],
    pub(super) start: Start,
    pub(super) k: u32,
    /// The models beside k.
    pub(super) models: &'a [Model],
    pub(super) sensitive: &'a [SensitiveColumn],
    pub(super) seed: &'a Seed,
    pub(super) cancel: &'a Cancel,
    /// Number of the block, so that blocks draw different random rows.
    pub(super) block: u64,
    /// Whether time is saved, for some loss, where comparing all rows takes long. No paper does that.
    pub(super) takes_shortcuts: bool,
}

/// The column of persons whose rows follow each other into a group: where only numbers of different values are
/// asked for, which more rows cannot lower.
pub(super) fn persons_to_follow<'a>(
    models: &[Model],
    sensitive: &'a [SensitiveColumn],
) -> Option<&'a SensitiveColumn> {
    let unit = models.iter().find_map(|model| match model {
        Model::Distinct { column, unit: true, .. } => Some(*column),
        _ => None,
    });
    let is_count = |model: &Model| matches!(model, Model::Distinct { .. });
    sensitive.get(unit.filter(|_| models.iter().all(is_count))?)
}

/// Nodes of the trie that searches may look at for a row, on average, before the block is called too large.
const LOOKS: u64 = 1024;
/// Up to this many rows a group grows one by one, each the nearest to those before it; a larger one takes as many at once
/// as it needs for this many searches. As printed every group grows one by one.
const SEARCHES: u32 = 100;

/// Rows that will be published alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    pub(super) center: Vec<Part>,
    /// Positions of the rows among the tuples' rows.
    pub(super) rows: Vec<u32>,
}

/// What becomes of a block.
pub(super) enum Grown {
    Groups(Vec<Group>),
    /// Comparing its rows takes too long: it should be cut into about so many parts.
    TooLarge {
        parts: usize,
    },
}

/// The groups so far and the rows still free.
#[derive(Debug)]
pub(super) struct Growth<'a> {
    pub(super) rules: Rules<'a>,
    pub(super) tuples: &'a Tuples,
    /// One per model, each asking for that model only.
    pub(super) tallies: Vec<Tally<'a>>,
    trie: Trie,
    caches: Vec<CostCache<'a>>,
    /// The tuples at which groups start, the last first; empty unless they start at complete rows.
    starts: Vec<u32>,
    /// Positions of all rows; the rows of a tuple that are taken stand first among its own.
    slots: Vec<u32>,
    /// Where every position stands in `slots`; empty unless rows follow their persons.
    slot_of: Vec<u32>,
    /// Leaves that the group has rows of.
    leaves: Vec<usize>,
    free: u64,
    pub(super) groups: Vec<Group>,
    /// Rows that no group has, by position.
    pub(super) leftovers: Vec<u32>,
}

impl<'a> Growth<'a> {
    pub(super) fn new(rules: Rules<'a>, tuples: &'a Tuples, tallies: Vec<Tally<'a>>) -> Self {
        let slots: Vec<u32> = (0..tuples.rows() as u32).collect();
        let follows = persons_to_follow(rules.models, rules.sensitive);
        let slot_of = follows.map(|_| slots.clone()).unwrap_or_default();
        Self {
            rules,
            tuples,
            tallies,
            trie: Trie::new(tuples),
            caches: rules.columns.iter().map(CostCache::new).collect(),
            starts: match rules.start {
                Start::Complete => starts(rules.seed, rules.block, rules.columns, tuples),
                Start::Random | Start::Furthest => Vec::new(),
            },
            slots,
            slot_of,
            leaves: Vec::new(),
            free: tuples.rows() as u64,
            groups: Vec::new(),
            leftovers: Vec::new(),
        }
    }

    /// Makes groups until too few rows are free for another one, then places the rest.
    pub(super) fn run(mut self, can_be_cut: bool) -> Result<Grown> {
        let mut last = None;
        let rows = self.tuples.rows() as u64;
        while self.free >= u64::from(self.rules.k) {
            self.rules.cancel.check()?;
            // The first rows cost most; a few of them tell.
            let (looks, taken) = (self.trie.looks.get(), rows - self.free);
            if can_be_cut && looks > LOOKS * (taken + rows / 32) {
                return Ok(Grown::TooLarge { parts: (looks / LOOKS / taken.max(1)) as usize });
            }
            let start = self.next_start(last);
            let mut group = Group::default();
            let (whole, tuple) = self.grow(&mut group, start)?;
            last = Some(tuple);
            if !whole {
                // What the group lacks no free row has, so no further group could get it either.
                self.leftovers.append(&mut group.rows);
                break;
            }
            self.follow_persons(&mut group);
            group.center = self.caches.iter().map(|cache| cache.part.clone()).collect();
            self.groups.push(group);
            self.trie.compact(self.tuples);
        }
        self.collect_free_rows();
        self.place_leftovers()?;
        Ok(Grown::Groups(self.groups))
    }

    /// The leaf at which the next group starts, given the tuple of the last row taken.
    fn next_start(&mut self, last: Option<usize>) -> usize {
        while let Some(tuple) = self.starts.last() {
            match self.trie.leaf_of(*tuple) {
                Some(leaf) => return leaf,
                None => self.starts.pop(),
            };
        }
        if let (Start::Furthest, Some(last)) = (self.rules.start, last) {
            self.start_at(last);
            self.charge(last, 1);
            if let Some(leaf) = self.trie.furthest(&mut self.caches) {
                return leaf;
            }
        }
        let mut hasher = self.rules.seed.hasher();
        hasher.write_u64(self.rules.block);
        hasher.write_u64(self.groups.len() as u64);
        self.trie.nth(hasher.finish() % self.free.max(1))
    }

    fn start_at(&mut self, tuple: usize) {
        for (cache, codes) in self.caches.iter_mut().zip(&self.tuples.codes) {
            cache.start_at(codes[tuple]);
        }
    }

    /// Counts rows of a tuple in the center.
    fn charge(&mut self, tuple: usize, rows: u32) {
        for (cache, codes) in self.caches.iter_mut().zip(&self.tuples.codes) {
            cache.charge(codes[tuple], rows);
        }
    }

    /// Grows a group from a leaf; says whether it became a class, and the last tuple it took from.
    fn grow(&mut self, group: &mut Group, start: usize) -> Result<(bool, usize)> {
        let mut tuple = self.trie.tuple(start);
        self.start_at(tuple);
        self.tallies.iter_mut().for_each(Tally::clear);
        self.leaves.clear();
        let rows = self.trie.free(start).min(self.rules.k);
        self.take(start, rows, group);
        let at_once = match self.rules.takes_shortcuts {
            true => self.rules.k.div_ceil(SEARCHES),
            false => 1,
        };
        loop {
            let lacking = self.rules.k.saturating_sub(group.rows.len() as u32);
            if lacking == 0 {
                let Some(failing) = self.tallies.iter_mut().position(|tally| !tally.holds()) else {
                    return Ok((true, tuple));
                };
                self.rules.cancel.check()?;
                let helpful = self.nearest_that_helps(&self.rules.models[failing], group);
                let Some((leaf, slot)) = helpful else { return Ok((false, tuple)) };
                self.swap_slots(slot, self.first_free_slot(leaf));
                tuple = self.trie.tuple(leaf);
                self.widen(tuple);
                self.take(leaf, 1, group);
                continue;
            }
            if self.rules.k > SEARCHES {
                self.rules.cancel.check()?;
            }
            let found = self.trie.nearest(&mut self.caches, at_once as usize, &|_| true);
            if found.is_empty() {
                return Ok((false, tuple));
            }
            for leaf in found {
                let lacking = self.rules.k.saturating_sub(group.rows.len() as u32);
                if lacking == 0 {
                    break;
                }
                tuple = self.trie.tuple(leaf);
                // While the center stays, no other tuple can get nearer than this one.
                let is_wider = self.widen(tuple);
                let one_by_one = is_wider && at_once == 1;
                let rows = if one_by_one { 1 } else { self.trie.free(leaf).min(lacking) };
                self.take(leaf, rows, group);
            }
        }
    }

    /// Lets a tuple join the center and says whether that changed it.
    fn widen(&mut self, tuple: usize) -> bool {
        let mut changed = false;
        for (cache, codes) in self.caches.iter_mut().zip(&self.tuples.codes) {
            changed |= cache.join(codes[tuple]);
        }
        changed
    }

    fn first_free_slot(&self, leaf: usize) -> usize {
        self.tuples.positions(self.trie.tuple(leaf)).end - self.trie.free(leaf) as usize
    }

    fn swap_slots(&mut self, one: usize, other: usize) {
        self.slots.swap(one, other);
        if !self.slot_of.is_empty() {
            self.slot_of[self.slots[one] as usize] = one as u32;
            self.slot_of[self.slots[other] as usize] = other as u32;
        }
    }

    /// Lets the free rows of a tuple join a group that has other rows of that tuple and of the same person: they lose
    /// nothing there, and somewhere else they would tell two classes of one person.
    fn follow_persons(&mut self, group: &mut Group) {
        let Rules { models, sensitive, .. } = self.rules;
        let Some(persons) = persons_to_follow(models, sensitive) else { return };
        let person = |position: usize| persons.codes[self.tuples.ids[position] as usize];
        let mut leaves = std::mem::take(&mut self.leaves);
        leaves.sort_unstable();
        leaves.dedup();
        for leaf in leaves {
            let of_tuple = self.tuples.positions(self.trie.tuple(leaf));
            let rows = group.rows.iter().map(|position| *position as usize);
            let in_group: Vec<usize> =
                rows.filter(|position| of_tuple.contains(position)).collect();
            // Rows of one tuple stand by their keys, which keep the rows of a person side by side.
            for position in in_group {
                let is_theirs = |other: &usize| person(*other) == person(position);
                let before = (of_tuple.start..position).rev().take_while(is_theirs);
                let after = (position + 1..of_tuple.end).take_while(is_theirs);
                for other in before.chain(after) {
                    let (slot, first) = (self.slot_of[other] as usize, self.first_free_slot(leaf));
                    if slot >= first {
                        self.swap_slots(slot, first);
                        self.take(leaf, 1, group);
                    }
                }
            }
        }
    }

    fn take(&mut self, leaf: usize, rows: u32, group: &mut Group) {
        self.leaves.push(leaf);
        let first = self.first_free_slot(leaf);
        for slot in first..first + rows as usize {
            let position = self.slots[slot];
            for tally in &mut self.tallies {
                tally.add(self.tuples.ids[position as usize]);
            }
            group.rows.push(position);
        }
        self.charge(self.trie.tuple(leaf), rows);
        self.trie.take(leaf, rows);
        self.free -= u64::from(rows);
    }

    /// The nearest leaf with a row that brings a group closer to a model, and that row's slot.
    fn nearest_that_helps(&mut self, model: &Model, group: &Group) -> Option<(usize, usize)> {
        let mut caches = std::mem::take(&mut self.caches);
        let values = &self.rules.sensitive[model.column()].codes;
        let value_at = |position: u32| values[self.tuples.ids[position as usize] as usize];
        let mut present: Vec<u32> = group.rows.iter().map(|position| value_at(*position)).collect();
        present.sort_unstable();
        let most_common = present.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
        let helps = |slot: &usize| {
            let value = value_at(self.slots[*slot]);
            let first = present.partition_point(|other| *other < value);
            let common = present[first..].iter().take_while(|other| **other == value).count();
            match model {
                Model::Distinct { .. } => common == 0,
                Model::Entropy { .. }
                | Model::Share { .. }
                | Model::UnitShare { .. }
                | Model::Graded { .. } => common < most_common,
                Model::Closeness { .. } => true,
            }
        };
        let helpful_slot = |leaf: usize| {
            let end = self.tuples.positions(self.trie.tuple(leaf)).end;
            (self.first_free_slot(leaf)..end).find(|slot| helps(slot))
        };
        let found = self.trie.nearest(&mut caches, 1, &|leaf| helpful_slot(leaf).is_some());
        let found = found.first().and_then(|leaf| Some((*leaf, helpful_slot(*leaf)?)));
        self.caches = caches;
        found
    }

    fn collect_free_rows(&mut self) {
        let mut is_free = vec![true; self.tuples.rows()];
        let in_groups = self.groups.iter().flat_map(|group| &group.rows);
        for position in in_groups.chain(&self.leftovers) {
            is_free[*position as usize] = false;
        }
        let free = (0..is_free.len()).filter(|position| is_free[*position]);
        self.leftovers.extend(free.map(|position| position as u32));
        self.leftovers.sort_unstable();
    }
}

/// The tuples of a block in the order in which groups start at them, the last first: those that miss fewest cells, each
/// lot shuffled by the seed.
pub(super) fn starts(seed: &Seed, block: u64, columns: &[Column<'_>], tuples: &Tuples) -> Vec<u32> {
    let place = |tuple: usize| {
        let columns = columns.iter().zip(&tuples.codes);
        let missing = columns.filter(|(column, codes)| column.is_missing(codes[tuple])).count();
        let mut hasher = seed.hasher();
        hasher.write_u64(block);
        hasher.write_u64(tuple as u64);
        (missing, hasher.finish(), tuple as u32)
    };
    let mut starts: Vec<(usize, u64, u32)> = (0..tuples.len()).map(place).collect();
    starts.sort_unstable_by(|a, b| b.cmp(a));
    starts.into_iter().map(|(.., tuple)| tuple).collect()
}
