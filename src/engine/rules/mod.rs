//! From logical nodes to operators, and the optimizer rules that keep promises of a release in the plan around it.

#[cfg(feature = "cluster")]
mod cluster;
mod compact;
mod file_statistics;
mod planner;
#[cfg(feature = "cluster")]
mod redact;
mod visible_order;

#[cfg(feature = "cluster")]
pub(in crate::engine) use file_statistics::ignoring_file_statistics;
pub use file_statistics::{IgnoreFileStatistics, ignore_file_statistics};
pub use planner::{
    AnonymizeExtensionPlanner, AnonymizeQueryPlanner, holds_release, writes_release,
};
pub use visible_order::OrderByVisibleColumns;
