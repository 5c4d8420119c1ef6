//! From logical nodes to operators, and the optimizer rules that keep promises of a release in the plan around it.

#[cfg(feature = "codec")]
mod cluster;
mod compact;
mod file_statistics;
mod planner;
#[cfg(feature = "codec")]
mod redact;
mod visible_order;

pub use file_statistics::{ForgetFileStatistics, ignore_file_statistics};
pub use planner::{
    AnonymizeExtensionPlanner, AnonymizeQueryPlanner, holds_release, writes_release,
};
pub use visible_order::OrderByVisibleColumns;
