//! A query on the cluster that ends there when its client gives it up.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{CancelJobParams, GetJobStatusParams};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_proto::protobuf::LogicalPlanNode;
use futures::future::poll_fn;
use futures::{Stream, StreamExt};

/// How long a client that gives up waits for the scheduler to take notice.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the scheduler is told meanwhile, and afterwards if the client lives on.
const INSISTENCE: Duration = Duration::from_secs(600);

/// Where the scheduler of a session is, as in `http://localhost:50050`.
#[derive(Debug)]
pub(crate) struct Scheduler(pub(crate) String);

/// A query that is sent to the cluster.
///
/// Ballista's own operator forgets a query whose stream is dropped, as on Ctrl-C: the cluster would go on for nobody,
/// with raw rows in its shuffle files.
#[derive(Debug)]
pub(crate) struct JobExec {
    query: Arc<dyn ExecutionPlan>,
}

impl JobExec {
    /// Watches over a plan that is a query on the cluster; others run on this machine, and stay as they are.
    pub(crate) fn watch(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        match sent(&plan) {
            Some(_) => Arc::new(Self { query: plan }),
            None => plan,
        }
    }
}

/// The query that a plan sends, by itself or to measure it.
fn sent(plan: &Arc<dyn ExecutionPlan>) -> Option<&DistributedQueryExec<LogicalPlanNode>> {
    let measured = || plan.children().into_iter().find_map(|child| child.downcast_ref());
    plan.downcast_ref().or_else(measured)
}

impl DisplayAs for JobExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.query.fmt_as(format, f)
    }
}

/// A leaf, as the query itself: what is below runs elsewhere.
impl ExecutionPlan for JobExec {
    fn name(&self) -> &str {
        self.query.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.query.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
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
        if !children.is_empty() {
            return internal_err!("a query on the cluster has no children here");
        }
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let scheduler = context.session_config().get_extension::<Scheduler>();
        let rows = self.query.execute(partition, context)?;
        let query = Arc::clone(&self.query);
        let job = Job { query, scheduler, rows: Some(rows), state: State::NotSent };
        let schema = self.schema();
        let rows = job.map(move |batch| as_planned(&batch?, &schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.query.metrics()
    }
}

/// The cluster sends dictionaries as plain text; whoever has asked for the schema relies on it.
fn as_planned(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// What the client knows of its query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// It is sent when somebody asks for its rows.
    NotSent,
    Running,
    /// Rows come when all of them are made.
    Ended,
}

struct Job {
    query: Arc<dyn ExecutionPlan>,
    scheduler: Option<Arc<Scheduler>>,
    rows: Option<SendableRecordBatchStream>,
    state: State,
}

impl Stream for Job {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(rows) = &mut self.rows else { return Poll::Ready(None) };
        let polled = rows.poll_next_unpin(cx);
        self.state = if polled.is_ready() { State::Ended } else { State::Running.max(self.state) };
        polled
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.state != State::Running {
            return;
        }
        let (Some(rows), Some(scheduler)) = (self.rows.take(), self.scheduler.take()) else {
            return;
        };
        let query = Arc::clone(&self.query);
        let (tell, told) = mpsc::channel();
        // The runtime of this query may be about to end.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                let cancelled = async move {
                    tokio::time::timeout(INSISTENCE, cancel(&query, rows, &scheduler.0)).await
                };
                if runtime.block_on(cancelled).is_err() {
                    log::warn!("a query that was given up may still run on the cluster");
                }
            }
            let _ = tell.send(());
        });
        let _ = told.recv_timeout(PATIENCE);
    }
}

/// Tells the scheduler to end a query, until it says that the query has ended.
async fn cancel(
    query: &Arc<dyn ExecutionPlan>,
    mut rows: SendableRecordBatchStream,
    scheduler: &str,
) {
    // A query that was sent a moment ago has no name yet, and cannot be named to anybody.
    let name = || sent(query).and_then(DistributedQueryExec::job_id);
    let named = poll_fn(|cx| match name() {
        Some(job) => Poll::Ready(Some(job)),
        None => match rows.poll_next_unpin(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => name().map_or(Poll::Pending, |job| Poll::Ready(Some(job))),
        },
    });
    let Some(job) = named.await else { return };
    // One that is being planned is not known yet to that part of the scheduler which could end it, and a scheduler that
    // does not answer now may do so later: it is told again.
    let mut pause = Duration::from_millis(50);
    while !has_ended(job.as_str(), scheduler, pause).await {
        pause = (2 * pause).min(PATIENCE);
    }
}

/// Tells the scheduler to end a query, and whether the query has ended a moment later.
async fn has_ended(job: &str, scheduler: &str, moment: Duration) -> bool {
    let told = async {
        let mut scheduler = SchedulerGrpcClient::connect(scheduler.to_owned()).await.ok()?;
        scheduler.cancel_job(CancelJobParams { job_id: job.to_owned() }).await.ok()?;
        Some(scheduler)
    };
    let told = told.await;
    tokio::time::sleep(moment).await;
    let Some(mut scheduler) = told else { return false };
    let status = scheduler.get_job_status(GetJobStatusParams { job_id: job.to_owned() }).await;
    let status = status.ok().and_then(|status| status.into_inner().status);
    let status = status.and_then(|status| status.status);
    matches!(status, Some(Status::Failed(_) | Status::Successful(_)))
}
