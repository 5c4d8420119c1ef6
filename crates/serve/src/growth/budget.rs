//! The memory that the expressions of a query may use.

use std::sync::Arc;

use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

/// What a constant may come to.
pub const LARGEST_CONSTANT: usize = 64 << 10;

/// What an expression may use that is computed while a statement is planned.
const WHILE_PLANNING: usize = 1 << 20;

/// The smallest limit on the width of rows that are repeated: narrower ones would refuse ordinary text.
const NARROWEST: usize = 4 << 10;

/// The memory that the expressions of a query may use; without a pool, those of a statement that is being planned.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    pool: Option<Arc<dyn MemoryPool>>,
    memory: usize,
}

impl Budget {
    /// The budget of a query with this pool of so many bytes.
    pub fn new(pool: &Arc<dyn MemoryPool>, memory: usize) -> Self {
        Self { pool: Some(Arc::clone(pool)), memory }
    }

    /// All there is.
    pub fn memory(&self) -> usize {
        if self.pool.is_some() { self.memory } else { WHILE_PLANNING }
    }

    /// What one call may return at a time; larger inputs are cut in pieces.
    pub fn piece(&self) -> usize {
        (self.memory() / 8).max(WHILE_PLANNING)
    }

    /// The widest row that may be repeated: as many of them as a batch has fit into the memory.
    pub fn widest_row(&self, batch_size: usize) -> usize {
        (self.memory() / batch_size.max(1)).max(NARROWEST)
    }

    /// Sets bytes aside, or says that there are not so many.
    pub fn reserve(&self, bytes: usize) -> Result<Option<MemoryReservation>> {
        match &self.pool {
            Some(pool) => {
                let reservation = MemoryConsumer::new("expressions").register(pool);
                reservation.try_grow(bytes).map_err(|_| self.exhausted(bytes))?;
                Ok(Some(reservation))
            }
            None if bytes > WHILE_PLANNING => Err(self.exhausted(bytes)),
            None => Ok(None),
        }
    }

    fn exhausted(&self, bytes: usize) -> datafusion::error::DataFusionError {
        let all = self.memory();
        resources_datafusion_err!(
            "an expression needs up to {bytes} bytes for its values, and a query has {all}"
        )
    }
}
