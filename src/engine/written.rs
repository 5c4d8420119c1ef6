//! Which releases may be written.

use datafusion::common::plan_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use super::config::AnonymizeConfig;
use super::logical::AnonymizeNode;
use super::spec::Spec;
use crate::method::{Family, Variant};

/// Errors if a release in the plan is for experiments only: under the paper's version of `alpha_k`, or
/// under a seed of fewer than 16 characters, unless `SET anonymize.allow_short_seeds = true` allows it.
///
/// Sessions call it for `COPY` and `INSERT`; whoever writes the rows of a release in another way calls it
/// before.
pub fn check_may_be_written(plan: &LogicalPlan, options: &ConfigOptions) -> Result<()> {
    let allow_short_seeds = AnonymizeConfig::of(options).allow_short_seeds;
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Extension(extension) = plan
            && let Some(node) = extension.node.as_any().downcast_ref::<AnonymizeNode>()
        {
            check_variant(&node.spec)?;
            if node.spec.secret.is_short() && !allow_short_seeds {
                return plan_err!(
                    "option 'seed' has fewer than 16 characters, and what is written under it can be replayed by \
                     trying them all: write the output of openssl rand -hex 16, or leave the option out and one is \
                     drawn; for tests, SET anonymize.allow_short_seeds = true"
                );
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Errors if the version of the method gives people away.
pub(super) fn check_variant(spec: &Spec) -> Result<()> {
    if spec.method.family() == Family::TwoTables && spec.variant == Variant::Paper {
        return plan_err!(
            "variant => 'paper' of method '{}' groups rows in the order of their quasi-identifiers, which a \
             reader of both tables can use to name people: it is for experiments and is not written; leave it out",
            spec.method
        );
    }
    Ok(())
}
