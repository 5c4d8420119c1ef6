//! What a method works from, one input batch at a time, in memory or as a batch for a spill file.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, RecordBatch, RecordBatchOptions, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Field, Schema, SchemaRef, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::kernel_failed;
use crate::error::{Error, Result};

/// Provisional numbers of one column in one chunk, as narrow as they are at the time.
#[derive(Debug)]
pub(super) enum Numbers {
    Byte(ScalarBuffer<u8>),
    Short(ScalarBuffer<u16>),
    Wide(ScalarBuffer<u32>),
}

impl Numbers {
    /// Packs numbers below `len`.
    pub(super) fn pack(numbers: Vec<u32>, len: u32) -> Self {
        if len <= 1 << 8 {
            Self::Byte(numbers.into_iter().map(|number| number as u8).collect())
        } else if len <= 1 << 16 {
            Self::Short(numbers.into_iter().map(|number| number as u16).collect())
        } else {
            Self::Wide(numbers.into())
        }
    }

    /// Calls `f` with every position and its number.
    #[inline]
    pub(super) fn for_each(&self, mut f: impl FnMut(usize, u32)) {
        macro_rules! each {
            ($numbers:expr) => {
                $numbers.iter().enumerate().for_each(|(at, number)| f(at, u32::from(*number)))
            };
        }
        match self {
            Self::Byte(numbers) => each!(numbers),
            Self::Short(numbers) => each!(numbers),
            Self::Wide(numbers) => each!(numbers),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Byte(numbers) => numbers.inner().capacity(),
            Self::Short(numbers) => numbers.inner().capacity(),
            Self::Wide(numbers) => numbers.inner().capacity(),
        }
    }

    fn array(&self) -> ArrayRef {
        match self {
            Self::Byte(numbers) => Arc::new(UInt8Array::new(numbers.clone(), None)),
            Self::Short(numbers) => Arc::new(UInt16Array::new(numbers.clone(), None)),
            Self::Wide(numbers) => Arc::new(UInt32Array::new(numbers.clone(), None)),
        }
    }

    fn of_array(array: &ArrayRef) -> Result<Self> {
        match array.data_type() {
            DataType::UInt8 => Ok(Self::Byte(array.as_primitive::<UInt8Type>().values().clone())),
            DataType::UInt16 => {
                Ok(Self::Short(array.as_primitive::<UInt16Type>().values().clone()))
            }
            DataType::UInt32 => Ok(Self::Wide(array.as_primitive::<UInt32Type>().values().clone())),
            other => Err(Error::bug(format!("spilled numbers are of type {other}"))),
        }
    }
}

/// Numbers and row keys of one input batch.
#[derive(Debug)]
pub struct CodedChunk {
    pub(super) rows: usize,
    /// Per quasi-identifier, then per modelled column.
    pub(super) numbers: Vec<Numbers>,
    /// Empty without keyed columns.
    pub(super) keyed_hashes: ScalarBuffer<u64>,
    /// Empty without kept columns.
    pub(super) kept_hashes: ScalarBuffer<u64>,
    /// Pseudonyms of persons, empty where the release is not one of a series.
    pub(super) persons: Vec<u128>,
}

/// What chunks have beside the numbers of their columns.
#[derive(Debug, Clone, Copy)]
pub struct ChunkParts {
    /// Hashes of keyed columns.
    pub keyed: bool,
    /// Hashes of kept columns.
    pub kept: bool,
    /// Pseudonyms of persons.
    pub persons: bool,
}

impl CodedChunk {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let hashes = self.keyed_hashes.inner().capacity() + self.kept_hashes.inner().capacity();
        let persons = size_of_val(&self.persons[..]);
        self.numbers.iter().map(Numbers::bytes).sum::<usize>() + hashes + persons
    }

    /// The chunk as a batch for a spill file. Its schema depends on how wide the numbers are.
    pub fn to_batch(&self) -> Result<RecordBatch> {
        let hashes = [&self.keyed_hashes, &self.kept_hashes].into_iter();
        let hashes = hashes.filter(|hashes| !hashes.is_empty());
        let hashes = hashes.map(|hashes| Arc::new(UInt64Array::new(hashes.clone(), None)) as _);
        let persons = match self.persons.as_slice() {
            [] => None,
            persons => {
                let bytes: Vec<u8> = persons.iter().flat_map(|of| of.to_le_bytes()).collect();
                let persons = FixedSizeBinaryArray::try_new(16, Buffer::from_vec(bytes), None);
                Some(Arc::new(persons.map_err(kernel_failed("any"))?) as _)
            }
        };
        let columns: Vec<ArrayRef> =
            self.numbers.iter().map(Numbers::array).chain(hashes).chain(persons).collect();
        let field = |(at, column): (usize, &ArrayRef)| {
            Field::new(at.to_string(), column.data_type().clone(), false)
        };
        let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(kernel_failed("any"))
    }

    /// Reads a chunk back from its batch.
    pub fn of_batch(batch: &RecordBatch, has: ChunkParts) -> Result<Self> {
        let columns = batch.columns();
        let keys = [has.keyed, has.kept, has.persons].into_iter().filter(|has| *has).count();
        let (numbers, hashes) = (columns.split_at_checked(columns.len().saturating_sub(keys)))
            .ok_or_else(|| Error::bug("a spilled chunk misses columns"))?;
        let mut hashes = hashes.iter();
        let mut hashes_of = |has: bool| {
            let array = has.then(|| hashes.next()).flatten();
            array.and_then(|array| array.as_primitive_opt::<UInt64Type>())
        };
        let [keyed, kept] = [has.keyed, has.kept].map(&mut hashes_of);
        let persons = has.persons.then(|| columns.last()).flatten();
        let persons = persons.and_then(|array| array.as_fixed_size_binary_opt());
        let person = |bytes: &[u8]| bytes.try_into().map(u128::from_le_bytes).unwrap_or_default();
        let persons = persons.map(|array| array.iter().flatten().map(person).collect());
        let values = |array: Option<&UInt64Array>| {
            array.map_or_else(|| Vec::new().into(), |array| array.values().clone())
        };
        Ok(Self {
            rows: batch.num_rows(),
            numbers: numbers.iter().map(Numbers::of_array).collect::<Result<_>>()?,
            keyed_hashes: values(keyed),
            kept_hashes: values(kept),
            persons: persons.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_survives_its_spill_file() -> Result<()> {
        let all = [[true, true], [true, false], [false, true], [false, false]];
        for (has_keys, has_persons) in
            all.into_iter().flat_map(|keys| [(keys, true), (keys, false)])
        {
            let hashes = |has: bool, hash: u64| if has { vec![hash, 8] } else { vec![] }.into();
            let chunk = CodedChunk {
                rows: 2,
                numbers: vec![
                    Numbers::pack(vec![0, 255], 256),
                    Numbers::pack(vec![0, 256], 257),
                    Numbers::pack(vec![65_536, 1], 65_537),
                ],
                keyed_hashes: hashes(has_keys[0], u64::MAX),
                kept_hashes: hashes(has_keys[1], 5),
                persons: if has_persons { vec![u128::MAX - 3, 1 << 70] } else { Vec::new() },
            };
            let [keyed, kept] = has_keys;
            let has = ChunkParts { keyed, kept, persons: has_persons };
            let batch = chunk.to_batch()?;
            let back = CodedChunk::of_batch(&batch, has)?;
            assert_eq!(format!("{chunk:?}"), format!("{back:?}"));
            assert!(matches!(back.numbers[0], Numbers::Byte(_)));
            assert!(matches!(back.numbers[1], Numbers::Short(_)));
            assert!(matches!(back.numbers[2], Numbers::Wide(_)));
        }
        Ok(())
    }
}
