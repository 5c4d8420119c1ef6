//! Measures of a release, from its classes or its published nodes.

mod loss;
mod precision;

pub use loss::loss;
pub use precision::precision;
