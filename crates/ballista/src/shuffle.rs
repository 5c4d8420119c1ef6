//! Every row of a shuffle is read once, also after an executor has died.
//!
//! When an executor dies, Ballista's scheduler starts a step again from its first task if the step had lost a part of
//! its own input. Steps that read it have been told already where those of its tasks have put their rows that had ended
//! elsewhere, and are not told to forget it (`RunningStage::to_unresolved` in `ballista-scheduler`, whose output
//! `StageOutput::add_partition` adds to what its readers have): they would read the rows of these tasks twice.
//!
//! A step that starts again counts its tasks from 0, and every task has one partition ([`read_once`]), so that a task of the
//! new attempt has the number of the one whose place it takes: of two places with rows of one task the later one counts.
//!
//! Files of tasks are called by their numbers, whatever attempt they are of, and Ballista's reader takes one from its own
//! disk if there is one of that name, though the rows are said to be elsewhere: on an executor where the first attempt has
//! failed half-way it would read that. So every place is asked for its rows, the own one too.

use std::collections::HashSet;
use std::sync::Arc;

use ballista_core::JobId;
use ballista_core::config::{
    BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK, BALLISTA_SHUFFLE_READER_FORCE_REMOTE_READ,
};
use ballista_core::execution_plans::sort_shuffle::SortShuffleWriterExec;
use ballista_core::execution_plans::{
    RangeShuffleWriterExec, ShuffleReaderExec, ShuffleWriterExec,
};
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use ballista_core::serde::scheduler::PartitionLocation;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use crate::stop::{Jobs, stop_with};

/// Ballista's operators, with readers that read every task once, and on an executor with writers that write nothing more
/// when their job has ended.
#[derive(Debug, Default)]
pub(crate) struct TaskCodec {
    ballista: BallistaPhysicalExtensionCodec,
    jobs: Option<Arc<Jobs>>,
}

impl TaskCodec {
    pub(crate) fn stopping(jobs: Arc<Jobs>) -> Self {
        Self { jobs: Some(jobs), ..Self::default() }
    }
}

impl PhysicalExtensionCodec for TaskCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.ballista.try_decode(buf, inputs, context, converter)?;
        if let (Some(jobs), Some(job)) = (&self.jobs, job_of_writer(&plan)) {
            return stop_with(job.as_str(), jobs, &plan);
        }
        let Some(reader) = plan.downcast_ref::<ShuffleReaderExec>() else { return Ok(plan) };
        let mut reader = reader.clone();
        for places in &mut reader.partition {
            keep_last_of_each_task(places);
        }
        Ok(Arc::new(reader))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        self.ballista.try_encode(node, buf, converter)
    }
}

/// The job of an operator that writes shuffle files.
fn job_of_writer(plan: &Arc<dyn ExecutionPlan>) -> Option<&JobId> {
    let plain = || plan.downcast_ref().map(ShuffleWriterExec::job_id);
    let sorted = || plan.downcast_ref().map(SortShuffleWriterExec::job_id);
    let ranges = || plan.downcast_ref().map(RangeShuffleWriterExec::job_id);
    plain().or_else(sorted).or_else(ranges)
}

/// Places come in the order in which tasks have ended.
fn keep_last_of_each_task(places: &mut Vec<PartitionLocation>) {
    let mut seen = HashSet::new();
    let mut kept: Vec<PartitionLocation> = Vec::with_capacity(places.len());
    for place in places.drain(..).rev() {
        let id = &place.partition_id;
        if seen.insert((id.stage_id, id.partition_id, place.map_partition_id)) {
            kept.push(place);
        }
    }
    kept.reverse();
    *places = kept;
}

/// Whatever a client asks for: a task with several partitions would have another number in another attempt, and a file of
/// a name is not always the one that is meant.
pub(crate) fn read_once(config: SessionConfig) -> SessionConfig {
    config
        .set_usize(BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK, 1)
        .set_bool(BALLISTA_SHUFFLE_READER_FORCE_REMOTE_READ, true)
}

#[cfg(test)]
mod tests {
    use ballista_core::serde::scheduler::{ExecutorMetadata, PartitionId, PartitionStats};

    use super::*;

    fn place(task: usize, executor: &str, partition_id: usize) -> PartitionLocation {
        let job_id = "1A".to_owned().into();
        PartitionLocation {
            map_partition_id: task,
            partition_id: PartitionId { job_id, stage_id: 2, partition_id },
            executor_meta: ExecutorMetadata {
                id: executor.to_owned(),
                host: "localhost".to_owned(),
                port: 1,
                grpc_port: 0,
                specification: Default::default(),
                os_info: Default::default(),
            },
            partition_stats: PartitionStats::default(),
            file_id: Some(task as u64),
            is_sort_shuffle: false,
        }
    }

    /// Task 1 had ended on b before a died; then all tasks ran again.
    #[test]
    fn tasks_that_ran_again_are_read_once() {
        let mut places = vec![
            place(1, "b", 0),
            place(1, "b", 1),
            place(0, "b", 0),
            place(2, "c", 0),
            place(1, "c", 0),
        ];
        keep_last_of_each_task(&mut places);
        let places = places.iter().map(|place| {
            (
                place.map_partition_id,
                place.executor_meta.id.as_str(),
                place.partition_id.partition_id,
            )
        });
        assert_eq!(
            places.collect::<Vec<_>>(),
            [(1, "b", 1), (0, "b", 0), (2, "c", 0), (1, "c", 0)]
        );
    }
}
