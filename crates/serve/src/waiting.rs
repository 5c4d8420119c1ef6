//! Those who have not logged in yet.
//!
//! They do not count as connections, or whoever opens many and says nothing would shut out everybody. There is
//! room for some of them; when it is full, who has waited longest makes place.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use log::info;
use tokio::task::AbortHandle;

use crate::session::Session;

/// Connections on which nobody has logged in.
pub struct WaitingRoom {
    places: usize,
    waiting: VecDeque<(AbortHandle, Weak<Session>)>,
}

impl WaitingRoom {
    /// With room for so many.
    pub fn new(places: usize) -> Self {
        Self { places, waiting: VecDeque::new() }
    }

    /// One more, who may take the place of another.
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
