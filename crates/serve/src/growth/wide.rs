//! Rows that are too wide to be repeated.
//!
//! A join may put one row of its input into every row of its output, a window function one value into every row of its
//! partition. The engine counts neither before it is done.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{internal_err, resources_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{InListExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use super::Budget;
use super::estimate::{leaves, sum_of, total, width};

/// Values up to this size are never too wide for a window: ordinary tables have them.
const ORDINARY: usize = 1 << 10;

/// Checks the rows of every input that an operator repeats.
#[derive(Debug)]
pub struct RefuseWideRows {
    /// What the query may use.
    pub budget: Budget,
}

impl PhysicalOptimizerRule for RefuseWideRows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let widest = self.budget.widest_row(config.execution.batch_size.into());
        Ok(plan.transform_up(|node| self.guard(node, widest))?.data)
    }

    fn name(&self) -> &str {
        "RefuseWideRows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl RefuseWideRows {
    fn guard(
        &self,
        node: Arc<dyn ExecutionPlan>,
        widest: usize,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        check_constants(&node, widest)?;
        let (repeated, first) = match node.name() {
            "WindowAggExec" | "BoundedWindowAggExec" => (repeated_values(&node), 0),
            "UnnestExec" => (Repeated::Elements, 0),
            // Its first input is not repeated, those after it are.
            "ScalarSubqueryExec" => (Repeated::RowsOfABatch, 1),
            name if name.ends_with("JoinExec") => (Repeated::RowsOfABatch, 0),
            _ => return Ok(Transformed::no(node)),
        };
        let memory = self.budget.memory();
        let checked = |(index, child): (usize, &Arc<dyn ExecutionPlan>)| -> Arc<dyn ExecutionPlan> {
            if index < first {
                return Arc::clone(child);
            }
            let limits = Limits { repeated: repeated.clone(), widest, memory };
            Arc::new(RefuseWideRowsExec { input: Arc::clone(child), limits })
        };
        let children = node.children().into_iter().enumerate().map(checked).collect();
        #[allow(deprecated)]
        let node = node.with_new_children(children)?;
        Ok(Transformed::yes(node))
    }
}

/// What the functions of a window return, once for every function. A value of fixed size is never too wide, and columns
/// that are only handed on are held as they are.
fn repeated_values(node: &Arc<dyn ExecutionPlan>) -> Repeated {
    let functions = match (node.downcast_ref::<WindowAggExec>(), node.downcast_ref()) {
        (Some(window), _) => window.window_expr(),
        (None, Some(window)) => BoundedWindowAggExec::window_expr(window),
        (None, None) => {
            let columns = (0..node.schema().fields().len()).collect();
            return Repeated::Values { columns, constants: 0 };
        }
    };
    let is_wide = |function: &&Arc<dyn WindowExpr>| {
        function.field().map_or(true, |field| field.data_type().primitive_width().is_none())
    };
    let arguments: Vec<Arc<dyn PhysicalExpr>> =
        functions.iter().filter(is_wide).flat_map(|function| function.expressions()).collect();
    let columns = arguments.iter().flat_map(collect_columns).map(|column| column.index()).collect();
    let constants = arguments.iter().fold(0, |sum, one| constants(one).saturating_add(sum));
    Repeated::Values { columns, constants }
}

/// Bytes of the constants in an expression. Those of a list of alternatives are not repeated.
fn constants(root: &Arc<dyn PhysicalExpr>) -> usize {
    let mut bytes = 0usize;
    let _ = root.apply(|expr: &Arc<dyn PhysicalExpr>| {
        if expr.is::<InListExpr>() {
            return Ok(TreeNodeRecursion::Jump);
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            bytes = bytes.saturating_add(literal.value().size());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    bytes
}

/// Constants are repeated for every row of a batch.
fn check_constants(node: &Arc<dyn ExecutionPlan>, widest: usize) -> Result<()> {
    let mut bytes = 0usize;
    node.apply_expressions(&mut |root| {
        bytes = bytes.saturating_add(constants(root));
        Ok(TreeNodeRecursion::Continue)
    })?;
    // Numbers count as well: a few bytes each, by the hundred.
    let most = widest.max(64 << 10);
    if bytes > most {
        return resources_err!(
            "the constants of one step of the query have {bytes} bytes together; at most {most} are possible"
        );
    }
    Ok(())
}

#[derive(Debug, Clone)]
enum Repeated {
    RowsOfABatch,
    /// A value of each of these columns for all rows, and constants of so many bytes.
    Values {
        columns: Arc<[usize]>,
        constants: usize,
    },
    Elements,
}

/// What has passed so far.
#[derive(Default)]
struct Seen {
    rows: usize,
    bytes: usize,
    /// The widest values that are repeated, of all batches: a window holds them to its end.
    widest: usize,
}

#[derive(Debug, Clone)]
struct Limits {
    repeated: Repeated,
    widest: usize,
    memory: usize,
}

impl Limits {
    fn check(&self, batch: &RecordBatch, seen: &mut Seen) -> Result<()> {
        if matches!(self.repeated, Repeated::RowsOfABatch)
            && get_record_batch_memory_size(batch) <= self.widest
        {
            return Ok(());
        }
        let row = sum_of(batch.columns().iter().map(width))?;
        let (row, too_wide, most) = match &self.repeated {
            Repeated::RowsOfABatch => (row, row > self.widest, self.widest),
            Repeated::Values { columns, constants } => {
                seen.rows += batch.num_rows();
                let bytes = sum_of(batch.columns().iter().map(total))?;
                seen.bytes = seen.bytes.saturating_add(bytes);
                let repeated = columns.iter().filter_map(|at| batch.columns().get(*at));
                let here = sum_of(repeated.map(width))?;
                seen.widest = seen.widest.max(here);
                let row = seen.widest.saturating_add(*constants).max(seen.bytes / seen.rows.max(1));
                let most = self.memory / seen.rows.max(1);
                (row, row > most && row > ORDINARY, most)
            }
            Repeated::Elements => {
                let lists = batch.columns().iter().filter(|column| is_list(column.data_type()));
                let elements = lists.map(leaves).max().unwrap_or(0).max(1);
                let most = self.memory / elements;
                (row, unrepeated(batch)?.saturating_mul(elements) > self.memory, most)
            }
        };
        if too_wide {
            return resources_err!(
                "rows of up to {row} bytes are to be repeated in a join, a window or a subquery, and {most} bytes are \
                 possible: use shorter values"
            );
        }
        Ok(())
    }
}

fn is_list(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Map(..)
    )
}

/// The width of what is repeated beside the lists' own elements.
fn unrepeated(batch: &RecordBatch) -> Result<usize> {
    let others = batch.columns().iter().filter(|column| !is_list(column.data_type()));
    Ok(sum_of(others.map(width))?.saturating_add(16))
}

/// Passes the rows of its input on, or fails if they are too wide to be repeated.
#[derive(Debug)]
struct RefuseWideRowsExec {
    input: Arc<dyn ExecutionPlan>,
    limits: Limits,
}

impl DisplayAs for RefuseWideRowsExec {
    fn fmt_as(&self, _type: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RefuseWideRowsExec")
    }
}

impl ExecutionPlan for RefuseWideRowsExec {
    fn name(&self) -> &str {
        "RefuseWideRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(Self { input, limits: self.limits.clone() })),
            None => internal_err!("a check of rows needs an input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (schema, limits) = (rows.schema(), self.limits.clone());
        let mut seen = Seen::default();
        let looked = rows.map(move |batch| {
            let batch = batch?;
            limits.check(&batch, &mut seen)?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, looked)))
    }
}
