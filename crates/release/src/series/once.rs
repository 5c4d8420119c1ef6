//! The release and the persons of its new cohorts, from one computation: two could be of two states of a table.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion_anonymize::{AnonymizeExec, SeriesFigures};
use futures::{StreamExt, stream};

/// The node that the library puts above others whose batches may hold more than they show.
const COMPACT: &str = "CompactBatchesExec";

/// A night that was computed and verified. Its rows wait to be written.
pub(crate) struct Computed {
    /// The plan that writes the release.
    pub(crate) write: Arc<dyn ExecutionPlan>,
    /// Who got a cohort.
    pub(crate) newcomers: SendableRecordBatchStream,
    /// The cohorts that are held, when the release is written.
    pub(crate) held: Arc<Held>,
    pub(crate) figures: SeriesFigures,
}

/// Computes the release that a plan writes by the one that also says which rows are held.
pub(crate) async fn compute(
    write: Arc<dyn ExecutionPlan>,
    marked: &Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
) -> Result<Computed> {
    let marked = answer_subqueries(marked, &task).await?;
    let (Some(release), Some(exec)) = (release_in(&write), marked.downcast_ref::<AnonymizeExec>())
    else {
        return internal_err!("a release of a series is in one task, and nothing is above it");
    };
    let [rows, newcomers] = exec.release_and_members(Arc::clone(&task)).await?;
    let figures = exec
        .series_figures()
        .ok_or_else(|| internal_datafusion_err!("a release of a series did not count"))?;
    let held = Arc::new(Held::new(&task));
    let rows = read_once(without_mark(rows, release.schema(), Arc::clone(&held))?);
    let rows =
        StreamingTableExec::try_new(Arc::clone(&rows.schema), vec![rows], None, [], false, None)?;
    let rows: Arc<dyn ExecutionPlan> = Arc::new(rows);
    let write = write.transform_down(|node| {
        if node.is::<AnonymizeExec>() {
            return Ok(Transformed::new(Arc::clone(&rows), true, TreeNodeRecursion::Jump));
        }
        // Nothing is left that would look its values up.
        Ok(match node.downcast_ref::<ScalarSubqueryExec>() {
            Some(subqueries) => Transformed::yes(Arc::clone(subqueries.input())),
            None => Transformed::no(node),
        })
    });
    Ok(Computed { write: write?.data, newcomers, held, figures })
}

/// The release of a plan, when the scalar subqueries above it are computed, which its expressions look up.
async fn answer_subqueries(
    plan: &Arc<dyn ExecutionPlan>,
    task: &Arc<TaskContext>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut plan = Arc::clone(plan);
    loop {
        let input = match plan.downcast_ref::<ScalarSubqueryExec>() {
            Some(node) => {
                let nothing = Arc::new(EmptyExec::new(plan.schema()));
                let (subqueries, results) = (node.subqueries().to_vec(), node.results().clone());
                let answered = Arc::new(ScalarSubqueryExec::new(nothing, subqueries, results));
                collect(answered, Arc::clone(task)).await?;
                Arc::clone(node.input())
            }
            // What leaves the release is compact.
            None if plan.name() == COMPACT => match plan.children()[..] {
                [input] => Arc::clone(input),
                _ => return Ok(plan),
            },
            None => return Ok(plan),
        };
        plan = input;
    }
}

/// Cohorts that repeat their last rows, as they pass by.
#[derive(Debug)]
pub(crate) struct Held {
    cohorts: Mutex<Vec<i64>>,
    memory: MemoryReservation,
}

impl Held {
    fn new(task: &TaskContext) -> Self {
        let memory = MemoryConsumer::new("held cohorts").register(task.memory_pool());
        Self { cohorts: Mutex::default(), memory }
    }

    fn note(&self, batch: &RecordBatch) -> Result<()> {
        let column = |name: &str| {
            batch.column_by_name(name).ok_or_else(|| internal_datafusion_err!("no column '{name}'"))
        };
        let cohorts = column("cohort")?.as_primitive_opt::<Int64Type>();
        let (Some(cohorts), Some(held)) = (cohorts, column("held")?.as_boolean_opt()) else {
            return internal_err!("cohorts came in other types than were planned");
        };
        let mut known = self.cohorts.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.capacity();
        for (cohort, _) in cohorts.values().iter().zip(held).filter(|(_, held)| *held == Some(true))
        {
            // Rows of a cohort are side by side.
            if known.last() != Some(cohort) {
                known.push(*cohort);
            }
        }
        self.memory.try_grow((known.capacity() - before) * size_of::<i64>())
    }

    /// All of them, as a column.
    pub(crate) fn column(&self) -> Int64Array {
        let known = self.cohorts.lock().unwrap_or_else(PoisonError::into_inner);
        Int64Array::from_iter_values(known.iter().copied())
    }
}

/// The rows in the columns that are published.
fn without_mark(
    rows: SendableRecordBatchStream,
    schema: SchemaRef,
    held: Arc<Held>,
) -> Result<SendableRecordBatchStream> {
    let marked = rows.schema();
    let kept = schema.fields().iter().map(|field| marked.index_of(field.name()));
    let kept = kept.collect::<std::result::Result<Vec<usize>, _>>()?;
    let published = Arc::clone(&schema);
    let rows = rows.map(move |batch| -> Result<RecordBatch> {
        let batch = batch?;
        held.note(&batch)?;
        let columns = kept.iter().map(|at| Arc::clone(batch.column(*at))).collect();
        Ok(RecordBatch::try_new(Arc::clone(&published), columns)?)
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

fn release_in(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    match plan.is::<AnonymizeExec>() {
        true => Some(Arc::clone(plan)),
        false => plan.children().into_iter().find_map(release_in),
    }
}

/// A stream as a relation that can be read once.
pub(super) fn frame(
    context: &SessionContext,
    rows: SendableRecordBatchStream,
) -> Result<DataFrame> {
    let rows = read_once(rows);
    context.read_table(Arc::new(StreamingTable::try_new(Arc::clone(&rows.schema), vec![rows])?))
}

struct ReadOnce {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

fn read_once(rows: SendableRecordBatchStream) -> Arc<ReadOnce> {
    Arc::new(ReadOnce { schema: rows.schema(), rows: Mutex::new(Some(rows)) })
}

impl fmt::Debug for ReadOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadOnce")
    }
}

impl PartitionStream for ReadOnce {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _task: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        rows.unwrap_or_else(|| {
            let error: Result<_, DataFusionError> =
                internal_err!("the rows of a night were read twice");
            let once = stream::once(async move { error }).boxed();
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), once))
        })
    }
}
