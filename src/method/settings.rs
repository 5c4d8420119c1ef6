//! What a method is told beside its rows and its job, and what it gives back.

use super::Variant;
use super::classfly::{Constraint, Recoding};
use super::partition::Split;
use super::slicing::{self, Sliced};
use crate::model::{Classes, Purpose, Secret, Seed};

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
    /// What must hold for the methods that work from constraints.
    pub constraints: &'a [Constraint],
    /// What the slicing methods are told.
    pub slicing: Option<slicing::Settings<'a>>,
    /// Breaks ties, and draws whatever is drawn.
    pub secret: Secret,
}

impl Settings<'_> {
    /// What a query says that names a method and nothing else.
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

    /// The seed of one use.
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
