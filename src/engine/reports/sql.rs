//! The arguments of the reports.

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::FunctionArg;

use super::plan::{plan_privacy, plan_two_table_utility, plan_two_tables, plan_utility};
use crate::engine::arguments::Arguments;
use crate::engine::options::{Options, SlicingOptions};
use crate::engine::planner::AnonymizeRelationPlanner;

const PRIVACY_OPTIONS: [&str; 14] = [
    "quasi_identifiers",
    "sensitive",
    "k",
    "l",
    "entropy_l",
    "t",
    "alpha",
    "sensitivity",
    "alpha_scope",
    "privacy_unit",
    "unit_share",
    "constraints",
    "bucket",
    "original",
];

const UTILITY_OPTIONS: [&str; 9] = [
    "quasi_identifiers",
    "hierarchies",
    "class",
    "k",
    "sensitive",
    "sensitivity",
    "min_support",
    "min_confidence",
    "max_columns",
];

/// `privacy_report(published, …)`.
pub(in crate::engine) fn privacy_report(
    planner: &AnonymizeRelationPlanner,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut arguments = Arguments::new("privacy_report", args, &PRIVACY_OPTIONS)?;
    let relations = std::mem::take(&mut arguments.relations);
    let plans =
        relations.into_iter().map(|input| planner.relation("privacy_report", input, context));
    let mut plans = plans.collect::<Result<Vec<LogicalPlan>>>()?;
    let options = Options {
        quasi_identifiers: arguments.columns("quasi_identifiers", context)?,
        sensitive: arguments.columns("sensitive", context)?,
        k: arguments.integer("k", context)?,
        l: arguments.integer("l", context)?,
        entropy_l: arguments.number("entropy_l", context)?,
        t: arguments.number("t", context)?,
        alpha: arguments.numbers("alpha", context)?,
        alpha_scope: arguments.text("alpha_scope", context)?,
        sensitivity: planner.sensitivity(&mut arguments, context)?,
        privacy_unit: arguments.column("privacy_unit", context)?,
        unit_share: arguments.number("unit_share", context)?,
        constraints: arguments.constraints("constraints", context)?,
        ..Options::default()
    };
    let bucket = arguments.column("bucket", context)?;
    let original = arguments.take("original");
    let original = original.map(|original| planner.relation("privacy_report", original, context));
    let original = original.transpose()?;
    match (plans.pop(), plans.pop(), plans.is_empty()) {
        (Some(published), None, true) => {
            plan_privacy(options, bucket.as_deref(), published, original)
        }
        (Some(_), Some(_), true) if bucket.is_some() || original.is_some() => {
            plan_err!("privacy_report: options 'bucket' and 'original' are for one table")
        }
        (Some(sensitive), Some(quasi_identifiers), true) => {
            plan_two_tables(options, quasi_identifiers, sensitive)
        }
        _ => plan_err!(
            "privacy_report takes one input, the published table or a query, and then options: write \
             privacy_report(published, quasi_identifiers => ['age', 'zip'], …); a release in two tables \
             is checked by privacy_report(t_qi, t_sa, sensitive => ['disease'], …)"
        ),
    }
}

/// `utility_report(original, published, …)`.
pub(in crate::engine) fn utility_report(
    planner: &AnonymizeRelationPlanner,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut arguments = Arguments::new("utility_report", args, &UTILITY_OPTIONS)?;
    let relations = std::mem::take(&mut arguments.relations);
    let plans =
        relations.into_iter().map(|input| planner.relation("utility_report", input, context));
    let mut plans = plans.collect::<Result<Vec<LogicalPlan>>>()?;
    let class = arguments.column("class", context)?;
    let mut options = Options {
        quasi_identifiers: arguments.columns("quasi_identifiers", context)?,
        k: arguments.integer("k", context)?,
        sensitive: arguments.columns("sensitive", context)?,
        sensitivity: planner.sensitivity(&mut arguments, context)?,
        slicing: SlicingOptions {
            max_columns: arguments.integer("max_columns", context)?,
            min_support: arguments.number("min_support", context)?,
            min_confidence: arguments.number("min_confidence", context)?,
            ..SlicingOptions::default()
        },
        ..Options::default()
    };
    options.hierarchies = planner.hierarchies(&mut arguments, context)?;
    let last = plans.pop();
    match (last, plans.as_mut_slice()) {
        (Some(published), [_]) => {
            let original = plans.swap_remove(0);
            plan_utility(options, class.as_deref(), original, published)
        }
        (Some(sensitive), [_, _]) => {
            let associations = options.slicing.asks_for_associations();
            let unfit = class.is_some() || options.k.is_some() || associations;
            if unfit || !options.hierarchies.is_empty() {
                return plan_err!(
                    "utility_report: two tables publish quasi-identifiers as they are; leave out class, k, \
                     hierarchies, min_support, min_confidence and max_columns"
                );
            }
            let quasi_identifiers = plans.swap_remove(1);
            plan_two_table_utility(options, plans.swap_remove(0), &quasi_identifiers, sensitive)
        }
        _ => plan_err!(
            "utility_report takes two inputs, the original and the published table (or queries), and \
             then options: write utility_report(original, published, quasi_identifiers => ['age', \
             'zip'], …); a release in two tables is measured by utility_report(original, t_qi, t_sa, \
             sensitive => ['disease'], …)"
        ),
    }
}
