//! Another series of a view, begun while nobody is served.
//!
//! A service that began one by itself, or at every start, would publish releases that can be compared.

use std::sync::Arc;

use tokio::sync::watch;

use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::policy::{Policy, in_policy};
use crate::refresh::Worker;
use crate::release::Releases;
use crate::{host, prepare_state, server, service};

/// Begins another series of a view with a release of it, whatever was before, and returns the release.
///
/// What that costs, [`NEW_SERIES_COST`](anonymize_release::NEW_SERIES_COST) says. No service may use the same state.
pub async fn begin_series(policy: &Policy, view: &str) -> Result<String> {
    match policy.views.get(view) {
        None => return Err(Error::setup(format!("there is no [views.{view}]"))),
        Some(known) if known.job.series.is_none() => {
            return Err(Error::setup(format!(
                "view {view} is no series that could be started anew: write [views.{view}.series] with state = \"…\""
            )));
        }
        Some(_) => {}
    }
    let _state = prepare_state(&policy.server.state)?;
    let asked_to_stop = server::asked_to_stop()?;
    let (stop, stopping) = watch::channel(false);
    let readers = service::runtime(&policy.server).map_err(|error| {
        Error::setup(format!("the sessions cannot be set up: {}", error.strip_backtrace()))
    })?;
    let compute = Compute::new()?;
    let engine = compute.handle().ok_or_else(|| Error::setup("there are no worker threads"))?;
    let releases = Arc::new(Releases::default());
    let worker = Worker::new(policy, &releases, host(policy)?, &readers, stopping);
    let name = view.to_owned();
    let mut work = tokio::task::spawn_blocking(move || engine.block_on(worker.begin_series(&name)));
    let outcome = tokio::select! {
        outcome = &mut work => outcome,
        () = asked_to_stop => {
            // The worker holds a receiver, and cleans up.
            let _ = stop.send(true);
            work.await
        }
    };
    compute.end().await;
    let outcome =
        outcome.map_err(|error| Error::Failed(format!("a part of the service failed: {error}")))?;
    match outcome {
        Ok(manifest) => Ok(manifest.release),
        Err(reason) => {
            Err(Error::Failed(format!("view {view}: {}", in_policy(view, &reason.detail))))
        }
    }
}
