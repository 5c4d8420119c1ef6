//! How large conditions become when the optimizer moves them towards the tables.
//!
//! A condition that is moved below a projection has every column replaced by the expression that made it. Where
//! each level uses a column twice, the condition doubles with every level.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};

use super::too_complex;
use crate::wire;

/// Columns and operators of a condition, all columns written out.
const MOST_PARTS: u64 = 4_000;

/// Refuses plans with conditions that become too large.
pub fn check(plan: &LogicalPlan) -> PgWireResult<()> {
    let mut largest = 0;
    columns(plan, &mut largest).map_err(|error| wire::of_engine(&error))?;
    if largest > MOST_PARTS { Err(refused()) } else { Ok(()) }
}

fn refused() -> PgWireError {
    too_complex(format!(
        "a condition has at most {MOST_PARTS} parts, the columns that it names written out"
    ))
}

/// The parts of every column that a plan returns.
fn columns(plan: &LogicalPlan, largest: &mut u64) -> Result<Vec<u64>> {
    let mut given = Vec::new();
    let mut schema = DFSchema::empty();
    for input in plan.inputs() {
        given.extend(columns(input, largest)?);
        schema = schema.join(input.schema()).unwrap_or(schema);
    }
    let mut made = Vec::new();
    for expr in plan.expressions() {
        made.push(parts(&expr, &schema, &given, largest)?);
    }
    let fields = plan.schema().fields().len();
    Ok(match plan {
        LogicalPlan::Projection(_) => made,
        LogicalPlan::Aggregate(aggregate) if made.len() == fields => {
            let groups = aggregate.group_expr.len();
            made.into_iter()
                .enumerate()
                .map(|(at, parts)| if at < groups { parts } else { 1 })
                .collect()
        }
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
            *largest = made.into_iter().fold(*largest, u64::max);
            fitted(given, fields)
        }
        _ => fitted(given, fields),
    })
}

/// As many as there are fields: those that were given, or the largest of them for each.
fn fitted(given: Vec<u64>, fields: usize) -> Vec<u64> {
    if given.len() == fields {
        return given;
    }
    vec![given.into_iter().max().unwrap_or(1); fields]
}

/// The parts of an expression over columns that have so many parts themselves.
fn parts(expr: &Expr, schema: &DFSchema, given: &[u64], largest: &mut u64) -> Result<u64> {
    let mut sum = 0u64;
    expr.apply(|part| {
        let own = match part {
            // A list of values may be long; what could double are columns and operators.
            Expr::Literal(..) | Expr::Placeholder(_) => 0,
            Expr::Column(column) => {
                let at = schema.maybe_index_of_column(column);
                at.and_then(|at| given.get(at)).copied().unwrap_or(1)
            }
            Expr::ScalarSubquery(subquery) => {
                columns(&subquery.subquery, largest)?.into_iter().max().unwrap_or(1)
            }
            Expr::InSubquery(query) => {
                columns(&query.subquery.subquery, largest)?.into_iter().max().unwrap_or(1)
            }
            Expr::Exists(query) => {
                columns(&query.subquery.subquery, largest)?;
                1
            }
            _ => 1,
        };
        sum = sum.saturating_add(own);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(sum)
}
