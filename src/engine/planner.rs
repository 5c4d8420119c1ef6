//! `FROM anonymize(…)` and its relatives: from syntax to logical plans.

use std::sync::{Arc, Weak};

use datafusion::common::{DataFusionError, Result, TableReference, plan_datafusion_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Function, FunctionArg, FunctionArguments, Ident, ObjectName, TableFactor,
    TableFunctionArgs,
};
use futures::FutureExt;
use parking_lot::RwLock;

use super::arguments::{Arguments, Listing, fold, positional, text_value};
use super::builder::plan_anonymize;
use super::census::{CensusOptions, HierarchyTable, hierarchy_columns, sample_census};
use super::options::{Hierarchy, Options, Sensitivity, SlicingOptions};
use super::reports::{privacy_report, utility_report};
use crate::hierarchy::DateStep;
use crate::model::Secret;

/// Plans the table functions of this crate. Everything else goes to the next planner.
#[derive(Debug)]
pub struct AnonymizeRelationPlanner {
    state: Weak<RwLock<SessionState>>,
}

const ANONYMIZE_OPTIONS: [&str; 34] = [
    "k",
    "quasi_identifiers",
    "sensitive",
    "identifiers",
    "keep",
    "privacy_unit",
    "unit_share",
    "method",
    "variant",
    "hierarchies",
    "l",
    "entropy_l",
    "t",
    "alpha",
    "sensitivity",
    "alpha_scope",
    "publish",
    "split",
    "ranges",
    "class_id",
    "bucket_id",
    "column_groups",
    "constraints",
    "suppress",
    "suppression_limit",
    "weights",
    "block_rows",
    "columns",
    "max_columns",
    "min_columns",
    "min_support",
    "min_confidence",
    "rare_below",
    "seed",
];

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
            "sample_census" => sample_census_plan(args, context)?,
            "sample_hierarchy" => sample_hierarchy_plan(args, context)?,
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
        let mut arguments = Arguments::new("anonymize", args, &ANONYMIZE_OPTIONS)?;
        let [input] = arguments.relations.as_slice() else {
            return plan_err!(
                "anonymize takes one input, a table or a query, and then options: write \
                 anonymize(patients, k => 10, …) or anonymize((SELECT …), k => 10, …)"
            );
        };
        let input = self.relation("anonymize", input.clone(), context)?;
        let mut options = Options {
            k: arguments.integer("k", context)?,
            quasi_identifiers: arguments.columns("quasi_identifiers", context)?,
            sensitive: arguments.columns("sensitive", context)?,
            identifiers: arguments.columns("identifiers", context)?,
            keep: arguments.columns("keep", context)?,
            privacy_unit: arguments.column("privacy_unit", context)?,
            unit_share: arguments.number("unit_share", context)?,
            method: arguments.text("method", context)?,
            split: arguments.text("split", context)?,
            ranges: arguments.text("ranges", context)?,
            hierarchies: Vec::new(),
            l: arguments.integer("l", context)?,
            entropy_l: arguments.number("entropy_l", context)?,
            t: arguments.number("t", context)?,
            alpha: arguments.numbers("alpha", context)?,
            alpha_scope: arguments.text("alpha_scope", context)?,
            sensitivity: self.sensitivity(&mut arguments, context)?,
            publish: arguments.text("publish", context)?,
            variant: arguments.text("variant", context)?,
            constraints: arguments.constraints("constraints", context)?,
            suppress: arguments.text_or_boolean("suppress", context)?,
            suppression_limit: arguments.number("suppression_limit", context)?,
            weights: arguments.column_numbers("weights", context)?,
            block_rows: arguments.integer("block_rows", context)?,
            slicing: SlicingOptions {
                columns: arguments.integer("columns", context)?,
                max_columns: arguments.integer("max_columns", context)?,
                min_columns: arguments.integer("min_columns", context)?,
                min_support: arguments.number("min_support", context)?,
                min_confidence: arguments.number("min_confidence", context)?,
                rare_below: arguments.number("rare_below", context)?,
                bucket_id: arguments.maybe_boolean("bucket_id", context)?,
                column_groups: arguments.maybe_boolean("column_groups", context)?,
            },
            class_id: arguments.boolean("class_id", context)?,
            seed: arguments.secret("seed", context)?.map(|seed| Secret::from_text(&seed)),
        };
        options.hierarchies = self.hierarchies(&mut arguments, context)?;
        plan_anonymize(options, input, &self.session()?)
    }

    /// The `hierarchies` option of any of the functions.
    pub(super) fn hierarchies(
        &self,
        arguments: &mut Arguments,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Vec<(String, Hierarchy)>> {
        let function = arguments.function;
        let entries = arguments.entries("hierarchies", context)?;
        let mut hierarchies = Vec::with_capacity(entries.len());
        for (column, value) in entries {
            let hierarchy = self.hierarchy(function, &column, value, context)?;
            hierarchies.push((column, hierarchy));
        }
        Ok(hierarchies)
    }

    /// The `sensitivity` option of any of the functions: values with levels, or a table of them.
    pub(super) fn sensitivity(
        &self,
        arguments: &mut Arguments,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<Sensitivity>> {
        let function = arguments.function;
        Ok(match arguments.listed_numbers("sensitivity", context)? {
            None => None,
            Some(Listing::Numbers(listed)) => Some(Sensitivity::Listed(listed)),
            Some(Listing::Other(other))
                if matches!(other.as_ref(), SqlExpr::Value(_) | SqlExpr::Array(_)) =>
            {
                return plan_err!(
                    "{function}: option 'sensitivity' must be values with levels, as in {{HIV: 1, Flu: 4}}, \
                     or a table of values and levels"
                );
            }
            Some(Listing::Other(relation)) => {
                let plan = self.relation(function, *relation, context).map_err(|error| match error {
                    DataFusionError::Plan(message) => plan_datafusion_err!(
                        "{function}: option 'sensitivity': {message}; write values with levels, as in \
                         {{HIV: 1, Flu: 4}}, or name a table of values and levels"
                    ),
                    other => other,
                })?;
                Some(Sensitivity::Table(Box::new(plan)))
            }
        })
    }

    fn hierarchy(
        &self,
        function: &'static str,
        column: &str,
        value: SqlExpr,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Hierarchy> {
        match value {
            SqlExpr::Function(call) if is_hierarchy_function(&call) => {
                hierarchy_function(function, column, call, context)
            }
            SqlExpr::Value(value) => match text_value(&value.value) {
                Some(path) => Ok(Hierarchy::File(path)),
                None => plan_err!(
                    "{function}: the hierarchy of column '{column}' must be {HIERARCHIES}"
                ),
            },
            relation => {
                let plan = self.relation(function, relation, context).map_err(|error| match error {
                    DataFusionError::Plan(message) => plan_datafusion_err!(
                        "{function}: the hierarchy of column '{column}': {message}; a hierarchy is {HIERARCHIES}"
                    ),
                    other => other,
                })?;
                Ok(Hierarchy::Table(Box::new(plan)))
            }
        }
    }

    /// An argument that names or is a relation.
    pub(super) fn relation(
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
        // The planner cannot wait: a catalog that must first ask somebody answers "not yet".
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

const HIERARCHIES: &str = "intervals(5, 10), prefixes(3, 2), date_steps('month', 'year'), a table, a query or a path to a CSV file";

fn is_hierarchy_function(call: &Function) -> bool {
    let name = call.name.to_string().to_lowercase();
    ["intervals", "prefixes", "date_steps"].contains(&name.as_str())
}

fn hierarchy_function(
    function: &str,
    column: &str,
    call: Function,
    context: &mut dyn RelationPlannerContext,
) -> Result<Hierarchy> {
    let name = call.name.to_string().to_lowercase();
    let takes = match name.as_str() {
        "intervals" => "numbers, as in intervals(5, 10, 20)",
        "prefixes" => "how many characters to keep, as in prefixes(4, 3, 2)",
        _ => "calendar units, as in date_steps('month', 'year')",
    };
    let wrong = || {
        plan_datafusion_err!(
            "{function}: the hierarchy of column '{column}': {name}() takes {takes}"
        )
    };
    let args = positional(call.args).ok_or_else(wrong)?;
    let constants = args.into_iter().map(|arg| fold(arg, context)).collect::<Option<Vec<_>>>();
    let constants = constants.ok_or_else(wrong)?;
    let texts = || {
        constants
            .iter()
            .map(|constant| constant.try_as_str().flatten())
            .collect::<Option<Vec<&str>>>()
    };
    let in_column =
        |error| plan_datafusion_err!("{function}: the hierarchy of column '{column}': {error}");
    match (name.as_str(), texts()) {
        // Calendar units may also be written as intervals('month', 'year').
        ("date_steps" | "intervals", Some(units)) if !units.is_empty() => {
            let steps = units.iter().map(|unit| unit.parse::<DateStep>()).collect::<Result<_, _>>();
            Ok(Hierarchy::Dates(steps.map_err(in_column)?))
        }
        ("intervals", _) if constants.iter().all(|constant| constant.data_type().is_numeric()) => {
            Ok(Hierarchy::intervals(constants))
        }
        ("prefixes", _) if constants.iter().all(|constant| constant.data_type().is_integer()) => {
            let kept = constants.iter().map(|constant| constant.to_string().parse::<usize>());
            Ok(Hierarchy::Prefixes(kept.collect::<Result<_, _>>().map_err(|_| wrong())?))
        }
        ("date_steps", _) if constants.is_empty() => Ok(Hierarchy::Dates(Vec::new())),
        _ => Err(wrong()),
    }
}

fn sample_census_plan(
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let function = "sample_census";
    let mut arguments = Arguments::new(function, args, &["rows", "seed", "missing"])?;
    if !arguments.relations.is_empty() {
        return plan_err!(
            "{function} takes named options only: write {function}(rows => 1000, seed => 7)"
        );
    }
    let rows = arguments.integer("rows", context)?.unwrap_or(1000);
    let rows = u64::try_from(rows)
        .map_err(|_| plan_datafusion_err!("{function}: option 'rows': {rows} is below 0"))?;
    let seed = arguments.integer("seed", context)?.unwrap_or(0) as u64;
    let missing = arguments.number("missing", context)?.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&missing) {
        return plan_err!("{function}: option 'missing': {missing} is not between 0 and 1");
    }
    let source = provider_as_source(sample_census(CensusOptions { rows, seed, missing }));
    LogicalPlanBuilder::scan(TableReference::bare(function), source, None)?.build()
}

fn sample_hierarchy_plan(
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let function = "sample_hierarchy";
    let mut arguments = Arguments::new(function, args, &["column"])?;
    let column = match arguments.relations.pop() {
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
    let source = provider_as_source(Arc::new(table));
    LogicalPlanBuilder::scan(TableReference::bare(function), source, None)?.build()
}
