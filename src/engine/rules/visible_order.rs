//! Which columns may show in the order of a release's rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::config::ConfigOptions;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::engine::exec::AnonymizeExec;

/// Tells every [`AnonymizeExec`] which of its columns reach the reader of the query unchanged.
///
/// The operator orders the rows of a class by those columns. Ordering by a column that a filter, an
/// expression or a limit drops later would tell how the rows stand in a column that the reader does
/// not see. An operator that this rule has not visited orders by a keyed hash, which tells nothing.
#[derive(Debug, Default)]
pub struct OrderByVisibleColumns;

type Plan = Arc<dyn ExecutionPlan>;

impl PhysicalOptimizerRule for OrderByVisibleColumns {
    fn optimize(&self, plan: Plan, _config: &ConfigOptions) -> Result<Plan> {
        let visible = all_columns(&plan);
        visit(&plan, &visible)
    }

    fn name(&self) -> &str {
        "OrderByVisibleColumns"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn all_columns(plan: &Plan) -> BTreeSet<usize> {
    (0..plan.schema().fields().len()).collect()
}

/// Rewrites a plan of whose columns the reader sees the visible ones.
fn visit(plan: &Plan, visible: &BTreeSet<usize>) -> Result<Plan> {
    let plan = match plan.downcast_ref::<AnonymizeExec>() {
        Some(release) => Arc::new(release.ordered_by(visible.iter().copied().collect())),
        None => Arc::clone(plan),
    };
    let children: Vec<Plan> = plan.children().into_iter().map(Arc::clone).collect();
    let mut rewritten = Vec::with_capacity(children.len());
    for child in &children {
        rewritten.push(visit(child, &visible_below(&plan, child, visible))?);
    }
    let unchanged = children.iter().zip(&rewritten).all(|(old, new)| Arc::ptr_eq(old, new));
    if unchanged {
        return Ok(plan);
    }
    plan.replace_children(rewritten, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// The expression without a cast that only removes a dictionary encoding.
fn unpacked<'a>(expr: &'a Arc<dyn PhysicalExpr>, child: &Plan) -> &'a Arc<dyn PhysicalExpr> {
    let Some(cast) = expr.downcast_ref::<CastExpr>() else { return expr };
    match cast.expr().data_type(&child.schema()) {
        Ok(DataType::Dictionary(_, values)) if *values == *cast.cast_type() => cast.expr(),
        _ => expr,
    }
}

/// The columns of a child that the reader sees, given those of its parent.
fn visible_below(parent: &Plan, child: &Plan, visible: &BTreeSet<usize>) -> BTreeSet<usize> {
    if parent.is::<DataSinkExec>() {
        return all_columns(child);
    }
    if let Some(projection) = parent.downcast_ref::<ProjectionExec>() {
        let column = |at: &usize| {
            let expr = &projection.expr().get(*at)?.expr;
            unpacked(expr, child).downcast_ref::<Column>().map(Column::index)
        };
        return visible.iter().filter_map(column).collect();
    }
    if let Some(filter) = parent.downcast_ref::<FilterExec>()
        && let Some(projection) = filter.projection().as_ref()
    {
        return visible.iter().filter_map(|at| projection.get(*at).copied()).collect();
    }
    // Operators that hand their only input on: exchanges, limits, buffers, filters.
    let hands_on = parent.children().len() == 1
        && !parent.is::<AnonymizeExec>()
        && parent.schema().fields() == child.schema().fields();
    if hands_on { visible.clone() } else { BTreeSet::new() }
}
