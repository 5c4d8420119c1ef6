//! Batches that hold the rows they show and nothing else.

use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::pass_through::{Pass, PassThroughExec};
use crate::columnar::live_batch;

/// Passes on the rows of its input in batches that hold no value of any other row.
///
/// A release leaves its own operator in such batches. Operators above it that drop rows keep the values of those rows
/// in dictionaries and behind views, where whoever receives the batches (an IPC stream, a Flight client, a host)
/// could read them.
pub type CompactBatchesExec = PassThroughExec<CompactBatches>;

/// What a [`CompactBatchesExec`] does to batches.
#[derive(Debug)]
pub struct CompactBatches;

impl Pass for CompactBatches {
    const NAME: &'static str = "CompactBatchesExec";

    fn pass(input: Result<SendableRecordBatchStream>) -> Result<SendableRecordBatchStream> {
        let batches = input?;
        let schema = batches.schema();
        let live = batches.map(|batch| -> Result<_> { Ok(live_batch(&batch?)?) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, live)))
    }
}
