//! Who is here tonight.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rayon::prelude::*;

use super::Members;
use crate::error::Result;
use crate::model::Cancel;

/// The cohort of a person who is in none.
pub const NEWCOMER: u32 = u32::MAX;

/// Rows that are looked up together.
const ROWS_AT_ONCE: usize = 1 << 14;

/// The persons of tonight's rows.
#[derive(Debug)]
pub struct Attendance {
    /// By row number, the position of the person's cohort, or [`NEWCOMER`].
    pub cohort_of: Vec<u32>,
    /// By cohort, how many of its members are here.
    pub present: Vec<u32>,
    /// Rows of members that are not the first one of their person.
    repeated: usize,
}

/// The rows of persons who are in no cohort.
#[derive(Debug)]
pub struct Newcomers {
    /// Their numbers, in the order of the persons' hashes: it depends on nothing but the persons.
    pub rows: Vec<u32>,
    /// Rows of newcomers and members that are not the first one of their person.
    pub repeated: usize,
}

impl Attendance {
    /// Bytes that [`Attendance::of`] takes.
    pub fn work_bytes(rows: usize, members: &Members) -> usize {
        let of_cohorts = size_of::<u32>() * members.cohorts().len();
        size_of::<u32>() * rows + members.len() / 8 + of_cohorts
    }

    /// Looks up the person of every row. Works on the current rayon pool.
    pub fn of(persons: &[u128], members: &Members, cancel: &Cancel) -> Result<Self> {
        let mut cohort_of = vec![NEWCOMER; persons.len()];
        let seen: Vec<AtomicU64> =
            (0..members.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let repeated = AtomicUsize::new(0);
        let parts = persons.par_chunks(ROWS_AT_ONCE).zip(cohort_of.par_chunks_mut(ROWS_AT_ONCE));
        parts.try_for_each(|(persons, cohorts)| {
            cancel.check()?;
            for (person, place) in persons.iter().zip(cohorts) {
                let Some((member, cohort)) = members.find(*person) else { continue };
                let bit = 1u64 << (member % 64);
                let before = seen[member as usize / 64].fetch_or(bit, Ordering::Relaxed);
                if before & bit != 0 {
                    repeated.fetch_add(1, Ordering::Relaxed);
                }
                *place = cohort;
            }
            Ok(())
        })?;
        let mut present = vec![0u32; members.cohorts().len()];
        for cohort in &cohort_of {
            if let Some(present) = present.get_mut(*cohort as usize) {
                *present += 1;
            }
        }
        Ok(Self { cohort_of, present, repeated: repeated.into_inner() })
    }

    /// Bytes that [`Attendance::newcomers`] takes.
    pub fn newcomer_bytes(&self) -> usize {
        let members: usize = self.present.iter().map(|present| *present as usize).sum();
        (self.cohort_of.len() - members) * (size_of::<(u64, u32)>() + size_of::<u32>())
    }

    /// The rows of newcomers, given the person of every row. Works on the current rayon pool.
    pub fn newcomers(&self, persons: &[u128]) -> Newcomers {
        let rows = self.cohort_of.iter().zip(0u32..);
        // The higher halves decide nearly always, and stand side by side.
        let mut new: Vec<(u64, u32)> = rows
            .filter(|(cohort, _)| **cohort == NEWCOMER)
            .map(|(_, row)| ((persons[row as usize] >> 64) as u64, row))
            .collect();
        let person = |of: &(u64, u32)| persons[of.1 as usize];
        new.par_sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| person(a).cmp(&person(b))).then(a.1.cmp(&b.1))
        });
        let is_again =
            |pair: &&[(u64, u32)]| pair[0].0 == pair[1].0 && person(&pair[0]) == person(&pair[1]);
        let again = new.windows(2).filter(is_again).count();
        let rows = new.into_iter().map(|(_, row)| row).collect();
        Newcomers { rows, repeated: self.repeated + again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Seed;

    #[test]
    fn rows_are_of_members_or_newcomers_and_persons_come_once() -> Result<()> {
        let member = |person: u64, cohort: u64| [person, 0, cohort];
        let rows = vec![member(1, 7), member(2, 7), member(3, 5)];
        let members = Members::new(rows.into(), Seed::from_bytes(b"s"), &Cancel::default())?;
        let of = |persons: &[u64]| {
            let persons: Vec<u128> = persons.iter().map(|of| u128::from(*of) << 64).collect();
            let tonight = Attendance::of(&persons, &members, &Cancel::default())?;
            let new = tonight.newcomers(&persons);
            Ok::<_, crate::Error>((tonight, new))
        };
        let (tonight, new) = of(&[9, 2, 3, 8])?;
        assert_eq!(tonight.cohort_of, [NEWCOMER, 1, 0, NEWCOMER]);
        assert_eq!((tonight.present, new.rows), (vec![1, 1], vec![3, 0]));
        assert_eq!((new.repeated, of(&[9, 2, 9, 2, 2])?.1.repeated), (0, 3));
        Ok(())
    }
}
