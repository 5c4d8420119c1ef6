//! `COPY` of a release: the cluster makes it, the client writes it.
//!
//! A task that writes files and dies is run again by Ballista, and DataFusion's writers finish the files
//! that they have begun when their input fails: either leaves a part of a release in place. So the query
//! runs on the cluster to its end; then the client fetches the rows, writes them below a hidden name beside
//! the target, and moves the files when all of them are complete.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{not_impl_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion_anonymize::engine::holds_release;
use futures::{TryStreamExt, stream};
use tokio::runtime::Handle;

/// The planner of a client: what the cluster runs, and what the client writes itself.
#[derive(Debug)]
pub(crate) struct ClientPlanner {
    cluster: Arc<dyn QueryPlanner + Send + Sync>,
}

impl ClientPlanner {
    pub(crate) fn new(cluster: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        Self { cluster }
    }
}

#[async_trait]
impl QueryPlanner for ClientPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match plan {
            LogicalPlan::Copy(copy) if holds_release(plan)? => {
                let made = self.cluster.create_physical_plan(&copy.input, session).await?;
                written_here(copy, made, session).await
            }
            _ => self.cluster.create_physical_plan(plan, session).await,
        }
    }
}

/// A plan that writes what another one makes.
async fn written_here(
    copy: &CopyTo,
    made: Arc<dyn ExecutionPlan>,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let hidden = Hidden::beside(&copy.output_url)?;
    let rows = provider_as_source(Arc::new(Made(made)));
    let copy_here = CopyTo {
        input: Arc::new(LogicalPlanBuilder::scan("release", rows, None)?.build()?),
        output_url: hidden.output.clone(),
        ..copy.clone()
    };
    let planner = DefaultPhysicalPlanner::default();
    let write = planner.create_physical_plan(&LogicalPlan::Copy(copy_here), session).await?;
    let publish = Publish {
        schema: write.schema(),
        write,
        staged: ListingTableUrl::parse(&hidden.output)?,
        target: ListingTableUrl::parse(&copy.output_url)?,
        hidden: hidden.directory,
    };
    let schema = Arc::clone(&publish.schema);
    let exec = StreamingTableExec::try_new(schema, vec![Arc::new(publish)], None, [], false, None)?;
    Ok(Arc::new(exec))
}

/// Where a release waits until it is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hidden {
    /// The name of the directory, which nobody else uses.
    directory: String,
    /// The target's last name in that directory, beside the target: whether a file or a directory is written
    /// depends on the name.
    output: String,
}

impl Hidden {
    fn beside(target: &str) -> Result<Self> {
        let slash = if target.ends_with('/') { "/" } else { "" };
        let name = target.trim_end_matches('/');
        let (parent, name) = name.rsplit_once('/').unwrap_or((".", name));
        if parent.ends_with(":/") || matches!(name, "" | "." | "..") {
            return plan_err!("COPY TO '{target}': name a file or a directory below it");
        }
        // DataFusion reads them as patterns, and would write and look for files in different places.
        if target.contains(['*', '?', '[']) {
            return plan_err!("COPY TO '{target}': a release cannot have *, ? or [ in its name");
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let directory = format!(".anonymize-{:x}-{time:x}", std::process::id());
        let output = format!("{parent}/{directory}/{name}{slash}");
        Ok(Self { directory, output })
    }
}

/// A plan as a table, to be read once.
#[derive(Debug)]
struct Made(Arc<dyn ExecutionPlan>);

#[async_trait]
impl TableProvider for Made {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = self.0.schema().fields().len();
        match projection {
            Some(columns) if !columns.iter().copied().eq(0..all) => {
                not_impl_err!("a release is written with all its columns")
            }
            _ => Ok(Arc::clone(&self.0)),
        }
    }
}

/// Writes below a hidden name, and moves the files when they are complete.
struct Publish {
    schema: SchemaRef,
    write: Arc<dyn ExecutionPlan>,
    staged: ListingTableUrl,
    target: ListingTableUrl,
    /// The name of the directory above what is staged.
    hidden: String,
}

impl fmt::Debug for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Publish({})", self.target)
    }
}

impl PartitionStream for Publish {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let write = Arc::clone(&self.write);
        let (staged, target) = (self.staged.clone(), self.target.clone());
        let hidden = self.hidden.clone();
        let batches = async move {
            let store = context.runtime_env().object_store(staged.object_store())?;
            let mut staging = Staging { store, staged, target, hidden, is_over: false };
            let written = collect(write, context).await;
            // From here on nobody can stop it half-way: a file more or less is no release.
            let publish = async move {
                let outcome = match written {
                    Ok(counts) => staging.publish().await.map(|()| counts),
                    Err(error) => Err(error),
                };
                staging.remove().await;
                outcome
            };
            let handle = Handle::current();
            let outcome = tokio::task::spawn_blocking(move || handle.block_on(publish)).await;
            let counts =
                outcome.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
            Ok::<_, DataFusionError>(stream::iter(counts?.into_iter().map(Ok)))
        };
        let batches = stream::once(batches).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

/// Files that are not published yet.
struct Staging {
    store: Arc<dyn ObjectStore>,
    staged: ListingTableUrl,
    target: ListingTableUrl,
    hidden: String,
    is_over: bool,
}

impl Staging {
    /// Moves all files to their places, or none.
    async fn publish(&self) -> Result<()> {
        let mut moved = Vec::new();
        for from in self.files().await? {
            let Some(below) = from.prefix_match(self.staged.prefix()) else { continue };
            let to = below.fold(self.target.prefix().clone(), |path, part| path.join(part));
            if let Err(error) = self.rename(&from, &to).await {
                for published in &moved {
                    let _ = self.store.delete(published).await;
                }
                return Err(error);
            }
            moved.push(to);
        }
        Ok(())
    }

    /// On this machine at once: a runtime that is shutting down runs no more tasks of the object store.
    async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        if self.staged.scheme() != "file" {
            return Ok(self.store.rename(from, to).await?);
        }
        let files = LocalFileSystem::new();
        let (from, to) = (files.path_to_filesystem(from)?, files.path_to_filesystem(to)?);
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        Ok(std::fs::rename(from, to)?)
    }

    async fn files(&self) -> Result<Vec<Path>> {
        let files = self.store.list(Some(self.staged.prefix()));
        let mut files: Vec<Path> = files.map_ok(|file| file.location).try_collect().await?;
        // A single file is not below its own name.
        if files.is_empty() && self.store.head(self.staged.prefix()).await.is_ok() {
            files.push(self.staged.prefix().clone());
        }
        files.sort();
        Ok(files)
    }

    /// Removes what is left, as far as that is possible: hidden files are no release.
    async fn remove(&mut self) {
        if self.staged.scheme() != "file" {
            for file in self.files().await.unwrap_or_default() {
                let _ = self.store.delete(&file).await;
            }
        }
        self.remove_directory();
        self.is_over = true;
    }

    /// Removes the hidden directory, and nothing that is not called by its name. Object stores have none.
    fn remove_directory(&self) {
        let Ok(path) = self.staged.get_url().to_file_path() else { return };
        let is_hidden = |path: &&std::path::Path| {
            path.file_name().is_some_and(|name| name == self.hidden.as_str())
        };
        if let Some(hidden) = path.ancestors().find(is_hidden) {
            let _ = std::fs::remove_dir_all(hidden);
        }
    }
}

/// A query that is given up while it writes leaves nothing either, where that can be done at once.
impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Writers that have been told to stop may still be at it.
        for _ in 0..5 {
            self.remove_directory();
            std::thread::sleep(Duration::from_millis(20));
        }
        self.remove_directory();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::arrow::array::RecordBatch;

    use super::*;

    #[test]
    fn hidden_names_keep_the_last_part() -> Result<()> {
        for (target, parent, last) in [
            ("/shared/release/", "/shared", "release/"),
            ("s3://bucket/a/release.parquet", "s3://bucket/a", "release.parquet"),
            ("release.csv", ".", "release.csv"),
            ("/release", "", "release"),
        ] {
            let hidden = Hidden::beside(target)?;
            assert_eq!(hidden.output, format!("{parent}/{}/{last}", hidden.directory));
        }
        let refused = [
            "s3://bucket/",
            "/",
            ".",
            "./",
            "..",
            "a/.",
            "/a/../",
            "a*.csv",
            "a[1]/b.csv",
            "a?/",
            "",
        ];
        for target in refused {
            assert!(Hidden::beside(target).is_err(), "{target}");
        }
        Ok(())
    }

    /// Whatever a path turns out to be, only a directory of the hidden name is ever removed.
    #[tokio::test]
    async fn nothing_else_is_removed() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let kept = directory.path().join("kept/below");
        std::fs::create_dir_all(&kept)?;
        let staged = ListingTableUrl::parse(format!("{}/x*.csv", kept.display()))?;
        let staging = Staging {
            store: Arc::new(datafusion::object_store::memory::InMemory::new()),
            target: staged.clone(),
            staged,
            hidden: ".anonymize-1".to_owned(),
            is_over: false,
        };
        drop(staging);
        assert!(kept.exists());
        Ok(())
    }

    /// Rows in two batches, and an error between them if the query is to fail.
    #[derive(Debug)]
    struct Rows {
        batch: RecordBatch,
        fails: bool,
        schema: SchemaRef,
    }

    impl PartitionStream for Rows {
        fn schema(&self) -> &SchemaRef {
            &self.schema
        }

        fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
            let mut batches = vec![Ok(self.batch.clone())];
            if self.fails {
                batches.push(datafusion::common::exec_err!("an executor is gone"));
            }
            batches.push(Ok(self.batch.clone()));
            let schema = Arc::clone(&self.schema);
            Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)))
        }
    }

    /// Runs a COPY over rows that fail half-way or do not.
    async fn copy(sql: &str, fails: bool) -> Result<Vec<RecordBatch>> {
        let context = datafusion::prelude::SessionContext::new();
        let batches = context.sql("SELECT 1 AS a, 'x' AS b").await?.collect().await?;
        let (batch, schema) = (batches[0].clone(), batches[0].schema());
        let rows = Arc::new(Rows { batch, fails, schema: Arc::clone(&schema) });
        let made = StreamingTableExec::try_new(schema, vec![rows], None, [], false, None)?;
        let state = context.state();
        let LogicalPlan::Copy(copy) = state.create_logical_plan(sql).await? else {
            return plan_err!("not COPY");
        };
        collect(written_here(&copy, Arc::new(made), &state).await?, context.task_ctx()).await
    }

    fn files(directory: &std::path::Path) -> Vec<String> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.path() {
                path if path.is_dir() => {
                    files.push(format!("{name}/"));
                    files.extend(self::files(&path).iter().map(|file| format!("{name}/{file}")));
                }
                _ => files.push(name),
            }
        }
        files
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_query_that_fails_half_way_leaves_nothing() -> Result<()> {
        let targets = [
            "release/' STORED AS PARQUET",
            "release.csv'",
            "release/' STORED AS CSV PARTITIONED BY (b)",
            "release 1#%20.csv'",
        ];
        for target in targets {
            let directory = tempfile::tempdir()?;
            let place = directory.path().display();
            let sql = format!("COPY (SELECT 1 AS a, 'x' AS b) TO '{place}/{target}");
            let error = copy(&sql, true).await.unwrap_err().to_string();
            assert!(error.contains("an executor is gone"), "{error}");
            assert_eq!(files(directory.path()), [""; 0], "{target}");

            let counts = copy(&sql, false).await?;
            assert_eq!(counts.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
            let files = files(directory.path());
            assert!(
                files.iter().any(|file| file.starts_with("release") && !file.ends_with('/')),
                "{files:?}"
            );
            assert!(!files.iter().any(|file| file.contains(".anonymize-")), "{files:?}");
            let context = datafusion::prelude::SessionContext::new().enable_url_table();
            let (name, _) = target.split_once('\'').unwrap_or_default();
            let rows =
                context.sql(&format!("SELECT * FROM '{place}/{name}'")).await?.count().await?;
            assert_eq!(rows, 2, "{target}");
        }
        Ok(())
    }
}
