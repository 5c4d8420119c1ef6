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
        match error {
            Error::Bug(_) => Self::Internal(error.to_string()),
            other => Self::Execution(other.to_string()),
        }
    }
}

/// A task that panicked, or whose runtime has ended.
pub(crate) fn join_error(error: tokio::task::JoinError) -> DataFusionError {
    DataFusionError::ExecutionJoin(Box::new(error))
}

/// Marks an error that quotes no value. Messages do not show it.
const REDACTED: &str = "redacted by anonymize";

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

/// Exchanges share an error among their partitions, each wrapping it differently: all sources are searched.
fn is_redacted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let shared = error.downcast_ref::<Arc<DataFusionError>>().map(Arc::as_ref);
        match error.downcast_ref::<DataFusionError>().or(shared) {
            Some(DataFusionError::Diagnostic(note, _)) if note.message == REDACTED => return true,
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
}
