//! What was read waits here until its classes are known: in memory, or in temporary files.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;

use super::spill::{OpenSpill, SpilledBatches, Spills};
use crate::columnar::{Chunk, CodedChunk, Layout};
use crate::engine::execution_error;

/// Takes in the chunks of all partitions under one reservation.
///
/// When the pool refuses more memory, everything that waits goes to temporary files, whoever read it:
/// a partition that needs a little must not fail because another one holds a lot. Published columns
/// go first; the method does not need them. If that is not enough, codes and row keys follow.
pub(super) struct Intake {
    shelf: Mutex<Shelf>,
}

/// Everything that was read, by partition.
pub(super) struct Shelf {
    memory: MemoryReservation,
    spills: Spills,
    payload_schema: SchemaRef,
    pub(super) partitions: Vec<PartitionRows>,
}

/// What was read of one partition, in the order in which it came.
#[derive(Default)]
pub(super) struct PartitionRows {
    pub(super) rows: usize,
    /// Bytes of the distinct values.
    distinct_bytes: usize,
    codes: Vec<CodedChunk>,
    code_bytes: usize,
    open_codes: Option<OpenSpill>,
    code_files: Vec<SpilledBatches>,
    payload: Vec<(usize, Vec<ArrayRef>)>,
    held_payload_bytes: usize,
    /// Bytes of the published columns, wherever they are.
    payload_bytes: usize,
    open_payload: Option<OpenSpill>,
    payload_file: Option<SpilledBatches>,
}

impl Intake {
    pub(super) fn new(
        layout: &Layout,
        partitions: usize,
        memory: MemoryReservation,
        spills: Spills,
    ) -> Result<Self> {
        let payload_schema = Arc::new(layout.schema.project(&layout.payload)?);
        let partitions = (0..partitions).map(|_| PartitionRows::default()).collect();
        Ok(Self { shelf: Mutex::new(Shelf { memory, spills, payload_schema, partitions }) })
    }

    /// Takes in chunks of a partition, whose distinct values have grown to as many bytes.
    pub(super) fn add(
        &self,
        partition: usize,
        chunks: Vec<Chunk>,
        distinct_bytes: usize,
    ) -> Result<()> {
        let mut shelf = self.shelf.lock();
        let own = &mut shelf.partitions[partition];
        own.distinct_bytes = distinct_bytes;
        for chunk in chunks {
            own.rows += chunk.coded.rows();
            own.code_bytes += chunk.coded.bytes();
            own.payload_bytes += chunk.payload_bytes;
            own.held_payload_bytes += chunk.payload_bytes;
            if !chunk.payload.is_empty() {
                own.payload.push((chunk.coded.rows(), chunk.payload));
            }
            own.codes.push(chunk.coded);
        }
        shelf.reserve()
    }

    pub(super) fn finish(self) -> Result<Shelf> {
        let mut shelf = self.shelf.into_inner();
        // Rows of one release are gathered from memory or from files, not from both.
        if shelf.partitions.iter().any(|own| own.open_payload.is_some()) {
            shelf.spill_payload()?;
            shelf.reserve()?;
        }
        for own in &mut shelf.partitions {
            if let Some(open) = own.open_codes.take() {
                own.code_files.extend(open.finish()?);
            }
        }
        Ok(shelf)
    }
}

impl Shelf {
    pub(super) fn rows(&self) -> usize {
        self.partitions.iter().map(|own| own.rows).sum()
    }

    /// Bytes that are reserved for what waits in memory.
    pub(super) fn bytes(&self) -> usize {
        self.memory.size()
    }

    pub(super) fn holds_payload(&self) -> bool {
        self.partitions.iter().any(|own| !own.payload.is_empty())
    }

    /// The reservation of what is still held.
    pub(super) fn into_memory(self) -> MemoryReservation {
        self.memory
    }

    /// Bytes of the published columns, wherever they wait.
    pub(super) fn payload_bytes(&self) -> usize {
        self.partitions.iter().map(|own| own.payload_bytes).sum()
    }

    pub(super) fn payload_schema(&self) -> &SchemaRef {
        &self.payload_schema
    }

    fn reserve(&mut self) -> Result<()> {
        loop {
            let Err(refused) = self.memory.try_resize(self.held_bytes()) else { return Ok(()) };
            if !self.spill_some()? {
                return Err(refused);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        let of_one =
            |own: &PartitionRows| own.distinct_bytes + own.held_payload_bytes + own.code_bytes;
        self.partitions.iter().map(of_one).sum()
    }

    /// Writes some of what waits to temporary files and gives its memory back. `false` if nothing is
    /// left that could be written.
    pub(super) fn make_room(&mut self) -> Result<bool> {
        let made = self.spill_some()?;
        self.memory.try_resize(self.held_bytes())?;
        Ok(made)
    }

    fn spill_some(&mut self) -> Result<bool> {
        if self.holds_payload() {
            self.spill_payload()?;
            return Ok(true);
        }
        let made = self.partitions.iter().any(|own| !own.codes.is_empty());
        self.spill_codes()?;
        Ok(made)
    }

    fn spill_payload(&mut self) -> Result<()> {
        let spills = self.spills.clone();
        let _timer = spills.time().timer();
        for own in &mut self.partitions {
            for (_, columns) in own.payload.drain(..) {
                let batch = RecordBatch::try_new(Arc::clone(&self.payload_schema), columns)?;
                let open = match &mut own.open_payload {
                    Some(open) => open,
                    none => none.insert(spills.open(Arc::clone(&self.payload_schema), "payload")?),
                };
                open.append(&batch)?;
            }
            own.held_payload_bytes = 0;
        }
        Ok(())
    }

    fn spill_codes(&mut self) -> Result<()> {
        let spills = self.spills.clone();
        let _timer = spills.time().timer();
        for own in &mut self.partitions {
            for chunk in own.codes.drain(..) {
                let batch = chunk.to_batch().map_err(execution_error)?;
                // Numbers get wider as more values appear; a file has one width.
                let fitting = own.open_codes.take_if(|open| open.schema() != batch.schema_ref());
                if let Some(narrow) = fitting {
                    own.code_files.extend(narrow.finish()?);
                }
                let open = match &mut own.open_codes {
                    Some(open) => open,
                    none => none.insert(spills.open(batch.schema(), "codes")?),
                };
                open.append(&batch)?;
            }
            own.code_bytes = 0;
        }
        Ok(())
    }

    /// The codes of a partition: those in files came first.
    pub(super) fn take_codes(
        &mut self,
        partition: usize,
    ) -> Result<(Vec<SpilledBatches>, Vec<CodedChunk>)> {
        let own = &mut self.partitions[partition];
        if let Some(open) = own.open_codes.take() {
            own.code_files.extend(open.finish()?);
        }
        own.code_bytes = 0;
        Ok((std::mem::take(&mut own.code_files), std::mem::take(&mut own.codes)))
    }

    /// Gives back the memory of codes that were taken.
    pub(super) fn settle(&self) -> Result<()> {
        self.memory.try_resize(self.held_bytes())
    }

    /// The published columns, `Err` with their files in the order of partitions if they were spilled.
    pub(super) fn take_payload(
        &mut self,
    ) -> Result<std::result::Result<Vec<(usize, Vec<ArrayRef>)>, Vec<SpilledBatches>>> {
        for own in &mut self.partitions {
            if let Some(open) = own.open_payload.take() {
                own.payload_file = open.finish()?;
            }
        }
        let files: Vec<SpilledBatches> =
            self.partitions.iter_mut().filter_map(|own| own.payload_file.take()).collect();
        if !files.is_empty() {
            return Ok(Err(files));
        }
        let held = self.partitions.iter_mut().flat_map(|own| std::mem::take(&mut own.payload));
        Ok(Ok(held.collect()))
    }
}
