//! k-anonymity and its relatives as SQL table functions for Apache DataFusion.

#[cfg(feature = "engine")]
pub mod engine;

#[cfg(feature = "engine")]
pub use engine::register_all;
