//! `to_char` with Postgres' patterns.
//!
//! The engine's own function of that name takes other patterns (`%Y-%m-%d`) and answers Postgres' ones with themselves.
//! It is still there as `date_format`.

mod field;
mod pattern;

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, FixedOffset};
use datafusion::arrow::array::temporal_conversions::as_datetime_with_timezone;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use self::pattern::Pattern;

/// The function.
pub fn to_char() -> ScalarUDF {
    ScalarUDF::new_from_impl(ToChar { signature: Signature::user_defined(Volatility::Stable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToChar {
    signature: Signature,
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        "to_char"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [time, _] = given else {
            return plan_err!("to_char takes a date or timestamp and a pattern");
        };
        let time = match time {
            DataType::Date32 | DataType::Date64 | DataType::Null => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            DataType::Timestamp(_, zone) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            other => {
                return plan_err!(
                    "to_char takes a date or timestamp here and not {other}: cast it, or use round and || for numbers"
                );
            }
        };
        Ok(vec![time, DataType::Utf8])
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let [times, patterns] = args.args.as_slice() else {
            return plan_err!("to_char takes a date or timestamp and a pattern");
        };
        let texts = match patterns {
            ColumnarValue::Scalar(pattern) => {
                let pattern = pattern.try_as_str().flatten().map(parse).transpose()?;
                format(&times.to_array(rows)?, |_| pattern.as_ref())?
            }
            ColumnarValue::Array(patterns) => {
                let patterns = cast(patterns, &DataType::Utf8)?;
                let patterns = patterns.as_string::<i32>();
                let mut known = HashMap::new();
                for pattern in patterns.iter().flatten() {
                    if !known.contains_key(pattern) {
                        known.insert(pattern, parse(pattern)?);
                    }
                }
                let of = |row| patterns.is_valid(row).then(|| patterns.value(row));
                format(&times.to_array(rows)?, |row| of(row).and_then(|of| known.get(of)))?
            }
        };
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?));
        }
        Ok(ColumnarValue::Array(texts))
    }
}

fn parse(pattern: &str) -> Result<Pattern> {
    Pattern::parse(pattern).map_err(|wrong| exec_datafusion_err!("{wrong}"))
}

/// All times, each by its pattern.
fn format<'a>(
    times: &ArrayRef,
    pattern: impl Fn(usize) -> Option<&'a Pattern>,
) -> Result<ArrayRef> {
    let zone = match times.data_type() {
        DataType::Timestamp(_, Some(zone)) => zone.as_ref(),
        _ => "+00:00",
    };
    let zone: Tz = zone.parse()?;
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let (mut texts, mut text) = (StringBuilder::new(), String::new());
    for row in 0..times.len() {
        let (Some(pattern), true) = (pattern(row), times.is_valid(row)) else {
            texts.append_null();
            continue;
        };
        let time = as_datetime_with_timezone::<TimestampMicrosecondType>(times.value(row), zone);
        let time: DateTime<FixedOffset> = time
            .map(|time| time.fixed_offset())
            .ok_or_else(|| exec_datafusion_err!("a timestamp is out of the range of to_char"))?;
        text.clear();
        pattern
            .write(&time, &mut text)
            .map_err(|_| exec_datafusion_err!("a timestamp cannot be written by to_char"))?;
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}
