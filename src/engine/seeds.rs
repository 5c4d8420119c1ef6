//! Releases that are written need a seed that nobody can find by trying.

use datafusion::common::plan_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use super::config::AnonymizeConfig;
use super::logical::AnonymizeNode;

/// Whether running a plan writes what its query gives.
pub(super) fn writes(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Copy(_) | LogicalPlan::Dml(_) => true,
        LogicalPlan::Analyze(analyze) => writes(&analyze.input),
        _ => false,
    }
}

/// Errors if a plan anonymizes under a seed of fewer than 16 characters, unless
/// `SET anonymize.allow_short_seeds = true` allows it.
///
/// Sessions call it for `COPY` and `INSERT`; whoever writes the rows of a release in another way calls it
/// before.
pub fn check_seeds(plan: &LogicalPlan, options: &ConfigOptions) -> Result<()> {
    if AnonymizeConfig::of(options).allow_short_seeds {
        return Ok(());
    }
    let mut is_short = false;
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Extension(extension) = plan
            && let Some(node) = extension.node.as_any().downcast_ref::<AnonymizeNode>()
        {
            is_short |= node.spec.secret.is_short();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if is_short {
        return plan_err!(
            "option 'seed' has fewer than 16 characters, and what is written under it can be replayed by trying them \
             all: write the output of openssl rand -hex 16, or leave the option out and one is drawn; for tests, SET \
             anonymize.allow_short_seeds = true"
        );
    }
    Ok(())
}
