//! Numbering the distinct values of a column in the order they appear.

use std::hash::BuildHasher;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, MAX_INLINE_VIEW_LEN, UInt32Array,
    make_view, new_empty_array,
};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::*;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

use super::kernel_failed;
use super::kind::{Kind, plain_type};
use super::row_hash::written;
use crate::error::{Error, Result};

/// The number that stands for a missing value.
pub(super) const MISSING: u32 = 0;

/// Distinct values of one column, numbered from 1 in order of appearance.
///
/// Appearance depends on scheduling, so these numbers are provisional: [`super::Domain`] replaces
/// them by ranks once all values are known.
#[derive(Debug)]
pub(super) struct Interner {
    column: String,
    plain: DataType,
    table: Table,
    /// The new values of each batch, in order of their numbers.
    values: Vec<ArrayRef>,
    /// Bytes of the values and of the long strings.
    value_memory: usize,
    len: u32,
    missing: bool,
    fresh: Vec<u32>,
}

#[derive(Debug)]
enum Table {
    Bits(HashTable<(u64, u32)>),
    Wide(HashTable<(u128, u32)>),
    /// Short strings by their 16-byte view, which holds all of them; long ones by their bytes.
    Text {
        short: HashTable<(u128, u32)>,
        long: HashMap<Box<[u8]>, u32, FixedState>,
    },
}

// The hash only finds places in a table; it decides nothing about a release.
const STATE: FixedState = FixedState::with_seed(0);

impl Interner {
    pub(super) fn new(column: &str, data_type: &DataType) -> Self {
        let plain = if is_numbered(data_type) { plain_type(data_type) } else { DataType::Utf8 };
        let table = match &plain {
            DataType::Utf8 => {
                Table::Text { short: HashTable::new(), long: HashMap::with_hasher(STATE) }
            }
            DataType::Decimal128(..) => Table::Wide(HashTable::new()),
            _ => Table::Bits(HashTable::new()),
        };
        Self {
            column: column.to_owned(),
            plain,
            table,
            values: Vec::new(),
            value_memory: 0,
            len: 1,
            missing: false,
            fresh: Vec::new(),
        }
    }

    /// Whether a missing value was seen.
    pub(super) fn has_missing(&self) -> bool {
        self.missing
    }

    /// One more than the largest number given out.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Bytes held, roughly.
    pub(super) fn memory(&self) -> usize {
        let table = match &self.table {
            Table::Bits(table) => table.capacity() * 17,
            Table::Wide(table) => table.capacity() * 33,
            Table::Text { short, long } => short.capacity() * 33 + long.capacity() * 25,
        };
        table + self.value_memory
    }

    /// The type of the distinct values: that of the column without its encoding.
    #[cfg(feature = "cells")]
    pub(super) fn plain_type(&self) -> &DataType {
        &self.plain
    }

    /// Values of the column as they would be kept: without encoding, and with one zero.
    #[cfg(feature = "cells")]
    pub(super) fn plain(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let array = if is_numbered(array.data_type()) { array.clone() } else { written(array)? };
        let plain = cast(&array, &self.plain).map_err(kernel_failed(&self.column))?;
        Ok(without_negative_zero(plain))
    }

    /// All distinct values, by number, starting with number 1.
    pub(super) fn values(&self) -> Result<ArrayRef> {
        if self.values.is_empty() {
            return Ok(new_empty_array(&self.plain));
        }
        let parts: Vec<&dyn Array> = self.values.iter().map(AsRef::as_ref).collect();
        concat(&parts).map_err(kernel_failed(&self.column))
    }

    /// Appends the number of every value of the array.
    pub(super) fn intern(&mut self, array: &ArrayRef, numbers: &mut Vec<u32>) -> Result<()> {
        match array.data_type() {
            DataType::Null => {
                self.missing |= !array.is_empty();
                numbers.extend(std::iter::repeat_n(MISSING, array.len()));
                Ok(())
            }
            DataType::Dictionary(..) => self.intern_dictionary(array, numbers),
            DataType::RunEndEncoded(..) => {
                let plain = cast(array, &self.plain).map_err(kernel_failed(&self.column))?;
                self.intern(&plain, numbers)
            }
            other if is_numbered(other) => {
                self.intern_plain(array, numbers)?;
                self.keep_fresh(array)
            }
            // Lists, structs, binaries as sensitive values: equal when they are written equally.
            _ => self.intern(&written(array)?, numbers),
        }
    }

    /// Only values that rows refer to enter the domain: a dictionary may hold filtered-out ones.
    fn intern_dictionary(&mut self, array: &ArrayRef, numbers: &mut Vec<u32>) -> Result<()> {
        let dictionary = array.as_any_dictionary();
        let values = dictionary.values();
        // A batch without a single value may come with an empty dictionary, which Arrow will not
        // normalize keys of.
        if values.is_empty() {
            self.missing |= !array.is_empty();
            numbers.extend(std::iter::repeat_n(MISSING, array.len()));
            return Ok(());
        }
        let keys = dictionary.normalized_keys();
        let mut number_of = vec![u32::MAX; values.len()];
        let mut used = Vec::new();
        for (row, key) in keys.iter().enumerate() {
            if !array.is_null(row) && number_of[*key] == u32::MAX {
                number_of[*key] = 0;
                used.push(*key as u32);
            }
        }
        let used_values = take(values, &UInt32Array::from(used.clone()), None)
            .map_err(kernel_failed(&self.column))?;
        let mut used_numbers = Vec::with_capacity(used.len());
        self.intern(&used_values, &mut used_numbers)?;
        for (key, number) in used.iter().zip(used_numbers) {
            number_of[*key as usize] = number;
        }
        for (row, key) in keys.iter().enumerate() {
            let number = if array.is_null(row) { MISSING } else { number_of[*key] };
            self.missing |= number == MISSING;
            numbers.push(number);
        }
        Ok(())
    }

    fn keep_fresh(&mut self, array: &ArrayRef) -> Result<()> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let positions = UInt32Array::from(std::mem::take(&mut self.fresh));
        let fresh = take(array, &positions, None).map_err(kernel_failed(&self.column))?;
        // The cast also lets go of the batch, which views into it would keep in memory.
        let fresh = cast(&fresh, &self.plain).map_err(kernel_failed(&self.column))?;
        self.value_memory += fresh.get_array_memory_size();
        self.values.push(without_negative_zero(fresh));
        Ok(())
    }

    fn intern_plain(&mut self, array: &ArrayRef, numbers: &mut Vec<u32>) -> Result<()> {
        macro_rules! bits {
            ($type:ty, $to_bits:expr) => {{
                let array = array.as_primitive::<$type>();
                self.intern_primitive::<$type>(array, $to_bits, numbers);
            }};
        }
        macro_rules! floats {
            ($type:ty, $to_bits:expr) => {{
                let values = array.as_primitive::<$type>();
                self.refuse_nan(values.iter().flatten().any(|value| value.is_nan()))?;
                bits!($type, $to_bits)
            }};
        }
        macro_rules! text {
            ($array:expr) => {{
                let array = $array;
                for row in 0..array.len() {
                    let value = (!array.is_null(row)).then(|| array.value(row).as_ref());
                    numbers.push(self.intern_bytes(value, row));
                }
            }};
        }
        use DataType as D;
        match array.data_type() {
            D::Int8 => bits!(Int8Type, |v| v as u64),
            D::Int16 => bits!(Int16Type, |v| v as u64),
            D::Int32 => bits!(Int32Type, |v| v as u64),
            D::Int64 => bits!(Int64Type, |v| v as u64),
            D::UInt8 => bits!(UInt8Type, u64::from),
            D::UInt16 => bits!(UInt16Type, u64::from),
            D::UInt32 => bits!(UInt32Type, u64::from),
            D::UInt64 => bits!(UInt64Type, |v| v),
            D::Float16 => floats!(Float16Type, |v| u64::from((v.to_f32() + 0.0).to_bits())),
            D::Float32 => floats!(Float32Type, |v| u64::from((v + 0.0).to_bits())),
            D::Float64 => floats!(Float64Type, |v| (v + 0.0).to_bits()),
            D::Date32 => bits!(Date32Type, |v| v as u64),
            D::Date64 => bits!(Date64Type, |v| v as u64),
            D::Time32(TimeUnit::Second) => bits!(Time32SecondType, |v| v as u64),
            D::Time32(_) => bits!(Time32MillisecondType, |v| v as u64),
            D::Time64(TimeUnit::Microsecond) => bits!(Time64MicrosecondType, |v| v as u64),
            D::Time64(_) => bits!(Time64NanosecondType, |v| v as u64),
            D::Timestamp(TimeUnit::Second, _) => bits!(TimestampSecondType, |v| v as u64),
            D::Timestamp(TimeUnit::Millisecond, _) => bits!(TimestampMillisecondType, |v| v as u64),
            D::Timestamp(TimeUnit::Microsecond, _) => bits!(TimestampMicrosecondType, |v| v as u64),
            D::Timestamp(TimeUnit::Nanosecond, _) => bits!(TimestampNanosecondType, |v| v as u64),
            D::Duration(TimeUnit::Second) => bits!(DurationSecondType, |v| v as u64),
            D::Duration(TimeUnit::Millisecond) => bits!(DurationMillisecondType, |v| v as u64),
            D::Duration(TimeUnit::Microsecond) => bits!(DurationMicrosecondType, |v| v as u64),
            D::Duration(TimeUnit::Nanosecond) => bits!(DurationNanosecondType, |v| v as u64),
            D::Decimal32(..) => bits!(Decimal32Type, |v| v as u64),
            D::Decimal64(..) => bits!(Decimal64Type, |v| v as u64),
            D::Decimal128(..) => {
                let array = array.as_primitive::<Decimal128Type>();
                for row in 0..array.len() {
                    let value = (!array.is_null(row)).then(|| array.value(row) as u128);
                    numbers.push(self.intern_wide(value, row));
                }
            }
            D::Boolean => self.intern_booleans(array.as_boolean(), numbers),
            D::Utf8 => text!(array.as_string::<i32>()),
            D::LargeUtf8 => text!(array.as_string::<i64>()),
            D::Utf8View => {
                let array = array.as_string_view();
                // Sorted and clustered tables repeat values: the last one is the best guess.
                let mut last = (0, None);
                for (row, view) in array.views().iter().enumerate() {
                    if array.is_null(row) {
                        self.missing = true;
                        numbers.push(MISSING);
                        continue;
                    }
                    let number = match last {
                        (known, Some(number)) if known == *view => number,
                        _ if *view as u32 <= MAX_INLINE_VIEW_LEN => self.intern_short(*view, row),
                        _ => self.intern_bytes(Some(array.value(row).as_bytes()), row),
                    };
                    last = (*view, Some(number));
                    numbers.push(number);
                }
            }
            other => return Err(Error::bug(format!("no numbering for values of type {other}"))),
        }
        Ok(())
    }

    fn refuse_nan(&self, found: bool) -> Result<()> {
        if found {
            let column = &self.column;
            return Err(Error::invalid(format!(
                "column '{column}' holds NaN, which has no place in an order: publish it as missing \
                 with CASE WHEN isnan({column}) THEN NULL ELSE {column} END, or filter it out"
            )));
        }
        Ok(())
    }

    fn intern_primitive<T: ArrowPrimitiveType>(
        &mut self,
        array: &arrow::array::PrimitiveArray<T>,
        to_bits: impl Fn(T::Native) -> u64,
        numbers: &mut Vec<u32>,
    ) {
        // Sorted and clustered tables repeat values: the last one is the best guess.
        let mut last = None;
        for row in 0..array.len() {
            if array.is_null(row) {
                self.missing = true;
                numbers.push(MISSING);
                continue;
            }
            let bits = to_bits(array.value(row));
            match last {
                Some((known, number)) if known == bits => numbers.push(number),
                _ => {
                    let number = self.intern_bits(bits, row);
                    last = Some((bits, number));
                    numbers.push(number);
                }
            }
        }
    }

    fn intern_booleans(&mut self, array: &BooleanArray, numbers: &mut Vec<u32>) {
        for row in 0..array.len() {
            let number = if array.is_null(row) {
                self.missing = true;
                MISSING
            } else {
                self.intern_bits(u64::from(array.value(row)), row)
            };
            numbers.push(number);
        }
    }

    fn intern_bits(&mut self, bits: u64, row: usize) -> u32 {
        let Table::Bits(table) = &mut self.table else { return MISSING };
        find_or_add(table, bits, row, &mut self.len, &mut self.fresh)
    }

    fn intern_wide(&mut self, value: Option<u128>, row: usize) -> u32 {
        let (Some(value), Table::Wide(table)) = (value, &mut self.table) else {
            self.missing = true;
            return MISSING;
        };
        find_or_add(table, value, row, &mut self.len, &mut self.fresh)
    }

    /// A string by its view, which holds its length and all its bytes.
    fn intern_short(&mut self, view: u128, row: usize) -> u32 {
        let Table::Text { short, .. } = &mut self.table else { return MISSING };
        find_or_add(short, view, row, &mut self.len, &mut self.fresh)
    }

    fn intern_bytes(&mut self, value: Option<&[u8]>, row: usize) -> u32 {
        let (Some(value), Table::Text { short, long }) = (value, &mut self.table) else {
            self.missing = true;
            return MISSING;
        };
        if value.len() <= MAX_INLINE_VIEW_LEN as usize {
            let view = make_view(value, 0, 0);
            return find_or_add(short, view, row, &mut self.len, &mut self.fresh);
        }
        if let Some(number) = long.get(value) {
            return *number;
        }
        let number = self.len;
        long.insert(value.into(), number);
        self.value_memory += value.len();
        self.len += 1;
        self.fresh.push(row as u32);
        number
    }
}

/// Whether values of this type are numbered by what they are, not by how they are written.
fn is_numbered(data_type: &DataType) -> bool {
    Kind::of(data_type, "").is_ok()
}

/// The number of a key, the next free one if the key is new.
#[inline]
fn find_or_add<K: Copy + Eq + std::hash::Hash>(
    table: &mut HashTable<(K, u32)>,
    key: K,
    row: usize,
    len: &mut u32,
    fresh: &mut Vec<u32>,
) -> u32 {
    let entry = table.entry(
        STATE.hash_one(key),
        |(known, _)| *known == key,
        |(known, _)| STATE.hash_one(*known),
    );
    match entry {
        hashbrown::hash_table::Entry::Occupied(entry) => entry.get().1,
        hashbrown::hash_table::Entry::Vacant(entry) => {
            let number = *len;
            entry.insert((key, number));
            *len += 1;
            fresh.push(row as u32);
            number
        }
    }
}

/// Both zeros are one value; which of them came first must not show.
fn without_negative_zero(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float16 => {
            std::sync::Arc::new(values.as_primitive::<Float16Type>().unary::<_, Float16Type>(|v| {
                if v.to_f32() == 0.0 { Default::default() } else { v }
            }))
        }
        DataType::Float32 => std::sync::Arc::new(
            values.as_primitive::<Float32Type>().unary::<_, Float32Type>(|v| v + 0.0),
        ),
        DataType::Float64 => std::sync::Arc::new(
            values.as_primitive::<Float64Type>().unary::<_, Float64Type>(|v| v + 0.0),
        ),
        _ => values,
    }
}
