//! Reading the members of a series.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use futures::future::try_join_all;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::columnar::MemberColumns;
use crate::engine::exec::memory::{Arranging, ReleaseMemory, pool_limit};
use crate::engine::exec::pipeline::Release;
use crate::engine::exec::spill::{OpenSpill, Spills};
use crate::engine::{join_error, redact_values};
use crate::error::Error;
use crate::model::series::{Member, Members};
use crate::model::{Purpose, Store};

/// The part of the pool that members take at most, one in so many: the input and the method have the rest, however many
/// persons the series knows.
const SHARE_OF_POOL: usize = 4;

/// The state of a series and its memory.
pub(super) struct State {
    pub(super) members: Arc<Members>,
    _memory: MemoryReservation,
}

/// Members that were read and wait for the others, in memory or in a file.
pub(super) struct Incoming {
    waiting: Mutex<Waiting>,
    memory: MemoryReservation,
    /// Bytes that members may take in memory.
    most: usize,
    spills: Spills,
}

#[derive(Default)]
struct Waiting {
    rows: usize,
    chunks: Vec<Vec<Member>>,
    file: Option<OpenSpill>,
}

impl Incoming {
    /// Reads every partition in a task of its own.
    pub(super) async fn read(release: &Release, table: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let memory = MemoryConsumer::new("AnonymizeExec[members]").with_can_spill(true);
        let pool = release.context.memory_pool();
        let incoming = Arc::new(Self {
            waiting: Mutex::default(),
            memory: memory.register(pool),
            most: pool_limit(pool).map_or(usize::MAX, |limit| limit / SHARE_OF_POOL),
            spills: Spills::new(&release.context, &release.metrics, &release.cancel),
        });
        let partitions = table.output_partitioning().partition_count();
        let tasks: Vec<SpawnedTask<Result<()>>> = (0..partitions)
            .map(|partition| {
                let mut batches = table.execute(partition, Arc::clone(&release.context))?;
                let incoming = Arc::clone(&incoming);
                Ok(SpawnedTask::spawn(async move {
                    while let Some(batch) = batches.next().await {
                        let batch = batch.map_err(redact_values)?;
                        let mut members = Vec::with_capacity(batch.num_rows());
                        MemberColumns::read(&batch, &mut members)?;
                        incoming.add(members)?;
                    }
                    Ok(())
                }))
            })
            .collect::<Result<_>>()?;
        let tasks = tasks.into_iter().map(|task| async { task.join().await.map_err(join_error)? });
        try_join_all(tasks).await?;
        Ok(Arc::into_inner(incoming).ok_or_else(|| Error::bug("a task still reads members"))?)
    }

    fn add(&self, members: Vec<Member>) -> Result<()> {
        let mut waiting = self.waiting.lock();
        waiting.rows += members.len();
        let bytes = size_of_val(&members[..]);
        waiting.chunks.push(members);
        let is_too_much = self.memory.size().saturating_add(bytes) > self.most;
        if is_too_much || self.memory.try_grow(bytes).is_err() {
            waiting.spill(&self.spills)?;
            self.memory.free();
        }
        Ok(())
    }

    /// Verifies the cohorts. Works on the current rayon pool; rows of the input that wait in memory make room.
    pub(super) fn into_state(
        self,
        release: &Release,
        input: &ReleaseMemory<Arranging>,
        handle: &Handle,
    ) -> Result<State> {
        let Self { waiting, memory, most, spills } = self;
        let mut waiting = waiting.into_inner();
        let (rows, bytes) = (waiting.rows, waiting.rows * size_of::<Member>());
        // The directory has no other place than memory.
        let work = Members::work_bytes(rows, release.spec.k as usize);
        if input.reserve_for(&memory, work).is_err() {
            waiting.spill(&spills)?;
            memory.free();
            input.reserve_for(&memory, work)?;
        }
        let held = waiting.held_bytes();
        let scratch = match bytes <= most && input.reserve_for(&memory, bytes).is_ok() {
            true => None,
            false => Some(spills.scratch(bytes, "members")?),
        };
        let mut store = Store::zeroed_in(rows, scratch).map_err(|error| {
            Error::invalid(format!("a temporary file cannot be read as memory: {}", error.kind()))
        })?;
        waiting.write(&mut store, handle)?;
        memory.shrink(held);
        let seed = release.spec.secret.seed(Purpose::SeriesCohorts);
        let members = Members::new(store, seed, &release.cancel)?;
        let is_known = members.cohorts().iter().any(|cohort| cohort.is_intact);
        if !members.is_empty() && !is_known {
            return Err(Error::invalid(
                "option 'series': no cohort of 'members' was made under this seed: write the seed of the series; \
                 under another one everybody would be a newcomer, and the release could be compared with the last one; if \
                 somebody of every cohort was forgotten, begin a new series",
            )
            .into());
        }
        Ok(State { members: Arc::new(members), _memory: memory })
    }
}

impl Waiting {
    fn held_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| size_of_val(&chunk[..])).sum()
    }

    fn spill(&mut self, spills: &Spills) -> Result<()> {
        let _timer = spills.time().timer();
        let schema = schema();
        let open = match &mut self.file {
            Some(open) => open,
            none => none.insert(spills.open(Arc::clone(&schema), "members")?),
        };
        for chunk in self.chunks.drain(..) {
            let column = |at: usize| {
                Arc::new(UInt64Array::from_iter_values(chunk.iter().map(|member| member[at]))) as _
            };
            let columns = (0..3).map(column).collect();
            open.append(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
        }
        Ok(())
    }

    /// Writes all members, those of the file first.
    fn write(self, store: &mut [Member], handle: &Handle) -> Result<()> {
        let mut places = store.iter_mut();
        let file = self.file.map(OpenSpill::finish).transpose()?.flatten();
        if let Some(file) = file {
            let mut batches = file.read()?;
            while let Some(batch) = handle.block_on(batches.next()) {
                let batch = batch?;
                let column = |at: usize| batch.column(at).as_primitive::<UInt64Type>().values();
                let columns = [column(0), column(1), column(2)];
                for (at, place) in (0..batch.num_rows()).zip(&mut places) {
                    *place = columns.map(|column| column[at]);
                }
            }
        }
        for chunk in self.chunks {
            chunk.into_iter().zip(&mut places).for_each(|(member, place)| *place = member);
        }
        Ok(())
    }
}

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::UInt64, false);
    Arc::new(Schema::new(["high", "low", "cohort"].map(field).to_vec()))
}
