//! What every bucket keeps.

use super::groups::Groups;
use super::{Options, Variant};
use crate::error::Error;
use crate::hierarchy::{Axis, Shape};

/// What every bucket of a table keeps.
pub(super) struct Promise<'a> {
    pub(super) options: &'a Options<'a>,
    pub(super) groups: &'a Groups,
    k: u32,
    /// Number of quasi-identifiers.
    attributes: usize,
    /// By sensitive code, a number for its node; empty where values need not be of different nodes.
    nodes: Vec<u32>,
}

impl<'a> Promise<'a> {
    pub(super) fn new(k: u32, options: &'a Options<'a>, groups: &'a Groups) -> Self {
        let nodes = match options.nodes && options.variant == Variant::Best {
            true => nodes(options.sensitive),
            false => Vec::new(),
        };
        Self { options, groups, k, attributes: groups.attributes(), nodes }
    }

    /// Whether buckets are those of the paper.
    pub(super) fn is_paper(&self) -> bool {
        self.options.variant == Variant::Paper
    }

    /// How many columns a bucket has in which these quasi-identifiers vary.
    pub(super) fn columns(&self, varying: u64) -> usize {
        1 + self.groups.count(varying).max(1) + usize::from(self.options.has_kept)
    }

    /// How many columns a bucket is meant to have.
    pub(super) fn meant_columns(&self) -> usize {
        match self.options.variant {
            Variant::Best => self.columns(all(self.attributes.min(LEAST_GROUPS))),
            Variant::Paper => 2 + usize::from(self.options.has_kept),
        }
    }

    /// How many columns a bucket has at most.
    pub(super) fn most_columns(&self) -> usize {
        match self.options.variant {
            Variant::Best => self.columns(all(self.attributes)),
            Variant::Paper => self.meant_columns(),
        }
    }

    /// The fewest rows of a bucket of so many columns.
    pub(super) fn least_rows(&self, columns: usize) -> usize {
        let l = self.options.l as usize;
        let diverse = match self.options.variant {
            Variant::Best => needed_rows(l, columns),
            // As many as it has columns, so that none keeps its own parts of two of them.
            Variant::Paper => l.max(columns),
        };
        diverse.max(self.k as usize)
    }

    /// Whether a bucket of so many columns may have so many rows of one value.
    pub(super) fn allows(&self, most: usize, rows: usize, columns: usize) -> bool {
        match self.options.variant {
            Variant::Best => needed_rows(self.options.l as usize * most, columns) <= rows,
            Variant::Paper => true,
        }
    }

    /// The most rows of one value that so many rows in so many columns may have.
    pub(super) fn cap(&self, rows: usize, columns: usize) -> usize {
        rows.saturating_sub(needed_rows(0, columns)) / self.options.l as usize
    }

    /// The node of a sensitive code. A bucket has values of at least two nodes.
    pub(super) fn node(&self, code: u32) -> Option<u32> {
        self.nodes.get(code as usize).copied()
    }

    /// Whether the values of these codes come from at least two nodes, where that is asked for.
    pub(super) fn has_nodes(&self, mut codes: impl Iterator<Item = u32>) -> bool {
        let first = codes.next().and_then(|code| self.node(code));
        first.is_none_or(|first| codes.any(|code| self.node(code) != Some(first)))
    }

    /// Whether rows with so many of every sensitive code may be one bucket of all columns.
    pub(super) fn holds_for(&self, counts: &[u32]) -> bool {
        let present = || counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let most = counts.iter().max().copied().unwrap_or(0) as usize;
        let rows = counts.iter().sum::<u32>() as usize;
        present().count() >= self.options.l as usize
            && self.allows(most, rows, self.most_columns())
            && self.has_nodes(present().map(|(code, _)| code as u32))
    }

    /// The error for a table that cannot keep the promise even as a single bucket.
    pub(super) fn unsatisfiable(&self) -> Error {
        let l = self.options.l;
        let requirement = match self.options.variant {
            Variant::Best => {
                let nodes = match self.nodes.is_empty() {
                    true => "",
                    false => ", and values of two nodes of their hierarchy",
                };
                format!(
                    "l = {l}, a chance of at most 1/{l} to name a value{nodes} (variant => 'paper' asks for \
                     different values only)"
                )
            }
            Variant::Paper => format!("l = {l} different values"),
        };
        Error::Unsatisfiable { requirement }
    }
}

/// Groups of quasi-identifiers that stay apart in a bucket, where so many vary.
pub(super) const LEAST_GROUPS: usize = 3;

/// All of so many attributes.
pub(super) fn all(attributes: usize) -> u64 {
    if attributes >= 64 { u64::MAX } else { (1 << attributes) - 1 }
}

/// The positions of the bits that are set.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (at < 64).then_some(at as usize)
    })
}

/// The fewest rows in which `weight`, l times the rows of one value, keeps the chance of 1/l.
///
/// Each column beside the sensitive attribute's rules one row out for every person, so c columns leave
/// n − c + 1. In two columns these are equally likely. In up to five they are nearly so, and one more row makes
/// up for it: the tests count all cases, and search for the worst bucket. For any number of
/// columns: fix where everybody is in the other columns, and let a person's value be in row r. Swapping
/// it with the value in row s gives another possible table, unless that puts the person, or the owner of the value
/// in s, into a row that is ruled out for them: c − 1 rows each. So of n rows with m of one value at least
/// n − m − 2(c − 1) swaps lead to another value, and at most m swaps back: the chance is at most m / (n − 2c + 2).
pub(super) fn needed_rows(weight: usize, columns: usize) -> usize {
    weight
        + match columns {
            0..=2 => 1,
            3..=5 => columns,
            _ => 2 * columns - 2,
        }
}

/// By code, a number for its node below the top, or below the lowest node that covers all values. Empty if the values
/// have no node above them.
fn nodes(axis: &Axis) -> Vec<u32> {
    let Shape::Tree(tree) = &axis.shape else { return Vec::new() };
    if axis.codes < 2 {
        return Vec::new();
    }
    let mut top = tree.nodes() - 1;
    while top >= tree.codes() {
        let below = |code: u32| {
            let mut node = code;
            while tree.parent(node) != top {
                node = tree.parent(node);
            }
            node
        };
        let nodes: Vec<u32> = (0..axis.codes).map(below).collect();
        match nodes.windows(2).any(|pair| pair[0] != pair[1]) {
            true => return nodes,
            false => top = nodes.first().copied().unwrap_or(0),
        }
    }
    Vec::new()
}
