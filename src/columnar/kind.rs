//! What a column's Arrow type means for anonymization.

use arrow::datatypes::DataType;

use crate::error::{Error, Result};

/// The sorts of quasi-identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers and decimals: exact, ordered, `[low-high]`.
    Integer,
    /// Floating-point numbers: ordered, `[low-high]`.
    Float,
    /// Dates and timestamps: ordered, `[low-high]`, calendar steps.
    Instant,
    /// Times of day and durations: ordered, `[low-high]`.
    Span,
    /// `true` and `false`; both together are everything.
    Boolean,
    /// Strings: hierarchy nodes or sets.
    Text,
}

impl Kind {
    /// The kind of a quasi-identifier's type; dictionaries count as their values.
    pub fn of(data_type: &DataType, column: &str) -> Result<Self> {
        match data_type {
            DataType::Dictionary(_, values) => Self::of(values, column),
            DataType::RunEndEncoded(_, values) => Self::of(values.data_type(), column),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
                Ok(Self::Text)
            }
            DataType::Boolean => Ok(Self::Boolean),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Ok(Self::Float),
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Ok(Self::Instant),
            DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => Ok(Self::Span),
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => {
                Ok(Self::Integer)
            }
            integer if integer.is_integer() => Ok(Self::Integer),
            other => Err(Error::invalid(format!(
                "column '{column}' of type {other} cannot be a quasi-identifier: cast it to a \
                 number, a date, a timestamp or a string, or give it another role"
            ))),
        }
    }

    /// Whether values generalize to a stretch from the smallest to the largest.
    pub fn has_ranges(self) -> bool {
        !matches!(self, Self::Boolean | Self::Text)
    }
}

/// The type in which a column's distinct values are kept: encodings removed, strings as `Utf8`.
pub(super) fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => DataType::Utf8,
        other => other.clone(),
    }
}
