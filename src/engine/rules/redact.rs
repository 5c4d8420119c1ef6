//! Stages without one of our operators must redact values from errors too.
//!
//! On one machine our operators read their whole input, and errors of the input pass through them, where they
//! are redacted. An engine that cuts a plan into stages runs what is below an exchange in tasks without one of our
//! operators, and their messages go to logs and to the client. So wherever a stage may end there is an operator
//! that only redacts:
//!
//! ```text
//! AnonymizeExec
//!  AggregateExec: final
//!   RepartitionExec: by group
//!    RedactErrorsExec            the top of the stage below
//!     AggregateExec: partial
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, replace_children_if_necessary};

use crate::engine::exec::{RedactErrorsExec, is_release};
use crate::engine::reports::ReportExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan with a [`RedactErrorsExec`] wherever a stage of an input may end.
pub(super) fn redact_errors_of_inputs(plan: Plan) -> Result<Plan> {
    visit(plan, false)
}

fn visit(plan: Plan, in_input: bool) -> Result<Plan> {
    let is_ours = redacts_itself(&plan);
    let in_input = in_input || is_ours;
    let children = plan.children().into_iter().map(Arc::clone);
    let children = children.map(|child| visit(child, in_input)).collect::<Result<Vec<Plan>>>()?;
    if !in_input || is_ours {
        return replace_children_if_necessary(plan, children);
    }
    // An engine may also cut where inputs meet: it gives the smaller one of a join to every task, and parts of
    // a union stages of their own.
    let is_cut = is_exchange(&plan) || children.len() > 1;
    let below = |child: Plan| -> Result<Plan> {
        let (child, evaluates) = match computed_keys(&plan) {
            keys if keys.is_empty() => (child, false),
            keys => (evaluated_before(keys, child)?, true),
        };
        let is_safe = !evaluates && (is_exchange(&child) || redacts_itself(&child));
        Ok(if is_cut && !is_safe { Arc::new(RedactErrorsExec::new(child)) } else { child })
    };
    let children = children.into_iter().map(below).collect::<Result<Vec<Plan>>>()?;
    replace_children_if_necessary(plan, children)
}

fn redacts_itself(plan: &Plan) -> bool {
    is_release(plan) || plan.is::<ReportExec>() || plan.is::<RedactErrorsExec>()
}

fn is_exchange(plan: &Plan) -> bool {
    plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
}

/// The expressions by which an exchange partitions rows, apart from plain columns.
fn computed_keys(plan: &Plan) -> Vec<Arc<dyn PhysicalExpr>> {
    let exchange = plan.downcast_ref::<RepartitionExec>();
    let Some(Partitioning::Hash(keys, _)) = exchange.map(RepartitionExec::partitioning) else {
        return Vec::new();
    };
    keys.iter().filter(|key| !key.is::<Column>()).map(Arc::clone).collect()
}

/// The input with the same rows, after the keys were evaluated once: if they fail, they fail below the operator that
/// redacts. An exchange becomes the writer of a stage, and nothing can stand above that.
fn evaluated_before(keys: Vec<Arc<dyn PhysicalExpr>>, input: Plan) -> Result<Plan> {
    let schema = input.schema();
    let columns = || {
        let fields = schema.fields().iter().enumerate();
        fields.map(|(at, field)| ProjectionExpr {
            expr: Arc::new(Column::new(field.name(), at)),
            alias: field.name().clone(),
        })
    };
    let keys = keys.into_iter().enumerate().map(|(at, expr)| {
        let alias = format!("__anonymize_exchange_key_{at}");
        ProjectionExpr { expr, alias }
    });
    let with_keys = columns().chain(keys).collect::<Vec<_>>();
    let with_keys = Arc::new(ProjectionExec::try_new(with_keys, input)?);
    Ok(Arc::new(ProjectionExec::try_new(columns().collect::<Vec<_>>(), with_keys)?))
}
