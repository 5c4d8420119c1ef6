//! The rows of a query for consumers of Arrow streams.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use pyo3::prelude::*;

use crate::failure::Failure;
use crate::rows::Shared;

/// Somebody who reads the rows from the first to the last.
pub struct Reader {
    shared: Arc<Shared>,
    schema: SchemaRef,
    number: usize,
}

impl Reader {
    /// Somebody who has not read yet. The caller does not hold the GIL.
    pub fn new(shared: &Arc<Shared>) -> Self {
        let schema = shared.schema();
        Self { shared: Arc::clone(shared), schema, number: 0 }
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The caller may hold the GIL, and what makes the rows may need it.
        let next = Python::try_attach(|py| {
            py.detach(|| {
                let next = self.shared.next(self.number);
                self.shared.give_away(self.number);
                next
            })
        });
        self.number += 1;
        match next {
            // The interpreter is about to end. Rows that are missing must not look like the end of a table.
            None => Some(Err(ArrowError::ExternalError("the query was interrupted".into()))),
            Some(Ok(batch)) => batch.map(Ok),
            Some(Err(failure)) => {
                if let Failure::Raised(error) = &failure {
                    // A consumer of streams knows errors as texts. The interrupt reaches Python after it.
                    Python::attach(|py| raise_again(py, error));
                }
                Some(Err(ArrowError::ExternalError(failure.message().into())))
            }
        }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn raise_again(py: Python<'_>, error: &PyErr) {
    if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
        // SAFETY: the interpreter is there, as `py` says.
        #[allow(unsafe_code)]
        unsafe {
            pyo3::ffi::PyErr_SetInterrupt();
        }
    }
}
