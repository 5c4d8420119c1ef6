//! What scheduler, executor and client agree on.

use std::sync::Arc;
use std::time::Duration;

use anonymize_sample::SampleCodec;
use ballista_core::config::{
    BALLISTA_CLIENT_GRPC_TIMEOUT_SECONDS, BALLISTA_CLIENT_PULL, TaskSchedulingPolicy,
};
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::BallistaLogicalExtensionCodec;
use ballista_core::utils::default_session_builder;
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::config::SchedulerConfig;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::prelude::SessionConfig;
use datafusion_anonymize::{
    AnonymizeLogicalCodec, AnonymizePhysicalCodec, with_cluster_planning, with_settings,
};
use datafusion_proto::physical_plan::{ComposedPhysicalExtensionCodec, PhysicalExtensionCodec};

use crate::shuffle::{TaskCodec, read_once};
use crate::stop::Jobs;

/// Executors ask for tasks and know themselves how many they run. A scheduler that hands tasks out counts them, and
/// forgets to count those back whose step is started again because an executor died: after a few of them the
/// executors that are left look busy for ever, and queries wait.
const SCHEDULING: TaskSchedulingPolicy = TaskSchedulingPolicy::PullStaged;

/// How long a client or an executor waits for an answer of its scheduler. An executor that gives up has told what became of its tasks
/// to nobody, and does not run those that the answer names: their queries would wait for ever because a machine was busy.
const LONGEST_ANSWER_SECONDS: usize = 600;

/// How long a scheduler knows what became of a query.
pub(crate) const LONGEST_RETENTION: Duration = Duration::from_secs(3600);

pub(crate) fn logical_codec() -> Arc<AnonymizeLogicalCodec> {
    let ballista = Arc::new(BallistaLogicalExtensionCodec::default());
    Arc::new(AnonymizeLogicalCodec::new(ballista).with_tables(Arc::new(SampleCodec)))
}

pub(crate) fn physical_codec() -> Arc<AnonymizePhysicalCodec> {
    physical_codec_with(TaskCodec::default())
}

/// The same for an executor whose tasks are to stop when their jobs do.
pub(crate) fn stopping_codec(jobs: Arc<Jobs>) -> Arc<AnonymizePhysicalCodec> {
    physical_codec_with(TaskCodec::stopping(jobs))
}

fn physical_codec_with(tasks: TaskCodec) -> Arc<AnonymizePhysicalCodec> {
    // Encoded plans name their codec by its position in this list.
    let others: Vec<Arc<dyn PhysicalExtensionCodec>> = vec![Arc::new(tasks), Arc::new(SampleCodec)];
    let others = ComposedPhysicalExtensionCodec::new(others);
    Arc::new(AnonymizePhysicalCodec::new(Arc::new(others)))
}

/// Ballista's settings, those of `anonymize`, and the codecs.
pub fn session_config() -> SessionConfig {
    let config = SessionConfig::new_with_ballista()
        .with_information_schema(true)
        .with_collect_statistics(false)
        .set_usize(BALLISTA_CLIENT_GRPC_TIMEOUT_SECONDS, LONGEST_ANSWER_SECONDS)
        // Clients ask what has become of their query. One that is told learns the query's name when its first task has ended,
        // and could not have it cancelled before; and of a client that is slow to listen the scheduler forgets the last word.
        .set_bool(BALLISTA_CLIENT_PULL, true)
        .with_ballista_logical_extension_codec(logical_codec())
        .with_ballista_physical_extension_codec(physical_codec());
    with_settings(config)
}

/// A session of the scheduler: it plans the operators of `anonymize`.
///
/// Plans are made once and not changed while they run, whatever a client asks for: Ballista's adaptive planner
/// rewrites what is left of a plan after every stage, and the steps of a release belong together. Statistics of
/// files are not read: they are values of rows, and plans are logged.
pub fn session_state(config: SessionConfig) -> Result<SessionState> {
    let config = config.with_ballista_adaptive_query_planner(false).with_collect_statistics(false);
    let config = read_once(config);
    Ok(with_cluster_planning(default_session_builder(config)?))
}

/// A scheduler that knows `anonymize`.
pub fn scheduler_config() -> SchedulerConfig {
    SchedulerConfig {
        scheduling_policy: SCHEDULING,
        // Executors delete files themselves, and sooner: what they are told once, they may not hear.
        finished_job_data_clean_up_interval_seconds: LONGEST_RETENTION.as_secs(),
        finished_job_state_clean_up_interval_seconds: LONGEST_RETENTION.as_secs(),
        override_config_producer: Some(Arc::new(session_config)),
        override_session_builder: Some(Arc::new(session_state)),
        override_logical_codec: Some(logical_codec()),
        override_physical_codec: Some(physical_codec()),
        ..SchedulerConfig::default()
    }
}

/// An executor that knows `anonymize`, for [`run_executor`](crate::run_executor).
pub fn executor_config() -> ExecutorProcessConfig {
    ExecutorProcessConfig {
        task_scheduling_policy: SCHEDULING,
        // Nobody listens there: executors ask.
        grpc_port: 0,
        override_config_producer: Some(Arc::new(session_config)),
        override_logical_codec: Some(logical_codec()),
        override_physical_codec: Some(physical_codec()),
        ..ExecutorProcessConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_cannot_ask_for_readers_that_read_wrongly() -> Result<()> {
        let asked = session_config()
            .set_usize("ballista.scheduler.max_partitions_per_task", 8)
            .set_bool("ballista.shuffle.force_remote_read", false);
        let config = session_state(asked)?.config().clone();
        let entries = config.options().entries();
        let value = |key: &str| {
            let entry = entries.iter().find(|entry| entry.key == key);
            entry.and_then(|entry| entry.value.clone())
        };
        assert_eq!(value("ballista.scheduler.max_partitions_per_task").as_deref(), Some("1"));
        assert_eq!(value("ballista.shuffle.force_remote_read").as_deref(), Some("true"));
        Ok(())
    }

    /// Whoever hands out tasks loses count of those of a step that starts again.
    #[test]
    fn executors_ask_for_tasks_and_the_scheduler_expects_it() {
        assert!(!scheduler_config().is_push_staged_scheduling());
        let executor = executor_config().task_scheduling_policy;
        assert!(matches!(executor, TaskSchedulingPolicy::PullStaged));
    }
}
