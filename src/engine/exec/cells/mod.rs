//! A release in cells: parts of a table that are anonymized independently, on any number of machines.
//!
//! ```text
//! CellGatherExec              looks at all parts together; nothing leaves before every cell is verified
//!  SortPreservingMergeExec    waits for the first row of every partition
//!   SortExec                  classes in the order of numbers without meaning: it must not tell their cells
//!    CellReleaseExec          the method, cell by cell, in the codes of the whole table
//!     RepartitionExec         all rows of a cell to one partition
//!      CellAssignExec         the cell of every row
//!       CellArrangeExec       in one task: leaves become cells; those that cannot stand are merged
//!        CellCountExec        rows, sensitive values and persons by leaf of the cut tree
//!         CellSurveyExec      in one task: all values of the table, and the cut tree
//!          CellSketchExec     all values of the quasi-identifiers, and a sample of their tuples
//!           input
//!         input
//!       input
//! ```
//!
//! (CoalescePartitionsExec stands over each of the last four: on a cluster it is where a stage ends.)
//!
//! Sketch, count and assignment are one pass each over the partitions of the input, wherever they are. Steps exchange
//! only notes, values and counts that one task merges for all others, and once all rows, by cell. Notes depend on the
//! multiset of the rows alone, so the release is the same for any partitioning of the input.
//!
//! **Fail closed.** A partition of `CellReleaseExec` emits nothing before all its cells are verified, and then a
//! summary first. The merge cannot pass on a row before it has the summary of every partition (on a cluster:
//! before all of them have ended), and `CellGatherExec` checks the summaries first: every row that was counted must be
//! there, and the limit on suppressed rows holds for the whole table.

mod arrange;
mod assign;
mod count;
mod gather;
mod once;
mod plan;
mod release;
mod sketch;
mod step;
mod summary;
mod survey;

pub use plan::PlanCells;
pub use step::{CellColumns, CellStep};

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, assert_eq_or_internal_err, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties,
};
use futures::{Stream, StreamExt, TryStreamExt};

use self::once::Once;
use self::step::{CELL_KEY, class_order};
use super::pipeline::Resolved;
use crate::columnar::{Page, pages_of_batch};
use crate::engine::operator::common_plan_methods;
use crate::engine::options::Spec;
use crate::engine::{mark_redacted, redact_values};

/// One operator of a release in cells; see the module.
#[derive(Clone)]
pub struct CellExec {
    // Configuration
    spec: Arc<Spec>,
    /// The most cells.
    cells: u32,
    step: CellStep,
    // Inputs
    children: Vec<Arc<dyn ExecutionPlan>>,
    // Derived
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// Whether its metrics are read by another process.
    is_remote: bool,
    // State
    shared: Arc<Shared>,
}

/// What the partitions of one operator compute once and share. On a cluster every task computes its own.
#[derive(Debug, Default)]
struct Shared {
    survey: Once<count::Surveyed>,
    cells: Once<assign::Arranged>,
    resolved: Once<Resolved>,
}

impl CellExec {
    /// An operator over its children: first the notes of the step before, if it needs any, then the input,
    /// then hierarchy tables.
    pub fn try_new(
        spec: Arc<Spec>,
        cells: u32,
        step: CellStep,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Self> {
        let Some(main) = children.get(step.main_child()) else {
            return internal_err!("a step of a release in cells has no input");
        };
        let schema = step.schema(&children)?;
        let partitions = match &step {
            CellStep::Gather { .. } => 1,
            _ => main.output_partitioning().partition_count(),
        };
        let equivalence = EquivalenceProperties::new(Arc::clone(&schema));
        let emission = match &step {
            CellStep::Assign(_) => EmissionType::Incremental,
            _ => EmissionType::Final,
        };
        let partitioning = Partitioning::UnknownPartitioning(partitions);
        let properties =
            PlanProperties::new(equivalence, partitioning, emission, Boundedness::Bounded);
        Ok(Self {
            spec,
            cells,
            step,
            children,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            is_remote: false,
            shared: Arc::default(),
        })
    }

    /// The same operator in a process of a cluster, whose metrics are read in another one.
    #[cfg(feature = "cluster")]
    pub(in crate::engine) fn on_cluster(self) -> Self {
        Self { is_remote: true, ..self }
    }

    /// The checked request.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// The most cells.
    pub fn cells(&self) -> u32 {
        self.cells
    }

    /// What the operator does.
    pub fn step(&self) -> &CellStep {
        &self.step
    }

    /// Mean share of a cell's information (NCP) that the last execution lost, `None` before it ran and for
    /// all steps but the last.
    pub fn loss(&self) -> Option<f64> {
        super::metrics::share_of(&self.metrics, "loss")
    }

    /// The largest share of a class that one person holds in the last execution, rounded to three digits. `None`
    /// before it ran, without a privacy unit, and for all steps but the last.
    pub fn unit_share(&self) -> Option<f64> {
        match self.step {
            CellStep::Gather { .. } => {
                super::metrics::share_of(&self.metrics, super::metrics::UNIT_SHARE)
            }
            _ => None,
        }
    }

    /// Quasi-identifiers that may be cut.
    fn sampled(&self) -> usize {
        self.spec.quasi_identifiers.len()
    }

    /// The hierarchy tables behind the input.
    fn tables(&self) -> &[Arc<dyn ExecutionPlan>] {
        &self.children[self.step.main_child() + 1..]
    }

    async fn resolved(&self, context: &Arc<TaskContext>) -> Result<Arc<Resolved>> {
        self.shared.resolved.get(Resolved::read(&self.spec, self.tables(), context)).await
    }
}

/// Notes of the step before, and the memory that they take.
#[derive(Debug)]
struct Notes {
    pages: Vec<Page>,
    memory: MemoryReservation,
}

impl Notes {
    /// Reads them; they come in one partition.
    async fn read(from: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Self> {
        let memory = MemoryConsumer::new("AnonymizeExec[notes]").register(context.memory_pool());
        let mut batches = from.execute(0, Arc::clone(context))?;
        let mut pages = Vec::new();
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            // Encoded and decoded.
            memory.try_grow(2 * batch.get_array_memory_size())?;
            pages.extend(pages_of_batch(&batch)?);
        }
        Ok(Self { pages, memory })
    }
}

/// The next batch of the input; an error does not quote a value.
async fn next_batch(input: &mut SendableRecordBatchStream) -> Result<Option<RecordBatch>> {
    input.next().await.transpose().map_err(redact_values)
}

fn as_stream(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(schema, batches.map_err(mark_redacted)))
}

impl fmt::Debug for CellExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for CellExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.cells;
        if format == DisplayFormatType::TreeRender {
            return writeln!(f, "cells={cells}");
        }
        write!(f, "{}: ", self.name())?;
        match &self.step {
            CellStep::Gather { fetch, .. } => {
                write!(f, "{}, cells={cells}", self.spec)?;
                fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
            }
            CellStep::Release { .. } => write!(f, "method={}, cells={cells}", self.spec.method),
            CellStep::Arrange { partitions, .. } => {
                write!(f, "cells={cells}, partitions={partitions}")
            }
            CellStep::Sketch(_)
            | CellStep::Survey { .. }
            | CellStep::Count(_)
            | CellStep::Assign(_) => write!(f, "cells={cells}"),
        }
    }
}

impl ExecutionPlan for CellExec {
    fn name(&self) -> &str {
        match &self.step {
            CellStep::Sketch(_) => "CellSketchExec",
            CellStep::Survey { .. } => "CellSurveyExec",
            CellStep::Count(_) => "CellCountExec",
            CellStep::Arrange { .. } => "CellArrangeExec",
            CellStep::Assign(_) => "CellAssignExec",
            CellStep::Release { .. } => "CellReleaseExec",
            CellStep::Gather { .. } => "CellGatherExec",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let main = self.step.main_child();
        let of_child = |(at, child): (usize, &Arc<dyn ExecutionPlan>)| match &self.step {
            CellStep::Release { .. } if at == main => {
                let key = Column::new_with_schema(CELL_KEY, &child.schema());
                match key {
                    Ok(key) => Distribution::KeyPartitioned(vec![Arc::new(key)]),
                    Err(_) => Distribution::SinglePartition,
                }
            }
            CellStep::Survey { .. } | CellStep::Arrange { .. } | CellStep::Gather { .. } => {
                Distribution::SinglePartition
            }
            _ if at == main => Distribution::UnspecifiedDistribution,
            _ => Distribution::SinglePartition,
        };
        InputDistributionRequirements::new(self.children.iter().enumerate().map(of_child).collect())
    }

    fn required_input_ordering(
        &self,
    ) -> Vec<Option<datafusion::physical_expr::OrderingRequirements>> {
        let ordering = match &self.step {
            CellStep::Gather { .. } => class_order(&self.children[0].schema()).ok(),
            _ => None,
        };
        let mut required = vec![None; self.children.len()];
        required[0] = ordering.map(Into::into);
        required
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children.len()]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert_eq_or_internal_err!(children.len(), self.children.len());
        let (spec, step) = (Arc::clone(&self.spec), self.step.clone());
        let exec = Self::try_new(spec, self.cells, step, children)?;
        Ok(Arc::new(Self { is_remote: self.is_remote, ..exec }))
    }

    common_plan_methods!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let exec = self.clone();
        match &self.step {
            CellStep::Sketch(columns) => sketch::run(exec, columns, partition, context),
            CellStep::Survey { columns, input_schema } => {
                let layout = columns.layout(Arc::clone(input_schema));
                survey::run(exec, layout, context)
            }
            CellStep::Count(columns) => count::run(exec, columns, partition, context),
            CellStep::Arrange { columns, input_schema, partitions } => {
                let layout = columns.layout(Arc::clone(input_schema));
                arrange::run(exec, layout, *partitions, context)
            }
            CellStep::Assign(columns) => assign::run(exec, columns, partition, context),
            CellStep::Release { .. } => release::run(exec, partition, context),
            CellStep::Gather { .. } => gather::run(exec, partition, context),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(super::metrics::exported(&self.metrics, self.is_remote))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut exec = self.clone();
        let CellStep::Gather { fetch, .. } = &mut exec.step else { return None };
        *fetch = limit;
        Some(Arc::new(exec))
    }

    fn fetch(&self) -> Option<usize> {
        match &self.step {
            CellStep::Gather { fetch, .. } => *fetch,
            _ => None,
        }
    }
}
