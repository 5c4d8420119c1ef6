//! A second look at what was written: read back, measured, compared with what the job asks for.

use std::num::NonZeroU64;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Schema};
use datafusion::common::TableReference;
use datafusion::physical_plan::collect;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion_anonymize::{round_measure, round_to_three_digits};

use crate::error::{Error, Result};
use crate::job::{Checks, Format, Job};
use crate::manifest::{Check, Column, Counts, Measure};
use crate::plan::{privacy_report, utility_report};
use crate::progress::Observer;
use crate::series::{loss_of_live, register_live};
use crate::session::Files;
use crate::sql::{ORIGINAL, PUBLISHED, PUBLISHED_SENSITIVE, identifier, literal};
use crate::write::{NO_VALUE, Written, plain_type};

/// Files of a table and how to read them.
pub(crate) struct Stored<'a> {
    pub(crate) url: &'a str,
    pub(crate) format: Format,
    pub(crate) partitioned_by: &'a [String],
    /// The columns with the types they had before they were written.
    pub(crate) schema: &'a Schema,
}

/// Makes written files a table of the session.
pub(crate) async fn register(
    context: &SessionContext,
    name: &str,
    stored: &Stored<'_>,
) -> Result<()> {
    let what = "reading back what was written";
    let failed = |error| Error::query(what, error);
    let is_partition = |field: &Field| stored.partitioned_by.contains(field.name());
    let fields = stored.schema.fields().iter().filter(|field| !is_partition(field));
    let fields: Vec<Field> =
        fields.map(|field| Field::new(field.name(), plain_type(field.data_type()), true)).collect();
    // Text files do not tell types: a code such as 02139 would be read as a number.
    let schema = (stored.format != Format::Parquet).then(|| Arc::new(Schema::new(fields)));
    let partitions = stored.partitioned_by.iter();
    let files = Files {
        partitions: partitions.map(|name| (name.clone(), DataType::Utf8)).collect(),
        schema,
        ..Files::new(stored.url, stored.format)
    };
    let table = files.table(context, what).await?;
    if stored.partitioned_by.is_empty() {
        context.register_table(TableReference::bare(name), table).map_err(failed)?;
        return Ok(());
    }
    let raw = format!("{name}_files");
    context.register_table(TableReference::bare(raw.as_str()), table).map_err(failed)?;
    let column = |field: &Field| {
        let quoted = identifier(field.name());
        match is_partition(field) {
            true => format!(
                "arrow_cast(nullif({quoted}, {}), '{}') AS {quoted}",
                literal(NO_VALUE),
                plain_type(field.data_type())
            ),
            false => quoted,
        }
    };
    let columns: Vec<String> = stored.schema.fields().iter().map(|field| column(field)).collect();
    let query = format!("SELECT {} FROM {}", columns.join(", "), identifier(&raw));
    let frame = context.sql(&query).await.map_err(failed)?;
    context.register_table(TableReference::bare(name), frame.into_view()).map_err(failed)?;
    Ok(())
}

/// What a second look found.
pub(crate) struct Findings {
    pub(crate) measures: Vec<Measure>,
    pub(crate) counts: Counts,
    pub(crate) checks: Vec<Check>,
    /// What does not hold, in words.
    pub(crate) unmet: Vec<String>,
}

/// Reads back what was written and measures it.
pub(crate) async fn verify(
    job: &Job,
    context: &SessionContext,
    written: &[Written],
    observer: &dyn Observer,
) -> Result<Findings> {
    for (table, name) in written.iter().zip([PUBLISHED, PUBLISHED_SENSITIVE]) {
        let stored = Stored {
            url: &table.url,
            format: job.output.format,
            partitioned_by: &job.output.partition_by,
            schema: &table.schema,
        };
        register(context, name, &stored).await?;
    }
    let mut unmet = Vec::new();
    check_columns(job, written, &mut unmet);
    let mut measures = privacy(job, context, observer).await?;
    measures.extend(utility(job, context, written, observer).await?);
    measures.extend(written.iter().flat_map(|table| persons(job, table)));
    let counts = counts(job, context, written, &measures).await?;
    if let Some(table) = written.iter().find(|table| table.rows != counts.rows_published) {
        unmet.push(format!(
            "{} rows of '{}' were written and {} are read back",
            table.rows, table.name, counts.rows_published
        ));
    }
    let checks = evaluate(job, &measures, &counts);
    let measures: Vec<Measure> = measures.into_iter().map(Measure::told).collect();
    for measure in measures.iter().filter(|measure| measure.is_broken()) {
        unmet.push(broken_promise(measure));
    }
    for check in checks.iter().filter(|check| !check.holds) {
        unmet.push(broken_check(check));
    }
    Ok(Findings { measures, counts, checks, unmet })
}

/// What was counted when the release was made: the column that tells persons apart is not published.
fn persons(job: &Job, table: &Written) -> Vec<Measure> {
    // In a series everybody has one row.
    if job.anonymize.privacy_unit.is_none() || job.series.is_some() {
        return Vec::new();
    }
    let measure = |name: &str, target: Option<f64>| {
        let found = table.persons.iter().find(|(found, _)| *found == name);
        let value = found.map(|(_, value)| *value);
        // The operator has checked exact shares; this one is rounded.
        let holds =
            target.map(|target| value.is_some_and(|value| value <= round_to_three_digits(target)));
        Measure { measure: name.to_owned(), column: None, value, target, holds }
    };
    vec![measure("unit_share", job.anonymize.unit_share), measure("split_persons", None)]
}

/// Columns that must never leave did not.
fn check_columns(job: &Job, written: &[Written], unmet: &mut Vec<String>) {
    let options = &job.anonymize;
    let hidden: Vec<&String> = options.identifiers.iter().chain(&options.privacy_unit).collect();
    for field in written.iter().flat_map(|table| table.schema.fields()) {
        if hidden.contains(&field.name()) {
            unmet.push(format!("column '{}' is an identifier and was written", field.name()));
        }
    }
}

/// What both reports tell of the published and the original rows.
pub(crate) async fn measures(
    job: &Job,
    context: &SessionContext,
    observer: &dyn Observer,
) -> Result<Vec<Measure>> {
    let mut measures = privacy(job, context, observer).await?;
    measures.extend(report(utility_report(job, context).await?, observer).await?);
    Ok(measures)
}

/// What the published rows promise.
pub(crate) async fn privacy(
    job: &Job,
    context: &SessionContext,
    observer: &dyn Observer,
) -> Result<Vec<Measure>> {
    let mut measures = report(privacy_report(job, context).await?, observer).await?;
    if job.is_paper() {
        // The options ask for l different values and promise no chance.
        for measure in measures.iter_mut().filter(|measure| measure.measure == "naming_chance") {
            (measure.target, measure.holds) = (None, None);
        }
    }
    if job.series.is_some() {
        // Cohorts that are held were compared with the table of their own night, and that one goes on changing.
        for measure in measures.iter_mut().filter(|measure| measure.measure == "t") {
            (measure.target, measure.holds) = (None, None);
        }
    }
    Ok(measures)
}

/// What is left of the original.
async fn utility(
    job: &Job,
    context: &SessionContext,
    written: &[Written],
    observer: &dyn Observer,
) -> Result<Vec<Measure>> {
    if job.series.is_some() {
        register_live(context).await?;
    }
    let mut measures = report(utility_report(job, context).await?, observer).await?;
    for table in written {
        if let Some(figures) = &table.series {
            loss_of_live(&mut measures, figures, table.rows);
        }
    }
    Ok(measures)
}

pub(crate) async fn report(frame: DataFrame, observer: &dyn Observer) -> Result<Vec<Measure>> {
    let failed = |error| Error::query("verifying", error);
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.map_err(failed)?;
    observer.running(&plan);
    let batches = collect(plan, task).await.map_err(failed)?;
    Ok(batches.iter().flat_map(measures_of).collect())
}

fn measures_of(batch: &RecordBatch) -> Vec<Measure> {
    let names = batch.column(0).as_string::<i32>();
    let columns = batch.column(1).as_string::<i32>();
    let values = batch.column(2).as_primitive::<Float64Type>();
    let targets = batch.columns().get(3).map(|column| column.as_primitive::<Float64Type>());
    let holds = batch.columns().get(4).map(|column| column.as_boolean());
    let row = |row: usize| Measure {
        measure: names.value(row).to_owned(),
        column: columns.is_valid(row).then(|| columns.value(row).to_owned()),
        value: values.is_valid(row).then(|| values.value(row)),
        target: targets.filter(|targets| targets.is_valid(row)).map(|targets| targets.value(row)),
        holds: holds.filter(|holds| holds.is_valid(row)).map(|holds| holds.value(row)),
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Rows of both sides. A row that publishes nothing of the columns of a constraint is suppressed, too.
async fn counts(
    job: &Job,
    context: &SessionContext,
    written: &[Written],
    measures: &[Measure],
) -> Result<Counts> {
    let failed = |error| Error::query("verifying", error);
    let count = async |name: &str| {
        let frame = context.table(TableReference::bare(name)).await.map_err(failed)?;
        frame.count().await.map(|rows| rows as u64).map_err(failed)
    };
    let rows_published = count(PUBLISHED).await?;
    if written.len() > 1 {
        let sensitive = count(PUBLISHED_SENSITIVE).await?;
        if sensitive != rows_published {
            return Err(Error::Unmet(vec![format!(
                "the two tables have {rows_published} and {sensitive} rows"
            )]));
        }
    }
    let rows_original =
        match measures.iter().find(|m| m.measure == "rows_original").and_then(|m| m.value) {
            Some(rows) => rows as u64,
            None => count(ORIGINAL).await?,
        };
    let starred = match job.has_constraints() {
        true => starred_rows(job, context).await?,
        false => 0,
    };
    let missing = match written.first().and_then(|table| table.series) {
        // Rows of held cohorts stand for their members, whoever of them is there tonight.
        Some(figures) => rows_original.saturating_sub(figures.persons),
        None => rows_original.saturating_sub(rows_published),
    };
    Ok(Counts { rows_original, rows_published, rows_suppressed: missing + starred })
}

/// Rows that publish nothing of the columns of one constraint or more. Each is counted once.
async fn starred_rows(job: &Job, context: &SessionContext) -> Result<u64> {
    let failed = |error| Error::query("verifying", error);
    let frame = context.table(TableReference::bare(PUBLISHED)).await.map_err(failed)?;
    let schema = frame.schema().as_arrow().clone();
    let is_starred = |column: &String| {
        let quoted = identifier(column);
        let field = schema.field_with_name(column).map_err(|_| {
            Error::Failed(format!("verifying: column '{column}' of a constraint is not published"))
        })?;
        Ok(match field.data_type() {
            // Bounds and means have no star.
            other if other.is_nested() || other.is_numeric() => format!("{quoted} IS NULL"),
            _ => format!("coalesce(arrow_cast({quoted}, 'Utf8') = '*', false)"),
        })
    };
    let mut constraints = Vec::new();
    for (columns, _) in job.constraints() {
        let columns: Result<Vec<String>> = columns.iter().map(is_starred).collect();
        constraints.push(format!("({})", columns?.join(" AND ")));
    }
    if constraints.is_empty() {
        return Ok(0);
    }
    let query =
        format!("SELECT * FROM {} WHERE {}", identifier(PUBLISHED), constraints.join(" OR "));
    let frame = context.sql(&query).await.map_err(failed)?;
    frame.count().await.map(|rows| rows as u64).map_err(failed)
}

/// The checks of the job.
fn evaluate(job: &Job, measures: &[Measure], counts: &Counts) -> Vec<Check> {
    let Checks {
        min_k,
        min_l,
        min_entropy_l,
        max_t,
        max_alpha,
        max_loss,
        max_column_loss,
        max_suppressed,
        min_rows,
        max_new: _,
        max_gone: _,
        min_live: _,
    } = &job.checks;
    let at_least = |check, measure, limit| Limit { check, measure, limit, is_minimum: true };
    let at_most = |check, measure, limit| Limit { check, measure, limit, is_minimum: false };
    let whole = |limit: NonZeroU64| limit.get() as f64;
    let of = |name: &'static str| measures.iter().filter(move |measure| measure.measure == name);
    let mut checks = Vec::new();
    let by_column = [
        min_k.map(|k| at_least("min_k", "k", whole(k))),
        min_l.map(|l| at_least("min_l", "l", whole(l))),
        min_entropy_l.map(|l| at_least("min_entropy_l", "entropy_l", l)),
        max_t.map(|t| at_most("max_t", "t", t)),
        max_alpha.map(|alpha| at_most("max_alpha", "alpha", alpha)),
    ];
    for limit in by_column.into_iter().flatten() {
        let judged = of(limit.measure).map(|found| limit.judge(found.column.clone(), found.value));
        let before = checks.len();
        checks.extend(judged);
        if checks.len() == before {
            checks.push(limit.judge(None, None));
        }
    }
    let loss = |column: Option<&str>| {
        let ncp = of("ncp").find(|measure| measure.column.as_deref() == column);
        ncp.and_then(|measure| measure.value)
    };
    checks.extend(max_loss.map(|limit| at_most("max_loss", "ncp", limit).judge(None, loss(None))));
    checks.extend(max_column_loss.iter().map(|(column, limit)| {
        at_most("max_column_loss", "ncp", *limit).judge(Some(column.clone()), loss(Some(column)))
    }));
    let rows = counts.rows_original;
    let suppressed = (rows > 0).then(|| counts.rows_suppressed as f64 / rows as f64);
    checks.extend(
        max_suppressed.map(|limit| {
            at_most("max_suppressed", "suppressed_share", limit).judge(None, suppressed)
        }),
    );
    let rows = Some(counts.rows_published as f64);
    checks
        .extend(min_rows.map(|limit| at_least("min_rows", "rows", whole(limit)).judge(None, rows)));
    checks
}

/// A limit that the job sets to a measure.
pub(crate) struct Limit {
    pub(crate) check: &'static str,
    pub(crate) measure: &'static str,
    pub(crate) limit: f64,
    pub(crate) is_minimum: bool,
}

impl Limit {
    /// Compares the exact value and reports three digits of it. A value that cannot be told does not hold.
    pub(crate) fn judge(&self, column: Option<String>, value: Option<f64>) -> Check {
        // A share such as 1/3 is rounded in other places than the count it comes from.
        const ROUNDING: f64 = 1e-9;
        let holds = value.is_some_and(|value| match self.is_minimum {
            true => value >= self.limit - ROUNDING,
            false => value <= self.limit + ROUNDING,
        });
        let value = value.map(|value| round_measure(self.measure, value));
        Check { check: self.check.to_owned(), column, limit: self.limit, value, holds }
    }
}

pub(crate) fn broken_promise(measure: &Measure) -> String {
    let Measure { measure: name, column, value, target, .. } = measure;
    let column = column.as_ref().map(|column| format!(" of '{column}'")).unwrap_or_default();
    let value = value.map_or("cannot be told".to_owned(), |value| format!("is {value}"));
    let target = target.map(|target| format!(" and {target} was asked for")).unwrap_or_default();
    format!("{name}{column} {value}{target}")
}

fn broken_check(check: &Check) -> String {
    let Check { check: name, column, limit, value, .. } = check;
    let column = column.as_ref().map(|column| format!(" of '{column}'")).unwrap_or_default();
    match value {
        Some(value) if value == limit => {
            format!(
                "{name}{column} = {limit} is not met, by less than the three digits that are told"
            )
        }
        Some(value) => format!("{name}{column} = {limit} is not met: it is {value}"),
        None => format!("{name}{column} = {limit} cannot be told of this release"),
    }
}

/// The columns of a written table, as the manifest tells them.
pub(crate) fn columns(schema: &Schema) -> Vec<Column> {
    let column = |field: &Arc<Field>| Column {
        name: field.name().clone(),
        r#type: field.data_type().to_string(),
        nullable: field.is_nullable(),
    };
    schema.fields().iter().map(column).collect()
}
