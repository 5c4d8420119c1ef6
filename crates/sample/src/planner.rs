//! `FROM sample_census(…)` and `FROM sample_hierarchy(…)`: from syntax to logical plans.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, plan_datafusion_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{FunctionArg, TableFactor};

use super::arguments::{Arguments, fold};
use super::hierarchy::{HierarchyTable, hierarchy_columns};
use super::table::{CensusOptions, CensusTable};

/// Plans the functions of this crate. Everything else goes to the next planner.
#[derive(Debug)]
pub(super) struct SamplePlanner;

impl RelationPlanner for SamplePlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table { name, args: Some(args), alias, .. } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = match name.to_string().to_lowercase().as_str() {
            "sample_census" => sample_census(args.args.clone(), context)?,
            "sample_hierarchy" => sample_hierarchy(args.args.clone(), context)?,
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        let planned = PlannedRelation::new(plan, alias.clone());
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

fn sample_census(
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let function = "sample_census";
    let mut arguments = Arguments::new(function, args, &["rows", "seed", "missing"])?;
    if !arguments.unnamed.is_empty() {
        return plan_err!(
            "{function} takes named options only: write {function}(rows => 1000, seed => 7)"
        );
    }
    let rows = arguments.whole_number("rows", context)?.unwrap_or(1000);
    let rows = u64::try_from(rows)
        .map_err(|_| plan_datafusion_err!("{function}: option 'rows': {rows} is below 0"))?;
    let seed = arguments.whole_number("seed", context)?.unwrap_or(0) as u64;
    let missing = arguments.number("missing", context)?.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&missing) {
        return plan_err!("{function}: option 'missing': {missing} is not between 0 and 1");
    }
    scan(function, Arc::new(CensusTable::new(CensusOptions { rows, seed, missing })))
}

fn sample_hierarchy(
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let function = "sample_hierarchy";
    let mut arguments = Arguments::new(function, args, &["column"])?;
    let column = match arguments.unnamed.pop() {
        Some(value) => {
            fold(value, context).and_then(|column| column.try_as_str().flatten().map(str::to_owned))
        }
        None => arguments.text("column", context)?,
    };
    let known = hierarchy_columns().join(", ");
    let table = column.as_deref().map(HierarchyTable::new).transpose()?.flatten();
    let table = table.ok_or_else(|| {
        plan_datafusion_err!(
            "{function} knows the columns {known}: write {function}(column => 'education')"
        )
    })?;
    scan(function, Arc::new(table))
}

fn scan(function: &str, table: Arc<dyn TableProvider>) -> Result<LogicalPlan> {
    let source = provider_as_source(table);
    LogicalPlanBuilder::scan(TableReference::bare(function), source, None)?.build()
}
