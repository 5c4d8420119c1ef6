//! Distinct values as numbers, instants and text.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, StringArray, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::*;
use chrono::Days;

use super::kernel_failed;
use crate::error::{Error, Result};
use crate::hierarchy::{Instant, scaled_decimal};

/// The values in code order: behind a missing one, if the column has any.
pub(super) fn with_missing(values: &ArrayRef, missing: bool, name: &str) -> Result<ArrayRef> {
    if !missing {
        return Ok(Arc::clone(values));
    }
    let nothing = new_null_array(values.data_type(), 1);
    concat(&[&nothing, values]).map_err(kernel_failed(name))
}

/// How values are written when they are published in text.
pub(super) fn write(values: &ArrayRef, name: &str) -> Result<StringArray> {
    let written = cast(values, &DataType::Utf8).map_err(|error| match values.data_type() {
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => out_of_calendar(name),
        _ => kernel_failed(name)(error),
    })?;
    let written = written.as_string::<i32>().clone();
    match local_mean_times(values, name)? {
        local if local.contains(&true) => written_in_utc(values, name, &written, &local),
        _ => Ok(written),
    }
}

/// Which instants have an offset that is not a whole number of minutes, as before standard time: RFC 3339 cannot
/// express it, and with a rounded offset the text would be another instant.
fn local_mean_times(values: &ArrayRef, name: &str) -> Result<Vec<bool>> {
    let DataType::Timestamp(_, Some(_)) = values.data_type() else { return Ok(Vec::new()) };
    let (local, utc) = (instants(values, name)?, instants(&in_utc(values, name)?, name)?);
    let odd = |(local, utc): (&Instant, &Instant)| (*local - *utc).num_seconds() % 60 != 0;
    Ok(local.iter().zip(&utc).map(odd).collect())
}

fn in_utc(values: &ArrayRef, name: &str) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, Some(_)) = values.data_type() else {
        return Ok(Arc::clone(values));
    };
    cast(values, &DataType::Timestamp(*unit, Some("UTC".into()))).map_err(kernel_failed(name))
}

/// The texts, in UTC where they are marked.
fn written_in_utc(
    values: &ArrayRef,
    name: &str,
    written: &StringArray,
    marked: &[bool],
) -> Result<StringArray> {
    let utc = cast(&in_utc(values, name)?, &DataType::Utf8).map_err(kernel_failed(name))?;
    let each = written.iter().zip(utc.as_string::<i32>()).zip(marked);
    Ok(each.map(|((local, utc), marked)| if *marked { utc } else { local }).collect())
}

/// Values as points on a line.
pub(super) fn positions(values: &ArrayRef, name: &str) -> Result<Vec<f64>> {
    let numbers = cast(&as_integers(values, name)?, &DataType::Float64);
    let numbers = numbers.map_err(kernel_failed(name))?;
    let numbers = numbers.as_primitive::<Float64Type>().values().to_vec();
    if numbers.iter().any(|number| !number.is_finite()) {
        return Err(Error::invalid(format!(
            "column '{name}' holds an infinite number, which no range can measure: replace it by \
             NULL or a finite number"
        )));
    }
    Ok(numbers)
}

/// Dates, times and timestamps as the integers behind them; everything else as it is.
pub(super) fn as_integers(values: &ArrayRef, name: &str) -> Result<ArrayRef> {
    let integers = match values.data_type() {
        DataType::Date32 | DataType::Time32(_) => cast(values, &DataType::Int32),
        DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => cast(values, &DataType::Int64),
        _ => Ok(Arc::clone(values)),
    };
    integers.map_err(kernel_failed(name))
}

/// Whole numbers, decimals (in their smallest unit) and dates (in days) without rounding.
pub(super) fn exact(values: &ArrayRef, name: &str) -> Result<Vec<i128>> {
    macro_rules! widened {
        ($type:ty) => {
            values.as_primitive::<$type>().values().iter().map(|value| i128::from(*value)).collect()
        };
    }
    use DataType as D;
    Ok(match values.data_type() {
        D::Int8 => widened!(Int8Type),
        D::Int16 => widened!(Int16Type),
        D::Int32 => widened!(Int32Type),
        D::Int64 => widened!(Int64Type),
        D::UInt8 => widened!(UInt8Type),
        D::UInt16 => widened!(UInt16Type),
        D::UInt32 => widened!(UInt32Type),
        D::UInt64 => widened!(UInt64Type),
        D::Date32 => widened!(Date32Type),
        D::Decimal32(..) => widened!(Decimal32Type),
        D::Decimal64(..) => widened!(Decimal64Type),
        D::Decimal128(..) => widened!(Decimal128Type),
        D::Date64 | D::Timestamp(..) => {
            return Err(Error::invalid(format!(
                "intervals() counts in numbers and column '{name}' holds instants: write \
                 date_steps('month', 'year')"
            )));
        }
        other => {
            return Err(Error::invalid(format!(
                "intervals() needs numbers and column '{name}' is of type {other}: use prefixes(…) \
                 or a table"
            )));
        }
    })
}

/// Dates and timestamps as calendar instants, in the time zone of their column.
pub(super) fn instants(values: &ArrayRef, name: &str) -> Result<Vec<Instant>> {
    macro_rules! instants {
        ($type:ty, $zone:expr) => {{
            let array = values.as_primitive::<$type>();
            (0..array.len())
                .map(|at| match $zone {
                    Some(zone) => {
                        array.value_as_datetime_with_tz(at, zone).map(|at| at.naive_local())
                    }
                    None => array.value_as_datetime(at),
                })
                .collect()
        }};
    }
    let none: Option<Tz> = None;
    let found: Option<Vec<Instant>> = match values.data_type() {
        DataType::Date32 => instants!(Date32Type, none),
        DataType::Date64 => instants!(Date64Type, none),
        DataType::Timestamp(unit, zone) => {
            let zone: Option<Tz> = zone.as_deref().map(str::parse).transpose().map_err(|_| {
                Error::invalid(format!("column '{name}' has a time zone that is not known"))
            })?;
            match unit {
                TimeUnit::Second => instants!(TimestampSecondType, zone),
                TimeUnit::Millisecond => instants!(TimestampMillisecondType, zone),
                TimeUnit::Microsecond => instants!(TimestampMicrosecondType, zone),
                TimeUnit::Nanosecond => instants!(TimestampNanosecondType, zone),
            }
        }
        other => {
            return Err(Error::invalid(format!(
                "date_steps() needs dates or timestamps and column '{name}' is of type {other}: use \
                 intervals(…), prefixes(…) or a table"
            )));
        }
    };
    found.ok_or_else(|| out_of_calendar(name))
}

fn out_of_calendar(name: &str) -> Error {
    Error::invalid(format!(
        "column '{name}' holds an instant outside the calendar's range: replace it by NULL"
    ))
}

/// Digits behind the point of a decimal, 0 for other types.
pub(super) fn decimal_scale(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// A step as an integer of a decimal's smallest unit, `None` if it is no such integer.
pub(super) fn scaled(step: &str, scale: i8) -> Option<i128> {
    let unscaled = scaled_decimal(step, usize::try_from(scale).unwrap_or(0))?;
    let shrink = 10i128.checked_pow(u32::from(scale.min(0).unsigned_abs()))?;
    (unscaled % shrink == 0).then(|| unscaled / shrink)
}

/// An integer of a decimal's smallest unit, written as the decimal.
pub(super) fn written_decimal(value: i128, scale: i8) -> String {
    if scale <= 0 {
        let zeros = "0".repeat(usize::from(scale.unsigned_abs()));
        return if value == 0 { value.to_string() } else { format!("{value}{zeros}") };
    }
    let places = usize::from(scale.unsigned_abs());
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{whole}.{fraction}")
}

/// A number of days since 1970, written as a date.
pub(super) fn written_date(days: i128) -> String {
    let epoch = chrono::NaiveDate::default();
    let distance = Days::new(u64::try_from(days.unsigned_abs()).unwrap_or(u64::MAX));
    let date =
        if days < 0 { epoch.checked_sub_days(distance) } else { epoch.checked_add_days(distance) };
    date.map_or_else(|| days.to_string(), |date| date.to_string())
}

#[cfg(test)]
mod tests {
    use arrow::array::TimestampSecondArray;

    use super::*;

    #[test]
    fn steps_are_read_in_the_unit_of_the_decimal() {
        assert_eq!(scaled("10", 2), Some(1000));
        assert_eq!(scaled("0.5", 2), Some(50));
        assert_eq!(scaled("0.005", 2), None);
        assert_eq!(scaled("5", 0), Some(5));
        assert_eq!(scaled("5.0", 0), Some(5));
        assert_eq!(scaled("ten", 0), None);
    }

    #[test]
    fn instants_before_standard_time_are_written_in_utc() -> Result<()> {
        // Berlin was 53 minutes and 28 seconds ahead until 1893.
        let before = -2_600_000_000;
        let zoned = TimestampSecondArray::from(vec![before, 0]).with_timezone("Europe/Berlin");
        let written = write(&(Arc::new(zoned) as ArrayRef), "seen")?;
        assert_eq!(written.value(0), "1887-08-11T09:46:40Z");
        assert_eq!(written.value(1), "1970-01-01T01:00:00+01:00");
        Ok(())
    }

    #[test]
    fn decimals_and_dates_are_written_as_their_columns_write_them() {
        assert_eq!(written_decimal(1999, 2), "19.99");
        assert_eq!(written_decimal(-5, 2), "-0.05");
        assert_eq!(written_decimal(7, 0), "7");
        assert_eq!(written_date(0), "1970-01-01");
        assert_eq!(written_date(-1), "1969-12-31");
        assert_eq!(written_date(365), "1971-01-01");
    }
}
