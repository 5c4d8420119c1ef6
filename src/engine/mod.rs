//! The functions as parts of DataFusion: SQL, logical node, physical operator, settings.

mod arguments;
mod arrow_files;
mod builder;
mod census;
#[cfg(feature = "codec")]
pub(crate) mod codec;
mod config;
mod errors;
mod exec;
mod file_statistics;
mod hierarchies;
mod logical;
mod options;
mod physical;
mod planner;
mod reason;
mod reports;
mod session;
mod spec;
mod staging;
#[cfg(test)]
mod toy_method;
mod two_tables;
mod visible_order;
mod written;

#[cfg(feature = "codec")]
pub use codec::{AnonymizeLogicalCodec, AnonymizePhysicalCodec};
pub use config::AnonymizeConfig;
pub use errors::without_values;
pub use exec::{
    AnonymizeExec, CellColumns, CellExec, CellStep, CompactBatchesExec, PlanCells, PlanForCluster,
    ReleaseShape, WithheldErrorsExec,
};
pub use file_statistics::{ForgetFileStatistics, read_what_files_hold};
pub use logical::AnonymizeNode;
pub use options::{
    Anonymize, Definition, Hierarchy, Lookup, Options, Place, Relation, SeedSource, Sensitivity,
    Value,
};
pub use physical::{
    AnonymizeExtensionPlanner, AnonymizeQueryPlanner, holds_release, writes_release,
};
pub use planner::AnonymizeRelationPlanner;
pub use reports::{Published, ReportExec, ReportNode, plan_privacy_report, plan_utility_report};
pub use session::{
    register_all, register_sql, use_seed, with_cluster_planning, with_planning, with_settings,
};
pub use spec::{Models, Publish, Spec, Suppress};
pub use staging::{StageReleases, staged_copy, sync_directory, sync_tree, until_published};
pub use two_tables::{TwoFiles, write_two_tables};
pub use visible_order::OrderByVisibleColumns;
pub use written::check_may_be_written;

pub(crate) use errors::{execution_error, looked_at, planning_error, without_values_of_kernels};
