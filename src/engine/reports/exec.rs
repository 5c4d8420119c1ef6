//! A report as a physical operator.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::SortOptions;
use datafusion::common::{Result, assert_eq_or_internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexRequirement, OrderingRequirements, PhysicalSortRequirement,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements,
    Partitioning, PlanProperties,
};
use futures::stream;

use super::{BothTables, Report, constraints, privacy, sensitivity, series, utility};
use crate::engine::operator::common_plan_methods;
use crate::engine::{mark_redacted, redact_kernel_values};
use crate::measure::Measure;

/// Turns grouped counts into measures.
///
/// Where the groups of a class must be neighbours the operator asks for sorted input, so that it
/// never holds more than one class, and the sort may spill.
#[derive(Debug, Clone)]
pub struct ReportExec {
    report: Arc<Report>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ReportExec {
    /// The operator over grouped inputs, followed by the tables of the hierarchies.
    pub fn new(report: Arc<Report>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(report.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { report, inputs, properties: Arc::new(properties), metrics }
    }

    /// The checked request.
    #[cfg(feature = "cluster")]
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl DisplayAs for ReportExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if format == DisplayFormatType::TreeRender {
            return writeln!(f, "{}", self.report);
        }
        write!(f, "{}Exec: {}", self.report.name(), self.report)
    }
}

impl ExecutionPlan for ReportExec {
    fn name(&self) -> &str {
        "ReportExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let single = self.inputs.iter().map(|_| Distribution::SinglePartition);
        InputDistributionRequirements::new(single.collect())
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let sorted = self.report.sorted_columns();
        let ordering = |(number, input): (usize, &Arc<dyn ExecutionPlan>)| {
            let schema = input.schema();
            let leading = sorted.get(number).copied().unwrap_or(0);
            let column = |index: usize| {
                let column = Column::new(schema.field(index).name(), index);
                let ascending = SortOptions { descending: false, nulls_first: true };
                PhysicalSortRequirement::new(Arc::new(column), Some(ascending))
            };
            LexRequirement::new((0..leading).map(column)).map(OrderingRequirements::new)
        };
        self.inputs.iter().enumerate().map(ordering).collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert_eq_or_internal_err!(children.len(), self.inputs.len());
        Ok(Arc::new(Self::new(Arc::clone(&self.report), children)))
    }

    common_plan_methods!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        assert_eq_or_internal_err!(partition, 0, "ReportExec has one partition");
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let (report, inputs) = (Arc::clone(&self.report), self.inputs.clone());
        let batch = async move {
            let measures = measure(&report, &inputs, &context).await;
            let measures = measures.map_err(|error| mark_redacted(redact_kernel_values(error)))?;
            Ok(to_batch(&report, &measures)?.record_output(&baseline))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(batch))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

async fn measure(
    report: &Report,
    inputs: &[Arc<dyn ExecutionPlan>],
    context: &Arc<TaskContext>,
) -> Result<Vec<Measure>> {
    let memory: MemoryReservation =
        MemoryConsumer::new(report.function()).register(context.memory_pool());
    match (report, inputs) {
        (Report::Privacy(spec), inputs) => privacy::measure(spec, inputs, context, &memory).await,
        (Report::Series(spec), inputs) => series::measure(spec, inputs, context, &memory).await,
        (Report::TwoTableUtility(spec), [original, published, lookups @ ..]) => {
            let inputs = BothTables { original, published, lookups };
            sensitivity::measure_two_tables(spec, &inputs, context, &memory).await
        }
        (Report::Constraints(spec), [published]) => {
            constraints::measure(spec, published.execute(0, Arc::clone(context))?).await
        }
        (Report::Utility(spec), [original, published, others @ ..]) => {
            let graded = usize::from(spec.graded.is_some()).min(others.len());
            let (by_class, others) = others.split_at(graded);
            let by_class = by_class.first();
            let (rows, lookups) = match (&spec.associations, others) {
                (Some(_), [original, published, lookups @ ..]) => {
                    (Some(BothTables { original, published, lookups }), lookups)
                }
                _ => (None, others),
            };
            let groups = BothTables { original, published, lookups };
            let tables = utility::Tables { groups, by_class, rows };
            utility::measure(spec, &tables, context, &memory).await
        }
        _ => datafusion::common::internal_err!("a report lost one of its inputs"),
    }
}

fn to_batch(report: &Report, measures: &[Measure]) -> Result<RecordBatch> {
    let names = report.column_names();
    let column_name = |measure: &Measure| names.get(measure.column?).copied();
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(
            measures.iter().map(|measure| Some(measure.name.as_ref())).collect::<StringArray>(),
        ),
        Arc::new(measures.iter().map(column_name).collect::<StringArray>()),
        Arc::new(measures.iter().map(|measure| measure.value).collect::<Float64Array>()),
    ];
    if report.has_targets() {
        let targets = measures.iter().map(|measure| measure.target).collect::<Float64Array>();
        let holds = measures.iter().map(|measure| measure.holds).collect::<BooleanArray>();
        columns.extend([Arc::new(targets) as ArrayRef, Arc::new(holds)]);
    }
    Ok(RecordBatch::try_new(report.schema(), columns)?)
}
