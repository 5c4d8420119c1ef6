//! Small tables of different schemas, serialized as rows of one schema so that they can pass an exchange.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, LargeBinaryArray, RecordBatch, UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type, UInt64Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;

use super::kernel_failed;
use crate::error::{Error, Result};

/// A small table and what it is.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// Equal for pages of one partition of the input and of no other. Not its number: an engine may number the
    /// partitions of every task anew.
    pub(crate) partition: u64,
    /// What the table holds: a constant of the module that writes it.
    pub(crate) kind: u32,
    /// Which column of the input it is about, 0 if it is about none.
    pub(crate) column: u32,
    pub(crate) table: RecordBatch,
}

impl Page {
    /// A table of unnamed columns.
    pub(crate) fn new(kind: u32, column: usize, columns: Vec<ArrayRef>) -> Result<Self> {
        let field = |(at, array): (usize, &ArrayRef)| {
            Field::new(at.to_string(), array.data_type().clone(), true)
        };
        let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
        let table = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(kernel_failed("any"))?;
        Ok(Self { partition: 0, kind, column: column as u32, table })
    }

    /// A column of the table.
    pub(crate) fn array(&self, at: usize) -> Result<&ArrayRef> {
        self.table.columns().get(at).ok_or_else(|| Error::bug("a page misses a column"))
    }

    /// A column of numbers.
    pub(crate) fn numbers<T: arrow::datatypes::ArrowPrimitiveType>(
        &self,
        at: usize,
    ) -> Result<&[T::Native]> {
        let numbers = self.array(at)?.as_primitive_opt::<T>();
        let numbers = numbers.filter(|numbers| numbers.null_count() == 0);
        numbers
            .map(|numbers| &numbers.values()[..])
            .ok_or_else(|| Error::bug("a page has no numbers"))
    }
}

/// The schema of serialized pages.
pub(crate) fn page_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("partition", DataType::UInt64, false),
        Field::new("kind", DataType::UInt32, false),
        Field::new("column", DataType::UInt32, false),
        Field::new("table", DataType::LargeBinary, false),
    ]))
}

/// Serializes pages as rows.
pub(crate) fn pages_to_batch(pages: &[Page]) -> Result<RecordBatch> {
    let numbers = |of: fn(&Page) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(pages.iter().map(of)))
    };
    let partitions = UInt64Array::from_iter_values(pages.iter().map(|page| page.partition));
    let (partitions, kinds) = (Arc::new(partitions), numbers(|page| page.kind));
    let tables = pages.iter().map(|page| to_bytes(&page.table)).collect::<Result<Vec<_>>>()?;
    let tables = LargeBinaryArray::from_iter_values(tables);
    let columns = numbers(|page| page.column);
    let arrays: Vec<ArrayRef> = vec![partitions, kinds, columns, Arc::new(tables)];
    RecordBatch::try_new(page_schema(), arrays).map_err(kernel_failed("any"))
}

/// Reads pages back from rows.
pub(crate) fn pages_of_batch(batch: &RecordBatch) -> Result<Vec<Page>> {
    let foreign = || Error::bug("rows that should be pages are none");
    let [partitions, kinds, columns, tables] = batch.columns() else { return Err(foreign()) };
    let numbers = |array: &ArrayRef| {
        let numbers = array.as_primitive_opt::<UInt32Type>();
        numbers.map(|numbers| numbers.values().clone()).ok_or_else(foreign)
    };
    let (kinds, columns) = (numbers(kinds)?, numbers(columns)?);
    let partitions = partitions.as_primitive_opt::<UInt64Type>().ok_or_else(foreign)?.values();
    let tables = tables.as_binary_opt::<i64>().ok_or_else(foreign)?;
    let page = |at: usize| {
        let table = of_bytes(tables.value(at))?;
        Ok(Page { partition: partitions[at], kind: kinds[at], column: columns[at], table })
    };
    (0..batch.num_rows()).map(page).collect()
}

/// Marks pages as belonging to one partition of the input.
pub(crate) fn mark(pages: &mut [Page]) -> Result<()> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|_| {
        Error::bug("the operating system gave no randomness to tell partitions apart")
    })?;
    for page in pages {
        page.partition = u64::from_le_bytes(bytes);
    }
    Ok(())
}

/// Groups pages by the partition they were marked with.
pub(crate) fn by_partition(pages: Vec<Page>) -> Vec<Vec<Page>> {
    let mut partitions: BTreeMap<u64, Vec<Page>> = BTreeMap::new();
    for page in pages {
        partitions.entry(page.partition).or_default().push(page);
    }
    partitions.into_values().collect()
}

/// The error of pages that do not fit together.
pub(super) fn mismatched() -> Error {
    Error::bug("notes about another table came along")
}

/// The first page of a kind.
pub(super) fn page(pages: &[Page], kind: u32) -> Result<&Page> {
    pages.iter().find(|page| page.kind == kind).ok_or_else(mismatched)
}

/// Serializes a table in Arrow's IPC format.
pub(crate) fn to_bytes(table: &RecordBatch) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let failed = kernel_failed("any");
    let mut writer = StreamWriter::try_new(&mut bytes, &table.schema()).map_err(&failed)?;
    writer.write(table).map_err(&failed)?;
    writer.finish().map_err(&failed)?;
    drop(writer);
    Ok(bytes)
}

/// Reads a table back from its bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> Result<RecordBatch> {
    let failed = kernel_failed("any");
    let mut reader = StreamReader::try_new(bytes, None).map_err(&failed)?;
    let table = reader.next().ok_or_else(|| Error::bug("a page is empty"))?;
    table.map_err(&failed)
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn pages_survive_an_exchange() -> Result<()> {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![None, Some("a")]));
        let counts: ArrayRef = Arc::new(UInt64Array::from(vec![7, 8]));
        let pages = [Page::new(1, 5, vec![texts])?, Page::new(2, 0, vec![counts])?];
        let back = pages_of_batch(&pages_to_batch(&pages)?)?;
        assert_eq!((back[0].kind, back[0].column), (1, 5));
        assert!(back[0].array(0)?.is_null(0));
        assert_eq!(back[1].numbers::<UInt64Type>(0)?, [7, 8]);
        assert!(back[0].numbers::<UInt64Type>(0).is_err());
        assert!(back[1].array(1).is_err());
        Ok(())
    }

    #[test]
    fn an_empty_table_is_a_page_too() -> Result<()> {
        let page = Page::new(3, 1, vec![arrow::array::new_empty_array(&DataType::Int8)])?;
        let back = pages_of_batch(&pages_to_batch(&[page])?)?;
        assert_eq!(back[0].table.num_rows(), 0);
        assert!(of_bytes(b"nonsense").is_err());
        Ok(())
    }
}
