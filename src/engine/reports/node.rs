//! A report in a logical plan.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result, assert_eq_or_internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use super::Report;
use crate::engine::plan::take_back_filter;

/// A report over its grouped inputs, and the tables of its hierarchies.
///
/// Every group counts, so no filter and no limit goes below. DataFusion pushes predicates without
/// columns below any extension node; they are taken back and applied to the report.
#[derive(Debug, Clone)]
pub struct ReportNode {
    pub(in crate::engine) report: Arc<Report>,
    inputs: Vec<LogicalPlan>,
    /// Predicates without columns that belong above the node.
    pub(in crate::engine) filters: Vec<Expr>,
    schema: DFSchemaRef,
}

impl ReportNode {
    /// The node over inputs that [`super::plan`] has grouped.
    pub(in crate::engine) fn try_new(
        report: Arc<Report>,
        inputs: Vec<LogicalPlan>,
        filters: Vec<Expr>,
    ) -> Result<Self> {
        let schema = DFSchema::try_from_qualified_schema(report.function(), &report.schema())?;
        Ok(Self { report, inputs, filters, schema: Arc::new(schema) })
    }
}

impl UserDefinedLogicalNodeCore for ReportNode {
    fn name(&self) -> &str {
        self.report.name()
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let all = |plan: &LogicalPlan| (0..plan.schema().fields().len()).collect();
        Some(self.inputs.iter().map(all).collect())
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.report.name(), self.report)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        assert_eq_or_internal_err!(inputs.len(), self.inputs.len());
        let mut filters = self.filters.clone();
        let taken_back = |(new, old)| {
            let mut taken = Vec::new();
            let input = take_back_filter(new, old, &mut taken);
            // A predicate is pushed onto every input at once: one copy is enough.
            taken.retain(|filter| !filters.contains(filter));
            filters.append(&mut taken);
            input
        };
        let inputs = inputs.into_iter().zip(&self.inputs).map(taken_back).collect();
        Self::try_new(Arc::clone(&self.report), inputs, filters)
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }
}

impl PartialEq for ReportNode {
    fn eq(&self, other: &Self) -> bool {
        self.report == other.report && self.inputs == other.inputs && self.filters == other.filters
    }
}

// No number of a report is ever NaN: all are checked to be in range.
impl Eq for ReportNode {}

impl Hash for ReportNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.report.to_string().hash(state);
        self.inputs.hash(state);
        self.filters.hash(state);
    }
}

impl PartialOrd for ReportNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other { Some(Ordering::Equal) } else { self.inputs.partial_cmp(&other.inputs) }
    }
}
