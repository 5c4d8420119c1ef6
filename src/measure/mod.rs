//! Measures of a release, from its classes.

mod loss;

pub use loss::loss;
