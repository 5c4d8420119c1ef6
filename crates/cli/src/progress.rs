//! What a long statement tells on standard error while it runs.
//!
//! On a terminal that is one line, rewritten; in a log file a plain line now and then. A thread of its
//! own does it, because the runtime's threads may all be busy with the query.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anonymize_release::{rows_read, rows_to_read};
use datafusion::physical_plan::ExecutionPlan;

/// Statements shorter than this say nothing.
const FIRST: Duration = Duration::from_secs(1);
/// Pace of a line that is rewritten.
const TERMINAL: Duration = Duration::from_millis(500);
/// Pace of lines that stay.
const LOG: Duration = Duration::from_secs(10);

/// Who wants to know, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Nobody.
    Nobody,
    /// A person at a terminal.
    Terminal,
    /// A log file.
    Log,
}

impl Audience {
    /// Whoever reads standard error.
    pub fn of_stderr() -> Self {
        if stderr().is_terminal() { Self::Terminal } else { Self::Log }
    }
}

/// Reports on one statement until it is dropped.
pub struct Progress {
    watched: Arc<Watched>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the statement and the reporting thread share. A further figure is a further field here,
/// written in [`Progress`] and read in [`Watched::line`].
struct Watched {
    title: String,
    started: Instant,
    plan: Mutex<Option<Arc<dyn ExecutionPlan>>>,
}

impl Progress {
    /// Starts the clock. `title` says which statement it is.
    pub fn start(audience: Audience, title: String) -> Self {
        let watched = Arc::new(Watched { title, started: Instant::now(), plan: Mutex::new(None) });
        let (stop, stopped) = channel();
        let shared = Arc::clone(&watched);
        let report = move || {
            let (mut wait, pace) = match audience {
                Audience::Nobody => return,
                Audience::Terminal => (FIRST, TERMINAL),
                Audience::Log => (LOG, LOG),
            };
            let mut shown = false;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                write(audience, &shared.line(audience));
                shown = true;
                wait = pace;
            }
            if shown && audience == Audience::Terminal {
                write(audience, "");
            }
        };
        // Without a thread to spare the statement runs all the same, silently.
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(report).ok();
        Self { watched, stop: Some(stop), thread }
    }

    /// From now on the rows that this plan's sources have delivered are part of the report.
    pub fn watch(&self, plan: Arc<dyn ExecutionPlan>) {
        *self.watched.plan() = Some(plan);
    }

    /// Takes the line off the terminal and stays silent, because results are about to appear there.
    pub fn hide(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread cannot fail in a way that matters to the statement.
            let _ = thread.join();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}

impl Watched {
    fn plan(&self) -> MutexGuard<'_, Option<Arc<dyn ExecutionPlan>>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self, audience: Audience) -> String {
        let plan = self.plan().clone();
        let rows = plan.as_ref().map(|plan| rows_read(plan.as_ref())).filter(|rows| *rows > 0);
        // A bar that does not move is noise in a log.
        let total = plan.filter(|_| audience == Audience::Terminal);
        let total = total.and_then(|plan| rows_to_read(plan.as_ref()));
        let bar = rows.zip(total).and_then(|(rows, total)| bar(rows, total)).unwrap_or_default();
        let rows = rows.map(|rows| format!(", {rows} rows read")).unwrap_or_default();
        format!("{bar}{} s{rows}: {}", self.started.elapsed().as_secs(), self.title)
    }
}

/// How much of a known number of rows is read; nothing while it cannot be told.
fn bar(rows: usize, total: usize) -> Option<String> {
    const CELLS: usize = 20;
    if total == 0 || rows > total {
        return None;
    }
    let full = rows * CELLS / total;
    Some(format!("[{}{}] ", "#".repeat(full), ".".repeat(CELLS - full)))
}

/// A line on standard output, which may be full or gone: what was done is done all the same.
pub fn say(line: &str) {
    let _ = writeln!(stdout().lock(), "{line}");
}

/// A line on standard error, which may be full or gone.
pub fn warn(line: &str) {
    let _ = writeln!(stderr().lock(), "anonymize: {line}");
}

// Standard error may be gone; the statement does not depend on it.
fn write(audience: Audience, line: &str) {
    let mut stderr = stderr().lock();
    let _ = match audience {
        Audience::Nobody => Ok(()),
        // Wrapping is off meanwhile: of a line that wraps, only the end could be rewritten.
        Audience::Terminal => write!(stderr, "\r\x1b[K\x1b[?7l{line}\x1b[?7h"),
        Audience::Log => writeln!(stderr, "anonymize: {line}"),
    };
    let _ = stderr.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_never_longer_than_its_frame() {
        assert_eq!(bar(0, 10).as_deref(), Some("[....................] "));
        assert_eq!(bar(5, 10).as_deref(), Some("[##########..........] "));
        assert_eq!(bar(10, 10).as_deref(), Some("[####################] "));
        assert_eq!((bar(11, 10), bar(0, 0)), (None, None));
    }
}
