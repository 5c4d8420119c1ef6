//! What a callback of Python is told while a query runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anonymize_release::{rows_read, rows_to_read};
use datafusion::physical_plan::ExecutionPlan;
use pyo3::prelude::*;

use crate::runtime::Watch;

/// What a query reads from Python, for its progress.
#[derive(Default)]
pub struct Inputs(Vec<Input>);

struct Input {
    rows_read: Arc<AtomicUsize>,
    /// All of its rows, if it knows.
    rows: Option<usize>,
}

impl Inputs {
    /// A table of Python, with its counter.
    pub fn add(&mut self, rows_read: Arc<AtomicUsize>, rows: Option<usize>) {
        self.0.push(Input { rows_read, rows });
    }

    /// Rows read so far. A report reads its inputs more than once.
    fn rows_read(&self) -> usize {
        let read = |input: &Input| {
            let read = input.rows_read.load(Ordering::Relaxed);
            input.rows.map_or(read, |rows| read.min(rows))
        };
        self.0.iter().map(read).sum()
    }

    /// All rows, if all inputs know theirs.
    fn rows(&self) -> Option<usize> {
        let rows = self.0.iter().map(|input| input.rows).sum::<Option<usize>>()?;
        (!self.0.is_empty()).then_some(rows)
    }
}

/// A callback of Python that is told how many rows were read, and of how many.
pub struct Progress {
    callback: Py<PyAny>,
    inputs: Inputs,
    /// The plan that runs, when it does.
    pub plan: Option<Arc<dyn ExecutionPlan>>,
    told: Option<usize>,
}

impl Progress {
    /// Nothing was told yet.
    pub fn new(callback: Py<PyAny>, inputs: Inputs) -> Self {
        Self { callback, inputs, plan: None, told: None }
    }
}

impl Watch for Progress {
    fn look(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        let read = rows_read(plan.as_ref()) + self.inputs.rows_read();
        if self.told != Some(read) {
            self.told = Some(read);
            let rows = rows_to_read(plan.as_ref()).or_else(|| self.inputs.rows());
            self.callback.call1(py, (read, rows))?;
        }
        Ok(())
    }
}
