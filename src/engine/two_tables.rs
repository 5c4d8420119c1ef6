//! Both tables of a release in two files, from one computation.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{DataFrame, SessionContext};
use futures::stream;
use parking_lot::Mutex;

use super::exec::AnonymizeExec;
use super::written::check_may_be_written;

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
/// # use datafusion_anonymize::engine::{TwoFiles, write_two_tables};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// # let directory = tempfile::tempdir()?;
/// # let path = |name: &str| directory.path().join(name).display().to_string();
/// let context = SessionContext::new();
/// datafusion_anonymize::register_all(&context)?;
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
    let targets = [
        Target::new(context, &files.quasi_identifiers).await?,
        Target::new(context, &files.sensitive).await?,
    ];
    if targets[0].location == targets[1].location {
        return plan_err!("the two tables need two files and both are '{}'", targets[0].path);
    }
    check_may_be_written(release.logical_plan(), context.copied_config().options())?;
    let task = Arc::new(release.task_ctx());
    let plan = release.create_physical_plan().await?;
    let Some(exec) = plan.downcast_ref::<AnonymizeExec>() else {
        return plan_err!(
            "two tables are published by SELECT * FROM anonymize(…, method => 'alpha_k', …, publish => \
             'quasi_identifiers'), without anything above it"
        );
    };
    let tables = exec.both_tables(task).await?;
    let mut unfinished = Unfinished::default();
    let written = write_all(context, &targets, tables, &mut unfinished).await;
    match written {
        Ok(rows) => {
            unfinished.files.clear();
            Ok(rows)
        }
        Err(error) => {
            unfinished.delete().await;
            Err(error)
        }
    }
}

async fn write_all(
    context: &SessionContext,
    targets: &[Target; 2],
    tables: [SendableRecordBatchStream; 2],
    unfinished: &mut Unfinished,
) -> Result<[u64; 2]> {
    let mut rows = [0; 2];
    let mut staged = Vec::new();
    for ((target, table), rows) in targets.iter().zip(tables).zip(&mut rows) {
        let (path, location) = target.staging_name()?;
        unfinished.files.push((Arc::clone(&target.store), location.clone()));
        *rows = write(context, &path, table).await?;
        staged.push(location);
    }
    for (target, staged) in targets.iter().zip(&staged) {
        target.store.rename_if_not_exists(staged, &target.location).await?;
        unfinished.files.push((Arc::clone(&target.store), target.location.clone()));
    }
    Ok(rows)
}

async fn write(
    context: &SessionContext,
    path: &str,
    table: SendableRecordBatchStream,
) -> Result<u64> {
    let schema = table.schema();
    let once = Once { schema: Arc::clone(&schema), stream: Mutex::new(Some(table)) };
    let table = StreamingTable::try_new(schema, vec![Arc::new(once)])?;
    let frame = context.read_table(Arc::new(table))?;
    let options = DataFrameWriteOptions::new().with_single_file_output(true);
    let written = if path.ends_with(".parquet") {
        frame.write_parquet(path, options, None).await?
    } else if path.ends_with(".csv") {
        frame.write_csv(path, options, None).await?
    } else {
        frame.write_json(path, options, None).await?
    };
    let counts = written.iter().flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>());
    Ok(counts.flatten().sum())
}

/// Files to delete unless everything goes well.
#[derive(Default)]
struct Unfinished {
    files: Vec<(Arc<dyn ObjectStore>, Path)>,
}

impl Unfinished {
    async fn delete(&mut self) {
        delete(std::mem::take(&mut self.files)).await;
    }
}

async fn delete(files: Vec<(Arc<dyn ObjectStore>, Path)>) {
    for (store, location) in files {
        // A file that was renamed or never begun is not there.
        let _ = store.delete(&location).await;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let files = std::mem::take(&mut self.files);
        // Somebody dropped the work in the middle: nobody waits any more, so a task deletes.
        if !files.is_empty()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(delete(files));
        }
    }
}

/// One of the two files.
struct Target {
    path: String,
    store: Arc<dyn ObjectStore>,
    location: Path,
}

impl Target {
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
            Err(_) => Ok(target),
        }
    }

    /// A hidden name beside the target that nobody else uses.
    fn staging_name(&self) -> Result<(String, Path)> {
        let mut bytes = [0u8; 8];
        getrandom::fill(&mut bytes)
            .map_err(|_| exec_datafusion_err!("the operating system gave no randomness"))?;
        let unique = format!(".{:016x}-", u64::from_le_bytes(bytes));
        let path = match self.path.rsplit_once('/') {
            Some((directory, name)) => format!("{directory}/{unique}{name}"),
            None => format!("{unique}{}", self.path),
        };
        // As the writer will read it: a name may hold characters that a location encodes.
        let location = ListingTableUrl::parse(&path)?.prefix().clone();
        Ok((path, location))
    }
}

/// A stream that can be read once, as a table.
struct Once {
    schema: SchemaRef,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.stream.lock().take().unwrap_or_else(|| {
            let again = exec_datafusion_err!("a release is written once");
            let failed = stream::once(async move { Err(again) });
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), failed))
        })
    }
}
