//! What a method works from, beside the rows.

use crate::hierarchy::Axis;
use crate::model::{Cancel, Requirement, RowKeys, SensitiveColumn};

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
