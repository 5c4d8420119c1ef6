//! Connections that have not logged in yet.
//!
//! They do not count towards the limit of connections, or whoever opens many without logging in would shut out
//! everybody. Their own number is limited too: beyond it, the one that has waited longest is closed.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use log::info;
use tokio::task::AbortHandle;

use crate::session::Session;

/// Connections on which nobody has logged in.
pub struct PendingLogins {
    places: usize,
    waiting: VecDeque<(AbortHandle, Weak<Session>)>,
}

impl PendingLogins {
    /// At most `places` at a time.
    pub fn new(places: usize) -> Self {
        Self { places, waiting: VecDeque::new() }
    }

    /// Adds a connection; closes the oldest ones if there are too many.
    pub fn enter(&mut self, task: AbortHandle, session: &Arc<Session>) {
        self.waiting.retain(|(task, session)| {
            let waits = session.upgrade().is_some_and(|session| !session.is_logged_in());
            waits && !task.is_finished()
        });
        while self.waiting.len() >= self.places {
            let Some((longest, _)) = self.waiting.pop_front() else { break };
            info!("a connection without a login made place for another");
            longest.abort();
        }
        self.waiting.push_back((task, Arc::downgrade(session)));
    }
}
