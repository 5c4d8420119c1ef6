//! Which exception an error becomes. The classes are in `_errors.py`; the words are those of SQL.

use anonymize_release::Error as JobError;
use datafusion::error::DataFusionError;
use datafusion_anonymize::{Fault, redact_values};
use pyo3::prelude::*;

/// The exceptions of this package, under their names in `_errors.py`.
#[derive(Debug, Clone, Copy)]
pub enum Class {
    /// The caller's mistake.
    InvalidOptions,
    /// No release of these rows keeps what was asked.
    Unsatisfiable,
    /// Memory or disk space is too small.
    ResourcesExhausted,
    /// Rows could not be read, computed or written.
    QueryFailed,
    /// The checks of a job do not hold.
    NotPublished,
    /// A promise of ours is broken.
    InternalError,
}

/// Why something failed.
#[derive(Debug)]
pub enum Failure {
    /// An exception of this package.
    Ours(Class, String),
    /// An exception that Python raised: Ctrl-C, or one of a callback.
    Raised(PyErr),
}

impl Failure {
    /// The caller's mistake.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Ours(Class::InvalidOptions, message.into())
    }

    /// What no caller can cause.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Ours(Class::InternalError, message.into())
    }

    /// A query that did not run to its end.
    pub fn query(message: impl Into<String>) -> Self {
        Self::Ours(Class::QueryFailed, message.into())
    }

    /// A query that was not planned: no row was read, so what functions say of themselves quotes none.
    pub fn planning(error: DataFusionError) -> Self {
        match error.find_root() {
            DataFusionError::Execution(_) => {
                Self::invalid(without_prefix(&error.strip_backtrace()))
            }
            _ => error.into(),
        }
    }

    /// The same for somebody who asks later. What Python raised was raised already.
    pub fn again(&self) -> Self {
        match self {
            Self::Ours(class, message) => Self::Ours(*class, message.clone()),
            Self::Raised(_) => {
                Self::query("the query was stopped before it had delivered all rows")
            }
        }
    }

    /// The message alone, for consumers of a stream, which know no classes of ours.
    pub fn message(&self) -> String {
        match self {
            Self::Ours(_, message) => message.clone(),
            Self::Raised(_) => "the query was interrupted".to_owned(),
        }
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        let class = class_of(&error);
        let was = error.strip_backtrace();
        let told = redact_values(error).strip_backtrace();
        match told == was {
            true => Self::Ours(class, without_prefix(&told).to_owned()),
            // Exceptions end up in logs and notebooks, so no query of a session quotes its data there.
            false => Self::Ours(
                class,
                "the query failed on a value; the message is withheld because it may quote the value: run the query in \
                 the program 'anonymize' to see it"
                    .to_owned(),
            ),
        }
    }
}

/// The class that DataFusion's error belongs to.
fn class_of(error: &DataFusionError) -> Class {
    match (Fault::of(error), error.find_root()) {
        (Some(Fault::Rows), _) => Class::Unsatisfiable,
        (Some(Fault::Options), _) => Class::InvalidOptions,
        (_, DataFusionError::ResourcesExhausted(_)) => Class::ResourcesExhausted,
        (_, DataFusionError::Internal(_)) => Class::InternalError,
        (
            _,
            DataFusionError::Plan(_)
            | DataFusionError::SQL(..)
            | DataFusionError::SchemaError(..)
            | DataFusionError::Configuration(_)
            | DataFusionError::NotImplemented(_),
        ) => Class::InvalidOptions,
        _ => Class::QueryFailed,
    }
}

/// What the class says already.
fn without_prefix(message: &str) -> &str {
    let prefixes = [
        "Error during planning: ",
        "Execution error: ",
        "Resources exhausted: ",
        "External error: ",
    ];
    prefixes.iter().find_map(|prefix| message.strip_prefix(prefix)).unwrap_or(message)
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        let class = match &error {
            JobError::Job(_) => Class::InvalidOptions,
            JobError::Unmet(_) => Class::NotPublished,
            JobError::Busy(_) | JobError::Cancelled | JobError::Failed(_) => Class::QueryFailed,
        };
        Self::Ours(class, error.to_string())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let (class, message) = match failure {
            Failure::Raised(error) => return error,
            Failure::Ours(class, message) => (class, message),
        };
        Python::attach(|py| {
            let exception = py
                .import("datafusion_anonymize._errors")
                .and_then(|errors| errors.getattr(format!("{class:?}"))?.call1((message,)));
            exception.map_or_else(|error| error, PyErr::from_value)
        })
    }
}
