//! A release in cells: parts of a table that are anonymized apart from each other, on as many machines as
//! there are.
//!
//! ```text
//! CellGatherExec              looks at all parts together; nothing leaves before every cell is verified
//!  SortPreservingMergeExec    waits for the first row of every partition
//!   SortExec                  classes in the order of numbers without meaning: it must not tell their cells
//!    CellReleaseExec          the method, cell by cell, in the codes of the whole table
//!     RepartitionExec         all rows of a cell to one partition
//!      CellAssignExec         the cell of every row; cells that cannot stand are merged
//!       CoalescePartitionsExec
//!        CellCountExec        rows, sensitive values and persons by leaf of the cut tree
//!         CoalescePartitionsExec
//!          CellSketchExec     all values of the quasi-identifiers, and a sample of their tuples
//!           input
//!         input
//!       input
//! ```
//!
//! Every step is one pass over the partitions of the input, wherever they are; between the steps go only
//! values and counts, and once all rows, by cell. What a step tells the next depends on the values of the
//! rows, so the release is the same for any partitioning of the input.
//!
//! **Fail closed.** A partition of `CellReleaseExec` lets no row go before all its cells are verified, and
//! first of all says what it has made. The merge cannot hand on a row before it has heard from every
//! partition (on a cluster: before all of them have ended), and `CellGatherExec` looks at these
//! summaries first: all rows that were counted must be there, and the share of suppressed rows is that of
//! the whole table.

mod assign;
mod count;
mod gather;
mod plan;
mod release;
mod sketch;
mod summary;

pub use plan::PlanCells;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, assert_eq_or_internal_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
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
use tokio::sync::OnceCell;

use super::pipeline::Resolved;
use crate::columnar::{Layout, Page, Survey, page_schema, pages_of_batch};
use crate::engine::logical::Binding;
use crate::engine::spec::Spec;
use crate::engine::{execution_error, looked_at, without_values};

/// The cell of a row.
pub(super) const CELL: &str = "__anonymize_cell";
/// What rows are exchanged by: equal for rows of one cell.
pub(super) const CELL_KEY: &str = "__anonymize_cell_key";
/// What is known of the whole table or of a cell, in a row of its own.
pub(super) const CELL_HEADER: &str = "__anonymize_cell_header";
/// What stands for the cell in a header of the whole table. There are fewer cells.
const WHOLE_TABLE: u32 = u32::MAX;
/// The class of a published row, a number without meaning that no other class has; missing in summaries.
pub(super) const CLASS: &str = "__anonymize_class";
/// The place of a published row among those of its class.
pub(super) const PLACE: &str = "__anonymize_place";
/// What a partition has made.
pub(super) const SUMMARY: &str = "__anonymize_summary";

/// Positions of the columns that cells are made from, in the input of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "codec", derive(serde::Serialize, serde::Deserialize))]
pub struct CellColumns {
    /// The quasi-identifiers, and behind them what is looked at as if it were one.
    pub quasi_identifiers: Vec<usize>,
    /// The columns that models look at; the privacy unit is the last.
    pub modelled: Vec<usize>,
}

impl CellColumns {
    fn layout(&self, schema: SchemaRef) -> Layout {
        Layout {
            schema,
            quasi_identifiers: self.quasi_identifiers.clone(),
            modelled: self.modelled.clone(),
            keyed: Vec::new(),
            kept: Vec::new(),
            payload: Vec::new(),
        }
    }
}

/// What one operator of a release in cells does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "codec", derive(serde::Serialize, serde::Deserialize))]
pub enum CellStep {
    /// Values of the quasi-identifiers and a sample, from the input.
    Sketch(CellColumns),
    /// Counts by leaf of the cut tree, from sketches, the input and hierarchy tables.
    Count(CellColumns),
    /// The cell of every row, from counts and the input.
    Assign {
        /// Where the columns are.
        columns: CellColumns,
        /// Partitions that rows are exchanged to.
        partitions: usize,
    },
    /// Verified classes, from rows with their cells and hierarchy tables.
    Release {
        /// Roles of the input's columns.
        binding: Binding,
        /// The input as it was before rows had cells.
        #[cfg_attr(feature = "codec", serde(with = "crate::engine::codec::wire::schema"))]
        input_schema: SchemaRef,
        /// What is published.
        #[cfg_attr(feature = "codec", serde(with = "crate::engine::codec::wire::schema"))]
        schema: SchemaRef,
        /// Columns of the full output that are wanted, all if `None`.
        projection: Option<Vec<usize>>,
        /// Columns of the output that may show in the order of a class's rows.
        order_by: Vec<usize>,
    },
    /// The release, from verified classes.
    Gather {
        /// What is published.
        #[cfg_attr(feature = "codec", serde(with = "crate::engine::codec::wire::schema"))]
        schema: SchemaRef,
        /// Which of these columns are numbers of classes.
        class_ids: Vec<usize>,
        /// Rows after which nobody reads on.
        fetch: Option<usize>,
    },
}

impl CellStep {
    fn schema(&self, children: &[Arc<dyn ExecutionPlan>]) -> Result<SchemaRef> {
        let with = |fields: &Schema, more: [Field; 3]| {
            // Headers and summaries have nothing in the other columns.
            let nullable = fields.fields().iter().map(|field| field.as_ref().clone());
            let nullable = nullable.map(|field| field.with_nullable(true));
            Arc::new(Schema::new(nullable.chain(more).collect::<Vec<Field>>()))
        };
        Ok(match self {
            Self::Sketch(_) | Self::Count(_) => page_schema(),
            Self::Assign { .. } => {
                let Some(input) = children.get(1) else {
                    return internal_err!("a step of a release in cells has no input");
                };
                let cell = Field::new(CELL, DataType::UInt32, false);
                let key = Field::new(CELL_KEY, DataType::UInt32, false);
                let header = Field::new(CELL_HEADER, DataType::LargeBinary, true);
                with(&input.schema(), [cell, key, header])
            }
            Self::Release { schema, .. } => {
                // Sorted batches would carry the dictionaries of all batches that they were made from.
                let unpacked = schema.fields().iter().map(|field| {
                    let data_type = unpacked(field.data_type()).clone();
                    field.as_ref().clone().with_data_type(data_type)
                });
                let schema = Schema::new(unpacked.collect::<Vec<Field>>());
                let class = Field::new(CLASS, DataType::UInt64, true);
                let place = Field::new(PLACE, DataType::UInt32, false);
                let summary = Field::new(SUMMARY, DataType::LargeBinary, true);
                with(&schema, [class, place, summary])
            }
            Self::Gather { schema, .. } => Arc::clone(schema),
        })
    }

    /// The child whose partitions are worked on.
    fn main_child(&self) -> usize {
        match self {
            Self::Count(_) | Self::Assign { .. } => 1,
            Self::Sketch(_) | Self::Release { .. } | Self::Gather { .. } => 0,
        }
    }
}

/// One operator of a release in cells; see the module.
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

/// What the partitions of one operator find out together. On a cluster every partition is alone.
#[derive(Debug, Default)]
struct Shared {
    survey: Once<Survey>,
    plan: Once<assign::CellPlan>,
    resolved: Once<Resolved>,
}

/// Something that is found out once, also if finding it out fails: an operator below cannot be asked again.
#[derive(Debug)]
struct Once<T>(OnceCell<std::result::Result<Arc<T>, Arc<DataFusionError>>>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<T> Once<T> {
    async fn get(&self, find: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let find = async { find.await.map(Arc::new).map_err(Arc::new) };
        match self.0.get_or_init(|| find).await {
            Ok(found) => Ok(Arc::clone(found)),
            Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }
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
            CellStep::Assign { .. } => EmissionType::Incremental,
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
    #[cfg(feature = "codec")]
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

    fn clone_for_task(&self) -> Self {
        Self {
            spec: Arc::clone(&self.spec),
            cells: self.cells,
            step: self.step.clone(),
            children: self.children.clone(),
            properties: Arc::clone(&self.properties),
            metrics: self.metrics.clone(),
            is_remote: self.is_remote,
            shared: Arc::clone(&self.shared),
        }
    }
}

/// What a column of this type is sorted as: dictionaries as their values, unless their keys are so small that
/// the values of a batch might have no room when they are put back.
fn unpacked(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(key, values)
            if matches!(
                key.as_ref(),
                DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64
            ) =>
        {
            values
        }
        other => other,
    }
}

/// Summaries, then classes in an order that says nothing, each with its rows in order.
fn class_order(schema: &SchemaRef) -> Result<LexOrdering> {
    let by = |name| -> Result<PhysicalSortExpr> {
        let column = Column::new_with_schema(name, schema)?;
        Ok(PhysicalSortExpr::new(Arc::new(column), SortOptions::new(false, true)))
    };
    match LexOrdering::new([by(CLASS)?, by(PLACE)?]) {
        Some(order) => Ok(order),
        None => internal_err!("classes have no order"),
    }
}

/// The notes of the step before, which come in one partition.
async fn read_pages(
    notes: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Vec<Page>> {
    let mut batches = notes.execute(0, Arc::clone(context))?;
    let mut pages = Vec::new();
    while let Some(batch) = batches.next().await {
        pages.extend(pages_of_batch(&batch?).map_err(execution_error)?);
    }
    Ok(pages)
}

/// The next batch of the input; an error does not quote a value.
async fn next_batch(input: &mut SendableRecordBatchStream) -> Result<Option<RecordBatch>> {
    input.next().await.transpose().map_err(without_values)
}

/// Runs what takes a while on a thread of its own.
async fn at_work<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let task = SpawnedTask::spawn_blocking(work);
    task.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}

fn as_stream(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(schema, batches.map_err(looked_at)))
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
            CellStep::Assign { partitions, .. } => {
                write!(f, "cells={cells}, partitions={partitions}")
            }
            CellStep::Sketch(_) | CellStep::Count(_) => write!(f, "cells={cells}"),
        }
    }
}

impl ExecutionPlan for CellExec {
    fn name(&self) -> &str {
        match &self.step {
            CellStep::Sketch(_) => "CellSketchExec",
            CellStep::Count(_) => "CellCountExec",
            CellStep::Assign { .. } => "CellAssignExec",
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
            CellStep::Gather { .. } => Distribution::SinglePartition,
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

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false; self.children.len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children.len()]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
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

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let exec = self.clone_for_task();
        match &self.step {
            CellStep::Sketch(columns) => sketch::run(exec, columns, partition, context),
            CellStep::Count(columns) => count::run(exec, columns.clone(), partition, context),
            CellStep::Assign { .. } => assign::run(exec, partition, context),
            CellStep::Release { .. } => release::run(exec, partition, context),
            CellStep::Gather { .. } => gather::run(exec, partition, context),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(super::metrics::shown(&self.metrics, self.is_remote))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut step = self.step.clone();
        let CellStep::Gather { fetch, .. } = &mut step else { return None };
        *fetch = limit;
        let mut exec = self.clone_for_task();
        exec.step = step;
        Some(Arc::new(exec))
    }

    fn fetch(&self) -> Option<usize> {
        match &self.step {
            CellStep::Gather { fetch, .. } => *fetch,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_could_not_be_found_out_is_not_asked_for_again() {
        let once = Once::<u32>::default();
        let failed = |found: Result<Arc<u32>>| {
            found.is_err_and(|error| error.to_string().contains("refused"))
        };
        assert!(failed(once.get(async { internal_err!("refused") }).await));
        assert!(failed(once.get(async { Ok(1) }).await));
    }
}
