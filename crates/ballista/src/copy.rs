//! `COPY` of a release: the cluster makes it, the client writes it.
//!
//! A task that writes files and dies is run again by Ballista. So the query runs on the cluster to its end; then the
//! client fetches the rows and writes them as one machine does, whole or not at all.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion_anonymize::staged_copy;
use futures::{StreamExt, TryStreamExt, stream};

/// A plan of this client that writes the rows of a query.
pub(crate) async fn write_on_client(
    copy: &CopyTo,
    query: Arc<dyn ExecutionPlan>,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = query.schema();
    let rows = QueryRows { schema: Arc::clone(&schema), first: None, query };
    let table = StreamingTable::try_new(schema, vec![Arc::new(rows)])?;
    let table = provider_as_source(Arc::new(table));
    let input = LogicalPlanBuilder::scan("release", table, None)?.build()?;
    staged_copy(CopyTo { input: Arc::new(input), ..copy.clone() }, session).await
}

/// Rows of a query on the cluster, as a table that the planner does not optimize.
pub(crate) struct QueryRows {
    pub(crate) schema: SchemaRef,
    /// Rows of the client before those of the query.
    pub(crate) first: Option<RecordBatch>,
    pub(crate) query: Arc<dyn ExecutionPlan>,
}

impl fmt::Debug for QueryRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueryRows")
    }
}

impl PartitionStream for QueryRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let query = Arc::clone(&self.query);
        // Sent when the first row is asked for, so that mistakes in the target show before.
        let rows = stream::once(async move { execute_stream(query, context) }).try_flatten();
        let rows = stream::iter(self.first.clone().map(Ok)).chain(rows);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::common::plan_err;
    use datafusion::logical_expr::LogicalPlan;
    use datafusion::physical_plan::collect;
    use datafusion::physical_plan::streaming::StreamingTableExec;

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
        collect(write_on_client(&copy, Arc::new(made), &state).await?, context.task_ctx()).await
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
