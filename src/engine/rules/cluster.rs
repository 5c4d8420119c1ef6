//! Plans for an engine that gives every task a part of a plan's input.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::redact::redact_errors_of_inputs;
use super::visible_order::OrderByVisibleColumns;
use crate::engine::exec::{AnonymizeExec, PlanCells};

/// Makes plans fit for an engine that runs every partition of a scan in a task of its own, as Ballista does.
///
/// - A release that is not in cells needs all rows in one task; on one machine it reads the partitions of its
///   input itself. This is the difference between a release of a table and one of its first partition.
/// - Stages without one of our operators redact values from errors too.
#[derive(Debug, Default)]
pub struct PlanForCluster;

impl PhysicalOptimizerRule for PlanForCluster {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fit = |plan: Arc<dyn ExecutionPlan>| {
            if let Some(release) = plan.downcast_ref::<AnonymizeExec>() {
                return Ok(Transformed::yes(Arc::new(release.in_one_task()) as _));
            }
            Ok(Transformed::no(plan))
        };
        redact_errors_of_inputs(plan.transform_up(fit).data()?)
    }

    fn name(&self) -> &str {
        "PlanForCluster"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Applies the rules that a plan for a cluster needs: engines bring optimizer rules of their own.
pub(super) fn fit(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rules: [&dyn PhysicalOptimizerRule; 3] =
        [&OrderByVisibleColumns, &PlanCells, &PlanForCluster];
    rules.iter().try_fold(plan, |plan, rule| rule.optimize(plan, config))
}

/// A plan whose last step is one task. Ballista may run the tasks of a step again when an executor has died, and
/// nothing after the last step would notice that rows come twice.
pub(super) fn end_in_one_task(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_partitioning().partition_count() {
        1 => plan,
        _ => match plan.output_ordering().cloned() {
            Some(order) => Arc::new(SortPreservingMergeExec::new(order, plan)),
            None => Arc::new(CoalescePartitionsExec::new(plan)),
        },
    }
}
