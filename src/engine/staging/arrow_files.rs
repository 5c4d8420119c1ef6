//! Releases in Arrow files.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};

/// Makes `COPY … STORED AS ARROW` write plain columns. An Arrow file has a single dictionary per column, while those
/// of a release differ from batch to batch: each holds only what its batch shows.
pub(in crate::engine) fn with_plain_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down(|plan| match plan {
        LogicalPlan::Copy(copy) if copy.file_type.get_ext() == "arrow" => plain_copy(copy),
        plan => Ok(Transformed::no(plan)),
    })
    .data()
}

fn plain_copy(copy: CopyTo) -> Result<Transformed<LogicalPlan>> {
    let mut has_changed = false;
    let schema = copy.input.schema();
    let columns: Vec<Expr> = schema
        .iter()
        .map(|(table, field)| {
            let column = Expr::from((table, field));
            let plain = plain_type(field.data_type());
            if plain == *field.data_type() {
                return column;
            }
            has_changed = true;
            cast(column, plain).alias_qualified(table.cloned(), field.name())
        })
        .collect();
    if !has_changed {
        return Ok(Transformed::no(LogicalPlan::Copy(copy)));
    }
    let input = LogicalPlanBuilder::from(Arc::clone(&copy.input)).project(columns)?.build()?;
    Ok(Transformed::yes(LogicalPlan::Copy(CopyTo { input: Arc::new(input), ..copy })))
}

/// A type without dictionaries.
fn plain_type(data_type: &DataType) -> DataType {
    let plain_field = |field: &Arc<Field>| {
        let plain = plain_type(field.data_type());
        Arc::new(field.as_ref().clone().with_data_type(plain))
    };
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::List(field) => DataType::List(plain_field(field)),
        DataType::LargeList(field) => DataType::LargeList(plain_field(field)),
        DataType::FixedSizeList(field, length) => {
            DataType::FixedSizeList(plain_field(field), *length)
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}
