//! `to_char` with Postgres' patterns.
//!
//! The engine's own function of that name takes other patterns (`%Y-%m-%d`) and answers Postgres' ones with themselves.
//! It is still there as `date_format`.

mod field;
mod pattern;

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Datelike, FixedOffset};
use datafusion::arrow::array::temporal_conversions::as_datetime_with_timezone;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{
    DataFusionError, Result, ScalarValue, exec_datafusion_err, not_impl_err, plan_err,
};
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
        let [time, pattern] = given else {
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
        if !is_text(pattern) {
            return plan_err!(
                "the pattern of to_char is a text and not {pattern}: write one such as 'YYYY-MM-DD'"
            );
        }
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
                let pattern = pattern.try_as_str().flatten().map(parse).transpose()?.flatten();
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
                format(&times.to_array(rows)?, |row| {
                    of(row).and_then(|of| known.get(of)?.as_ref())
                })?
            }
        };
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?));
        }
        Ok(ColumnarValue::Array(texts))
    }
}

fn is_text(given: &DataType) -> bool {
    match given {
        DataType::Dictionary(_, value) => is_text(value),
        // A missing pattern has no type.
        other => other.is_string() || other.is_null(),
    }
}

/// Nothing for the empty pattern, to which Postgres answers with a missing value.
fn parse(pattern: &str) -> Result<Option<Pattern>> {
    if pattern.is_empty() {
        return Ok(None);
    }
    Pattern::parse(pattern).map(Some).map_err(DataFusionError::NotImplemented)
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
        // Without BC it would look like a year of ours.
        if time.year() < 1 {
            return not_impl_err!(
                "to_char does not write years before the year 1: leave them out, or write NULL for them"
            );
        }
        text.clear();
        pattern
            .write(&time, &mut text)
            .map_err(|_| exec_datafusion_err!("a timestamp cannot be written by to_char"))?;
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn answer(call: &str) -> Result<Option<String>> {
        let context = SessionContext::new();
        context.register_udf(to_char());
        let batches = context.sql(&format!("SELECT {call}")).await?.collect().await?;
        let texts = batches[0].column(0).as_string::<i32>();
        Ok(texts.is_valid(0).then(|| texts.value(0).to_owned()))
    }

    #[tokio::test]
    async fn without_a_pattern_there_is_no_text() {
        assert_eq!(answer("to_char(date '2024-03-05', '')").await.unwrap(), None);
        assert_eq!(answer("to_char(date '2024-03-05', NULL)").await.unwrap(), None);
        let of_rows = "to_char(date '2024-03-05', p) FROM (VALUES (''), ('')) AS t (p)";
        assert_eq!(answer(of_rows).await.unwrap(), None);
        let given = answer("to_char(date '2024-03-05', 'YYYY')").await.unwrap();
        assert_eq!(given.as_deref(), Some("2024"));
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_refused() {
        for (call, expected) in [
            ("to_char(date '2024-03-05', 5)", "is a text"),
            ("to_char(date '0001-01-01' - interval '1 day', 'YYYY')", "before the year 1"),
            ("to_char(date '2024-03-05', 'Mm')", "not implemented"),
        ] {
            let refused = answer(call).await.unwrap_err().to_string();
            assert!(refused.contains(expected), "{call}: {refused}");
        }
    }
}
