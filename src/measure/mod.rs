//! Measures of a release, from its classes.

mod incomplete;
mod loss;

pub use incomplete::{ColumnLoss, IncompleteLoss, Span, incomplete_loss};
pub use loss::loss;
