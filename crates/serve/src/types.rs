//! Columns as clients can take them.
//!
//! | type of the engine | what is sent |
//! | --- | --- |
//! | integers of one byte | `int2`: Postgres has none of one byte |
//! | floats of two bytes | `float4` |
//! | decimals of more than 38 digits | `text` |
//! | structs, maps, lists of lists and of structs | `text`, as Postgres writes composite values and arrays |
//! | unions, run-end encoded and view lists | refused |
//!
//! This happens to the plan, so that what is described is what is sent.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use datafusion::common::{Column, Result, TableReference, not_impl_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast,
};

/// The plan with columns that clients can take.
pub fn presentable(plan: LogicalPlan) -> Result<LogicalPlan> {
    let fields = plan.schema().fields().iter();
    let sent = fields.map(|field| sent(field)).collect::<Result<Vec<_>>>()?;
    let as_it_is = sent.iter().all(|sent| matches!(sent, Sent::AsItIs));
    // Only rows have columns; EXPLAIN and the like must stay at the top of a plan.
    if as_it_is {
        return Ok(plan);
    }
    let column = |((qualifier, field), sent): ((Option<&TableReference>, &Arc<Field>), Sent)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match sent {
            Sent::AsItIs => column,
            Sent::Cast(to) => cast(column, to).alias(field.name()),
            Sent::Text => {
                ScalarUDF::new_from_impl(AsText::default()).call(vec![column]).alias(field.name())
            }
        }
    };
    let columns: Vec<Expr> = plan.schema().iter().zip(sent).map(column).collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// Whether all columns of a release can be sent, in whatever way; the error names one that cannot.
pub fn check<'a>(fields: impl IntoIterator<Item = &'a Arc<Field>>) -> Result<()> {
    fields.into_iter().try_for_each(|field| sent(field).map(|_| ()))
}

enum Sent {
    AsItIs,
    Cast(DataType),
    Text,
}

fn sent(field: &Field) -> Result<Sent> {
    Ok(match field.data_type() {
        unknown if is_unknown(unknown) => {
            let name = field.name();
            return not_impl_err!(
                "column '{name}' has type {unknown}, which clients cannot be sent: cast it to another, to text for example"
            );
        }
        DataType::Int8 => Sent::Cast(DataType::Int16),
        DataType::Float16 => Sent::Cast(DataType::Float32),
        DataType::Decimal256(..) => Sent::Cast(DataType::Utf8),
        DataType::Struct(_) | DataType::Map(..) => Sent::Text,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            match item.data_type() {
                nested if nested.is_nested() => Sent::Text,
                DataType::Int8
                | DataType::Float16
                | DataType::Decimal256(..)
                | DataType::Dictionary(..) => Sent::Text,
                _ => Sent::AsItIs,
            }
        }
        DataType::Dictionary(_, value) if value.is_nested() => Sent::Cast(value.as_ref().clone()),
        _ => Sent::AsItIs,
    })
}

fn is_unknown(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..)
        | DataType::RunEndEncoded(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => is_unknown(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| is_unknown(field.data_type())),
        DataType::Dictionary(_, value) => is_unknown(value),
        _ => false,
    }
}

/// Values as Postgres writes them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsText {
    signature: Signature,
}

impl Default for AsText {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for AsText {
    fn name(&self) -> &str {
        "as_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = ColumnarValue::values_to_arrays(&args.args)?;
        let mut texts = StringBuilder::new();
        for array in values.iter().take(1) {
            for row in 0..array.len() {
                texts.append_option(text(array, row)?);
            }
        }
        Ok(ColumnarValue::Array(Arc::new(texts.finish())))
    }
}

/// A value as Postgres writes it, or nothing if it is missing.
fn text(array: &ArrayRef, row: usize) -> Result<Option<String>> {
    if is_missing(array, row) {
        return Ok(None);
    }
    Ok(Some(match array.data_type() {
        DataType::Struct(_) => composite(array.as_struct().columns(), row)?,
        DataType::List(_) => list(&array.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row))?,
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row))?,
        DataType::Map(..) => list(&(Arc::new(array.as_map().value(row)) as ArrayRef))?,
        DataType::Boolean => if array.as_boolean().value(row) { "t" } else { "f" }.to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            format!("\\x{}", shown(array, row)?)
        }
        _ => shown(array, row)?,
    }))
}

/// Also where a type or the values of a dictionary say so, and not the array itself.
fn is_missing(array: &ArrayRef, row: usize) -> bool {
    match array.data_type() {
        DataType::Null => true,
        DataType::Dictionary(..) => array.logical_nulls().is_some_and(|nulls| nulls.is_null(row)),
        _ => array.is_null(row),
    }
}

/// What has no parts.
fn shown(array: &ArrayRef, row: usize) -> Result<String> {
    let options = FormatOptions::new()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:::z"))
        .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_duration_format(DurationFormat::Pretty);
    let formatter = ArrayFormatter::try_new(array, &options)?;
    Ok(formatter.value(row).try_to_string()?)
}

/// `(1,"a b",)`: quotes where the text has a sign of the notation, nothing for what is missing.
fn composite(fields: &[ArrayRef], row: usize) -> Result<String> {
    let mut written = "(".to_owned();
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            written.push(',');
        }
        let Some(value) = text(field, row)? else { continue };
        let special =
            |c: char| c.is_ascii_whitespace() || matches!(c, '"' | '\\' | '(' | ')' | ',');
        if value.is_empty() || value.contains(special) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\"\"");
            // Writing to a text cannot fail.
            let _ = write!(written, "\"{escaped}\"");
        } else {
            written.push_str(&value);
        }
    }
    written.push(')');
    Ok(written)
}

/// `{1,"a b",NULL}`: lists within lists are written without quotes.
fn list(values: &ArrayRef) -> Result<String> {
    let is_list = matches!(
        values.data_type(),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
    );
    let mut written = "{".to_owned();
    for row in 0..values.len() {
        if row > 0 {
            written.push(',');
        }
        let Some(value) = text(values, row)? else {
            written.push_str("NULL");
            continue;
        };
        let special =
            |c: char| c.is_ascii_whitespace() || matches!(c, '"' | '\\' | '{' | '}' | ',');
        let quoted =
            value.is_empty() || value.eq_ignore_ascii_case("null") || value.contains(special);
        if quoted && !is_list {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(written, "\"{escaped}\"");
        } else {
            written.push_str(&value);
        }
    }
    written.push('}');
    Ok(written)
}
