//! The rows of one partition of the input that wait for the method.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;

use crate::columnar::{Chunk, CodedChunk, Layout, PayloadArray, PayloadChunk, PayloadCoders};
use crate::engine::exec::spill::{OpenSpill, SpilledBatches, Spills};

/// The rows of one partition in the order in which they were read, codes apart from published columns.
pub(super) struct PartitionRows {
    pub(super) rows: usize,
    /// Bytes of the distinct values that the reader holds.
    pub(super) distinct_bytes: usize,
    pub(super) codes: Vec<CodedChunk>,
    pub(super) code_bytes: usize,
    pub(super) open_codes: Option<OpenSpill>,
    pub(super) code_files: Vec<SpilledBatches>,
    pub(super) payload: Vec<PayloadChunk>,
    pub(super) payload_bytes: usize,
    pub(super) coders: PayloadCoders,
    /// Bytes of the published columns when they leave.
    pub(super) published_bytes: usize,
    pub(super) open_payload: Option<OpenSpill>,
}

impl PartitionRows {
    pub(super) fn new(layout: &Layout) -> Self {
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

    pub(super) fn held_bytes(&self) -> usize {
        self.distinct_bytes + self.payload_bytes + self.code_bytes + self.coders.memory()
    }

    pub(super) fn add(&mut self, partition: usize, chunk: Chunk) -> Result<()> {
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

    pub(super) fn spill_payload(&mut self, spills: &Spills, schema: &SchemaRef) -> Result<()> {
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
        // Columns in files are decoded, so the values that the coders number are no longer needed.
        self.coders.clear();
        Ok(())
    }

    pub(super) fn spill_codes(&mut self, spills: &Spills) -> Result<()> {
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
