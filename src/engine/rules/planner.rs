//! From logical nodes to operators.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::plan_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::compact::compact_output;
use super::file_statistics::{with_sound_pruning, without_file_statistics};
use crate::engine::exec::AnonymizeExec;
use crate::engine::plan::{AnonymizeNode, check_may_be_written, is_of_release};
use crate::engine::reports::{ReportExec, ReportNode};
use crate::engine::staging::with_plain_columns;

/// Plans the operators of this crate; for hosts with a query planner of their own.
#[derive(Debug, Default)]
pub struct AnonymizeExtensionPlanner;

#[async_trait]
impl ExtensionPlanner for AnonymizeExtensionPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !is_ours(node.as_any()) {
            return Ok(None);
        }
        let inputs = physical_inputs.iter().map(|input| without_file_statistics(Arc::clone(input)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let Some((mut plan, filters)) = operator(node, &inputs)? else { return Ok(None) };
        for filter in filters {
            let predicate =
                planner.create_physical_expr(filter, node.schema(), session, context)?;
            plan = Arc::new(FilterExec::try_new(predicate, plan)?);
        }
        Ok(Some(plan))
    }
}

/// An operator, and the predicates that belong above it.
type Operator<'a> = (Arc<dyn ExecutionPlan>, &'a [Expr]);

/// The operator of a node, `None` if the node is not ours.
fn operator<'a>(
    node: &'a dyn UserDefinedLogicalNode,
    inputs: &[Arc<dyn ExecutionPlan>],
) -> Result<Option<Operator<'a>>> {
    if let Some(node) = node.as_any().downcast_ref::<ReportNode>() {
        let exec = ReportExec::new(Arc::clone(&node.report), inputs.to_vec());
        return Ok(Some((Arc::new(exec), &node.filters)));
    }
    let Some(node) = node.as_any().downcast_ref::<AnonymizeNode>() else { return Ok(None) };
    let Some((input, tables)) = inputs.split_first() else { return Ok(None) };
    let exec = AnonymizeExec::try_new(
        Arc::clone(&node.spec),
        node.binding()?,
        Arc::clone(input),
        tables.to_vec(),
    )?;
    Ok(Some((Arc::new(exec), &node.filters)))
}

/// A query planner that knows the operators of this crate and leaves all other plans to the one that
/// was there before.
#[derive(Debug)]
pub struct AnonymizeQueryPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    /// Whether plans run on an engine that gives every task a part of its input.
    on_cluster: bool,
}

impl AnonymizeQueryPlanner {
    /// Wraps the planner of a session.
    pub fn new(inner: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        Self { inner, on_cluster: false }
    }

    /// Wraps the planner of a session whose plans run on an engine that gives every task a part of its input.
    /// What a plan needs there is done here and not by rules of the optimizer: engines bring their own.
    #[cfg(feature = "cluster")]
    pub fn for_cluster(inner: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        Self { inner, on_cluster: true }
    }

    async fn plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !holds_our_nodes(logical_plan)? {
            return self.inner.create_physical_plan(logical_plan, session).await;
        }
        let planners = vec![Arc::new(AnonymizeExtensionPlanner) as _];
        let planner = DefaultPhysicalPlanner::with_extension_planners(planners);
        let logical_plan = &with_plain_columns(logical_plan.clone())?;
        with_sound_pruning(planner.create_physical_plan(logical_plan, session).await?)
    }
}

#[async_trait]
impl QueryPlanner for AnonymizeQueryPlanner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if writes_release(logical_plan)? {
            check_may_be_written(logical_plan, session.config_options())?;
            if self.on_cluster {
                return plan_err!(
                    "a task that writes a release and dies leaves a part of it: let the client write it, as the \
                     client of anonymize-ballista does with COPY"
                );
            }
        }
        #[cfg_attr(
            not(feature = "cluster"),
            expect(unused_mut, reason = "only a cluster changes it")
        )]
        let mut plan = self.plan(logical_plan, session).await?;
        #[cfg(feature = "cluster")]
        if self.on_cluster {
            plan = super::cluster::fit(plan, session.config_options())?;
            if holds_our_nodes(logical_plan)? {
                plan = super::cluster::end_in_one_task(plan);
            }
        }
        compact_output(plan)
    }
}

/// Whether running a plan writes a release: `COPY`, `INSERT` and other DML, also under `EXPLAIN ANALYZE`.
pub fn writes_release(plan: &LogicalPlan) -> Result<bool> {
    let plan = match plan {
        LogicalPlan::Analyze(analyze) => analyze.input.as_ref(),
        plan => plan,
    };
    Ok(matches!(plan, LogicalPlan::Copy(_) | LogicalPlan::Dml(_))
        && (holds_release(plan)? || reads_release(plan)?))
}

/// Whether a plan reads a table that was made of a release.
fn reads_release(plan: &LogicalPlan) -> Result<bool> {
    exists(plan, |plan| match plan {
        LogicalPlan::TableScan(scan) => is_of_release(&scan.source.schema()),
        _ => false,
    })
}

/// Whether a plan anonymizes something.
pub fn holds_release(plan: &LogicalPlan) -> Result<bool> {
    holds(plan, |node| node.is::<AnonymizeNode>())
}

fn holds_our_nodes(plan: &LogicalPlan) -> Result<bool> {
    holds(plan, is_ours)
}

fn is_ours(node: &dyn Any) -> bool {
    node.is::<AnonymizeNode>() || node.is::<ReportNode>()
}

fn holds(plan: &LogicalPlan, wanted: impl Fn(&dyn Any) -> bool) -> Result<bool> {
    exists(plan, |plan| match plan {
        LogicalPlan::Extension(extension) => wanted(extension.node.as_any()),
        _ => false,
    })
}

fn exists(plan: &LogicalPlan, wanted: impl Fn(&LogicalPlan) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        found = wanted(plan);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
