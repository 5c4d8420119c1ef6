//! Errors of an input that runs in a task of its own.
//!
//! On one machine our operators read their whole input, and whatever fails there passes through them: they
//! withhold messages that quote values. An engine that cuts a plan into stages runs the parts below an exchange
//! apart; they fail in tasks that hold no operator of ours, and the message goes to logs and to the client. So
//! every place where a stage may end gets an operator that does nothing but withhold such messages:
//!
//! ```text
//! AnonymizeExec
//!  AggregateExec: final
//!   RepartitionExec: by group
//!    WithheldErrorsExec          the top of what runs apart
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

use crate::engine::exec::{AnonymizeExec, CellExec, WithheldErrorsExec};
use crate::engine::reports::ReportExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan with a [`WithheldErrorsExec`] wherever a stage of an input may end.
pub(super) fn withhold_errors_of_inputs(plan: Plan) -> Result<Plan> {
    visit(plan, false)
}

fn visit(plan: Plan, in_input: bool) -> Result<Plan> {
    let is_ours = withholds_itself(&plan);
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
        let is_safe = !evaluates && (is_exchange(&child) || withholds_itself(&child));
        Ok(if is_cut && !is_safe { Arc::new(WithheldErrorsExec::new(child)) } else { child })
    };
    let children = children.into_iter().map(below).collect::<Result<Vec<Plan>>>()?;
    replace_children_if_necessary(plan, children)
}

fn withholds_itself(plan: &Plan) -> bool {
    plan.is::<AnonymizeExec>()
        || plan.is::<CellExec>()
        || plan.is::<ReportExec>()
        || plan.is::<WithheldErrorsExec>()
}

fn is_exchange(plan: &Plan) -> bool {
    plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
}

/// What an exchange computes of every row to tell where it goes, beside columns.
fn computed_keys(plan: &Plan) -> Vec<Arc<dyn PhysicalExpr>> {
    let exchange = plan.downcast_ref::<RepartitionExec>();
    let Some(Partitioning::Hash(keys, _)) = exchange.map(RepartitionExec::partitioning) else {
        return Vec::new();
    };
    keys.iter().filter(|key| !key.is::<Column>()).map(Arc::clone).collect()
}

/// The input, its rows as they were, with expressions that fail here if they fail at all: an exchange becomes
/// the writer of a stage, above which no operator can stand.
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
