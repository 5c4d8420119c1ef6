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
use crate::model::series::{Changes, LastCheck, Members};

/// The last release: which cohorts it has, and the rows that may be published again.
pub(super) struct Last {
    /// By cohort of the state.
    pub(super) published: Vec<bool>,
    pub(super) rows: LastRows,
}

/// Which rows of the last release are kept.
pub(super) struct RowsToKeep {
    pub(super) members: Arc<Members>,
    /// By cohort of the state.
    pub(super) keep: Vec<bool>,
}

impl Last {
    /// Reads all of it, its partitions behind those of the input in `memory`.
    pub(super) async fn read(
        release: &Release,
        source: &Source,
        series: &SeriesSpec,
        memory: &Arc<ReleaseMemory<Arranging>>,
        wanted: RowsToKeep,
    ) -> Result<Self> {
        let table = &source.hierarchies[series.last];
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
        Ok(Self { published, rows: LastRows::together(&layout, readers)? })
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
        Ok(Self { published: Vec::new(), rows: LastRows::default() })
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
    let schema = source.hierarchies[series.last].schema();
    let input = &release.layout.schema;
    let of = |column: &usize| Ok(schema.index_of(&last_column(input.field(*column).name()))?);
    let modelled = match series.changes {
        Changes::Never => release.layout.modelled.iter().map(of).collect::<Result<_>>()?,
        Changes::Publish => Vec::new(),
    };
    Ok(LastLayout {
        cohort: schema.index_of(&last_column(COHORT))?,
        quasi_identifiers: source
            .binding
            .quasi_identifiers
            .iter()
            .map(of)
            .collect::<Result<_>>()?,
        payload: release.layout.payload.iter().map(of).collect::<Result<_>>()?,
        modelled,
        schema,
    })
}
