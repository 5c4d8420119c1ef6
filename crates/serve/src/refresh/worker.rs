//! Who computes releases.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anonymize_release::{
    Error, Job, Manifest, Outcome, RunOptions, check_files, current, plan_release, run_until,
};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};
use log::{error, info, warn};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::origin::{definition, source};
use super::{Origin, Reason, Request};
use crate::policy::{Policy, in_policy};
use crate::release::{Release, Releases};
use crate::server::stopped;
use crate::workspace::SCHEME;
use crate::{types, wire};

/// How often it is looked whether somebody still reads.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The longest pause after refreshes that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Somebody who asked for a refresh and waits for it.
type Requester<'a> = &'a mut oneshot::Sender<Result<(), Reason>>;

/// Computes releases, one at a time.
pub struct Worker {
    // Configuration
    state: PathBuf,
    poll: Option<Duration>,
    /// How long a query can go on reading.
    longest_query: Duration,
    // State
    views: BTreeMap<String, ViewState>,
    releases: Arc<Releases>,
    // Resources
    /// Where the sources are read. No client ever meets it.
    host: SessionContext,
    /// Where queries read releases.
    readers: Arc<RuntimeEnv>,
    stopping: watch::Receiver<bool>,
}

/// A view, and what is known of it.
struct ViewState {
    job: Job,
    definition: String,
    /// The source of the current release.
    published: Option<String>,
    /// The source as it was seen last.
    seen: Option<String>,
    /// Releases that were replaced and may still be read.
    replaced: Vec<Weak<Release>>,
    failures: u32,
    /// No refresh by itself before that time.
    retry_after: Option<Instant>,
}

impl Worker {
    /// A worker for the views of a policy.
    pub fn new(
        policy: &Policy,
        releases: &Arc<Releases>,
        host: SessionContext,
        readers: &Arc<RuntimeEnv>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let views = policy.views.iter().map(|(name, view)| {
            let job = view.job.clone();
            let view = ViewState {
                definition: definition(&job),
                job,
                published: None,
                seen: None,
                replaced: Vec::new(),
                failures: 0,
                retry_after: None,
            };
            (name.clone(), view)
        });
        Self {
            state: policy.server.state.clone(),
            poll: policy.server.poll,
            longest_query: policy.server.query_timeout + Duration::from_secs(10),
            views: views.collect(),
            releases: Arc::clone(releases),
            host,
            readers: Arc::clone(readers),
            stopping,
        }
    }

    /// Takes over the releases of an earlier start that are of the same definition. One of another is
    /// not served: the policy may have become stricter.
    pub async fn adopt(&mut self) {
        for (name, view) in &mut self.views {
            let Some(origin) = Origin::read(&self.state, name) else { continue };
            let manifest = match current(&self.host, &view.job.output.path).await {
                Ok(Some(manifest)) => manifest,
                Ok(None) => continue,
                Err(error) => {
                    warn!("view {name}: the last release cannot be used: {error}");
                    continue;
                }
            };
            if origin.release != manifest.release || origin.definition != view.definition {
                info!("view {name}: the policy has changed since the last release");
                continue;
            }
            // Whatever stands there now was not verified by this program.
            if let Err(error) = check_files(&self.host, &view.job.output.path, &manifest).await {
                warn!("view {name}: the last release cannot be used: {error}");
                continue;
            }
            match open(name, &manifest, &self.readers).await {
                Ok(release) => {
                    info!("view {name}: release {} is still good", manifest.release);
                    self.releases.replace(name, release);
                    view.published = Some(origin.source);
                }
                Err(error) => warn!("view {name}: the last release cannot be read: {error}"),
            }
        }
    }

    /// Begins another series of a view with a release of it, whatever was before.
    pub async fn begin_series(mut self, name: &str) -> Result<Manifest, Reason> {
        self.make(name, None, RunOptions { new_series: true, ..RunOptions::default() }).await
    }

    /// Works until the service stops.
    pub async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        self.poll_sources(true).await;
        let period = self.poll.unwrap_or(LONGEST_PAUSE);
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopping = self.stopping.clone();
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut stopping) => return,
                Some(request) = requests.recv() => self.serve(request).await,
                _ = ticks.tick(), if self.poll.is_some() => self.poll_sources(false).await,
            }
        }
    }

    async fn serve(&mut self, request: Request) {
        let names: Vec<String> = match &request.view {
            Some(view) => vec![view.clone()],
            None => self.views.keys().cloned().collect(),
        };
        let mut done = request.done;
        // Whoever gave up before their turn came wants nothing any more.
        if done.as_ref().is_some_and(|done| done.is_closed()) {
            names.iter().for_each(|name| log_abandoned(name));
            return;
        }
        let mut outcome = Ok(());
        for name in names {
            outcome = outcome.and(self.refresh(&name, done.as_mut()).await);
        }
        if let Some(done) = done {
            // Whoever asked may be gone.
            let _ = done.send(outcome);
        }
    }

    /// Refreshes the views whose sources have changed. A source that is being written is left alone
    /// until it looks the same twice, except at the start, when views may have no release at all.
    async fn poll_sources(&mut self, at_start: bool) {
        let names: Vec<String> = self.views.keys().cloned().collect();
        for name in names {
            let Some(view) = self.views.get_mut(&name) else { continue };
            if view.retry_after.is_some_and(|until| Instant::now() < until) {
                continue;
            }
            let now = match source(&view.job, &self.host).await {
                Ok(now) => now,
                Err(reason) => {
                    warn!("view {name}: its sources cannot be looked at: {}", reason.detail);
                    continue;
                }
            };
            let settled = view.seen.replace(now.clone()).is_some_and(|seen| seen == now);
            if view.published.as_ref() != Some(&now) && (settled || at_start) {
                // The outcome is in the log and in the view's state.
                let _ = self.refresh(&name, None).await;
            }
        }
    }

    /// Computes a view anew, until whoever asked for it gives up. Whatever fails, its old release stays.
    async fn refresh(
        &mut self,
        name: &str,
        requester: Option<Requester<'_>>,
    ) -> Result<(), Reason> {
        let begun = Instant::now();
        let gave_up =
            |requester: &Option<Requester<'_>>| requester.as_ref().is_some_and(|by| by.is_closed());
        let mut requester = requester;
        let outcome = self.make(name, requester.as_deref_mut(), RunOptions::default()).await;
        let gave_up = gave_up(&requester);
        let Some(view) = self.views.get_mut(name) else { return outcome.map(|_| ()) };
        match outcome {
            Ok(manifest) => {
                view.failures = 0;
                view.retry_after = None;
                let rows = manifest.counts.rows_published;
                let seconds = begun.elapsed().as_secs_f64();
                info!(
                    "view {name}: release {} with {rows} rows after {seconds:.1} s",
                    manifest.release
                );
                Ok(())
            }
            Err(reason) => {
                if gave_up {
                    log_abandoned(name);
                    return Err(reason);
                }
                view.failures = view.failures.saturating_add(1);
                let pause = self.poll.unwrap_or(LONGEST_PAUSE)
                    * 2_u32.saturating_pow(view.failures.min(10));
                view.retry_after = Some(Instant::now() + pause.min(LONGEST_PAUSE));
                let old =
                    if self.releases.get(name).is_some() { "; the old release stays" } else { "" };
                error!("view {name}: not refreshed: {}{old}", in_policy(name, &reason.detail));
                Err(reason)
            }
        }
    }

    async fn make(
        &mut self,
        name: &str,
        requester: Option<Requester<'_>>,
        options: RunOptions,
    ) -> Result<Manifest, Reason> {
        let Some(view) = self.views.get_mut(name) else {
            return Err(Reason::failed(format!("there is no view '{name}'")));
        };
        let mut stopping = self.stopping.clone();
        let stopped = async {
            tokio::select! {
                () = stopped(&mut stopping) => {}
                () = requester_gave_up(requester) => {}
            }
        };
        let mut stopped = std::pin::pin!(stopped);
        let prepare = async {
            if timeout(self.longest_query, wait_for_readers(&mut view.replaced)).await.is_err() {
                let told = "an older release is still being read";
                return Err(Reason { told, detail: told.to_owned() });
            }
            let before = source(&view.job, &self.host).await?;
            let columns = plan_release(&view.job, &self.host).await?;
            types::check(columns.fields()).map_err(|error| Error::Job(wire::sentence(&error)))?;
            Ok(before)
        };
        let before = tokio::select! {
            biased;
            () = &mut stopped => return Err(Error::Cancelled.into()),
            before = prepare => before?,
        };
        let outcome = run_until(&view.job, &self.host, options, stopped).await;
        let Outcome { manifest, notes, .. } = outcome?;
        notes.iter().for_each(|note| warn!("view {name}: {}", in_policy(name, note)));
        let release = open(name, &manifest, &self.readers).await.map_err(|error| {
            Reason::failed(format!("the release cannot be read: {}", error.strip_backtrace()))
        })?;
        // If the source changed meanwhile, the next look around finds that it is not this one.
        let origin = Origin {
            release: manifest.release.clone(),
            definition: view.definition.clone(),
            source: before.clone(),
        };
        origin.write(&self.state, name)?;
        view.published = Some(before);
        if let Some(replaced) = self.releases.replace(name, release) {
            view.replaced.push(Arc::downgrade(&replaced));
        }
        Ok(manifest)
    }
}

/// The last word on a refresh that was asked for and is not wanted any more, begun or not.
fn log_abandoned(view: &str) {
    info!("view {view}: not refreshed: whoever asked for it gave up");
}

/// Waits until whoever asked gives up; forever if nobody did.
async fn requester_gave_up(requester: Option<Requester<'_>>) {
    match requester {
        Some(requester) => requester.closed().await,
        None => std::future::pending().await,
    }
}

/// Waits until nobody reads the releases any more.
async fn wait_for_readers(replaced: &mut Vec<Weak<Release>>) {
    loop {
        replaced.retain(|release| release.strong_count() > 0);
        if replaced.is_empty() {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// A published release as a table of the readers' store.
async fn open(
    view: &str,
    manifest: &Manifest,
    readers: &Arc<RuntimeEnv>,
) -> Result<Release, DataFusionError> {
    let location = manifest.tables.first().map(|table| table.location.as_str()).unwrap_or_default();
    let url = ListingTableUrl::parse(format!("{SCHEME}://views/{view}/{location}/"))?;
    let context = SessionContext::new_with_config_rt(
        SessionConfig::new().with_collect_statistics(false),
        Arc::clone(readers),
    );
    let options =
        ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension(".parquet");
    let config = ListingTableConfig::new(url).with_listing_options(options);
    let config = config.infer_schema(&context.state()).await?;
    let table = Arc::new(ListingTable::try_new(config)?);
    Ok(Release { table })
}
