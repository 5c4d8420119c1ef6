//! k-anonymity and its relatives as SQL table functions for Apache DataFusion.

mod error;
pub mod hierarchy;
pub mod method;
pub mod model;

#[cfg(feature = "engine")]
pub mod engine;

#[cfg(feature = "engine")]
pub use engine::register_all;
pub use error::{Error, Result};
