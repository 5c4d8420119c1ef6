//! What one release minus another tells.
//!
//! Somebody knows who is in a class of one release and who is in a class of another. The values of the persons who are
//! in both cancel; what is left belongs to those who are in one of them alone. If exactly as many values are left as
//! persons, and all of them are equal, they are told:
//!
//! ```text
//!   release 1, class 4:  ann, bob, eve     Flu, Flu, HIV
//!   release 2, class 9:  ann, bob          Flu, Flu          eve has HIV
//! ```
//!
//! A value that its class tells without any other release is not counted here: that is what `l` and `alpha` measure.

use super::histories::Histories;

/// The rows of a value, by its number.
type Count = (u32, u32);

/// The values of one sensitive column, class by class.
#[derive(Debug, Clone, Default)]
pub struct ClassValues {
    counts: Vec<Count>,
    /// Where each class starts and ends.
    places: Vec<(usize, usize)>,
}

impl ClassValues {
    /// Sets the values of a class, each once and in ascending order.
    pub fn set(&mut self, class: u32, values: impl IntoIterator<Item = Count>) {
        let class = class as usize;
        if self.places.len() <= class {
            self.places.resize(class + 1, (0, 0));
        }
        let start = self.counts.len();
        self.counts.extend(values);
        self.places[class] = (start, self.counts.len());
    }

    fn of(&self, class: u32) -> &[Count] {
        self.places.get(class as usize).map_or(&[], |(start, end)| &self.counts[*start..*end])
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.counts.capacity() * size_of::<Count>()
            + self.places.capacity() * size_of::<(usize, usize)>()
    }
}

/// What a release publishes of its classes.
#[derive(Debug, Clone, Default)]
pub struct ReleaseClasses {
    /// Rows by class, 0 for numbers that are no class of this release.
    pub rows: Vec<u32>,
    /// The values of every sensitive column.
    pub values: Vec<ClassValues>,
}

impl ReleaseClasses {
    /// Bytes held.
    pub fn memory(&self) -> usize {
        let values: usize = self.values.iter().map(ClassValues::memory).sum();
        values + self.rows.capacity() * size_of::<u32>()
    }

    fn rows(&self, class: u32) -> usize {
        self.rows.get(class as usize).map_or(0, |rows| *rows as usize)
    }
}

/// Persons by sensitive column whose value is told when one release is subtracted from another.
pub fn told_by_subtraction(histories: &Histories, releases: &[ReleaseClasses]) -> Vec<u64> {
    let columns = releases.first().map_or(0, |release| release.values.len());
    let memberships: Vec<Membership> = (releases.iter().enumerate())
        .map(|(number, release)| Membership::new(histories, number, release))
        .collect();
    let mut told = vec![vec![false; histories.persons()]; columns];
    for (number, one) in memberships.iter().enumerate() {
        for other in &memberships[number + 1..] {
            subtract(one, other, &mut told);
        }
    }
    let count = |told: &Vec<bool>| told.iter().filter(|told| **told).count() as u64;
    told.iter().map(count).collect()
}

/// Bytes that [`told_by_subtraction`] takes, roughly.
pub fn subtraction_memory(histories: &Histories, releases: &[ReleaseClasses]) -> usize {
    let columns = releases.first().map_or(0, |release| release.values.len());
    histories.persons() * (releases.len() * 8 + columns)
}

/// Who is where in one release, as far as that is certain.
struct Membership<'a> {
    release: &'a ReleaseClasses,
    /// By person, their class.
    class_of: Vec<u32>,
    /// Persons of certain classes, one class after the other.
    members: Vec<u32>,
    /// Classes with their place among the members.
    classes: Vec<(u32, usize, usize)>,
}

/// Somebody whose class is not certain.
const UNKNOWN: u32 = u32::MAX;

impl<'a> Membership<'a> {
    /// The members of a class are certain if it could hold exactly as many persons as it has rows.
    fn new(histories: &Histories, number: usize, release: &'a ReleaseClasses) -> Self {
        let mut could_be = vec![0u32; release.rows.len()];
        let persons = 0..histories.persons();
        for person in persons.clone() {
            for class in histories.classes(person, number) {
                if let Some(count) = could_be.get_mut(*class as usize) {
                    *count += 1;
                }
            }
        }
        let is_certain = |class: u32| {
            let at = class as usize;
            release.rows.get(at).is_some_and(|rows| *rows > 0 && could_be[at] == *rows)
        };
        let class_of = |person: usize| {
            let mut classes = histories.classes(person, number).iter();
            classes.find(|class| is_certain(**class)).copied().unwrap_or(UNKNOWN)
        };
        let class_of: Vec<u32> = persons.map(class_of).collect();
        let mut members: Vec<u32> =
            (0..class_of.len() as u32).filter(|p| class_of[*p as usize] != UNKNOWN).collect();
        members.sort_by_key(|person| class_of[*person as usize]);
        let mut classes = Vec::new();
        let mut start = 0;
        for group in members.chunk_by(|a, b| class_of[*a as usize] == class_of[*b as usize]) {
            classes.push((class_of[group[0] as usize], start, start + group.len()));
            start += group.len();
        }
        Self { release, class_of, members, classes }
    }

    fn members_of(&self, class: u32) -> &[u32] {
        let found = self.classes.binary_search_by_key(&class, |(class, ..)| *class);
        found.map_or(&[], |at| &self.members[self.classes[at].1..self.classes[at].2])
    }
}

/// A class of one release.
#[derive(Clone, Copy)]
struct Class<'a> {
    of: &'a Membership<'a>,
    number: u32,
}

impl<'a> Class<'a> {
    fn rows(self) -> usize {
        self.of.release.rows(self.number)
    }

    fn values(self, column: usize) -> &'a [Count] {
        self.of.release.values[column].of(self.number)
    }
}

fn subtract(one: &Membership<'_>, other: &Membership<'_>, told: &mut [Vec<bool>]) {
    let mut there = Vec::new();
    for (class, start, end) in &one.classes {
        there.clear();
        let members = &one.members[*start..*end];
        there.extend(members.iter().map(|person| other.class_of[*person as usize]));
        there.sort_unstable();
        for run in there.chunk_by(|a, b| a == b).filter(|run| run[0] != UNKNOWN) {
            let here = Class { of: one, number: *class };
            let there = Class { of: other, number: run[0] };
            subtract_classes(here, there, run.len(), told);
            subtract_classes(there, here, run.len(), told);
        }
    }
}

/// Tells the values of those who are in the first class and not in the second.
fn subtract_classes(
    class: Class<'_>,
    subtracted: Class<'_>,
    in_both: usize,
    told: &mut [Vec<bool>],
) {
    let left = class.rows().saturating_sub(in_both);
    if left == 0 {
        return;
    }
    for (column, told) in told.iter_mut().enumerate() {
        let values = class.values(column);
        if values.len() < 2 || !is_told(values, subtracted.values(column), left) {
            continue;
        }
        for person in class.of.members_of(class.number) {
            if subtracted.of.class_of[*person as usize] != subtracted.number {
                told[*person as usize] = true;
            }
        }
    }
}

/// Whether the first values minus the second are this many, all equal.
fn is_told(values: &[Count], subtracted: &[Count], left: usize) -> bool {
    let mut rest = subtracted.iter().peekable();
    let mut found = None;
    for (value, rows) in values {
        while rest.next_if(|(other, _)| other < value).is_some() {}
        let gone = rest.next_if(|(other, _)| other == value).map_or(0, |(_, rows)| *rows);
        let more = rows.saturating_sub(gone) as usize;
        if more > 0 && found.replace(more).is_some() {
            return false;
        }
    }
    found == Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLU: u32 = 1;
    const HIV: u32 = 2;

    /// Classes by person and release, 0 for nobody's, and the values of every class.
    fn told(persons: &[[u32; 2]], classes: [&[(u32, &[Count])]; 2]) -> Vec<u64> {
        let mut histories = Histories::new(2);
        for person in persons {
            let set = |class: &u32| if *class == 0 { vec![] } else { vec![*class] };
            let sets: Vec<u32> = person.iter().map(|c| histories.sets.number(&set(c))).collect();
            histories.push(sets);
        }
        let release = |classes: &[(u32, &[Count])]| {
            let mut release =
                ReleaseClasses { rows: vec![0; 10], values: vec![Default::default()] };
            for (class, values) in classes {
                release.rows[*class as usize] = values.iter().map(|(_, rows)| rows).sum();
                release.values[0].set(*class, values.iter().copied());
            }
            release
        };
        told_by_subtraction(&histories, &classes.map(release))
    }

    #[test]
    fn who_leaves_a_class_is_told() {
        let before: &[(u32, &[Count])] = &[(4, &[(FLU, 2), (HIV, 1)])];
        let after: &[(u32, &[Count])] = &[(9, &[(FLU, 2)])];
        assert_eq!(told(&[[4, 9], [4, 9], [4, 0]], [before, after]), [1]);
        // Back again.
        assert_eq!(told(&[[9, 4], [9, 4], [0, 4]], [after, before]), [1]);
        // Nobody left.
        assert_eq!(told(&[[4, 4], [4, 4], [4, 4]], [before, before]), [0]);
        // Somebody is missing from the register, so nothing is certain.
        assert_eq!(told(&[[4, 9], [4, 0]], [before, after]), [0]);
    }

    #[test]
    fn two_who_change_places_are_told_if_their_values_differ() {
        let both = |last: u32| -> Vec<(u32, Vec<Count>)> { vec![(4, vec![(FLU, 1), (last, 1)])] };
        let (before, after) = (both(HIV), both(3));
        let release = |classes: &[(u32, Vec<Count>)]| classes.to_vec();
        let (before, after) = (release(&before), release(&after));
        let before: Vec<(u32, &[Count])> = before.iter().map(|(c, v)| (*c, &v[..])).collect();
        let after: Vec<(u32, &[Count])> = after.iter().map(|(c, v)| (*c, &v[..])).collect();
        assert_eq!(told(&[[4, 4], [4, 0], [0, 4]], [&before, &after]), [2]);
    }

    #[test]
    fn several_with_one_value_are_told_and_several_values_are_not() {
        let after: &[(u32, &[Count])] = &[(9, &[(FLU, 1), (3, 1)])];
        let alike: &[(u32, &[Count])] = &[(4, &[(FLU, 1), (HIV, 2), (3, 1)])];
        let persons = [[4, 9], [4, 9], [4, 0], [4, 0]];
        assert_eq!(told(&persons, [alike, after]), [2]);
        let different: &[(u32, &[Count])] = &[(4, &[(FLU, 2), (HIV, 1), (3, 1)])];
        assert_eq!(told(&persons, [different, after]), [0]);
    }

    #[test]
    fn what_a_class_tells_by_itself_is_not_counted() {
        let before: &[(u32, &[Count])] = &[(4, &[(HIV, 3)])];
        let after: &[(u32, &[Count])] = &[(9, &[(HIV, 2)])];
        assert_eq!(told(&[[4, 9], [4, 9], [4, 0]], [before, after]), [0]);
    }
}
