//! What was read waits here until its classes are known: in memory, or in temporary files.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::Time;
use parking_lot::Mutex;

use super::spill::{OpenSpill, SpilledBatches, Spills};
use crate::columnar::{
    Chunk, CodedChunk, Layout, Payload, PayloadArray, PayloadChunk, PayloadCoders,
};

/// Takes in the chunks of all partitions under one reservation.
///
/// When the pool refuses more memory, everything that waits goes to temporary files, whoever read it:
/// a partition that needs a little must not fail because another one holds a lot. Published columns
/// go first; the method does not need them. If that is not enough, codes and row keys follow.
pub(super) struct Intake {
    // A partition is locked by its reader, or by the holder of `memory` while it makes room.
    partitions: Vec<Mutex<PartitionRows>>,
    /// What each partition holds, known without its lock.
    held: Vec<AtomicUsize>,
    memory: Mutex<MemoryReservation>,
    spills: Spills,
    payload_schema: SchemaRef,
    encode_time: Time,
}

/// What was read of one partition, in the order in which it came.
struct PartitionRows {
    rows: usize,
    /// Bytes of the distinct values that the reader holds.
    distinct_bytes: usize,
    codes: Vec<CodedChunk>,
    code_bytes: usize,
    open_codes: Option<OpenSpill>,
    code_files: Vec<SpilledBatches>,
    payload: Vec<PayloadChunk>,
    payload_bytes: usize,
    coders: PayloadCoders,
    /// Bytes of the published columns when they leave.
    published_bytes: usize,
    open_payload: Option<OpenSpill>,
}

impl PartitionRows {
    fn new(layout: &Layout) -> Self {
        Self {
            rows: 0,
            distinct_bytes: 0,
            codes: Vec::new(),
            code_bytes: 0,
            open_codes: None,
            code_files: Vec::new(),
            payload: Vec::new(),
            payload_bytes: 0,
            coders: PayloadCoders::new(layout),
            published_bytes: 0,
            open_payload: None,
        }
    }

    fn held_bytes(&self) -> usize {
        self.distinct_bytes + self.payload_bytes + self.code_bytes + self.coders.memory()
    }

    fn add(&mut self, partition: usize, chunk: Chunk) -> Result<()> {
        let rows = chunk.coded.rows();
        self.rows += rows;
        self.code_bytes += chunk.coded.bytes();
        self.codes.push(chunk.coded);
        let mut columns = Vec::with_capacity(chunk.payload.len());
        for (at, (array, bytes)) in chunk.payload.into_iter().zip(chunk.payload_bytes).enumerate() {
            self.published_bytes += bytes;
            let coded = self.coders.encode(at, &array)?;
            self.payload_bytes += coded.as_ref().map_or(bytes, PayloadArray::number_bytes);
            columns.push(coded.unwrap_or_else(|| PayloadArray::plain(array)));
        }
        if !columns.is_empty() {
            self.payload.push(PayloadChunk { reader: partition, rows, columns });
        }
        Ok(())
    }

    fn spill_payload(&mut self, spills: &Spills, schema: &SchemaRef) -> Result<()> {
        let _timer = spills.time().timer();
        for chunk in self.payload.drain(..) {
            let columns = self.coders.decode(chunk.columns)?;
            let batch = RecordBatch::try_new(Arc::clone(schema), columns)?;
            let open = match &mut self.open_payload {
                Some(open) => open,
                none => none.insert(spills.open(Arc::clone(schema), "payload")?),
            };
            open.append(&batch)?;
        }
        self.payload_bytes = 0;
        // What waits in a file has no numbers, and memory is short.
        self.coders.clear();
        Ok(())
    }

    fn spill_codes(&mut self, spills: &Spills) -> Result<()> {
        let _timer = spills.time().timer();
        for chunk in self.codes.drain(..) {
            let batch = chunk.to_batch()?;
            // Numbers get wider as more values appear; a file has one width.
            let narrow = self.open_codes.take_if(|open| open.schema() != batch.schema_ref());
            if let Some(narrow) = narrow {
                self.code_files.extend(narrow.finish()?);
            }
            let open = match &mut self.open_codes {
                Some(open) => open,
                none => none.insert(spills.open(batch.schema(), "codes")?),
            };
            open.append(&batch)?;
        }
        self.code_bytes = 0;
        Ok(())
    }
}

impl Intake {
    pub(super) fn new(
        layout: &Layout,
        partitions: usize,
        memory: MemoryReservation,
        (spills, encode_time): (Spills, Time),
    ) -> Result<Self> {
        Ok(Self {
            partitions: (0..partitions).map(|_| Mutex::new(PartitionRows::new(layout))).collect(),
            held: (0..partitions).map(|_| AtomicUsize::new(0)).collect(),
            memory: Mutex::new(memory),
            spills,
            payload_schema: Arc::new(layout.waiting_payload()),
            encode_time,
        })
    }

    /// Takes in chunks of a partition, whose distinct values have grown to as many bytes.
    pub(super) fn add(
        &self,
        partition: usize,
        chunks: Vec<Chunk>,
        distinct_bytes: usize,
    ) -> Result<()> {
        let timer = self.encode_time.timer();
        let mut own = self.partitions[partition].lock();
        own.distinct_bytes = distinct_bytes;
        for chunk in chunks {
            own.add(partition, chunk)?;
        }
        self.held[partition].store(own.held_bytes(), Ordering::Relaxed);
        drop(own);
        timer.done();
        self.reserve(&self.memory.lock())
    }

    /// Writes what waits to temporary files and gives its memory back. `false` if nothing does.
    pub(super) fn make_room(&self) -> Result<bool> {
        let memory = self.memory.lock();
        let made = self.spill_some()?;
        memory.try_resize(self.held_bytes())?;
        Ok(made)
    }

    /// Reserves what a refused call to `add` has taken in, now that others have made room.
    pub(super) fn reserve_again(&self) -> Result<()> {
        self.reserve(&self.memory.lock())
    }

    fn held_bytes(&self) -> usize {
        self.held.iter().map(|held| held.load(Ordering::Relaxed)).sum()
    }

    fn reserve(&self, memory: &MemoryReservation) -> Result<()> {
        loop {
            let Err(refused) = memory.try_resize(self.held_bytes()) else { return Ok(()) };
            if !self.spill_some()? {
                return Err(refused);
            }
        }
    }

    /// Writes some of what waits to temporary files. `false` if nothing is left that could be.
    fn spill_some(&self) -> Result<bool> {
        let mut payload = false;
        for (own, held) in self.partitions.iter().zip(&self.held) {
            let mut own = own.lock();
            payload |= !own.payload.is_empty();
            own.spill_payload(&self.spills, &self.payload_schema)?;
            held.store(own.held_bytes(), Ordering::Relaxed);
        }
        if payload {
            return Ok(true);
        }
        let mut codes = false;
        for (own, held) in self.partitions.iter().zip(&self.held) {
            let mut own = own.lock();
            codes |= !own.codes.is_empty();
            own.spill_codes(&self.spills)?;
            held.store(own.held_bytes(), Ordering::Relaxed);
        }
        Ok(codes)
    }
}

/// Everything that was read, once there is nothing more to come.
pub(super) struct Shelf(Intake);

impl From<Intake> for Shelf {
    fn from(intake: Intake) -> Self {
        Self(intake)
    }
}

impl Shelf {
    fn sum(&self, of: impl Fn(&PartitionRows) -> usize) -> usize {
        self.0.partitions.iter().map(|own| of(&own.lock())).sum()
    }

    pub(super) fn rows(&self) -> usize {
        self.sum(|own| own.rows)
    }

    pub(super) fn partitions(&self) -> usize {
        self.0.partitions.len()
    }

    /// Bytes that are reserved for what waits in memory.
    pub(super) fn bytes(&self) -> usize {
        self.0.memory.lock().size()
    }

    /// Bytes of the published columns when they leave.
    pub(super) fn published_bytes(&self) -> usize {
        self.sum(|own| own.published_bytes)
    }

    pub(super) fn payload_schema(&self) -> &SchemaRef {
        &self.0.payload_schema
    }

    pub(super) fn holds_payload(&self) -> bool {
        self.sum(|own| own.payload.len()) > 0
    }

    /// Writes some of what waits to temporary files and gives its memory back. `false` if nothing is
    /// left that could be written.
    pub(super) fn make_room(&self) -> Result<bool> {
        let made = self.0.spill_some()?;
        self.settle()?;
        Ok(made)
    }

    /// Gives back memory of what was spilled or taken.
    fn settle(&self) -> Result<()> {
        self.0.memory.lock().try_resize(self.0.held_bytes())
    }

    /// The reservation of what is still held.
    pub(super) fn into_memory(self) -> MemoryReservation {
        self.0.memory.into_inner()
    }

    /// The codes of a partition: those in files came first.
    pub(super) fn take_codes(
        &self,
        partition: usize,
    ) -> Result<(Vec<SpilledBatches>, Vec<CodedChunk>)> {
        let mut own = self.0.partitions[partition].lock();
        let open = own.open_codes.take().map(OpenSpill::finish).transpose()?.flatten();
        own.code_files.extend(open);
        Ok((std::mem::take(&mut own.code_files), std::mem::take(&mut own.codes)))
    }

    /// The codes of a partition are not held any more.
    pub(super) fn release_codes(&self, partition: usize) -> Result<()> {
        let mut own = self.0.partitions[partition].lock();
        own.code_bytes = 0;
        self.0.held[partition].store(own.held_bytes(), Ordering::Relaxed);
        drop(own);
        self.settle()
    }

    /// The published columns: all in memory, or if some were spilled all in files, in the order of
    /// partitions. What was not coded before waits in memory as it came.
    pub(super) fn take_payload(&self, threads: usize) -> Result<TakenPayload> {
        let is_spilled = || self.sum(|own| usize::from(own.open_payload.is_some())) > 0;
        // Columns are copied into one array each, some at a time.
        let columns = self.0.payload_schema.fields().len().max(1);
        let copied = self.sum(|own| own.payload_bytes) / columns * columns.min(2 * threads);
        let copies = self.0.memory.lock().new_empty();
        if self.holds_payload() && (is_spilled() || copies.try_grow(copied).is_err()) {
            self.make_room()?;
        }
        let spilled = is_spilled();
        let (mut files, mut chunks, mut coders) = (Vec::new(), Vec::new(), Vec::new());
        for own in &self.0.partitions {
            let mut own = own.lock();
            files.extend(own.open_payload.take().map(OpenSpill::finish).transpose()?.flatten());
            chunks.append(&mut own.payload);
            coders.push(std::mem::replace(&mut own.coders, PayloadCoders::none()));
        }
        if spilled {
            return Ok(TakenPayload::Spilled(files));
        }
        Ok(TakenPayload::Held(Payload::new(chunks, &coders)?))
    }
}

/// Where the published columns are.
pub(super) enum TakenPayload {
    Held(Payload),
    Spilled(Vec<SpilledBatches>),
}
