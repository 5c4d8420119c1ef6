//! An operator that passes on the rows of its input, one for one and in order.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::common::{Result, Statistics, assert_eq_or_internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::engine::operator::common_plan_methods;

/// What a [`PassThroughExec`] does to batches.
pub trait Pass: fmt::Debug + Send + Sync + 'static {
    /// The operator's name in plans.
    const NAME: &'static str;

    /// The output stream, given that of the input or the error of opening it.
    fn pass(input: Result<SendableRecordBatchStream>) -> Result<SendableRecordBatchStream>;
}

/// Passes on the rows of its input in batches that a [`Pass`] has changed.
#[derive(Debug)]
pub struct PassThroughExec<P> {
    input: Arc<dyn ExecutionPlan>,
    pass: PhantomData<P>,
}

impl<P> PassThroughExec<P> {
    /// The operator over an input.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input, pass: PhantomData }
    }
}

impl<P: Pass> DisplayAs for PassThroughExec<P> {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if format == DisplayFormatType::TreeRender {
            return Ok(());
        }
        f.write_str(P::NAME)
    }
}

impl<P: Pass> ExecutionPlan for PassThroughExec<P> {
    fn name(&self) -> &str {
        P::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert_eq_or_internal_err!(children.len(), 1);
        Ok(Arc::new(Self::new(children.swap_remove(0))))
    }

    common_plan_methods!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        P::pass(self.input.execute(partition, context))
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

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let swapped = self.input.try_swapping_with_projection(projection)?;
        Ok(swapped.map(|input| Arc::new(Self::new(input)) as _))
    }
}
