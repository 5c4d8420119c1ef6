//! Taking in batches: provisional codes and row keys at once, payload apart.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{DataType, SchemaRef};

use super::intern::{Interner, MISSING};
use super::kernel_failed;
use super::row_hash::RowHasher;
use crate::error::Result;
use crate::model::Seed;

/// Which columns of the input play which part, by position.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Schema of the input.
    pub schema: SchemaRef,
    /// The quasi-identifiers, as declared.
    pub quasi_identifiers: Vec<usize>,
    /// The columns that models look at, the privacy unit among them.
    pub modelled: Vec<usize>,
    /// The columns whose values come first in the row key: sensitive ones and the privacy unit.
    pub keyed: Vec<usize>,
    /// The kept columns, second in the row key.
    pub kept: Vec<usize>,
    /// The columns that are published as they are.
    pub payload: Vec<usize>,
}

/// Provisional numbers of one column in one chunk, in 16 bits as long as they fit.
#[derive(Debug)]
pub(super) enum Numbers {
    Short(Vec<u16>),
    Wide(Vec<u32>),
}

impl Numbers {
    fn pack(numbers: Vec<u32>, len: u32) -> Self {
        if len <= 1 << 16 {
            Self::Short(numbers.into_iter().map(|number| number as u16).collect())
        } else {
            Self::Wide(numbers)
        }
    }

    /// Calls `f` with every position and its number.
    #[inline]
    pub(super) fn for_each(&self, mut f: impl FnMut(usize, u32)) {
        match self {
            Self::Short(numbers) => {
                numbers.iter().enumerate().for_each(|(at, number)| f(at, u32::from(*number)))
            }
            Self::Wide(numbers) => {
                numbers.iter().enumerate().for_each(|(at, number)| f(at, *number))
            }
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Short(numbers) => numbers.capacity() * size_of::<u16>(),
            Self::Wide(numbers) => numbers.capacity() * size_of::<u32>(),
        }
    }
}

/// What is kept of one input batch.
#[derive(Debug)]
pub struct Chunk {
    pub(super) rows: usize,
    /// Per quasi-identifier, then per modelled column.
    pub(super) numbers: Vec<Numbers>,
    pub(super) keyed_hashes: Vec<u64>,
    pub(super) kept_hashes: Vec<u64>,
    pub(super) payload: Vec<ArrayRef>,
}

/// Takes in the batches of one input partition.
///
/// Batches are kept as they are; only very small ones are first put together, so that the number of
/// chunks stays in proportion to the rows.
#[derive(Debug)]
pub struct Reader {
    layout: Arc<Layout>,
    keyed: Option<RowHasher>,
    kept: Option<RowHasher>,
    pub(super) interners: Vec<Interner>,
    pub(super) chunks: Vec<Chunk>,
    /// `None` where batches cannot be put together.
    small: Option<BatchCoalescer>,
    chunk_memory: usize,
}

/// Batches below this many rows are put together to [`CHUNK_ROWS`].
const SMALL_BATCH_ROWS: usize = 2048;
const CHUNK_ROWS: usize = 8192;

impl Reader {
    /// A reader without rows.
    pub fn new(layout: &Arc<Layout>, seed: Seed) -> Result<Self> {
        let field = |column: &usize| layout.schema.field(*column);
        let types: Vec<DataType> =
            layout.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let interner =
            |column: &usize| Interner::new(field(column).name(), field(column).data_type());
        Ok(Self {
            keyed: RowHasher::new(&layout.keyed, &types, seed)?,
            kept: RowHasher::new(&layout.kept, &types, seed)?,
            interners: layout
                .quasi_identifiers
                .iter()
                .chain(&layout.modelled)
                .map(interner)
                .collect(),
            chunks: Vec::new(),
            small: (!types.iter().any(has_small_keys))
                .then(|| BatchCoalescer::new(Arc::clone(&layout.schema), CHUNK_ROWS)),
            chunk_memory: 0,
            layout: Arc::clone(layout),
        })
    }

    /// Takes in a batch.
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        match &mut self.small {
            Some(small) if batch.num_rows() < SMALL_BATCH_ROWS => {
                small.push_batch(batch).map_err(kernel_failed("any"))?;
                self.take_in_coalesced()
            }
            _ => self.take_in(&batch),
        }
    }

    /// Takes in what was put aside. Call it after the last batch.
    pub fn finish(&mut self) -> Result<()> {
        if let Some(small) = &mut self.small {
            small.finish_buffered_batch().map_err(kernel_failed("any"))?;
        }
        self.take_in_coalesced()
    }

    /// Bytes held by the chunks and the distinct values, payload included.
    pub fn memory(&self) -> usize {
        self.chunk_memory + self.interners.iter().map(Interner::memory).sum::<usize>()
    }

    /// Rows in which a modelled column, by its position among them, is missing.
    pub fn missing(&self, modelled: usize) -> usize {
        let column = self.layout.quasi_identifiers.len() + modelled;
        if !self.interners[column].has_missing() {
            return 0;
        }
        let mut missing = 0;
        for chunk in &self.chunks {
            chunk.numbers[column].for_each(|_, number| missing += usize::from(number == MISSING));
        }
        missing
    }

    /// Rows taken in so far.
    pub fn rows(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.rows).sum()
    }

    fn take_in_coalesced(&mut self) -> Result<()> {
        while let Some(batch) = self.small.as_mut().and_then(BatchCoalescer::next_completed_batch) {
            self.take_in(&batch)?;
        }
        Ok(())
    }

    fn take_in(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let columns = batch.columns();
        let coded = self.layout.quasi_identifiers.iter().chain(&self.layout.modelled);
        let mut numbers = Vec::with_capacity(self.interners.len());
        for (column, interner) in coded.zip(&mut self.interners) {
            let mut provisional = Vec::with_capacity(rows);
            interner.intern(&columns[*column], &mut provisional)?;
            numbers.push(Numbers::pack(provisional, interner.len()));
        }
        let mut chunk = Chunk {
            rows,
            numbers,
            keyed_hashes: Vec::new(),
            kept_hashes: Vec::new(),
            payload: self
                .layout
                .payload
                .iter()
                .map(|column| Arc::clone(&columns[*column]))
                .collect(),
        };
        if let Some(hasher) = &self.keyed {
            hasher.hash(columns, &mut chunk.keyed_hashes)?;
        }
        if let Some(hasher) = &self.kept {
            hasher.hash(columns, &mut chunk.kept_hashes)?;
        }
        self.chunk_memory += chunk.memory();
        self.chunks.push(chunk);
        Ok(())
    }
}

impl Chunk {
    fn memory(&self) -> usize {
        let payload: usize = self.payload.iter().map(payload_memory).sum();
        let numbers: usize = self.numbers.iter().map(Numbers::memory).sum();
        payload
            + numbers
            + (self.keyed_hashes.capacity() + self.kept_hashes.capacity()) * size_of::<u64>()
    }
}

/// Whether the dictionaries of several batches may have more values than their keys can number.
fn has_small_keys(data_type: &DataType) -> bool {
    use DataType::{Int8, Int16, UInt8, UInt16};
    matches!(data_type, DataType::Dictionary(key, _) if matches!(**key, Int8 | UInt8 | Int16 | UInt16))
}

/// Bytes of the rows themselves: a slice of a large batch counts as its part of it.
fn payload_memory(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}
