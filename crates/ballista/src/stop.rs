//! A task stops when its job has ended.
//!
//! Executors ask the scheduler for tasks and do not listen, so that it cannot tell them to cancel one. An executor that learns by
//! itself that a job has ended ([`crate::sweep`]) stops its tasks where they hand rows to their writer: from there everything
//! below is let go of, its spills too, and what a task has not written yet it does not write.

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{exec_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::watch;

/// The jobs whose tasks run on an executor.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Mutex<HashMap<String, watch::Sender<bool>>>);

impl Jobs {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<bool>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Jobs with a task that runs.
    pub(crate) fn running(&self) -> Vec<String> {
        let mut jobs = self.lock();
        jobs.retain(|_, ended| !ended.is_closed());
        jobs.keys().cloned().collect()
    }

    /// Stops the tasks of a job that has ended.
    pub(crate) fn stop(&self, job: &str) {
        if let Some(ended) = self.lock().get(job) {
            ended.send_replace(true);
        }
    }

    /// Ready when a job is stopped. The job counts as running as long as this lives.
    fn stopped(&self, job: &str) -> BoxFuture<'static, ()> {
        let mut ended = self.lock().entry(job.to_owned()).or_default().subscribe();
        let stopped = async move {
            let stopped = ended.wait_for(|ended| *ended).await.is_ok();
            if !stopped {
                pending().await
            }
        };
        stopped.boxed()
    }
}

/// A writer of a job that gets no more rows when the job is stopped.
pub(crate) fn stop_with(
    job: &str,
    jobs: &Arc<Jobs>,
    writer: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let stop = |input: &Arc<dyn ExecutionPlan>| {
        let (input, jobs) = (Arc::clone(input), Arc::clone(jobs));
        Arc::new(StopExec { input, job: job.to_owned(), jobs }) as Arc<dyn ExecutionPlan>
    };
    let inputs = writer.children().into_iter().map(stop).collect();
    Arc::clone(writer).replace_children(inputs, ReplaceChildrenOptions::new(Recompute))
}

/// Passes rows until their job has ended; then an error. It has no metrics, because the scheduler, which does not know of it, assigns
/// metrics to operators by their order.
#[derive(Debug)]
struct StopExec {
    input: Arc<dyn ExecutionPlan>,
    job: String,
    jobs: Arc<Jobs>,
}

impl DisplayAs for StopExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopExec")
    }
}

impl ExecutionPlan for StopExec {
    fn name(&self) -> &str {
        "StopExec"
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

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("StopExec has one child");
        };
        Ok(Arc::new(Self { input, job: self.job.clone(), jobs: Arc::clone(&self.jobs) }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let stopped = self.jobs.stopped(&self.job);
        let rows = Some(self.input.execute(partition, context)?);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), UntilStopped { rows, stopped })))
    }
}

struct UntilStopped {
    rows: Option<SendableRecordBatchStream>,
    stopped: BoxFuture<'static, ()>,
}

impl Stream for UntilStopped {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.rows.is_some() && self.stopped.poll_unpin(cx).is_ready() {
            self.rows = None;
            return Poll::Ready(Some(exec_err!(
                "the query of this task has ended, or its scheduler was silent for too long"
            )));
        }
        let Some(rows) = &mut self.rows else { return Poll::Ready(None) };
        rows.poll_next_unpin(cx)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
    use futures::stream;

    use super::*;

    /// One batch, and then none for ever.
    #[derive(Debug)]
    struct Endless {
        schema: SchemaRef,
        alive: Arc<()>,
    }

    impl PartitionStream for Endless {
        fn schema(&self) -> &SchemaRef {
            &self.schema
        }

        fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
            let alive = Arc::clone(&self.alive);
            let batch = RecordBatch::new_empty(Arc::clone(&self.schema));
            let rest = stream::pending().map(move |batch| {
                let _ = &alive;
                batch
            });
            let rows = stream::once(async { Ok(batch) }).chain(rest);
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
        }
    }

    /// Rows of a task of a job, and what is alive as long as its input is.
    fn task(jobs: &Arc<Jobs>, job: &str) -> (SendableRecordBatchStream, Arc<()>) {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let alive = Arc::new(());
        let rows = Endless { schema: Arc::clone(&schema), alive: Arc::clone(&alive) };
        let rows: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(rows)];
        let input = StreamingTableExec::try_new(schema, rows, None, [], false, None).unwrap();
        let (job, jobs) = (job.to_owned(), Arc::clone(jobs));
        let task = StopExec { input: Arc::new(input), job, jobs };
        (task.execute(0, Arc::default()).unwrap(), alive)
    }

    #[tokio::test]
    async fn a_task_that_waits_for_its_input_stops_with_its_job() {
        let jobs = Arc::new(Jobs::default());
        let ((mut stopped, input), (mut other, _other_input)) =
            (task(&jobs, "1A"), task(&jobs, "1B"));
        assert!(stopped.next().await.unwrap().is_ok());
        assert!(stopped.next().now_or_never().is_none());
        jobs.stop("1A");
        let error = stopped.next().await.unwrap().unwrap_err().to_string();
        assert!(error.contains("the query of this task has ended"), "{error}");
        assert!(stopped.next().await.is_none());
        // Of the input nothing is left but what this test and the plan, which is gone, held.
        assert_eq!(Arc::strong_count(&input), 1, "the input is still read");
        assert!(other.next().await.unwrap().is_ok());
        assert!(other.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_job_runs_as_long_as_one_of_its_tasks() {
        let jobs = Arc::new(Jobs::default());
        let ((first, _), (second, _)) = (task(&jobs, "1A"), task(&jobs, "1A"));
        drop(first);
        assert_eq!(jobs.running(), ["1A"]);
        jobs.stop("1A");
        drop(second);
        assert_eq!(jobs.running(), [""; 0]);
        // It may be given another task, if its scheduler was silent and is not any more.
        let (mut again, _) = task(&jobs, "1A");
        assert!(again.next().await.unwrap().is_ok());
    }
}
