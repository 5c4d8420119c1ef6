//! Second pass: what the leaves of the cut tree hold.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::stream;

use super::{CellColumns, CellExec, as_stream, at_work, next_batch, read_pages};
use crate::columnar::{
    GlobalCodes, LeafCounter, Sketch, Survey, by_partition, mark, pages_to_batch,
};
use crate::engine::execution_error;
use crate::engine::method::Method;
use crate::hierarchy::Axis;
use crate::method::cells::{CutTree, Sample};

pub(super) fn run(
    exec: CellExec,
    columns: CellColumns,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = exec.schema();
    let layout = Arc::new(columns.layout(exec.children[1].schema()));
    let batches = async move {
        let survey = exec.shared.survey.get(survey(&exec, &columns, &context)).await?;
        let memory = MemoryConsumer::new("AnonymizeExec[counts]").register(context.memory_pool());
        let failed = execution_error;
        let leaves = survey.tree.leaves();
        let persons = exec.spec.privacy_unit.is_some().then_some(exec.spec.k as usize);
        let mut counter = LeafCounter::new(&layout, 2 * leaves as usize, persons, exec.spec.seed)
            .map_err(failed)?;
        let mut codes = GlobalCodes::new(&layout, &survey.values).map_err(failed)?;
        // Rows that the method leaves out count for the table and not for a class.
        let drops_incomplete = exec.spec.method == Method::KMember;
        let mut input = exec.children[1].execute(partition, Arc::clone(&context))?;
        while let Some(batch) = next_batch(&mut input).await? {
            codes.read(&batch).map_err(failed)?;
            let leaf_of = |row: usize| {
                let leaf = leaf_of(&survey.tree, &codes, row);
                let is_left_out = drops_incomplete && codes.is_incomplete(row, exec.sampled());
                if is_left_out { leaves + leaf } else { leaf }
            };
            counter.push(&batch, leaf_of).map_err(failed)?;
            memory.try_resize(counter.memory())?;
        }
        let mut pages = counter.finish().map_err(failed)?;
        // What the next step needs to find the leaf of a row. Every partition says it: none knows whether it is
        // the first.
        pages.extend(survey.to_pages().map_err(failed)?);
        mark(&mut pages).map_err(failed)?;
        pages_to_batch(&pages).map_err(failed)
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

/// Puts the sketches of all partitions together and cuts their sample.
async fn survey(
    exec: &CellExec,
    columns: &CellColumns,
    context: &Arc<TaskContext>,
) -> Result<Survey> {
    let resolved = exec.resolved(context).await?;
    let pages = read_pages(&exec.children[0], context).await?;
    // The sketches are about the columns of the input, wherever they stand in it.
    let layout = columns.layout(exec.children[1].schema());
    let (sampled, cells) = (exec.sampled(), exec.cells);
    at_work(move || {
        let sketch = Sketch::merge(&layout, &by_partition(pages), &resolved.hierarchies);
        let Sketch { domains, codes, weights } = sketch.map_err(execution_error)?;
        let axes: Vec<Axis> =
            domains.iter().take(sampled).map(|domain| domain.axis.clone()).collect();
        let sample = Sample { axes: &axes, codes: &codes, weights: &weights };
        let tree = CutTree::grow(&sample, cells);
        Survey::new(&domains, tree, resolved.levels.clone()).map_err(execution_error)
    })
    .await
}
