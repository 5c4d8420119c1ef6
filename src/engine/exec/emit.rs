//! From a verified release to its output batches.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::RecordOutput;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::metrics::ReleaseMetrics;
use super::pipeline::running;
use super::runs::{RunReader, Runs};
use super::spill::Spills;
use crate::columnar::{Payload, PayloadOf, Publisher, ReleaseForm, ReleaseTable, live_batch};
use crate::model::Cancel;

pub(super) type BatchStream = std::pin::Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

/// A verified release, and the memory it holds.
pub(super) struct Prepared {
    pub(super) table: Arc<ReleaseTable>,
    pub(super) payload: Waiting,
    pub(super) payload_schema: SchemaRef,
    /// Units or batches that are made at once.
    pub(super) concurrency: usize,
    /// Given back when the last stream over the table is dropped.
    pub(super) memory: Arc<[MemoryReservation; 4]>,
}

/// Where the published columns wait.
#[derive(Clone)]
pub(super) enum Waiting {
    Held(Arc<Payload>),
    Spilled(Arc<Runs>),
}

/// How batches are made.
pub(super) struct Emission {
    pub(super) batch_rows: usize,
    pub(super) fetch: Option<usize>,
    pub(super) metrics: ReleaseMetrics,
    pub(super) cancel: Cancel,
    pub(super) spills: Spills,
}

impl Emission {
    /// Output batches in class order, some of them made ahead.
    pub(super) fn stream(&self, prepared: &Prepared, form: ReleaseForm) -> Result<BatchStream> {
        let publisher = Publisher::new(Arc::clone(&prepared.table), form)?;
        let publisher = Arc::new(publisher);
        let parts = match &prepared.payload {
            Waiting::Held(payload) => self.held(prepared, publisher, payload),
            Waiting::Spilled(runs) => self.spilled(prepared, publisher, runs)?,
        };
        let each =
            |parts: Vec<RecordBatch>| stream::iter(parts.into_iter().map(Ok::<_, DataFusionError>));
        let batches = parts.map_ok(each).try_flatten();
        let baseline = self.metrics.baseline.clone();
        let wanted = self.fetch.unwrap_or(usize::MAX);
        let memory = Arc::clone(&prepared.memory);
        // The state is what is still wanted; the reservations live as long as the stream.
        let limited = stream::try_unfold((batches, wanted, memory), move |state| {
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
        prepared: &Prepared,
        publisher: Arc<Publisher>,
        payload: &Arc<Payload>,
    ) -> PartStream {
        let payload = Arc::clone(payload);
        let (time, cancel) = (self.metrics.emit_time.clone(), self.cancel.clone());
        let rows = self.batch_rows;
        let parts = stream::iter(prepared.table.batches(rows)).map(move |classes| {
            let (publisher, payload) = (Arc::clone(&publisher), Arc::clone(&payload));
            let (time, cancel) = (time.clone(), cancel.clone());
            running(move || {
                let _timer = time.timer();
                cancel.check()?;
                Ok(publisher.batch(classes, rows, PayloadOf::Held(&payload))?)
            })
        });
        parts.buffered(prepared.concurrency).boxed()
    }

    fn spilled(
        &self,
        prepared: &Prepared,
        publisher: Arc<Publisher>,
        runs: &Arc<Runs>,
    ) -> Result<PartStream> {
        let (time, cancel) = (self.metrics.emit_time.clone(), self.cancel.clone());
        let rows = self.batch_rows;
        let reader = RunReader::new(
            Arc::clone(runs),
            Arc::clone(&prepared.table),
            Arc::clone(&prepared.payload_schema),
            self.spills.clone(),
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
        Ok(parts.try_buffered(prepared.concurrency).boxed())
    }
}

type PartStream = futures::stream::BoxStream<'static, Result<Vec<RecordBatch>>>;
