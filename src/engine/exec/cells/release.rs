//! The method, cell by cell.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::Hasher;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, LargeBinaryArray, RecordBatch, UInt32Array, UInt64Array,
    new_null_array,
};
use datafusion::arrow::compute::{cast, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type, UInt64Type};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};

use super::step::{CLASS, CellStep, WHOLE_TABLE, sorted_as};
use super::summary::Summary;
use super::{CellExec, as_stream, next_batch};
use crate::columnar::{
    Coding, Layout, OutputColumn, Reader, ReleaseForm, TableHeader, changed_input, of_bytes,
    pages_of_batch,
};
use crate::engine::exec::form::Part;
use crate::engine::exec::memory::{Emitting, Reading, ReleaseMemory};
use crate::engine::exec::metrics::ReleaseMetrics;
use crate::engine::exec::pipeline::{self, CancelOnDrop, Release, Resolved, guarded, thread_pool};
use crate::engine::operator::running;
use crate::model::{Cancel, Purpose, Seed};

pub(super) fn run(
    exec: CellExec,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = exec.schema();
    let (release, form) = prepare(&exec, Arc::clone(&context))?;
    let names = ClassNames(exec.spec.secret.seed(Purpose::CellClasses));
    let guard = Arc::new(CancelOnDrop(release.cancel.clone()));
    let out = Arc::clone(&schema);
    let batches = async move {
        let resolved = exec.resolved(&context).await?;
        let input = exec.children[0].execute(partition, Arc::clone(&context))?;
        let read = Cells::read(&release, input).await?;
        let handle = tokio::runtime::Handle::current();
        let (release, verified) = running(move || {
            let pool = thread_pool(release.threads)?;
            let verified = pool.install(|| read.form_classes(&release, &resolved, &handle))?;
            Ok((release, verified))
        })
        .await?;
        let Verified { cells, summary, shared } = verified;
        let shared = Arc::new(shared);
        let first = summary_row(&out, summary);
        let parts = stream::iter(cells.into_iter().map(Ok::<_, DataFusionError>));
        let rows = parts.map_ok(move |(cell, memory)| {
            let (out, shared) = (Arc::clone(&out), Arc::clone(&shared));
            let mut place = 0;
            let batches = release.emission().stream(&memory, form.clone());
            // The stream of a cell holds the memory of its release, and all of them what they share.
            let batches = stream::once(async move { batches }).try_flatten();
            batches.map(move |batch| {
                let _alive = &shared;
                with_order_columns(&batch?, |class| names.of(cell, class), &mut place, &out)
            })
        });
        Ok::<_, DataFusionError>(stream::once(async { first }).chain(rows.try_flatten()))
    };
    let batches = stream::once(batches).try_flatten();
    Ok(as_stream(schema, guarded(batches, guard)))
}

/// What an execution needs, apart from its rows.
fn prepare(exec: &CellExec, context: Arc<TaskContext>) -> Result<(Release, ReleaseForm)> {
    let CellStep::Release { binding, input_schema, schema, projection, order_by } = &exec.step
    else {
        return internal_err!("a step of a release in cells is another one");
    };
    let (mut payload, projection) = (Vec::new(), projection.as_deref());
    let mut form =
        pipeline::projected_form(&exec.spec, binding, projection, order_by, &mut payload);
    // Rows are ordered by class, whether or not it is published.
    form.columns.push(OutputColumn::ClassId);
    let class = Field::new(CLASS, DataType::UInt64, false);
    let fields = schema.fields().iter().map(|field| field.as_ref().clone());
    form.schema = Arc::new(Schema::new(fields.chain([class]).collect::<Vec<Field>>()));
    let layout = pipeline::layout(&exec.spec, binding, Arc::clone(input_schema), payload);
    let partitions = exec.properties.output_partitioning().partition_count().max(1);
    let release = Release {
        spec: Arc::clone(&exec.spec),
        layout: Arc::new(layout),
        fetch: None,
        metrics: ReleaseMetrics::new(&exec.metrics),
        // Partitions work side by side.
        threads: (context.session_config().target_partitions() / partitions).max(1),
        streams: 1,
        context,
        cancel: Cancel::default(),
    };
    Ok((release, form))
}

/// The cells of one partition, as they were read.
struct Cells {
    by_number: BTreeMap<u32, CellRows>,
    /// Rows of every cell of this partition.
    sizes: BTreeMap<u32, u64>,
    /// What is known of the table, encoded and decoded: every partition of the step before sends it.
    table: Option<(Vec<u8>, TableHeader)>,
    /// Reserved for what is known of the table.
    memory: MemoryReservation,
}

struct CellRows {
    reader: Reader,
    memory: ReleaseMemory<Reading>,
    rows: u64,
}

impl CellRows {
    fn new(release: &Release) -> Result<Self> {
        let reader = Reader::new(&release.layout, release.spec.secret)?;
        Ok(Self { reader, memory: release.memory(1), rows: 0 })
    }
}

impl Cells {
    async fn read(release: &Release, mut input: SendableRecordBatchStream) -> Result<Self> {
        let memory = MemoryConsumer::new("AnonymizeExec[values]");
        let memory = memory.register(release.context.memory_pool());
        let (by_number, sizes) = (BTreeMap::new(), BTreeMap::new());
        let mut cells = Self { by_number, sizes, table: None, memory };
        loop {
            let waiting = release.metrics.read_time.timer();
            let batch = next_batch(&mut input).await?;
            waiting.done();
            let Some(batch) = batch else { break };
            cells.push(release, &batch)?;
        }
        for cell in cells.by_number.values_mut() {
            let chunks = cell.reader.finish()?;
            cell.memory.add(0, chunks, cell.reader.memory())?;
        }
        Ok(cells)
    }

    /// Takes in a batch of rows and headers of several cells.
    fn push(&mut self, release: &Release, batch: &RecordBatch) -> Result<()> {
        let columns = batch.num_columns() - 3;
        let numbers = batch.column(columns).as_primitive::<UInt32Type>();
        let headers: &LargeBinaryArray = batch.column(columns + 2).as_binary();
        let mut rows_of: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (row, number) in numbers.values().iter().enumerate() {
            if headers.is_valid(row) {
                self.add_header(&release.layout, *number, headers.value(row))?;
            } else {
                rows_of.entry(*number).or_default().push(row as u32);
            }
        }
        let input: Vec<usize> = (0..columns).collect();
        for (number, rows) in rows_of {
            let part = match rows.len() == batch.num_rows() {
                true => batch.clone(),
                false => take_record_batch(batch, &UInt32Array::from(rows))?,
            };
            let part = part.project(&input)?;
            let schema = Arc::clone(&release.layout.schema);
            let part = RecordBatch::try_new(schema, part.columns().to_vec())?;
            self.add_rows(release, number, part)?;
        }
        Ok(())
    }

    fn add_header(&mut self, layout: &Layout, number: u32, bytes: &[u8]) -> Result<()> {
        if number == WHOLE_TABLE {
            return self.add_table(layout, bytes);
        }
        let Ok(rows) = bytes.try_into().map(u64::from_le_bytes) else {
            return internal_err!("the header of a cell is not one");
        };
        match self.sizes.insert(number, rows) {
            Some(known) if known != rows => internal_err!("a cell has two different headers"),
            _ => Ok(()),
        }
    }

    fn add_table(&mut self, layout: &Layout, bytes: &[u8]) -> Result<()> {
        if let Some((known, _)) = &self.table {
            return match known == bytes {
                true => Ok(()),
                false => internal_err!("a table has two different headers"),
            };
        }
        // The bytes, the decoded values, and the numbers and codes of each value.
        self.memory.try_grow(4 * bytes.len())?;
        let pages = of_bytes(bytes).and_then(|batch| pages_of_batch(&batch));
        let (columns, modelled) = (layout.quasi_identifiers.len(), layout.modelled.len());
        let header = pages.and_then(|pages| TableHeader::of_pages(&pages, columns, modelled));
        self.table = Some((bytes.to_vec(), header?));
        Ok(())
    }

    fn add_rows(&mut self, release: &Release, number: u32, rows: RecordBatch) -> Result<()> {
        let cell = match self.by_number.entry(number) {
            Entry::Occupied(cell) => cell.into_mut(),
            Entry::Vacant(place) => place.insert(CellRows::new(release)?),
        };
        cell.rows += rows.num_rows() as u64;
        let timer = release.metrics.encode_time.timer();
        let chunks = cell.reader.push(rows)?;
        timer.done();
        let Err(refused) = cell.memory.add(0, chunks, cell.reader.memory()) else {
            return Ok(());
        };
        // A cell that needs little must not fail because others hold much.
        let mut made_room = false;
        for (other, cell) in &self.by_number {
            made_room |= *other != number && cell.memory.make_room()?;
        }
        match self.by_number.get(&number) {
            Some(cell) if made_room => cell.memory.reserve(),
            _ => Err(refused),
        }
    }

    /// Forms and verifies the classes of every cell.
    fn form_classes(
        mut self,
        release: &Release,
        resolved: &Resolved,
        handle: &tokio::runtime::Handle,
    ) -> Result<Verified> {
        let mut verified =
            Verified { cells: Vec::new(), summary: Summary::default(), shared: self.memory };
        let Some((_, table)) = self.table.take() else {
            return match self.by_number.is_empty() && self.sizes.is_empty() {
                true => Ok(verified),
                false => internal_err!("cells came without what is known of their table"),
            };
        };
        let (mut readers, mut cells) = (Vec::new(), Vec::new());
        for (number, rows) in self.sizes {
            let cell = match self.by_number.remove(&number) {
                Some(cell) => cell,
                None => CellRows::new(release)?,
            };
            if cell.rows != rows {
                return Err(changed_input().into());
            }
            readers.push(cell.reader);
            cells.push((number, rows, cell.memory));
        }
        if !self.by_number.is_empty() {
            return internal_err!("rows of a cell came without its header");
        }
        release.check_privacy_unit(&readers)?;
        let populations = populations(&table);
        let codes: Vec<u32> = table.values.iter().map(|values| values.len() as u32).collect();
        readers.push(reader_of_values(release, table.values, table.populations)?);
        let timer = release.metrics.encode_time.timer();
        let codings =
            Coding::of_parts(&release.layout, &readers, &resolved.hierarchies, &release.cancel)?;
        drop(readers);
        timer.done();
        for ((number, rows, memory), coding) in cells.into_iter().zip(codings) {
            let part = Part { number, codes: codes.clone(), populations: populations.clone() };
            let before = release.metrics.suppressed_rows.value();
            let memory = memory.arrange(handle.clone());
            let memory = release.form_classes(coding, resolved, memory, Some(&part))?;
            verified.summary.add(&Summary {
                table_rows: table.rows,
                table_cells: table.cells,
                rows,
                cells: 1,
                published: memory.release().table.published() as u64,
                suppressed: (release.metrics.suppressed_rows.value() - before) as u64,
                classes: release.metrics.classes.value() as u64,
                largest_class: release.metrics.largest_class.value() as u64,
                lost: release.metrics.loss.get() * rows as f64,
                unit_share: release.metrics.unit_share(),
            })?;
            verified.cells.push((number, memory));
        }
        let summary = &verified.summary;
        release.metrics.loss.set(summary.lost / summary.rows.max(1) as f64);
        release.metrics.classes.set(summary.classes as usize);
        // Gauges of partitions are added up; the largest class is shown where it is known.
        release.metrics.largest_class.set(0);
        Ok(verified)
    }
}

/// The releases of all cells of a partition.
struct Verified {
    cells: Vec<(u32, Arc<ReleaseMemory<Emitting>>)>,
    summary: Summary,
    /// Reserved for the values that all cells share.
    shared: MemoryReservation,
}

/// A reader that has met all values of the table that matter to a cell.
fn reader_of_values(
    release: &Release,
    values: Vec<ArrayRef>,
    populations: Vec<Option<(ArrayRef, Arc<[u64]>)>>,
) -> Result<Reader> {
    let modelled = populations.into_iter().map(|of| of.map(|(values, _)| values));
    let known: Vec<Option<ArrayRef>> = values.into_iter().map(Some).chain(modelled).collect();
    Ok(Reader::of_values(&release.layout, release.spec.secret, &known)?)
}

fn populations(table: &TableHeader) -> Vec<Option<Arc<[u64]>>> {
    let counts = |of: &Option<(ArrayRef, Arc<[u64]>)>| of.as_ref().map(|(_, of)| Arc::clone(of));
    table.populations.iter().map(counts).collect()
}

/// The row that a partition sends before all others.
fn summary_row(schema: &SchemaRef, summary: Summary) -> Result<RecordBatch> {
    let fields = schema.fields();
    let empty = fields[..fields.len() - 2].iter();
    let mut columns: Vec<ArrayRef> =
        empty.map(|field| new_null_array(field.data_type(), 1)).collect();
    columns.push(Arc::new(UInt32Array::from(vec![0])));
    columns.push(Arc::new(LargeBinaryArray::from_iter_values([summary.to_bytes()])));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Rows of a cell with the columns that order them among all cells.
fn with_order_columns(
    batch: &RecordBatch,
    name: impl Fn(u64) -> u64,
    place: &mut u32,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    let Some(local) = columns.pop() else { return internal_err!("rows have no class") };
    for column in &mut columns {
        let data_type = sorted_as(column.data_type());
        if data_type != *column.data_type() {
            *column = cast(column, &data_type)?;
        }
    }
    let local = local.as_primitive::<UInt64Type>();
    // A class has several rows in a row.
    let mut last = None;
    let named = local.values().iter().map(|class| match last {
        Some((known, named)) if known == *class => named,
        _ => {
            let named = name(*class);
            last = Some((*class, named));
            named
        }
    });
    columns.push(Arc::new(UInt64Array::from_iter_values(named)));
    let first = *place;
    *place += batch.num_rows() as u32;
    columns.push(Arc::new(UInt32Array::from_iter_values(first..*place)));
    columns.push(new_null_array(&DataType::LargeBinary, batch.num_rows()));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Numbers for the classes of all cells, unique and without meaning to anybody who does not know the seed: a keyed
/// permutation of 64 bits (a Feistel network of four rounds over cell and class).
#[derive(Debug, Clone, Copy)]
struct ClassNames(Seed);

impl ClassNames {
    /// A class is counted within its cell, which has fewer than 2³² of them.
    fn of(&self, cell: u32, class: u64) -> u64 {
        let (mut left, mut right) = (cell, class as u32);
        for round in 0..4 {
            let mut hasher = self.0.hasher();
            hasher.write_u32(round);
            hasher.write_u32(right);
            (left, right) = (right, left ^ hasher.finish() as u32);
        }
        u64::from(left) << 32 | u64::from(right)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn classes_have_different_names_in_an_order_of_the_seed() {
        let names = |seed: &str| {
            let names = ClassNames(Seed::from_bytes(seed.as_bytes()));
            let of_cell = |cell| (0..1000).map(move |class| names.of(cell, class));
            (0..4).flat_map(of_cell).collect::<Vec<u64>>()
        };
        let one = names("one");
        assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), 4000);
        assert_eq!(one, names("one"));
        assert_ne!(one, names("another"));
        // About half of the first cell's classes come before the middle of all.
        let mut sorted = one.clone();
        sorted.sort_unstable();
        let early = one[..1000].iter().filter(|name| **name < sorted[2000]).count();
        assert!((400..600).contains(&early), "{early}");
    }
}
