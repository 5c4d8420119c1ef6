//! Releases that follow each other: persons stay in the cohorts that they were put into first.
//!
//! Who compares releases learns from every person who changes class between them. In a series nobody does:
//!
//! 1. A **cohort** is a class of newcomers. It never gains or loses a member, and its id is a keyed hash of its
//!    first members, so that every state can be verified ([`Members`]).
//! 2. A cohort is published whole or not at all ([`Fate`]): with tonight's rows if all its members are here, else as it
//!    was in the last release. Values of tonight that do not meet the requirement are replaced by those of the last
//!    release, in tonight's ranges.
//! 3. Newcomers are grouped among newcomers, or wait ([`Attendance`]).
//!
//! Persons are known by a 128-bit keyed hash of their key ([`person_hash`]); no attribute is ever stored.

mod attendance;
mod fate;
mod groups;
mod last;
mod members;

pub use attendance::{Attendance, NEWCOMER, Newcomers};
pub use fate::{Changes, Fate, Leavers, Presence};
pub use groups::Groups;
pub use last::LastCheck;
pub use members::{Cohort, Member, Members, member};

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use super::Seed;

/// The pseudonym of a person in the state of a series. `key` is the privacy unit as it is written.
pub fn person_hash(key: &[u8], seed: Seed) -> u128 {
    let [first, second] = seed.halves();
    let mut hasher = SipHasher24::new_with_keys(first, second);
    hasher.write(key);
    hasher.finish128().into()
}

/// The id of the cohort of these first members: 63 bits, so that it is a positive BIGINT. The order of the members
/// does not matter; they are sorted.
pub fn cohort_id(members: &mut [u128], seed: Seed) -> u64 {
    members.sort_unstable();
    id_of_sorted(members.iter().copied(), seed)
}

fn id_of_sorted(members: impl ExactSizeIterator<Item = u128>, seed: Seed) -> u64 {
    let mut hasher = seed.hasher();
    hasher.write(&(members.len() as u64).to_le_bytes());
    members.for_each(|member| hasher.write(&member.to_le_bytes()));
    hasher.finish() >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cohort_is_known_by_its_members_in_any_order() {
        let seed = Seed::from_bytes(b"one");
        let id = cohort_id(&mut [3, 1, 2], seed);
        assert_eq!(id, cohort_id(&mut [2, 3, 1], seed));
        assert!(i64::try_from(id).is_ok());
        assert_ne!(id, cohort_id(&mut [1, 2], seed));
        assert_ne!(id, cohort_id(&mut [1, 2, 3], Seed::from_bytes(b"two")));
    }

    #[test]
    fn persons_are_told_apart_and_only_the_seed_finds_them_again() {
        let [one, two] = [Seed::from_bytes(b"one"), Seed::from_bytes(b"two")];
        assert_eq!(person_hash(b"17", one), person_hash(b"17", one));
        assert_ne!(person_hash(b"17", one), person_hash(b"18", one));
        assert_ne!(person_hash(b"17", one), person_hash(b"17", two));
    }
}
