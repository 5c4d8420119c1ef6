//! The tables that a release of a series goes on from, as inputs of its node.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit};

use super::node::{Binding, hierarchy_input, output_fields};
use crate::columnar::{MemberColumns, OutputColumn, can_be_key, casts_without_loss, waiting_type};
use crate::engine::options::{COHORT, PERSON, SeriesOutput, Spec, find_column};
use crate::engine::planning_error;
use crate::error::Error;

/// The name of a column of the last release in the plan: nothing else has it.
pub(in crate::engine) fn last_column(name: &str) -> String {
    format!("__last_{name}")
}

/// A table that options name as an input of the node: members and the last release of a series in the columns that the
/// operator reads, all others as text.
pub(super) fn table_input(
    spec: &mut Spec,
    input: &DFSchema,
    table: LogicalPlan,
    number: usize,
) -> Result<LogicalPlan> {
    match &spec.series {
        Some(series) if series.members == number => member_input(table),
        Some(series) if series.last == number => last_input(spec, input, table),
        _ => hierarchy_input(table, number),
    }
}

/// Errors if persons cannot be told apart by their keys on every night.
pub(super) fn check_key(spec: &Spec, input: &DFSchema) -> Result<()> {
    let (Some(_), Some(unit)) = (&spec.series, &spec.privacy_unit) else { return Ok(()) };
    let data_type = input.qualified_field_from_column(unit)?.1.data_type();
    match can_be_key(data_type) {
        true => Ok(()),
        false => Err(planning_error(Error::invalid(format!(
            "option 'series': privacy_unit '{0}' is {data_type}, and numbers with a floating point tell nobody apart for \
             sure: cast it to the type of the first night in the input, as in (SELECT * EXCEPT ({0}), CAST({0} AS \
             BIGINT) AS {0} FROM …)",
            unit.name
        )))),
    }
}

/// Persons as BINARY and cohorts as BIGINT.
fn member_input(table: LogicalPlan) -> Result<LogicalPlan> {
    let schema = table.schema();
    let typed = |name: &str| {
        let column = find_column(schema, "series", name).ok()?;
        let data_type = schema.as_arrow().field_with_name(&column.name).ok()?.data_type().clone();
        Some((column, data_type))
    };
    let columns = typed(PERSON).zip(typed(COHORT)).filter(|((_, person), (_, cohort))| {
        schema.fields().len() == 2 && MemberColumns::can_be(person, cohort)
    });
    let Some(((person, _), (cohort, _))) = columns else {
        let given = schema.fields().iter().map(|of| format!("{} {}", of.name(), of.data_type()));
        return Err(planning_error(Error::invalid(format!(
            "option 'series': 'members' has the columns ({}), and must have those of publish => 'members', person \
             (BYTEA of 16 bytes) and cohort (BIGINT), and no other: select them, as in members: (SELECT person, \
             cohort FROM members)",
            given.collect::<Vec<String>>().join(", ")
        ))));
    };
    let columns = [
        cast(Expr::Column(person), DataType::Binary).alias("__member_person"),
        cast(Expr::Column(cohort), DataType::Int64).alias("__member_cohort"),
    ];
    LogicalPlanBuilder::from(table).project(columns)?.build()
}

/// The columns of the release as they wait to be published again. One that misses some is only counted: it may be empty
/// on the first night.
fn last_input(spec: &mut Spec, input: &DFSchema, table: LogicalPlan) -> Result<LogicalPlan> {
    let columns = match last_columns(spec, input, table.schema())? {
        Ok(columns) => columns,
        Err(message) => {
            if let Some(series) = &mut spec.series {
                series.unreadable = Some(message);
            }
            vec![lit(true).alias(last_column(""))]
        }
    };
    LogicalPlanBuilder::from(table).project(columns)?.build()
}

/// The columns of the last release, or why it cannot be read.
fn last_columns(
    spec: &Spec,
    input: &DFSchema,
    last: &DFSchema,
) -> Result<std::result::Result<Vec<Expr>, String>> {
    let mut release = spec.clone();
    if let Some(series) = &mut release.series {
        series.output = SeriesOutput::Release;
    }
    let binding = Binding::new(&release, input)?;
    let fields = output_fields(&release, &binding, input.as_arrow())?;
    let mut columns = Vec::with_capacity(fields.len());
    for (published, field) in binding.output(release.class_id).into_iter().zip(fields) {
        let name = field.name();
        let wanted = match (published, field.data_type()) {
            (OutputColumn::Held, _) => continue,
            // Its labels are put into dictionaries together with tonight's.
            (OutputColumn::QuasiIdentifier(_), DataType::Dictionary(_, values)) => values,
            (_, data_type) => waiting_type(data_type),
        };
        let Ok(column) = find_column(last, "series", name) else {
            let known: Vec<&str> = last.fields().iter().map(|of| of.name().as_str()).collect();
            return Ok(Err(format!(
                "option 'series': 'last' has no column '{name}'; it has {}: give the last release with all columns \
                 that this one publishes",
                known.join(", ")
            )));
        };
        let given = last.qualified_field_from_column(&column)?.1.data_type();
        if !casts_without_loss(given, wanted) {
            return Ok(Err(format!(
                "option 'series': column '{name}' of 'last' is {given}, and the release publishes {}: read it as it \
                 was written, or cast it in the query, as in last: (SELECT … FROM last_release)",
                field.data_type()
            )));
        }
        columns.push(cast(Expr::Column(column), wanted.clone()).alias(last_column(name)));
    }
    Ok(Ok(columns))
}
