//! An executor of a cluster that knows `anonymize()`.

use std::cell::Cell;
use std::fs::{self, File, TryLockError};
use std::future::pending;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anonymize_ballista::{Retention, run_executor};
use ballista_core::error::{BallistaError, Result};
use ballista_executor::executor_process::ExecutorProcessConfig;
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
    /// Seconds for which the rows of a query stay here for its client when it has ended
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    clean_up_after: u64,
    /// Seconds after which a scheduler that does not answer is taken for dead: tasks of its queries stop, and
    /// their shuffle files are deleted
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..))]
    scheduler_timeout: u64,
}

fn main() -> ExitCode {
    // Ballista makes directories and files for raw rows whenever it misses one. Set before there are threads.
    #[cfg(unix)]
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let options = Options::parse();
    let runtime = tokio::runtime::Runtime::new().map_err(BallistaError::IoError);
    match runtime.and_then(|runtime| runtime.block_on(run(options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("anonymize-executor: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<()> {
    check_port(&options.bind_host, options.port)?;
    let work_dir = WorkDir::make(&options.work_dir, options.port)?;
    let defaults = anonymize_ballista::executor_config();
    let health = defaults.health.clone();
    let config = ExecutorProcessConfig {
        scheduler_host: options.scheduler_host,
        scheduler_port: options.scheduler_port,
        scheduler_connect_timeout_seconds: 30,
        bind_host: options.bind_host,
        external_host: options.external_host,
        port: options.port,
        vcores: options.tasks.map_or(defaults.vcores, |tasks| tasks as usize),
        memory_pool_size: options.memory_mb.map(|megabytes| megabytes << 20),
        work_dir: Some(work_dir.path().display().to_string()),
        ..defaults
    };
    let retention = Retention {
        after_success: Duration::from_secs(options.clean_up_after),
        without_scheduler: Duration::from_secs(options.scheduler_timeout),
    };
    let told_to_end = Cell::new(false);
    let before_it_works = async {
        told_to_end_by_signal().await;
        told_to_end.set(true);
        // Ballista hears signals, and ends in order, from when it has found its scheduler.
        if health.is_ready() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        ended = run_executor(config, retention) => ended?,
        () = before_it_works => return Ok(()),
    }
    // Ballista calls it a success when one of its servers has failed.
    match told_to_end.get() {
        true => Ok(()),
        false => Err(BallistaError::General(
            "the executor stopped although nobody has asked it to; the log says why".to_owned(),
        )),
    }
}

/// An error if others could not reach this executor, before it touches any file.
fn check_port(bind_host: &str, port: u16) -> Result<()> {
    let Ok(host) = bind_host.parse::<IpAddr>() else {
        return Err(BallistaError::Configuration(format!(
            "--bind-host {bind_host}: write an IP address, as in --bind-host 0.0.0.0"
        )));
    };
    match TcpListener::bind((host, port)) {
        Ok(_) => Ok(()),
        Err(error) => Err(BallistaError::Configuration(format!(
            "--port {port}: cannot listen on {bind_host}:{port} ({}); another program or executor may use it: \
             give every executor of a machine a port of its own",
            error.kind()
        ))),
    }
}

/// Waits for the signals at which Ballista ends an executor.
async fn told_to_end_by_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return pending().await };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = tokio::signal::ctrl_c().await;
}

/// The directory of one executor; its port tells it from others on this machine.
struct WorkDir {
    path: PathBuf,
    /// Locked as long as this process lives, so that nobody else takes the directory for one that was left. The
    /// file stays: who removes a lock may remove the one that another process has just taken.
    _lock: File,
}

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
        let lock =
            open_lock(&path.with_extension("lock")).map_err(|error| failed("locked", error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed("locked", error)),
            Err(TryLockError::WouldBlock) => {
                return Err(BallistaError::Configuration(format!(
                    "--work-dir {}: an executor with --port {port} works in {}; give this one another port or \
                     another directory",
                    parent.display(),
                    path.display()
                )));
            }
        }
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
        Ok(Self { path, _lock: lock })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

fn open_lock(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    // A working directory may be one that everybody can write to, where a name can be somebody's link.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, nix::libc::O_NOFOLLOW);
    options.open(path)
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.path).is_err() {
            log::warn!("{} could not be removed; it may hold raw rows", self.path.display());
        }
    }
}
