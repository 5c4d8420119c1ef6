//! Releases are computed once and kept: by whom, when, and from what.
//!
//! ```text
//! start ─┐
//! poll ──┼─► worker ─► readers of the release before the last are done ─► release job ─► current release
//! asked ─┘              (staging, anonymize, read back, verify, publish)    └─ failed: the old one stays
//! ```
//!
//! One refresh runs at a time: each may use all of the memory that refreshes have.

mod origin;
mod worker;

pub use origin::Origin;
pub use worker::Worker;

use anonymize_release::Error;
use tokio::sync::{mpsc, oneshot};

/// Why a view was not refreshed, without a value of the data.
#[derive(Debug)]
pub struct Reason {
    /// What a client is told: no file and no column of the sources, which clients do not know.
    pub told: &'static str,
    /// What the log says.
    pub detail: String,
}

impl Reason {
    /// A step that failed.
    fn failed(detail: impl Into<String>) -> Self {
        Self { told: "a step failed; the service's log says which one", detail: detail.into() }
    }
}

impl From<Error> for Reason {
    fn from(error: Error) -> Self {
        let told = match &error {
            Error::Job(_) => {
                "the view's definition does not fit its sources; the service's log says more"
            }
            Error::Unmet(_) => {
                "the release would not keep what the policy asks for; the service's log says more"
            }
            Error::Busy(_) => "another run works on the same view",
            Error::Cancelled => "it was stopped before anything was published",
            Error::Failed(_) => return Self::failed(error.to_string()),
        };
        Self { told, detail: error.to_string() }
    }
}

/// Sends requests to the worker.
#[derive(Debug, Clone)]
pub struct Refresher {
    requests: mpsc::Sender<Request>,
}

/// A request to the worker.
#[derive(Debug)]
pub struct Request {
    /// One view, or all of them.
    view: Option<String>,
    /// Who waits for it.
    done: Option<oneshot::Sender<Result<(), Reason>>>,
}

/// A handle for requests, and the worker's end of the channel.
pub fn channel() -> (Refresher, mpsc::Receiver<Request>) {
    let (requests, heard) = mpsc::channel(64);
    (Refresher { requests }, heard)
}

impl Refresher {
    /// Computes a view anew and waits for it. The refresh is stopped if nobody waits any more.
    pub async fn refresh(&self, view: &str) -> Result<(), Reason> {
        let (done, outcome) = oneshot::channel();
        let request = Request { view: Some(view.to_owned()), done: Some(done) };
        let told = "the service is stopping";
        let stopped = || Reason { told, detail: told.to_owned() };
        self.requests.send(request).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }

    /// Asks for all views to be computed anew.
    pub async fn refresh_all(&self) {
        // Nobody listens any more: the service is stopping.
        let _ = self.requests.send(Request { view: None, done: None }).await;
    }
}
