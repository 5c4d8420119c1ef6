//! How large conditions become when the optimizer moves them towards the tables.
//!
//! A condition that is moved below a projection has every column replaced by the expression that made it. Where
//! each level uses a column twice, the condition doubles with every level. Where each uses it once, expressions of
//! the list of results are put together likewise, and become deep.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::common::{Column, DFSchema, Result};
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
    columns(plan, Columns::default(), &mut largest).map_err(|error| wire::engine_error(&error))?;
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

/// Columns with the size of each; the default are those around a query that is no subquery.
#[derive(Clone, Copy, Default)]
struct Columns<'a> {
    schema: Option<&'a DFSchema>,
    sizes: &'a [Size],
}

impl Columns<'_> {
    fn size_of(self, column: &Column) -> Size {
        let at = self.schema.and_then(|schema| schema.maybe_index_of_column(column));
        at.and_then(|at| self.sizes.get(at)).copied().unwrap_or(Size::ONE)
    }
}

/// The size of every column that a plan returns; `outer` are the columns of the query that it is a subquery of, whose
/// conditions become those of a join.
fn columns(plan: &LogicalPlan, outer: Columns<'_>, largest: &mut Size) -> Result<Vec<Size>> {
    let mut given = Vec::new();
    let mut schema = DFSchema::empty();
    for input in plan.inputs() {
        given.extend(columns(input, outer, largest)?);
        schema = schema.join(input.schema()).unwrap_or(schema);
    }
    let mut made = Vec::new();
    for expr in plan.expressions() {
        let input = Columns { schema: Some(&schema), sizes: &given };
        let size = size(&expr, input, outer, largest)?;
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
fn size(expr: &Expr, input: Columns<'_>, outer: Columns<'_>, largest: &mut Size) -> Result<Size> {
    let mut measure = Measure { input, outer, largest, operands: vec![Size::default()] };
    expr.visit(&mut measure)?;
    Ok(measure.operands.pop().unwrap_or_default())
}

struct Measure<'a> {
    input: Columns<'a>,
    outer: Columns<'a>,
    largest: &'a mut Size,
    /// All operands so far, of every expression that is being looked at: their parts together, and the deepest of them.
    operands: Vec<Size>,
}

impl Measure<'_> {
    /// The size of a part apart from its operands.
    fn own(&mut self, part: &Expr) -> Result<Size> {
        let (input, largest) = (self.input, &mut *self.largest);
        Ok(match part {
            // A list of values may be long; what could double are columns and operators.
            Expr::Literal(..) | Expr::Placeholder(_) => Size { parts: 0, levels: 1 },
            Expr::Column(column) => input.size_of(column),
            Expr::OuterReferenceColumn(_, column) => self.outer.size_of(column),
            Expr::ScalarSubquery(query) => largest_of(columns(&query.subquery, input, largest)?),
            Expr::InSubquery(query) => {
                largest_of(columns(&query.subquery.subquery, input, largest)?)
            }
            Expr::Exists(query) => {
                columns(&query.subquery.subquery, input, largest)?;
                Size::ONE
            }
            _ => Size::ONE,
        })
    }
}

/// How often the optimizer writes an operand when it puts a part into other words.
fn repeats(part: &Expr) -> u64 {
    match part {
        // `a = x OR a = y OR a = z`; longer lists stay lists.
        Expr::InList(list) if list.list.len() <= 3 => 3,
        Expr::Between(_) => 2,
        Expr::Case(case) if case.expr.is_some() => 2,
        Expr::ScalarFunction(call) => match call.func.name() {
            "coalesce" | "nvl" | "nvl2" | "ifnull" | "nullif" | "greatest" | "least" => 2,
            _ => 1,
        },
        _ => 1,
    }
}

impl<'n> TreeNodeVisitor<'n> for Measure<'_> {
    type Node = Expr;

    fn f_down(&mut self, _part: &'n Expr) -> Result<TreeNodeRecursion> {
        self.operands.push(Size::default());
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, part: &'n Expr) -> Result<TreeNodeRecursion> {
        let own = self.own(part)?;
        let operands = self.operands.pop().unwrap_or_default();
        let parts = operands.parts.saturating_mul(repeats(part)).saturating_add(own.parts);
        if let Some(outer) = self.operands.last_mut() {
            outer.parts = outer.parts.saturating_add(parts);
            outer.levels = outer.levels.max(operands.levels.saturating_add(own.levels));
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
