//! The input of a method beside its rows, and its output.

use super::classfly::{Constraint, Recoding};
use super::partition::Split;
use super::slicing::{self, Sliced};
use crate::hierarchy::Axis;
use crate::model::{Cancel, Classes, Purpose, Requirement, RowKeys, Secret, Seed, SensitiveColumn};

/// What a method works from, beside the rows.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The quasi-identifiers, in the order of the codes.
    pub axes: &'a [Axis],
    /// What every class must satisfy.
    pub requirement: &'a Requirement,
    /// The columns the requirement's models look at.
    pub sensitive: &'a [SensitiveColumn],
    /// Tells rows of equal quasi-identifiers apart.
    pub keys: &'a RowKeys,
    /// Checked between groups so that a dropped stream stops the work.
    pub cancel: &'a Cancel,
}

/// The best version of a method that we know, or the one that its paper prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum Variant {
    /// The best version; each method's documentation lists where it departs from its paper.
    #[default]
    Best,
    /// Exactly as printed, for comparisons and for repeating experiments. It may disclose what the best version
    /// protects.
    Paper,
}

/// Options of a query, as far as methods use them. Each reads those that it accepts.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// Which quasi-identifier a group is cut on.
    pub split: Split,
    /// Which version of the method runs.
    pub variant: Variant,
    /// Whether suppressed rows are left out instead of publishing `*`.
    pub drop_suppressed: bool,
    /// The largest share of rows or cells that may be suppressed.
    pub suppression_limit: f64,
    /// Whether the rows are the whole table. The limit of a part is that of all parts together.
    pub is_whole: bool,
    /// How much each quasi-identifier counts in a distance; empty for all alike.
    pub weights: &'a [f64],
    /// The most rows that are compared with each other, if a number was given.
    pub block_rows: Option<usize>,
    /// For methods that take constraints.
    pub constraints: &'a [Constraint],
    /// Options of the slicing methods.
    pub slicing: Option<slicing::Settings<'a>>,
    /// Breaks ties and seeds every random draw.
    pub secret: Secret,
}

impl Settings<'_> {
    /// The settings of a query that names a method and nothing else.
    pub fn new(secret: Secret) -> Self {
        Self {
            split: Split::LeastLoss,
            variant: Variant::Best,
            drop_suppressed: false,
            suppression_limit: 0.0,
            is_whole: true,
            weights: &[],
            block_rows: None,
            constraints: &[],
            slicing: None,
            secret,
        }
    }

    /// The seed for one purpose.
    pub fn seed(&self, purpose: Purpose) -> Seed {
        self.secret.seed(purpose)
    }
}

/// The size of a table, known before its rows are put together.
#[derive(Debug, Clone, Copy)]
pub struct TableShape<'a> {
    /// How many rows it has.
    pub rows: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// The number of codes of every column.
    pub codes: &'a [u32],
    /// The smallest class.
    pub k: usize,
    /// Threads that work at once.
    pub threads: usize,
}

/// What a method makes of the rows, not yet verified.
#[derive(Debug)]
pub enum Unverified {
    /// Classes over the first rows.
    Classes {
        /// The classes, in the order of the rows.
        classes: Classes,
        /// Rows behind the last class, which are not published.
        suppressed: usize,
    },
    /// A node of every hierarchy for each row.
    Recoded(Recoding),
    /// Buckets whose columns were permuted apart.
    Sliced(Sliced),
}

impl From<Classes> for Unverified {
    fn from(classes: Classes) -> Self {
        Self::Classes { classes, suppressed: 0 }
    }
}
