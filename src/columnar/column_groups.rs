//! Which columns of a sliced class belong together.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray};
use arrow::datatypes::{DataType, Int32Type};

/// Which columns of a class were permuted together, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnGroups {
    /// By class, a number into the labels.
    pub of_class: Vec<u32>,
    /// Every way to group them, once.
    pub labels: Vec<String>,
}

impl ColumnGroups {
    /// The type of the published column.
    pub fn data_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }

    /// Bytes of the labels and of the numbers into them.
    pub fn bytes(&self) -> usize {
        let labels = self.labels.iter().map(|label| size_of::<String>() + label.capacity());
        labels.sum::<usize>() + size_of_val(&self.of_class[..])
    }

    /// The labels of some classes.
    pub(super) fn publish(&self, classes: Range<usize>) -> ArrayRef {
        let labels =
            self.of_class[classes].iter().map(|label| self.labels[*label as usize].as_str());
        Arc::new(labels.collect::<DictionaryArray<Int32Type>>())
    }
}
