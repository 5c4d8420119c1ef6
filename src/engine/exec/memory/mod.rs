//! The memory of a release, and what of it is in temporary files.

mod arranging;
mod partition;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use parking_lot::Mutex;

pub(super) use self::arranging::{Arranging, pool_limit};
use self::partition::PartitionRows;
use super::metrics::ReleaseMetrics;
use super::runs::Runs;
use super::spill::Spills;
use crate::columnar::{Chunk, Layout, Payload, ReleaseTable};
use crate::model::Cancel;

/// The memory of a release: everything large is reserved here before it is allocated, and what waits goes to
/// temporary files when the pool refuses.
///
/// ```text
/// Reading ──arrange──► Arranging ──prepare──► Emitting
///  codes, payload       table of codes         payload in the order of the classes
/// ```
///
/// 1. **Reading.** The readers of all partitions add their chunks under one reservation. When the pool refuses
///    more, everything that waits goes to files, whoever read it: a partition that needs a little must not fail
///    because another one holds a lot. The published columns (the payload) go first, since the method does not
///    need them; codes and row keys follow if that is not enough.
/// 2. **Arranging.** What the method allocates has no other place than memory, so it is reserved first, and what
///    waits makes room for it. Then the codes of all partitions become one table; parts of it that the pool
///    refuses are files, which the method reads and writes like memory.
/// 3. **Emitting.** Memory for the batches on their way out is reserved, on fewer threads if there is little,
///    and spilled payload is rewritten in the order of the classes. All reservations are given back when the
///    last stream over the release is dropped.
///
/// Each state has only the operations that are sound in it: nothing can be added to a release that is being
/// arranged, and nothing leaves one that is not.
pub(super) struct ReleaseMemory<State> {
    partitions: Vec<Partition>,
    /// Reserved for what waits in `partitions`.
    waiting: Mutex<MemoryReservation>,
    payload_schema: SchemaRef,
    state: State,
    // Resources
    pool: Arc<dyn MemoryPool>,
    spills: Spills,
    metrics: ReleaseMetrics,
    cancel: Cancel,
}

/// The input is being read.
pub(super) struct Reading;

/// A verified release whose batches may leave.
pub(super) struct Emitting {
    pub(super) table: Arc<ReleaseTable>,
    pub(super) payload: ArrangedPayload,
    /// Units or batches that are made at once.
    pub(super) concurrency: usize,
    _reservations: [MemoryReservation; 3],
}

/// How batches of a release leave.
pub(super) struct OutputShape {
    pub(super) batch_rows: usize,
    pub(super) threads: usize,
    /// Streams that read the release at the same time.
    pub(super) streams: usize,
    pub(super) quasi_identifiers: usize,
}

/// The published columns, ready to leave in the order of the classes.
pub(super) enum ArrangedPayload {
    Held(Arc<Payload>),
    Spilled(Arc<Runs>),
}

/// A partition is locked by its reader, or by the holder of `waiting` while it makes room.
struct Partition {
    rows: Mutex<PartitionRows>,
    /// Bytes that it holds, known without its lock.
    held: AtomicUsize,
}

impl Partition {
    /// Runs `work` on the rows and records how many bytes they hold afterwards.
    fn update<T>(&self, work: impl FnOnce(&mut PartitionRows) -> Result<T>) -> Result<T> {
        let mut rows = self.rows.lock();
        let done = work(&mut rows);
        self.held.store(rows.held_bytes(), Ordering::Relaxed);
        done
    }
}

impl ReleaseMemory<Reading> {
    /// Memory for the rows of an input with this many partitions.
    pub(super) fn new(
        layout: &Layout,
        partitions: usize,
        context: &TaskContext,
        metrics: &ReleaseMetrics,
        cancel: &Cancel,
    ) -> Self {
        let pool = Arc::clone(context.memory_pool());
        let waiting = MemoryConsumer::new("AnonymizeExec[input]").with_can_spill(true);
        let partition = |_| Partition {
            rows: Mutex::new(PartitionRows::new(layout)),
            held: AtomicUsize::new(0),
        };
        Self {
            partitions: (0..partitions).map(partition).collect(),
            waiting: Mutex::new(waiting.register(&pool)),
            payload_schema: Arc::new(layout.waiting_payload()),
            state: Reading,
            pool,
            spills: Spills::new(context, metrics, cancel),
            metrics: metrics.clone(),
            cancel: cancel.clone(),
        }
    }

    /// Nothing more is read. Spilled rows are read back through the handle.
    pub(super) fn arrange(self, handle: tokio::runtime::Handle) -> ReleaseMemory<Arranging> {
        let arranging = Arranging::new(&self.pool, handle);
        self.into_state(|Reading| arranging)
    }
}

impl<State> ReleaseMemory<State> {
    /// Adds chunks of a partition. Its distinct values take `distinct_bytes` by now.
    pub(super) fn add(
        &self,
        partition: usize,
        chunks: Vec<Chunk>,
        distinct_bytes: usize,
    ) -> Result<()> {
        let timer = self.metrics.encode_time.timer();
        self.partitions[partition].update(|rows| {
            rows.distinct_bytes = distinct_bytes;
            chunks.into_iter().try_for_each(|chunk| rows.add(partition, chunk))
        })?;
        timer.done();
        self.reserve()
    }

    /// Reserves what was added, spilling if it must. After a refusal it may be called again, when others have
    /// made room.
    pub(super) fn reserve(&self) -> Result<()> {
        let waiting = self.waiting.lock();
        while let Err(refused) = waiting.try_resize(self.held_bytes()) {
            if !self.spill_some()? {
                return Err(refused);
            }
        }
        Ok(())
    }

    fn into_state<Next>(self, next: impl FnOnce(State) -> Next) -> ReleaseMemory<Next> {
        ReleaseMemory {
            partitions: self.partitions,
            waiting: self.waiting,
            payload_schema: self.payload_schema,
            state: next(self.state),
            pool: self.pool,
            spills: self.spills,
            metrics: self.metrics,
            cancel: self.cancel,
        }
    }

    /// Writes some of what waits to temporary files and gives its memory back. `false` if nothing is left that
    /// could be written.
    pub(super) fn make_room(&self) -> Result<bool> {
        let waiting = self.waiting.lock();
        let made_room = self.spill_some()?;
        waiting.try_resize(self.held_bytes())?;
        Ok(made_room)
    }

    fn held_bytes(&self) -> usize {
        self.partitions.iter().map(|partition| partition.held.load(Ordering::Relaxed)).sum()
    }

    /// Spills the payload of all partitions, or if there is none their codes. `false` if neither is left.
    fn spill_some(&self) -> Result<bool> {
        let mut has_payload = false;
        for partition in &self.partitions {
            partition.update(|rows| {
                has_payload |= !rows.payload.is_empty();
                rows.spill_payload(&self.spills, &self.payload_schema)
            })?;
        }
        if has_payload {
            return Ok(true);
        }
        let mut has_codes = false;
        for partition in &self.partitions {
            partition.update(|rows| {
                has_codes |= !rows.codes.is_empty();
                rows.spill_codes(&self.spills)
            })?;
        }
        Ok(has_codes)
    }
}

impl ReleaseMemory<Emitting> {
    pub(super) fn release(&self) -> &Emitting {
        &self.state
    }

    pub(super) fn payload_schema(&self) -> &SchemaRef {
        &self.payload_schema
    }

    pub(super) fn spills(&self) -> &Spills {
        &self.spills
    }
}
