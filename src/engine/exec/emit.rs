//! From a verified release to its output batches.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_plan::metrics::RecordOutput;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::memory::{ArrangedPayload, Emitting, ReleaseMemory};
use super::metrics::ReleaseMetrics;
use super::runs::{RunReader, Runs};
use crate::columnar::{Payload, PayloadOf, Publisher, ReleaseForm, live_batch};
use crate::engine::operator::running;
use crate::model::Cancel;

pub(super) type BatchStream = std::pin::Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

/// How batches are made.
pub(super) struct Emission {
    pub(super) batch_rows: usize,
    pub(super) fetch: Option<usize>,
    pub(super) metrics: ReleaseMetrics,
    pub(super) cancel: Cancel,
}

impl Emission {
    /// Output batches in class order, some of them made ahead.
    pub(super) fn stream(
        &self,
        memory: &Arc<ReleaseMemory<Emitting>>,
        form: ReleaseForm,
    ) -> Result<BatchStream> {
        let publisher = Arc::new(Publisher::new(Arc::clone(&memory.release().table), form)?);
        let parts = match &memory.release().payload {
            ArrangedPayload::Held(payload) => self.held(memory.release(), publisher, payload),
            ArrangedPayload::Spilled(runs) => self.spilled(memory, publisher, runs)?,
        };
        let each =
            |parts: Vec<RecordBatch>| stream::iter(parts.into_iter().map(Ok::<_, DataFusionError>));
        let batches = parts.map_ok(each).try_flatten();
        let baseline = self.metrics.baseline.clone();
        let wanted = self.fetch.unwrap_or(usize::MAX);
        // The state holds the memory of the release: it is given back when its last stream is dropped.
        let limited = stream::try_unfold((batches, wanted, Arc::clone(memory)), move |state| {
            let baseline = baseline.clone();
            async move {
                let (mut batches, wanted, memory) = state;
                if wanted == 0 {
                    return Ok(None);
                }
                let Some(batch) = batches.try_next().await? else { return Ok(None) };
                let rows = batch.num_rows().min(wanted);
                let batch = match rows < batch.num_rows() {
                    true => live_batch(&batch.slice(0, rows))?,
                    false => batch,
                };
                Ok(Some((batch.record_output(&baseline), (batches, wanted - rows, memory))))
            }
        });
        Ok(Box::pin(limited))
    }

    fn held(
        &self,
        release: &Emitting,
        publisher: Arc<Publisher>,
        payload: &Arc<Payload>,
    ) -> PartStream {
        let payload = Arc::clone(payload);
        let (time, cancel) = (self.metrics.emit_time.clone(), self.cancel.clone());
        let rows = self.batch_rows;
        let parts = stream::iter(release.table.batches(rows)).map(move |classes| {
            let (publisher, payload) = (Arc::clone(&publisher), Arc::clone(&payload));
            let (time, cancel) = (time.clone(), cancel.clone());
            running(move || {
                let _timer = time.timer();
                cancel.check()?;
                Ok(publisher.batch(classes, rows, PayloadOf::Held(&payload))?)
            })
        });
        parts.buffered(release.concurrency).boxed()
    }

    fn spilled(
        &self,
        memory: &ReleaseMemory<Emitting>,
        publisher: Arc<Publisher>,
        runs: &Arc<Runs>,
    ) -> Result<PartStream> {
        let (time, cancel) = (self.metrics.emit_time.clone(), self.cancel.clone());
        let rows = self.batch_rows;
        let reader = RunReader::new(
            Arc::clone(runs),
            Arc::clone(&memory.release().table),
            Arc::clone(memory.payload_schema()),
            memory.spills().clone(),
        )?;
        let units = stream::try_unfold(reader, |mut reader| async move {
            Ok(reader.next().await?.map(|unit| (unit, reader)))
        });
        let parts = units.map_ok(move |(unit, loaded)| {
            let (publisher, time, cancel) = (Arc::clone(&publisher), time.clone(), cancel.clone());
            running(move || {
                let _timer = time.timer();
                let mut batches = Vec::new();
                for classes in unit.batches {
                    cancel.check()?;
                    batches.extend(publisher.batch(classes, rows, PayloadOf::Loaded(&loaded))?);
                }
                Ok(batches)
            })
        });
        Ok(parts.try_buffered(memory.release().concurrency).boxed())
    }
}

type PartStream = futures::stream::BoxStream<'static, Result<Vec<RecordBatch>>>;
