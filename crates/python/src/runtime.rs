//! Threads, and waiting for them.
//!
//! Nothing is started when the module is imported: a process that forks afterwards, as `multiprocessing` does on Linux,
//! can use the functions in its children. Threads do not survive a fork, so a child of a process that has used them is told so.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

use crate::failure::Failure;

/// How often a waiting thread looks for Ctrl-C and tells the progress.
const TICK: Duration = Duration::from_millis(50);

/// How long the end of the process waits for files to be removed.
const GRACE: Duration = Duration::from_secs(2);

struct Threads {
    /// The process that started them.
    process: u32,
    runtime: Runtime,
}

static THREADS: Mutex<Option<Threads>> = Mutex::new(None);

/// The threads that queries run on; the first call starts them.
pub fn handle() -> Result<Handle, Failure> {
    let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    if threads.is_none() {
        let runtime = Builder::new_multi_thread().enable_all().thread_name("anonymize").build();
        let runtime = runtime
            .map_err(|error| Failure::query(format!("threads cannot be started: {error}")))?;
        *threads = Some(Threads { process: std::process::id(), runtime });
    }
    match threads.as_ref() {
        Some(threads) if threads.process == std::process::id() => {
            Ok(threads.runtime.handle().clone())
        }
        _ => Err(Failure::query(
            "this process was forked from one that had used datafusion_anonymize, and threads do not survive a fork: \
             write multiprocessing.set_start_method('spawn'), or use datafusion_anonymize in the children only",
        )),
    }
}

/// Whether this process inherited threads that do not run here. What they hold must not be waited for.
pub fn is_forked() -> bool {
    let threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    threads.as_ref().is_some_and(|threads| threads.process != std::process::id())
}

/// Whether threads were started.
#[pyfunction]
pub fn has_threads() -> bool {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Stops all queries; Python calls it before the interpreter goes away.
#[pyfunction]
pub fn close(py: Python<'_>) {
    py.detach(|| {
        let threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner).take();
        match threads {
            Some(threads) if threads.process == std::process::id() => {
                threads.runtime.shutdown_timeout(GRACE);
            }
            Some(inherited) => std::mem::forget(inherited),
            None => {}
        }
    });
}

/// Somebody who is told now and then while a query runs. It runs with the GIL; what it raises stops the query.
pub trait Watch: Send {
    /// It is time to look.
    fn look(&mut self, py: Python<'_>) -> PyResult<()>;
}

/// Nobody; Ctrl-C is heard all the same.
pub struct Nobody;

impl Watch for Nobody {
    fn look(&mut self, _py: Python<'_>) -> PyResult<()> {
        Ok(())
    }
}

/// Waits for work without the GIL. Ctrl-C, or an exception of whoever watches, drops the work.
pub fn wait<T, F>(
    py: Python<'_>,
    watch: &mut dyn Watch,
    work: impl FnOnce() -> F + Send,
) -> Result<T, Failure>
where
    T: Send,
    F: Future<Output = Result<T, Failure>>,
{
    py.detach(|| wait_detached(watch, work))
}

/// The same for a thread that does not hold the GIL.
pub fn wait_detached<T, F>(watch: &mut dyn Watch, work: impl FnOnce() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    handle()?.block_on(async {
        tokio::select! {
            biased;
            outcome = work() => outcome,
            error = raised(watch) => Err(error.into()),
        }
    })
}

/// The same for work that is told to stop and cleans up after itself: it is waited for to its end.
pub fn wait_for_end<T, F>(
    py: Python<'_>,
    watch: &mut dyn Watch,
    work: impl FnOnce(oneshot::Receiver<()>) -> F + Send,
) -> Result<T, Failure>
where
    T: Send,
    F: Future<Output = Result<T, Failure>>,
{
    py.detach(|| {
        handle()?.block_on(async {
            let (stop, stopped) = oneshot::channel();
            let mut work = std::pin::pin!(work(stopped));
            let error = tokio::select! {
                biased;
                outcome = &mut work => return outcome,
                error = raised(watch) => error,
            };
            // It may have ended by itself meanwhile; the exception is what Python hears of either way.
            let _ = stop.send(());
            let _ = work.await;
            Err(error.into())
        })
    })
}

/// Waits for Ctrl-C, or for an exception of whoever watches.
async fn raised(watch: &mut dyn Watch) -> PyErr {
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is there at once.
    tick.tick().await;
    loop {
        tick.tick().await;
        let looked = Python::attach(|py| {
            py.check_signals()?;
            watch.look(py)
        });
        if let Err(error) = looked {
            return error;
        }
    }
}
