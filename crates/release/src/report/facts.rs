//! What a page tells, as numbers: the only place that looks at rows.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{Int64Type, Schema};
use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::Options;

use super::Source;
use super::distribution::{Distribution, Fewest, distribution};
use super::options::{OptionLine, option_lines};
use super::precision::{Precision, precision};
use super::series::SeriesFacts;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::manifest::{Manifest, Measure};
use crate::progress::Silent;
use crate::series::history;
use crate::sql::{ORIGINAL, PUBLISHED, PUBLISHED_SENSITIVE, identifier};
use crate::verify::{measures, privacy};

/// A person in a group of fewer than so many records is picked with a chance of more than one in so many.
pub(super) const CHANCES: [u64; 3] = [5, 10, 20];

/// How a release is made, which decides what its figures mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Generalized quasi-identifiers in classes.
    Classes,
    /// Combinations of columns that occur often enough.
    Constraints,
    /// Buckets whose columns are permuted.
    Sliced,
    /// Quasi-identifiers and sensitive values apart.
    TwoTables,
}

/// Everything on the page.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) title: String,
    pub(super) kind: Kind,
    /// Whether one person may own several records, so that the release was asked to hide persons.
    pub(super) hides_persons: bool,
    pub(super) release: Option<String>,
    pub(super) created: String,
    pub(super) threshold: u64,
    pub(super) rows_original: u64,
    pub(super) rows_published: u64,
    pub(super) measures: Vec<Measure>,
    pub(super) sizes: Vec<SizeGroup>,
    /// Records whose chance of being picked is above each of [`CHANCES`].
    pub(super) exposed: Vec<u64>,
    pub(super) columns: Vec<ColumnFacts>,
    pub(super) options: Vec<OptionLine>,
    /// None if the release stands alone.
    pub(super) series: Option<SeriesFacts>,
}

/// Classes of about one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SizeGroup {
    pub(super) smallest: u64,
    pub(super) largest: u64,
    pub(super) classes: u64,
    pub(super) rows: u64,
}

/// One column of the release.
#[derive(Debug)]
pub(super) struct ColumnFacts {
    pub(super) name: String,
    pub(super) is_sensitive: bool,
    /// The loss from 0 to 1, if it can be told.
    pub(super) loss: Option<f64>,
    pub(super) precision: Option<Precision>,
    pub(super) distribution: Option<Distribution>,
}

impl Facts {
    /// A measure of the whole table.
    pub(super) fn measure(&self, name: &str) -> Option<f64> {
        self.measures.iter().find(|m| m.measure == name && m.column.is_none()).and_then(|m| m.value)
    }

    /// A measure of a column.
    pub(super) fn of_column(&self, name: &str, column: &str) -> Option<f64> {
        let mut found = self.measures.iter();
        let found = found.find(|m| m.measure == name && m.column.as_deref() == Some(column));
        found.and_then(|m| m.value)
    }
}

/// Asks all the questions of a page.
pub(super) async fn gather(
    source: &Source,
    context: &SessionContext,
    manifest: Option<&Manifest>,
) -> Result<Facts> {
    let job = &source.job;
    let options = &job.anonymize;
    let kind = kind(job);
    let is_series = manifest.is_some_and(|manifest| manifest.series.is_some());
    let mut measures = match is_series {
        // Which rows are of tonight, and hence what they lost, was known when the release was made.
        true => privacy(job, context, &Silent).await?,
        false => measures(job, context, &Silent).await?,
    };
    let is_kept = |measure: &&Measure| match measure.measure.as_str() {
        "unit_share" => true,
        "rows_original" | "ncp" => is_series,
        _ => false,
    };
    let kept = manifest.into_iter().flat_map(|manifest| &manifest.measures);
    measures.extend(kept.filter(is_kept).cloned());
    let measures: Vec<Measure> = measures.into_iter().map(Measure::told).collect();
    let counted = counted_sizes(options, kind, context).await?;
    let exposed = |chance: &u64| {
        counted.iter().filter(|(size, _)| size < chance).map(|(size, classes)| size * classes).sum()
    };
    let k = options.k.and_then(|k| u64::try_from(k).ok()).unwrap_or(1);
    let created = chrono::Utc::now().format("%Y-%m-%d %H:%M UTC").to_string();
    Ok(Facts {
        title: source.title.clone().unwrap_or_else(|| job.name.clone()),
        kind,
        // In a series everybody has one record.
        hides_persons: options.privacy_unit.is_some() && job.series.is_none(),
        release: manifest.map(|manifest| manifest.release.clone()),
        created,
        threshold: source.threshold(),
        rows_original: count(context, ORIGINAL).await?,
        rows_published: count(context, PUBLISHED).await?,
        sizes: grouped_sizes(&counted, k),
        exposed: CHANCES.iter().map(exposed).collect(),
        columns: columns(source, context, kind, &measures).await?,
        measures,
        options: option_lines(job),
        series: series(job, context, manifest).await?,
    })
}

/// The series that a release belongs to, with its nights for those who may read the state. Others get the page, too.
async fn series(
    job: &Job,
    context: &SessionContext,
    manifest: Option<&Manifest>,
) -> Result<Option<SeriesFacts>> {
    let Some(manifest) = manifest else { return Ok(None) };
    let Some(current) = manifest.series.clone() else { return Ok(None) };
    let nights = match &job.series {
        Some(_) => history(job, context, manifest).await.unwrap_or_default(),
        None => Vec::new(),
    };
    Ok(Some(SeriesFacts { current, nights }))
}

fn kind(job: &Job) -> Kind {
    if job.has_two_tables() {
        Kind::TwoTables
    } else if job.is_sliced() {
        Kind::Sliced
    } else if job.has_constraints() {
        Kind::Constraints
    } else {
        Kind::Classes
    }
}

pub(super) async fn count(context: &SessionContext, table: &str) -> Result<u64> {
    let query = format!("SELECT count(*) FROM {}", identifier(table));
    Ok(pairs(context, &query).await?.first().map_or(0, |(_, rows)| *rows))
}

/// The rows of a query whose last column is a count and whose first, if there are two, a text.
pub(super) async fn pairs(
    context: &SessionContext,
    query: &str,
) -> Result<Vec<(Option<String>, u64)>> {
    let failed = |error| Error::query("measuring", error);
    let frame = context.sql(query).await.map_err(failed)?;
    let mut found = Vec::new();
    for batch in frame.collect().await.map_err(failed)? {
        let counts = batch.column(batch.num_columns() - 1).as_primitive::<Int64Type>();
        let texts = (batch.num_columns() > 1).then(|| batch.column(0).as_string::<i32>());
        for row in 0..batch.num_rows() {
            let text =
                texts.filter(|texts| texts.is_valid(row)).map(|texts| texts.value(row).to_owned());
            found.push((text, counts.value(row).unsigned_abs()));
        }
    }
    Ok(found)
}

/// The columns of a table.
pub(super) async fn schema(context: &SessionContext, table: &str) -> Result<Schema> {
    let frame = context.table(TableReference::bare(table)).await;
    let frame = frame.map_err(|error| Error::query("measuring", error))?;
    Ok(frame.schema().as_arrow().clone())
}

/// How many classes there are of each size.
async fn counted_sizes(
    options: &Options,
    kind: Kind,
    context: &SessionContext,
) -> Result<Vec<(u64, u64)>> {
    let columns = match kind {
        Kind::Constraints => return Ok(Vec::new()),
        Kind::Classes => options.quasi_identifiers.clone(),
        Kind::Sliced => vec!["bucket_id".to_owned()],
        Kind::TwoTables => vec!["class_id".to_owned()],
    };
    let keys: Vec<String> = columns.iter().map(|column| identifier(column)).collect();
    let query = format!(
        "SELECT arrow_cast(size, 'Utf8'), count(*) FROM (SELECT count(*) AS size FROM {} GROUP BY {}) GROUP BY size",
        identifier(PUBLISHED),
        keys.join(", ")
    );
    let mut counted: Vec<(u64, u64)> = pairs(context, &query)
        .await?
        .into_iter()
        .filter_map(|(size, classes)| Some((size?.parse().ok()?, classes)))
        .collect();
    counted.sort_unstable();
    Ok(counted)
}

/// Sizes in at most a dozen groups that grow with the size; those below k stand apart.
fn grouped_sizes(counted: &[(u64, u64)], k: u64) -> Vec<SizeGroup> {
    const GROUPS: f64 = 10.0;
    let Some((largest, _)) = counted.last() else { return Vec::new() };
    let ratio = (*largest as f64 / k as f64).max(1.0).powf(1.0 / GROUPS).max(1.0);
    let mut groups: Vec<SizeGroup> = Vec::new();
    let (mut from, mut to) = (1, k.saturating_sub(1));
    let mut rest = counted.iter().peekable();
    while let Some((next, _)) = rest.peek() {
        while *next > to {
            from = to + 1;
            to = ((from as f64 * ratio).ceil() as u64).saturating_sub(1).max(from);
        }
        let mut group =
            SizeGroup { smallest: from, largest: to.min(*largest), classes: 0, rows: 0 };
        while let Some((size, classes)) = rest.next_if(|(size, _)| *size <= to) {
            group.classes += classes;
            group.rows += size * classes;
        }
        groups.push(group);
    }
    groups
}

async fn columns(
    source: &Source,
    context: &SessionContext,
    kind: Kind,
    measures: &[Measure],
) -> Result<Vec<ColumnFacts>> {
    let options = &source.job.anonymize;
    let original = schema(context, ORIGINAL).await?;
    let second = if kind == Kind::TwoTables { PUBLISHED_SENSITIVE } else { PUBLISHED };
    let roles = source.job.all_quasi_identifiers().into_iter().map(|name| (name, false, PUBLISHED));
    let sensitive = options.sensitive.iter().map(|name| (name.clone(), true, second));
    let fewest = Fewest { threshold: source.threshold(), person: options.privacy_unit.as_deref() };
    let mut found = Vec::new();
    for (name, is_sensitive, table) in roles.chain(sensitive) {
        let published = schema(context, table).await?;
        let both = original.field_with_name(&name).ok().zip(published.field_with_name(&name).ok());
        let Some((before, after)) = both else {
            return Err(Error::job(format!(
                "column '{name}' is not in both tables; name columns that the original and the published \
                 table have"
            )));
        };
        let loss = measures
            .iter()
            .find(|m| m.measure == "ncp" && m.column.as_deref() == Some(&name))
            .and_then(|m| m.value);
        let precision = match is_sensitive {
            true => None,
            false => precision(context, table, &name, after.data_type()).await?,
        };
        let distribution = distribution(context, before, table, after, fewest).await?;
        found.push(ColumnFacts { name, is_sensitive, loss, precision, distribution });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_grouped_without_loss_and_those_below_k_stand_apart() {
        let counted: Vec<(u64, u64)> = (3..400).map(|size| (size, 2)).collect();
        let groups = grouped_sizes(&counted, 10);
        assert_eq!(groups[0], SizeGroup { smallest: 1, largest: 9, classes: 14, rows: 2 * 42 });
        assert_eq!(groups[1].smallest, 10);
        assert!(groups.len() <= 13, "{groups:?}");
        assert_eq!(groups.iter().map(|group| group.classes).sum::<u64>(), 2 * 397);
        assert!(groups.windows(2).all(|pair| pair[0].largest < pair[1].smallest));
        assert!(grouped_sizes(&[], 10).is_empty());
        assert_eq!(grouped_sizes(&[(10, 5)], 10).len(), 1);
    }
}
