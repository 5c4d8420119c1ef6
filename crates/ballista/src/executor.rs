//! An executor that keeps raw rows no longer than their query.

use std::path::PathBuf;
use std::sync::Arc;

use ballista_core::error::{BallistaError, Result};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};

use crate::config::stopping_codec;
use crate::stop::Jobs;
use crate::sweep::{Retention, Sweeper, sweep};

/// Runs an executor, as [`executor_config`](crate::executor_config) and the host describe it, until it is told to end.
///
/// Tasks stop when their query has ended, and its shuffle files are deleted ([`Retention`] says when). Everything in the
/// working directory but spills of DataFusion is taken for shuffle files, so the directory must be named and be this executor's
/// alone; the physical codec and the cleaning of `config` are replaced by those of this crate.
pub async fn run_executor(config: ExecutorProcessConfig, retention: Retention) -> Result<()> {
    let Some(work_dir) = config.work_dir.clone().map(PathBuf::from) else {
        return Err(BallistaError::Configuration(
            "an executor needs a directory of its own: name it as work_dir".to_owned(),
        ));
    };
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
