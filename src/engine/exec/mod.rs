//! `anonymize` as a physical operator.

#[cfg(feature = "cells")]
mod cells;
mod compact;
mod emit;
mod form;
mod memory;
mod metrics;
mod pass_through;
mod pipeline;
#[cfg(feature = "cluster")]
mod redact;
mod requirement;
mod runs;
mod series;
mod spill;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, assert_eq_or_internal_err, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{
    EmbeddedProjection, ProjectionExec, try_embed_projection,
};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties,
};

#[cfg(feature = "cluster")]
pub use cells::CellStep;
#[cfg(feature = "cells")]
pub use cells::{CellExec, PlanCells};
pub use compact::CompactBatchesExec;
pub use metrics::SeriesFigures;
#[cfg(feature = "cluster")]
pub use redact::RedactErrorsExec;
pub use series::person_in_series;

#[cfg(feature = "cells")]
use crate::columnar::OutputColumn;
use crate::engine::operator::common_plan_methods;
use crate::engine::options::{SeriesOutput, Spec};
use crate::engine::plan::{Binding, check_variant, metadata, output_fields};
use crate::method::Family;

/// Whether an operator emits a release.
pub(crate) fn is_release(plan: &Arc<dyn ExecutionPlan>) -> bool {
    #[cfg(feature = "cells")]
    if plan.is::<CellExec>() {
        return true;
    }
    plan.is::<AnonymizeExec>()
}

/// Reads its input, forms classes, verifies them, and only then lets the first row leave.
///
/// ```text
///  input partitions    1 read and encode   one task per partition: codes, row keys, payload
///        │ │ │         2 order             merge the domains, write rows of final codes
///        ▼ ▼ ▼         3 partition         codes to classes, on a pool of target_partitions threads
///   AnonymizeExec      4 verify            fail closed before row one leaves
///          │           5 emit              batches in class order
///          ▼
///    one partition
/// ```
///
/// The input may have any number of partitions and any order; the release depends on neither.
#[derive(Clone)]
pub struct AnonymizeExec {
    // Configuration
    spec: Arc<Spec>,
    binding: Binding,
    shape: ReleaseShape,
    // Inputs
    input: Arc<dyn ExecutionPlan>,
    tables: Vec<Arc<dyn ExecutionPlan>>,
    // Derived
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// Whether its metrics are read by another process.
    is_remote: bool,
}

/// What the optimizer decided about a release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct ReleaseShape {
    /// Columns of the full output that are wanted, all if `None`.
    pub projection: Option<Vec<usize>>,
    /// Columns of the output that may show in the order of a class's rows.
    pub order_by: Vec<usize>,
    /// The most rows that are wanted.
    pub fetch: Option<usize>,
    /// Whether the whole input must be read by one task.
    pub one_task: bool,
}

impl AnonymizeExec {
    /// The checked request.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// Roles of the input's columns.
    pub fn binding(&self) -> &Binding {
        &self.binding
    }

    /// What the optimizer decided about it.
    pub fn shape(&self) -> &ReleaseShape {
        &self.shape
    }

    /// The same operator in another shape. Its own must have no projection.
    pub fn with_shape(&self, shape: ReleaseShape) -> Result<Self> {
        let plan = self.with_projection(shape.projection.clone())?;
        Ok(Self { shape, ..plan })
    }

    /// The operator over an input whose columns the binding describes.
    pub fn try_new(
        spec: Arc<Spec>,
        binding: Binding,
        input: Arc<dyn ExecutionPlan>,
        tables: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Self> {
        let schema = full_schema(&spec, &binding, &input.schema())?;
        Ok(Self {
            properties: properties(schema),
            spec,
            binding,
            shape: ReleaseShape::default(),
            input,
            tables,
            metrics: ExecutionPlanMetricsSet::new(),
            is_remote: false,
        })
    }

    /// The same operator in a process of a cluster, whose metrics are read in another one.
    #[cfg(feature = "cluster")]
    pub(super) fn on_cluster(self) -> Self {
        Self { is_remote: true, ..self }
    }

    /// Both tables of a release that has two, from one computation: quasi-identifiers, then
    /// sensitive values. Nothing of either leaves before the release is verified.
    pub async fn both_tables(
        &self,
        context: Arc<TaskContext>,
    ) -> Result<[SendableRecordBatchStream; 2]> {
        if self.spec.publish.is_none()
            || self.shape.projection.is_some()
            || self.shape.fetch.is_some()
        {
            return plan_err!(
                "two tables are published by SELECT * FROM anonymize(…, method => {}, …, publish \
                 => 'quasi_identifiers'), without anything above it",
                Family::TwoTables.method_names()
            );
        }
        check_variant(&self.spec)?;
        pipeline::run_both(self, context).await
    }

    /// Positions of the published columns that are numbers of classes.
    #[cfg(feature = "cells")]
    fn class_id_columns(&self) -> Vec<usize> {
        let columns = self.binding.output(self.spec.class_id);
        let is_class = |at: &usize| matches!(columns[*at], OutputColumn::ClassId);
        match &self.shape.projection {
            Some(projection) => {
                (0..projection.len()).filter(|at| is_class(&projection[*at])).collect()
            }
            None => (0..columns.len()).filter(is_class).collect(),
        }
    }

    /// The same operator over its whole input in one partition.
    #[cfg(feature = "cells")]
    pub(super) fn in_one_task(&self) -> Self {
        use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
        let mut plan = self.clone();
        plan.shape.one_task = true;
        // Hierarchies are in one partition already.
        for child in std::iter::once(&mut plan.input).chain(&mut plan.tables) {
            if child.output_partitioning().partition_count() > 1 {
                *child = Arc::new(CoalescePartitionsExec::new(Arc::clone(child)));
            }
        }
        plan
    }

    /// The same operator with the rows of a class in the order of these output columns.
    pub(super) fn ordered_by(&self, columns: Vec<usize>) -> Self {
        let shape = ReleaseShape { order_by: columns, ..self.shape.clone() };
        Self { shape, ..self.clone() }
    }
}

fn full_schema(spec: &Spec, binding: &Binding, input: &Schema) -> Result<SchemaRef> {
    let fields = output_fields(spec, binding, input)?;
    Ok(Arc::new(Schema::new_with_metadata(fields, metadata(spec).into_iter().collect())))
}

/// Nothing that is known about the input's order, constants or partitioning is true of the output.
fn properties(schema: SchemaRef) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Final,
        Boundedness::Bounded,
    ))
}

/// The line that EXPLAIN shows. The inputs are left out: a file's statistics are values of its rows.
impl fmt::Debug for AnonymizeExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for AnonymizeExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if format == DisplayFormatType::TreeRender {
            return self
                .spec
                .entries()
                .iter()
                .try_for_each(|(name, value)| writeln!(f, "{name}={value}"));
        }
        write!(f, "AnonymizeExec: {}", self.spec)?;
        if self.shape.projection.is_some() {
            let schema = self.schema();
            let names: Vec<&str> =
                schema.fields().iter().map(|field| field.name().as_str()).collect();
            write!(f, ", projection=[{}]", names.join(", "))?;
        }
        if let Some(fetch) = self.shape.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        if self.shape.one_task {
            f.write_str(", in one task")?;
            if !self.spec.method.works_in_cells() {
                write!(f, ": method '{}' does not work in cells", self.spec.method)?;
            }
        }
        Ok(())
    }
}

impl EmbeddedProjection for AnonymizeExec {
    fn with_projection(&self, projection: Option<Vec<usize>>) -> Result<Self> {
        let Some(projection) = projection else { return Ok(self.clone()) };
        let schema = Arc::new(self.schema().project(&projection)?);
        let of_full = match &self.shape.projection {
            Some(earlier) => projection.iter().map(|column| earlier[*column]).collect(),
            None => projection,
        };
        let (projection, order_by) = (Some(of_full), Vec::new());
        let shape = ReleaseShape { projection, order_by, ..self.shape };
        Ok(Self { shape, properties: properties(schema), ..self.clone() })
    }
}

impl ExecutionPlan for AnonymizeExec {
    fn name(&self) -> &str {
        "AnonymizeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        std::iter::once(&self.input).chain(&self.tables).collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        // All partitions of the input are read at once; a hierarchy is a small table in order.
        let tables = (0..self.tables.len()).map(|number| match &self.spec.series {
            // The state and the last release may be as large as the input.
            Some(series)
                if [series.members, series.last].contains(&number) && !self.shape.one_task =>
            {
                Distribution::UnspecifiedDistribution
            }
            _ => Distribution::SinglePartition,
        });
        // Where every task has a part of the input, a release in one task must say that it needs all of it.
        let input = std::iter::once(match self.shape.one_task {
            true => Distribution::SinglePartition,
            false => Distribution::UnspecifiedDistribution,
        });
        InputDistributionRequirements::new(input.chain(tables).collect())
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert_eq_or_internal_err!(children.len(), 1 + self.tables.len());
        let mut children = children.into_iter();
        let mut plan = Self::clone(&self);
        plan.metrics = ExecutionPlanMetricsSet::new();
        if let Some(input) = children.next() {
            plan.input = input;
        }
        plan.tables = children.collect();
        Ok(Arc::new(plan))
    }

    common_plan_methods!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        assert_eq_or_internal_err!(partition, 0, "AnonymizeExec has one partition");
        pipeline::run(self, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(metrics::exported(&self.metrics, self.is_remote))
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        let tables = self.tables.iter().map(|_| ChildStats::Skip);
        std::iter::once(ChildStats::At(None)).chain(tables).collect()
    }

    /// Row counts only: smallest and largest raw values must not reach a plan or a file.
    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _args: &datafusion::physical_plan::statistics::StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(input) = input_stats.first() {
            statistics.num_rows = match (input.num_rows, self.shape.fetch) {
                (Precision::Exact(rows) | Precision::Inexact(rows), Some(fetch)) => {
                    Precision::Inexact(rows.min(fetch))
                }
                (rows, _) => rows.to_inexact(),
            };
        }
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let shape = ReleaseShape { fetch: limit, ..self.shape.clone() };
        Some(Arc::new(Self { shape, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.shape.fetch
    }

    /// Embeds a projection, so that columns nobody reads are not made.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        try_embed_projection(projection, self)
    }
}

impl AnonymizeExec {
    /// Mean share of a cell's information (NCP) that the last execution lost, `None` before it ran.
    pub fn loss(&self) -> Option<f64> {
        metrics::share_of(&self.metrics, "loss")
    }

    /// The largest share of a class that one person holds in the last execution, rounded to three digits. `None`
    /// before it ran, and without a privacy unit.
    pub fn unit_share(&self) -> Option<f64> {
        metrics::share_of(&self.metrics, metrics::UNIT_SHARE)
    }

    /// The share of the persons who have rows in more than one class of the last execution, rounded to three
    /// digits. `None` before it ran, and without a privacy unit.
    pub fn split_persons(&self) -> Option<f64> {
        metrics::share_of(&self.metrics, metrics::SPLIT_PERSONS)
    }

    /// Prec of the last execution: how far values stay below the tops of their hierarchies, from 1
    /// (unchanged) to 0. `None` before it ran, and for methods without constraints.
    pub fn precision(&self) -> Option<f64> {
        metrics::share_of(&self.metrics, "precision")
    }

    /// The release and the members of its new cohorts, from one computation. Nothing of either leaves before
    /// both are verified.
    pub async fn release_and_members(
        &self,
        context: Arc<TaskContext>,
    ) -> Result<[SendableRecordBatchStream; 2]> {
        let is_whole = self.shape.projection.is_none() && self.shape.fetch.is_none();
        match &self.spec.series {
            Some(series) if is_whole && series.output == SeriesOutput::Release => {
                series::run_both(self, context).await
            }
            _ => plan_err!(
                "a release and its members come from SELECT * FROM anonymize(…, series => {{members: …, last: …}}), \
                 without anything above it"
            ),
        }
    }

    /// What the last execution counted, if it was of a series.
    pub fn series_figures(&self) -> Option<SeriesFigures> {
        SeriesFigures::of(&self.metrics)
    }

    fn input_partitions(&self) -> usize {
        self.input.output_partitioning().partition_count()
    }
}
