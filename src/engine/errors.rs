//! Errors as DataFusion carries them, redacted so that they quote no value of a row.

use std::sync::Arc;

use datafusion::common::Diagnostic;
use datafusion::error::DataFusionError;

use crate::error::Error;

/// A mistake found while a query is planned.
pub(crate) fn planning_error(error: Error) -> DataFusionError {
    match error {
        Error::Bug(message) => DataFusionError::Internal(message),
        other => DataFusionError::Plan(other.to_string()),
    }
}

/// A mistake found while a query runs; code that plans one uses `planning_error`.
impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        let told = Self::Execution(error.to_string());
        match error {
            Error::Bug(message) => Self::Internal(Error::Bug(message).to_string()),
            Error::TooFewRows { .. } | Error::Unsatisfiable { .. } | Error::NoClass { .. } => {
                told.with_diagnostic(Diagnostic::new_error(UNSATISFIABLE, None))
            }
            Error::Invalid(_) => told.with_diagnostic(Diagnostic::new_error(INVALID, None)),
            Error::Cancelled => told,
        }
    }
}

/// What an error of this crate asks for, for hosts that sort errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Other options: the message says which.
    Options,
    /// Other rows, or less of a requirement: no release of these rows can keep it.
    Rows,
}

impl Fault {
    /// Whose turn it is after an error that this crate found while a query ran; nothing if it is of another kind.
    pub fn of(error: &DataFusionError) -> Option<Self> {
        match (is_marked(error, UNSATISFIABLE), is_marked(error, INVALID)) {
            (true, _) => Some(Self::Rows),
            (_, true) => Some(Self::Options),
            _ => None,
        }
    }
}

/// A task that panicked, or whose runtime has ended.
pub(crate) fn join_error(error: tokio::task::JoinError) -> DataFusionError {
    DataFusionError::ExecutionJoin(Box::new(error))
}

/// Marks an error that quotes no value. Messages show none of these marks.
const REDACTED: &str = "redacted by anonymize";

/// Marks a requirement that no release of the rows can keep.
const UNSATISFIABLE: &str = "unsatisfiable for anonymize";

/// Marks a mistake of the caller that showed when rows were read.
const INVALID: &str = "invalid for anonymize";

/// Marks an error that leaves an operator of this crate, so that operators above pass it on as it is.
pub(crate) fn mark_redacted(error: DataFusionError) -> DataFusionError {
    match error.find_root() {
        DataFusionError::Execution(_) => {
            error.with_diagnostic(Diagnostic::new_error(REDACTED, None))
        }
        _ => error,
    }
}

/// An error of the input query; those of functions and kernels, which may quote a value, lose their message.
pub fn redact_values(error: DataFusionError) -> DataFusionError {
    let may_quote = matches!(error.find_root(), DataFusionError::Execution(_));
    match may_quote && !is_redacted(&error) {
        true => redacted(),
        false => redact_kernel_values(error),
    }
}

/// The same for an error that may come from this crate: only Arrow's lose their message.
pub(crate) fn redact_kernel_values(error: DataFusionError) -> DataFusionError {
    use datafusion::arrow::error::ArrowError;
    let quotes_a_value = matches!(
        error.find_root(),
        DataFusionError::ArrowError(kind, _) if !matches!(
            kind.as_ref(),
            ArrowError::MemoryError(_) | ArrowError::IoError(..) | ArrowError::ExternalError(_)
        )
    );
    if quotes_a_value { redacted() } else { error }
}

fn redacted() -> DataFusionError {
    mark_redacted(datafusion::common::exec_datafusion_err!(
        "the input of anonymize failed on a value; the message is withheld because it may quote the value: run \
         the input query alone to see it"
    ))
}

fn is_redacted(error: &DataFusionError) -> bool {
    is_marked(error, REDACTED)
}

/// Exchanges share an error among their partitions, each wrapping it differently: all sources are searched.
fn is_marked(error: &(dyn std::error::Error + 'static), mark: &str) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let shared = error.downcast_ref::<Arc<DataFusionError>>().map(Arc::as_ref);
        match error.downcast_ref::<DataFusionError>().or(shared) {
            Some(DataFusionError::Diagnostic(note, _)) if note.message == mark => return true,
            Some(of_engine) => next = std::error::Error::source(of_engine),
            None => next = error.source(),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use datafusion::common::exec_datafusion_err;

    use super::*;

    #[test]
    fn errors_of_functions_are_redacted_and_ours_are_not() {
        let of_function = redact_values(exec_datafusion_err!("no letter has the number -17"));
        assert!(of_function.to_string().contains("the message is withheld"));
        let ours = || mark_redacted(exec_datafusion_err!("7 rows cannot form a class"));
        let shared = DataFusionError::Shared(Arc::new(ours()));
        let boxed = DataFusionError::External(Box::new(Arc::new(ours())));
        for error in [ours(), shared, boxed, ours().context("a step")] {
            assert!(redact_values(error).to_string().contains("7 rows cannot form a class"));
        }
        assert_eq!(ours().to_string(), "Execution error: 7 rows cannot form a class");
    }

    #[test]
    fn errors_say_whose_turn_it_is() {
        let unsatisfiable = || DataFusionError::from(Error::TooFewRows { rows: 7, k: 10 });
        let shared = |error| DataFusionError::Shared(Arc::new(mark_redacted(error)));
        assert_eq!(Fault::of(&shared(unsatisfiable())), Some(Fault::Rows));
        assert_eq!(Fault::of(&shared(Error::invalid("no").into())), Some(Fault::Options));
        assert_eq!(Fault::of(&shared(exec_datafusion_err!("a function"))), None);
        assert_eq!(
            redact_values(mark_redacted(unsatisfiable())).to_string(),
            format!("Execution error: {}", Error::TooFewRows { rows: 7, k: 10 })
        );
    }
}
