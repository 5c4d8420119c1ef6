//! An operator that redacts the errors of its input.

use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;

use super::pass_through::{Pass, PassThroughExec};
use crate::engine::redact_values;

/// Passes on its input, and replaces errors that may quote a value by one that does not.
pub type RedactErrorsExec = PassThroughExec<RedactErrors>;

/// What a [`RedactErrorsExec`] does to batches.
#[derive(Debug)]
pub struct RedactErrors;

impl Pass for RedactErrors {
    const NAME: &'static str = "RedactErrorsExec";

    fn pass(input: Result<SendableRecordBatchStream>) -> Result<SendableRecordBatchStream> {
        let batches = input.map_err(redact_values)?;
        let schema = batches.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.map_err(redact_values))))
    }
}
