//! Python's tables as tables of a session.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::exec_datafusion_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result as QueryResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;

use crate::failure::Failure;

/// How many rows of a larger batch one task takes at a time.
const SLICE: usize = 8192;

type Reader = Box<dyn RecordBatchReader + Send>;

/// Whether a Python object is a table that can be read as Arrow.
pub fn is_table(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    Ok(object.hasattr(intern!(py, "__arrow_c_stream__"))?
        || object.hasattr(intern!(py, "__arrow_c_array__"))?)
}

/// The rows of a Python table.
fn reader(object: &Bound<'_, PyAny>) -> Result<Reader, Failure> {
    Ok(object.extract::<AnyRecordBatch>()?.into_reader()?)
}

/// The batches of a Python table; they stay where Python has them.
fn batches(object: &Bound<'_, PyAny>) -> Result<(SchemaRef, Vec<RecordBatch>), Failure> {
    let reader = reader(object)?;
    object.py().detach(|| {
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|_| failed_reading())?;
        Ok((schema, batches))
    })
}

/// A table that can be read any number of times.
pub fn in_memory(
    object: &Bound<'_, PyAny>,
    partitions: usize,
) -> Result<Arc<dyn TableProvider>, Failure> {
    let (schema, batches) = batches(object)?;
    Ok(Arc::new(table_of(schema, &batches, partitions)?))
}

/// Batches as a table in so many partitions, without a copy.
pub fn table_of(
    schema: SchemaRef,
    batches: &[RecordBatch],
    partitions: usize,
) -> QueryResult<MemTable> {
    MemTable::try_new(schema, divided(batches, partitions))
}

/// Equal shares of all rows.
fn divided(batches: &[RecordBatch], partitions: usize) -> Vec<Vec<RecordBatch>> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let share = rows.div_ceil(partitions.max(1)).max(1);
    let mut parts = vec![Vec::new()];
    let mut room = share;
    for batch in batches {
        let mut from = 0;
        while from < batch.num_rows() {
            if room == 0 {
                parts.push(Vec::new());
                room = share;
            }
            let taken = room.min(batch.num_rows() - from);
            if let Some(part) = parts.last_mut() {
                part.push(batch.slice(from, taken));
            }
            from += taken;
            room -= taken;
        }
    }
    parts
}

/// A table in memory that counts the rows that are read of it, for the progress of a call.
pub struct Counted {
    /// What the session sees.
    pub table: Arc<dyn TableProvider>,
    /// Rows read so far.
    pub rows_read: Arc<AtomicUsize>,
    /// All rows.
    pub rows: usize,
}

impl Counted {
    /// The rows of a Python table.
    pub fn new(object: &Bound<'_, PyAny>, partitions: usize) -> Result<Self, Failure> {
        let (schema, batches) = batches(object)?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let rows_read = Arc::new(AtomicUsize::new(0));
        let parts = divided(&batches, partitions).into_iter().map(|batches| {
            let (schema, rows_read) = (Arc::clone(&schema), Arc::clone(&rows_read));
            Arc::new(Part { schema, batches, rows_read }) as Arc<dyn PartitionStream>
        });
        let table = StreamingTable::try_new(Arc::clone(&schema), parts.collect())?;
        Ok(Self { table: Arc::new(table), rows_read, rows })
    }
}

/// What one task reads of a table in memory.
struct Part {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows_read: Arc<AtomicUsize>,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows of Python")
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows_read = Arc::clone(&self.rows_read);
        let slices = self.batches.clone().into_iter().flat_map(|batch| {
            let rows = batch.num_rows();
            (0..rows).step_by(SLICE).map(move |from| batch.slice(from, SLICE.min(rows - from)))
        });
        let slices = slices.map(move |slice| {
            rows_read.fetch_add(slice.num_rows(), Ordering::Relaxed);
            Ok(slice)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::iter(slices)))
    }
}

/// A table whose rows come once, and are read as they are needed.
pub struct Once {
    /// What the session sees.
    pub table: Arc<dyn TableProvider>,
    /// Rows read so far.
    pub rows_read: Arc<AtomicUsize>,
}

impl Once {
    /// The rows of a Python table, shared by so many tasks.
    pub fn new(object: &Bound<'_, PyAny>, partitions: usize) -> Result<Self, Failure> {
        Self::of_reader(reader(object)?, partitions)
    }

    /// The rows of a reader.
    pub fn of_reader(reader: Reader, partitions: usize) -> Result<Self, Failure> {
        let schema = reader.schema();
        let rows_read = Arc::new(AtomicUsize::new(0));
        let state = Mutex::new(Unread { reader: Some(reader), rest: None });
        let source = Arc::new(Source { state, rows_read: Arc::clone(&rows_read) });
        let streams = (0..partitions.max(1)).map(|_| {
            let share = Share {
                schema: Arc::clone(&schema),
                source: Mutex::new(Some(Arc::clone(&source))),
            };
            Arc::new(share) as Arc<dyn PartitionStream>
        });
        let table = StreamingTable::try_new(Arc::clone(&schema), streams.collect())?;
        Ok(Self { table: Arc::new(table), rows_read })
    }
}

/// Rows that several tasks take from.
struct Source {
    state: Mutex<Unread>,
    rows_read: Arc<AtomicUsize>,
}

struct Unread {
    /// None when all was read or it failed.
    reader: Option<Reader>,
    /// What remains of a large batch.
    rest: Option<RecordBatch>,
}

impl Source {
    /// The next rows if they are there; reading more can take any time.
    fn at_hand(&self) -> Option<RecordBatch> {
        let mut state = self.state.try_lock().ok()?;
        let slice = state.take()?;
        self.rows_read.fetch_add(slice.num_rows(), Ordering::Relaxed);
        Some(slice)
    }

    /// The next rows, which whoever makes them may take long for.
    fn next(&self) -> Option<QueryResult<RecordBatch>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.rest.is_none() {
            match state.reader.as_mut()?.next() {
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => state.rest = Some(batch),
                Some(Err(_)) => {
                    state.reader = None;
                    return Some(Err(failed_reading()));
                }
                None => state.reader = None,
            }
        }
        let slice = state.take()?;
        self.rows_read.fetch_add(slice.num_rows(), Ordering::Relaxed);
        Some(Ok(slice))
    }
}

impl Unread {
    fn take(&mut self) -> Option<RecordBatch> {
        let rest = self.rest.take()?;
        let taken = rest.num_rows().min(SLICE);
        if taken < rest.num_rows() {
            self.rest = Some(rest.slice(taken, rest.num_rows() - taken));
        }
        Some(rest.slice(0, taken))
    }
}

/// What Python says of its own failure may quote a value.
fn failed_reading() -> DataFusionError {
    DataFusionError::External(
        "the input table failed while it was read; the message is withheld because it may quote a value: read the table \
         in Python to see it"
            .into(),
    )
}

/// The part of one task.
struct Share {
    schema: SchemaRef,
    /// None when it was read.
    source: Mutex<Option<Arc<Source>>>,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows from Python")
    }
}

impl PartitionStream for Share {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
        let rows = stream::unfold((source, true), |(source, is_first)| async move {
            let Some(source) = source else {
                let twice = exec_datafusion_err!(
                    "this input is a stream and can be read once: make it a table first, as in pyarrow.table(…)"
                );
                return is_first.then_some((Err(twice), (None, false)));
            };
            if let Some(slice) = source.at_hand() {
                return Some((Ok(slice), (Some(source), false)));
            }
            let reading = Arc::clone(&source);
            let next = SpawnedTask::spawn_blocking(move || reading.next()).await;
            let next = next.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)));
            let slice = next.unwrap_or_else(|error| Some(Err(error)))?;
            Some((slice, (Some(source), false)))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
