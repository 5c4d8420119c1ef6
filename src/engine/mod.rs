//! The functions as parts of DataFusion: SQL, logical node, physical operator, settings.

mod arguments;
mod builder;
mod census;
#[cfg(feature = "codec")]
pub(crate) mod codec;
mod config;
mod exec;
mod hierarchies;
mod logical;
mod method;
mod options;
mod physical;
mod planner;
mod reports;
mod session;
mod spec;
mod two_tables;
mod visible_order;

pub use builder::Anonymize;
#[cfg(feature = "codec")]
pub use codec::{AnonymizeLogicalCodec, AnonymizePhysicalCodec};
pub use config::AnonymizeConfig;
pub use exec::{
    AnonymizeExec, CellColumns, CellExec, CellStep, PlanCells, PlanForCluster, ReleaseShape,
    WithheldErrorsExec,
};
pub use logical::AnonymizeNode;
pub use method::Method;
pub use options::{Hierarchy, Sensitivity};
pub use physical::{AnonymizeExtensionPlanner, AnonymizeQueryPlanner, holds_release};
pub use planner::AnonymizeRelationPlanner;
pub use reports::{ReportExec, ReportNode};
pub use session::{
    register_all, register_sql, use_seed, with_cluster_planning, with_planning, with_settings,
};
pub use spec::{Models, Publish, Spec, Suppress};
pub use two_tables::{TwoFiles, write_two_tables};
pub use visible_order::OrderByVisibleColumns;

use datafusion::error::DataFusionError;

use crate::error::Error;

/// A mistake found while a query is planned.
pub(crate) fn planning_error(error: Error) -> DataFusionError {
    match error {
        Error::Bug(message) => DataFusionError::Internal(message),
        other => DataFusionError::Plan(other.to_string()),
    }
}

/// A mistake found while a query runs.
pub(crate) fn execution_error(error: Error) -> DataFusionError {
    match error {
        Error::Bug(_) => DataFusionError::Internal(error.to_string()),
        other => DataFusionError::Execution(other.to_string()),
    }
}

/// An error of the input query, unless it is of a kind that quotes the value it failed on.
pub fn without_values(error: DataFusionError) -> DataFusionError {
    use datafusion::arrow::error::ArrowError;
    use datafusion::common::exec_datafusion_err;
    let quotes_a_value = matches!(
        error.find_root(),
        DataFusionError::ArrowError(kind, _) if !matches!(
            kind.as_ref(),
            ArrowError::MemoryError(_) | ArrowError::IoError(..) | ArrowError::ExternalError(_)
        )
    );
    if quotes_a_value {
        return exec_datafusion_err!(
            "the input of anonymize failed on a value; the message is withheld because it may quote the \
             value: run the input query alone to see it"
        );
    }
    error
}
