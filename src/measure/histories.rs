//! What releases that follow each other show of every person, and who looks the same in all of them.
//!
//! Somebody who knows everybody's quasi-identifiers knows for every person and release which classes could hold them:
//! their *history*. Two persons may be the same as long as every release has a class that could hold both, or shows
//! neither. How many persons may be the same as one is that person's *crowd*, the one included.
//!
//! | person | release 1 | release 2 | crowd |
//! | --- | --- | --- | --- |
//! | a | {1} | {1} | a, b |
//! | b | {1} | {1, 2} | a, b, c |
//! | c | {1} | {2} | b, c |
//! | d | – | {2} | d |
//!
//! Where every class is known for certain, histories are either equal or different and are only counted. Where several
//! classes could hold a person, histories are compared in pairs, of those alone that share a class in one release.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap as FastMap;

/// The set without a class: a person who is not published.
pub const UNPUBLISHED: u32 = 0;

/// Sets of classes, each with a number.
#[derive(Debug, Clone)]
pub struct ClassSets {
    /// Classes of every set, in ascending order, one set after the other.
    classes: Vec<u32>,
    /// Where each set ends.
    ends: Vec<usize>,
    numbers: FastMap<Box<[u32]>, u32, FixedState>,
    largest: usize,
}

impl Default for ClassSets {
    fn default() -> Self {
        let mut sets =
            Self { classes: Vec::new(), ends: Vec::new(), numbers: FastMap::default(), largest: 0 };
        sets.number(&[]);
        sets
    }
}

impl ClassSets {
    /// The number of a set, whose classes are in ascending order.
    pub fn number(&mut self, set: &[u32]) -> u32 {
        if let Some(number) = self.numbers.get(set) {
            return *number;
        }
        let number = self.ends.len() as u32;
        self.classes.extend_from_slice(set);
        self.ends.push(self.classes.len());
        self.numbers.insert(set.into(), number);
        self.largest = self.largest.max(set.len());
        number
    }

    /// The classes of a set.
    pub fn of(&self, number: u32) -> &[u32] {
        let at = number as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.classes[start..self.ends[at]]
    }

    /// Whether two sets share a class, or both have none.
    fn agree(&self, one: u32, other: u32) -> bool {
        if one == other {
            return true;
        }
        let (mut one, mut other) = (self.of(one), self.of(other));
        while let ([a, rest @ ..], [b, others @ ..]) = (one, other) {
            match a.cmp(b) {
                std::cmp::Ordering::Less => one = rest,
                std::cmp::Ordering::Greater => other = others,
                std::cmp::Ordering::Equal => return true,
            }
        }
        false
    }

    /// Bytes held, roughly.
    pub fn memory(&self) -> usize {
        2 * self.classes.capacity() * size_of::<u32>() + self.ends.capacity() * 72
    }
}

/// The histories of all persons.
#[derive(Debug, Clone, Default)]
pub struct Histories {
    /// The sets of classes that histories are made of. Classes of different releases have nothing to do with each other.
    pub sets: ClassSets,
    /// Releases of a history.
    width: usize,
    /// The set of every release, person by person.
    entries: Vec<u32>,
}

/// How many persons look the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crowds {
    /// Persons who are published at some time.
    pub persons: u64,
    /// The smallest crowd.
    pub smallest: Option<u64>,
    /// Persons whose crowd is below k.
    pub below_k: u64,
    /// Persons who look like nobody else.
    pub alone: u64,
}

impl Histories {
    /// No persons yet, with this many releases.
    pub fn new(releases: usize) -> Self {
        Self { width: releases.max(1), ..Self::default() }
    }

    /// Adds a person, with the set of every release.
    pub fn push(&mut self, history: impl IntoIterator<Item = u32>) {
        self.entries.extend(history);
    }

    /// Number of persons.
    pub fn persons(&self) -> usize {
        self.entries.len() / self.width
    }

    /// Number of releases.
    pub fn releases(&self) -> usize {
        self.width
    }

    /// The classes that could hold a person in a release.
    pub fn classes(&self, person: usize, release: usize) -> &[u32] {
        self.sets.of(self.entries[person * self.width + release])
    }

    /// Bytes held, roughly.
    pub fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<u32>() + self.sets.memory()
    }

    /// Bytes that [`crowds`](Self::crowds) takes on top, roughly.
    pub fn crowd_memory(&self) -> usize {
        let postings = if self.sets.largest > 1 { 12 * self.sets.largest.min(16) } else { 0 };
        self.persons() * (64 + postings)
    }

    /// The crowds of all persons who are published at some time.
    pub fn crowds(&self, k: Option<u64>) -> Crowds {
        let mut persons_of: FastMap<&[u32], u64, FixedState> = FastMap::default();
        for history in self.entries.chunks_exact(self.width) {
            if history.iter().any(|set| *set != UNPUBLISHED) {
                *persons_of.entry(history).or_default() += 1;
            }
        }
        let mut crowds = Crowds::default();
        if self.sets.largest <= 1 {
            persons_of.values().for_each(|persons| crowds.add(*persons, *persons, k));
            return crowds;
        }
        for group in self.by_absence(&persons_of) {
            Comparison::new(self, &group).add_to(&mut crowds, k);
        }
        crowds
    }

    /// Histories with their persons, together if they are published in the same releases: others never agree.
    fn by_absence<'h>(
        &self,
        persons_of: &FastMap<&'h [u32], u64, FixedState>,
    ) -> Vec<Vec<(&'h [u32], u64)>> {
        let mut groups: HashMap<Vec<bool>, Vec<(&[u32], u64)>> = HashMap::new();
        for (history, persons) in persons_of {
            let published = history.iter().map(|set| *set != UNPUBLISHED).collect();
            groups.entry(published).or_default().push((history, *persons));
        }
        groups.into_values().collect()
    }
}

impl Crowds {
    fn add(&mut self, persons: u64, crowd: u64, k: Option<u64>) {
        self.persons += persons;
        self.smallest = Some(self.smallest.map_or(crowd, |smallest| smallest.min(crowd)));
        self.below_k += if k.is_some_and(|k| crowd < k) { persons } else { 0 };
        self.alone += if crowd == 1 { persons } else { 0 };
    }
}

/// Histories that are published in the same releases, found by the classes of one of them.
struct Comparison<'h> {
    sets: &'h ClassSets,
    histories: &'h [(&'h [u32], u64)],
    release: usize,
    /// By class of the release, the histories that it could hold.
    of_class: FastMap<u32, Vec<u32>, FixedState>,
}

impl<'h> Comparison<'h> {
    fn new(of: &'h Histories, histories: &'h [(&'h [u32], u64)]) -> Self {
        let by_class = |release: usize| {
            let mut of_class: FastMap<u32, Vec<u32>, FixedState> = FastMap::default();
            for (number, (history, _)) in histories.iter().enumerate() {
                for class in of.sets.of(history[release]) {
                    of_class.entry(*class).or_default().push(number as u32);
                }
            }
            of_class
        };
        let pairs = |release: usize| {
            let mut count: FastMap<u32, u64, FixedState> = FastMap::default();
            for class in histories.iter().flat_map(|(history, _)| of.sets.of(history[release])) {
                *count.entry(*class).or_default() += 1;
            }
            count.values().map(|count| count * count).sum::<u64>()
        };
        let published = (0..of.width).filter(|release| histories[0].0[*release] != UNPUBLISHED);
        let release = published.min_by_key(|release| pairs(*release)).unwrap_or(0);
        Self { sets: &of.sets, histories, release, of_class: by_class(release) }
    }

    fn add_to(&self, crowds: &mut Crowds, k: Option<u64>) {
        let mut seen = vec![u32::MAX; self.histories.len()];
        for (number, (history, persons)) in self.histories.iter().enumerate() {
            // More than the smallest crowd so far, and than k, is not counted.
            let smallest = crowds.smallest.unwrap_or(u64::MAX);
            let enough = smallest.max(k.unwrap_or(0)).max(2);
            let crowd = self.crowd(number as u32, history, enough, &mut seen);
            crowds.add(*persons, crowd, k);
        }
    }

    fn crowd(&self, number: u32, history: &[u32], enough: u64, seen: &mut [u32]) -> u64 {
        let mut crowd = 0;
        for class in self.sets.of(history[self.release]) {
            for other in self.of_class.get(class).into_iter().flatten() {
                if std::mem::replace(&mut seen[*other as usize], number) == number {
                    continue;
                }
                let (theirs, persons) = self.histories[*other as usize];
                let mut releases = history.iter().zip(theirs);
                if releases.all(|(one, other)| self.sets.agree(*one, *other)) {
                    crowd += persons;
                }
                if crowd >= enough {
                    return crowd;
                }
            }
        }
        crowd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histories(persons: &[&[&[u32]]]) -> Histories {
        let mut histories = Histories::new(persons[0].len());
        for person in persons {
            let sets: Vec<u32> = person.iter().map(|set| histories.sets.number(set)).collect();
            histories.push(sets);
        }
        histories
    }

    #[test]
    fn known_classes_are_counted() {
        let known =
            histories(&[&[&[1], &[7]], &[&[1], &[7]], &[&[1], &[8]], &[&[], &[8]], &[&[], &[]]]);
        let found = known.crowds(Some(2));
        assert_eq!(found, Crowds { persons: 4, smallest: Some(1), below_k: 2, alone: 2 });
        assert_eq!(histories(&[&[&[]]]).crowds(Some(2)), Crowds::default());
    }

    #[test]
    fn persons_may_be_the_same_if_every_release_has_a_class_for_both() {
        // The table above.
        let fitted = histories(&[&[&[1], &[1]], &[&[1], &[1, 2]], &[&[1], &[2]], &[&[], &[2]]]);
        let found = fitted.crowds(Some(3));
        assert_eq!(found, Crowds { persons: 4, smallest: Some(1), below_k: 3, alone: 1 });
        assert_eq!(fitted.crowds(None).below_k, 0);
    }

    /// Every pair compared, as the definition says.
    fn naive(histories: &Histories, k: u64) -> Crowds {
        let mut crowds = Crowds::default();
        let all: Vec<&[u32]> = histories.entries.chunks(histories.width).collect();
        let may_be_same = |one: &[u32], other: &[u32]| {
            one.iter().zip(other).all(|(a, b)| histories.sets.agree(*a, *b))
        };
        for one in &all {
            if one.iter().any(|set| *set != UNPUBLISHED) {
                let crowd = all.iter().filter(|other| may_be_same(one, other)).count() as u64;
                crowds.add(1, crowd, Some(k));
            }
        }
        crowds
    }

    #[test]
    fn the_index_finds_whom_the_definition_finds() {
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for table in 0..60 {
            let mut histories = Histories::new(1 + table % 4);
            for _ in 0..40 {
                let sets: Vec<u32> = (0..histories.releases())
                    .map(|_| {
                        let set: Vec<u32> = (0..4).filter(|_| next(3) == 0).collect();
                        histories.sets.number(&set)
                    })
                    .collect();
                histories.push(sets);
            }
            for k in [2, 3, 8] {
                assert_eq!(histories.crowds(Some(k)), naive(&histories, k), "table {table}, k {k}");
            }
        }
    }
}
