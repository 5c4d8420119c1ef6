//! `FROM anonymize(…)` and its relatives: from syntax to logical plans.

use std::sync::Weak;

use datafusion::common::{DataFusionError, Result, TableReference, plan_datafusion_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArguments, Ident, ObjectName, TableFactor,
    TableFunctionArgs,
};
use futures::FutureExt;
use parking_lot::RwLock;

use super::arguments::{Arguments, text_value};
use super::reports::{privacy_report, series_report, utility_report};
use crate::engine::options::{Options, Relation};
use crate::engine::plan::plan_anonymize;

/// Plans the table functions of this crate. Everything else goes to the next planner.
#[derive(Debug)]
pub struct AnonymizeRelationPlanner {
    state: Weak<RwLock<SessionState>>,
}

impl RelationPlanner for AnonymizeRelationPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table { name, args: Some(args), alias, .. } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let args = args.args.clone();
        let plan = match name.to_string().to_lowercase().as_str() {
            "anonymize" => self.anonymize(args, context)?,
            "privacy_report" => privacy_report(self, args, context)?,
            "utility_report" => utility_report(self, args, context)?,
            "series_report" => series_report(self, args, context)?,
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        let planned = PlannedRelation::new(plan, alias.clone());
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

impl AnonymizeRelationPlanner {
    /// A planner for the session whose tables arguments may name.
    pub fn new(state: Weak<RwLock<SessionState>>) -> Self {
        Self { state }
    }

    fn session(&self) -> Result<SessionState> {
        let state = self.state.upgrade();
        let state = state.ok_or_else(|| plan_datafusion_err!("the session has ended"))?;
        Ok(state.read().clone())
    }

    fn anonymize(
        &self,
        args: Vec<FunctionArg>,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let mut arguments = Arguments::new("anonymize", args, &[])?;
        let [input] = arguments.relations.as_slice() else {
            return plan_err!(
                "anonymize takes one input, a table or a query, and then options: write \
                 anonymize(patients, k => 10, …) or anonymize((SELECT …), k => 10, …)"
            );
        };
        let input = self.relation("anonymize", input.clone(), context)?;
        let options = self.options(&mut arguments, context)?;
        plan_anonymize(options, input, &self.session()?)
    }

    /// The options that a function shares with `anonymize`, with their relations looked up.
    pub(in crate::engine) fn options(
        &self,
        arguments: &mut Arguments,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Options> {
        let function = arguments.function;
        let mut options = arguments.options(context)?;
        for lookup in options.relations() {
            let Relation::Syntax(syntax) = &*lookup.relation else { continue };
            let plan = self.relation(function, syntax.as_ref().clone(), context);
            let plan = plan.map_err(|error| match error {
                DataFusionError::Plan(message) => plan_datafusion_err!(
                    "{function}: {}: {message}; {}",
                    lookup.what,
                    lookup.instead
                ),
                other => other,
            })?;
            *lookup.relation = Relation::Plan(Box::new(plan));
        }
        Ok(options)
    }

    /// An argument that names or is a relation.
    pub(in crate::engine) fn relation(
        &self,
        function: &str,
        value: SqlExpr,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        match value {
            SqlExpr::Subquery(subquery) => context.plan(TableFactor::Derived {
                lateral: false,
                subquery,
                alias: None,
                sample: None,
            }),
            SqlExpr::Identifier(name) => self.table(vec![name], context),
            SqlExpr::CompoundIdentifier(names) => self.table(names, context),
            SqlExpr::Function(call) => {
                let FunctionArguments::List(list) = call.args else {
                    return plan_err!("{function}: {} needs a list of arguments", call.name);
                };
                let args = Some(TableFunctionArgs { args: list.args, settings: None });
                context.plan(named_table(call.name, args))
            }
            SqlExpr::Value(value) if text_value(&value.value).is_some() => plan_err!(
                "{function}: a file is read by a query; write {function}((SELECT * FROM {value}), …)"
            ),
            _ => plan_err!(
                "{function}: the input must be a table or a query in parentheses, (SELECT …)"
            ),
        }
    }

    fn table(
        &self,
        names: Vec<Ident>,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let name = ObjectName::from(names);
        // A common table expression, or a table that the query names elsewhere too.
        if let Ok(plan) = context.plan(named_table(name.clone(), None)) {
            return Ok(plan);
        }
        let reference = context.object_name_to_table_reference(name)?;
        let state = self.session()?;
        let schema = state.schema_for_ref(reference.clone())?;
        // The planner is synchronous: a catalog that has to wait for its answer cannot be used.
        match schema.table(reference.table()).now_or_never() {
            Some(Ok(Some(table))) => {
                let source = provider_as_source(table);
                LogicalPlanBuilder::scan(reference, source, None)?.build()
            }
            Some(Ok(None)) => unknown_table(&reference, &schema.table_names(), ""),
            Some(Err(error)) => Err(error),
            None => {
                let hint =
                    format!("; a table that is not listed: write (SELECT * FROM {reference})");
                unknown_table(&reference, &schema.table_names(), &hint)
            }
        }
    }
}

fn unknown_table<T>(reference: &TableReference, known: &[String], hint: &str) -> Result<T> {
    let mut known = known.to_vec();
    known.sort_unstable();
    let listed = if known.is_empty() {
        "there are none yet".to_owned()
    } else {
        format!("there are {}", known.join(", "))
    };
    plan_err!("there is no table '{reference}'; {listed}{hint}")
}

fn named_table(name: ObjectName, args: Option<TableFunctionArgs>) -> TableFactor {
    TableFactor::Table {
        name,
        alias: None,
        args,
        with_hints: vec![],
        version: None,
        with_ordinality: false,
        partitions: vec![],
        json_path: None,
        sample: None,
        index_hints: vec![],
    }
}
