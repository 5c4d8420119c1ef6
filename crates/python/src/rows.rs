//! Rows of a query: delivered as they come, and kept for whoever asks again.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchReader, StructArray,
};
use datafusion::arrow::datatypes::{Field, SchemaRef, UInt64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::TableProvider;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::Result as QueryResult;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};
use tokio::sync::mpsc;

use crate::failure::Failure;
use crate::input::{Once, table_of};
use crate::progress::{Inputs, Progress};
use crate::reader::Reader;
use crate::runtime::{Nobody, Watch, handle, is_forked, wait_detached};
use crate::session::Session;

/// Batches that wait for a reader.
const AHEAD: usize = 2;

/// The rows of a query.
#[pyclass(frozen, module = "datafusion_anonymize._native")]
pub struct Rows {
    shared: Arc<Shared>,
}

/// What a result and those who read it have in common.
pub struct Shared {
    context: SessionContext,
    state: Mutex<State>,
}

struct State {
    schema: SchemaRef,
    kept: VecDeque<RecordBatch>,
    /// Batches before those that are kept: whoever read them was the only one who could.
    given_away: usize,
    source: Source,
    progress: Option<Progress>,
}

enum Source {
    /// Nobody has asked for rows yet.
    Planned(Box<DataFrame>),
    Running(Running),
    Complete,
    Failed(Failure),
}

/// A query that works until its rows are read or nobody wants them any more.
struct Running {
    /// Batches, and nothing behind the last one: a query that ends without a word has not delivered all rows.
    batches: ManuallyDrop<mpsc::Receiver<QueryResult<Option<RecordBatch>>>>,
    task: ManuallyDrop<SpawnedTask<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The threads of a parent process do not answer; memory of a child ends with it.
        if !is_forked() {
            // SAFETY: neither is used again.
            #[allow(unsafe_code)]
            unsafe {
                ManuallyDrop::drop(&mut self.task);
                ManuallyDrop::drop(&mut self.batches);
            }
        }
    }
}

/// The result behind an object of Python, which may wrap it.
pub fn rows_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, Rows>>> {
    if let Ok(rows) = value.cast::<Rows>() {
        return Ok(Some(rows.clone()));
    }
    let wrapped = intern!(value.py(), "_rows");
    if !value.hasattr(wrapped)? {
        return Ok(None);
    }
    Ok(value.getattr(wrapped)?.cast_into::<Rows>().ok())
}

impl Rows {
    /// A query that starts when somebody asks for its rows.
    pub fn planned(
        context: &SessionContext,
        frame: DataFrame,
        inputs: Inputs,
        progress: Option<Py<PyAny>>,
    ) -> Self {
        let state = State {
            schema: Arc::clone(frame.schema().inner()),
            kept: VecDeque::new(),
            given_away: 0,
            source: Source::Planned(Box::new(frame)),
            progress: progress.map(|callback| Progress::new(callback, inputs)),
        };
        let shared = Shared { context: context.clone(), state: Mutex::new(state) };
        Self { shared: Arc::new(shared) }
    }

    /// Waits for the first rows: a release is verified then.
    pub fn begin(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.shared.next(0))?;
        Ok(())
    }

    /// The rows as a table that can be read again and again. A query that has not begun is part of the new one.
    pub fn as_table(
        &self,
        py: Python<'_>,
        session: &Session,
        partitions: usize,
    ) -> Result<Arc<dyn TableProvider>, Failure> {
        if let Some(view) = py.detach(|| self.view(session)) {
            return Ok(view);
        }
        py.detach(|| {
            self.shared.read_all()?;
            let state = self.shared.state();
            let batches: Vec<RecordBatch> = state.kept.iter().cloned().collect();
            Ok(Arc::new(table_of(Arc::clone(&state.schema), &batches, partitions)?) as _)
        })
    }

    /// The rows for somebody who reads them once, in their order.
    pub fn as_stream(
        &self,
        py: Python<'_>,
        session: &Session,
    ) -> Result<Arc<dyn TableProvider>, Failure> {
        py.detach(|| match self.view(session) {
            Some(view) => Ok(view),
            None => Ok(Once::of_reader(Box::new(Reader::new(&self.shared)), 1)?.table),
        })
    }

    fn view(&self, session: &Session) -> Option<Arc<dyn TableProvider>> {
        let is_here = self.shared.context.session_id() == session.context().session_id();
        match &self.shared.state().source {
            Source::Planned(frame) if is_here => Some(frame.as_ref().clone().into_view()),
            _ => None,
        }
    }

    /// The number in the first cell, as COPY returns it.
    pub fn first_number(&self, py: Python<'_>) -> Result<u64, Failure> {
        let first = py.detach(|| self.shared.next(0))?;
        let counts = first.as_ref().and_then(|batch| batch.columns().first());
        Ok(counts
            .and_then(|counts| counts.as_primitive_opt::<UInt64Type>())
            .map_or(0, |counts| if counts.is_empty() { 0 } else { counts.value(0) }))
    }
}

#[pymethods]
impl Rows {
    /// Waits for all rows. How many there are.
    pub fn collect(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| self.shared.read_all())?)
    }

    /// Names and types of the columns.
    fn columns(&self, py: Python<'_>) -> Vec<(String, String)> {
        let schema = py.detach(|| self.shared.schema());
        let column = |field: &Arc<Field>| (field.name().clone(), field.data_type().to_string());
        schema.fields().iter().map(column).collect()
    }

    /// Some of the first rows as texts, None where a cell is missing.
    fn head(&self, py: Python<'_>, rows: usize) -> PyResult<Vec<Vec<Option<String>>>> {
        Ok(py.detach(|| self.shared.head(rows))?)
    }

    /// How many rows there are, if all of them are known already.
    fn known_length(&self, py: Python<'_>) -> Option<usize> {
        py.detach(|| {
            let state = self.shared.state();
            let is_complete = matches!(state.source, Source::Complete) && state.given_away == 0;
            is_complete.then(|| state.kept.iter().map(RecordBatch::num_rows).sum())
        })
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = py.detach(|| self.shared.schema());
        Ok(to_schema_pycapsule(py, schema.as_ref())?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.begin(py)?;
        let reader = py.detach(|| Reader::new(&self.shared));
        let schema = reader.schema();
        let field = Field::new_struct("", schema.fields().clone(), false)
            .with_metadata(schema.metadata().clone());
        let arrays = reader.map(|batch| Ok(Arc::new(StructArray::from(batch?)) as ArrayRef));
        let arrays = Box::new(ArrayIterator::new(arrays, Arc::new(field)));
        Ok(to_stream_pycapsule(py, arrays, requested_schema)?)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.state().schema)
    }

    /// A batch by its number, nothing after the last one. The caller does not hold the GIL.
    pub fn next(self: &Arc<Self>, number: usize) -> Result<Option<RecordBatch>, Failure> {
        let mut state = self.state();
        let state = &mut *state;
        while number >= state.given_away + state.kept.len() {
            self.start(state)?;
            let running = match &mut state.source {
                Source::Running(running) => running,
                Source::Failed(failure) => return Err(failure.again()),
                Source::Planned(_) | Source::Complete => return Ok(None),
            };
            let mut nobody = Nobody;
            let watch: &mut dyn Watch = match &mut state.progress {
                Some(progress) => progress,
                None => &mut nobody,
            };
            let received = wait_detached(watch, || async {
                let received = running.batches.recv().await;
                Ok(received.ok_or_else(|| Failure::query("the query was stopped"))??)
            });
            match received {
                Ok(Some(batch)) if batch.num_rows() == 0 => {}
                Ok(Some(batch)) => state.kept.push_back(batch),
                Ok(None) => {
                    state.source = Source::Complete;
                    state.end_progress()?;
                }
                Err(failure) => {
                    state.source = Source::Failed(failure.again());
                    return Err(failure);
                }
            }
        }
        Ok(number.checked_sub(state.given_away).and_then(|at| state.kept.get(at)).cloned())
    }

    /// Forgets batches up to a number if nobody else can ask for them.
    pub fn give_away(self: &Arc<Self>, number: usize) {
        if Arc::strong_count(self) == 1 {
            let mut state = self.state();
            while state.given_away <= number && state.kept.pop_front().is_some() {
                state.given_away += 1;
            }
        }
    }

    /// Starts the query if it has not begun.
    fn start(&self, state: &mut State) -> Result<(), Failure> {
        let Source::Planned(frame) = &state.source else { return Ok(()) };
        let frame = frame.as_ref().clone();
        let context = &self.context;
        let begun = wait_detached(&mut Nobody, || async {
            let plan = frame.create_physical_plan().await?;
            let stream = execute_stream(Arc::clone(&plan), context.task_ctx())?;
            Ok((plan, stream))
        });
        let (plan, mut stream) = begun.inspect_err(|failure| {
            state.source = Source::Failed(failure.again());
        })?;
        state.schema = stream.schema();
        if let Some(progress) = &mut state.progress {
            progress.plan = Some(plan);
        }
        let (sender, batches) = mpsc::channel(AHEAD);
        let _entered = handle()?.enter();
        let task = SpawnedTask::spawn(async move {
            loop {
                let next = stream.next().await.transpose();
                let is_last = !matches!(next, Ok(Some(_)));
                if sender.send(next).await.is_err() || is_last {
                    return;
                }
            }
        });
        state.source = Source::Running(Running {
            batches: ManuallyDrop::new(batches),
            task: ManuallyDrop::new(task),
        });
        Ok(())
    }

    fn read_all(self: &Arc<Self>) -> Result<usize, Failure> {
        let (mut number, mut rows) = (0, 0);
        while let Some(batch) = self.next(number)? {
            number += 1;
            rows += batch.num_rows();
        }
        Ok(rows)
    }

    fn head(self: &Arc<Self>, rows: usize) -> Result<Vec<Vec<Option<String>>>, Failure> {
        let options = FormatOptions::default();
        let (mut number, mut shown) = (0, Vec::new());
        while shown.len() < rows
            && let Some(batch) = self.next(number)?
        {
            number += 1;
            let formatters = batch.columns().iter();
            let formatters =
                formatters.map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
            let unshown =
                |_: ArrowError| Failure::query("a column of this type cannot be shown as text");
            let formatters = formatters.collect::<Result<Vec<_>, _>>().map_err(unshown)?;
            for row in 0..batch.num_rows().min(rows - shown.len()) {
                let cell = |(column, formatter): (&ArrayRef, &ArrayFormatter<'_>)| {
                    column.is_valid(row).then(|| formatter.value(row).to_string())
                };
                shown.push(batch.columns().iter().zip(&formatters).map(cell).collect());
            }
        }
        Ok(shown)
    }
}

impl State {
    /// The last word: whoever draws a bar wants to see it full.
    fn end_progress(&mut self) -> Result<(), Failure> {
        let Some(mut progress) = self.progress.take() else { return Ok(()) };
        Ok(Python::attach(|py| progress.look(py))?)
    }
}
