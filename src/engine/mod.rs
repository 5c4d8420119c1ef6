//! The functions as parts of DataFusion: SQL, logical nodes, physical operators, settings.
//!
//! ```text
//! {errors, operator, wire} ← options ← {plan, hierarchies} ← {exec, reports} ← staging ← {rules, codec} ← sql
//! ```
//!
//! Each folder uses only those to its left. `tests/invariants/layers.rs` looks at the imports.

#[cfg(feature = "cluster")]
mod codec;
mod errors;
mod exec;
mod hierarchies;
mod operator;
mod options;
mod plan;
mod reports;
mod rules;
mod sql;
mod staging;
#[cfg(test)]
mod toy_method;
#[cfg(test)]
mod toy_option;
#[cfg(feature = "cluster")]
mod wire;

#[cfg(feature = "cluster")]
pub use codec::{AnonymizeLogicalCodec, AnonymizePhysicalCodec};
pub use errors::{Fault, redact_values};
#[cfg(feature = "cells")]
pub use exec::CellExec;
pub use exec::{AnonymizeExec, SeriesFigures, person_in_series};
pub use options::{
    Anonymize, AnonymizeConfig, Chosen, Definition, Hierarchy, Lookup, Models, Newcomers, Options,
    Place, Publish, Relation, SeedSource, Sensitivity, SeriesTables, Spec, Suppress, Value,
};
pub use plan::{AnonymizeNode, check_may_be_written};
pub use reports::{Published, plan_privacy_report, plan_series_report, plan_utility_report};
pub use rules::{
    AnonymizeExtensionPlanner, AnonymizeQueryPlanner, holds_release, ignore_file_statistics,
    writes_release,
};
#[cfg(feature = "cluster")]
pub use sql::with_cluster_planning;
pub use sql::{
    AnonymizeRelationPlanner, register_all, register_sql, use_seed, with_planning, with_settings,
};
pub use staging::{
    StageReleases, TwoFiles, staged_copy, sync_directory, sync_tree, until_published,
    write_two_tables,
};

pub(crate) use errors::{join_error, mark_redacted, planning_error, redact_kernel_values};
