//! Errors as DataFusion carries them, without values of rows.

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

/// Tells an error that an operator of this crate has made or looked at; it is not shown.
const LOOKED_AT: &str = "looked at by anonymize";

/// An error that leaves an operator of this crate: it quotes no value, and an operator above need not ask.
pub(crate) fn looked_at(error: DataFusionError) -> DataFusionError {
    match error.find_root() {
        DataFusionError::Execution(_) => {
            error.with_diagnostic(Diagnostic::new_error(LOOKED_AT, None))
        }
        _ => error,
    }
}

/// An error of the input query, unless it may quote the value it failed on: those of functions and kernels.
pub fn without_values(error: DataFusionError) -> DataFusionError {
    let may_quote = matches!(error.find_root(), DataFusionError::Execution(_));
    match may_quote && !is_looked_at(&error) {
        true => withheld(),
        false => without_values_of_kernels(error),
    }
}

/// The same for an error that may be of this crate: it looks at Arrow's alone.
pub(crate) fn without_values_of_kernels(error: DataFusionError) -> DataFusionError {
    use datafusion::arrow::error::ArrowError;
    let quotes_a_value = matches!(
        error.find_root(),
        DataFusionError::ArrowError(kind, _) if !matches!(
            kind.as_ref(),
            ArrowError::MemoryError(_) | ArrowError::IoError(..) | ArrowError::ExternalError(_)
        )
    );
    if quotes_a_value { withheld() } else { error }
}

fn withheld() -> DataFusionError {
    looked_at(datafusion::common::exec_datafusion_err!(
        "the input of anonymize failed on a value; the message is withheld because it may quote the value: run \
         the input query alone to see it"
    ))
}

/// Exchanges share an error among their partitions, in several ways.
fn is_looked_at(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let shared = error.downcast_ref::<Arc<DataFusionError>>().map(Arc::as_ref);
        match error.downcast_ref::<DataFusionError>().or(shared) {
            Some(DataFusionError::Diagnostic(note, _)) if note.message == LOOKED_AT => return true,
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
    fn errors_of_functions_are_withheld_and_ours_are_not() {
        let of_function = without_values(exec_datafusion_err!("no letter has the number -17"));
        assert!(of_function.to_string().contains("the message is withheld"));
        let ours = || looked_at(exec_datafusion_err!("7 rows cannot form a class"));
        let shared = DataFusionError::Shared(Arc::new(ours()));
        let boxed = DataFusionError::External(Box::new(Arc::new(ours())));
        for error in [ours(), shared, boxed, ours().context("a step")] {
            assert!(without_values(error).to_string().contains("7 rows cannot form a class"));
        }
        assert_eq!(ours().to_string(), "Execution error: 7 rows cannot form a class");
    }
}
