//! One keyed hash per row over some columns of a batch.

use std::hash::Hasher;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::kernel_failed;
use crate::error::Result;
use crate::model::Seed;

/// Hashes the values of some columns, row by row, under the secret seed.
#[derive(Debug)]
pub(super) struct RowHasher {
    columns: Vec<usize>,
    converter: RowConverter,
    seed: Seed,
}

impl RowHasher {
    /// `None` without columns: there is nothing to hash.
    pub(super) fn new(columns: &[usize], types: &[DataType], seed: Seed) -> Result<Option<Self>> {
        if columns.is_empty() {
            return Ok(None);
        }
        let field = |column: &usize| SortField::new(comparable_type(&types[*column]));
        let fields = columns.iter().map(field).collect();
        let converter = RowConverter::new(fields).map_err(kernel_failed("sensitive or kept"))?;
        Ok(Some(Self { columns: columns.to_vec(), converter, seed }))
    }

    pub(super) fn hash(&self, columns: &[ArrayRef], hashes: &mut Vec<u64>) -> Result<()> {
        let arrays: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|column| comparable(&columns[*column]))
            .collect::<Result<_>>()?;
        let rows =
            self.converter.convert_columns(&arrays).map_err(kernel_failed("sensitive or kept"))?;
        hashes.extend(rows.iter().map(|row| {
            let mut hasher = self.seed.hasher();
            hasher.write(row.as_ref());
            hasher.finish()
        }));
        Ok(())
    }
}

/// The type in which values of a column can be ordered and hashed.
fn comparable_type(data_type: &DataType) -> DataType {
    if is_comparable(data_type) { data_type.clone() } else { DataType::Utf8 }
}

fn is_comparable(data_type: &DataType) -> bool {
    RowConverter::supports_fields(&[SortField::new(data_type.clone())])
        && !matches!(data_type, DataType::Map(..) | DataType::Union(..))
}

/// The column itself, or its written form where Arrow has no order for its type.
pub(super) fn comparable(array: &ArrayRef) -> Result<ArrayRef> {
    if is_comparable(array.data_type()) { Ok(Arc::clone(array)) } else { written(array) }
}

/// A column as text, for types that have neither an order nor a numbering.
pub(super) fn written(array: &ArrayRef) -> Result<ArrayRef> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options)
        .map_err(kernel_failed("sensitive or kept"))?;
    let text =
        (0..array.len()).map(|row| (!array.is_null(row)).then(|| formatter.value(row).to_string()));
    Ok(Arc::new(text.collect::<StringArray>()))
}
