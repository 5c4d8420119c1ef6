//! A memory pool that stops a release in the middle of its work, until the test lets it go on.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use parking_lot::{Condvar, Mutex};

/// Whoever asks for memory under a name for the nth time waits at the gate until it is opened.
#[derive(Debug)]
pub struct Gate {
    pool: Arc<dyn MemoryPool>,
    name: &'static str,
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug)]
struct State {
    /// How many may still pass.
    left: usize,
    is_reached: bool,
    is_open: bool,
}

impl Gate {
    /// In front of a pool, for the nth time that a consumer with this in its name asks, from 1.
    pub fn new(pool: Arc<dyn MemoryPool>, name: &'static str, nth: usize) -> Arc<Self> {
        let state = State { left: nth - 1, is_reached: false, is_open: false };
        Arc::new(Self { pool, name, state: Mutex::new(state), opened: Condvar::new() })
    }

    /// Whether somebody waits.
    pub fn is_reached(&self) -> bool {
        self.state.lock().is_reached
    }

    /// Lets everybody pass, from now on.
    pub fn open(&self) {
        self.state.lock().is_open = true;
        self.opened.notify_all();
    }

    fn pass(&self, reservation: &MemoryReservation) {
        let mut state = self.state.lock();
        if state.is_open || !reservation.consumer().name().contains(self.name) {
            return;
        }
        match state.left.checked_sub(1) {
            Some(left) => state.left = left,
            None => {
                state.is_reached = true;
                self.opened.wait_while(&mut state, |state| !state.is_open);
            }
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gate({})", self.name)
    }
}

impl MemoryPool for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pass(reservation);
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pass(reservation);
        self.pool.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}
