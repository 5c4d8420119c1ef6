//! Third pass: the cell of every row.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, LargeBinaryBuilder, RecordBatch, UInt32Array, new_null_array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use futures::{StreamExt, TryStreamExt, stream};

use super::count::leaf_of;
use super::{
    CellColumns, CellExec, CellStep, WHOLE_TABLE, as_stream, at_work, next_batch, read_pages,
};
use crate::columnar::{
    GlobalCodes, Kind, Layout, LeafCounts, ModelledValues, Survey, TableHeader, by_partition,
    pages_to_batch, to_bytes,
};
use crate::engine::exec::requirement::Asked;
use crate::engine::execution_error;
use crate::engine::spec::Spec;
use crate::model::{GlobalShares, SensitiveColumn, Tally};

/// The cells of a table, and what each of them must know of it.
#[derive(Debug)]
pub(super) struct CellPlan {
    survey: Survey,
    cell_of_leaf: Vec<u32>,
    /// What the rows of each cell are exchanged by.
    keys: Vec<u32>,
    /// Rows of each cell.
    rows: Vec<u64>,
    /// What every partition of cells must know of the table.
    header: Vec<u8>,
    _memory: MemoryReservation,
}

/// What a partition of rows has sent on before them.
struct Sent {
    /// By cell.
    cells: Vec<bool>,
    /// Keys of the partitions that have the header of the table.
    tables: BTreeSet<u32>,
}

pub(super) fn run(
    exec: CellExec,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let CellStep::Assign { columns, partitions } = exec.step.clone() else {
        return internal_err!("a step of a release in cells is another one");
    };
    let schema = exec.schema();
    let out = Arc::clone(&schema);
    let batches = async move {
        let plan = exec.shared.plan.get(plan(&exec, &columns, partitions, &context)).await?;
        let layout = columns.layout(exec.children[1].schema());
        let codes = GlobalCodes::new(&layout, &plan.survey.values).map_err(execution_error)?;
        let input = exec.children[1].execute(partition, Arc::clone(&context))?;
        let mut sent = Sent { cells: vec![false; plan.keys.len()], tables: BTreeSet::new() };
        // A table without rows has cells nevertheless.
        let is_empty = plan.rows.iter().all(|rows| *rows == 0);
        let first = is_empty.then(|| plan.headers(&mut sent, &out, |_| true));
        let first = stream::iter(first.map(|headers| headers.map(|headers| vec![headers])));
        let state = (input, codes, plan, sent);
        let rows = stream::try_unfold(state, move |(mut input, mut codes, plan, mut sent)| {
            let out = Arc::clone(&out);
            async move {
                let Some(batch) = next_batch(&mut input).await? else { return Ok(None) };
                codes.read(&batch).map_err(execution_error)?;
                let batches = plan.assign(&batch, &codes, &out, &mut sent)?;
                Ok(Some((batches, (input, codes, plan, sent))))
            }
        });
        let each = |batches: Vec<RecordBatch>| stream::iter(batches.into_iter().map(Ok));
        Ok::<_, DataFusionError>(first.chain(rows).map_ok(each).try_flatten())
    };
    Ok(as_stream(schema, stream::once(batches).try_flatten()))
}

/// Puts the counts of all partitions together and merges what cannot stand alone.
async fn plan(
    exec: &CellExec,
    columns: &CellColumns,
    partitions: usize,
    context: &Arc<TaskContext>,
) -> Result<CellPlan> {
    let pages = read_pages(&exec.children[0], context).await?;
    let layout = columns.layout(exec.children[1].schema());
    let (spec, sampled) = (Arc::clone(&exec.spec), exec.sampled());
    let memory = MemoryConsumer::new("AnonymizeExec[values]").register(context.memory_pool());
    at_work(move || {
        let survey = Survey::of_pages(&pages, layout.quasi_identifiers.len(), sampled)
            .map_err(execution_error)?;
        let units = usize::from(spec.privacy_unit.is_some());
        let sizes = (2 * survey.tree.leaves() as usize, layout.modelled.len() - units);
        let counts =
            LeafCounts::merge(&layout, &by_partition(pages), sizes).map_err(execution_error)?;
        let cell_of_leaf = Stands::new(&spec, &survey, &counts, &layout)?.cells()?;
        CellPlan::new(&spec, survey, (counts, cell_of_leaf), partitions, memory)
    })
    .await
}

/// Decides which leaves can be a cell.
struct Stands<'a> {
    spec: &'a Spec,
    survey: &'a Survey,
    counts: &'a LeafCounts,
    columns: Vec<SensitiveColumn>,
}

impl<'a> Stands<'a> {
    fn new(
        spec: &'a Spec,
        survey: &'a Survey,
        counts: &'a LeafCounts,
        layout: &Layout,
    ) -> Result<Self> {
        let column = |(at, of): (&usize, &crate::columnar::ModelledCounts)| {
            let field = layout.schema.field(*at);
            let kind = Kind::of(field.data_type(), field.name());
            SensitiveColumn {
                name: field.name().clone(),
                codes: Vec::new().into(),
                cardinality: of.codes() as u32,
                ordered: kind.is_ok_and(Kind::has_ranges),
            }
        };
        let columns = layout.modelled.iter().zip(&counts.modelled).map(column).collect();
        Ok(Self { spec, survey, counts, columns })
    }

    /// The cell of every leaf.
    fn cells(&self) -> Result<Vec<u32>> {
        let populations: Vec<Option<Arc<[u64]>>> =
            self.counts.modelled.iter().map(|of| Some(of.population().into())).collect();
        let levels = self.survey.levels.as_ref();
        let asked = Asked { spec: self.spec, levels, populations: &populations };
        let values: Vec<&ModelledValues> =
            self.counts.modelled.iter().map(|of| &of.values).collect();
        let requirement = asked.of_values(&values)?;
        let global = GlobalShares::new(&requirement, &self.columns);
        let mut tally = Tally::new(&requirement, &self.columns, &global);
        let k = u64::from(self.spec.k);
        // From 2k² rows on, rounded partition makes no class of more than k + 1.
        let least = k.saturating_mul(k).saturating_mul(2).max(1);
        Ok(self.survey.tree.cells(&mut |leaves: Range<u32>| {
            let leaves = leaves.start as usize..leaves.end as usize;
            let rows: u64 = self.counts.rows[leaves.clone()].iter().sum();
            if rows < least || !self.has_persons(leaves.clone()) {
                return false;
            }
            tally.clear();
            tally.add_counted(rows, &self.modelled(leaves));
            tally.holds()
        }))
    }

    fn has_persons(&self, leaves: Range<usize>) -> bool {
        if self.spec.privacy_unit.is_none() {
            return true;
        }
        let persons: BTreeSet<u64> =
            self.counts.persons[leaves].iter().flatten().copied().collect();
        persons.len() >= self.spec.k as usize
    }

    /// By modelled column, codes and rows of some leaves.
    fn modelled(&self, leaves: Range<usize>) -> Vec<Vec<(u32, u64)>> {
        let of_column = |of: &crate::columnar::ModelledCounts| {
            let mut all: Vec<(u32, u64)> =
                of.by_leaf[leaves.clone()].iter().flatten().copied().collect();
            all.sort_unstable();
            let sum = |codes: &[(u32, u64)]| {
                (codes[0].0, codes.iter().map(|(_, rows)| rows).sum::<u64>())
            };
            all.chunk_by(|a, b| a.0 == b.0).map(sum).collect()
        };
        self.counts.modelled.iter().map(of_column).collect()
    }
}

impl CellPlan {
    fn new(
        spec: &Spec,
        survey: Survey,
        (counts, cell_of_leaf): (LeafCounts, Vec<u32>),
        partitions: usize,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let leaves = cell_of_leaf.len();
        let cells = cell_of_leaf.iter().max().map_or(1, |last| *last as usize + 1);
        let mut rows = vec![0u64; cells];
        for (leaf, of_leaf) in counts.rows.iter().enumerate() {
            rows[cell_of_leaf[leaf % leaves] as usize] += of_leaf;
        }
        if let Some(rows) = rows.iter().find(|rows| u32::try_from(**rows).is_err()) {
            return exec_err!(
                "a cell of {rows} rows is more than one operator takes (4294967295): SET anonymize.cells to a \
                 larger number"
            );
        }
        let population = |of: &crate::columnar::ModelledCounts| {
            // Only t compares with the whole table.
            let population = spec.models.t.map(|_| TableHeader::population(of));
            population.transpose().map_err(execution_error)
        };
        let populations = counts.modelled.iter().map(population).collect::<Result<Vec<_>>>()?;
        let header = TableHeader {
            values: survey.values.clone(),
            populations,
            rows: rows.iter().sum(),
            cells: cells as u64,
        };
        let pages = header.to_pages().and_then(|pages| to_bytes(&pages_to_batch(&pages)?));
        let header = pages.map_err(execution_error)?;
        // The values themselves, and as they travel.
        memory.try_grow(2 * header.len())?;
        let keys = keys(&rows, partitions)?;
        Ok(Self { survey, cell_of_leaf, keys, rows, header, _memory: memory })
    }

    /// One row for every wanted cell that was not sent before, and one about the table for every partition that
    /// gets its first cell.
    fn headers(
        &self,
        sent: &mut Sent,
        schema: &SchemaRef,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<RecordBatch> {
        let (mut cells, mut keys) = (Vec::new(), Vec::new());
        let mut headers = LargeBinaryBuilder::new();
        for (cell, (key, rows)) in self.keys.iter().zip(&self.rows).enumerate() {
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
        sent: &mut Sent,
    ) -> Result<Vec<RecordBatch>> {
        let cell = |row| self.cell_of_leaf[leaf_of(&self.survey.tree, codes, row) as usize];
        let cells = UInt32Array::from_iter_values((0..batch.num_rows()).map(cell));
        let mut here = vec![false; self.keys.len()];
        cells.values().iter().for_each(|cell| here[*cell as usize] = true);
        let headers = self.headers(sent, schema, |cell| here[cell as usize])?;
        let keys = cells.values().iter().map(|cell| self.keys[*cell as usize]);
        let keys = UInt32Array::from_iter_values(keys);
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(cells));
        columns.push(Arc::new(keys));
        columns.push(new_null_array(&DataType::LargeBinary, batch.num_rows()));
        let rows = RecordBatch::try_new(Arc::clone(schema), columns)?;
        Ok([headers, rows].into_iter().filter(|batch| batch.num_rows() > 0).collect())
    }
}

/// Keys that the exchange spreads evenly: the largest cell goes where there is least, and so on.
fn keys(rows: &[u64], partitions: usize) -> Result<Vec<u32>> {
    let of_partition = partition_keys(partitions)?;
    let mut by_size: Vec<usize> = (0..rows.len()).collect();
    by_size.sort_by_key(|cell| (std::cmp::Reverse(rows[*cell]), *cell));
    let mut load = vec![0u64; partitions];
    let mut keys = vec![0; rows.len()];
    for cell in by_size {
        let least = load.iter().enumerate().min_by_key(|(_, load)| **load).map_or(0, |(at, _)| at);
        load[least] += rows[cell].max(1);
        keys[cell] = of_partition[least];
    }
    Ok(keys)
}

/// A number for every partition that DataFusion's hash exchange sends there. Should another one hash
/// otherwise, rows of a cell still stay together.
fn partition_keys(partitions: usize) -> Result<Vec<u32>> {
    let field = Field::new("key", DataType::UInt32, false);
    let schema = Arc::new(Schema::new(vec![field]));
    let candidates: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..64 * partitions as u32));
    let batch = RecordBatch::try_new(schema, vec![candidates])?;
    let mut keys = vec![0; partitions];
    let column = Arc::new(Column::new("key", 0));
    let mut partitioner =
        BatchPartitioner::new_hash_partitioner(vec![column], partitions, Time::default())?;
    partitioner.partition(batch, |partition, part| {
        use datafusion::arrow::array::AsArray;
        use datafusion::arrow::datatypes::UInt32Type;
        let of_partition = part.column(0).as_primitive::<UInt32Type>();
        if !of_partition.is_empty() {
            keys[partition] = of_partition.value(0);
        }
        Ok(())
    })?;
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_spread_over_all_partitions() -> Result<()> {
        let keys = keys(&[10, 10, 10, 10, 5, 5, 5, 5], 4)?;
        let of_partition = partition_keys(4)?;
        let load = |key: &u32| {
            let cells = keys.iter().zip([10, 10, 10, 10, 5, 5, 5, 5]);
            cells.filter(|(of_cell, _)| *of_cell == key).map(|(_, rows)| rows).sum::<u64>()
        };
        assert_eq!(of_partition.iter().map(load).collect::<Vec<u64>>(), [15, 15, 15, 15]);
        Ok(())
    }
}
