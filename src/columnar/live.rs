//! Arrays that hold their values and nothing else.
//!
//! An Arrow array may carry more than it shows: views point into the buffers of the input, whole
//! strings of which a prefix is published among them, in input order; dictionaries hold values that no
//! row uses; and under a NULL there is whatever was computed there. Consumers of batches, and formats
//! that write buffers as they are, would publish all of it.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, GenericByteViewArray, PrimitiveArray,
    RecordBatch, RecordBatchOptions, UInt32Array, downcast_dictionary_array, make_array,
};
use arrow::buffer::{MutableBuffer, NullBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, BinaryViewType, ByteViewType, DataType, StringViewType,
};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};

use super::kernel_failed;
use crate::error::Result;

/// The same values in buffers of their own.
pub(super) fn live_values(array: &ArrayRef) -> Result<ArrayRef> {
    rebuilt(array).map_err(kernel_failed("sensitive or kept"))
}

/// The same rows in buffers that hold nothing else. Operators that drop rows of a batch (a filter, a limit, a join)
/// keep its dictionaries, the buffers behind its views and, where they slice, all of its values.
pub(crate) fn live_batch(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let rows = UInt32Array::from_iter_values(0..batch.num_rows() as u32);
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let live = take(column, &rows, None).and_then(|copied| rebuilt(&copied));
        live.map_err(kernel_failed(field.name()))
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let live = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options);
    live.map_err(kernel_failed("published"))
}

fn rebuilt(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Utf8View => Ok(rebuilt_views::<StringViewType>(array)),
        DataType::BinaryView => Ok(rebuilt_views::<BinaryViewType>(array)),
        DataType::Dictionary(..) => {
            let used = renumbered(array)?;
            let dictionary = used.as_any_dictionary();
            Ok(dictionary.with_values(rebuilt(dictionary.values())?))
        }
        nested if nested.is_nested() => rebuilt_by_rows(array),
        _ => Ok(match array.nulls() {
            Some(nulls) if nulls.null_count() > 0 => without_hidden(array, nulls)?,
            _ => Arc::clone(array),
        }),
    }
}

/// The same dictionary with the values that rows use, in the order in which rows use them first: the order
/// they had could be that of the input.
fn renumbered(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    downcast_dictionary_array!(
        array => renumbered_keys(array),
        _ => Ok(Arc::clone(array))
    )
}

fn renumbered_keys<K: ArrowDictionaryKeyType>(
    array: &DictionaryArray<K>,
) -> Result<ArrayRef, ArrowError> {
    let mut places = vec![u32::MAX; array.values().len()];
    let mut used: Vec<u32> = Vec::new();
    let mut renumber = |key: K::Native| {
        let place = &mut places[key.as_usize()];
        if *place == u32::MAX {
            *place = used.len() as u32;
            used.push(key.as_usize() as u32);
        }
        K::Native::usize_as(*place as usize)
    };
    let keys = array.keys().iter().map(|key| key.map(&mut renumber));
    let keys: PrimitiveArray<K> = keys.collect();
    let values = take(array.values(), &UInt32Array::from(used), None)?;
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}

fn rebuilt_views<T: ByteViewType>(array: &ArrayRef) -> ArrayRef {
    let views = array.as_byte_view::<T>();
    if views.null_count() > 0 {
        return Arc::new(views.iter().collect::<GenericByteViewArray<T>>());
    }
    // Short strings live in the views themselves.
    if views.data_buffers().is_empty() { Arc::clone(array) } else { Arc::new(views.gc()) }
}

/// Lists, structs and maps, through the row format, which holds nothing but values.
fn rebuilt_by_rows(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let field = SortField::new(array.data_type().clone());
    if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
        return Ok(Arc::clone(array));
    }
    let converter = RowConverter::new(vec![field])?;
    let rows = converter.convert_columns(std::slice::from_ref(array))?;
    let mut columns = converter.convert_rows(&rows)?;
    match columns.pop() {
        // Dictionaries inside come back as their values and are made anew.
        Some(rebuilt) if rebuilt.data_type() != array.data_type() => {
            cast(&rebuilt, array.data_type())
        }
        rebuilt => Ok(rebuilt.unwrap_or_else(|| Arc::clone(array))),
    }
}

/// Zeros under the NULLs of fixed-width values. Offsets give a NULL string no bytes to begin with.
fn without_hidden(array: &ArrayRef, nulls: &NullBuffer) -> Result<ArrayRef, ArrowError> {
    if let Some(booleans) = array.as_boolean_opt() {
        let values = booleans.values() & nulls.inner();
        return Ok(Arc::new(BooleanArray::new(values, Some(nulls.clone()))));
    }
    let width = match array.data_type() {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    };
    let (Some(width), data) = (width, array.to_data()) else { return Ok(Arc::clone(array)) };
    let start = data.offset() * width;
    let mut values = MutableBuffer::with_capacity(array.len() * width);
    values.extend_from_slice(&data.buffers()[0].as_slice()[start..start + array.len() * width]);
    for row in (0..array.len()).filter(|row| nulls.is_null(*row)) {
        values.as_slice_mut()[row * width..(row + 1) * width].fill(0);
    }
    let rebuilt =
        data.into_builder().offset(0).buffers(vec![values.into()]).nulls(Some(nulls.clone()));
    Ok(make_array(rebuilt.build()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, ListArray, StringArray, StringViewArray, StructArray};
    use arrow::datatypes::{Field, Int64Type};

    fn bytes(array: &ArrayRef) -> Vec<u8> {
        fn of(data: &arrow::array::ArrayData, all: &mut Vec<u8>) {
            data.buffers().iter().for_each(|buffer| all.extend_from_slice(buffer.as_slice()));
            data.child_data().iter().for_each(|child| of(child, all));
        }
        let mut all = Vec::new();
        of(&array.to_data(), &mut all);
        all
    }

    fn holds(array: &ArrayRef, text: &[u8]) -> bool {
        bytes(array).windows(text.len()).any(|window| window == text)
    }

    fn shows_no_secret(array: &ArrayRef) -> Result<()> {
        let live = live_values(array)?;
        assert_eq!(&live, array);
        assert!(!holds(&live, b"SECRET") && !holds(&live, b"TERCES"));
        Ok(())
    }

    #[test]
    fn strings_that_are_not_shown_are_gone() -> Result<()> {
        let all =
            StringViewArray::from(vec!["a long published string", "a long hidden SECRET string"]);
        let all: ArrayRef = Arc::new(all);
        let shown =
            take(&all, &UInt32Array::from(vec![0, 0]), None).map_err(kernel_failed("test"))?;
        assert!(holds(&shown, b"SECRET"));
        let live = live_values(&shown)?;
        assert!(!holds(&live, b"SECRET"));
        assert_eq!(&live, &shown);
        Ok(())
    }

    #[test]
    fn values_under_nulls_are_gone() -> Result<()> {
        let hidden = NullBuffer::from(vec![false, true]);
        let numbers = Int64Array::new(vec![0x5345_4352_4554, 7].into(), Some(hidden.clone()));
        let views = StringViewArray::from(vec!["SECRET", "short"]);
        let views = StringViewArray::new(views.views().clone(), vec![], Some(hidden));
        let arrays: [ArrayRef; 2] = [Arc::new(numbers), Arc::new(views)];
        arrays.iter().try_for_each(shows_no_secret)
    }

    #[test]
    fn unused_dictionary_values_and_list_items_are_gone() -> Result<()> {
        let keys = arrow::array::Int32Array::from(vec![0, 0]);
        let values: ArrayRef = Arc::new(StringArray::from(vec!["shown", "SECRET"]));
        let dictionary =
            arrow::array::DictionaryArray::try_new(keys, values).map_err(kernel_failed("test"))?;
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(0x5345_4352_4554)]),
            Some(vec![Some(7)]),
        ]);
        let arrays: [ArrayRef; 2] = [Arc::new(dictionary), Arc::new(list.slice(1, 1))];
        arrays.iter().try_for_each(shows_no_secret)
    }

    #[test]
    fn dictionaries_come_in_the_order_of_the_rows_also_inside_structs() -> Result<()> {
        let keys = arrow::array::Int32Array::from(vec![2, 0, 2]);
        let values: ArrayRef = Arc::new(StringArray::from(vec!["b", "SECRET", "a"]));
        let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, values));
        let live = live_values(&dictionary)?;
        assert_eq!(&live, &dictionary);
        let expected: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        assert_eq!(live.as_any_dictionary().values(), &expected);
        let field = Arc::new(Field::new("d", dictionary.data_type().clone(), true));
        let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, dictionary)]));
        let live = live_values(&nested)?;
        assert_eq!(&live, &nested);
        assert!(holds(&nested, b"SECRET") && !holds(&live, b"SECRET"));
        Ok(())
    }
}
