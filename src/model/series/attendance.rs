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
    /// The rows of newcomers, in the order of their persons' hashes.
    pub newcomers: Vec<u32>,
    /// Rows that are the second or a later one of their person.
    pub repeated: usize,
}

impl Attendance {
    /// Bytes that it takes for rows of which so many are of newcomers.
    pub fn work_bytes(rows: usize, members: &Members) -> usize {
        let of_cohorts = size_of::<u32>() * members.cohorts().len();
        // A newcomer's row number and hash, while persons with several rows are looked for.
        rows * (2 * size_of::<u32>() + size_of::<(u128, u32)>()) + members.len() / 8 + of_cohorts
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
        let (newcomers, again) = newcomers(persons, &cohort_of);
        Ok(Self { cohort_of, present, newcomers, repeated: repeated.into_inner() + again })
    }
}

/// The rows of newcomers, and how many of them are not the first one of their person.
fn newcomers(persons: &[u128], cohort_of: &[u32]) -> (Vec<u32>, usize) {
    let rows = cohort_of.iter().zip(persons).zip(0u32..);
    let mut new: Vec<(u128, u32)> = rows
        .filter(|((cohort, _), _)| **cohort == NEWCOMER)
        .map(|((_, person), row)| (*person, row))
        .collect();
    new.par_sort_unstable();
    let again = new.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
    (new.into_iter().map(|(_, row)| row).collect(), again)
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
            Attendance::of(&persons, &members, &Cancel::default())
        };
        let tonight = of(&[9, 2, 3, 8])?;
        assert_eq!(tonight.cohort_of, [NEWCOMER, 1, 0, NEWCOMER]);
        assert_eq!((tonight.present, tonight.newcomers), (vec![1, 1], vec![3, 0]));
        assert_eq!((tonight.repeated, of(&[9, 2, 9, 2, 2])?.repeated), (0, 3));
        Ok(())
    }
}
