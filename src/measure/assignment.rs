//! Everybody put into one class of every release, where several could hold them.
//!
//! Who knows everybody's quasi-identifiers and not the classes looks for an assignment that explains the release: every
//! person in a class that fits them, no class with more persons than rows. There are many. This one keeps together who
//! was together in the releases before, as far as the classes have room, so that it does not invent differences.
//!
//! 1. Persons of one history so far go one after the other, those with the fewest classes first, into a class that
//!    others of them have taken.
//! 2. Whoever found no room makes others move on, along the shortest way to a class with room.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::histories::Histories;
use super::subtraction::ReleaseClasses;

/// Nobody's class.
const NONE: u32 = u32::MAX;

impl Histories {
    /// The same persons, in one class of every release or in none.
    pub fn assigned(&self, releases: &[ReleaseClasses]) -> Self {
        let persons = self.persons();
        let mut together = vec![0u32; persons];
        let mut by_release = Vec::with_capacity(releases.len());
        for (release, classes) in releases.iter().enumerate() {
            let mut assignment = Assignment::new(self, release, classes);
            assignment.keep_together(&together);
            assignment.make_room();
            let mut numbers: HashMap<(u32, u32), u32, FixedState> = HashMap::default();
            for (person, history) in together.iter_mut().enumerate() {
                let next = numbers.len() as u32;
                let key = (*history, assignment.class_of[person]);
                *history = *numbers.entry(key).or_insert(next);
            }
            by_release.push(assignment.class_of);
        }
        let mut assigned = Self::new(self.releases());
        for person in 0..persons {
            for class_of in &by_release {
                let class = class_of[person];
                let set: &[u32] = if class == NONE { &[] } else { &[class] };
                let number = assigned.sets.number(set);
                assigned.push([number]);
            }
        }
        assigned
    }

    /// Bytes that [`assigned`](Self::assigned) takes, roughly.
    pub fn assignment_memory(&self) -> usize {
        self.persons() * (8 * self.releases() + 32)
    }
}

/// Who is in which class of one release.
struct Assignment<'a> {
    histories: &'a Histories,
    release: usize,
    rows: &'a [u32],
    class_of: Vec<u32>,
    members: Vec<Vec<u32>>,
}

impl<'a> Assignment<'a> {
    fn new(histories: &'a Histories, release: usize, classes: &'a ReleaseClasses) -> Self {
        let members = vec![Vec::new(); classes.rows.len()];
        let class_of = vec![NONE; histories.persons()];
        Self { histories, release, rows: &classes.rows, class_of, members }
    }

    fn fitting(&self, person: u32) -> &'a [u32] {
        self.histories.classes(person as usize, self.release)
    }

    fn room(&self, class: u32) -> usize {
        let at = class as usize;
        self.rows.get(at).map_or(0, |rows| (*rows as usize).saturating_sub(self.members[at].len()))
    }

    fn put(&mut self, person: u32, class: u32) {
        self.class_of[person as usize] = class;
        self.members[class as usize].push(person);
    }

    fn keep_together(&mut self, together: &[u32]) {
        let mut order: Vec<u32> = (0..together.len() as u32).collect();
        order.sort_by_key(|person| (together[*person as usize], self.fitting(*person).len()));
        // By class, the last history that has taken it.
        let mut taken_by = vec![NONE; self.rows.len()];
        for person in order {
            let history = together[person as usize];
            let rooms = self.fitting(person).iter().filter(|class| self.room(**class) > 0);
            let best = rooms.max_by_key(|class| {
                (taken_by[**class as usize] == history, self.room(**class), u32::MAX - **class)
            });
            if let Some(class) = best.copied() {
                taken_by[class as usize] = history;
                self.put(person, class);
            }
        }
    }

    fn make_room(&mut self) {
        let mut seen = vec![NONE; self.rows.len()];
        let mut comes = vec![NONE; self.rows.len()];
        for person in 0..self.class_of.len() as u32 {
            if self.class_of[person as usize] == NONE
                && let Some(class) = self.way_out(person, &mut seen, &mut comes)
            {
                self.move_on(person, class, &comes);
            }
        }
    }

    /// A class with room, and by class the person who would come to it.
    fn way_out(&self, person: u32, seen: &mut [u32], comes: &mut [u32]) -> Option<u32> {
        let mut queue = VecDeque::new();
        let mut visit = |from: u32, queue: &mut VecDeque<u32>| {
            for class in self.fitting(from) {
                let at = *class as usize;
                if at < seen.len() && std::mem::replace(&mut seen[at], person) != person {
                    comes[at] = from;
                    queue.push_back(*class);
                }
            }
        };
        visit(person, &mut queue);
        while let Some(class) = queue.pop_front() {
            if self.room(class) > 0 {
                return Some(class);
            }
            for member in &self.members[class as usize] {
                visit(*member, &mut queue);
            }
        }
        None
    }

    fn move_on(&mut self, person: u32, mut class: u32, comes: &[u32]) {
        loop {
            let mover = comes[class as usize];
            let left = self.class_of[mover as usize];
            self.put(mover, class);
            if mover == person || left == NONE {
                return;
            }
            self.members[left as usize].retain(|member| *member != mover);
            class = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(persons: &[&[&[u32]]], rows: &[&[u32]]) -> Vec<Vec<Vec<u32>>> {
        let mut histories = Histories::new(rows.len());
        for person in persons {
            let sets: Vec<u32> = person.iter().map(|set| histories.sets.number(set)).collect();
            histories.push(sets);
        }
        let release = |rows: &&[u32]| ReleaseClasses { rows: rows.to_vec(), values: Vec::new() };
        let releases: Vec<ReleaseClasses> = rows.iter().map(release).collect();
        let assigned = &histories.assigned(&releases);
        let of = |person: usize| {
            (0..rows.len()).map(move |release| assigned.classes(person, release).to_vec())
        };
        (0..persons.len()).map(|person| of(person).collect()).collect()
    }

    #[test]
    fn classes_hold_as_many_as_they_have_rows() {
        // The second could be in either, and must make room for the third.
        let found = assigned(&[&[&[0]], &[&[0, 1]], &[&[0]], &[&[1]], &[&[0]]], &[&[2, 2]]);
        assert_eq!(found, [[vec![0]], [vec![1]], [vec![0]], [vec![1]], [vec![]]]);
        // A chain: everybody moves by one.
        let found = assigned(&[&[&[0, 1]], &[&[1, 2]], &[&[0]], &[&[1]]], &[&[1, 1, 1]]);
        let classes = |person: usize| found[person][0].len();
        assert_eq!((classes(2), (0..4).map(classes).sum::<usize>()), (1, 3));
    }

    #[test]
    fn who_was_together_stays_together_where_there_is_room() {
        let both: &[u32] = &[0, 1];
        let persons: [&[&[u32]]; 4] = [&[&[0], both], &[&[1], both], &[&[0], both], &[&[1], both]];
        let found = assigned(&persons, &[&[2, 2], &[2, 2]]);
        assert_eq!(found[0][1], found[2][1]);
        assert_eq!(found[1][1], found[3][1]);
        assert_ne!(found[0][1], found[1][1]);
    }
}
