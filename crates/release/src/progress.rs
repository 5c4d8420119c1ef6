//! What a run tells while it works.

use std::fmt;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Inputs are looked up and the job is planned.
    Prepare,
    /// Rows are anonymized and written to the staging place.
    Anonymize,
    /// What was written is read back and measured.
    Verify,
    /// The release is put in place.
    Publish,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 4] = [Self::Prepare, Self::Anonymize, Self::Verify, Self::Publish];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prepare => "preparing",
            Self::Anonymize => "anonymizing",
            Self::Verify => "verifying",
            Self::Publish => "publishing",
        })
    }
}

/// Somebody who is told what a run does.
pub trait Observer: Send + Sync {
    /// A phase begins.
    fn phase(&self, phase: Phase);

    /// A plan begins to run; the metrics of its sources tell how many rows it has read.
    fn running(&self, plan: &Arc<dyn ExecutionPlan>);
}

/// Nobody is told.
#[derive(Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn phase(&self, _phase: Phase) {}

    fn running(&self, _plan: &Arc<dyn ExecutionPlan>) {}
}

/// Rows that the plan's sources will deliver, if all of them know.
pub fn rows_to_read(plan: &dyn ExecutionPlan) -> Option<usize> {
    let children = plan.children();
    if children.is_empty() {
        let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new()).ok()?;
        return match statistics.num_rows {
            Precision::Exact(rows) => Some(rows),
            _ => None,
        };
    }
    children.into_iter().map(|child| rows_to_read(child.as_ref())).sum()
}

/// Rows that have left the plan's sources so far.
pub fn rows_read(plan: &dyn ExecutionPlan) -> usize {
    let children = plan.children();
    if children.is_empty() {
        return plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0);
    }
    children.into_iter().map(|child| rows_read(child.as_ref())).sum()
}
