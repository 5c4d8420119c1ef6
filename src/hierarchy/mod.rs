//! Generalization of one quasi-identifier: trees over its values, and what a generalization loses.
//!
//! A [`Levels`] says for every distinct value of a column under which node it falls on each level.
//! The sources ([`intervals`], [`prefixes`], [`date_steps`], [`LabelTable`]) make one; [`Tree`]
//! turns it into the structure the methods walk, and [`Axis`] is what a method sees of a column.

mod axis;
mod dates;
mod intervals;
mod levels;
mod prefixes;
mod table;
mod tree;

pub use axis::{Axis, MAX_SET_VALUES, Shape};
pub use dates::{DateStep, Instant, date_steps};
#[cfg(feature = "engine")]
pub(crate) use intervals::scaled_decimal;
pub use intervals::{float_intervals, intervals};
pub use levels::{Level, Levels};
pub use prefixes::prefixes;
pub use table::LabelTable;
pub use tree::{TOP, Tree};
