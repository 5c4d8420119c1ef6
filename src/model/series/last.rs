//! Whether the last release is the one that the state is about.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::Members;
use crate::error::{Error, Result};

/// Counts the rows of every cohort in the last release. Several threads add to it.
#[derive(Debug)]
pub struct LastCheck {
    /// By cohort, its rows.
    rows: Vec<AtomicU32>,
    /// By cohort, the hash of its quasi-identifiers, 0 before there was one.
    tuples: Vec<AtomicU64>,
    /// Rows whose cohort the state does not know.
    unknown: AtomicUsize,
    /// Stretches of rows that publish other quasi-identifiers than their cohort.
    torn: AtomicUsize,
}

impl LastCheck {
    /// Bytes that it takes.
    pub fn bytes(cohorts: usize) -> usize {
        cohorts * (size_of::<AtomicU32>() + size_of::<AtomicU64>())
    }

    /// Nothing has been read yet.
    pub fn new(members: &Members) -> Self {
        let cohorts = members.cohorts().len();
        Self {
            rows: (0..cohorts).map(|_| AtomicU32::new(0)).collect(),
            tuples: (0..cohorts).map(|_| AtomicU64::new(0)).collect(),
            unknown: AtomicUsize::new(0),
            torn: AtomicUsize::new(0),
        }
    }

    /// Takes note of rows that publish the same quasi-identifiers.
    pub fn add(&self, cohort: u32, rows: usize, tuple: u64) {
        // A hash of 0 would look like none.
        let tuple = tuple | 1;
        self.rows[cohort as usize].fetch_add(rows as u32, Ordering::Relaxed);
        let known = &self.tuples[cohort as usize];
        let first = known.compare_exchange(0, tuple, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|known| known != tuple) {
            self.torn.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes note of rows whose cohort the state does not know.
    pub fn add_unknown(&self, rows: usize) {
        self.unknown.fetch_add(rows, Ordering::Relaxed);
    }

    /// Which cohorts the last release has, once all of it was read. Others were withdrawn.
    pub fn published(&self, members: &Members, k: u32) -> Result<Vec<bool>> {
        let unknown = self.unknown.load(Ordering::Relaxed);
        if unknown > 0 {
            return Err(Error::invalid(format!(
                "option 'series': {unknown} rows of 'last' are of cohorts that 'members' does not have: the state is \
                 older than the release; give all rows that publish => 'members' gave up to that release"
            )));
        }
        let rows = || self.rows.iter().map(|rows| rows.load(Ordering::Relaxed));
        let sizes = || members.cohorts().iter().map(|cohort| cohort.size);
        let count = |of: &dyn Fn(u32, u32) -> bool| {
            rows().zip(sizes()).filter(|(rows, size)| *rows > 0 && of(*rows, *size)).count()
        };
        let partial = count(&|rows, size| rows != size);
        let torn = self.torn.load(Ordering::Relaxed);
        if partial + torn > 0 {
            return Err(Error::invalid(format!(
                "option 'series': 'last' is not a release as it was published: {partial} of its cohorts have other \
                 numbers of rows than members, and in {torn} places the rows of a cohort differ in their \
                 quasi-identifiers; give the whole last release, unchanged"
            )));
        }
        let small = count(&|rows, _| rows < k);
        if small > 0 {
            return Err(Error::invalid(format!(
                "option 'series': {small} cohorts of 'last' have fewer than k = {k} rows: the series was begun with a \
                 smaller k; write that one, or begin a new series with empty tables, which can be compared with \
                 this one"
            )));
        }
        let published: Vec<bool> = rows().map(|rows| rows > 0).collect();
        if !members.is_empty() && !published.contains(&true) {
            return Err(Error::invalid(
                "option 'series': 'last' has no cohort of 'members': give the last release of this series; without \
                 it nobody of the series is published again",
            ));
        }
        Ok(published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cancel, Seed};

    #[test]
    fn a_release_that_is_not_the_last_one_is_found_out() -> Result<()> {
        let rows = vec![[1, 0, 5], [2, 0, 5], [3, 0, 8], [4, 0, 8], [5, 0, 8]];
        let members = Members::new(rows.into(), Seed::from_bytes(b"s"), &Cancel::default())?;
        let published = |added: &[(u32, usize, u64)], unknown, k| {
            let check = LastCheck::new(&members);
            added.iter().for_each(|(cohort, rows, tuple)| check.add(*cohort, *rows, *tuple));
            check.add_unknown(unknown);
            check.published(&members, k).map_err(|error| error.to_string())
        };
        assert_eq!(published(&[(0, 1, 7), (1, 3, 8), (0, 1, 7)], 0, 2), Ok(vec![true, true]));
        assert_eq!(published(&[(1, 3, 0)], 0, 2), Ok(vec![false, true]));
        let fails = |added: &[(u32, usize, u64)], unknown, k, says: &str| {
            let error = published(added, unknown, k).err().unwrap_or_default();
            assert!(error.contains(says), "{error}");
        };
        fails(&[(1, 2, 8)], 0, 2, "1 of its cohorts");
        fails(&[(0, 1, 7), (0, 1, 9)], 0, 2, "in 1 places");
        fails(&[(0, 2, 7)], 3, 2, "3 rows");
        fails(&[(0, 2, 7)], 0, 3, "fewer than k = 3");
        fails(&[], 0, 2, "has no cohort");
        Ok(())
    }
}
