//! From logical nodes to operators.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::exec::AnonymizeExec;
use super::logical::AnonymizeNode;

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
        let Some(node) = node.as_any().downcast_ref::<AnonymizeNode>() else {
            return Ok(None);
        };
        let mut inputs = physical_inputs.iter().map(Arc::clone);
        let Some(input) = inputs.next() else { return Ok(None) };
        let exec = AnonymizeExec::try_new(
            Arc::clone(&node.spec),
            node.binding()?,
            input,
            inputs.collect(),
        )?;
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(exec);
        for filter in &node.filters {
            let schema = UserDefinedLogicalNode::schema(node);
            let predicate = planner.create_physical_expr(filter, schema, session, context)?;
            plan = Arc::new(FilterExec::try_new(predicate, plan)?);
        }
        Ok(Some(plan))
    }
}

/// A query planner that knows the operators of this crate and leaves all other plans to the one that
/// was there before.
#[derive(Debug)]
pub struct AnonymizeQueryPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
}

impl AnonymizeQueryPlanner {
    /// Wraps the planner of a session.
    pub fn new(inner: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl QueryPlanner for AnonymizeQueryPlanner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !holds_our_nodes(logical_plan)? {
            return self.inner.create_physical_plan(logical_plan, session).await;
        }
        let planners = vec![Arc::new(AnonymizeExtensionPlanner) as _];
        let planner = DefaultPhysicalPlanner::with_extension_planners(planners);
        planner.create_physical_plan(logical_plan, session).await
    }
}

fn holds_our_nodes(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Extension(extension) = plan
            && extension.node.as_any().is::<AnonymizeNode>()
        {
            found = true;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
