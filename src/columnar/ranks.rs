//! Ranks of values that are first shown in ascending order.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::intern::Interner;
use crate::error::Result;

/// Turns values of one column into ranks. The missing value has rank 0, also in a column without
/// one; the others are numbered from 1 as they first appear.
#[derive(Debug)]
pub struct Ranks {
    interner: Interner,
}

impl Ranks {
    /// Ranks of a column of which nothing was seen yet.
    pub fn new(column: &str, data_type: &DataType) -> Self {
        Self { interner: Interner::new(column, data_type) }
    }

    /// The rank of every value.
    pub fn of(&mut self, values: &ArrayRef) -> Result<Vec<u32>> {
        let mut ranks = Vec::with_capacity(values.len());
        self.interner.intern(values, &mut ranks)?;
        Ok(ranks)
    }

    /// The value of every rank from 1 up.
    pub fn values(&self) -> Result<ArrayRef> {
        self.interner.values()
    }

    /// Bytes held, roughly.
    pub fn memory(&self) -> usize {
        self.interner.memory()
    }
}
