//! Batches that hold the rows they show and nothing else.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, assert_eq_or_internal_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};
use futures::StreamExt;

use super::{AnonymizeExec, CellExec};
use crate::columnar::live_batch;
use crate::engine::execution_error;

type Plan = Arc<dyn ExecutionPlan>;

/// Passes on the rows of its input in batches that hold no value of any other row.
///
/// A release leaves its own operator in such batches. Operators above it that drop rows keep the values of those rows
/// in dictionaries and behind views, where whoever receives the batches (an IPC stream, a Flight client, a host)
/// could read them.
#[derive(Debug, Clone)]
pub struct CompactBatchesExec {
    input: Plan,
}

impl CompactBatchesExec {
    /// The operator over an input.
    pub fn new(input: Plan) -> Self {
        Self { input }
    }
}

impl DisplayAs for CompactBatchesExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if format == DisplayFormatType::TreeRender {
            return Ok(());
        }
        write!(f, "{}", self.name())
    }
}

impl ExecutionPlan for CompactBatchesExec {
    fn name(&self) -> &str {
        "CompactBatchesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Plan>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Plan> {
        assert_eq_or_internal_err!(children.len(), 1);
        Ok(Arc::new(Self::new(children.swap_remove(0))))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = self.input.execute(partition, context)?;
        let schema = batches.schema();
        let live = batches.map(|batch| live_batch(&batch?).map_err(execution_error));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, live)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(inputs
            .first()
            .map_or_else(|| Arc::new(Statistics::new_unknown(&self.schema())), Arc::clone))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
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
