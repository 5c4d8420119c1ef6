//! `anonymize_methods()`: the methods as a table.

use std::sync::Arc;

use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{LogicalPlanBuilder, lit};
use datafusion::prelude::col;

use crate::method::{Family, methods};

/// The name of the function.
pub(super) const NAME: &str = "anonymize_methods";

/// Its columns; `choose_when` completes "choose it when".
const COLUMNS: [&str; 4] = ["name", "publishes", "choose_when", "class_sizes"];

/// The table function. It returns values in a view, which every engine can send elsewhere with the rest of a plan.
#[derive(Debug)]
pub(super) struct Methods;

impl TableFunctionImpl for Methods {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return plan_err!("{NAME}() takes no arguments");
        }
        let rows = methods().map(|method| {
            let about = method.about();
            let publishes = match about.family {
                Family::Classes | Family::Constraints => "one table, generalized",
                Family::TwoTables => "two tables, exact",
                Family::Slices => "one table, permuted",
            };
            [about.name, publishes, about.summary, about.class_sizes].map(lit).to_vec()
        });
        let names = COLUMNS.iter().enumerate();
        let names = names.map(|(at, name)| col(format!("column{}", at + 1)).alias(*name));
        let plan = LogicalPlanBuilder::values(rows.collect())?.project(names)?.build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}
