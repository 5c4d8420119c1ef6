//! A flag by which the consumer of a release stops the work on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Shared between the stream that wants the rows and the threads that work on them.
///
/// A thread inside a computation cannot be aborted, so every loop over many rows checks the flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    cancelled: Arc<AtomicBool>,
    #[cfg(test)]
    checks: Arc<Checks>,
}

impl Cancel {
    /// Asks all holders to stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// An error once the work is not wanted any more.
    pub fn check(&self) -> Result<()> {
        #[cfg(test)]
        if self.checks.is_last() {
            self.cancel();
        }
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        Ok(())
    }
}

/// How often the flag was checked, and the check at which it is raised.
#[cfg(test)]
#[derive(Debug, Default)]
struct Checks {
    so_far: std::sync::atomic::AtomicUsize,
    last: Option<usize>,
}

#[cfg(test)]
impl Checks {
    fn is_last(&self) -> bool {
        Some(self.so_far.fetch_add(1, Ordering::Relaxed)) == self.last
    }
}

#[cfg(test)]
impl Cancel {
    /// Cancels the work after this many checks.
    pub(crate) fn after(checks: usize) -> Self {
        let checks = Arc::new(Checks { last: Some(checks), ..Checks::default() });
        Self { checks, ..Self::default() }
    }

    /// How often it was checked.
    pub(crate) fn checks(&self) -> usize {
        self.checks.so_far.load(Ordering::Relaxed)
    }
}
