//! From what was read to the table that the method works on, and then to payload in the order of the classes.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use futures::StreamExt;
use tokio::runtime::Handle;

use super::partition::PartitionRows;
use super::{ArrangedPayload, Emitting, OutputShape, ReleaseMemory};
use crate::columnar::{
    ChunkParts, CodedChunk, CodedTable, Coding, LastBuilder, LastFiles, LastLayout, LastReader,
    LastRows, Layout, Payload, PayloadCoders, ReleaseTable, TableBuilder, TableFiles,
};
use crate::engine::exec::runs::{RunWriter, Unit};
use crate::engine::exec::spill::{OpenSpill, SpilledBatches};
use crate::model::{ScratchFile, Seed};

/// All rows have been read; the table is filled and the method runs.
pub(in crate::engine::exec) struct Arranging {
    /// Rows of codes, row keys and modelled columns.
    table: MemoryReservation,
    /// What the method takes beside them.
    method: MemoryReservation,
    /// Batches on their way out.
    output: MemoryReservation,
    handle: Handle,
}

impl Arranging {
    pub(super) fn new(pool: &Arc<dyn MemoryPool>, handle: Handle) -> Self {
        let reservation =
            |name: &str| MemoryConsumer::new(format!("AnonymizeExec[{name}]")).register(pool);
        Self {
            table: reservation("codes"),
            method: reservation("method"),
            output: reservation("output"),
            handle,
        }
    }
}

/// Chunks that are read back before their codes are written, so that threads share the work.
const CHUNKS_AT_ONCE: usize = 16;

/// Bytes of a run if the pool has no limit, and those below which a run is not worth a file.
const DEFAULT_RUN: usize = 128 << 20;
const SMALLEST_RUN: usize = 64 << 10;

/// Bytes of a unit: its strings share one array, whose offsets end at two gigabytes.
const LARGEST_UNIT: usize = 256 << 20;

/// While a batch is made it is in memory three times: gathered, sorted and compacted.
const COPIES: usize = 3;

/// The bytes that all consumers of a pool may have together.
pub(in crate::engine::exec) fn pool_limit(pool: &Arc<dyn MemoryPool>) -> Option<usize> {
    match pool.memory_limit() {
        MemoryLimit::Finite(limit) => Some(limit),
        MemoryLimit::Infinite | MemoryLimit::Unknown => None,
    }
}

/// The published columns as they were read.
enum TakenPayload {
    Held(Payload),
    Spilled(Vec<SpilledBatches>),
}

impl ReleaseMemory<Arranging> {
    /// Rows that were read.
    pub(in crate::engine::exec) fn rows(&self) -> usize {
        self.sum(|rows| rows.rows)
    }

    fn sum(&self, of: impl Fn(&PartitionRows) -> usize) -> usize {
        self.partitions.iter().map(|partition| of(&partition.rows.lock())).sum()
    }

    fn note_peak(&self) {
        let Arranging { table, method, output, .. } = &self.state;
        let waiting = self.waiting.lock().size();
        self.metrics.peak_memory.set_max(waiting + table.size() + method.size() + output.size());
    }

    fn limit(&self) -> Option<usize> {
        pool_limit(&self.pool)
    }

    /// The part of the pool that is left to other operators, and to what this release needs later.
    fn headroom(&self) -> usize {
        self.limit().map_or(0, |limit| limit / 4)
    }

    /// The threads that a method may use, so that what it takes on each of them leaves half of the pool to the table. At least
    /// one: whether that is too much is for the pool to say.
    pub(in crate::engine::exec) fn threads_that_fit(
        &self,
        mut threads: usize,
        work_on: &dyn Fn(usize) -> usize,
    ) -> usize {
        let most = self.limit().map_or(usize::MAX, |limit| limit / 2);
        while threads > 1 && work_on(threads) > most {
            threads /= 2;
        }
        threads
    }

    /// What a method allocates has no other place than memory: what waits makes room for it.
    pub(in crate::engine::exec) fn reserve_method(&self, bytes: usize) -> Result<()> {
        self.reserve_for(&self.state.method, bytes)?;
        self.note_peak();
        Ok(())
    }

    /// The same for another consumer of the pool.
    pub(in crate::engine::exec) fn reserve_for(
        &self,
        consumer: &MemoryReservation,
        bytes: usize,
    ) -> Result<()> {
        while let Err(refused) = consumer.try_grow(bytes) {
            if !self.make_room()? {
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Gives back what the method no longer needs: all but `bytes`.
    pub(in crate::engine::exec) fn shrink_method(&self, bytes: usize) -> Result<()> {
        self.state.method.try_resize(self.state.method.size().min(bytes))
    }

    /// Where a part of the table goes: to memory (`None`), or to a file if the pool refuses.
    pub(in crate::engine::exec) fn place(
        &self,
        bytes: usize,
        what: &str,
    ) -> Result<Option<ScratchFile>> {
        if bytes == 0 {
            return Ok(None);
        }
        let headroom = self.headroom();
        while self.state.table.try_grow(bytes + headroom).is_err() {
            if !self.make_room()? {
                return self.spills.scratch(bytes, what).map(Some);
            }
        }
        self.state.table.shrink(headroom);
        self.note_peak();
        Ok(None)
    }

    /// Gives back what the table no longer needs: all but `bytes`.
    pub(in crate::engine::exec) fn shrink_table(&self, bytes: usize) -> Result<()> {
        self.state.table.try_resize(self.state.table.size().min(bytes))
    }

    /// Writes the codes of all rows, from memory and from files, and breaks their ties.
    pub(in crate::engine::exec) fn fill_table(
        &self,
        layout: &Layout,
        coding: Coding,
        ties: Seed,
    ) -> Result<CodedTable> {
        let rows = self.rows();
        let mut files = TableFiles::default();
        let row_bytes = coding.row_bytes()?;
        // What methods read most often gets memory first.
        files.rows = self.place(rows * row_bytes, "codes")?;
        for _ in &layout.modelled {
            files.modelled.push(self.place(rows * size_of::<u32>(), "models")?);
        }
        if layout.has_ties() {
            files.ties = self.place(rows * size_of::<u64>(), "keys")?;
        }
        if !layout.kept.is_empty() {
            files.kept = self.place(rows * size_of::<u64>(), "keys")?;
        }
        if layout.person.is_some() {
            files.persons = self.place(rows * size_of::<u128>(), "persons")?;
        }
        let mut builder = TableBuilder::new(layout, coding, rows, files)?;
        let has = ChunkParts {
            keyed: !layout.keyed.is_empty(),
            kept: !layout.kept.is_empty(),
            persons: layout.person.is_some(),
        };
        for partition in 0..self.partitions.len() {
            let add = &mut |chunks| Ok(builder.add(partition, chunks, &self.cancel)?);
            self.drain_codes(partition, has, add)?;
        }
        Ok(builder.finish(ties, &self.cancel)?)
    }

    /// Gives the codes of a partition away, from files and from memory, in the order in which they were read.
    fn drain_codes(
        &self,
        partition: usize,
        has: ChunkParts,
        add: &mut dyn FnMut(Vec<CodedChunk>) -> Result<()>,
    ) -> Result<()> {
        let (spilled, held) = self.take_codes(partition)?;
        // Rows of a last release come after those of the input.
        if spilled.is_empty() && held.is_empty() {
            return Ok(());
        }
        for file in spilled {
            let mut batches = file.read()?.chunks(CHUNKS_AT_ONCE);
            while let Some(batches) = self.state.handle.block_on(batches.next()) {
                let chunk =
                    |batch: Result<_>| -> Result<_> { Ok(CodedChunk::of_batch(&batch?, has)?) };
                add(batches.into_iter().map(chunk).collect::<Result<_>>()?)?;
            }
        }
        add(held)?;
        self.release_codes(partition)
    }

    /// Puts the rows together that readers kept of the last release, the first of them in partition `first`.
    pub(in crate::engine::exec) fn fill_last(
        &self,
        layout: &LastLayout,
        readers: Vec<LastReader>,
        first: usize,
    ) -> Result<LastRows> {
        let partitions = readers.len();
        let rows: usize = readers.iter().map(LastReader::rows).sum();
        let mut files = LastFiles {
            cohort_of: self.place(rows * size_of::<u32>(), "last")?,
            ..LastFiles::default()
        };
        if layout.has_ties() {
            files.ties = self.place(rows * size_of::<u64>(), "last")?;
        }
        for _ in &layout.modelled {
            files.modelled.push(self.place(rows * size_of::<u32>(), "last")?);
        }
        let mut builder = LastBuilder::new(layout, readers, files)?;
        for reader in 0..partitions {
            let add = &mut |chunks| {
                self.cancel.check()?;
                Ok(builder.add(reader, chunks)?)
            };
            self.drain_codes(first + reader, layout.chunk_parts(), add)?;
        }
        Ok(builder.finish()?)
    }

    /// The codes of a partition: those in files came first.
    fn take_codes(&self, partition: usize) -> Result<(Vec<SpilledBatches>, Vec<CodedChunk>)> {
        let mut rows = self.partitions[partition].rows.lock();
        let open = rows.open_codes.take().map(OpenSpill::finish).transpose()?.flatten();
        rows.code_files.extend(open);
        Ok((std::mem::take(&mut rows.code_files), std::mem::take(&mut rows.codes)))
    }

    /// Gives back the memory of codes that are in the table now.
    fn release_codes(&self, partition: usize) -> Result<()> {
        self.partitions[partition].update(|rows| {
            rows.code_bytes = 0;
            Ok(())
        })?;
        self.waiting.lock().try_resize(self.held_bytes())
    }

    /// Reserves the memory that batches take on their way out, and brings the published columns into the order
    /// in which they leave.
    pub(in crate::engine::exec) fn prepare(
        self,
        table: Arc<ReleaseTable>,
        shape: &OutputShape,
    ) -> Result<Arc<ReleaseMemory<Emitting>>> {
        let batches = table.batches(shape.batch_rows);
        let largest = batches.iter().map(|classes| table.positions(classes).len()).max();
        let batch_bytes = largest.unwrap_or(0) * self.output_row_bytes(shape);
        let mut concurrency = shape.threads;
        let in_flight = |concurrency: usize| shape.streams * concurrency * COPIES * batch_bytes;
        loop {
            // The consumer of the rows needs memory too; with a single thread, it gets what is left.
            let others = if concurrency > 1 { self.headroom() } else { 0 };
            let Err(refused) = self.state.output.try_grow(in_flight(concurrency) + others) else {
                self.state.output.shrink(others);
                break;
            };
            if self.holds_payload() {
                self.make_room()?;
            } else if concurrency > 1 {
                concurrency /= 2;
            } else {
                return Err(refused);
            }
        }
        self.note_peak();
        let payload = match self.take_payload(shape.threads)? {
            TakenPayload::Held(held) => ArrangedPayload::Held(Arc::new(held)),
            TakenPayload::Spilled(files) => {
                let unit_rows = self.unit_rows(shape, concurrency);
                let units = Unit::of_rows(&table, shape.batch_rows, unit_rows);
                let memory = self.reserve_run()?;
                let writer = RunWriter {
                    table: &table,
                    schema: &self.payload_schema,
                    spills: &self.spills,
                    memory: &memory,
                    cancel: &self.cancel,
                    handle: &self.state.handle,
                };
                ArrangedPayload::Spilled(Arc::new(writer.write(files, units)?))
            }
        };
        Ok(Arc::new(self.into_state(|Arranging { table: codes, method, output, .. }| Emitting {
            table,
            payload,
            concurrency,
            _reservations: [codes, method, output],
        })))
    }

    fn holds_payload(&self) -> bool {
        self.sum(|rows| rows.payload.len()) > 0
    }

    /// The published columns: all in memory, or if some were spilled all in files, in the order of
    /// partitions.
    fn take_payload(&self, threads: usize) -> Result<TakenPayload> {
        let is_spilled = || self.sum(|rows| usize::from(rows.open_payload.is_some())) > 0;
        // Columns are copied into one array each, some at a time.
        let columns = self.payload_schema.fields().len().max(1);
        let copied = self.sum(|rows| rows.payload_bytes) / columns * columns.min(2 * threads);
        let copies = self.waiting.lock().new_empty();
        if self.holds_payload() && (is_spilled() || copies.try_grow(copied).is_err()) {
            self.make_room()?;
        }
        let spilled = is_spilled();
        let (mut files, mut chunks, mut coders) = (Vec::new(), Vec::new(), Vec::new());
        for partition in &self.partitions {
            let mut rows = partition.rows.lock();
            files.extend(rows.open_payload.take().map(OpenSpill::finish).transpose()?.flatten());
            chunks.append(&mut rows.payload);
            coders.push(std::mem::replace(&mut rows.coders, PayloadCoders::none()));
        }
        match spilled {
            true => Ok(TakenPayload::Spilled(files)),
            false => Ok(TakenPayload::Held(Payload::new(chunks, &coders)?)),
        }
    }

    /// Bytes of a published row, roughly.
    fn output_row_bytes(&self, shape: &OutputShape) -> usize {
        let payload = self.sum(|rows| rows.published_bytes) / self.rows().max(1);
        payload + size_of::<i32>() * shape.quasi_identifiers + size_of::<u64>()
    }

    /// Rows of a unit: larger ones mean fewer and larger reads, so memory that is free goes to them.
    fn unit_rows(&self, shape: &OutputShape, concurrency: usize) -> usize {
        let per_row = shape.streams * concurrency * COPIES * self.output_row_bytes(shape);
        let free = self.limit().map_or(0, |limit| limit.saturating_sub(self.pool.reserved()));
        let more = free.saturating_sub(self.headroom()) / 2;
        if self.state.output.try_grow(more).is_err() {
            return shape.batch_rows;
        }
        self.note_peak();
        let most = LARGEST_UNIT / self.output_row_bytes(shape).max(1);
        (self.state.output.size() / per_row.max(1)).min(most).max(shape.batch_rows)
    }

    /// As much of the free memory as one run can get.
    fn reserve_run(&self) -> Result<MemoryReservation> {
        let memory = self.state.method.new_empty();
        let free =
            self.limit().map_or(DEFAULT_RUN, |limit| limit.saturating_sub(self.pool.reserved()));
        let mut wanted = free / 2;
        while let Err(refused) = memory.try_grow(wanted) {
            wanted /= 2;
            if wanted < SMALLEST_RUN {
                return Err(refused);
            }
        }
        Ok(memory)
    }
}
