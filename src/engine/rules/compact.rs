//! Batches that leave a plan hold nothing but the rows they show.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::engine::exec::{CompactBatchesExec, is_release};

type Plan = Arc<dyn ExecutionPlan>;

/// The plan with a [`CompactBatchesExec`] on top, if it passes on some rows of a release and not all as they are.
/// Below a sink or `EXPLAIN ANALYZE` it goes under that.
pub(super) fn compact_output(plan: Plan) -> Result<Plan> {
    if plan.is::<DataSinkExec>() || plan.is::<AnalyzeExec>() {
        let children = plan.children().into_iter().map(Arc::clone);
        let children = children.map(compact_output).collect::<Result<Vec<Plan>>>()?;
        return replace_children_if_necessary(plan, children);
    }
    Ok(match contains_release(&plan) && !is_whole_release(&plan) {
        true => Arc::new(CompactBatchesExec::new(plan)),
        false => plan,
    })
}

fn contains_release(plan: &Plan) -> bool {
    is_release(plan) || plan.children().into_iter().any(contains_release)
}

/// Whether everything above the release passes on all of its rows unchanged.
fn is_whole_release(plan: &Plan) -> bool {
    if is_release(plan) {
        return true;
    }
    let hands_on = match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => projection.expr().iter().all(|column| column.expr.is::<Column>()),
        None => plan.is::<CoalescePartitionsExec>() || plan.is::<CooperativeExec>(),
    };
    hands_on && plan.children().into_iter().all(is_whole_release)
}
