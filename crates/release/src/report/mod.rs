//! A page about a release that somebody who is no programmer can read: `report.html`.
//!
//! ```text
//! original, published ─► facts (queries, pooled and rounded) ─► charts and sentences ─► one HTML page
//! ```
//!
//! What the page may show is decided in `facts` and nowhere else: values that fewer than
//! [`Source::threshold`] records have are pooled, ends of number ranges are open, and counts of values are
//! rounded, so that subtracting two of them counts nobody. Everything after that only writes.

mod chart;
mod distribution;
mod facts;
mod grid;
mod options;
mod page;
mod precision;
mod series;
mod words;

use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::Options;
use serde_json::Value;

use crate::current::{current, register_release};
use crate::error::{Error, Result};
use crate::job::{Format, Job};
use crate::manifest::Manifest;
use crate::session::{self, Files};
use crate::sql::{ORIGINAL, PUBLISHED, PUBLISHED_SENSITIVE};

/// The fewest records of a value that a page shows without being told otherwise.
const FEWEST: u64 = 10;

/// What a page is about.
#[derive(Debug, Clone)]
pub struct Source {
    /// The original rows and the options of the release.
    pub job: Job,
    /// The published table: a file or a directory of files, or the output of a job, whose current release
    /// it then is. The job's own output without it.
    pub published: Option<String>,
    /// Values that fewer records have are not shown; k, and at least 10, without it.
    pub threshold: Option<u64>,
    /// The heading; the name of the job without it.
    pub title: Option<String>,
}

impl Source {
    /// The fewest records that a value on the page has.
    pub fn threshold(&self) -> u64 {
        let k = self.job.constraints().iter().map(|(_, k)| *k).max();
        let k = k.and_then(|k| u64::try_from(k).ok()).unwrap_or(0);
        self.threshold.unwrap_or(k.max(FEWEST)).max(2)
    }
}

/// Measures a release and writes the page.
pub async fn report(source: &Source, host: &SessionContext) -> Result<String> {
    let (context, job) = session::open(&source.job, host).await?;
    let source = &Source { job, ..source.clone() };
    let manifest = register_published(source, &context).await?;
    if let Some(manifest) = &manifest {
        check_belongs(source, &context, manifest).await?;
    }
    let facts = facts::gather(source, &context, manifest.as_ref()).await?;
    Ok(page::page(&facts))
}

/// Whether the release was made with the options and of the rows that the page would compare it with.
async fn check_belongs(
    source: &Source,
    context: &SessionContext,
    manifest: &Manifest,
) -> Result<()> {
    let job = &source.job;
    // Who names the published table may ask it for something else.
    if source.published.is_none() {
        let options = serde_json::to_value(&job.anonymize)
            .map_err(|error| Error::storage("the options cannot be compared", error))?;
        if let Some(name) = first_difference(&options, &manifest.options) {
            return Err(Error::Failed(format!(
                "release {} was made with other options than those of the job ('{name}' differs): run the job \
                 again, or report with the job as it was",
                manifest.release
            )));
        }
    }
    let (then, now) = (manifest.counts.rows_original, facts::count(context, ORIGINAL).await?);
    match then == now {
        true => Ok(()),
        false => Err(Error::Failed(format!(
            "release {} was made of {then} rows and the original has {now} now: run the job again, or name the \
             table that it was made of, as in anonymize report original.parquet --job job.toml",
            manifest.release
        ))),
    }
}

/// The first option that one has and the other has not, or has otherwise.
fn first_difference(one: &Value, other: &Value) -> Option<String> {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return None };
    let mut names = one.keys().chain(other.keys());
    names.find(|name| one.get(*name) != other.get(*name)).cloned()
}

/// The release that a path is the output of, if it is one.
pub async fn manifest_of(host: &SessionContext, path: &str) -> Result<Option<Manifest>> {
    let is_file = [Format::Parquet, Format::Csv, Format::Json]
        .iter()
        .any(|format| path.ends_with(format.ending()));
    if is_file {
        return Ok(None);
    }
    current(host, path).await
}

/// The options that a release was made with, as far as its manifest tells them.
///
/// Hierarchies in files and levels of sensitivity are not part of a manifest; a release with those needs
/// its job.
pub fn options_of(manifest: &Manifest) -> Result<Options> {
    let mut told = manifest.options.clone();
    let hierarchies = told.get("hierarchies").and_then(|told| told.as_object());
    let column = hierarchies.and_then(|all| all.iter().find(|(_, one)| one.get("table").is_some()));
    if let Some((column, _)) = column {
        return Err(Error::job(format!(
            "the hierarchy of '{column}' is in a table that the release does not hold: name the job with --job"
        )));
    }
    let levels = told.as_object_mut().and_then(|told| told.remove("sensitivity"));
    if levels.is_some() {
        return Err(Error::job(
            "the release does not hold the levels of its sensitive values: name the job with --job",
        ));
    }
    serde_json::from_value(told)
        .map_err(|error| Error::storage("the options of the manifest", error))
}

async fn register_published(source: &Source, context: &SessionContext) -> Result<Option<Manifest>> {
    let job = &source.job;
    let path = match &source.published {
        Some(path) => path.clone(),
        None => job.locate(&job.output.path),
    };
    if let Some(manifest) = manifest_of(context, &path).await? {
        for (table, name) in manifest.tables.iter().zip([PUBLISHED, PUBLISHED_SENSITIVE]) {
            register_release(context, &path, table, name).await?;
        }
        return Ok(Some(manifest));
    }
    if source.published.is_none() {
        return Err(Error::Failed(format!(
            "there is no release at '{path}' yet: run the job first, or name the published table"
        )));
    }
    if job.has_two_tables() {
        return Err(Error::job(
            "two tables are reported from the output of their job, which knows both",
        ));
    }
    let files = Files::new(&path, Format::of_path(&path));
    let table = files.table(context, "the published table").await?;
    context
        .register_table(TableReference::bare(PUBLISHED), table)
        .map_err(|error| Error::query("the published table", error))?;
    Ok(None)
}
