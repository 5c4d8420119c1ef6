//! First pass: what values there are, and a sample of how they occur together.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::stream;

use super::{CellColumns, CellExec, as_stream, next_batch};
use crate::columnar::{Sketcher, mark, pages_to_batch};
use crate::model::Purpose;

pub(super) fn run(
    exec: CellExec,
    columns: &CellColumns,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = exec.schema();
    let layout = columns.layout(exec.children[0].schema());
    let mut input = exec.children[0].execute(partition, Arc::clone(&context))?;
    let batches = async move {
        let memory = MemoryConsumer::new("AnonymizeExec[sketch]").register(context.memory_pool());
        let seed = exec.spec.secret.seed(Purpose::CellSample);
        let mut sketcher = Sketcher::new(&layout, exec.sampled(), seed)?;
        while let Some(batch) = next_batch(&mut input).await? {
            sketcher.push(&batch)?;
            memory.try_resize(sketcher.memory())?;
        }
        let mut pages = sketcher.finish()?;
        mark(&mut pages)?;
        Ok(pages_to_batch(&pages)?)
    };
    Ok(as_stream(schema, stream::once(batches)))
}
