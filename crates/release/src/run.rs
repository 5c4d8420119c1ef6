//! From a job to a published release.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion_anonymize::check_may_be_written;

use crate::checksum;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::manifest::{Manifest, Table};
use crate::place::{Found, Lock, Place, Unpublished, new_release};
use crate::progress::{Observer, Phase, Silent};
use crate::scratch::Scratch;
use crate::session;
use crate::verify::{columns, verify};
use crate::write::{Written, plan, write};

/// How a job is run.
#[derive(Clone)]
pub struct RunOptions {
    /// Everything but publishing: nothing is read from, written to or locked at the output.
    pub dry_run: bool,
    /// Who is told about the progress.
    pub observer: Arc<dyn Observer>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { dry_run: false, observer: Arc::new(Silent) }
    }
}

/// What became of a run that ended well.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The release; of a dry run what it would be.
    pub manifest: Manifest,
    /// Whether it is the current release now.
    pub published: bool,
    /// What somebody should look at though the release is published.
    pub notes: Vec<String>,
}

/// Runs a job with the host's memory limit, temporary files, object stores, settings and relation planners: its
/// queries can call the table functions that those plan.
///
/// 1. inputs are looked up and the release is planned: most mistakes show here;
/// 2. the output is locked and what killed runs left there is removed;
/// 3. the release is written to a staging place;
/// 4. what was written is read back, measured and checked;
/// 5. it is put in place, and the pointer is replaced.
///
/// If any step fails, the last release stays the current one and nothing of the new one remains.
///
/// ```
/// # use datafusion::prelude::SessionContext;
/// # use anonymize_release::{Job, RunOptions, run};
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let job = Job::from_toml(
///     r#"
///     query = "SELECT age, zip, occupation FROM sample_census(rows => 1000)"
///     [anonymize]
///     k = 10
///     quasi_identifiers = ["age", "zip"]
///     sensitive = ["occupation"]
///     [output]
///     path = "released"
///     [checks]
///     max_suppressed = 0.0
///     "#,
///     directory.path(),
/// )?;
/// let host = SessionContext::new();
/// anonymize_sample::register(&host)?;
/// let outcome = run(&job, &host, RunOptions::default()).await?;
/// assert_eq!(outcome.manifest.counts.rows_published, 1000);
/// # Ok(())
/// # }
/// ```
pub async fn run(job: &Job, host: &SessionContext, options: RunOptions) -> Result<Outcome> {
    run_until(job, host, options, std::future::pending()).await
}

/// Runs a job until it ends or `stopped` does. A run that is about to replace the pointer is not stopped.
pub async fn run_until(
    job: &Job,
    host: &SessionContext,
    options: RunOptions,
    stopped: impl Future<Output = ()>,
) -> Result<Outcome> {
    let mut stopped = std::pin::pin!(stopped);
    let observer = options.observer.as_ref();
    observer.phase(Phase::Prepare);
    let prepared = until(&mut stopped, prepare(job, host)).await?;
    let Prepared { job, context, .. } = &prepared;
    let release = new_release()?;
    if options.dry_run {
        let scratch = Scratch::new(context)?;
        let made = until(&mut stopped, make(&prepared, &scratch.url(), observer)).await?;
        let manifest = made.into_manifest(job, &release, None)?;
        return Ok(Outcome { manifest, published: false, notes: Vec::new() });
    }
    let place = Arc::new(Place::new(&context.runtime_env(), &job.locate(&job.output.path))?);
    let lock = Some(until(&mut stopped, place.lock(&release)).await?);
    let mut staged = Staged { place, release, lock };
    let end = staged.publish(&prepared, observer, &mut stopped).await;
    staged.finish(end).await
}

/// Looks up the inputs of a job and plans its release, without reading rows: the columns that it would publish.
pub async fn plan_release(job: &Job, host: &SessionContext) -> Result<SchemaRef> {
    job.check()?;
    let Prepared { planned, .. } = prepare(job, host).await?;
    let schema = Arc::clone(planned.schema().inner());
    let physical = planned.create_physical_plan().await;
    physical.map_err(|error| Error::planning("anonymize", error))?;
    Ok(schema)
}

async fn until<T>(
    stopped: &mut (impl Future<Output = ()> + Unpin),
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        () = stopped => Err(Error::Cancelled),
        outcome = work => outcome,
    }
}

/// A job that can run.
struct Prepared {
    /// The job with its columns as the rows spell them, and its seed.
    job: Job,
    context: SessionContext,
    planned: DataFrame,
}

async fn prepare(job: &Job, host: &SessionContext) -> Result<Prepared> {
    let (context, mut job) = session::open(job, host).await?;
    job.reveal_seed()?;
    let planned = plan(&job, &context).await?;
    let checked = check_may_be_written(planned.logical_plan(), context.copied_config().options());
    checked.map_err(|error| Error::planning("[anonymize]", error))?;
    Ok(Prepared { job, context, planned })
}

/// Written, read back and found to hold.
struct Made {
    tables: Vec<Table>,
    findings: crate::verify::Findings,
}

async fn make(prepared: &Prepared, staging: &str, observer: &dyn Observer) -> Result<Made> {
    let Prepared { job, context, planned } = prepared;
    observer.phase(Phase::Anonymize);
    let written = write(job, context, planned.clone(), staging, observer).await?;
    observer.phase(Phase::Verify);
    let mut findings = verify(job, context, &written, observer).await?;
    if !findings.unmet.is_empty() {
        return Err(Error::Unmet(std::mem::take(&mut findings.unmet)));
    }
    let mut tables = Vec::with_capacity(written.len());
    for table in &written {
        let Written { name, url, schema, rows, .. } = table;
        let files = checksum::files(&context.runtime_env(), url, name).await?;
        tables.push(Table {
            name: (*name).to_owned(),
            location: (*name).to_owned(),
            format: job.output.format,
            partitioned_by: job.output.partition_by.clone(),
            schema: columns(schema),
            rows: *rows,
            files,
        });
    }
    Ok(Made { tables, findings })
}

impl Made {
    /// The manifest, with paths from where the pointer is.
    fn into_manifest(self, job: &Job, release: &str, last: Option<&Manifest>) -> Result<Manifest> {
        let location = Place::release(release);
        let mut tables = self.tables;
        for table in &mut tables {
            table.location = format!("{location}/{}", table.location);
            for file in &mut table.files {
                file.path = format!("{location}/{}", file.path);
            }
        }
        let options = serde_json::to_value(&job.anonymize)
            .map_err(|error| Error::storage("the options cannot be written", error))?;
        let older = last.into_iter().flat_map(|last| {
            std::iter::once(last.release.clone()).chain(last.previous.iter().cloned())
        });
        Ok(Manifest {
            kind: Manifest::kind(),
            name: job.name.clone(),
            release: release.to_owned(),
            location,
            created: chrono::Utc::now().format("%FT%TZ").to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            previous: older.take(job.output.keep).collect(),
            tables,
            options,
            counts: self.findings.counts,
            measures: self.findings.measures,
            checks: self.findings.checks,
        })
    }
}

/// A run that holds the lock and may have staged something.
struct Staged {
    place: Arc<Place>,
    release: String,
    lock: Option<Lock>,
}

/// What a run that ends in the middle leaves to do.
enum End {
    /// The release is published.
    Published(Box<Outcome>),
    /// Nothing of it may remain.
    Discard(Error),
    /// Nobody knows whether it is published: the next run finds out.
    Leave(Error),
}

impl Staged {
    async fn publish(
        &mut self,
        prepared: &Prepared,
        observer: &dyn Observer,
        stopped: &mut (impl Future<Output = ()> + Unpin),
    ) -> End {
        let made = until(stopped, self.make(prepared, observer)).await;
        let (found, manifest) = match made {
            Ok(made) => made,
            Err(error) => return End::Discard(error),
        };
        observer.phase(Phase::Publish);
        let Some(lock) = &self.lock else { return End::Discard(Error::Cancelled) };
        let note = match self.place.publish(lock, &found, &manifest).await {
            Ok(note) => note,
            Err(Unpublished { error, is_uncertain: true }) => return End::Leave(error),
            Err(Unpublished { error, is_uncertain: false }) => return End::Discard(error),
        };
        let mut notes: Vec<String> = note.into_iter().collect();
        if let Some(last) = &found.manifest
            && let Err(error) = self.place.retire(last, &manifest).await
        {
            notes.push(format!("older releases could not be removed: {error}"));
        }
        End::Published(Box::new(Outcome { manifest, published: true, notes }))
    }

    async fn make(
        &self,
        prepared: &Prepared,
        observer: &dyn Observer,
    ) -> Result<(Found, Manifest)> {
        let job = &prepared.job;
        let found = self.place.find().await?;
        if let Some(other) = found.manifest.as_ref().filter(|last| last.name != job.name) {
            return Err(Error::job(format!(
                "the output '{}' holds the releases of the job '{}': give '{}' an output of its own, or, if it is the \
                 same job, its name",
                job.output.path, other.name, job.name
            )));
        }
        if let Some(lock) = &self.lock {
            self.place.tidy(lock, &found).await?;
        }
        let staging = self.place.url(&Place::staging(&self.release));
        let made = make(prepared, &staging, observer).await?;
        let manifest = made.into_manifest(job, &self.release, found.manifest.as_ref())?;
        Ok((found, manifest))
    }

    async fn finish(mut self, end: End) -> Result<Outcome> {
        let outcome = match end {
            End::Published(outcome) => Ok(*outcome),
            End::Leave(error) => Err(error),
            End::Discard(error) => {
                discard(&self.place, &self.release).await;
                Err(error)
            }
        };
        if let Some(lock) = self.lock.take() {
            lock.release().await;
        }
        outcome
    }
}

impl Drop for Staged {
    /// Somebody dropped the run in the middle and waits for nothing: a task cleans up.
    fn drop(&mut self) {
        let Some(lock) = self.lock.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (place, release) = (Arc::clone(&self.place), self.release.clone());
            runtime.spawn(async move {
                discard(&place, &release).await;
                lock.release().await;
            });
        }
    }
}

/// Removes what was staged. Writers that were stopped may still be on their way out, hence twice.
async fn discard(place: &Place, release: &str) {
    const A_MOMENT: Duration = Duration::from_millis(50);
    // What cannot be removed now is removed by the next run.
    let _ = place.discard(release).await;
    tokio::time::sleep(A_MOMENT).await;
    let _ = place.discard(release).await;
}
