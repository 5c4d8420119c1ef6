//! `COPY` of a release: the cluster makes it, the client writes it.
//!
//! A task that writes files and dies is run again by Ballista, and DataFusion's writers finish the files
//! that they have begun when their input fails: either leaves a part of a release in place. So the query
//! runs on the cluster to its end; then the client fetches the rows, writes them below a hidden name beside
//! the target, and moves the files when all of them are complete.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{exec_datafusion_err, internal_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion_anonymize::engine::unpacked_for_arrow;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Handle;

use crate::staging::{Place, Staging};

/// A plan that writes what another one makes.
pub(crate) async fn written_here(
    copy: &CopyTo,
    made: Arc<dyn ExecutionPlan>,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let place = Place::of(&copy.output_url)?;
    let rows = Arc::new(Rows { schema: made.schema(), rows: Mutex::new(None) });
    let table = provider_as_source(Arc::new(Made(Arc::clone(&rows))));
    let copy_here = unpacked_for_arrow(&CopyTo {
        input: Arc::new(LogicalPlanBuilder::scan("release", table, None)?.build()?),
        output_url: place.output.clone(),
        ..copy.clone()
    })?;
    let planner = DefaultPhysicalPlanner::default();
    let write = planner.create_physical_plan(&LogicalPlan::Copy(copy_here), session).await?;
    let publish = Publish {
        schema: write.schema(),
        made,
        rows,
        write,
        staged: ListingTableUrl::parse(&place.output)?,
        target: ListingTableUrl::parse(&copy.output_url)?,
        place,
    };
    let schema = Arc::clone(&publish.schema);
    let exec = StreamingTableExec::try_new(schema, vec![Arc::new(publish)], None, [], false, None)?;
    Ok(Arc::new(exec))
}

/// Rows as a table, to be read once, when they are there.
struct Rows {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl Rows {
    fn give(&self, rows: SendableRecordBatchStream) {
        *self.rows.lock().unwrap_or_else(PoisonError::into_inner) = Some(rows);
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rows")
    }
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        rows.unwrap_or_else(|| {
            let missing = async { internal_err!("the rows of a release are written once") };
            let missing = stream::once(missing);
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), missing))
        })
    }
}

/// [`Rows`] for a plan.
#[derive(Debug)]
struct Made(Arc<Rows>);

#[async_trait]
impl TableProvider for Made {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
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
        let rows = Arc::clone(&self.0) as _;
        let schema = TableProvider::schema(self);
        let exec = StreamingTableExec::try_new(schema, vec![rows], projection, [], false, None)?;
        Ok(Arc::new(exec))
    }
}

/// Writes below a hidden name, and moves the files when they are complete.
struct Publish {
    schema: SchemaRef,
    made: Arc<dyn ExecutionPlan>,
    rows: Arc<Rows>,
    write: Arc<dyn ExecutionPlan>,
    staged: ListingTableUrl,
    target: ListingTableUrl,
    place: Place,
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
        let (made, rows) = (Arc::clone(&self.made), Arc::clone(&self.rows));
        let write = Arc::clone(&self.write);
        let (staged, target) = (self.staged.clone(), self.target.clone());
        let place = self.place.clone();
        let batches = async move {
            // Here it waits for the cluster, and not in a task of a writer: a query that is given up ends at once.
            let mut all = execute_stream(made, Arc::clone(&context))?;
            let first = all.next().await.transpose()?;
            let all = stream::iter(first.map(Ok)).chain(all);
            let schema = Arc::clone(&rows.schema);
            rows.give(Box::pin(RecordBatchStreamAdapter::new(schema, all)));
            let store = context.runtime_env().object_store(staged.object_store())?;
            let mut staging = Staging { store, staged, target, place, is_over: false };
            let written = collect(write, context).await;
            // From here on nobody can stop it half-way: a file more or less is no release.
            let publish = async move {
                let outcome = match written {
                    Ok(counts) => staging.publish().await.map(|()| counts),
                    Err(error) => Err(plainly(error, &staging.target)),
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

/// DataFusion's writers keep to themselves why a file could not be written, and call it an internal error.
fn plainly(error: DataFusionError, target: &ListingTableUrl) -> DataFusionError {
    match error.find_root() {
        DataFusionError::Internal(message) if message.contains("finalizing writes") => {
            exec_datafusion_err!(
                "COPY TO '{target}': the files cannot be written there; see whether the place is writable for this \
                 user and has space left. Nothing was left behind"
            )
        }
        _ => error,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::arrow::array::RecordBatch;
    use datafusion::common::plan_err;

    use super::*;

    /// Rows in two batches, and an error between them if the query is to fail.
    #[derive(Debug)]
    struct TwoBatches {
        batch: RecordBatch,
        fails: bool,
        schema: SchemaRef,
    }

    impl PartitionStream for TwoBatches {
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
        let rows = Arc::new(TwoBatches { batch, fails, schema: Arc::clone(&schema) });
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
            "missing/below/release/' STORED AS PARQUET",
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
                files.iter().any(|file| file.contains("release") && !file.ends_with('/')),
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

    #[tokio::test(flavor = "multi_thread")]
    async fn a_directory_that_is_there_keeps_its_files_and_gets_more() -> Result<()> {
        let directory = tempfile::tempdir()?;
        // A name that would be a file's, were it not a directory already.
        let target = directory.path().join("release.csv");
        std::fs::create_dir(&target)?;
        std::fs::write(target.join("older.csv"), "a,b\n2,y\n")?;
        let sql = format!("COPY (SELECT 1 AS a, 'x' AS b) TO '{}'", target.display());
        copy(&sql, true).await.unwrap_err();
        assert_eq!(files(directory.path()), ["release.csv/", "release.csv/older.csv"]);
        copy(&sql, false).await?;
        let mut files = files(&target);
        files.retain(|file| file != "older.csv");
        assert!(!files.is_empty(), "nothing was written");
        assert!(
            files.iter().all(|file| file.ends_with(".csv") && !file.contains('/')),
            "{files:?}"
        );
        Ok(())
    }

    /// A directory with a file system of its own, or a link to one, whose files cannot come from beside it.
    #[cfg(target_os = "linux")]
    #[tokio::test(flavor = "multi_thread")]
    async fn targets_on_another_file_system_are_written() -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir()?;
        let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else {
            println!("SKIPPED: there is no /dev/shm to write to");
            return Ok(());
        };
        if std::fs::metadata(directory.path())?.dev() == elsewhere.path().metadata()?.dev() {
            println!("SKIPPED: temporary files and /dev/shm are on one file system");
            return Ok(());
        }
        let target = directory.path().join("release");
        std::os::unix::fs::symlink(elsewhere.path(), &target)?;
        let sql =
            format!("COPY (SELECT 1 AS a, 'x' AS b) TO '{}/' STORED AS CSV", target.display());
        copy(&sql, true).await.unwrap_err();
        assert_eq!(files(elsewhere.path()), [""; 0]);
        copy(&sql, false).await?;
        let files = files(elsewhere.path());
        assert!(!files.is_empty(), "nothing was written");
        assert!(
            files.iter().all(|file| file.ends_with(".csv") && !file.contains('/')),
            "{files:?}"
        );
        Ok(())
    }
}
