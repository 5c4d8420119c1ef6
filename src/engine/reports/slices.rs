//! What a sliced table shows of people beyond its buckets.
//!
//! Values are exact, and every row is assembled from several persons. How safe that is follows neither from k nor
//! from the sensitive values, but from how many rows still match a real person.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::execution::TaskContext;
use datafusion::functions_aggregate::expr_fn::{count, max, min, sum};
use datafusion::logical_expr::{
    Expr, JoinType, LogicalPlan, LogicalPlanBuilder, cast, col, lit, when,
};
use datafusion::physical_plan::{ExecutionPlan, collect};

use super::BucketsSpec;
use super::grouping::keys_of;
use super::plan::{mistake, type_of};
use crate::engine::options::find_column;
use crate::measure::Measure;

/// What else is measured of a sliced table, and an input for each of it.
pub(super) fn of_buckets(
    published: &LogicalPlan,
    bucket: &Column,
    quasi_identifiers: &[Column],
    original: Option<LogicalPlan>,
) -> Result<(BucketsSpec, Vec<LogicalPlan>)> {
    const ORIGINAL: &str = "privacy_report, the original";
    let divided = !quasi_identifiers.is_empty();
    let spec = BucketsSpec { divided, original: original.is_some() };
    let mut inputs = Vec::new();
    if divided {
        inputs.push(undivided(published.clone(), bucket, quasi_identifiers)?);
    }
    if let Some(original) = original {
        let schema = original.schema();
        let of_original = |column: &Column| {
            find_column(schema, "quasi_identifiers", &column.name).map_err(mistake(ORIGINAL))
        };
        let columns = quasi_identifiers.iter().map(of_original).collect::<Result<Vec<Column>>>()?;
        inputs.push(intact(published.clone(), quasi_identifiers, original, &columns)?);
    }
    Ok((spec, inputs))
}

/// One row: the number of buckets in which fewer than two quasi-identifiers vary, so that their rows stay whole.
fn undivided(
    published: LogicalPlan,
    bucket: &Column,
    quasi_identifiers: &[Column],
) -> Result<LogicalPlan> {
    let name = |at: usize| format!("__undivided_{at}");
    let mut columns = vec![cast(Expr::Column(bucket.clone()), DataType::Utf8).alias("__undivided")];
    for (at, column) in quasi_identifiers.iter().enumerate() {
        columns.push(text_of(&published, column)?.alias(name(at)));
    }
    let mut aggregates = vec![count(lit(1i64)).alias("__undivided_rows")];
    let mut varying = lit(0i64);
    for at in 0..quasi_identifiers.len() {
        let (least, most) = (format!("{}_min", name(at)), format!("{}_max", name(at)));
        let present = format!("{}_present", name(at));
        aggregates.push(min(col(name(at))).alias(&least));
        aggregates.push(max(col(name(at))).alias(&most));
        aggregates.push(count(col(name(at))).alias(&present));
        // A missing value is one more value.
        let some = col(&present).gt(lit(0i64)).and(col(&present).lt(col("__undivided_rows")));
        let varies = col(&least).not_eq(col(&most)).or(some);
        varying = varying + when(varies, lit(1i64)).otherwise(lit(0i64))?;
    }
    let is_undivided = when(varying.lt(lit(2i64)), lit(1i64)).otherwise(lit(0i64))?;
    LogicalPlanBuilder::from(published)
        .project(columns)?
        .aggregate(vec![col("__undivided")], aggregates)?
        .aggregate(Vec::<Expr>::new(), vec![sum(is_undivided).alias("__undivided_buckets")])?
        .build()
}

/// One row: the published rows, those whose quasi-identifiers together occur in the original, and those whose
/// quasi-identifiers occur there once. Values are compared as they are written.
fn intact(
    published: LogicalPlan,
    columns: &[Column],
    original: LogicalPlan,
    originals: &[Column],
) -> Result<LogicalPlan> {
    let name = |table: &str, at: usize| format!("__{table}_{at}");
    let names = |table| (0..columns.len()).map(|at| name(table, at)).collect::<Vec<String>>();
    let (mut of_published, mut of_original) = (Vec::new(), Vec::new());
    for (at, (published_column, original_column)) in columns.iter().zip(originals).enumerate() {
        let as_published = type_of(published.schema(), published_column)?;
        let as_original = type_of(original.schema(), original_column)?;
        // A mean over equal values is that value, as a float.
        let value = match as_published == &DataType::Float64 && as_original.is_numeric() {
            true => {
                cast(cast(Expr::Column(original_column.clone()), DataType::Float64), DataType::Utf8)
            }
            false => text_of(&original, original_column)?,
        };
        of_published.push(text_of(&published, published_column)?.alias(name("intact", at)));
        of_original.push(value.alias(name("original", at)));
    }
    let counted = |table: LogicalPlan, keys: Vec<Expr>, names: Vec<String>, rows: &str| {
        LogicalPlanBuilder::from(table).project(keys)?.aggregate(
            names.iter().map(col).collect::<Vec<Expr>>(),
            vec![count(lit(1i64)).alias(rows)],
        )
    };
    let tuples = counted(original, of_original, names("original"), "__original_rows")?.build()?;
    let rows_if = |condition: Expr| -> Result<Expr> {
        Ok(sum(when(condition, col("__intact_rows")).otherwise(lit(0i64))?))
    };
    let keys = (names("intact"), names("original"));
    counted(published, of_published, names("intact"), "__intact_rows")?
        .join_detailed(tuples, JoinType::Left, keys, None, NullEquality::NullEqualsNull)?
        .aggregate(
            Vec::<Expr>::new(),
            vec![
                sum(col("__intact_rows")).alias("__intact_all"),
                rows_if(col("__original_rows").is_not_null())?.alias("__intact_occurring"),
                rows_if(col("__original_rows").eq(lit(1i64)))?.alias("__intact_unique"),
            ],
        )?
        .build()
}

/// A published or original column as text. Equal bounds are one value; other bounds match nothing.
fn text_of(table: &LogicalPlan, column: &Column) -> Result<Expr> {
    let keys = keys_of(column, type_of(table.schema(), column)?);
    let mut texts = keys.into_iter().map(|key| cast(key, DataType::Utf8));
    match (texts.next(), texts.next()) {
        (Some(lower), Some(upper)) => when(lower.clone().eq(upper.clone()), lower.clone())
            .when(lower.clone().is_null().and(upper.clone().is_null()), lower)
            .otherwise(lit("*")),
        (Some(text), None) => Ok(text),
        (None, _) => Ok(lit("*")),
    }
}

/// How many buckets have fewer than two varying quasi-identifiers.
pub(super) async fn undivided_measure(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Measure> {
    let [buckets] = sums(plan, context).await?;
    Ok(Measure::of_table("undivided_buckets", Some(buckets as f64)))
}

/// The shares of rows that match somebody in the original, and that match exactly one.
pub(super) async fn intact_measures(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<[Measure; 2]> {
    let [rows, occurring, unique] = sums(plan, context).await?;
    let share = |of: i64| (rows > 0).then(|| of as f64 / rows as f64);
    Ok([
        Measure::of_table("intact_tuples", share(occurring)),
        Measure::of_table("unique_intact_tuples", share(unique)),
    ])
}

async fn sums<const N: usize>(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<[i64; N]> {
    let mut sums = [0; N];
    for batch in collect(Arc::clone(plan), Arc::clone(context)).await? {
        for (column, sum) in sums.iter_mut().enumerate() {
            let values = batch.column(column).as_primitive::<Int64Type>();
            *sum += values.iter().flatten().sum::<i64>();
        }
    }
    Ok(sums)
}
