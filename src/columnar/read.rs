//! Reading batches: provisional codes and row keys are computed at once, published columns are kept apart.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::compute::{BatchCoalescer, cast};
use arrow::datatypes::{DataType, Schema, SchemaRef};

use super::coded::{CodedChunk, Numbers};
use super::intern::{Interner, MISSING};
use super::kernel_failed;
use super::person::PersonHasher;
use super::row_hash::RowHasher;
use crate::error::Result;
use crate::model::{Purpose, Secret};

/// The roles of the input columns, by position.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Schema of the input.
    pub schema: SchemaRef,
    /// The quasi-identifiers, as declared.
    pub quasi_identifiers: Vec<usize>,
    /// The columns that models look at, the privacy unit among them.
    pub modelled: Vec<usize>,
    /// The columns whose values are part of the row key: sensitive ones and the privacy unit.
    pub keyed: Vec<usize>,
    /// The kept columns, which number rows that are equal in all others.
    pub kept: Vec<usize>,
    /// The columns that are published as they are.
    pub payload: Vec<usize>,
    /// What tells persons apart who are known by pseudonyms, in a series.
    pub person: Option<usize>,
}

impl Layout {
    /// Whether rows of equal quasi-identifiers can be told apart.
    pub fn has_ties(&self) -> bool {
        !self.keyed.is_empty() || !self.kept.is_empty()
    }

    /// The published columns as they wait: dictionaries with small keys, which could not number the
    /// values of several batches, as plain values.
    pub fn waiting_payload(&self) -> Schema {
        let field = |column: &usize| {
            let field = self.schema.field(*column).clone();
            let waiting = waiting_type(field.data_type()).clone();
            field.with_data_type(waiting)
        };
        Schema::new(self.payload.iter().map(field).collect::<Vec<_>>())
    }
}

/// The type in which a published column waits: dictionaries with small keys as plain values.
pub fn waiting_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) if has_small_keys(data_type) => values,
        other => other,
    }
}

/// What is kept of one input batch.
#[derive(Debug)]
pub struct Chunk {
    /// What the method works from.
    pub coded: CodedChunk,
    /// The published columns.
    pub payload: Vec<ArrayRef>,
    /// Bytes of each of them. Buffers behind views count when they were not there a batch before.
    pub payload_bytes: Vec<usize>,
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
    person: Option<PersonHasher>,
    pub(super) interners: Vec<Interner>,
    /// Rows in which each modelled column is missing.
    missing: Vec<usize>,
    /// `None` where batches cannot be put together.
    small: Option<BatchCoalescer>,
    /// Buffers behind the views of the last batch: batches of one file share them.
    shared: Vec<usize>,
}

/// Batches below this many rows are put together to [`CHUNK_ROWS`].
const SMALL_BATCH_ROWS: usize = 2048;
const CHUNK_ROWS: usize = 8192;

impl Reader {
    /// A reader without rows.
    pub fn new(layout: &Arc<Layout>, secret: Secret) -> Result<Self> {
        let field = |column: &usize| layout.schema.field(*column);
        let types: Vec<DataType> =
            layout.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let interner =
            |column: &usize| Interner::new(field(column).name(), field(column).data_type());
        Ok(Self {
            keyed: RowHasher::new(&layout.keyed, &types, secret.seed(Purpose::SensitiveValues))?,
            kept: RowHasher::new(&layout.kept, &types, secret.seed(Purpose::KeptValues))?,
            person: layout
                .person
                .map(|column| PersonHasher::new(column, secret.seed(Purpose::SeriesPersons))),
            interners: layout
                .quasi_identifiers
                .iter()
                .chain(&layout.modelled)
                .map(interner)
                .collect(),
            missing: vec![0; layout.modelled.len()],
            small: (!types.iter().any(has_small_keys))
                .then(|| BatchCoalescer::new(Arc::clone(&layout.schema), CHUNK_ROWS)),
            shared: Vec::new(),
            layout: Arc::clone(layout),
        })
    }

    /// The same reader, which takes in every batch as it comes: rows stay in the order in which they were given.
    pub(super) fn of_whole_batches(self) -> Self {
        Self { small: None, ..self }
    }

    /// A reader that knows values and has no rows: with it beside others, codes are ranks among its values
    /// too. One array per quasi-identifier and modelled column, `None` where nothing is known.
    #[cfg(feature = "cells")]
    pub fn of_values(
        layout: &Arc<Layout>,
        secret: Secret,
        values: &[Option<ArrayRef>],
    ) -> Result<Self> {
        let mut reader = Self::new(layout, secret)?;
        for (interner, values) in reader.interners.iter_mut().zip(values) {
            if let Some(values) = values {
                interner.intern(values, &mut Vec::with_capacity(values.len()))?;
            }
        }
        Ok(reader)
    }

    /// Takes in a batch and gives what is to be kept of it, or of some before it.
    pub fn push(&mut self, batch: RecordBatch) -> Result<Vec<Chunk>> {
        match &mut self.small {
            Some(small) if batch.num_rows() < SMALL_BATCH_ROWS => {
                small.push_batch(batch).map_err(kernel_failed("any"))?;
                self.take_in_coalesced()
            }
            _ => Ok(self.take_in(&batch)?.into_iter().collect()),
        }
    }

    /// Takes in what was put aside. Call it after the last batch.
    pub fn finish(&mut self) -> Result<Vec<Chunk>> {
        if let Some(small) = &mut self.small {
            small.finish_buffered_batch().map_err(kernel_failed("any"))?;
        }
        self.take_in_coalesced()
    }

    /// Bytes held by the distinct values.
    pub fn memory(&self) -> usize {
        self.interners.iter().map(Interner::memory).sum()
    }

    /// Rows in which a modelled column, by its position among them, is missing.
    pub fn missing(&self, modelled: usize) -> usize {
        self.missing[modelled]
    }

    /// Rows without a person, where persons are known by pseudonyms.
    pub fn nobody(&self) -> usize {
        self.person.as_ref().map_or(0, PersonHasher::nobody)
    }

    fn take_in_coalesced(&mut self) -> Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        while let Some(batch) = self.small.as_mut().and_then(BatchCoalescer::next_completed_batch) {
            chunks.extend(self.take_in(&batch)?);
        }
        Ok(chunks)
    }

    fn take_in(&mut self, batch: &RecordBatch) -> Result<Option<Chunk>> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(None);
        }
        let columns = batch.columns();
        let coded = self.layout.quasi_identifiers.iter().chain(&self.layout.modelled);
        let mut numbers = Vec::with_capacity(self.interners.len());
        for (column, interner) in coded.zip(&mut self.interners) {
            let mut provisional = Vec::with_capacity(rows);
            interner.intern(&columns[*column], &mut provisional)?;
            numbers.push(Numbers::pack(provisional, interner.len()));
        }
        let modelled = &numbers[self.layout.quasi_identifiers.len()..];
        let interners = &self.interners[self.layout.quasi_identifiers.len()..];
        for ((missing, numbers), interner) in self.missing.iter_mut().zip(modelled).zip(interners) {
            if interner.has_missing() {
                numbers.for_each(|_, number| *missing += usize::from(number == MISSING));
            }
        }
        let hashes = |hasher: &Option<RowHasher>| {
            let mut hashes = Vec::new();
            if let Some(hasher) = hasher {
                hasher.hash(columns, &mut hashes)?;
            }
            Ok(hashes.into())
        };
        let coded = CodedChunk {
            rows,
            numbers,
            keyed_hashes: hashes(&self.keyed)?,
            kept_hashes: hashes(&self.kept)?,
            persons: match &mut self.person {
                Some(person) => person.hash(columns)?,
                None => Vec::new(),
            },
        };
        let waiting = |column: &usize| match columns[*column].data_type() {
            DataType::Dictionary(_, values) if has_small_keys(columns[*column].data_type()) => {
                cast(&columns[*column], values).map_err(kernel_failed("sensitive or kept"))
            }
            _ => Ok(Arc::clone(&columns[*column])),
        };
        let payload = self.layout.payload.iter().map(waiting).collect::<Result<Vec<ArrayRef>>>()?;
        let payload_bytes = self.payload_bytes(&payload);
        Ok(Some(Chunk { coded, payload, payload_bytes }))
    }

    fn payload_bytes(&mut self, payload: &[ArrayRef]) -> Vec<usize> {
        let mut shared = Vec::new();
        let mut bytes = Vec::with_capacity(payload.len());
        for array in payload {
            let mut of_column = row_bytes(array);
            for buffer in view_buffers(array) {
                let address = buffer.data_ptr().as_ptr() as usize;
                if !self.shared.contains(&address) && !shared.contains(&address) {
                    of_column += buffer.len();
                }
                shared.push(address);
            }
            bytes.push(of_column);
        }
        self.shared = shared;
        bytes
    }
}

/// Whether the dictionaries of several batches may have more values than their keys can number. Values of
/// a kind that Arrow does not pack again stay as they are.
fn has_small_keys(data_type: &DataType) -> bool {
    use DataType::{Boolean, Dictionary, Duration, Int8, Int16, Interval, UInt8, UInt16};
    let Dictionary(key, values) = data_type else { return false };
    let packs = !values.is_nested() && !matches!(**values, Boolean | Duration(_) | Interval(_));
    packs && matches!(**key, Int8 | UInt8 | Int16 | UInt16)
}

/// Bytes of the rows themselves: a slice of a large batch counts as its part of it.
fn row_bytes(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

/// The buffers to which the views of a column point.
fn view_buffers(array: &ArrayRef) -> &[Buffer] {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().data_buffers(),
        DataType::BinaryView => array.as_binary_view().data_buffers(),
        _ => &[],
    }
}

/// Bytes of published columns that share nothing with others.
pub fn payload_bytes(columns: &[ArrayRef]) -> usize {
    let behind = |column: &ArrayRef| view_buffers(column).iter().map(Buffer::len).sum::<usize>();
    columns.iter().map(|column| row_bytes(column) + behind(column)).sum()
}
