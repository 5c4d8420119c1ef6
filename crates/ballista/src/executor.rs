//! An executor that keeps raw rows no longer than their query.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballista_core::error::{BallistaError, Result};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};

use crate::config::stopping_codec;
use crate::stop::Jobs;
use crate::sweep::{Retention, Sweeper, sweep};

/// Runs an executor, as [`executor_config`](crate::executor_config) and the host describe it, until it is told to end.
///
/// Tasks stop when their query has ended, and its shuffle files are deleted ([`Retention`] says when). Every directory in the
/// working directory but those for spills of DataFusion is taken for one of shuffle files, so `work_dir` must be named, and be empty;
/// the physical codec and the cleaning of `config` are replaced by those of this crate.
pub async fn run_executor(config: ExecutorProcessConfig, retention: Retention) -> Result<()> {
    let work_dir = config.work_dir.clone().map(PathBuf::from).unwrap_or_default();
    check_is_empty(&work_dir)?;
    let jobs = Arc::new(Jobs::default());
    let config = ExecutorProcessConfig {
        override_physical_codec: Some(stopping_codec(Arc::clone(&jobs))),
        // Ballista's own cleaning would take directories for spills for old jobs.
        job_data_clean_up_interval_seconds: 0,
        ..config
    };
    let sweeper = Sweeper::new(work_dir, jobs, retention);
    let config = Arc::new(config);
    tokio::select! {
        ended = start_executor_process(Arc::clone(&config)) => ended,
        failed = sweep(sweeper, &config) => failed,
    }
}

/// What is in the directory of an executor is deleted one day: nothing of others may be there.
fn check_is_empty(work_dir: &Path) -> Result<()> {
    let is_empty = fs::read_dir(work_dir).map(|mut entries| entries.next().is_none());
    if matches!(is_empty, Ok(true)) {
        return Ok(());
    }
    Err(BallistaError::Configuration(format!(
        "work_dir '{}' is not an empty directory: make one that is this executor's alone, because what is in it is deleted",
        work_dir.display()
    )))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::executor_config;

    #[tokio::test]
    async fn a_directory_with_files_of_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("letters")).unwrap();
        let retention =
            Retention { after_success: Duration::ZERO, without_scheduler: Duration::ZERO };
        for work_dir in [None, Some(directory.path()), Some(&directory.path().join("missing"))] {
            let work_dir = work_dir.map(|work_dir| work_dir.display().to_string());
            let config = ExecutorProcessConfig { work_dir, ..executor_config() };
            let error = run_executor(config, retention).await.unwrap_err().to_string();
            assert!(error.contains("make one that is this executor's alone"), "{error}");
        }
        assert!(directory.path().join("letters").exists());
    }
}
