//! k-anonymity and its relatives as SQL table functions for Apache DataFusion.

#[cfg(feature = "engine")]
pub mod columnar;
mod error;
pub mod hierarchy;
pub mod measure;
pub mod method;
pub mod model;

#[cfg(feature = "engine")]
pub mod engine;

#[cfg(feature = "engine")]
pub use engine::register_all;
pub use error::{Error, Result};
