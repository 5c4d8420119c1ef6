//! The release and the persons of its new cohorts, from one computation: two could be of two states of a table.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion_anonymize::{AnonymizeExec, SeriesFigures};
use futures::{StreamExt, stream};

/// A night that was computed and verified. Its rows wait to be written.
pub(crate) struct Computed {
    /// The plan that writes the release.
    pub(crate) write: Arc<dyn ExecutionPlan>,
    /// Who got a cohort.
    pub(crate) newcomers: SendableRecordBatchStream,
    pub(crate) figures: SeriesFigures,
}

/// Computes the release that a plan writes.
pub(crate) async fn compute(
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
) -> Result<Computed> {
    let Some(release) = release_in(&plan) else {
        return internal_err!("the plan of a job has no release");
    };
    let Some(exec) = release.downcast_ref::<AnonymizeExec>() else {
        return internal_err!("a release of a series is in one task");
    };
    let [rows, newcomers] = exec.release_and_members(task).await?;
    let figures = exec
        .series_figures()
        .ok_or_else(|| internal_datafusion_err!("a release of a series did not count"))?;
    let rows = read_once(rows);
    let rows =
        StreamingTableExec::try_new(Arc::clone(&rows.schema), vec![rows], None, [], false, None)?;
    let rows: Arc<dyn ExecutionPlan> = Arc::new(rows);
    let write = plan.transform_down(|node| {
        Ok(match node.is::<AnonymizeExec>() {
            true => Transformed::new(Arc::clone(&rows), true, TreeNodeRecursion::Jump),
            false => Transformed::no(node),
        })
    });
    Ok(Computed { write: write?.data, newcomers, figures })
}

fn release_in(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    match plan.is::<AnonymizeExec>() {
        true => Some(Arc::clone(plan)),
        false => plan.children().into_iter().find_map(release_in),
    }
}

/// A stream as a relation that can be read once.
pub(super) fn frame(
    context: &SessionContext,
    rows: SendableRecordBatchStream,
) -> Result<DataFrame> {
    let rows = read_once(rows);
    context.read_table(Arc::new(StreamingTable::try_new(Arc::clone(&rows.schema), vec![rows])?))
}

struct ReadOnce {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

fn read_once(rows: SendableRecordBatchStream) -> Arc<ReadOnce> {
    Arc::new(ReadOnce { schema: rows.schema(), rows: Mutex::new(Some(rows)) })
}

impl fmt::Debug for ReadOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadOnce")
    }
}

impl PartitionStream for ReadOnce {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _task: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        rows.unwrap_or_else(|| {
            let error: Result<_, DataFusionError> =
                internal_err!("the rows of a night were read twice");
            let once = stream::once(async move { error }).boxed();
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), once))
        })
    }
}
