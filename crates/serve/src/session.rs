//! A connection: who it is, what it may use, and how its queries are stopped.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_postgres::pgwire::api::portal::Format;
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};
use parking_lot::Mutex;
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Sleep, interval, sleep_until};

use crate::growth::Budget;
use crate::query;
use crate::service::Service;
use crate::wire::{self, state};
use crate::workspace::Workspace;

/// How long a client may leave the rows of a query unread after its time is over.
const UNREAD: Duration = Duration::from_secs(5);

/// How long a refresh may be waited for.
const LONGEST_REFRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a query may rest between two portions of its rows while others wait for a turn.
const RESTING: Duration = Duration::from_secs(5);

/// The state of one connection.
pub struct Session {
    // Who
    service: Arc<Service>,
    workspace: OnceLock<(Arc<Workspace>, OwnedSemaphorePermit)>,
    // Resources
    allowance: tokio::sync::Mutex<Weak<Allowance>>,
    // Progress
    cancel: Arc<Notify>,
    deadlines: Arc<Mutex<Deadlines>>,
    busy: watch::Sender<bool>,
    /// Queries that have begun, and since when nobody asks for their rows.
    begun: Mutex<OpenQueries>,
    format: Mutex<Format>,
}

/// A turn at running queries, and the memory that comes with it. The statements of one message share it:
/// were each to wait for a turn of its own, they would wait for each other.
pub struct Allowance {
    /// The engine's resources, with a memory limit of the connection's own.
    pub runtime: Arc<RuntimeEnv>,
    /// The part of that memory which expressions ask for.
    pub budget: Budget,
    _turn: OwnedSemaphorePermit,
}

/// A query that can be made to give back what it holds, while nobody asks for its rows.
pub trait Reclaimable: Send + Sync {
    /// Ends the query; whoever asks for more rows is told.
    fn reclaim(&self);
}

struct OpenQueries {
    queries: Vec<Weak<dyn Reclaimable>>,
    untouched_since: Instant,
}

/// Somebody who waits for a turn.
struct WaitingForTurn(Arc<Service>);

impl WaitingForTurn {
    fn new(service: &Arc<Service>) -> Self {
        service.waiting_for_turn.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(service))
    }
}

impl Drop for WaitingForTurn {
    fn drop(&mut self) {
        self.0.waiting_for_turn.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Deadlines {
    next: u64,
    running: BTreeMap<u64, Instant>,
}

impl Session {
    /// A connection of somebody who has not logged in.
    pub fn new(service: &Arc<Service>) -> Arc<Self> {
        Arc::new(Self {
            service: Arc::clone(service),
            workspace: OnceLock::new(),
            allowance: tokio::sync::Mutex::new(Weak::new()),
            cancel: Arc::new(Notify::new()),
            deadlines: Arc::default(),
            busy: watch::Sender::new(false),
            begun: Mutex::new(OpenQueries { queries: Vec::new(), untouched_since: Instant::now() }),
            format: Mutex::default(),
        })
    }

    /// The service it belongs to.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Whose connection it is from now on, if there is a place for one more.
    pub fn log_in(&self, workspace: Arc<Workspace>) -> PgWireResult<()> {
        let place = Arc::clone(&self.service.places).try_acquire_owned();
        let place = place.map_err(|_| {
            wire::fatal(state::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
        })?;
        // A connection logs in once: a second attempt changes nothing.
        let _ = self.workspace.set((workspace, place));
        Ok(())
    }

    /// Whether somebody has logged in.
    pub fn is_logged_in(&self) -> bool {
        self.workspace.get().is_some()
    }

    /// What the connection works in; an error before somebody has logged in. The protocol's library
    /// goes on after a failed login if the client does: this is what stops it.
    pub fn workspace(&self) -> PgWireResult<&Arc<Workspace>> {
        let nobody = || wire::fatal(state::NO_AUTHORIZATION, "log in first");
        self.workspace.get().map(|(workspace, _)| workspace).ok_or_else(nobody)
    }

    /// Who it is, for the log.
    pub fn user(&self) -> &str {
        self.workspace.get().map_or("(nobody)", |(workspace, _)| workspace.user.as_str())
    }

    /// How the rows of the statement that is about to run are written.
    pub fn set_result_format(&self, format: Format) {
        *self.format.lock() = format;
    }

    /// How the rows of the running statement are written.
    pub fn result_format(&self) -> Format {
        self.format.lock().clone()
    }

    /// A turn at running queries: the connection's own if it has one, or the next free one.
    pub async fn allowance(&self) -> PgWireResult<Arc<Allowance>> {
        let mut held = self.allowance.lock().await;
        if let Some(allowance) = held.upgrade() {
            return Ok(allowance);
        }
        let turns = &self.service.turns;
        // Whoever gets a turn at once does not wait, not even for the moment in which somebody else looks.
        let turn = match Arc::clone(turns).try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                let _waits = WaitingForTurn::new(&self.service);
                let turn = Arc::clone(turns).acquire_owned().await;
                turn.map_err(|_| shutting_down())?
            }
        };
        let base = &self.service.runtime;
        let memory = self.service.limits.query_memory;
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(memory));
        let budget = Budget::new(&pool, memory);
        let runtime = Arc::new(RuntimeEnv { memory_pool: pool, ..base.as_ref().clone() });
        let allowance = Arc::new(Allowance { runtime, budget, _turn: turn });
        *held = Arc::downgrade(&allowance);
        Ok(allowance)
    }

    /// Watches over a query that begins now.
    pub fn watch(&self, asked_ms: Option<u64>) -> Watch {
        let limit = self.service.limits.query_timeout;
        self.watch_for(asked_ms.map_or(limit, |asked| limit.min(Duration::from_millis(asked))))
    }

    fn watch_for(&self, limit: Duration) -> Watch {
        let deadline = Instant::now() + limit;
        let mut deadlines = self.deadlines.lock();
        deadlines.next += 1;
        let number = deadlines.next;
        deadlines.running.insert(number, deadline);
        let mut cancelled = Box::pin(Arc::clone(&self.cancel).notified_owned());
        // From here on, not from the first poll: a request must not slip through between.
        cancelled.as_mut().enable();
        Watch {
            cancelled,
            deadline: Box::pin(sleep_until(deadline)),
            number,
            deadlines: Arc::clone(&self.deadlines),
        }
    }

    /// Stops the queries that run now.
    pub fn cancel(&self) {
        self.cancel.notify_waiters();
    }

    /// Marks the connection as busy until the mark is dropped.
    pub fn mark_busy(self: &Arc<Self>) -> PgWireResult<BusyGuard> {
        if self.service.is_stopping() {
            return Err(shutting_down());
        }
        self.busy.send_replace(true);
        Ok(BusyGuard(Arc::clone(self)))
    }

    /// Whether a statement of the connection is being answered.
    pub fn is_busy(&self) -> bool {
        *self.busy.borrow()
    }

    /// Waits until no statement is being answered.
    pub async fn idle(&self) {
        // The sender is part of the session: it cannot be gone.
        let _ = self.busy.subscribe().wait_for(|busy| !busy).await;
    }

    /// Waits until a client has left rows unread for longer than it may. The deadline of the query does
    /// not see this: rows that wait for the network are not polled.
    pub async fn overdue(&self) {
        let mut ticks = interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
            let now = Instant::now();
            self.make_room(now);
            if self.deadlines.lock().running.values().any(|deadline| *deadline + UNREAD < now) {
                return;
            }
        }
    }

    /// Remembers a query that keeps its turn until its last row.
    pub fn remember(&self, query: &Arc<dyn Reclaimable>) {
        let mut begun = self.begun.lock();
        begun.queries.retain(|query| query.strong_count() > 0);
        begun.queries.push(Arc::downgrade(query));
    }

    /// Ends queries whose rows nobody asks for while others wait for a turn. A client that fetches in portions
    /// keeps its turn between them, but not for as long as it likes.
    fn make_room(&self, now: Instant) {
        let mut begun = self.begun.lock();
        let are_waiting = self.service.waiting_for_turn.load(Ordering::Relaxed);
        let rests = if self.is_busy() { None } else { Some(now - begun.untouched_since) };
        if !is_to_make_room(rests, are_waiting) {
            return;
        }
        for query in begun.queries.drain(..).filter_map(|query| query.upgrade()) {
            query.reclaim();
        }
    }

    /// Computes a view anew, if the user may.
    pub async fn refresh(&self, view: &str, asked_ms: Option<u64>) -> PgWireResult<()> {
        let workspace = self.workspace()?;
        if !workspace.may_refresh || !workspace.views.contains(view) {
            let message = format!("permission denied to refresh view \"{view}\"");
            return Err(wire::error(state::NOT_PERMITTED, message));
        }
        // A refresh may take longer than a query. The time that a client asks for, it gets.
        let limit = asked_ms.map_or(LONGEST_REFRESH, Duration::from_millis);
        let watch = self.watch_for(limit.min(LONGEST_REFRESH));
        let outcome = tokio::select! {
            // In this order: the worker hears of every refresh and logs how it ends, however short the time is.
            biased;
            outcome = self.service.refresher.refresh(view) => outcome,
            interrupted = watch => return Err(interrupted),
        };
        outcome.map_err(|reason| {
            wire::error(state::INTERNAL, format!("not refreshed: {}", reason.told))
        })
    }
}

/// Whether the queries of a connection that has rested for so long, if it rests, are in the way of others.
fn is_to_make_room(rests: Option<Duration>, are_waiting: usize) -> bool {
    are_waiting > 0 && rests.is_some_and(|rests| rests >= RESTING)
}

fn shutting_down() -> PgWireError {
    wire::fatal(state::SHUTTING_DOWN, "terminating connection due to administrator command")
}

/// A mark that a statement is being answered.
pub struct BusyGuard(Arc<Session>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.begun.lock().untouched_since = Instant::now();
        self.0.busy.send_replace(false);
    }
}

/// Ends when a query must: at its deadline, or when the client asks.
pub struct Watch {
    cancelled: Pin<Box<OwnedNotified>>,
    deadline: Pin<Box<Sleep>>,
    number: u64,
    deadlines: Arc<Mutex<Deadlines>>,
}

impl Future for Watch {
    type Output = PgWireError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<PgWireError> {
        if self.cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(query::interrupted(true));
        }
        self.deadline.as_mut().poll(cx).map(|()| query::interrupted(false))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.deadlines.lock().running.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_rests_as_long_as_nobody_waits_and_then_not_for_long() {
        let hours = Duration::from_secs(7200);
        assert!(!is_to_make_room(Some(hours), 0));
        assert!(!is_to_make_room(None, 1), "it does not rest");
        assert!(!is_to_make_room(Some(RESTING - Duration::from_millis(1)), 1));
        assert!(is_to_make_room(Some(RESTING), 1));
    }
}
