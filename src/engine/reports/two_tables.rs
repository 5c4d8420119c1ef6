//! Reports over quasi-identifiers and sensitive values that were published apart.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, Result, plan_err};
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::logical_expr::{
    BinaryExpr, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, cast, col, lit, when,
};

use super::plan::{add_tables, by_class, mistake, report, targets, unbounded_grading};
use super::{PrivacySpec, Report, TwoTableUtilitySpec};
use crate::engine::options::{Assignment, Options, find_column};

/// The column that joins two tables.
const CLASS: &str = "class_id";

/// `privacy_report` over quasi-identifiers and sensitive values in two tables.
pub(super) fn plan_two_tables(
    mut options: Options,
    quasi_identifiers: LogicalPlan,
    sensitive: LogicalPlan,
) -> Result<LogicalPlan> {
    const QI: &str = "privacy_report, the table of quasi-identifiers";
    const SENSITIVE: &str = "privacy_report, the table of sensitive values";
    if !options.constraints.is_empty() {
        return plan_err!("privacy_report: option 'constraints' is for one table");
    }
    if options.privacy_unit.is_some() || options.unit_share.is_some() {
        return plan_err!(
            "privacy_report: options 'privacy_unit' and 'unit_share' are for one table"
        );
    }
    let targets = targets(&options)?;
    let mut tables = Vec::new();
    let grading = options.checked_grading(&mut tables).map_err(mistake("privacy_report"))?;
    let mut roles = Assignment::new(quasi_identifiers.schema()).map_err(mistake(QI))?;
    roles.assign("quasi_identifiers", &options.quasi_identifiers).map_err(mistake(QI))?;
    let (class, columns) = two_table_columns(&options, &sensitive, SENSITIVE)?;
    let class_of_quasi_identifiers =
        find_column(quasi_identifiers.schema(), "class_id", CLASS).map_err(mistake(QI))?;
    let agreement = agreement(
        Classed { table: quasi_identifiers, class: class_of_quasi_identifiers },
        Classed { table: sensitive.clone(), class: class.clone() },
    )?;
    let (classes, input) = by_class(&[class], &columns, sensitive, "published")?;
    let spec = PrivacySpec {
        quasi_identifiers: vec![CLASS.to_owned()],
        classes,
        targets,
        grading,
        two_tables: true,
        buckets: None,
        counts_persons: false,
        unit_share: None,
    };
    let mut inputs = vec![input, agreement];
    add_tables(&mut inputs, tables)?;
    report(Report::Privacy(spec), inputs)
}

/// The class and the sensitive columns of a table of sensitive values.
fn two_table_columns(
    options: &Options,
    sensitive: &LogicalPlan,
    place: &'static str,
) -> Result<(Column, Vec<Column>)> {
    let class = find_column(sensitive.schema(), "class_id", CLASS).map_err(mistake(place))?;
    let mut roles = Assignment::new(sensitive.schema()).map_err(mistake(place))?;
    let columns = roles.assign("sensitive", &options.sensitive).map_err(mistake(place))?;
    if columns.is_empty() {
        return plan_err!(
            "{place}: option 'sensitive' is missing: name the column that it publishes, as in sensitive \
             => ['disease']"
        );
    }
    Ok((class, columns))
}

/// `utility_report` over an original and the two tables that were published of it.
pub(super) fn plan_two_table_utility(
    mut options: Options,
    original: LogicalPlan,
    quasi_identifiers: &LogicalPlan,
    sensitive: LogicalPlan,
) -> Result<LogicalPlan> {
    const QI: &str = "utility_report, the table of quasi-identifiers";
    const SENSITIVE: &str = "utility_report, the table of sensitive values";
    let mut roles = Assignment::new(quasi_identifiers.schema()).map_err(mistake(QI))?;
    roles.assign("quasi_identifiers", &options.quasi_identifiers).map_err(mistake(QI))?;
    let mut tables = Vec::new();
    let grading = unbounded_grading(&mut options, &mut tables)?;
    let (class, columns) = two_table_columns(&options, &sensitive, SENSITIVE)?;
    if columns.len() != 1 {
        return plan_err!(
            "{SENSITIVE}: one sensitive column is published, {} are named",
            columns.len()
        );
    }
    let (classes, input) = by_class(&[class], &columns, sensitive, "sensitive")?;
    let rows = LogicalPlanBuilder::from(original)
        .aggregate(Vec::<Expr>::new(), vec![count(lit(1i64)).alias("__original_rows")])?
        .build()?;
    let mut inputs = vec![rows, input];
    add_tables(&mut inputs, tables)?;
    report(Report::TwoTableUtility(TwoTableUtilitySpec { classes, grading }), inputs)
}

/// A table and its column of classes.
struct Classed {
    table: LogicalPlan,
    class: Column,
}

/// One row: the rows of the first table, and the classes that have another number of rows in the
/// second.
fn agreement(one: Classed, other: Classed) -> Result<LogicalPlan> {
    let counted = |of: Classed, key: &str, rows: &str| {
        let class = cast(Expr::Column(of.class), DataType::Utf8).alias(key);
        LogicalPlanBuilder::from(of.table)
            .project(vec![class])?
            .aggregate(vec![col(key)], vec![count(lit(1i64)).alias(rows)])
    };
    let one = counted(one, "__one", "__one_rows")?;
    let other = counted(other, "__other", "__other_rows")?.build()?;
    let differs = Expr::BinaryExpr(BinaryExpr::new(
        Box::new(col("__one_rows")),
        Operator::IsDistinctFrom,
        Box::new(col("__other_rows")),
    ));
    let differing = sum(when(differs, lit(1i64)).otherwise(lit(0i64))?);
    one.join(other, JoinType::Full, (vec!["__one"], vec!["__other"]), None)?
        .aggregate(
            Vec::<Expr>::new(),
            vec![
                sum(col("__one_rows")).alias("__agreement_rows"),
                differing.alias("__agreement_differing"),
            ],
        )?
        .build()
}
