//! Reading the last release of a series.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use futures::future::try_join_all;

use crate::columnar::{LastLayout, LastReader, LastRows};
use crate::engine::exec::memory::{Arranging, ReleaseMemory};
use crate::engine::exec::pipeline::{Release, Source};
use crate::engine::options::{COHORT, SeriesSpec};
use crate::engine::plan::last_column;
use crate::engine::{join_error, redact_values};
use crate::error::Error;
use crate::model::series::{LastCheck, Members};

/// The last release: which cohorts it has, and the rows that may be published again.
pub(super) struct Last {
    /// By cohort of the state.
    pub(super) published: Vec<bool>,
    pub(super) rows: LastRows,
}

/// A last release that was read and verified. Its rows wait in memory or in files.
#[derive(Default)]
pub(super) struct LastRead {
    /// By cohort of the state.
    published: Vec<bool>,
    /// Nothing of a release that cannot be read.
    kept: Option<Kept>,
}

struct Kept {
    layout: Arc<LastLayout>,
    readers: Vec<LastReader>,
    /// The partition of the first of them in memory.
    first: usize,
}

/// Which rows of the last release are kept.
pub(super) struct RowsToKeep {
    pub(super) members: Arc<Members>,
    /// By cohort of the state.
    pub(super) keep: Vec<bool>,
}

impl RowsToKeep {
    /// How many there are, unless the release is refused.
    pub(super) fn rows(&self) -> usize {
        let cohorts = self.members.cohorts().iter().zip(&self.keep);
        cohorts.filter(|(_, keep)| **keep).map(|(cohort, _)| cohort.size as usize).sum()
    }
}

impl LastRead {
    /// Reads all of it, its partitions behind those of the input in `memory`.
    pub(super) async fn read(
        release: &Release,
        source: &Source,
        series: &SeriesSpec,
        memory: &Arc<ReleaseMemory<Arranging>>,
        wanted: RowsToKeep,
    ) -> Result<Self> {
        let table = &source.tables[series.last];
        if let Some(message) = &series.unreadable {
            return Self::empty(release, table, message, &wanted.members).await;
        }
        let layout = Arc::new(layout(release, source, series)?);
        let check = Arc::new(LastCheck::new(&wanted.members));
        let wanted = Arc::new(wanted);
        let first = source.input.output_partitioning().partition_count();
        let partitions = table.output_partitioning().partition_count();
        let tasks: Vec<SpawnedTask<Result<LastReader>>> = (0..partitions)
            .map(|partition| {
                let task = Task {
                    input: table.execute(partition, Arc::clone(&release.context))?,
                    reader: LastReader::new(&layout, release.spec.secret, &wanted.members)?,
                    check: Arc::clone(&check),
                    wanted: Arc::clone(&wanted),
                    memory: Arc::clone(memory),
                    partition: first + partition,
                };
                Ok(SpawnedTask::spawn(task.run()))
            })
            .collect::<Result<_>>()?;
        let tasks = tasks.into_iter().map(|task| async { task.join().await.map_err(join_error)? });
        let readers = try_join_all(tasks).await?;
        let published = check.published(&wanted.members, release.spec.k)?;
        Ok(Self { published, kept: Some(Kept { layout, readers, first }) })
    }

    /// Puts the rows together. Works on a thread that may block.
    pub(super) fn put_together(self, memory: &ReleaseMemory<Arranging>) -> Result<Last> {
        let rows = match self.kept {
            Some(Kept { layout, readers, first }) => memory.fill_last(&layout, readers, first)?,
            None => LastRows::default(),
        };
        Ok(Last { published: self.published, rows })
    }

    /// A last release without the columns that are needed: there must be none yet.
    async fn empty(
        release: &Release,
        table: &Arc<dyn ExecutionPlan>,
        message: &str,
        members: &Members,
    ) -> Result<Self> {
        let mut rows = 0;
        for partition in 0..table.output_partitioning().partition_count() {
            let mut batches = table.execute(partition, Arc::clone(&release.context))?;
            while let Some(batch) = batches.next().await {
                rows += batch.map_err(redact_values)?.num_rows();
            }
        }
        if rows > 0 || !members.is_empty() {
            return Err(Error::invalid(message).into());
        }
        Ok(Self::default())
    }
}

/// One partition.
struct Task {
    input: SendableRecordBatchStream,
    reader: LastReader,
    check: Arc<LastCheck>,
    wanted: Arc<RowsToKeep>,
    memory: Arc<ReleaseMemory<Arranging>>,
    partition: usize,
}

impl Task {
    async fn run(mut self) -> Result<LastReader> {
        while let Some(batch) = self.input.next().await {
            let batch = batch.map_err(redact_values)?;
            let chunks = self.reader.push(&batch, &self.check, &self.wanted.keep)?;
            self.memory.add(self.partition, chunks, self.reader.memory())?;
        }
        let chunks = self.reader.finish()?;
        self.memory.add(self.partition, chunks, self.reader.memory())?;
        Ok(self.reader)
    }
}

/// Where the columns of tonight's release are in the last one.
fn layout(release: &Release, source: &Source, series: &SeriesSpec) -> Result<LastLayout> {
    let schema = source.tables[series.last].schema();
    let input = &release.layout.schema;
    let of = |column: &usize| Ok(schema.index_of(&last_column(input.field(*column).name()))?);
    Ok(LastLayout {
        cohort: schema.index_of(&last_column(COHORT))?,
        quasi_identifiers: source
            .binding
            .quasi_identifiers
            .iter()
            .map(of)
            .collect::<Result<_>>()?,
        payload: release.layout.payload.iter().map(of).collect::<Result<_>>()?,
        modelled: release.layout.modelled.iter().map(of).collect::<Result<_>>()?,
        schema,
    })
}
