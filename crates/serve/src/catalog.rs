//! Questions of clients about the catalog that the engine alone does not answer.
//!
//! psql asks for sizes and descriptions along with the rest. There are none here, so the functions return NULL. Queries
//! for privileges, roles and functions fail, with a message that says what can be asked.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility, create_udf,
};
use datafusion::sql::sqlparser::ast::{ObjectName, Statement};
use datafusion_postgres::pgwire::error::PgWireError;

use crate::visit::{self, Part};
use crate::wire::{error, state};

/// Functions with the same answer to everything, and how many arguments they take at least and at most.
fn answers() -> [(&'static str, [usize; 2], ScalarValue); 8] {
    let (none, yes) = (ScalarValue::Utf8(None), ScalarValue::Boolean(Some(true)));
    [
        ("obj_description", [1, 2], none.clone()),
        ("shobj_description", [2, 2], none.clone()),
        ("col_description", [2, 2], none.clone()),
        ("pg_tablespace_location", [1, 1], none),
        ("pg_table_size", [1, 1], ScalarValue::Int64(None)),
        ("pg_type_is_visible", [1, 1], yes.clone()),
        ("pg_function_is_visible", [1, 1], yes.clone()),
        ("pg_operator_is_visible", [1, 1], yes),
    ]
}

/// Functions that psql calls in its queries.
pub fn functions() -> Vec<ScalarUDF> {
    let fixed = answers().map(|(name, [least, most], value)| {
        let signature = TypeSignature::OneOf((least..=most).map(TypeSignature::Any).collect());
        let signature = Signature::new(signature, Volatility::Stable);
        ScalarUDF::new_from_impl(Fixed { name, value, signature })
    });
    let pretty = create_udf(
        "pg_size_pretty",
        vec![DataType::Int64],
        DataType::Utf8,
        Volatility::Immutable,
        Arc::new(pg_size_pretty),
    );
    fixed.into_iter().chain([pretty]).collect()
}

/// A function with the same answer to everything.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fixed {
    name: &'static str,
    value: ScalarValue,
    signature: Signature,
}

impl ScalarUDFImpl for Fixed {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}

fn pg_size_pretty(args: &[ColumnarValue]) -> Result<ColumnarValue> {
    let pretty = |bytes: Option<i64>| bytes.map(pretty_size);
    match args {
        [ColumnarValue::Array(sizes)] => {
            let sizes = sizes.as_primitive::<Int64Type>().iter();
            Ok(ColumnarValue::Array(Arc::new(sizes.map(pretty).collect::<StringArray>())))
        }
        [ColumnarValue::Scalar(ScalarValue::Int64(bytes))] => {
            Ok(ColumnarValue::Scalar(ScalarValue::Utf8(pretty(*bytes))))
        }
        _ => plan_err!("pg_size_pretty takes a size"),
    }
}

/// As Postgres writes it: in a larger unit from ten thousand of the smaller one on, rounded.
fn pretty_size(bytes: i64) -> String {
    let (mut size, mut unit) = (i128::from(bytes), "bytes");
    for larger in ["kB", "MB", "GB", "TB", "PB"] {
        // Half a unit is what rounds up; of bytes there is no half.
        let limit = if unit == "bytes" { 10 * 1024 } else { 20 * 1024 - 1 };
        if size.abs() < limit {
            break;
        }
        // In halves of the larger unit, which are rounded at the end.
        size /= if unit == "bytes" { 512 } else { 1024 };
        unit = larger;
    }
    if unit != "bytes" {
        size = (size + size.signum()) / 2;
    }
    format!("{size} {unit}")
}

/// The name of a table in lower case and without quotes.
pub fn plain_name(table: &ObjectName) -> String {
    table.to_string().to_lowercase().replace('"', "")
}

const NOT_ANSWERED: &str = "this question about the catalog is not answered here";

/// The error of a query about the catalog, with what can be asked instead.
pub fn explain_failure(failure: PgWireError, statement: &Statement) -> PgWireError {
    let PgWireError::UserError(info) = &failure else { return failure };
    let asks_catalog = visit::any(
        statement,
        |part| matches!(part, Part::Relation(table) if plain_name(table).starts_with("pg_")),
    );
    let is_limit = [state::TOO_COMPLEX, state::OUT_OF_MEMORY, state::NO_TABLE, state::NOT_READY];
    // Planning and running a statement both come here.
    let is_plain = info.message.starts_with(NOT_ANSWERED);
    if !asks_catalog || is_plain || is_limit.contains(&info.code.as_str()) {
        return failure;
    }
    let reason = info.message.lines().next().unwrap_or_default();
    let reason = reason.split_once(". ").map_or(reason, |(first, _)| first).trim_end_matches('.');
    error(
        state::NOT_SUPPORTED,
        format!(
            "{NOT_ANSWERED} ({reason}): \\d, \\dt, \\dn and \\l are, and \
             information_schema has tables and columns"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_postgres_writes_them() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (-10_239, "-10239 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (10_752, "11 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (i64::MAX, "8192 PB"),
        ] {
            assert_eq!(pretty_size(bytes), expected);
        }
    }
}
