//! Third pass: the cell of every row.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, LargeBinaryBuilder, RecordBatch, UInt32Array, new_null_array,
};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};

use super::count::leaf_of;
use super::step::{CellColumns, WHOLE_TABLE};
use super::{CellExec, Notes, as_stream, next_batch};
use crate::columnar::{CellPlan, GlobalCodes, Layout};

/// The plan of the cells, and the header that goes to every partition of them.
#[derive(Debug)]
pub(super) struct Arranged {
    plan: CellPlan,
    /// The header of the table, encoded.
    header: Vec<u8>,
    _memory: MemoryReservation,
}

/// The headers that a partition has sent.
struct SentHeaders {
    /// By cell.
    cells: Vec<bool>,
    /// Keys of the partitions that have the header of the table.
    tables: BTreeSet<u32>,
}

pub(super) fn run(
    exec: CellExec,
    columns: &CellColumns,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = exec.schema();
    let out = Arc::clone(&schema);
    let layout = columns.layout(exec.children[1].schema());
    let batches = async move {
        let cells = exec.shared.cells.get(arranged(&exec, &layout, &context)).await?;
        let plan = &cells.plan;
        let codes = GlobalCodes::new(&layout, &plan.header.values)?;
        let input = exec.children[1].execute(partition, Arc::clone(&context))?;
        let mut sent = SentHeaders { cells: vec![false; plan.keys.len()], tables: BTreeSet::new() };
        // A table without rows has cells nevertheless.
        let is_empty = plan.rows.iter().all(|rows| *rows == 0);
        let first = is_empty.then(|| cells.headers(&mut sent, &out, |_| true));
        let first = stream::iter(first.map(|headers| headers.map(|headers| vec![headers])));
        let state = (input, codes, cells, sent);
        let rows = stream::try_unfold(state, move |(mut input, mut codes, cells, mut sent)| {
            let out = Arc::clone(&out);
            async move {
                let Some(batch) = next_batch(&mut input).await? else { return Ok(None) };
                codes.read(&batch)?;
                let batches = cells.assign(&batch, &codes, &out, &mut sent)?;
                Ok(Some((batches, (input, codes, cells, sent))))
            }
        });
        let each = |batches: Vec<RecordBatch>| stream::iter(batches.into_iter().map(Ok));
        Ok::<_, DataFusionError>(first.chain(rows).map_ok(each).try_flatten())
    };
    Ok(as_stream(schema, stream::once(batches).try_flatten()))
}

/// The arrangement of the step before.
async fn arranged(
    exec: &CellExec,
    layout: &Layout,
    context: &Arc<TaskContext>,
) -> Result<Arranged> {
    let Notes { pages, memory } = Notes::read(&exec.children[0], context).await?;
    let (columns, modelled) = (layout.quasi_identifiers.len(), layout.modelled.len());
    let plan = CellPlan::of_pages(&pages, columns, exec.sampled(), modelled)?;
    let header = plan.header.to_bytes()?;
    memory.try_grow(header.len())?;
    Ok(Arranged { plan, header, _memory: memory })
}

impl Arranged {
    /// One row for every wanted cell that was not sent before, and one about the table for every partition that
    /// gets its first cell.
    fn headers(
        &self,
        sent: &mut SentHeaders,
        schema: &SchemaRef,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<RecordBatch> {
        let (mut cells, mut keys) = (Vec::new(), Vec::new());
        let mut headers = LargeBinaryBuilder::new();
        for (cell, (key, rows)) in self.plan.keys.iter().zip(&self.plan.rows).enumerate() {
            if sent.cells[cell] || !wanted(cell as u32) {
                continue;
            }
            sent.cells[cell] = true;
            if sent.tables.insert(*key) {
                cells.push(WHOLE_TABLE);
                keys.push(*key);
                headers.append_value(&self.header);
            }
            cells.push(cell as u32);
            keys.push(*key);
            headers.append_value(rows.to_le_bytes());
        }
        let fields = schema.fields();
        let empty = fields[..fields.len() - 3].iter();
        let mut columns: Vec<ArrayRef> =
            empty.map(|field| new_null_array(field.data_type(), cells.len())).collect();
        columns.push(Arc::new(UInt32Array::from(cells)));
        columns.push(Arc::new(UInt32Array::from(keys)));
        columns.push(Arc::new(headers.finish()));
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    }

    /// The rows of a batch with their cells, behind the headers of those that come for the first time.
    fn assign(
        &self,
        batch: &RecordBatch,
        codes: &GlobalCodes,
        schema: &SchemaRef,
        sent: &mut SentHeaders,
    ) -> Result<Vec<RecordBatch>> {
        let cell = |row| self.plan.cell_of_leaf[leaf_of(&self.plan.tree, codes, row) as usize];
        let cells = UInt32Array::from_iter_values((0..batch.num_rows()).map(cell));
        let mut here = vec![false; self.plan.keys.len()];
        cells.values().iter().for_each(|cell| here[*cell as usize] = true);
        let headers = self.headers(sent, schema, |cell| here[cell as usize])?;
        let keys = cells.values().iter().map(|cell| self.plan.keys[*cell as usize]);
        let keys = UInt32Array::from_iter_values(keys);
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(cells));
        columns.push(Arc::new(keys));
        columns.push(new_null_array(&DataType::LargeBinary, batch.num_rows()));
        let rows = RecordBatch::try_new(Arc::clone(schema), columns)?;
        Ok([headers, rows].into_iter().filter(|batch| batch.num_rows() > 0).collect())
    }
}
