//! Census-like microdata of any size, made up on the spot, for demonstrations, tests and benchmarks.
//!
//! [`register`] gives a session two table functions:
//!
//! | function | rows |
//! | --- | --- |
//! | `sample_census(rows => 1000, seed => 0, missing => 0)` | that many rows; `missing` is the share of empty cells |
//! | `sample_hierarchy(column => 'education')` | the values of a column and what they generalize to |
//!
//! Nobody has to download the data, and it harms nobody. The rows resemble a census where it matters to
//! anonymization: a few values are common and many are rare, and columns depend on each other (marital status on
//! age, occupation on schooling, pay on all of it), so that a release can lose or keep something.
//!
//! Every row is a function of the seed and its number. From this follows the rest: a sample of ten rows
//! is the beginning of a sample of a million; partitions, batch sizes and projections change nothing;
//! memory does not grow.
//!
//! With the feature `codec` plans that read these tables can be written as bytes, for engines that run them on several
//! machines. Without the default feature `engine` the crate is empty.
//!
//! # In the code
//!
//! * `categories`, `countries`, `places`, `work`: what the society looks like
//! * `model`: the same as tables that can be drawn from; `random`: the draws
//! * `persons`: which rows belong to one person
//! * `generate`: rows as arrays; `exec`: arrays as a scan; `table`: the scan as a table
//! * `hierarchy`: how the values generalize
//! * `planner`, `arguments`: both as functions of SQL; `codec`: both as bytes

#![cfg(feature = "engine")]

mod arguments;
mod categories;
#[cfg(feature = "codec")]
mod codec;
mod column;
mod countries;
mod exec;
mod generate;
mod hierarchy;
mod model;
mod persons;
mod places;
mod planner;
mod random;
mod table;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

#[cfg(feature = "codec")]
pub use codec::SampleCodec;

/// Registers `sample_census` and `sample_hierarchy`.
///
/// ```
/// # use datafusion::prelude::SessionContext;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let context = SessionContext::new();
/// anonymize_sample::register(&context)?;
/// let people = context
///     .sql("SELECT age, education, level1 AS schooling FROM sample_census(rows => 500, seed => 7)
///           JOIN sample_hierarchy(column => 'education') ON education = leaf")
///     .await?;
/// assert_eq!(people.count().await?, 500);
/// # Ok(())
/// # }
/// ```
pub fn register(context: &SessionContext) -> Result<()> {
    context.register_relation_planner(Arc::new(planner::SamplePlanner))
}
