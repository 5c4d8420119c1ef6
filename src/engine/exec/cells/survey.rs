//! Between the passes: all values of the table, and where it is cut.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::stream;

use super::{CellExec, Notes, as_stream};
use crate::columnar::{Layout, Sketch, Survey, by_partition, pages_to_batch};
use crate::engine::operator::running;
use crate::hierarchy::Axis;
use crate::method::cells::{CutTree, Sample};

/// Merges the sketches of all partitions and cuts their sample.
pub(super) fn run(
    exec: CellExec,
    layout: Layout,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = exec.schema();
    let batches = async move {
        let resolved = exec.resolved(&context).await?;
        let notes = Notes::read(&exec.children[0], &context).await?;
        let (sampled, cells) = (exec.sampled(), exec.cells);
        running(move || {
            let Notes { pages, memory: _held } = notes;
            let sketch = Sketch::merge(&layout, &by_partition(pages), &resolved.hierarchies);
            let Sketch { domains, codes, weights } = sketch?;
            let axes: Vec<Axis> =
                domains.iter().take(sampled).map(|domain| domain.axis.clone()).collect();
            let sample = Sample { axes: &axes, codes: &codes, weights: &weights };
            let tree = CutTree::grow(&sample, cells);
            let survey = Survey::new(&domains, tree, resolved.levels.clone())?;
            Ok(pages_to_batch(&survey.to_pages()?)?)
        })
        .await
    };
    Ok(as_stream(schema, stream::once(batches)))
}
