//! One error type for the pure layers, sorted by whose turn it is to act.
//!
//! No variant ever carries a cell value: messages hold column names, counts and parameters only, so
//! that an error can be logged anywhere.

use thiserror::Error;

/// What can go wrong while a table is anonymized or measured.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's mistake: the message names the option or column and what to write instead.
    #[error("{0}")]
    Invalid(String),
    /// The input is too small for a single class.
    #[error("{rows} rows cannot form a class of k = {k}: lower k, or anonymize a larger input")]
    TooFewRows {
        /// Rows in the input.
        rows: usize,
        /// The smallest class asked for.
        k: u32,
    },
    /// Not even one class holding the whole table meets the requirement.
    #[error(
        "the whole table does not satisfy {requirement}, so no release of it can: relax that \
         requirement, or anonymize a larger or more varied input"
    )]
    Unsatisfiable {
        /// The part of the requirement that fails, in the words of the options.
        requirement: String,
    },
    /// No rows of the table can be put together so that they meet the requirement.
    #[error(
        "no class of the table's rows satisfies {requirement}: raise alpha, lower k, or anonymize a \
         larger or more varied input"
    )]
    NoClass {
        /// The requirement, in the words of the options.
        requirement: String,
    },
    /// The consumer of the release went away.
    #[error("the anonymization was cancelled")]
    Cancelled,
    /// A promise of ours is broken. The release is withheld.
    #[error("internal check failed, nothing was published: {0}")]
    Bug(String),
}

impl Error {
    /// The caller's mistake, from a ready message.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// A broken promise of ours, from a ready message.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::Bug(message.into())
    }
}

/// Result of the pure layers.
pub type Result<T, E = Error> = std::result::Result<T, E>;
