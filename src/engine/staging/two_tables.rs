//! Both tables of a release in two files, from one computation.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err, internal_err, plan_err};
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::file_format::csv::CsvFormatFactory;
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::datasource::file_format::{FileFormatFactory, format_as_file_type};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::provider_as_source;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::object_store::path::Path;
use datafusion::object_store::{Error as StoreError, ObjectStore, ObjectStoreExt};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::{DataFrame, SessionContext};

use super::Staging;
use super::sink::unstaged;
use crate::engine::exec::AnonymizeExec;
use crate::engine::plan::check_may_be_written;
use crate::engine::{mark_redacted, redact_kernel_values};
use crate::method::Family;

/// Where the two tables go. The endings `.parquet`, `.csv` and `.json` choose the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwoFiles {
    /// Quasi-identifiers, as they are, with the class.
    pub quasi_identifiers: String,
    /// Sensitive values with the class.
    pub sensitive: String,
}

/// Writes both tables of a release, `SELECT * FROM anonymize(…, method => 'alpha_k', …)`, whichever of
/// them it asks for, from one computation. Returns the number of rows in each.
///
/// The files appear under their names when both are complete. They must not exist before: two
/// tables of different releases must never stand side by side. After a failure neither is there.
///
/// ```
/// # use datafusion::prelude::*;
/// # use datafusion_anonymize::{TwoFiles, write_two_tables};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// # let directory = tempfile::tempdir()?;
/// # let path = |name: &str| directory.path().join(name).display().to_string();
/// let context = SessionContext::new();
/// datafusion_anonymize::register_all(&context)?;
/// anonymize_sample::register(&context)?;
/// let release = context
///     .sql("SELECT * FROM anonymize(
///             (SELECT age, zip, occupation FROM sample_census(rows => 1000)),
///             method => 'alpha_k', k => 5, alpha => 0.4, quasi_identifiers => ['age', 'zip'],
///             sensitive => ['occupation'], publish => 'quasi_identifiers')")
///     .await?;
/// let files = TwoFiles { quasi_identifiers: path("qi.parquet"), sensitive: path("sa.parquet") };
/// assert_eq!(write_two_tables(&context, release, &files).await?, [1000, 1000]);
/// # Ok(())
/// # }
/// ```
pub async fn write_two_tables(
    context: &SessionContext,
    release: DataFrame,
    files: &TwoFiles,
) -> Result<[u64; 2]> {
    // What fails in writing files is about files.
    let about_files = |error| mark_redacted(redact_kernel_values(error));
    write_both(context, release, files).await.map_err(about_files)
}

async fn write_both(
    context: &SessionContext,
    release: DataFrame,
    files: &TwoFiles,
) -> Result<[u64; 2]> {
    let targets = [
        ReleaseFile::new(context, &files.quasi_identifiers).await?,
        ReleaseFile::new(context, &files.sensitive).await?,
    ];
    if targets[0].location == targets[1].location {
        return plan_err!("the two tables need two files and both are '{}'", targets[0].path);
    }
    check_may_be_written(release.logical_plan(), context.copied_config().options())?;
    let task = Arc::new(release.task_ctx());
    let plan = release.create_physical_plan().await?;
    let Some(exec) = plan.downcast_ref::<AnonymizeExec>() else {
        return plan_err!(
            "two tables are published by SELECT * FROM anonymize(…, method => {}, …, publish => \
             'quasi_identifiers'), without anything above it",
            Family::TwoTables.method_names()
        );
    };
    let tables = exec.both_tables(Arc::clone(&task)).await?;
    let mut rows = [0; 2];
    let mut stagings = Vec::with_capacity(2);
    for ((target, table), rows) in targets.iter().zip(tables).zip(&mut rows) {
        let write = target.writer(context, &table.schema()).await?;
        let Some(write) = write.downcast_ref::<DataSinkExec>() else {
            return internal_err!("a file is written by a sink");
        };
        let write = unstaged(write);
        let staging = Staging::of(write.sink(), &task).await?;
        *rows = staging.write(write.sink(), table).await?;
        stagings.push(staging);
    }
    Staging::publish(stagings, false).await?;
    Ok(rows)
}

/// One of the two files.
struct ReleaseFile {
    path: String,
    store: Arc<dyn ObjectStore>,
    location: Path,
}

impl ReleaseFile {
    async fn new(context: &SessionContext, path: &str) -> Result<Self> {
        if path.contains(['*', '?', '[', ']']) {
            return plan_err!("'{path}' is a pattern of names; write a name without *, ?, [ and ]");
        }
        let known = [".parquet", ".csv", ".json"];
        if !known.iter().any(|ending| path.ends_with(ending)) {
            return plan_err!("'{path}' must end in .parquet, .csv or .json");
        }
        let url = ListingTableUrl::parse(path)?;
        let store = context.runtime_env().object_store(&url)?;
        let target = Self { path: path.to_owned(), store, location: url.prefix().clone() };
        match target.store.head(&target.location).await {
            Ok(_) => exec_err!(
                "'{path}' is there already: remove it, or choose another name; two tables of different \
                 releases must not stand side by side"
            ),
            Err(StoreError::NotFound { .. }) => Ok(target),
            Err(error) => Err(error.into()),
        }
    }

    /// A plan that writes the file. What it reads does not matter.
    async fn writer(
        &self,
        context: &SessionContext,
        schema: &SchemaRef,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let format: Arc<dyn FileFormatFactory> = if self.path.ends_with(".parquet") {
            Arc::new(ParquetFormatFactory::new())
        } else if self.path.ends_with(".csv") {
            Arc::new(CsvFormatFactory::new())
        } else {
            Arc::new(JsonFormatFactory::new())
        };
        let table = provider_as_source(Arc::new(EmptyTable::new(Arc::clone(schema))));
        let copy = LogicalPlanBuilder::copy_to(
            LogicalPlanBuilder::scan("release", table, None)?.build()?,
            self.path.clone(),
            format_as_file_type(format),
            HashMap::from([("single_file_output".to_owned(), "true".to_owned())]),
            Vec::new(),
        )?;
        DefaultPhysicalPlanner::default()
            .create_physical_plan(&copy.build()?, &context.state())
            .await
    }
}
