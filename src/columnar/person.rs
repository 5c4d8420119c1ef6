//! Pseudonyms of persons, from the column that tells persons apart.

use std::io::Write as _;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt64Type};

use super::cohorts::without_dictionary;
use super::kernel_failed;
use super::row_hash::written;
use crate::error::{Error, Result};
use crate::model::Seed;
use crate::model::series::person_hash;

/// Hashes persons by their keys as they are written, so that a key stays the same person when its column changes
/// from one type of number or text to another. Decimals are written without zeros at their end: 17.00 is 17.
#[derive(Debug)]
pub(super) struct PersonHasher {
    column: usize,
    seed: Seed,
    /// Rows without a person.
    nobody: usize,
}

impl PersonHasher {
    pub(super) fn new(column: usize, seed: Seed) -> Self {
        Self { column, seed, nobody: 0 }
    }

    /// Rows without a person so far.
    pub(super) fn nobody(&self) -> usize {
        self.nobody
    }

    /// The pseudonym of every row.
    pub(super) fn hash(&mut self, columns: &[ArrayRef]) -> Result<Vec<u128>> {
        use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
        let keys = &columns[self.column];
        self.nobody += keys.logical_null_count();
        let failed = kernel_failed("privacy_unit");
        match keys.data_type() {
            signed if signed.is_signed_integer() => {
                let keys = cast(keys, &DataType::Int64).map_err(failed)?;
                Ok(self.hash_each(keys.as_primitive::<Int64Type>().iter().map(Number)))
            }
            unsigned if unsigned.is_unsigned_integer() => {
                let keys = cast(keys, &DataType::UInt64).map_err(failed)?;
                Ok(self.hash_each(keys.as_primitive::<UInt64Type>().iter().map(Number)))
            }
            DataType::Utf8 => Ok(self.hash_each(keys.as_string::<i32>().iter())),
            DataType::LargeUtf8 => Ok(self.hash_each(keys.as_string::<i64>().iter())),
            DataType::Utf8View => Ok(self.hash_each(keys.as_string_view().iter())),
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => {
                let keys = cast(keys, &LargeBinary).map_err(failed)?;
                Ok(self.hash_each(keys.as_binary::<i64>().iter()))
            }
            other if !can_be_key(other) => Err(Error::invalid(format!(
                "a person's key is {other}, of which two that look alike may differ: cast it to BIGINT or to text"
            ))),
            DataType::Dictionary(_, values) => {
                let plain = cast(keys, values).map_err(failed)?;
                // Its NULLs were counted above.
                let mut of_plain = Self { column: 0, seed: self.seed, nobody: 0 };
                of_plain.hash(&[plain])
            }
            other => {
                let is_decimal = other.is_decimal();
                let keys = written(keys)?;
                let keys = keys.as_string::<i32>().iter();
                match is_decimal {
                    true => Ok(self.hash_each(keys.map(|key| key.map(without_zeros)))),
                    false => Ok(self.hash_each(keys)),
                }
            }
        }
    }

    fn hash_each(&self, keys: impl Iterator<Item = impl Key>) -> Vec<u128> {
        let mut written = Vec::new();
        let hash = |key: &[u8]| person_hash(key, self.seed);
        keys.map(|key| key.with_text(&mut written, hash).unwrap_or(0)).collect()
    }
}

/// Whether values of a type tell persons apart. Of numbers with a floating point some are equal and written differently
/// (0 and −0), and large keys are not numbers of the type at all: two persons would have one.
pub fn can_be_key(data_type: &DataType) -> bool {
    !without_dictionary(data_type).is_floating()
}

/// A decimal without the zeros behind its point that do nothing.
fn without_zeros(decimal: &str) -> &str {
    match decimal.contains('.') {
        true => decimal.trim_end_matches('0').trim_end_matches('.'),
        false => decimal,
    }
}

/// The pseudonym of the person with the only key of an array, in the 16 bytes of [`MemberColumns`](super::MemberColumns).
/// None if the key is missing.
pub fn pseudonym(key: &ArrayRef, seed: Seed) -> Result<Option<[u8; 16]>> {
    let mut hasher = PersonHasher::new(0, seed);
    let persons = hasher.hash(std::slice::from_ref(key))?;
    Ok(persons.first().filter(|_| hasher.nobody() == 0).map(|person| person.to_be_bytes()))
}

/// A key that may be missing.
trait Key {
    /// Calls `hash` with the key as it is written.
    fn with_text(&self, written: &mut Vec<u8>, hash: impl Fn(&[u8]) -> u128) -> Option<u128>;
}

struct Number<T>(Option<T>);

impl<T: std::fmt::Display> Key for Number<T> {
    fn with_text(&self, written: &mut Vec<u8>, hash: impl Fn(&[u8]) -> u128) -> Option<u128> {
        let number = self.0.as_ref()?;
        written.clear();
        write!(written, "{number}").ok()?;
        Some(hash(written))
    }
}

impl Key for Option<&str> {
    fn with_text(&self, _: &mut Vec<u8>, hash: impl Fn(&[u8]) -> u128) -> Option<u128> {
        self.map(|text| hash(text.as_bytes()))
    }
}

impl Key for Option<&[u8]> {
    fn with_text(&self, _: &mut Vec<u8>, hash: impl Fn(&[u8]) -> u128) -> Option<u128> {
        self.map(hash)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, BinaryViewArray, Decimal128Array, DictionaryArray, Float64Array, Int8Array,
        Int64Array, StringArray, StringViewArray, UInt32Array,
    };
    use arrow::datatypes::Int8Type;

    use super::*;

    #[test]
    fn a_key_is_one_person_in_every_type() -> Result<()> {
        let texts = ["7", "12"];
        let decimals = |values: Vec<i128>, scale| -> Result<ArrayRef> {
            let of = Decimal128Array::from(values).with_precision_and_scale(9, scale);
            Ok(Arc::new(of.map_err(kernel_failed("t"))?))
        };
        let arrays: [ArrayRef; 10] = [
            Arc::new(BinaryArray::from_iter_values(texts)),
            Arc::new(BinaryViewArray::from_iter_values(texts)),
            Arc::new(Int8Array::from(vec![7, 12])),
            Arc::new(Int64Array::from(vec![7, 12])),
            Arc::new(UInt32Array::from(vec![7, 12])),
            Arc::new(StringArray::from(texts.to_vec())),
            Arc::new(StringViewArray::from(texts.to_vec())),
            Arc::new(texts.into_iter().collect::<DictionaryArray<Int8Type>>()),
            decimals(vec![7, 12], 0)?,
            decimals(vec![7000, 12_000], 3)?,
        ];
        let seed = Seed::from_bytes(b"s");
        for array in arrays {
            let hashes = PersonHasher::new(0, seed).hash(&[array])?;
            assert_eq!(hashes, [person_hash(b"7", seed), person_hash(b"12", seed)]);
        }
        let hashes = PersonHasher::new(0, seed).hash(&[decimals(vec![-1200, 0, 705], 2)?])?;
        assert_eq!(hashes, [b"-12".as_slice(), b"0", b"7.05"].map(|key| person_hash(key, seed)));
        Ok(())
    }

    #[test]
    fn numbers_with_a_floating_point_are_no_keys() {
        let floating: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        assert!(PersonHasher::new(0, Seed::from_bytes(b"s")).hash(&[floating]).is_err());
        let dictionary =
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Float32));
        assert!(!can_be_key(&dictionary) && can_be_key(&DataType::Decimal128(9, 2)));
    }

    #[test]
    fn nobody_is_counted_once() -> Result<()> {
        let arrays: [ArrayRef; 2] = [
            Arc::new(Int64Array::from(vec![Some(7), None])),
            Arc::new([Some("7"), None].into_iter().collect::<DictionaryArray<Int8Type>>()),
        ];
        for array in arrays {
            let mut hasher = PersonHasher::new(0, Seed::from_bytes(b"s"));
            hasher.hash(&[array])?;
            assert_eq!(hasher.nobody(), 1);
        }
        Ok(())
    }
}
