//! Published strings as numbers, as long as few of them are different.
//!
//! A string column of a census has a handful of values, and a column of names has as many as there are rows. The
//! former are held as one or two bytes per row, which stay in the cache when rows are gathered in the order
//! of a release; the latter as they came.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, FieldRef};

use super::coded::Numbers;
use super::domain::{Remap, plain_codes};
use super::intern::Interner;
use super::kernel_failed;
use super::read::Layout;
use super::values::with_missing;
use crate::error::{Error, Result};

/// The values of one published column in one chunk.
#[derive(Debug)]
pub struct PayloadArray(pub(super) Form);

impl PayloadArray {
    /// Values as they came.
    pub fn plain(array: ArrayRef) -> Self {
        Self(Form::Plain(array))
    }

    /// Bytes of the numbers, 0 of values as they came: these share buffers with others.
    pub fn number_bytes(&self) -> usize {
        match &self.0 {
            Form::Plain(_) => 0,
            Form::Coded(numbers) => numbers.bytes(),
        }
    }
}

#[derive(Debug)]
pub(super) enum Form {
    Plain(ArrayRef),
    /// Numbers of the reader's own values.
    Coded(Numbers),
}

/// The numbered values of the published columns of one reader.
#[derive(Debug)]
pub struct PayloadCoders(Vec<Option<Coder>>);

#[derive(Debug)]
struct Coder {
    data_type: DataType,
    interner: Interner,
    rows: usize,
    /// Whether there are too many different values.
    stopped: bool,
    /// The values by number, as far as there were any when they were last asked for.
    by_number: Option<ArrayRef>,
}

/// With more values a number takes more than two bytes, and a table of them leaves the cache.
const MOST_VALUES: u32 = 1 << 16;

/// After so many rows it shows whether values come back.
const ENOUGH_ROWS: usize = 1 << 16;

impl PayloadCoders {
    /// Coders for the payload of a layout.
    pub fn new(layout: &Layout) -> Self {
        let coder = |field: &FieldRef| {
            let coder = || Coder {
                data_type: field.data_type().clone(),
                interner: Interner::new(field.name(), field.data_type()),
                rows: 0,
                stopped: false,
                by_number: None,
            };
            is_text(field.data_type()).then(coder)
        };
        Self(layout.waiting_payload().fields().iter().map(coder).collect())
    }

    /// Coders for no column.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// The next values of a column; `None` where they are kept as they came.
    pub fn encode(&mut self, column: usize, array: &ArrayRef) -> Result<Option<PayloadArray>> {
        let Some(coder) = self.0[column].as_mut().filter(|coder| !coder.stopped) else {
            return Ok(None);
        };
        let mut numbers = Vec::with_capacity(array.len());
        coder.interner.intern(array, &mut numbers)?;
        coder.rows += array.len();
        let values = coder.interner.len();
        let enough = coder.rows >= ENOUGH_ROWS;
        coder.stopped = values > MOST_VALUES || enough && values as usize > coder.rows / 4;
        Ok(Some(PayloadArray(Form::Coded(Numbers::pack(numbers, values)))))
    }

    /// Bytes of the numbered values.
    pub fn memory(&self) -> usize {
        self.0.iter().flatten().map(|coder| coder.interner.memory()).sum()
    }

    /// Forgets all values and stops numbering, once no chunk holds numbers any more.
    pub fn clear(&mut self) {
        for coder in self.0.iter_mut().flatten() {
            coder.interner = Interner::new("sensitive or kept", &coder.data_type);
            (coder.stopped, coder.by_number) = (true, None);
        }
    }

    /// The values of all columns of a chunk as they came.
    pub fn decode(&mut self, chunk: Vec<PayloadArray>) -> Result<Vec<ArrayRef>> {
        let plain = |(column, array): (usize, PayloadArray)| match array.0 {
            Form::Plain(array) => Ok(array),
            Form::Coded(numbers) => {
                let values = self.by_number(column)?;
                let mut all = Vec::new();
                numbers.for_each(|_, number| all.push(number));
                take(&values, &UInt32Array::from(all), None)
                    .map_err(kernel_failed("sensitive or kept"))
            }
        };
        chunk.into_iter().enumerate().map(plain).collect()
    }

    fn by_number(&mut self, column: usize) -> Result<ArrayRef> {
        let Some(coder) = &mut self.0[column] else {
            return Err(Error::bug("a column has no values"));
        };
        let values = coder.interner.len() as usize;
        if let Some(known) = coder.by_number.as_ref().filter(|known| known.len() == values) {
            return Ok(Arc::clone(known));
        }
        let all = typed_with_missing(&coder.interner.values()?, &coder.data_type)?;
        coder.by_number = Some(Arc::clone(&all));
        Ok(all)
    }
}

/// The missing value, then the others, in the type of their column.
fn typed_with_missing(values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let all = with_missing(values, true, "sensitive or kept")?;
    cast(&all, data_type).map_err(kernel_failed("sensitive or kept"))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        // Narrower keys could not number the values of all batches together.
        DataType::Dictionary(key, values) => {
            use DataType::{Int32, Int64, UInt32, UInt64};
            matches!(**key, Int32 | Int64 | UInt32 | UInt64) && is_text(values)
        }
        _ => false,
    }
}

/// The values of one column over all readers, in ascending order, the missing one first.
#[derive(Debug)]
pub(super) struct RankedValues {
    /// By rank, in the type of the column.
    pub(super) values: ArrayRef,
    /// Per reader, the rank of each of its numbers.
    pub(super) ranks: Vec<Remap>,
}

impl RankedValues {
    /// `None` for columns without numbers.
    pub(super) fn new(coders: &[PayloadCoders], column: usize) -> Result<Option<Self>> {
        let of_column = coders.iter().map(|coders| coders.0[column].as_ref());
        let of_column: Option<Vec<&Coder>> = of_column.collect();
        let of_column = of_column.unwrap_or_default();
        let Some(first) = of_column.first() else { return Ok(None) };
        let interners: Vec<&Interner> = of_column.iter().map(|coder| &coder.interner).collect();
        let (values, mut ranks) = plain_codes("sensitive or kept", &interners)?;
        // Codes start at 1 only where a value is missing; ranks always do.
        let shift = u32::from(!values.missing);
        for rank in ranks.iter_mut().flat_map(|ranks| ranks.iter_mut().skip(1)) {
            *rank += shift;
        }
        Ok(Some(Self { values: typed_with_missing(&values.values, &first.data_type)?, ranks }))
    }
}
