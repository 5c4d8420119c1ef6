//! Files of a release are all there or not at all.
//!
//! When their input fails, DataFusion's writers close the files they have begun, and what a full disk or a killed
//! process leaves behind looks like a table too. A part of a release may be below k. So every sink that writes a
//! release sees the session's object stores through wrappers that keep its files invisible until all are complete:
//!
//! ```text
//! StagedSink ─► waits for the first batch, which comes after the release is verified
//!            ─► the sink as it is, with a StagingStore in place of the store
//!                 on a disk         files in a hidden directory (.anonymize-…) in the target, or above it
//!                 in object stores  uploads whose last request, which makes them visible, is held back
//!            ─► publish, when the last file is closed: sync and rename, or complete the uploads
//! ```
//!
//! - A single file replaces the old one in one step. A new directory appears with all its files in one step.
//! - Several files in an existing directory, or in an object store, appear one right after the other; if one of them
//!   fails, those before it are removed again. Only a process that is killed at that moment can leave some of them.
//! - A failure before that leaves nothing, unless the process was killed and could not clean up: then a hidden
//!   directory stays on disk, which the next write beside it removes, or parts of uploads, which are never listed.

mod area;
mod arrow_files;
mod durable;
mod hidden;
mod moves;
mod publish;
mod sink;
mod store;
mod two_tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use futures::{StreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::RwLock;

use self::area::Area;
use self::store::{StagingRegistry, abort, abort_later};
use crate::engine::exec;
use crate::engine::join_error;
use crate::engine::plan::is_of_release;

pub use durable::{sync_directory, sync_tree};
pub use two_tables::{TwoFiles, write_two_tables};

pub(super) use self::arrow_files::with_plain_columns;

/// Stages the writes of releases: `COPY`, `INSERT INTO` files and `DataFrame::write_…`.
///
/// For hosts that plan by themselves; `register_all` adds it to a session.
#[derive(Debug, Default)]
pub struct StageReleases;

impl PhysicalOptimizerRule for StageReleases {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_release =
            |plan: &Arc<dyn ExecutionPlan>| exec::is_release(plan) || is_of_release(&plan.schema());
        // Anywhere in the plan: a scalar subquery is not below the operator that reads it.
        match plan.exists(|plan| Ok(is_release(plan)))? {
            true => stage(plan),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "StageReleases"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Plans a staged `COPY`, for hosts whose plans do not show that they hold a release: the client of a cluster, which
/// writes what the cluster has made.
pub async fn staged_copy(copy: CopyTo, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
    let copy = with_plain_columns(LogicalPlan::Copy(copy))?;
    let plan = DefaultPhysicalPlanner::default().create_physical_plan(&copy, session).await?;
    stage(plan)
}

/// Waits until no files are being published. A program that exits in the middle could leave only some of them.
pub async fn until_published() {
    drop(PUBLISHING.write().await);
}

/// Read-locked by everybody who publishes files.
static PUBLISHING: RwLock<()> = RwLock::const_new(());

/// Stages every write of a plan.
fn stage(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| match plan.downcast_ref::<DataSinkExec>() {
        Some(write) => Ok(Transformed::yes(sink::staged(write)?)),
        None => Ok(Transformed::no(plan)),
    })
    .data()
}

/// Where files go.
#[derive(Debug, Clone)]
struct Target {
    /// As the user wrote it.
    name: String,
    url: ListingTableUrl,
    is_file: bool,
}

impl Target {
    fn of(config: &FileSinkConfig) -> Option<Self> {
        let url = config.table_paths.first()?.clone();
        let name = match config.original_url.as_str() {
            "" => url.to_string(),
            name => name.to_owned(),
        };
        let is_partitioned = !config.table_partition_cols.is_empty();
        let is_file = !is_partitioned && config.file_output_mode.single_file_output(&url);
        Some(Self { name, url, is_file })
    }

    /// DataFusion reads some names as patterns, and would look for the files somewhere else than it wrote them.
    fn check(&self) -> Result<()> {
        if self.url.get_glob().is_some() || self.name.contains(['*', '?', '[']) {
            return plan_err!(
                "COPY TO '{}': a release cannot have *, ? or [ in its name",
                self.name
            );
        }
        Ok(())
    }
}

/// Files that are not visible yet. Dropped, they are gone.
#[derive(Debug)]
pub(super) struct Staging {
    area: Arc<Area>,
    context: Arc<TaskContext>,
    is_over: AtomicBool,
}

impl Staging {
    /// Prepares for the files of a sink.
    pub(super) async fn of(sink: &dyn DataSink, context: &Arc<TaskContext>) -> Result<Self> {
        Self::begin(sink::target(sink).as_ref(), context).await
    }

    /// Prepares for files. A known target that cannot be written to is an error now, not hours later.
    async fn begin(target: Option<&Target>, context: &Arc<TaskContext>) -> Result<Self> {
        let name = target.map_or_else(|| "files".to_owned(), |target| target.name.clone());
        let area = Arc::new(Area::new(name));
        let staging = Self {
            context: Arc::new(with_stores(context, &area)?),
            area,
            is_over: AtomicBool::new(false),
        };
        if let Some(Target { url, is_file, .. }) = target
            && url.scheme() == "file"
        {
            let store = context.runtime_env().object_store(url)?;
            let directory = match is_file {
                true => url.prefix().parent().unwrap_or_default(),
                false => url.prefix().clone(),
            };
            staging.area.open(&store, &directory).await?;
        }
        Ok(staging)
    }

    /// Lets a sink write rows. Returns how many it wrote.
    pub(super) async fn write(
        &self,
        sink: &dyn DataSink,
        mut rows: SendableRecordBatchStream,
    ) -> Result<u64> {
        // Waits for the release here rather than in a writer's task, so that an abandoned query ends at once.
        let first = rows.next().await.transpose()?;
        let (rows, end) = watched(first, rows);
        let written = sink.write_all(rows, &self.context).await;
        match (written, end.load(Ordering::SeqCst)) {
            (Ok(rows), true) => Ok(rows),
            (Ok(_), false) => Err(self.area.failed("the writer did not take all rows")),
            (Err(error), _) => Err(self.with_cause(error)),
        }
    }

    /// The error with the cause that the store gave: DataFusion's writers drop it and report an internal error.
    fn with_cause(&self, error: DataFusionError) -> DataFusionError {
        match self.area.failure() {
            Some(failure) => self.area.failed(format!(
                "the files cannot be written there; see whether the place is writable for this user and has space \
                 left ({failure}). Nothing was left behind"
            )),
            None => error,
        }
    }

    /// Makes the files of all stagings visible, or none; a single file may replace an existing one.
    pub(super) async fn publish(stagings: Vec<Self>, may_replace: bool) -> Result<()> {
        let handle = Handle::current();
        let publish = async move {
            let _publishing = PUBLISHING.read().await;
            let areas: Vec<_> = stagings.iter().map(|staging| Arc::clone(&staging.area)).collect();
            let outcome = publish::publish(&areas, may_replace).await;
            for staging in stagings {
                staging.discard().await;
            }
            outcome
        };
        // From here on neither a dropped future nor a runtime that shuts down may stop it half-way: some of the files
        // are not a release.
        let outcome = tokio::task::spawn_blocking(move || handle.block_on(publish)).await;
        outcome.map_err(join_error)?
    }

    /// Removes what is not visible.
    pub(super) async fn discard(self) {
        self.is_over.store(true, Ordering::SeqCst);
        abort(self.area.close()).await;
    }
}

/// For a statement that is abandoned while it writes.
impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_over.load(Ordering::SeqCst) {
            abort_later(self.area.close());
        }
    }
}

/// The rows, and a flag that is set when all of them have been read without an error.
fn watched(
    first: Option<RecordBatch>,
    rows: SendableRecordBatchStream,
) -> (SendableRecordBatchStream, Arc<AtomicBool>) {
    let schema = rows.schema();
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    let mut rows = stream::iter(first.map(Ok)).chain(rows);
    let mut has_failed = false;
    let rows = stream::poll_fn(move |context| {
        let next = ready!(rows.poll_next_unpin(context));
        has_failed |= matches!(next, Some(Err(_)));
        if next.is_none() && !has_failed {
            end.store(true, Ordering::SeqCst);
        }
        Poll::Ready(next)
    });
    (Box::pin(RecordBatchStreamAdapter::new(schema, rows)), ended)
}

/// A task whose files wait in an area.
fn with_stores(context: &TaskContext, area: &Arc<Area>) -> Result<TaskContext> {
    let runtime = context.runtime_env();
    let stores = Arc::clone(&runtime.object_store_registry);
    let registry = StagingRegistry { stores, area: Arc::clone(area) };
    let runtime = RuntimeEnvBuilder::from_runtime_env(&runtime)
        .with_object_store_registry(Arc::new(registry))
        .build_arc()?;
    Ok(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        runtime,
    ))
}
