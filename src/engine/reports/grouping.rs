//! Grouping a relation in several ways in one pass.

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::compute::kernels::cmp::eq;
use datafusion::arrow::datatypes::{DataType, Int64Type, UInt32Type};
use datafusion::common::{Column, Result, exec_datafusion_err, plan_err};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{
    Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder, case, cast, lit, when,
};

use crate::columnar::{grouped_type, is_bounds};

/// One way to group: by these keys, and when its groups come if the groups are sorted.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) phase: u32,
    pub(super) keys: Vec<usize>,
}

/// Grouping sets tell keys apart by one bit each of 64, and DataFusion shifts by their number: by 64 is
/// an overflow.
const MAX_KEYS: usize = 63;

/// What an input is grouped by.
pub(super) struct Keys {
    pub(super) exprs: Vec<Expr>,
    /// The key before which the number of the set stands.
    pub(super) set_before: usize,
}

/// Counts the rows of every group of every set, reading the input once. Columns of the result:
///
/// | phase | key 0 | … | set | sensitive or class keys … | rows that miss a key, if wanted | rows |
///
/// A key that is not in its row's set is NULL there. The set's number stands before the key
/// `set_before`, so that sorting by the leading columns brings the groups of a class together. All
/// names start with `prefix`: inputs of one node must not share names.
pub(super) fn grouped(
    input: LogicalPlan,
    prefix: &str,
    keys: Keys,
    sets: &[Set],
    counts_incomplete: bool,
) -> Result<LogicalPlan> {
    let Keys { exprs: keys, set_before } = keys;
    if keys.len() > MAX_KEYS {
        return plan_err!(
            "a report can look at {MAX_KEYS} columns at once and these are {}: list fewer columns \
             (bounds count twice)",
            keys.len()
        );
    }
    let name = |key: usize| format!("__{prefix}_{key}");
    let (rows, incomplete) = (format!("__{prefix}_rows"), format!("__{prefix}_incomplete"));
    let columns: Vec<Expr> =
        (0..keys.len()).map(|key| Expr::Column(Column::from_name(name(key)))).collect();
    let aliased = keys.into_iter().enumerate().map(|(key, expr)| expr.alias(name(key)));
    let projected = LogicalPlanBuilder::from(input).project(aliased)?;
    let mut aggregates = vec![count(lit(1i64)).alias(rows.clone())];
    let any_missing = columns.iter().cloned().map(Expr::is_null).reduce(Expr::or);
    if let Some(any_missing) = any_missing.filter(|_| counts_incomplete) {
        let counted = when(any_missing, lit(1i64)).end()?;
        aggregates.insert(0, count(counted).alias(incomplete.clone()));
    }
    let of_set = |set: &Set| set.keys.iter().map(|key| columns[*key].clone()).collect();
    let (plan, phase, number) = match sets {
        // A single grouping set would still be made like several.
        [set] => (projected.aggregate(of_set(set), aggregates)?, lit(set.phase), lit(0u32)),
        sets => {
            let groups = GroupingSet::GroupingSets(sets.iter().map(of_set).collect());
            let plan = projected.aggregate(vec![Expr::GroupingSet(groups)], aggregates)?;
            let phase = by_set(sets, |number| sets[number].phase)?;
            (plan, phase, by_set(sets, |number| number as u32)?)
        }
    };
    let mut output = vec![phase.alias(format!("__{prefix}_phase"))];
    output.extend(columns);
    output.insert(1 + set_before, number.alias(format!("__{prefix}_set")));
    let counts = counts_incomplete.then_some(incomplete).into_iter().chain([rows]);
    output.extend(counts.map(|count| Expr::Column(Column::from_name(count))));
    plan.project(output)?.build()
}

/// A number for every row, by the set its group belongs to.
fn by_set(sets: &[Set], value: impl Fn(usize) -> u32) -> Result<Expr> {
    // Keys have their bits in the order in which the sets first name them, the first one highest; a
    // set bit says that the key is not part of the set.
    let mut order: Vec<usize> = Vec::new();
    for key in sets.iter().flat_map(|set| &set.keys) {
        if !order.contains(key) {
            order.push(*key);
        }
    }
    let id = |set: &Set| {
        order.iter().fold(0u64, |id, key| (id << 1) | u64::from(!set.keys.contains(key)))
    };
    let grouping_id = Expr::Column(Column::from_name(Aggregate::INTERNAL_GROUPING_ID));
    let last = sets.len() - 1;
    let mut cases = case(cast(grouping_id, DataType::UInt64));
    for (number, set) in sets.iter().enumerate().take(last) {
        cases = cases.when(lit(id(set)), lit(value(number)));
    }
    cases.otherwise(lit(value(last)))
}

/// The keys by which a published column is grouped: the column without its encoding, or both ends
/// of its bounds.
pub(super) fn keys_of(column: &Column, data_type: &DataType) -> Vec<Expr> {
    match data_type {
        DataType::Struct(fields) if is_bounds(fields) => ["lower", "upper"]
            .into_iter()
            .zip(fields)
            .map(|(end, field)| {
                let end = get_field(Expr::Column(column.clone()), end);
                decoded(end, field.data_type())
            })
            .collect(),
        other => vec![decoded(Expr::Column(column.clone()), other)],
    }
}

fn decoded(expr: Expr, data_type: &DataType) -> Expr {
    converted(expr, data_type, grouped_type(data_type))
}

/// The expression as the wanted type.
pub(super) fn converted(expr: Expr, data_type: &DataType, wanted: DataType) -> Expr {
    if *data_type == wanted { expr } else { cast(expr, wanted) }
}

/// The groups of one set in a batch: the wanted columns, and the rows of each group.
#[derive(Debug)]
pub(super) struct Groups {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: Vec<i64>,
}

impl Groups {
    /// Rows of the groups of one set that miss a key, where those are counted.
    pub(super) fn incomplete_rows(batch: &RecordBatch, set_column: usize, set: u32) -> Result<u64> {
        let counts = Self::of_set(batch, set_column, set, [batch.num_columns() - 2])?;
        let rows = |counts: &ArrayRef| counts.as_primitive::<Int64Type>().values().to_vec();
        let rows: i64 = counts.columns.iter().flat_map(rows).sum();
        Ok(rows.unsigned_abs())
    }

    /// Picks the groups of one set. Columns are given by their positions in the batch.
    pub(super) fn of_set(
        batch: &RecordBatch,
        set_column: usize,
        set: u32,
        columns: impl IntoIterator<Item = usize>,
    ) -> Result<Self> {
        let wanted: Vec<usize> = columns.into_iter().chain([batch.num_columns() - 1]).collect();
        let chosen = eq(batch.column(set_column), &UInt32Array::new_scalar(set))?;
        let mut batch = batch.project(&wanted)?;
        match chosen.true_count() {
            0 => batch = batch.slice(0, 0),
            all if all == batch.num_rows() => {}
            _ => batch = filter_record_batch(&batch, &chosen)?,
        }
        let mut columns = batch.columns().to_vec();
        let rows = columns.pop();
        let rows = rows.ok_or_else(|| exec_datafusion_err!("a grouped input has no counts"))?;
        Ok(Self { columns, rows: rows.as_primitive::<Int64Type>().values().to_vec() })
    }
}

/// How many rows at the start of a sorted batch belong to the first phase.
pub(super) fn first_phase(batch: &RecordBatch) -> usize {
    let phases = batch.column(0).as_primitive::<UInt32Type>();
    phases.values().partition_point(|phase| *phase == 0)
}

/// The set of every row.
pub(super) fn set_numbers(batch: &RecordBatch, set_column: usize) -> &UInt32Array {
    batch.column(set_column).as_primitive::<UInt32Type>()
}
