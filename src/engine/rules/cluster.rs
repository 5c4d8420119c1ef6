//! Plans for an engine that gives every task a part of a plan's input.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::redact::redact_errors_of_inputs;
use crate::engine::exec::AnonymizeExec;

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
