//! Second pass: what the leaves of the cut tree hold.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::stream;

use super::step::CellColumns;
use super::{CellExec, Notes, as_stream, next_batch};
use crate::columnar::{GlobalCodes, Layout, LeafCounter, Survey, mark, pages_to_batch};
use crate::method::cells::CutTree;
use crate::model::Purpose;

/// The survey of the step before, and its memory.
#[derive(Debug)]
pub(super) struct Surveyed {
    survey: Survey,
    _memory: MemoryReservation,
}

pub(super) fn run(
    exec: CellExec,
    columns: &CellColumns,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = exec.schema();
    let layout = Arc::new(columns.layout(exec.children[1].schema()));
    let batches = async move {
        let surveyed = exec.shared.survey.get(Surveyed::read(&exec, &layout, &context)).await?;
        let survey = &surveyed.survey;
        let memory = MemoryConsumer::new("AnonymizeExec[counts]").register(context.memory_pool());
        let leaves = survey.tree.leaves();
        let persons = exec.spec.privacy_unit.is_some().then_some(exec.spec.k as usize);
        let counted = super::arrange::counted_columns(&exec.spec, &layout);
        let seed = exec.spec.secret.seed(Purpose::CellPersons);
        let mut counter = LeafCounter::new(&layout, 2 * leaves as usize, counted, persons, seed)?;
        let mut codes = GlobalCodes::new(&layout, &survey.values)?;
        // Rows that the method leaves out count for the table and not for a class.
        let drops_incomplete = exec.spec.method.drops_incomplete_rows();
        let mut input = exec.children[1].execute(partition, Arc::clone(&context))?;
        while let Some(batch) = next_batch(&mut input).await? {
            codes.read(&batch)?;
            let leaf_of = |row: usize| {
                let leaf = leaf_of(&survey.tree, &codes, row);
                let is_left_out = drops_incomplete && codes.is_incomplete(row, exec.sampled());
                if is_left_out { leaves + leaf } else { leaf }
            };
            counter.push(&batch, leaf_of)?;
            memory.try_resize(counter.memory())?;
        }
        let mut pages = counter.finish()?;
        // The next step needs the survey too. On a cluster every task numbers its partitions from 0, so the survey
        // may be sent several times.
        if partition == 0 {
            pages.extend(survey.to_pages()?);
        }
        mark(&mut pages)?;
        Ok(pages_to_batch(&pages)?)
    };
    Ok(as_stream(schema, stream::once(batches)))
}

/// The leaf of a row of the last batch.
pub(super) fn leaf_of(tree: &CutTree, codes: &GlobalCodes, row: usize) -> u32 {
    let mut of_row = [0; crate::model::MAX_QUASI_IDENTIFIERS + 1];
    let of_row = &mut of_row[..codes.columns()];
    codes.row(row, of_row);
    tree.leaf(of_row)
}

impl Surveyed {
    /// Reads it from the step before.
    async fn read(exec: &CellExec, layout: &Layout, context: &Arc<TaskContext>) -> Result<Self> {
        let Notes { pages, memory } = Notes::read(&exec.children[0], context).await?;
        let survey = Survey::of_pages(&pages, layout.quasi_identifiers.len(), exec.sampled());
        Ok(Self { survey: survey?, _memory: memory })
    }
}
