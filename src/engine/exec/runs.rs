//! Spilled published columns, brought from the order in which they were read into the order in which
//! they leave.
//!
//! 1. As many rows as memory allows are read back, which have consecutive numbers. They are written
//!    again as a *run*, in the order of the release.
//! 2. The release leaves in *units*: consecutive batches whose rows fit into memory several times. A
//!    run has one batch per unit; so the rows of a unit are the next batch of every run, and every file
//!    is written and read once, from front to end.
//! 3. Runs that are too many to be open at once are first put together, some at a time.

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
use crate::model::Cancel;

/// Runs that are open at once. Systems allow a process some hundred files.
const MOST_OPEN: usize = if cfg!(test) { 2 } else { 64 };

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

/// Writes runs from spilled payload.
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
                self.cancel.check()?;
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
        while runs.files.len() > MOST_OPEN {
            runs = self.merge(runs, next)?;
        }
        Ok(runs)
    }

    /// Merges neighbouring runs; all runs together have `rows` rows.
    fn merge(&self, runs: Runs, rows: u32) -> Result<Runs> {
        let Runs { firsts, mut files, units } = runs;
        let mut merged = Runs { firsts: Vec::new(), files: Vec::new(), units };
        let ends = firsts.iter().copied().skip(MOST_OPEN).step_by(MOST_OPEN).chain([rows]);
        for (firsts, end) in firsts.chunks(MOST_OPEN).zip(ends) {
            let rest = files.split_off(firsts.len());
            let group = std::mem::replace(&mut files, rest);
            let mut streams = RunStreams::open(firsts.to_vec(), &group, Arc::clone(self.schema))?;
            // Every file is deleted when its last batch was read.
            drop(group);
            let numbers = firsts[0]..end;
            merged.firsts.push(numbers.start);
            merged.files.push(self.write_units(&merged.units, &numbers, |ids| {
                let loaded = self.handle.block_on(streams.load(0, ids))?;
                Ok(PayloadOf::Loaded(&loaded).gather(0..ids.len(), ids, |_| true)?)
            })?);
        }
        Ok(merged)
    }

    /// Writes a run: unit after unit the rows whose numbers are in a range.
    fn write_units(
        &self,
        units: &[Unit],
        numbers: &Range<u32>,
        mut gather: impl FnMut(&[u32]) -> Result<Vec<Option<Gathered>>>,
    ) -> Result<Option<SpilledBatches>> {
        let mut open = self.spills.open(Arc::clone(self.schema), "payload")?;
        for unit in units {
            self.cancel.check()?;
            let mut ids = self.table.rows().ids(unit.positions.clone());
            ids.retain(|id| numbers.contains(id));
            if ids.is_empty() {
                continue;
            }
            let columns = gather(&ids)?.into_iter().flatten().map(Gathered::into_values);
            let columns = columns.collect::<crate::Result<_>>()?;
            open.append(&RecordBatch::try_new(Arc::clone(self.schema), columns)?)?;
        }
        open.finish()
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
        let payload = Payload::of_arrays(self.schema.fields().len(), loaded);
        let file = self.write_units(&runs.units, &(first..*next), |ids| {
            let places: Vec<u32> = ids.iter().map(|id| id - first).collect();
            Ok(PayloadOf::Held(&payload).gather(0..places.len(), &places, |_| true)?)
        })?;
        runs.firsts.push(first);
        runs.files.push(file);
        Ok(())
    }
}

/// Some runs that are read side by side.
struct RunStreams {
    /// Number of the first row of every run.
    firsts: Vec<u32>,
    streams: Vec<Option<SendableRecordBatchStream>>,
    schema: SchemaRef,
}

impl RunStreams {
    fn open(firsts: Vec<u32>, files: &[Option<SpilledBatches>], schema: SchemaRef) -> Result<Self> {
        let open =
            |file: &Option<SpilledBatches>| file.as_ref().map(SpilledBatches::read).transpose();
        Ok(Self { firsts, streams: files.iter().map(open).collect::<Result<_>>()?, schema })
    }

    /// The rows of the next unit, which have these numbers and start at a position.
    async fn load(&mut self, start: usize, ids: &[u32]) -> Result<LoadedPayload> {
        let mut present = vec![false; self.firsts.len()];
        for id in ids {
            present[self.firsts.partition_point(|first| first <= id) - 1] = true;
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
        Ok(LoadedPayload::new(start, ids.iter().copied(), &self.firsts, &arrays)?)
    }
}

/// Reads runs side by side, unit after unit.
pub(super) struct RunReader {
    runs: Arc<Runs>,
    table: Arc<ReleaseTable>,
    streams: RunStreams,
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
        let streams = RunStreams::open(runs.firsts.clone(), &runs.files, schema)?;
        Ok(Self { runs, table, streams, next: 0, spills })
    }

    /// The next unit and its rows, `None` behind the last one.
    pub(super) async fn next(&mut self) -> Result<Option<(Unit, LoadedPayload)>> {
        let spills = self.spills.clone();
        let _timer = spills.time().timer();
        let Some(unit) = self.runs.units.get(self.next).cloned() else { return Ok(None) };
        self.next += 1;
        let ids = self.table.rows().ids(unit.positions.clone());
        let loaded = self.streams.load(unit.positions.start, &ids).await?;
        Ok(Some((unit, loaded)))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::error::Result;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::{ExecutionPlan, collect};
    use datafusion::prelude::{SessionConfig, SessionContext};

    /// The release as text, and how many temporary files it took.
    async fn release(limit: Option<usize>) -> Result<(String, usize)> {
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(limit) = limit {
            runtime = runtime.with_memory_limit(limit, 1.0);
        }
        let config = SessionConfig::new().with_target_partitions(2).with_batch_size(512);
        let context = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
        crate::register_all(&context)?;
        anonymize_sample::register(&context)?;
        let sql = "SELECT * FROM anonymize((SELECT age, sex, race, repeat(person_id::varchar, 40) AS note \
                   FROM sample_census(rows => 30000, seed => 3)), k => 5, seed => 1, \
                   quasi_identifiers => ['age', 'sex', 'race'], keep => ['note'], method => 'rounded')";
        let plan = context.sql(sql).await?.create_physical_plan().await?;
        let batches = collect(std::sync::Arc::clone(&plan), context.task_ctx()).await?;
        fn spills(plan: &dyn ExecutionPlan) -> usize {
            let own = plan.metrics().and_then(|metrics| metrics.spill_count()).unwrap_or(0);
            own + plan.children().iter().map(|child| spills(child.as_ref())).sum::<usize>()
        }
        Ok((pretty_format_batches(&batches)?.to_string(), spills(plan.as_ref())))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn runs_that_cannot_be_open_at_once_are_put_together() -> Result<()> {
        let (whole, none) = release(None).await?;
        assert_eq!(none, 0);
        for limit in [6_000_000, 2_000_000, 1_500_000] {
            let (limited, files) = release(Some(limit)).await?;
            assert!(whole == limited, "{limit}");
            // Two that were read, at least three runs, and two of what they were put together to.
            assert!(files >= 7, "{files} files with {limit} bytes");
        }
        Ok(())
    }
}
