//! The arguments of the reports.

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::FunctionArg;

use super::plan::{plan_privacy, plan_utility};
use crate::engine::arguments::Arguments;
use crate::engine::options::Options;
use crate::engine::planner::AnonymizeRelationPlanner;

const PRIVACY_OPTIONS: [&str; 8] =
    ["quasi_identifiers", "sensitive", "k", "l", "entropy_l", "t", "alpha", "constraints"];

const UTILITY_OPTIONS: [&str; 4] = ["quasi_identifiers", "hierarchies", "class", "k"];

/// `privacy_report(published, …)`.
pub(in crate::engine) fn privacy_report(
    planner: &AnonymizeRelationPlanner,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut arguments = Arguments::new("privacy_report", args, &PRIVACY_OPTIONS)?;
    let [published] = arguments.relations.as_slice() else {
        return plan_err!(
            "privacy_report takes one input, the published table or a query, and then options: \
             write privacy_report(published, quasi_identifiers => ['age', 'zip'], …)"
        );
    };
    let published = planner.relation("privacy_report", published.clone(), context)?;
    let options = Options {
        quasi_identifiers: arguments.columns("quasi_identifiers", context)?,
        sensitive: arguments.columns("sensitive", context)?,
        k: arguments.integer("k", context)?,
        l: arguments.integer("l", context)?,
        entropy_l: arguments.number("entropy_l", context)?,
        t: arguments.number("t", context)?,
        alpha: arguments.numbers("alpha", context)?,
        constraints: arguments.constraints("constraints", context)?,
        ..Options::default()
    };
    plan_privacy(&options, published)
}

/// `utility_report(original, published, …)`.
pub(in crate::engine) fn utility_report(
    planner: &AnonymizeRelationPlanner,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut arguments = Arguments::new("utility_report", args, &UTILITY_OPTIONS)?;
    let [original, published] = arguments.relations.as_slice() else {
        return plan_err!(
            "utility_report takes two inputs, the original and the published table (or queries), \
             and then options: write utility_report(original, published, quasi_identifiers => \
             ['age', 'zip'], …)"
        );
    };
    let (original, published) = (original.clone(), published.clone());
    let original = planner.relation("utility_report", original, context)?;
    let published = planner.relation("utility_report", published, context)?;
    let class = arguments.column("class", context)?;
    let mut options = Options {
        quasi_identifiers: arguments.columns("quasi_identifiers", context)?,
        k: arguments.integer("k", context)?,
        ..Options::default()
    };
    options.hierarchies = planner.hierarchies(&mut arguments, context)?;
    plan_utility(options, class.as_deref(), original, published)
}
