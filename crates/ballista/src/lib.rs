//! `anonymize()` on a cluster: [Apache Ballista](https://datafusion.apache.org/ballista/) with the functions, the
//! planner and the codecs of [`datafusion_anonymize`].
//!
//! ```text
//!  client                      anonymize-scheduler              anonymize-executor (as many as there are)
//!  SQL ─► logical plan ──────► operators, cut into stages ────► tasks: one partition of one stage each
//!  rows ◄──────────────────────────────────────────────────────  shuffle files between stages
//! ```
//!
//! - [`remote`] and [`standalone`] give a `SessionContext` whose queries run on the cluster. The client plans SQL
//!   and nothing else; the scheduler makes operators of it.
//! - [`scheduler_config`] and [`executor_config`] are what the programs `anonymize-scheduler` and
//!   `anonymize-executor` start with, for hosts with programs of their own; [`run_executor`] runs an executor, and deletes
//!   its files in time.
//! - Clients that register the functions of [`anonymize_sample`] can read its tables there too.
//!
//! A table is cut into cells ([`DEFAULT_CELLS`], `SET anonymize.cells = n`) that are anonymized apart from each
//! other on different machines. The number of cells is part of a release, the number of machines is not.

mod config;
mod copy;
mod executor;
mod failure;
mod job;
mod planner;
mod shuffle;
mod stop;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use ballista::prelude::SessionContextExt;
use ballista_core::error::BallistaError;
use ballista_core::serde::BallistaCodec;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_executor::new_standalone_executor_from_state;
use ballista_scheduler::standalone::new_standalone_scheduler_with_builder;
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionContext;
use datafusion_anonymize::{AnonymizeConfig, register_sql};

use job::Scheduler;
use planner::ClientPlanner;

pub use config::{executor_config, scheduler_config, session_config, session_state};
pub use executor::run_executor;
pub use failure::message;
pub use sweep::Retention;

/// Cells of a release on a cluster, unless `SET anonymize.cells = n` says otherwise.
pub const DEFAULT_CELLS: u32 = 8;

/// A session whose queries run on the cluster of a scheduler, as in `df://localhost:50050`.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let context = anonymize_ballista::remote("df://localhost:50050").await?;
/// context
///     .sql("CREATE EXTERNAL TABLE patients STORED AS PARQUET LOCATION '/shared/patients/'")
///     .await?
///     .collect()
///     .await?;
/// let release = context
///     .sql("SELECT * FROM anonymize(patients, k => 10, quasi_identifiers => ['age', 'zip'],
///             sensitive => ['disease'])")
///     .await?;
/// release.show().await?;
/// # Ok(())
/// # }
/// ```
pub async fn remote(url: &str) -> Result<SessionContext> {
    let context = connect(url).await?;
    register(&context)?;
    Ok(context)
}

/// The same without the SQL functions, for hosts that change the context before they [`register`] them.
pub async fn connect(url: &str) -> Result<SessionContext> {
    let Some(address) = url.strip_prefix("df://").filter(|address| !address.is_empty()) else {
        return plan_err!("'{url}' is not the address of a scheduler: write df://host:port");
    };
    // Ballista itself looks for its scheduler when the first query runs, at this port if none is given.
    let port = if address.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok()) {
        ""
    } else {
        ":50050"
    };
    let scheduler = format!("http://{address}{port}");
    if SchedulerGrpcClient::connect(scheduler.clone()).await.is_err() {
        return plan_err!(
            "no scheduler answers at {url}: start anonymize-scheduler there, or correct host and port"
        );
    }
    let config = session_config().with_extension(Arc::new(Scheduler(scheduler)));
    SessionContext::remote_with_state(url, session_state(config)?).await
}

/// A session with a scheduler and an executor of its own inside this process, for tests and trials. It has the functions
/// of [`anonymize_sample`] too, whose rows are the ones to try it with: shuffle files lie in the directory for temporary files
/// as this process makes files, and the last ones stay there.
pub async fn standalone() -> Result<SessionContext> {
    let failed = |error: BallistaError| DataFusionError::External(Box::new(error));
    let codec = BallistaCodec::new(config::logical_codec(), config::physical_codec());
    let builder = Arc::new(session_state);
    let address = new_standalone_scheduler_with_builder(builder, Arc::new(session_config), codec)
        .await
        .map_err(failed)?;
    let url = format!("http://localhost:{}", address.port());
    let scheduler = loop {
        match SchedulerGrpcClient::connect(url.clone()).await {
            Ok(scheduler) => break scheduler,
            // It has an address and does not listen yet.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let tasks = std::thread::available_parallelism().map_or(2, usize::from);
    new_standalone_executor_from_state(scheduler, tasks, &plain_state()?).await.map_err(failed)?;
    let context = remote(&format!("df://localhost:{}", address.port())).await?;
    anonymize_sample::register(&context)?;
    Ok(context)
}

fn plain_state() -> Result<SessionState> {
    session_state(session_config())
}

/// Registers what a client needs beside Ballista: the SQL functions and settings. Ballista's planner sends plans to
/// the scheduler; files of a release are written by the client.
pub fn register(context: &SessionContext) -> Result<()> {
    register_sql(context)?;
    let state = context.state_ref();
    let mut state = state.write();
    let planner = ClientPlanner::new(Arc::clone(state.query_planner()));
    let session_id = state.session_id().to_owned();
    *state = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(session_id)
        .with_query_planner(Arc::new(planner))
        .build();
    let settings = AnonymizeConfig { cells: DEFAULT_CELLS, ..AnonymizeConfig::default() };
    state.config_mut().options_mut().extensions.insert(settings);
    Ok(())
}
