//! What has no bound and cannot be given one.

use datafusion::common::Result as EngineResult;
use datafusion::common::not_impl_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, Expr as SqlExpr, Statement};
use datafusion_postgres::pgwire::error::PgWireResult;

use crate::visit::{self, Part};
use crate::wire::{error, state};

/// Aggregates whose value is all that they have seen. In a window there is one for every row.
const COLLECTORS: [&str; 2] = ["array_agg", "string_agg"];

/// Window functions whose third argument is what rows get that have no other.
const WITH_DEFAULT: [&str; 2] = ["lag", "lead"];

const MOST_DEFAULT_BYTES: usize = 1 << 10;

/// Refuses values of a declared length, which the engine would fill.
pub fn check_statement(statement: &Statement) -> PgWireResult<()> {
    let declares_length = visit::any(statement, |part| match part {
        Part::Expr(SqlExpr::Cast { data_type, .. }) => has_length(data_type),
        Part::Expr(SqlExpr::Function(function)) => {
            let name = function.name.to_string().to_lowercase();
            let casts = name.ends_with("arrow_cast") || name.ends_with("arrow_try_cast");
            casts && function.args.to_string().to_lowercase().contains("fixedsize")
        }
        _ => false,
    });
    if declares_length {
        let hint = "values have no declared length here: write int[] instead of int[3]";
        return Err(error(state::NOT_SUPPORTED, hint));
    }
    Ok(())
}

fn has_length(data_type: &DataType) -> bool {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, length)) => {
            length.is_some() || has_length(inner)
        }
        DataType::Array(ArrayElemTypeDef::AngleBracket(inner)) => has_length(inner),
        _ => false,
    }
}

/// Refuses windows in which every row has a value as large as the table, or a constant that is not known to be short.
pub fn check_plan(plan: &LogicalPlan) -> EngineResult<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|root| {
            root.apply(|expr| match expr {
                Expr::WindowFunction(window) => {
                    check_window(&window.fun, &window.params.args)?;
                    Ok(TreeNodeRecursion::Continue)
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    })?;
    Ok(())
}

fn check_window(function: &WindowFunctionDefinition, args: &[Expr]) -> EngineResult<()> {
    let name = function.name();
    match function {
        WindowFunctionDefinition::AggregateUDF(_) if COLLECTORS.contains(&name) => {
            not_impl_err!("{name} cannot be used with OVER here: group the rows")
        }
        // The engine keeps the value for rows without another one to itself, and repeats it.
        WindowFunctionDefinition::WindowUDF(_) if WITH_DEFAULT.contains(&name) => {
            match args.get(2).is_none_or(is_short) {
                true => Ok(()),
                false => not_impl_err!(
                    "the default of {name} is a constant of at most {MOST_DEFAULT_BYTES} bytes here, without functions"
                ),
            }
        }
        _ => Ok(()),
    }
}

/// Whether an expression is a short constant, whatever it is simplified to.
fn is_short(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.size() <= MOST_DEFAULT_BYTES,
        Expr::Negative(inner) => is_short(inner),
        Expr::Cast(cast) => is_short(&cast.expr),
        Expr::TryCast(cast) => is_short(&cast.expr),
        _ => false,
    }
}
