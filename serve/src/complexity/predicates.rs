//! How large conditions become when the optimizer moves them towards the tables.
//!
//! A condition that is moved below a projection has every column replaced by the expression that made it. Where
//! each level uses a column twice, the condition doubles with every level. Where each uses it once, expressions of
//! the list of results are put together likewise, and become deep.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion_postgres::pgwire::error::PgWireResult;

use super::too_complex;
use crate::wire;

/// Columns and operators of a condition, all columns written out.
const MOST_PARTS: u64 = 4_000;

/// Operators of an expression within each other, all columns written out: the engine computes such a tree on one stack.
const MOST_LEVELS: u64 = 1_200;

/// Refuses plans with conditions that become too large, and with expressions that become too deep.
pub fn check(plan: &LogicalPlan) -> PgWireResult<()> {
    let mut largest = Size::default();
    columns(plan, &mut largest).map_err(|error| wire::of_engine(&error))?;
    if largest.parts > MOST_PARTS {
        return Err(too_complex(format!(
            "a condition has at most {MOST_PARTS} parts, the columns that it names written out"
        )));
    }
    if largest.levels > MOST_LEVELS {
        return Err(too_complex(format!(
            "an expression has at most {MOST_LEVELS} operators within each other, the columns that it names written out"
        )));
    }
    Ok(())
}

/// How large an expression is.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    parts: u64,
    levels: u64,
}

impl Size {
    const ONE: Self = Self { parts: 1, levels: 1 };

    fn max(self, other: Self) -> Self {
        Self { parts: self.parts.max(other.parts), levels: self.levels.max(other.levels) }
    }
}

/// The largest of them, or of a column that is just there.
fn largest_of(sizes: impl IntoIterator<Item = Size>) -> Size {
    sizes.into_iter().reduce(Size::max).unwrap_or(Size::ONE)
}

/// The size of every column that a plan returns.
fn columns(plan: &LogicalPlan, largest: &mut Size) -> Result<Vec<Size>> {
    let mut given = Vec::new();
    let mut schema = DFSchema::empty();
    for input in plan.inputs() {
        given.extend(columns(input, largest)?);
        schema = schema.join(input.schema()).unwrap_or(schema);
    }
    let mut made = Vec::new();
    for expr in plan.expressions() {
        let size = size(&expr, (&schema, &given), largest)?;
        largest.levels = largest.levels.max(size.levels);
        made.push(size);
    }
    let fields = plan.schema().fields().len();
    Ok(match plan {
        LogicalPlan::Projection(_) => made,
        LogicalPlan::Aggregate(aggregate) if made.len() == fields => {
            let groups = aggregate.group_expr.len();
            let size = |(at, size)| if at < groups { size } else { Size::ONE };
            made.into_iter().enumerate().map(size).collect()
        }
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
            *largest = made.into_iter().fold(*largest, Size::max);
            fitted(given, fields)
        }
        _ => fitted(given, fields),
    })
}

/// As many as there are fields: those that were given, or the largest of them for each.
fn fitted(given: Vec<Size>, fields: usize) -> Vec<Size> {
    if given.len() == fields {
        return given;
    }
    vec![largest_of(given); fields]
}

/// The size of an expression over columns of these sizes.
fn size(expr: &Expr, input: (&DFSchema, &[Size]), largest: &mut Size) -> Result<Size> {
    let mut measure = Measure { input, largest, parts: 0, levels: vec![0] };
    expr.visit(&mut measure)?;
    let levels = measure.levels.pop().unwrap_or(0);
    Ok(Size { parts: measure.parts, levels })
}

struct Measure<'a> {
    input: (&'a DFSchema, &'a [Size]),
    largest: &'a mut Size,
    parts: u64,
    /// The deepest operand so far, of every expression that is being looked at.
    levels: Vec<u64>,
}

impl Measure<'_> {
    /// The size of a part apart from its operands.
    fn own(&mut self, part: &Expr) -> Result<Size> {
        Ok(match part {
            // A list of values may be long; what could double are columns and operators.
            Expr::Literal(..) | Expr::Placeholder(_) => Size { parts: 0, levels: 1 },
            Expr::Column(column) => {
                let (schema, given) = self.input;
                let at = schema.maybe_index_of_column(column);
                at.and_then(|at| given.get(at)).copied().unwrap_or(Size::ONE)
            }
            Expr::ScalarSubquery(query) => largest_of(columns(&query.subquery, self.largest)?),
            Expr::InSubquery(query) => largest_of(columns(&query.subquery.subquery, self.largest)?),
            Expr::Exists(query) => {
                columns(&query.subquery.subquery, self.largest)?;
                Size::ONE
            }
            _ => Size::ONE,
        })
    }
}

impl<'n> TreeNodeVisitor<'n> for Measure<'_> {
    type Node = Expr;

    fn f_down(&mut self, _part: &'n Expr) -> Result<TreeNodeRecursion> {
        self.levels.push(0);
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, part: &'n Expr) -> Result<TreeNodeRecursion> {
        let own = self.own(part)?;
        self.parts = self.parts.saturating_add(own.parts);
        let operands = self.levels.pop().unwrap_or(0);
        if let Some(outer) = self.levels.last_mut() {
            *outer = (*outer).max(operands.saturating_add(own.levels));
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
