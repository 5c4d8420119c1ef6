//! `COPY … STORED AS ARROW` of a release.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};

/// The same statement with plain columns instead of dictionaries, if it writes Arrow files: such a file has one
/// dictionary per column, and every batch of a release brings its own, so that none tells what others hold.
pub fn unpacked_for_arrow(copy: &CopyTo) -> Result<CopyTo> {
    if copy.file_type.get_ext() != "arrow" {
        return Ok(copy.clone());
    }
    let schema = copy.input.schema();
    let column = |(qualifier, field): (Option<&_>, &FieldRef)| {
        let column = Expr::from((qualifier, field));
        match unpacked(field.data_type()) {
            plain if plain == *field.data_type() => column,
            plain => cast(column, plain).alias_qualified(qualifier.cloned(), field.name()),
        }
    };
    let columns: Vec<Expr> = schema.iter().map(column).collect();
    let input: LogicalPlan = LogicalPlan::clone(&copy.input);
    let input = LogicalPlanBuilder::from(input).project(columns)?.build()?;
    Ok(CopyTo { input: Arc::new(input), ..copy.clone() })
}

/// A type without dictionaries.
fn unpacked(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| {
        let plain = unpacked(field.data_type());
        Arc::new(Field::clone(field).with_data_type(plain))
    };
    match data_type {
        DataType::Dictionary(_, values) => unpacked(values),
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(field(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        other => other.clone(),
    }
}
