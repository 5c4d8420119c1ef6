//! Threads for the engine, apart from those of the connections.
//!
//! The engine may compute for seconds before it lets go of a thread. On the threads of the connections
//! that would hold up everybody: a cancel request, a deadline, a login.

use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinError, JoinHandle};

use crate::complexity::STACK_BYTES;
use crate::error::{Error, Result};

/// How long threads that still compute may hold up the end of the service.
const PATIENCE: Duration = Duration::from_secs(10);

/// The threads of the engine.
pub struct Compute {
    runtime: Option<Runtime>,
}

impl Compute {
    /// As many threads as there are cores.
    pub fn new() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("anonymize-compute")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build();
        let failed = |error| Error::setup(format!("cannot start the worker threads: {error}"));
        Ok(Self { runtime: Some(runtime.map_err(failed)?) })
    }

    /// How work gets there.
    pub fn handle(&self) -> Option<Handle> {
        self.runtime.as_ref().map(|runtime| runtime.handle().clone())
    }

    /// Ends the threads, so that what they hold (temporary files, say) is let go.
    pub async fn end(mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting is not for a thread of the connections.
            let _ = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENCE)).await;
        }
    }
}

// A runtime must not be dropped where tasks run: it would wait for its own.
impl Drop for Compute {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Work of the engine that stops when nobody waits for it any more.
pub struct Work<T>(JoinHandle<T>);

impl<T: Send + 'static> Work<T> {
    /// Starts it.
    pub fn start(engine: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(engine.spawn(work))
    }

    /// Waits for it.
    pub async fn done(mut self) -> Result<T, JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
