//! Verification of every bucket before it is published.

use super::columns::{Columns, varying};
use super::promise::{LEAST_GROUPS, Promise, all, bits};
use super::rows::Rows;
use crate::error::{Error, Result};

/// A bucket as it was and as it is published.
pub(super) struct Published<'a> {
    pub(super) original: &'a Rows,
    pub(super) published: &'a Rows,
    pub(super) kept: &'a [u32],
    pub(super) columns: &'a Columns,
    /// By quasi-identifier, whether it publishes what covers the bucket.
    pub(super) covered: u64,
}

impl Published<'_> {
    /// Fails unless the bucket keeps every promise.
    pub(super) fn check(&self, promise: &Promise, k: u32) -> Result<()> {
        let (attributes, options) = (promise.groups.attributes(), promise.options);
        let broken = |promise: &str| Err(Error::bug(format!("a bucket {promise}")));
        let rows = self.published.len();
        if rows < k as usize || self.original.len() != rows {
            return broken("is too small");
        }
        let others = || self.columns.others.iter().copied();
        let columns = || std::iter::once(self.columns.with_sensitive).chain(others());
        if self.columns.others.is_empty() || self.columns.others.contains(&0) {
            return broken("has one column only");
        }
        let disjoint = columns().map(u64::count_ones).sum::<u32>() as usize == attributes;
        if !disjoint || columns().fold(0, |all, column| all | column) != all(attributes) {
            return broken("has a quasi-identifier in no column or in two");
        }
        // Every column publishes the parts it had, the sensitive attribute's each at its own row.
        for column in &self.columns.others {
            if !self.same_parts(*column, attributes) {
                return broken("publishes values that it did not have");
            }
        }
        let own = self.original.iter().zip(self.published.iter()).all(|(original, published)| {
            let same = |at: usize| original[at] == published[at];
            same(attributes) && bits(self.columns.with_sensitive).all(same)
        });
        let own = own && self.original.ids == self.published.ids;
        if !own {
            return broken("has lost a sensitive value");
        }
        if options.has_kept {
            let own = || 0..rows as u32;
            let mut kept = self.kept.to_vec();
            if own().zip(&kept).any(|(place, kept)| place == *kept) {
                return broken("keeps a row together");
            }
            kept.sort_unstable();
            if !own().eq(kept) {
                return broken("publishes kept values that it did not have");
            }
        }
        if !promise.is_paper() && !self.is_apart(attributes, options.max_columns) {
            return broken("shows too many quasi-identifiers together");
        }
        let columns = 1 + self.columns.others.len() + usize::from(options.has_kept);
        if !is_diverse(self.published, promise, self.sensitive_part(), columns) {
            return broken("gives a sensitive value away");
        }
        Ok(())
    }

    /// What parts the bucket for whoever knows a person's quasi-identifiers.
    fn sensitive_part(&self) -> u64 {
        self.columns.with_sensitive & !self.covered
    }

    /// Whether enough groups of quasi-identifiers that vary are apart, each of them small enough.
    fn is_apart(&self, attributes: usize, most: usize) -> bool {
        let varying = varying(self.original, attributes);
        let groups = || self.columns.others.iter().map(|column| column & varying);
        let least = (varying.count_ones() as usize).min(LEAST_GROUPS);
        self.columns.with_sensitive & varying == 0
            && groups().all(|group| group.count_ones() as usize <= most)
            && groups().filter(|group| *group != 0).count() >= least
    }

    fn same_parts(&self, column: u64, attributes: usize) -> bool {
        let parts = |rows: &Rows| {
            let part = |row: &[u32]| -> Vec<u32> {
                bits(column).filter(|at| *at < attributes).map(|at| row[at]).collect()
            };
            let mut parts: Vec<Vec<u32>> = rows.iter().map(part).collect();
            parts.sort_unstable();
            parts
        };
        parts(self.original) == parts(self.published)
    }
}

/// Whether every part of a bucket, rows that agree in these quasi-identifiers, is diverse enough in so
/// many columns.
pub(super) fn is_diverse(rows: &Rows, promise: &Promise, parted_by: u64, columns: usize) -> bool {
    let sensitive = promise.groups.attributes();
    let key = |row: &[u32]| -> (Vec<u32>, u32) {
        (bits(parted_by).map(|at| row[at]).collect(), row[sensitive])
    };
    let mut keys: Vec<(Vec<u32>, u32)> = rows.iter().map(key).collect();
    keys.sort_unstable();
    keys.chunk_by(|a, b| a.0 == b.0).all(|part| {
        let values = part.chunk_by(|a, b| a.1 == b.1);
        let (different, most) =
            values.fold((0, 0), |(different, most), value| (different + 1, value.len().max(most)));
        different >= promise.options.l as usize
            && promise.allows(most, part.len(), columns)
            && promise.has_nodes(part.iter().map(|(_, value)| *value))
    })
}
