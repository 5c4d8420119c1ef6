//! A projection above a limit belongs below it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::{ProjectionExec, make_with_child};

use super::exec::AnonymizeExec;

/// Moves a projection from above a limit into the [`AnonymizeExec`] below it.
///
/// The operator orders the rows of a class by what is published of them. DataFusion leaves
/// `SELECT a … LIMIT 5 OFFSET 2` as a projection over a limit over all columns: the order would then
/// tell how the rows stand in columns that the reader does not see.
#[derive(Debug, Default)]
pub(super) struct ProjectBelowLimit;

impl PhysicalOptimizerRule for ProjectBelowLimit {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let swapped = plan.downcast_ref::<ProjectionExec>().map(swap).transpose()?.flatten();
            Ok(swapped.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &str {
        "ProjectBelowLimit"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn swap(projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let limit = projection.input();
    let is_limit = limit.is::<GlobalLimitExec>() || limit.is::<LocalLimitExec>();
    let [release] = limit.children()[..] else { return Ok(None) };
    if !is_limit || !release.is::<AnonymizeExec>() {
        return Ok(None);
    }
    let below = make_with_child(projection, release)?;
    let Some(projection) = below.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let Some(narrow) = release.try_swapping_with_projection(projection)? else { return Ok(None) };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(limit).replace_children(vec![narrow], options).map(Some)
}
