//! What stands in memory and what in temporary files, once all rows were read.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::physical_plan::metrics::Gauge;
use futures::StreamExt;

use super::emit::{Prepared, Waiting};
use super::intake::{Shelf, TakenPayload};
use super::runs::{RunWriter, Unit};
use super::spill::Spills;
use crate::columnar::{
    CodedChunk, CodedTable, Coding, Layout, ReleaseTable, TableBuilder, TableFiles,
};
use crate::model::{Cancel, ScratchFile, Seed};

/// The memory of a release: everything large is reserved here before it is allocated.
pub(super) struct Room {
    pub(super) pool: Arc<dyn MemoryPool>,
    pub(super) shelf: Shelf,
    /// Rows of codes, row keys and modelled columns.
    pub(super) table: MemoryReservation,
    /// What a method takes beside them.
    pub(super) method: MemoryReservation,
    /// Batches on their way out.
    pub(super) output: MemoryReservation,
    pub(super) spills: Spills,
    pub(super) peak: Gauge,
    pub(super) cancel: Cancel,
    pub(super) handle: tokio::runtime::Handle,
}

/// What leaves at once.
pub(super) struct OutputShape {
    pub(super) batch_rows: usize,
    pub(super) threads: usize,
    /// Streams that read the release at the same time.
    pub(super) streams: usize,
    pub(super) quasi_identifiers: usize,
}

/// Chunks that are read back before their codes are written, so that threads share the work.
const CHUNKS_AT_ONCE: usize = 16;

/// Bytes of a run where the pool does not tell its limit, and below which a run is not worth a file.
const DEFAULT_RUN: usize = 128 << 20;
const SMALLEST_RUN: usize = 64 << 10;

/// Bytes of a unit: its strings stand in one array, whose offsets end at two gigabytes.
const LARGEST_UNIT: usize = 256 << 20;

/// A batch in the making is gathered, put in order and cleaned: it stands in memory three times.
const COPIES: usize = 3;

impl Room {
    fn note_peak(&self) {
        let sizes = [&self.table, &self.method, &self.output].map(MemoryReservation::size);
        self.peak.set_max(self.shelf.bytes() + sizes.iter().sum::<usize>());
    }

    fn limit(&self) -> Option<usize> {
        match self.pool.memory_limit() {
            MemoryLimit::Finite(limit) => Some(limit),
            MemoryLimit::Infinite | MemoryLimit::Unknown => None,
        }
    }

    /// A part of the pool that is left to others, and to what this release needs later.
    fn headroom(&self) -> usize {
        self.limit().map_or(0, |limit| limit / 4)
    }

    /// What a method allocates has no other place than memory: what waits makes room for it.
    pub(super) fn reserve_method(&mut self, bytes: usize) -> Result<()> {
        while let Err(refused) = self.method.try_grow(bytes) {
            if !self.shelf.make_room()? {
                return Err(refused);
            }
        }
        self.note_peak();
        Ok(())
    }

    /// A place for a part of the table: in memory, or else a file.
    fn place(&mut self, bytes: usize, what: &str) -> Result<Option<ScratchFile>> {
        let headroom = self.headroom();
        while self.table.try_grow(bytes + headroom).is_err() {
            if !self.shelf.make_room()? {
                return self.spills.scratch(bytes, what).map(Some);
            }
        }
        self.table.shrink(headroom);
        self.note_peak();
        Ok(None)
    }

    /// Writes the codes of all rows, from memory and from files, and breaks their ties.
    pub(super) fn fill_table(
        &mut self,
        layout: &Layout,
        coding: Coding,
        ties: Seed,
    ) -> Result<CodedTable> {
        let rows = self.shelf.rows();
        let mut files = TableFiles::default();
        let row_bytes = coding.row_bytes()?;
        // What methods look at most often comes first.
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
        let mut builder = TableBuilder::new(layout, coding, rows, files)?;
        let has_keys = [!layout.keyed.is_empty(), !layout.kept.is_empty()];
        for partition in 0..self.shelf.partitions() {
            let (spilled, held) = self.shelf.take_codes(partition)?;
            for file in spilled {
                let mut batches = file.read()?.chunks(CHUNKS_AT_ONCE);
                while let Some(batches) = self.handle.block_on(batches.next()) {
                    let chunk = |batch: Result<_>| -> Result<_> {
                        Ok(CodedChunk::of_batch(&batch?, has_keys)?)
                    };
                    let chunks = batches.into_iter().map(chunk).collect::<Result<_>>()?;
                    builder.add(partition, chunks, &self.cancel)?;
                }
            }
            builder.add(partition, held, &self.cancel)?;
            self.shelf.release_codes(partition)?;
        }
        Ok(builder.finish(ties, &self.cancel)?)
    }

    /// The memory that batches take on their way out, and the published columns in an order in which
    /// they can leave.
    pub(super) fn prepare(self, table: Arc<ReleaseTable>, shape: &OutputShape) -> Result<Prepared> {
        let batches = table.batches(shape.batch_rows);
        let largest = batches.iter().map(|classes| table.positions(classes).len()).max();
        let batch_bytes = largest.unwrap_or(0) * self.output_row_bytes(shape);
        let mut concurrency = shape.threads;
        let in_flight = |concurrency: usize| shape.streams * concurrency * COPIES * batch_bytes;
        loop {
            // Whoever takes the rows needs memory too; a single thread does without that courtesy.
            let others = if concurrency > 1 { self.headroom() } else { 0 };
            let Err(refused) = self.output.try_grow(in_flight(concurrency) + others) else {
                self.output.shrink(others);
                break;
            };
            if self.shelf.holds_payload() {
                self.shelf.make_room()?;
            } else if concurrency > 1 {
                concurrency /= 2;
            } else {
                return Err(refused);
            }
        }
        self.note_peak();
        let payload_schema = Arc::clone(self.shelf.payload_schema());
        let payload = match self.shelf.take_payload(shape.threads)? {
            TakenPayload::Held(held) => Waiting::Held(Arc::new(held)),
            TakenPayload::Spilled(files) => {
                let unit_rows = self.unit_rows(shape, concurrency);
                let units = Unit::of_rows(&table, shape.batch_rows, unit_rows);
                let memory = self.reserve_run()?;
                let writer = RunWriter {
                    table: &table,
                    schema: &payload_schema,
                    spills: &self.spills,
                    memory: &memory,
                    cancel: &self.cancel,
                    handle: &self.handle,
                };
                Waiting::Spilled(Arc::new(writer.write(files, units)?))
            }
        };
        let memory = Arc::new([self.shelf.into_memory(), self.table, self.method, self.output]);
        Ok(Prepared { table, payload, payload_schema, concurrency, memory })
    }

    /// Bytes of a published row, roughly.
    fn output_row_bytes(&self, shape: &OutputShape) -> usize {
        let payload = self.shelf.published_bytes() / self.shelf.rows().max(1);
        payload + size_of::<i32>() * shape.quasi_identifiers + size_of::<u64>()
    }

    /// Rows of a unit: larger ones mean fewer and larger reads, so memory that is free goes to them.
    fn unit_rows(&self, shape: &OutputShape, concurrency: usize) -> usize {
        let per_row = shape.streams * concurrency * COPIES * self.output_row_bytes(shape);
        let free = self.limit().map_or(0, |limit| limit.saturating_sub(self.pool.reserved()));
        let more = free.saturating_sub(self.headroom()) / 2;
        if self.output.try_grow(more).is_err() {
            return shape.batch_rows;
        }
        self.note_peak();
        let most = LARGEST_UNIT / self.output_row_bytes(shape).max(1);
        (self.output.size() / per_row.max(1)).min(most).max(shape.batch_rows)
    }

    /// As much of the free memory as there is to be had for one run.
    fn reserve_run(&self) -> Result<MemoryReservation> {
        let memory = self.method.new_empty();
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
