//! From rows to files in the staging place.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef, UInt64Type};
use datafusion::datasource::file_format::csv::CsvFormatFactory;
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::datasource::file_format::{FileFormatFactory, format_as_file_type};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion_anonymize::{AnonymizeExec, CellExec, Newcomers, TwoFiles, write_two_tables};

use crate::error::{Error, Result};
use crate::job::{Format, Job};
use crate::place::new_release;
use crate::plan;
use crate::progress::Observer;
use crate::series::{Figures, compute};
use crate::sql::{identifier, literal};

/// What stands for a missing value in the name of a directory, as Hive, Spark and DuckDB read it.
pub(crate) const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Files that were written and not yet looked at.
#[derive(Debug)]
pub(crate) struct Written {
    /// `published`, or `quasi_identifiers` and `sensitive`.
    pub(crate) name: &'static str,
    /// Where DataFusion finds it.
    pub(crate) url: String,
    /// The columns as they left `anonymize`.
    pub(crate) schema: SchemaRef,
    pub(crate) rows: u64,
    /// How the rows of persons lie in the classes, which nobody can tell from what is published.
    pub(crate) persons: Vec<(&'static str, f64)>,
    /// How the night of a series went.
    pub(crate) series: Option<Figures>,
}

/// A release in the staging place.
pub(crate) struct WrittenRelease {
    /// Its table, or both.
    pub(crate) tables: Vec<Written>,
    /// In a series, what comes with it.
    pub(crate) night: Option<NightTables>,
}

/// What a night tells beside its release.
pub(crate) struct NightTables {
    /// The persons of its new cohorts, not yet written.
    pub(crate) newcomers: SendableRecordBatchStream,
    /// The cohorts that repeat their last rows.
    pub(crate) held: Int64Array,
}

/// A release that can be written.
#[derive(Clone)]
pub(crate) struct Planned {
    /// What is published.
    pub(crate) release: DataFrame,
    /// In a series, the same with a mark at rows that are held.
    pub(crate) marked: Option<DataFrame>,
}

/// Plans the release, so that mistakes show before anything is touched. Returns the published columns.
pub(crate) async fn plan(
    job: &Job,
    context: &SessionContext,
    newcomers: Newcomers,
) -> Result<DataFrame> {
    let publish = job.has_two_tables().then_some("quasi_identifiers");
    let frame = plan::anonymize(job, context, publish, newcomers).await?;
    for column in &job.output.partition_by {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !column.bytes().all(is_plain) {
            return Err(Error::job(format!(
                "output: partition_by cannot take '{column}': names of directories are read back reliably if the \
                 column's name has only letters from a to z, digits, _ and -; rename it in query with AS"
            )));
        }
        let schema = frame.schema().as_arrow();
        let Ok(field) = schema.field_with_name(column) else {
            let names: Vec<&str> =
                schema.fields().iter().map(|field| field.name().as_str()).collect();
            return Err(Error::job(format!(
                "output: partition_by names '{column}', which is not published; the columns are {}",
                names.join(", ")
            )));
        };
        if field.data_type().is_nested() || schema.fields().len() == job.output.partition_by.len() {
            return Err(Error::job(format!(
                "output: partition_by cannot take '{column}': bounds are no name of a directory, and at \
                 least one column must stay in the files"
            )));
        }
    }
    Ok(frame)
}

/// Writes the table, or both, below `staging`, a URL with a slash at its end.
pub(crate) async fn write(
    job: &Job,
    context: &SessionContext,
    planned: Planned,
    staging: &str,
    observer: &dyn Observer,
) -> Result<WrittenRelease> {
    let Planned { release, marked } = planned;
    if job.has_two_tables() {
        let tables = write_both(job, context, release, staging).await?;
        return Ok(WrittenRelease { tables, night: None });
    }
    let schema = Arc::clone(release.schema().inner());
    let url = format!("{staging}published/");
    let failed = |error| Error::query("anonymizing", error);
    let frame = copy(job, release, &schema, &url)?;
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.map_err(failed)?;
    let Some(marked) = marked else {
        observer.running(&plan);
        let rows = rows_in(&collect(Arc::clone(&plan), task).await.map_err(failed)?);
        let persons = persons_in(&plan);
        let table = Written { name: "published", url, schema, rows, persons, series: None };
        return Ok(WrittenRelease { tables: vec![table], night: None });
    };
    let marked = marked.create_physical_plan().await.map_err(failed)?;
    observer.running(&marked);
    let night = compute(plan, &marked, Arc::clone(&task)).await.map_err(failed)?;
    let rows = rows_in(&collect(night.write, task).await.map_err(failed)?);
    let series = Some(Figures::new(night.figures, rows, job.withdraws()));
    let tables = NightTables { newcomers: night.newcomers, held: night.held.column() };
    let persons = Vec::new();
    let table = Written { name: "published", url, schema, rows, persons, series };
    Ok(WrittenRelease { tables: vec![table], night: Some(tables) })
}

/// The number of rows that a plan says it has written.
pub(crate) fn rows_in(counted: &[RecordBatch]) -> u64 {
    let counts = counted.iter().flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>());
    counts.flatten().sum()
}

/// What the operator that made the release says of persons.
fn persons_in(plan: &Arc<dyn ExecutionPlan>) -> Vec<(&'static str, f64)> {
    let found = match (plan.downcast_ref::<AnonymizeExec>(), plan.downcast_ref::<CellExec>()) {
        (Some(exec), _) => {
            [("unit_share", exec.unit_share()), ("split_persons", exec.split_persons())]
        }
        (_, Some(exec)) => [("unit_share", exec.unit_share()), ("split_persons", None)],
        _ => [("unit_share", None), ("split_persons", None)],
    };
    let found: Vec<_> =
        found.into_iter().filter_map(|(name, share)| Some((name, share?))).collect();
    match found.is_empty() {
        true => plan.children().into_iter().flat_map(persons_in).collect(),
        false => found,
    }
}

/// The plan that writes the release. Not `COPY`, which takes no quoted names for `PARTITIONED BY`.
fn copy(job: &Job, release: DataFrame, schema: &Schema, url: &str) -> Result<DataFrame> {
    let failed = |error| Error::query("anonymizing", error);
    let release = named_directories(release, schema, &job.output.partition_by).map_err(failed)?;
    let (state, input) = release.into_parts();
    let (format, mut options): (Arc<dyn FileFormatFactory>, Vec<(&str, &str)>) =
        match job.output.format {
            Format::Parquet => (Arc::new(ParquetFormatFactory::new()), Vec::new()),
            Format::Csv => (Arc::new(CsvFormatFactory::new()), vec![("format.has_header", "true")]),
            Format::Json => (Arc::new(JsonFormatFactory::new()), Vec::new()),
        };
    options.extend(job.output.compression.as_deref().map(|name| ("format.compression", name)));
    let options = options.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let plan = LogicalPlanBuilder::copy_to(
        input,
        url.to_owned(),
        format_as_file_type(format),
        options.collect(),
        job.output.partition_by.clone(),
    );
    let plan = plan.and_then(LogicalPlanBuilder::build).map_err(failed)?;
    Ok(DataFrame::new(state, plan))
}

/// The release with columns that can be names of directories.
fn named_directories(
    release: DataFrame,
    schema: &Schema,
    partitions: &[String],
) -> datafusion::error::Result<DataFrame> {
    if partitions.is_empty() {
        return Ok(release);
    }
    let column = |name: &String| {
        let quoted = identifier(name);
        match partitions.contains(name) {
            // The writer of directories takes a missing value for an empty text or a zero.
            true => {
                format!("coalesce(arrow_cast({quoted}, 'Utf8'), {}) AS {quoted}", literal(NO_VALUE))
            }
            false => quoted,
        }
    };
    let columns: Vec<String> = schema.fields().iter().map(|field| column(field.name())).collect();
    release.select_exprs(&columns.iter().map(String::as_str).collect::<Vec<_>>())
}

async fn write_both(
    job: &Job,
    context: &SessionContext,
    release: DataFrame,
    staging: &str,
) -> Result<Vec<Written>> {
    let failed = |error| Error::query("anonymizing", error);
    let ending = job.output.format.ending();
    let urls = ["quasi_identifiers", "sensitive"].map(|name| (name, format!("{staging}{name}/")));
    // Tables of two releases must never be taken for one release, so their files never have the same name.
    let unique = new_release()?;
    let file = |(name, url): &(&str, String)| format!("{url}{name}-{unique}{ending}");
    let files = TwoFiles { quasi_identifiers: file(&urls[0]), sensitive: file(&urls[1]) };
    let sensitive = plan::anonymize(job, context, Some("sensitive"), Newcomers::Group).await?;
    let schemas = [&release, &sensitive].map(|frame| Arc::clone(frame.schema().inner()));
    let rows = write_two_tables(context, release, &files).await.map_err(failed)?;
    let tables = urls.into_iter().zip(schemas).zip(rows);
    let written = |(((name, url), schema), rows)| Written {
        name,
        url,
        schema,
        rows,
        persons: Vec::new(),
        series: None,
    };
    Ok(tables.map(written).collect())
}

/// The type that a column has when it is read from a text file.
pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        other => other.clone(),
    }
}
