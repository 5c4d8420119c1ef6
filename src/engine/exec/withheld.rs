//! Errors of an input that quote no value.

use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;

use super::pass_through::{Pass, PassThroughExec};
use crate::engine::without_values;

/// Hands on its input, and instead of an error that quotes a value one that does not.
pub type WithheldErrorsExec = PassThroughExec<WithheldErrors>;

/// What a [`WithheldErrorsExec`] does to batches.
#[derive(Debug)]
pub struct WithheldErrors;

impl Pass for WithheldErrors {
    const NAME: &'static str = "WithheldErrorsExec";

    fn pass(input: Result<SendableRecordBatchStream>) -> Result<SendableRecordBatchStream> {
        let batches = input.map_err(without_values)?;
        let schema = batches.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.map_err(without_values))))
    }
}
