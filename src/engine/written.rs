//! Which releases may be written.

use datafusion::common::plan_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use super::logical::AnonymizeNode;
use super::method::Method;
use super::spec::Spec;
use crate::method::Variant;

/// Whether running a plan writes what its query gives.
pub(super) fn writes(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Copy(_) | LogicalPlan::Dml(_) => true,
        LogicalPlan::Analyze(analyze) => writes(&analyze.input),
        _ => false,
    }
}

/// Errors if a release in the plan is for experiments only.
///
/// Sessions call it for `COPY` and `INSERT`; whoever writes the rows of a release in another way calls it
/// before.
pub fn check_may_be_written(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Extension(extension) = plan
            && let Some(node) = extension.node.as_any().downcast_ref::<AnonymizeNode>()
        {
            check_spec(&node.spec)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The same for one release.
pub(super) fn check_spec(spec: &Spec) -> Result<()> {
    if spec.method == Method::AlphaK && spec.variant == Variant::Paper {
        return plan_err!(
            "variant => 'paper' of method 'alpha_k' groups rows in the order of their quasi-identifiers, which a \
             reader of both tables can use to name people: it is for experiments and is not written; leave it out"
        );
    }
    Ok(())
}
