//! How much a call may return, at most or nearly so.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use datafusion::arrow::compute::{cast, kernels::length::length};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;

/// Bytes that a row takes beside its values.
const PER_ROW: usize = 32;

/// An upper bound of the bytes that a function returns for these arguments, constants repeated for every row.
pub fn output(function: &str, arguments: &[ColumnarValue], rows: usize) -> Result<usize> {
    let inputs = arguments.iter().map(|argument| size(argument, rows));
    let inputs = inputs.sum::<usize>().saturating_add(rows * PER_ROW);
    Ok(match (function, arguments) {
        ("replace", [text, from, to]) => replaced([text, from, to], rows)?,
        ("regexp_replace", [text, _, to, ..]) => replaced_by_pattern([text, to], rows)?,
        ("array_to_string", [list, separators @ ..]) => {
            let widest = widest_of(separators)?;
            inputs.saturating_mul(4).saturating_add(elements(list, rows).saturating_mul(widest))
        }
        ("array_replace" | "array_replace_n" | "array_replace_all", [list, _, to, ..]) => {
            let widest = width(&to.to_array(1)?)?;
            inputs.saturating_add(elements(list, rows).saturating_mul(widest))
        }
        ("concat_ws", [separator, others @ ..]) => {
            inputs.saturating_add(size(separator, rows).saturating_mul(others.len()))
        }
        // A character becomes a value of its own, or a date in words.
        ("string_to_array" | "regexp_match" | "regexp_matches" | "to_char" | "date_format", _) => {
            inputs.saturating_mul(24)
        }
        ("upper" | "lower" | "initcap" | "translate" | "encode", _) => inputs.saturating_mul(4),
        _ => inputs.saturating_mul(2),
    })
}

/// Bytes of an argument if it had a value for every row.
fn size(argument: &ColumnarValue, rows: usize) -> usize {
    match argument {
        ColumnarValue::Array(array) => slice_size(array),
        ColumnarValue::Scalar(value) => value.size().saturating_mul(rows),
    }
}

/// Bytes of the rows of an array, not of the larger one that it may be a part of.
fn slice_size(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

fn replaced([text, from, to]: [&ColumnarValue; 3], rows: usize) -> Result<usize> {
    let [text, from, to] = [lengths(text, rows)?, lengths(from, rows)?, lengths(to, rows)?];
    let row = |row: usize| {
        let places = text[row] / from[row].max(1) + 1;
        text[row].saturating_add(places.saturating_mul(to[row]))
    };
    Ok((0..rows).map(row).fold(rows * PER_ROW, usize::saturating_add))
}

/// A pattern may match between any two bytes, and a replacement may repeat what it matched every two bytes.
fn replaced_by_pattern([text, to]: [&ColumnarValue; 2], rows: usize) -> Result<usize> {
    let [text, to] = [lengths(text, rows)?, lengths(to, rows)?];
    let row = |row: usize| {
        text[row].saturating_add((text[row] + 1).saturating_mul(to[row] + to[row] / 2 + 1))
    };
    Ok((0..rows).map(row).fold(rows * PER_ROW, usize::saturating_add))
}

/// The length of every text, in bytes.
fn lengths(argument: &ColumnarValue, rows: usize) -> Result<Vec<usize>> {
    let of = |array: &ArrayRef| -> Result<Vec<usize>> {
        if array.data_type().is_null() {
            return Ok(vec![0; array.len()]);
        }
        let lengths = cast(&length(array)?, &DataType::Int64)?;
        let lengths = lengths.as_primitive::<Int64Type>();
        Ok(lengths.iter().map(|length| length.unwrap_or(0).unsigned_abs() as usize).collect())
    };
    match argument {
        ColumnarValue::Array(array) => of(array),
        ColumnarValue::Scalar(value) => {
            let length = of(&value.to_array()?)?.first().copied().unwrap_or(0);
            Ok(vec![length; rows])
        }
    }
}

/// Values in all lists, and in the lists within them.
fn elements(argument: &ColumnarValue, rows: usize) -> usize {
    match argument {
        ColumnarValue::Array(array) => leaves(array),
        ColumnarValue::Scalar(value) => {
            value.to_array().map_or(usize::MAX, |one| leaves(&one).saturating_mul(rows))
        }
    }
}

/// Values in all lists of an array, and in the lists within them.
pub fn leaves(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::List(_) => leaves_of::<i32>(array),
        DataType::LargeList(_) => leaves_of::<i64>(array),
        DataType::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            leaves(&list.slice(0, list.len()).values().clone()).max(list.len())
        }
        _ => array.len(),
    }
}

fn leaves_of<O: OffsetSizeTrait>(array: &ArrayRef) -> usize {
    let list = array.as_list::<O>();
    let (first, last) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
    leaves(&list.values().slice(first.as_usize(), (last - first).as_usize()))
}

fn widest_of(arguments: &[ColumnarValue]) -> Result<usize> {
    sum_of(arguments.iter().map(|argument| match argument {
        ColumnarValue::Array(array) => width(array),
        ColumnarValue::Scalar(value) => width(&value.to_array()?),
    }))
}

/// The size of the largest value of an array.
pub fn width(array: &ArrayRef) -> Result<usize> {
    let longest = |array: &ArrayRef| -> Result<usize> {
        let lengths = lengths(&ColumnarValue::Array(array.clone()), array.len())?;
        Ok(lengths.into_iter().max().unwrap_or(0))
    };
    Ok(match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => longest(array)?,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => longest(array)?,
        DataType::FixedSizeBinary(size) => size.unsigned_abs() as usize,
        DataType::List(_) => {
            longest(array)?.saturating_mul(width(array.as_list::<i32>().values())?.max(16))
        }
        DataType::LargeList(_) => {
            longest(array)?.saturating_mul(width(array.as_list::<i64>().values())?.max(16))
        }
        DataType::FixedSizeList(_, size) => {
            let values = array.as_fixed_size_list().values();
            (size.unsigned_abs() as usize).saturating_mul(width(values)?.max(16))
        }
        DataType::Map(..) => {
            let entries: ArrayRef = Arc::new(array.as_map().entries().clone());
            longest(array)?.saturating_mul(width(&entries)?.max(16))
        }
        DataType::Struct(_) => sum_of(array.as_struct().columns().iter().map(width))?,
        DataType::Dictionary(..) => match array.as_any_dictionary_opt() {
            Some(dictionary) => width(dictionary.values())?,
            None => array.get_array_memory_size(),
        },
        other => other.primitive_width().unwrap_or(16),
    })
}

/// The size of all values of an array, or nearly so: exact for text, the largest value for each of all others.
pub fn total(array: &ArrayRef) -> Result<usize> {
    Ok(match array.data_type() {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => {
            let lengths = lengths(&ColumnarValue::Array(Arc::clone(array)), array.len())?;
            lengths.into_iter().fold(0, usize::saturating_add)
        }
        DataType::Struct(_) => sum_of(array.as_struct().columns().iter().map(total))?,
        DataType::Dictionary(..) => match array.as_any_dictionary_opt() {
            // Every row has a key; a value that many rows have is there once.
            Some(dictionary) => {
                let unpacked = width(dictionary.values())?.saturating_mul(array.len());
                unpacked.min(total(dictionary.values())?.saturating_add(array.len() * 8))
            }
            None => array.get_array_memory_size(),
        },
        _ => width(array)?.saturating_mul(array.len()),
    })
}

/// The sum of sizes.
pub fn sum_of(mut sizes: impl Iterator<Item = Result<usize>>) -> Result<usize> {
    sizes.try_fold(0usize, |sum, size| Ok(sum.saturating_add(size?)))
}
