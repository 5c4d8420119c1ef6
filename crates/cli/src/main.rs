//! The `anonymize` program: DataFusion's shell with `anonymize()` and its reports.
//!
//! ```text
//! options ─► session (limits, catalogs, functions) ─► shell, when somebody sits at the terminal
//!                                                 └─► run: script ─► statements, one by one
//!                                                          ├─ output    rows to stdout
//!                                                          └─ progress  seconds to stderr
//!                                             release, series, report: by the crate anonymize-release
//! ```
//!
//! Exit codes: 0 everything ran, 1 a statement failed, 2 the command line or the session is wrong,
//! 130 stopped by Ctrl-C.

mod interrupt;
mod options;
mod output;
mod progress;
mod release;
mod report;
mod run;
mod script;
mod series;
#[cfg(feature = "serve")]
mod serve;
mod session;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mimalloc::MiMalloc;

use crate::options::Options;
use crate::run::Failure;

#[global_allocator]
static GLOBAL: MiMalloc = MiMalloc;

/// How long threads that still compute may hold up the end of the program.
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    // These log whole statements, which may hold a seed or what a client looks for.
    let log = env_logger::Env::default().default_filter_or("error,anonymize_serve=info");
    env_logger::Builder::from_env(log)
        .filter_module("sqlparser", log::LevelFilter::Warn)
        .filter_module("datafusion_postgres", log::LevelFilter::Error)
        // A query that fails on a cluster says so itself.
        .filter_module("ballista_core::execution_plans", log::LevelFilter::Off)
        .init();
    let options = Options::parse();
    match start(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Where nobody can be told, the exit code still says it.
            let _ = writeln!(std::io::stderr(), "anonymize: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn start(options: &Options) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // Statements are walked recursively; a long one must not end the program.
        .thread_stack_size(32 << 20)
        .enable_all()
        .build()
        .map_err(|error| Failure::Setup(format!("cannot start the worker threads: {error}")))?;
    let outcome = runtime.block_on(run::run(options));
    // Dropping the runtime would wait for every blocking task, also for those whose query is over.
    runtime.shutdown_timeout(PATIENCE);
    outcome
}
