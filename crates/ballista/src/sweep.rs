//! Shuffle files, which hold raw rows, go with their job.
//!
//! Ballista's scheduler has an executor delete the files of a job once: it says so with the next tasks, and forgets it. What a task
//! writes afterwards would stay, and a task that runs cannot be told to stop ([`crate::stop`]); so would the files of a scheduler that
//! dies. So an executor looks into its directory every few seconds, asks the scheduler about every job that has files there or a
//! task that runs, and deletes what is of no use any more. What is there is what it asks about, so nothing that is written late
//! is missed.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_core::error::{BallistaError, Result};
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{GetJobStatusParams, GetJobStatusResult};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use ballista_executor::executor_process::ExecutorProcessConfig;
use futures::future::join_all;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::stop::Jobs;

/// How often an executor looks, and how long it waits for an answer. So it learns within two of these what the scheduler
/// knows: `docs/cluster.md` promises it.
const ROUND: Duration = Duration::from_secs(5);

/// DataFusion's directories for spills begin like this. Their files go with the operators that wrote them.
const SPILLS: &str = "datafusion-";

/// How long an executor keeps shuffle files of a job that has not failed. Those of one that has failed, was cancelled or is not known to the
/// scheduler are deleted as soon as the executor learns of it.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Once it has succeeded: its client fetches the rows.
    pub after_success: Duration,
    /// Once its scheduler does not answer any more.
    pub without_scheduler: Duration,
}

/// What a scheduler says of a job.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Running,
    Succeeded,
    /// Failed, cancelled, or not known.
    Ended,
}

impl From<GetJobStatusResult> for Answer {
    fn from(result: GetJobStatusResult) -> Self {
        match result.status.and_then(|job| job.status) {
            Some(Status::Queued(_) | Status::Running(_)) => Self::Running,
            Some(Status::Successful(_)) => Self::Succeeded,
            Some(Status::Failed(_)) | None => Self::Ended,
        }
    }
}

/// What is known of a job that has not ended, or has ended well.
#[derive(Debug, Clone, Copy)]
enum Known {
    Running { heard: Instant },
    Succeeded { since: Instant },
}

/// The memory of one look for the next one.
#[derive(Debug)]
pub(crate) struct Sweeper {
    work_dir: PathBuf,
    jobs: Arc<Jobs>,
    retention: Retention,
    known: HashMap<String, Known>,
}

/// Deletes what is of no use any more until the executor ends.
pub(crate) async fn sweep(mut sweeper: Sweeper, config: &ExecutorProcessConfig) -> Result<()> {
    let limits = GrpcClientConfig {
        connect_timeout_seconds: ROUND.as_secs(),
        timeout_seconds: ROUND.as_secs(),
        ..GrpcClientConfig::default()
    };
    let url = format!("http://{}:{}", config.scheduler_host, config.scheduler_port);
    let unreachable = |error: String| BallistaError::GrpcConnectionError(error);
    let mut endpoint = create_grpc_client_endpoint(url, Some(&limits))
        .map_err(|error| unreachable(error.to_string()))?;
    if let Some(customize) = &config.override_create_grpc_client_endpoint {
        endpoint = customize(endpoint).map_err(|error| unreachable(error.to_string()))?;
    }
    let scheduler = SchedulerGrpcClient::new(endpoint.connect_lazy())
        .max_decoding_message_size(config.grpc_max_decoding_message_size as usize);
    let mut rounds = interval(ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let asked = sweeper.asks_about().into_iter().map(|job_id| {
            let mut scheduler = scheduler.clone();
            async move {
                let asked = scheduler.get_job_status(GetJobStatusParams { job_id: job_id.clone() });
                let answer = timeout(ROUND, asked).await.ok().and_then(|answer| answer.ok());
                (job_id, answer.map(|answer| Answer::from(answer.into_inner())))
            }
        });
        let answers = join_all(asked).await;
        sweeper.settle(answers, Instant::now()).await;
    }
}

impl Sweeper {
    pub(crate) fn new(work_dir: PathBuf, jobs: Arc<Jobs>, retention: Retention) -> Self {
        Self { work_dir, jobs, retention, known: HashMap::new() }
    }

    /// Jobs with files: every directory is called like its job.
    fn with_files(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.work_dir).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let names = directories.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| !name.starts_with(SPILLS)).collect()
    }

    fn asks_about(&self) -> BTreeSet<String> {
        let mut jobs = self.with_files();
        jobs.extend(self.jobs.running());
        jobs
    }

    /// Deletes the files of jobs that are over, and stops their tasks.
    async fn settle(&mut self, answers: Vec<(String, Option<Answer>)>, now: Instant) {
        let mut known = HashMap::with_capacity(answers.len());
        let mut over = BTreeSet::new();
        for (job, answer) in answers {
            let now_known = self.learn(&job, answer, now);
            if now_known.is_none_or(|known| self.has_passed(known, now)) {
                over.insert(job.clone());
            }
            if over.contains(&job) || matches!(now_known, Some(Known::Succeeded { .. })) {
                self.jobs.stop(&job);
            }
            known.extend(now_known.map(|known| (job, known)));
        }
        self.known = known;
        // Only what this executor has made itself.
        for job in self.with_files().intersection(&over) {
            self.delete(job).await;
        }
    }

    /// What is known of a job now; nothing if it has ended and nobody wants its rows.
    fn learn(&self, job: &str, answer: Option<Answer>, now: Instant) -> Option<Known> {
        let before = self.known.get(job).copied();
        match (answer, before) {
            (Some(Answer::Ended), _) => None,
            (Some(Answer::Running), _) | (None, None) => Some(Known::Running { heard: now }),
            (Some(Answer::Succeeded), Some(Known::Succeeded { since })) => {
                Some(Known::Succeeded { since })
            }
            (Some(Answer::Succeeded), _) => Some(Known::Succeeded { since: now }),
            (None, before) => before,
        }
    }

    fn has_passed(&self, known: Known, now: Instant) -> bool {
        match known {
            Known::Running { heard } => {
                now.duration_since(heard) >= self.retention.without_scheduler
            }
            Known::Succeeded { since } => now.duration_since(since) >= self.retention.after_success,
        }
    }

    async fn delete(&self, job: &str) {
        let directory = self.work_dir.join(job);
        let deleted = tokio::task::spawn_blocking(move || fs::remove_dir_all(directory)).await;
        match deleted {
            Ok(Ok(())) => log::info!("deleted the files of job {job}, which is over"),
            // The scheduler has said so as well.
            Ok(Err(error)) if error.kind() == ErrorKind::NotFound => {}
            Ok(Err(error)) => {
                log::warn!("files of job {job} are not deleted yet ({})", error.kind());
            }
            Err(_) => log::warn!("files of job {job} are not deleted yet"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use tempfile::TempDir;

    use super::*;

    /// An executor's directory, and a clock.
    struct Executor {
        directory: TempDir,
        sweeper: Sweeper,
        now: Instant,
    }

    impl Executor {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let retention = Retention {
                after_success: Duration::from_secs(30),
                without_scheduler: Duration::from_secs(60),
            };
            let sweeper = Sweeper::new(directory.path().to_owned(), Arc::default(), retention);
            Self { directory, sweeper, now: Instant::now() }
        }

        fn write(&self, job: &str) {
            let task = self.directory.path().join(job).join("2").join("0");
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("data.arrow"), "raw rows").unwrap();
        }

        /// A look after so many seconds, at which the scheduler answers this about every job.
        async fn look(&mut self, seconds: u64, answer: Option<Answer>) -> Vec<String> {
            self.now += Duration::from_secs(seconds);
            let asked = self.sweeper.asks_about().into_iter();
            self.sweeper.settle(asked.map(|job| (job, answer)).collect(), self.now).await;
            self.sweeper.with_files().into_iter().collect()
        }
    }

    #[tokio::test]
    async fn what_a_task_writes_after_its_job_was_cancelled_is_deleted_too() {
        let mut executor = Executor::new();
        executor.write("1A");
        assert_eq!(executor.look(5, Some(Answer::Running)).await, ["1A"]);
        assert_eq!(executor.look(5, Some(Answer::Ended)).await, [""; 0]);
        // The scheduler has forgotten the job, which a task that could not be cancelled has not.
        executor.write("1A");
        assert_eq!(executor.look(5, Some(Answer::Ended)).await, [""; 0]);
        assert!(executor.sweeper.known.is_empty());
    }

    #[tokio::test]
    async fn rows_stay_for_their_client_and_no_longer() {
        let mut executor = Executor::new();
        executor.write("1A");
        for seconds in [0, 5, 24] {
            assert_eq!(executor.look(seconds, Some(Answer::Succeeded)).await, ["1A"]);
        }
        // Also if the scheduler does not say it again.
        assert_eq!(executor.look(1, None).await, [""; 0]);
    }

    #[tokio::test]
    async fn a_silent_scheduler_is_dead_after_a_while() {
        let mut executor = Executor::new();
        executor.write("1A");
        assert_eq!(executor.look(5, None).await, ["1A"], "asked about for the first time");
        assert_eq!(executor.look(59, None).await, ["1A"]);
        assert_eq!(executor.look(1, Some(Answer::Running)).await, ["1A"], "not dead");
        assert_eq!(executor.look(59, None).await, ["1A"]);
        assert_eq!(executor.look(1, None).await, [""; 0]);
    }

    #[tokio::test]
    async fn spills_and_files_of_others_stay() {
        let mut executor = Executor::new();
        let runtime = RuntimeEnvBuilder::new().with_temp_file_path(executor.directory.path());
        let runtime = runtime.build().unwrap();
        let spill = runtime.disk_manager.create_tmp_file("a test").unwrap();
        fs::write(executor.directory.path().join("note"), "not a job").unwrap();
        executor.write("1A");
        assert_eq!(executor.look(5, Some(Answer::Ended)).await, [""; 0]);
        assert!(spill.path().is_some_and(std::path::Path::exists));
        assert!(executor.directory.path().join("note").exists());
        // A directory that is missing is no reason to fail.
        let missing = executor.directory.path().join("missing");
        let missing = Sweeper::new(missing, Arc::default(), executor.sweeper.retention);
        assert!(missing.asks_about().is_empty());
    }
}
