//! Batches that hold the rows they show and nothing else.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use futures::StreamExt;

use super::pass_through::{Pass, PassThroughExec};
use super::{AnonymizeExec, CellExec};
use crate::columnar::live_batch;
use crate::engine::execution_error;

type Plan = Arc<dyn ExecutionPlan>;

/// Passes on the rows of its input in batches that hold no value of any other row.
///
/// A release leaves its own operator in such batches. Operators above it that drop rows keep the values of those rows
/// in dictionaries and behind views, where whoever receives the batches (an IPC stream, a Flight client, a host)
/// could read them.
pub type CompactBatchesExec = PassThroughExec<CompactBatches>;

/// What a [`CompactBatchesExec`] does to batches.
#[derive(Debug)]
pub struct CompactBatches;

impl Pass for CompactBatches {
    const NAME: &'static str = "CompactBatchesExec";

    fn pass(input: Result<SendableRecordBatchStream>) -> Result<SendableRecordBatchStream> {
        let batches = input?;
        let schema = batches.schema();
        let live = batches.map(|batch| live_batch(&batch?).map_err(execution_error));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, live)))
    }
}

/// The plan with a [`CompactBatchesExec`] on top, if it passes on some rows of a release and not all as they are.
/// Below a sink or `EXPLAIN ANALYZE` it goes under that.
pub(in crate::engine) fn compact_what_leaves(plan: Plan) -> Result<Plan> {
    if plan.is::<DataSinkExec>() || plan.is::<AnalyzeExec>() {
        let children = plan.children().into_iter().map(Arc::clone);
        let children = children.map(compact_what_leaves).collect::<Result<Vec<Plan>>>()?;
        return replace_children_if_necessary(plan, children);
    }
    Ok(match holds_release(&plan) && !is_whole_release(&plan) {
        true => Arc::new(CompactBatchesExec::new(plan)),
        false => plan,
    })
}

fn is_release(plan: &Plan) -> bool {
    plan.is::<AnonymizeExec>() || plan.is::<CellExec>()
}

fn holds_release(plan: &Plan) -> bool {
    is_release(plan) || plan.children().into_iter().any(holds_release)
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
