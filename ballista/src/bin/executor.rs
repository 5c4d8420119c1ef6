//! An executor of a cluster that knows `anonymize()`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballista_core::error::{BallistaError, Result};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use clap::Parser;

/// Runs tasks of anonymize() queries for a scheduler.
#[derive(Parser)]
#[command(name = "anonymize-executor", version)]
struct Options {
    /// Host of the scheduler
    #[arg(long, default_value = "localhost")]
    scheduler_host: String,
    /// Port of the scheduler
    #[arg(long, default_value_t = 50050)]
    scheduler_port: u16,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    bind_host: String,
    /// Host name under which other executors and clients reach this one
    #[arg(long)]
    external_host: Option<String>,
    /// Port from which others fetch shuffle files
    #[arg(long, default_value_t = 50051)]
    port: u16,
    /// Port for the scheduler's messages
    #[arg(long, default_value_t = 50052)]
    grpc_port: u16,
    /// Tasks at once; all cores if it is not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    tasks: Option<u64>,
    /// Memory of all tasks together, in megabytes; a share of the machine's if it is not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    memory_mb: Option<u64>,
    /// Where shuffle files and spills are written, which hold raw rows: a directory that only this user can
    /// read is made in it and removed at the end
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    work_dir: PathBuf,
    /// Seconds between signs of life to the scheduler
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    heartbeat: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let options = Options::parse();
    let work_dir = WorkDir::make(&options.work_dir, options.port)?;
    let defaults = anonymize_ballista::executor_config();
    let config = ExecutorProcessConfig {
        scheduler_host: options.scheduler_host,
        scheduler_port: options.scheduler_port,
        scheduler_connect_timeout_seconds: 30,
        bind_host: options.bind_host,
        external_host: options.external_host,
        port: options.port,
        grpc_port: options.grpc_port,
        vcores: options.tasks.map_or(defaults.vcores, |tasks| tasks as usize),
        memory_pool_size: options.memory_mb.map(|megabytes| megabytes << 20),
        work_dir: Some(work_dir.path().display().to_string()),
        executor_heartbeat_interval_seconds: options.heartbeat,
        // A scheduler that died tells nobody to clean up.
        job_data_ttl_seconds: 24 * 60 * 60,
        job_data_clean_up_interval_seconds: 15 * 60,
        ..defaults
    };
    start_executor_process(Arc::new(config)).await
}

/// The directory of one executor; its port tells it from others on this machine.
struct WorkDir(PathBuf);

impl WorkDir {
    /// Makes it, without what an executor that was killed has left.
    fn make(parent: &Path, port: u16) -> Result<Self> {
        let path = parent.join(format!("anonymize-executor-{port}"));
        let failed = |what: &str, error: std::io::Error| {
            BallistaError::Configuration(format!(
                "--work-dir {}: the directory {} cannot be {what} ({}); name one that this user can write to",
                parent.display(),
                path.display(),
                error.kind()
            ))
        };
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("emptied", error));
            }
            _ => {}
        }
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(|error| failed("made", error))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.0).is_err() {
            log::warn!("{} could not be removed; it may hold raw rows", self.0.display());
        }
    }
}
