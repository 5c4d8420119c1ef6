//! Which releases may be written.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use super::node::AnonymizeNode;
use super::reason::Reason;
use crate::engine::options::{AnonymizeConfig, Spec};

/// Errors if a release in the plan must not be written: it uses the paper's version of `alpha_k`, or a seed that is
/// short without `SET anonymize.allow_short_seeds = true`. Tables that were made of such a release count too.
///
/// Sessions call it for `COPY` and `INSERT`. A host that writes the rows of a release by other means calls it first.
pub fn check_may_be_written(plan: &LogicalPlan, options: &ConfigOptions) -> Result<()> {
    let allow_short_seeds = AnonymizeConfig::of(options).allow_short_seeds;
    plan.apply_with_subqueries(|plan| {
        let reason = match plan {
            LogicalPlan::Extension(extension) => {
                let node = extension.node.as_any().downcast_ref::<AnonymizeNode>();
                node.and_then(|node| Reason::of(&node.spec))
            }
            LogicalPlan::TableScan(scan) => Reason::of_table(&scan.source.schema()),
            _ => None,
        };
        match reason {
            Some(Reason::ShortSeed) if allow_short_seeds => Ok(TreeNodeRecursion::Continue),
            Some(reason) => Err(reason.error()),
            None => Ok(TreeNodeRecursion::Continue),
        }
    })?;
    Ok(())
}

/// Errors if the version of the method gives people away.
pub(in crate::engine) fn check_variant(spec: &Spec) -> Result<()> {
    match Reason::of(spec) {
        Some(reason @ Reason::Variant) => Err(reason.error()),
        _ => Ok(()),
    }
}
