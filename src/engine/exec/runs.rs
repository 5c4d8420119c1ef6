//! Spilled published columns, brought from the order in which they were read into the order in which
//! they leave.
//!
//! 1. As many rows as memory allows are read back, which have consecutive numbers. They are written
//!    again as a *run*, in the order of the release.
//! 2. The release leaves in *units*: consecutive batches whose rows fit into memory several times. A
//!    run has one batch per unit; so the rows of a unit are the next batch of every run, and every file
//!    is written and read once, from front to end.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;

use super::spill::{SpilledBatches, Spills};
use crate::columnar::{Gathered, LoadedPayload, Payload, PayloadOf, ReleaseTable, payload_bytes};
use crate::engine::execution_error;
use crate::model::{Cancel, RowTable, with_rows};

/// Consecutive batches of a release that leave together.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// The classes of every batch.
    pub(super) batches: Vec<Range<usize>>,
    pub(super) positions: Range<usize>,
}

impl Unit {
    /// Puts batches together up to as many rows; a batch with more is a unit of its own.
    pub(super) fn of_rows(table: &ReleaseTable, batch_rows: usize, unit_rows: usize) -> Vec<Self> {
        let mut units: Vec<Self> = Vec::new();
        for batch in table.batches(batch_rows) {
            let positions = table.positions(&batch);
            match units.last_mut() {
                Some(unit) if positions.end - unit.positions.start <= unit_rows => {
                    unit.batches.push(batch);
                    unit.positions.end = positions.end;
                }
                _ => units.push(Self { batches: vec![batch], positions }),
            }
        }
        units
    }
}

/// All spilled rows of a release in the order in which they leave, run by run.
pub(super) struct Runs {
    /// Number of the first row of every run.
    firsts: Vec<u32>,
    files: Vec<Option<SpilledBatches>>,
    pub(super) units: Vec<Unit>,
}

/// What runs are made from.
pub(super) struct RunWriter<'a> {
    pub(super) table: &'a ReleaseTable,
    pub(super) schema: &'a SchemaRef,
    pub(super) spills: &'a Spills,
    /// As much as one run may hold.
    pub(super) memory: &'a MemoryReservation,
    pub(super) cancel: &'a Cancel,
    pub(super) handle: &'a tokio::runtime::Handle,
}

impl RunWriter<'_> {
    /// Rewrites files, which hold the rows in the order of their numbers.
    pub(super) fn write(&self, files: Vec<SpilledBatches>, units: Vec<Unit>) -> Result<Runs> {
        let _timer = self.spills.time().timer();
        let mut runs = Runs { firsts: Vec::new(), files: Vec::new(), units };
        let (mut loaded, mut loaded_bytes, mut next) = (Vec::new(), 0, 0u32);
        for file in files {
            let mut batches = file.read()?;
            // The file is deleted when its last batch was read.
            drop(file);
            while let Some(batch) = self.handle.block_on(batches.next()) {
                self.cancel.check().map_err(execution_error)?;
                let batch = batch?;
                let bytes = payload_bytes(batch.columns());
                if loaded_bytes + bytes > self.memory.size() && !loaded.is_empty() {
                    self.add_run(&mut runs, &mut next, std::mem::take(&mut loaded))?;
                    loaded_bytes = 0;
                }
                loaded_bytes += bytes;
                loaded.push((batch.num_rows(), batch.columns().to_vec()));
            }
        }
        if !loaded.is_empty() {
            self.add_run(&mut runs, &mut next, loaded)?;
        }
        Ok(runs)
    }

    /// Writes the rows of the next numbers.
    fn add_run(
        &self,
        runs: &mut Runs,
        next: &mut u32,
        loaded: Vec<(usize, Vec<ArrayRef>)>,
    ) -> Result<()> {
        let first = *next;
        *next += loaded.iter().map(|(rows, _)| *rows as u32).sum::<u32>();
        let numbers = first..*next;
        let payload = Payload::of_arrays(self.schema.fields().len(), loaded);
        let mut open = self.spills.open(Arc::clone(self.schema), "payload")?;
        let mut places: Vec<u32> = Vec::new();
        for unit in &runs.units {
            self.cancel.check().map_err(execution_error)?;
            places.clear();
            select(self.table.rows(), &unit.positions, &numbers, &mut places);
            if places.is_empty() {
                continue;
            }
            let columns = PayloadOf::Held(&payload)
                .gather(0..places.len(), &places, |_| true)
                .map_err(execution_error)?;
            let columns = columns.into_iter().flatten().map(Gathered::into_values);
            let columns = columns.collect::<crate::Result<_>>().map_err(execution_error)?;
            open.append(&RecordBatch::try_new(Arc::clone(self.schema), columns)?)?;
        }
        runs.firsts.push(first);
        runs.files.push(open.finish()?);
        Ok(())
    }
}

/// The rows at some positions whose numbers are in a range, counted from its start.
fn select(rows: &RowTable, positions: &Range<usize>, numbers: &Range<u32>, places: &mut Vec<u32>) {
    with_rows!(rows, rows => {
        let ids = rows[positions.clone()].iter().map(|row| row.id);
        places.extend(ids.filter(|id| numbers.contains(id)).map(|id| id - numbers.start));
    });
}

/// Reads runs side by side, unit after unit.
pub(super) struct RunReader {
    runs: Arc<Runs>,
    table: Arc<ReleaseTable>,
    schema: SchemaRef,
    streams: Vec<Option<SendableRecordBatchStream>>,
    next: usize,
    spills: Spills,
}

impl RunReader {
    pub(super) fn new(
        runs: Arc<Runs>,
        table: Arc<ReleaseTable>,
        schema: SchemaRef,
        spills: Spills,
    ) -> Result<Self> {
        let open =
            |file: &Option<SpilledBatches>| file.as_ref().map(SpilledBatches::read).transpose();
        let streams = runs.files.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { runs, table, schema, streams, next: 0, spills })
    }

    /// The next unit and its rows, `None` behind the last one.
    pub(super) async fn next(&mut self) -> Result<Option<(Unit, LoadedPayload)>> {
        let spills = self.spills.clone();
        let _timer = spills.time().timer();
        let Some(unit) = self.runs.units.get(self.next).cloned() else { return Ok(None) };
        self.next += 1;
        let ids: Vec<u32> = with_rows!(self.table.rows(), rows => {
            rows[unit.positions.clone()].iter().map(|row| row.id).collect()
        });
        let firsts = &self.runs.firsts;
        let mut present = vec![false; firsts.len()];
        for id in &ids {
            present[firsts.partition_point(|first| first <= id) - 1] = true;
        }
        let mut arrays = Vec::with_capacity(present.len());
        for (present, stream) in present.into_iter().zip(&mut self.streams) {
            arrays.push(match (present, stream) {
                (false, _) => RecordBatch::new_empty(Arc::clone(&self.schema)).columns().to_vec(),
                (true, Some(stream)) => match stream.next().await.transpose()? {
                    Some(batch) => batch.columns().to_vec(),
                    None => return internal_err!("a run of spilled rows ended early"),
                },
                (true, None) => return internal_err!("a run of spilled rows is missing"),
            });
        }
        let loaded = LoadedPayload::new(unit.positions.start, ids.into_iter(), firsts, &arrays);
        Ok(Some((unit, loaded.map_err(execution_error)?)))
    }
}
