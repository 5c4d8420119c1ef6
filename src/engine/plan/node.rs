//! `anonymize` in a logical plan.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, TableReference, internal_err};
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore, cast,
};

use super::reason;
use crate::columnar::{ColumnGroups, Kind, OutputColumn};
use crate::engine::options::{
    COHORT, COLUMN_GROUPS, HELD, PERSON, Publish, SeriesOutput, SeriesSpec, Spec, listed,
};
use crate::method::Family;

/// The qualifier of the output's columns, until an alias replaces it.
pub const QUALIFIER: &str = "anonymize";

/// `anonymize(input, …)`: the input, the tables that its options name and the checked request.
///
/// What the optimizer may and may not do with it:
///
/// 1. Quasi-identifiers, sensitive columns and the privacy unit are expressions of the node, so they
///    are always read: classes must not depend on what a query selects.
/// 2. Kept columns that nobody selects are pruned from the input and vanish from the output here.
/// 3. No filter and no limit goes below: rows that are filtered away still hide others.
/// 4. DataFusion pushes predicates without columns (`random() < 0.5`) below any extension node. They
///    are taken back here and applied to the output.
#[derive(Debug, Clone)]
pub struct AnonymizeNode {
    pub(in crate::engine) spec: Arc<Spec>,
    pub(in crate::engine) input: LogicalPlan,
    pub(in crate::engine) tables: Vec<LogicalPlan>,
    /// Predicates without columns that belong above the node.
    pub(in crate::engine) filters: Vec<Expr>,
    schema: DFSchemaRef,
}

impl AnonymizeNode {
    /// The node over an input; tables of hierarchies as `hierarchy_input` prepares them.
    pub fn try_new(
        spec: Arc<Spec>,
        input: LogicalPlan,
        tables: Vec<LogicalPlan>,
        filters: Vec<Expr>,
    ) -> Result<Self> {
        let schema = Arc::new(output_schema(&spec, input.schema())?);
        Ok(Self { spec, input, tables, filters, schema })
    }

    /// Positions of the roles' columns in the input.
    pub(in crate::engine) fn binding(&self) -> Result<Binding> {
        Binding::new(&self.spec, self.input.schema())
    }
}

/// Positions in the input of the columns of each role. Pruned kept columns are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct Binding {
    /// As declared.
    pub quasi_identifiers: Vec<usize>,
    /// As declared.
    pub sensitive: Vec<usize>,
    /// As declared.
    pub keep: Vec<usize>,
    /// At most one.
    pub privacy_unit: Option<usize>,
    /// Which of two tables is published, `None` for a release in one.
    pub publish: Option<Publish>,
    /// Whether rows are published in columns that were permuted apart.
    pub sliced: bool,
    /// Whether it is published which columns were permuted together.
    pub column_groups: bool,
    /// What a release of a series publishes beside its rows.
    pub series: Option<SeriesColumns>,
}

/// What a release of a series publishes beside its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct SeriesColumns {
    /// The release or the members of its new cohorts.
    pub output: SeriesOutput,
    /// Whether it is published of which cohorts somebody is gone.
    pub held: bool,
}

impl Binding {
    pub(super) fn new(spec: &Spec, input: &DFSchema) -> Result<Self> {
        let index = |column: &Column| input.index_of_column(column);
        let quasi_identifiers = spec.quasi_identifiers.iter().map(|qi| index(&qi.column));
        Ok(Self {
            quasi_identifiers: quasi_identifiers.collect::<Result<_>>()?,
            sensitive: spec.sensitive.iter().map(index).collect::<Result<_>>()?,
            keep: spec
                .keep
                .iter()
                .filter_map(|column| input.maybe_index_of_column(column))
                .collect(),
            privacy_unit: spec.privacy_unit.as_ref().map(index).transpose()?,
            publish: spec.publish,
            sliced: spec.slicing.is_some(),
            column_groups: spec.slicing.as_ref().is_some_and(|slicing| slicing.column_groups),
            series: (spec.series.as_ref())
                .map(|series| SeriesColumns { output: series.output, held: series.held }),
        })
    }

    /// Whether the members of a series are published instead of its release.
    fn publishes_members(&self) -> bool {
        self.series.is_some_and(|series| series.output == SeriesOutput::Members)
    }

    /// The columns beside quasi-identifiers that are published as they are, in input order.
    pub fn payload(&self) -> Vec<usize> {
        let (sensitive, keep): (&[usize], &[usize]) = match self.publish {
            None if self.publishes_members() => (&[], &[]),
            None => (&self.sensitive, &self.keep),
            Some(Publish::QuasiIdentifiers) => (&[], &self.keep),
            Some(Publish::Sensitive) => (&self.sensitive, &[]),
        };
        let mut payload: Vec<usize> = sensitive.iter().chain(keep).copied().collect();
        payload.sort_unstable();
        payload
    }

    /// What the output consists of: the published columns in input order, then the class. A table
    /// of sensitive values has the class first.
    pub fn output(&self, class_id: bool) -> Vec<OutputColumn> {
        if self.publishes_members() {
            return vec![OutputColumn::Person, OutputColumn::Cohort];
        }
        let payload = self.payload();
        let quasi_identifiers: &[usize] = match self.publish {
            Some(Publish::Sensitive) => &[],
            Some(Publish::QuasiIdentifiers) | None => &self.quasi_identifiers,
        };
        let as_published = match self.publish {
            None if self.sliced => OutputColumn::SlicedQuasiIdentifier,
            None => OutputColumn::QuasiIdentifier,
            Some(_) => OutputColumn::ExactQuasiIdentifier,
        };
        let end = quasi_identifiers.iter().chain(&payload).max().map_or(0, |last| last + 1);
        let published = (0..end).filter_map(|column| {
            let quasi_identifier = quasi_identifiers.iter().position(|qi| *qi == column);
            let kept = payload.iter().position(|kept| *kept == column);
            let as_kept = match self.sliced && !self.sensitive.contains(&column) {
                true => OutputColumn::PayloadApart,
                false => OutputColumn::Payload,
            };
            quasi_identifier.map(as_published).or(kept.map(as_kept))
        });
        let class_id = class_id.then_some(OutputColumn::ClassId);
        let groups = self.column_groups.then_some(OutputColumn::ColumnGroups);
        match self.publish {
            Some(Publish::Sensitive) => class_id.into_iter().chain(published).collect(),
            _ => {
                let cohort = self.series.map(|_| OutputColumn::Cohort);
                let held = self.series.filter(|series| series.held).map(|_| OutputColumn::Held);
                published.chain(class_id).chain(groups).chain(cohort).chain(held).collect()
            }
        }
    }
}

fn output_schema(spec: &Spec, input: &DFSchema) -> Result<DFSchema> {
    let binding = Binding::new(spec, input)?;
    let fields = output_fields(spec, &binding, input.as_arrow())?;
    let qualifier = || Some(TableReference::bare(QUALIFIER));
    let fields = fields.into_iter().map(|field| (qualifier(), Arc::new(field))).collect();
    DFSchema::new_with_metadata(fields, metadata(spec).into_iter().collect())
}

/// The fields of the output. Descriptions of raw quasi-identifiers are not carried over.
pub(in crate::engine) fn output_fields(
    spec: &Spec,
    binding: &Binding,
    input: &Schema,
) -> Result<Vec<Field>> {
    let payload = binding.payload();
    let field = |column: OutputColumn| {
        Ok(match column {
            OutputColumn::QuasiIdentifier(index) | OutputColumn::SlicedQuasiIdentifier(index) => {
                let field = input.field(binding.quasi_identifiers[index]);
                let kind = Kind::of(field.data_type(), field.name())
                    .map_err(crate::engine::planning_error)?;
                Field::new(field.name(), spec.ranges.published_type(field.data_type(), kind), true)
            }
            OutputColumn::ExactQuasiIdentifier(index) => {
                let field = input.field(binding.quasi_identifiers[index]);
                Field::new(field.name(), field.data_type().clone(), field.is_nullable())
            }
            OutputColumn::Payload(index) | OutputColumn::PayloadApart(index) => {
                input.field(payload[index]).clone()
            }
            OutputColumn::ClassId => Field::new(spec.class_column(), DataType::UInt64, false),
            OutputColumn::ColumnGroups => {
                Field::new(COLUMN_GROUPS, ColumnGroups::data_type(), false)
            }
            OutputColumn::Cohort => Field::new(COHORT, DataType::Int64, false),
            OutputColumn::Held => Field::new(HELD, DataType::Boolean, false),
            OutputColumn::Person => Field::new(PERSON, DataType::FixedSizeBinary(16), false),
        })
    };
    binding.output(spec.class_id).into_iter().map(field).collect()
}

/// Where the schema of a release names its method.
const METHOD: &str = "anonymize.method";

/// What a reader of the release may know about how it was made: never values, never the seed.
pub(in crate::engine) fn metadata(spec: &Spec) -> BTreeMap<String, String> {
    let mut metadata = BTreeMap::from([(METHOD.to_owned(), spec.method.to_string())]);
    if spec.method.family() == Family::Constraints {
        metadata.insert("anonymize.constraints".to_owned(), spec.named_constraints());
    } else {
        metadata.insert("anonymize.k".to_owned(), spec.k.to_string());
    }
    if spec.has_models() {
        metadata.insert("anonymize.models".to_owned(), listed(spec.model_entries()));
    }
    if let Some(publish) = spec.publish {
        metadata.insert("anonymize.publish".to_owned(), publish.to_string());
    }
    if spec.privacy_unit.is_some() {
        metadata.insert("anonymize.k_counts".to_owned(), "privacy units".to_owned());
    }
    if let Some(share) = spec.unit_share {
        metadata.insert("anonymize.unit_share".to_owned(), share.to_string());
    }
    if let Some(series) = &spec.series {
        let SeriesSpec { leavers, changes, .. } = series;
        let said = format!("leavers={leavers}, changes={changes}");
        metadata.insert("anonymize.series".to_owned(), said);
    }
    reason::mark(spec, &mut metadata);
    metadata
}

/// Whether these are rows of a release, by what [`metadata`] says of them: also when a table was made of them since.
pub(in crate::engine) fn is_of_release(schema: &Schema) -> bool {
    schema.metadata().contains_key(METHOD)
}

/// A hierarchy table as an input of the node: text columns under names nothing else has.
pub(in crate::engine) fn hierarchy_input(plan: LogicalPlan, number: usize) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = (plan.schema().columns().into_iter().enumerate())
        .map(|(level, column)| {
            cast(Expr::Column(column), DataType::Utf8)
                .alias(format!("__hierarchy_{number}_{level}"))
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

impl UserDefinedLogicalNodeCore for AnonymizeNode {
    fn name(&self) -> &str {
        "Anonymize"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        std::iter::once(&self.input).chain(&self.tables).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let quasi_identifiers = self.spec.quasi_identifiers.iter().map(|qi| &qi.column);
        let others = self.spec.sensitive.iter().chain(&self.spec.privacy_unit);
        let columns = quasi_identifiers.chain(others).cloned().map(Expr::Column);
        // The filters too: planners look here for the subqueries they must run.
        columns.chain(self.filters.iter().cloned()).collect()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let binding = self.binding().ok()?;
        let payload = binding.payload();
        let output = binding.output(self.spec.class_id);
        let of_input = output_columns.iter().filter_map(|column| match output.get(*column)? {
            OutputColumn::QuasiIdentifier(index)
            | OutputColumn::SlicedQuasiIdentifier(index)
            | OutputColumn::ExactQuasiIdentifier(index) => Some(binding.quasi_identifiers[*index]),
            OutputColumn::Payload(index) | OutputColumn::PayloadApart(index) => {
                Some(payload[*index])
            }
            OutputColumn::ClassId
            | OutputColumn::ColumnGroups
            | OutputColumn::Cohort
            | OutputColumn::Held
            | OutputColumn::Person => None,
        });
        let all = |plan: &LogicalPlan| (0..plan.schema().fields().len()).collect();
        Some(std::iter::once(of_input.collect()).chain(self.tables.iter().map(all)).collect())
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Anonymize: {}", self.spec)?;
        let filters: Vec<String> = self.filters.iter().map(Expr::to_string).collect();
        if filters.is_empty() { Ok(()) } else { write!(f, ", filters=[{}]", filters.join(", ")) }
    }

    fn with_exprs_and_inputs(
        &self,
        mut exprs: Vec<Expr>,
        inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let Some(columns) = exprs.len().checked_sub(self.filters.len()) else {
            return internal_err!("anonymize lost one of its filters");
        };
        let mut filters = exprs.split_off(columns);
        let mut inputs = inputs.into_iter();
        let Some(input) = inputs.next() else {
            return internal_err!("anonymize needs an input");
        };
        let input = take_back_filter(input, &self.input, &mut filters);
        let mut ignored = Vec::new();
        let tables = (inputs.zip(&self.tables))
            .map(|(new, old)| take_back_filter(new, old, &mut ignored))
            .collect();
        let spec = rebind(&self.spec, exprs)?;
        Self::try_new(Arc::new(spec), input, tables, filters)
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }
}

/// Removes a predicate without columns that was pushed onto an input, and remembers it.
pub(in crate::engine) fn take_back_filter(
    new: LogicalPlan,
    old: &LogicalPlan,
    filters: &mut Vec<Expr>,
) -> LogicalPlan {
    match new {
        LogicalPlan::Filter(filter)
            if filter.predicate.column_refs().is_empty() && filter.input.as_ref() == old =>
        {
            filters.push(filter.predicate);
            Arc::unwrap_or_clone(filter.input)
        }
        other => other,
    }
}

/// The spec with its columns as the optimizer rewrote them.
fn rebind(spec: &Spec, exprs: Vec<Expr>) -> Result<Spec> {
    let mut columns = Vec::with_capacity(exprs.len());
    for expr in exprs {
        match expr {
            Expr::Column(column) => columns.push(column),
            other => {
                return internal_err!(
                    "anonymize works on columns, not on {}",
                    other.variant_name()
                );
            }
        }
    }
    let mut spec = spec.clone();
    let mut columns = columns.into_iter();
    let places = (spec.quasi_identifiers.iter_mut().map(|qi| &mut qi.column))
        .chain(spec.sensitive.iter_mut())
        .chain(spec.privacy_unit.iter_mut());
    for place in places {
        let Some(column) = columns.next() else {
            return internal_err!("anonymize lost one of its columns");
        };
        *place = column;
    }
    Ok(spec)
}

impl PartialEq for AnonymizeNode {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
            && self.input == other.input
            && self.tables == other.tables
            && self.filters == other.filters
    }
}

impl Eq for AnonymizeNode {}

impl Hash for AnonymizeNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.spec.hash(state);
        self.input.hash(state);
        self.tables.hash(state);
        self.filters.hash(state);
    }
}

impl PartialOrd for AnonymizeNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other { Some(Ordering::Equal) } else { self.input.partial_cmp(&other.input) }
    }
}
