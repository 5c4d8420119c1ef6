//! From a job to a published release.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::SessionContext;

use crate::checksum;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::manifest::{Manifest, Table};
use crate::place::{Found, Lock, Place, Unpublished, new_release};
use crate::plan::marked;
use crate::progress::{Observer, Phase, Silent};
use crate::ready::{Prepared, check_found, prepare};
use crate::scratch::Scratch;
use crate::series::{Begin, Recorded, SecondLook, Tonight, register_held};
use crate::verify::{columns, verify};
use crate::write::{NightTables, Planned, Written, WrittenRelease, plan, write};

/// How a job is run.
#[derive(Clone)]
pub struct RunOptions {
    /// Everything but publishing: nothing is read from, written to or locked at the output.
    pub dry_run: bool,
    /// Starts another series, whatever was before: what that costs, [`NEW_SERIES_COST`](crate::NEW_SERIES_COST) says.
    pub new_series: bool,
    /// Who is told about the progress.
    pub observer: Arc<dyn Observer>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { dry_run: false, new_series: false, observer: Arc::new(Silent) }
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
/// In a series these are steps among others, which keep the state and the release together: the module `series` lists them.
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
    if options.new_series && job.series.is_none() {
        return Err(Error::job(
            "the job is no series that could be started anew; write [series] with state = \"…\"",
        ));
    }
    let release = new_release()?;
    if options.dry_run {
        let manifest = until(&mut stopped, try_out(&prepared, &release, &options)).await?;
        return Ok(Outcome { manifest, published: false, notes: Vec::new() });
    }
    let place = Arc::new(Place::new(&context.runtime_env(), &job.locate(&job.output.path))?);
    let lock = Some(until(&mut stopped, place.lock(&release)).await?);
    let new_series = options.new_series;
    let mut staged = Staged { place, release, new_series, lock, tonight: None };
    let end = staged.publish(&prepared, observer, &mut stopped).await;
    staged.finish(end).await
}

/// What a run would publish. Only a series has to look at its last release and state for that.
async fn try_out(prepared: &Prepared, release: &str, options: &RunOptions) -> Result<Manifest> {
    let Prepared { job, context, .. } = prepared;
    let scratch = Scratch::new(context)?;
    let url = scratch.url();
    let (mut found, mut tonight) = (None, None);
    if job.series.is_some() {
        let place = Place::new(&context.runtime_env(), &job.locate(&job.output.path))?;
        found = place.find().await?.manifest;
        let begin = Begin {
            release,
            found: found.as_ref(),
            new_series: options.new_series,
            scratch: Some(&url),
        };
        tonight = Some(Tonight::open(job, context, begin).await?);
    }
    let target = Target { staging: &url, tonight: tonight.as_ref() };
    let made = make(prepared, target, options.observer.as_ref()).await?;
    made.into_manifest(job, release, found.as_ref())
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

/// Where a run writes.
#[derive(Clone, Copy)]
struct Target<'a> {
    /// A URL with a slash at its end.
    staging: &'a str,
    tonight: Option<&'a Tonight>,
}

/// Written, read back and found to hold.
struct Made {
    tables: Vec<Table>,
    findings: crate::verify::Findings,
    series: Option<Recorded>,
}

async fn make(prepared: &Prepared, target: Target<'_>, observer: &dyn Observer) -> Result<Made> {
    let Prepared { job, context, planned } = prepared;
    observer.phase(Phase::Anonymize);
    let planned = match target.tonight {
        // By now the session knows the last night.
        Some(tonight) => Planned {
            release: plan(job, context, tonight.newcomers()).await?,
            marked: Some(marked(job, context, tonight.newcomers()).await?),
        },
        None => Planned { release: planned.clone(), marked: None },
    };
    let WrittenRelease { tables: written, night } =
        write(job, context, planned, target.staging, observer).await?;
    let segment = match (target.tonight, night) {
        (Some(tonight), Some(NightTables { newcomers, held })) => {
            register_held(context, held)?;
            tonight.write_newcomers(context, newcomers).await?
        }
        _ => None,
    };
    observer.phase(Phase::Verify);
    let mut findings = verify(job, context, &written, observer).await?;
    let mut series = None;
    if let (Some(tonight), Some(mut figures)) = (target.tonight, written[0].series) {
        let look = SecondLook { job, context, observer };
        tonight.verify(&look, &mut figures, &mut findings).await?;
        series = Some(tonight.record(&figures, segment)?);
    }
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
    Ok(Made { tables, findings, series })
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
            series: self.series.map(|recorded| recorded.facts),
        })
    }
}

/// A run that holds the lock and may have staged something.
struct Staged {
    place: Arc<Place>,
    release: String,
    new_series: bool,
    lock: Option<Lock>,
    /// The night that the run adds to a series.
    tonight: Option<Arc<Tonight>>,
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
        let (found, manifest, state) = match made {
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
        let begun = self.tonight.as_ref().filter(|_| !self.new_series);
        let begun = begun.and_then(|tonight| tonight.note());
        let mut notes: Vec<String> = note.into_iter().chain(begun).collect();
        if let (Some(tonight), Some(state)) = (&self.tonight, &state)
            && let Err(error) = tonight.published(state).await
        {
            notes.push(format!("the next run tidies the state of the series: {error}"));
        }
        if let Some(last) = &found.manifest
            && let Err(error) = self.place.retire(last, &manifest).await
        {
            notes.push(format!("older releases could not be removed: {error}"));
        }
        End::Published(Box::new(Outcome { manifest, published: true, notes }))
    }

    /// Everything before the step that publishes.
    async fn make(
        &mut self,
        prepared: &Prepared,
        observer: &dyn Observer,
    ) -> Result<(Found, Manifest, Option<Recorded>)> {
        let job = &prepared.job;
        let found = self.place.find().await?;
        check_found(job, found.manifest.as_ref())?;
        self.open_series(prepared, found.manifest.as_ref()).await?;
        if let Some(lock) = &self.lock {
            self.place.tidy(lock, &found).await?;
            if let Some(tonight) = &self.tonight {
                tonight.tidy(!lock.was_taken_over()).await?;
            }
        }
        let staging = self.place.url(&Place::staging(&self.release));
        let target = Target { staging: &staging, tonight: self.tonight.as_deref() };
        let made = make(prepared, target, observer).await?;
        let state = made.series.clone();
        if let (Some(tonight), Some(state)) = (&self.tonight, &state) {
            tonight.save(state).await?;
        }
        let manifest = made.into_manifest(job, &self.release, found.manifest.as_ref())?;
        Ok((found, manifest, state))
    }

    async fn open_series(&mut self, prepared: &Prepared, found: Option<&Manifest>) -> Result<()> {
        let Prepared { job, context, .. } = prepared;
        if job.series.is_some() {
            let (release, new_series) = (&self.release, self.new_series);
            let begin = Begin { release, found, new_series, scratch: None };
            self.tonight = Some(Arc::new(Tonight::open(job, context, begin).await?));
        }
        Ok(())
    }

    async fn finish(mut self, end: End) -> Result<Outcome> {
        let outcome = match end {
            End::Published(outcome) => Ok(*outcome),
            End::Leave(error) => Err(error),
            End::Discard(error) => {
                discard(&self.place, &self.release, self.tonight.as_deref()).await;
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
            let tonight = self.tonight.take();
            runtime.spawn(async move {
                discard(&place, &release, tonight.as_deref()).await;
                lock.release().await;
            });
        }
    }
}

/// Removes what was staged. Writers that were stopped may still be on their way out, hence twice.
async fn discard(place: &Place, release: &str, tonight: Option<&Tonight>) {
    const A_MOMENT: Duration = Duration::from_millis(50);
    // What cannot be removed now is removed by the next run.
    for pause in [A_MOMENT, Duration::ZERO] {
        let _ = place.discard(release).await;
        if let Some(tonight) = tonight {
            let _ = tonight.discard().await;
        }
        tokio::time::sleep(pause).await;
    }
}
