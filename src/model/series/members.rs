//! The state of a series: who is in which cohort.

use rayon::prelude::*;

use super::id_of_sorted;
use crate::error::{Error, Result};
use crate::model::{Cancel, Seed, Store};

/// A person and a cohort: the halves of the person's hash, the higher one first, and the cohort's id.
pub type Member = [u64; 3];

/// A person in a cohort.
#[inline]
pub fn member(person: u128, cohort: u64) -> Member {
    [(person >> 64) as u64, person as u64, cohort]
}

/// All members of all cohorts, each found by the hash of the person.
///
/// 24 bytes a member, in memory or in a file, and a directory: hashes are spread evenly, so their first bits lead to
/// the few members among which a person stands.
#[derive(Debug)]
pub struct Members {
    /// In the order of the hashes; the third number is the position of the cohort.
    rows: Store<Member>,
    /// Where the members start whose hashes begin with the same bits.
    starts: Vec<u32>,
    bits: u32,
    cohorts: Vec<Cohort>,
}

/// A cohort as the state has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cohort {
    /// A keyed hash of its first members.
    pub id: u64,
    /// How many members it has.
    pub size: u32,
    /// Whether its members are those that it was made of: nobody was forgotten, nothing was lost.
    pub is_intact: bool,
}

/// Members that share a place in the directory, about.
const MEMBERS_PER_START: usize = 4;

impl Members {
    /// Bytes that [`Members::new`] takes beside the rows themselves.
    pub fn work_bytes(rows: usize, k: usize) -> usize {
        let starts = size_of::<u32>() * (2 * rows / MEMBERS_PER_START + 2);
        starts + (size_of::<Cohort>() + size_of::<&[Member]>()) * (rows / k.max(1) + 1)
    }

    /// Verifies the cohorts of a state and makes its persons findable. Works on the current rayon pool.
    pub fn new(mut rows: Store<Member>, seed: Seed, cancel: &Cancel) -> Result<Self> {
        if u32::try_from(rows.len()).is_err() {
            return Err(Error::invalid(format!(
                "option 'series': {} members are more than one operator takes (4294967295)",
                rows.len()
            )));
        }
        rows.par_sort_unstable_by_key(|[high, low, cohort]| (*cohort, *high, *low));
        cancel.check()?;
        let cohorts: Vec<Cohort> = {
            let of_cohort: Vec<&[Member]> = rows.chunk_by(|a, b| a[2] == b[2]).collect();
            of_cohort.into_par_iter().map(|members| Cohort::of(members, seed)).collect()
        };
        cancel.check()?;
        let mut start = 0;
        for (position, cohort) in cohorts.iter().enumerate() {
            let end = start + cohort.size as usize;
            rows[start..end].iter_mut().for_each(|member| member[2] = position as u64);
            start = end;
        }
        rows.par_sort_unstable();
        cancel.check()?;
        let twice = rows.par_windows(2).filter(|pair| pair[0][..2] == pair[1][..2]).count();
        if twice > 0 {
            return Err(Error::invalid(format!(
                "option 'series': {twice} persons are in 'members' more than once: it must hold every segment of \
                 the series once"
            )));
        }
        let (starts, bits) = directory(&rows);
        Ok(Self { rows, starts, bits, cohorts })
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none: the series begins.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The cohorts, in the order of their ids.
    pub fn cohorts(&self) -> &[Cohort] {
        &self.cohorts
    }

    /// The position of the cohort of this id.
    pub fn cohort(&self, id: u64) -> Option<u32> {
        self.cohorts.binary_search_by_key(&id, |cohort| cohort.id).ok().map(|at| at as u32)
    }

    /// The position of a person among the members, and that of the person's cohort.
    #[inline]
    pub fn find(&self, person: u128) -> Option<(u32, u32)> {
        let [high, low, _] = member(person, 0);
        let place = leading(high, self.bits);
        let (start, end) = (self.starts[place] as usize, self.starts[place + 1] as usize);
        let among = self.rows[start..end].iter().position(|member| member[..2] == [high, low])?;
        let at = start + among;
        Some((at as u32, self.rows[at][2] as u32))
    }
}

impl Cohort {
    /// The cohort of members in the order of their hashes.
    fn of(members: &[Member], seed: Seed) -> Self {
        let id = members[0][2];
        let hash = |member: &Member| u128::from(member[0]) << 64 | u128::from(member[1]);
        let is_intact = id_of_sorted(members.iter().map(hash), seed) == id;
        Self { id, size: members.len() as u32, is_intact }
    }
}

#[inline]
fn leading(high: u64, bits: u32) -> usize {
    high.checked_shr(u64::BITS - bits).unwrap_or(0) as usize
}

fn directory(rows: &[Member]) -> (Vec<u32>, u32) {
    let bits = (rows.len() / MEMBERS_PER_START).next_power_of_two().trailing_zeros();
    let mut starts = vec![0u32; (1 << bits) + 1];
    rows.iter().for_each(|member| starts[leading(member[0], bits) + 1] += 1);
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    (starts, bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::series::cohort_id;

    const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834;

    fn person(number: u32) -> u128 {
        SPREAD.wrapping_mul(u128::from(number) + 1)
    }

    fn members(groups: &[std::ops::Range<u32>], seed: Seed) -> Vec<Member> {
        let mut all = Vec::new();
        for group in groups {
            let mut persons: Vec<u128> = group.clone().map(person).collect();
            let id = cohort_id(&mut persons, seed);
            all.extend(persons.iter().map(|of| member(*of, id)));
        }
        all
    }

    #[test]
    fn members_are_found_and_others_are_not() -> Result<()> {
        let seed = Seed::from_bytes(b"s");
        for persons in [1, 2, 3, 700] {
            let mut rows = members(&[0..persons / 2 + 1, persons / 2 + 1..persons + 1], seed);
            rows.reverse();
            let state = Members::new(rows.into(), seed, &Cancel::default())?;
            assert!(state.cohorts().iter().all(|cohort| cohort.is_intact));
            for number in 0..persons + 1 {
                let (_, cohort) = state.find(person(number)).unwrap_or_default();
                let size = state.cohorts()[cohort as usize].size;
                assert!(size == persons / 2 + 1 || size == persons - persons / 2);
            }
            assert_eq!(state.find(person(persons + 1)), None);
        }
        let none = Members::new(Vec::new().into(), seed, &Cancel::default())?;
        assert!(none.is_empty() && none.find(7).is_none() && none.cohorts().is_empty());
        Ok(())
    }

    #[test]
    fn a_forgotten_or_lost_person_and_another_seed_break_their_cohorts() -> Result<()> {
        let seed = Seed::from_bytes(b"s");
        let intact = |rows: Vec<Member>, seed| -> Result<usize> {
            let state = Members::new(rows.into(), seed, &Cancel::default())?;
            Ok(state.cohorts().iter().filter(|cohort| cohort.is_intact).count())
        };
        let rows = members(&[0..5, 5..9, 9..12], seed);
        assert_eq!(intact(rows.clone(), seed)?, 3);
        let mut forgotten = rows.clone();
        forgotten[6][0] ^= 1;
        assert_eq!(intact(forgotten, seed)?, 2);
        assert_eq!(intact(rows[1..].to_vec(), seed)?, 2);
        assert_eq!(intact(rows.clone(), Seed::from_bytes(b"t"))?, 0);
        let mut twice = rows;
        twice.push(twice[3]);
        assert!(Members::new(twice.into(), seed, &Cancel::default()).is_err());
        Ok(())
    }
}
