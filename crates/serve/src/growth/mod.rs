//! Values that grow: what one expression makes of little, counted before it is made.
//!
//! The engine counts the memory of its operators. It does not count what a single call returns, and a few nested
//! calls of `replace` make more than any machine has. Four rules close that gap:
//!
//! 1. Every function, and `||`, runs in a [`bounded`] wrapper: what it may return is reserved in the query's memory pool
//!    before the call, what it did return stays reserved for as long as it lives.
//! 2. A constant has a largest size: it is repeated for every row where it is used.
//! 3. Operators that repeat the rows of their input (joins, windows, unnest, scalar subqueries) take no rows that are too
//!    [`wide`] to be repeated.
//! 4. What has no bound at all is [`refused`], or not there (see [`crate::workspace`]).

pub mod bounded;
mod budget;
mod estimate;
pub mod refused;
pub mod wide;

pub use budget::Budget;
