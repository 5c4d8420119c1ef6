//! Making the engine let go of a query that nobody wants any more.
//!
//! Planning never yields, so a rule that fails once the query is stopped runs between any two rules of the optimizer. A
//! running query stops between two batches, where it yields. Two things keep it from yielding:
//!
//! 1. An operator that makes many batches of few, such as a join, may feed a parent that consumes all of them at
//!    once. Joins are therefore wrapped in the engine's operator for cooperative scheduling.
//! 2. A nested-loop join compares all pairs of rows before it yields, which may take hours if none matches. Its
//!    condition is therefore wrapped in one that fails once the query is stopped.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{exec_err, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use datafusion::physical_plan::unnest::UnnestExec;

/// Tells a query to stop when it is dropped.
#[derive(Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Stop {
    /// The optimizer's rules, each after one that fails once the query is stopped.
    pub fn check_between(
        &self,
        rules: &[Arc<dyn OptimizerRule + Send + Sync>],
    ) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
        let look = || -> Arc<dyn OptimizerRule + Send + Sync> {
            Arc::new(CheckStopped { stopped: Arc::clone(&self.0) })
        };
        rules.iter().flat_map(|rule| [look(), Arc::clone(rule)]).collect()
    }

    /// The rule that makes joins of a plan stop.
    pub fn rule(&self) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        Arc::new(InterruptJoins { stopped: Arc::clone(&self.0) })
    }
}

/// A rule of the optimizer that changes nothing and fails once the query is to stop.
#[derive(Debug)]
struct CheckStopped {
    stopped: Arc<AtomicBool>,
}

impl OptimizerRule for CheckStopped {
    fn name(&self) -> &str {
        "check_stopped"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if self.stopped.load(Ordering::Relaxed) {
            return exec_err!("the query was stopped");
        }
        Ok(Transformed::no(plan))
    }
}

#[derive(Debug)]
struct InterruptJoins {
    stopped: Arc<AtomicBool>,
}

impl PhysicalOptimizerRule for InterruptJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(plan.transform_up(|node| self.wrap_multiplying(node))?.data)
    }

    fn name(&self) -> &str {
        "Interruptible"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl InterruptJoins {
    fn wrap_multiplying(
        &self,
        node: Arc<dyn ExecutionPlan>,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let multiplies = node.is::<NestedLoopJoinExec>()
            || node.is::<HashJoinExec>()
            || node.is::<CrossJoinExec>()
            || node.is::<SortMergeJoinExec>()
            || node.is::<UnnestExec>();
        if !multiplies {
            return Ok(Transformed::no(node));
        }
        let node = match node.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => self.interruptible(join)?.unwrap_or(node),
            None => node,
        };
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(node))))
    }

    fn interruptible(&self, join: &NestedLoopJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(filter) = join.filter() else { return Ok(None) };
        let condition = Interruptible {
            condition: Arc::clone(filter.expression()),
            stopped: Arc::clone(&self.stopped),
        };
        let columns = filter.column_indices().to_vec();
        let filter = JoinFilter::new(Arc::new(condition), columns, Arc::clone(filter.schema()));
        let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        let join = NestedLoopJoinExecBuilder::new(left, right, *join.join_type())
            .with_projection_ref(join.projection().clone())
            .with_filter(Some(filter))
            .build()?;
        Ok(Some(Arc::new(join)))
    }
}

/// A condition that fails once the query is to stop.
#[derive(Debug)]
struct Interruptible {
    condition: Arc<dyn PhysicalExpr>,
    stopped: Arc<AtomicBool>,
}

impl PartialEq for Interruptible {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Interruptible {}

impl Hash for Interruptible {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for Interruptible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.condition, f)
    }
}

impl PhysicalExpr for Interruptible {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.condition.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.stopped.load(Ordering::Relaxed) {
            return exec_err!("the query was stopped");
        }
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match children.pop() {
            Some(condition) => Ok(Arc::new(Self { condition, stopped: Arc::clone(&self.stopped) })),
            None => internal_err!("a condition that can be interrupted needs a condition"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
