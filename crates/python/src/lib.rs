//! The functions for Python: tables go in and out as Arrow streams, a session of DataFusion runs them.
//!
//! ```text
//! Python values ─► options (arguments of a call) ─► call (a plan) ─► rows (batches as they come) ─► Arrow stream
//! Python tables ─► input (tables of the session) ──┘
//! ```
//!
//! | module | what is in it |
//! | --- | --- |
//! | `runtime` | threads, begun at the first use; waiting that hears Ctrl-C |
//! | `failure` | which exception an error becomes |
//! | `input` | Python's tables as tables of a session |
//! | `options` | Python's values as arguments of a SQL function |
//! | `call` | a call of a SQL function as a plan |
//! | `statement` | statements of SQL, with object stores as the program has them |
//! | `session` | `Session` |
//! | `rows` | `Result`: rows that are read once and kept for whoever asks again |
//! | `reader` | the same rows as an Arrow stream |
//! | `progress` | what a callback is told |
//! | `job` | release jobs and the page about a release |
//!
//! What Python users see is in `python/datafusion_anonymize`; this module is its `_native`.

mod call;
mod failure;
mod input;
mod job;
mod options;
mod progress;
mod reader;
mod rows;
mod runtime;
mod session;
mod statement;

use pyo3::prelude::*;

/// The native part of `datafusion_anonymize`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<options::Hierarchy>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<session::Session>()?;
    module.add_function(wrap_pyfunction!(options::definitions, module)?)?;
    module.add_function(wrap_pyfunction!(options::hierarchy, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::close, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::has_threads, module)?)
}
