//! The arguments of the reports.

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::FunctionArg;

use super::arguments::Arguments;
use super::planner::AnonymizeRelationPlanner;
use crate::engine::options::ColumnKind;
use crate::engine::reports::{
    Published, plan_privacy_report, plan_series_report, plan_utility_report,
};

/// `privacy_report(published, …)`.
pub(in crate::engine) fn privacy_report(
    planner: &AnonymizeRelationPlanner,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut arguments = Arguments::new("privacy_report", args, &["bucket", "original"])?;
    let mut tables = relations(planner, &mut arguments, context)?;
    let options = planner.options(&mut arguments, context)?;
    let bucket = arguments.read::<ColumnKind>("bucket", context)?;
    let original = arguments.take("original");
    let original = original.map(|original| planner.relation("privacy_report", original, context));
    let original = original.transpose()?;
    let Some(published) = tables.next().and_then(|first| published(first, tables)) else {
        return plan_err!(
            "privacy_report takes one input, the published table or a query, and then options: write \
             privacy_report(published, quasi_identifiers => ['age', 'zip'], …); a release in two tables \
             is checked by privacy_report(t_qi, t_sa, sensitive => ['disease'], …)"
        );
    };
    plan_privacy_report(options, published, bucket.as_deref(), original)
}

/// `utility_report(original, published, …)`.
pub(in crate::engine) fn utility_report(
    planner: &AnonymizeRelationPlanner,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut arguments = Arguments::new("utility_report", args, &["class"])?;
    let mut tables = relations(planner, &mut arguments, context)?;
    let class = arguments.read::<ColumnKind>("class", context)?;
    let options = planner.options(&mut arguments, context)?;
    let (original, first) = (tables.next(), tables.next());
    let published = first.and_then(|first| published(first, tables));
    let (Some(original), Some(published)) = (original, published) else {
        return plan_err!(
            "utility_report takes two inputs, the original and the published table (or queries), and \
             then options: write utility_report(original, published, quasi_identifiers => ['age', \
             'zip'], …); a release in two tables is measured by utility_report(original, t_qi, t_sa, \
             sensitive => ['disease'], …)"
        );
    };
    plan_utility_report(options, original, published, class.as_deref())
}

/// `series_report(first, second, …)`.
pub(in crate::engine) fn series_report(
    planner: &AnonymizeRelationPlanner,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut arguments = Arguments::new("series_report", args, &["register"])?;
    let releases: Vec<LogicalPlan> = relations(planner, &mut arguments, context)?.collect();
    let options = planner.options(&mut arguments, context)?;
    let register = arguments.take("register");
    let register = register.map(|register| planner.relation("series_report", register, context));
    let register = register.transpose()?;
    if releases.is_empty() {
        return plan_err!(
            "series_report takes the releases, tables or queries, in the order in which they were published, and \
             then options: write series_report(night_1, night_2, …, k => 10, sensitive => ['disease'])"
        );
    }
    plan_series_report(options, releases, register)
}

fn relations(
    planner: &AnonymizeRelationPlanner,
    arguments: &mut Arguments,
    context: &mut dyn RelationPlannerContext,
) -> Result<std::vec::IntoIter<LogicalPlan>> {
    let function = arguments.function;
    let relations = std::mem::take(&mut arguments.relations).into_iter();
    let plans = relations.map(|input| planner.relation(function, input, context));
    Ok(plans.collect::<Result<Vec<LogicalPlan>>>()?.into_iter())
}

/// One table or two, `None` if there are more.
fn published(first: LogicalPlan, mut more: impl Iterator<Item = LogicalPlan>) -> Option<Published> {
    match (more.next(), more.next()) {
        (None, _) => Some(Published::Table(first)),
        (Some(sensitive), None) => {
            Some(Published::TwoTables { quasi_identifiers: first, sensitive })
        }
        _ => None,
    }
}
