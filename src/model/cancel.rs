//! A flag by which the consumer of a release stops the work on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Shared between the stream that wants the rows and the threads that work on them.
///
/// A thread inside a computation cannot be aborted, so every loop over many rows asks here.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    cancelled: Arc<AtomicBool>,
    #[cfg(test)]
    looks: Arc<Looks>,
}

impl Cancel {
    /// Asks all holders to stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// An error once the work is not wanted any more.
    pub fn check(&self) -> Result<()> {
        #[cfg(test)]
        if self.looks.next() {
            self.cancel();
        }
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        Ok(())
    }
}

/// How often somebody has asked, and the time at which the answer is no.
#[cfg(test)]
#[derive(Debug, Default)]
struct Looks {
    so_far: std::sync::atomic::AtomicUsize,
    last: Option<usize>,
}

#[cfg(test)]
impl Looks {
    fn next(&self) -> bool {
        Some(self.so_far.fetch_add(1, Ordering::Relaxed)) == self.last
    }
}

#[cfg(test)]
impl Cancel {
    /// Cancels the work after it was asked so many times.
    pub(crate) fn after(looks: usize) -> Self {
        let looks = Arc::new(Looks { last: Some(looks), ..Looks::default() });
        Self { looks, ..Self::default() }
    }

    /// How often it was asked.
    pub(crate) fn looks(&self) -> usize {
        self.looks.so_far.load(Ordering::Relaxed)
    }
}
