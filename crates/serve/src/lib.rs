//! Releases of `anonymize()` over the Postgres wire protocol, by a policy.
//!
//! A policy names sources, views and users. Sources are raw tables that no client ever sees. A view is one
//! `anonymize` query with fixed options; its result, a release, is computed once, verified and kept. Users
//! query the releases of their views, with psql or anything else that speaks to Postgres.
//!
//! ```text
//!  policy.toml ─► Policy ─┬─► refresh::Worker ── own session: sources, object stores, seed
//!                         │        └─ release job ─► state/<view>/ ─► Releases (the current one of each view)
//!                         │                                               │
//!                         └─► Service ─► Listener ─► Session (a connection)│
//!                                            ├─ startup   SCRAM-SHA-256   │
//!                                            ├─ gate      what may be said│
//!                                            └─ query ─► Workspace (a user) ── own session: releases, nothing else
//! ```
//!
//! The two sessions share no table, no store and no memory: a client's statement, whatever it says, runs
//! where there is nothing raw to find.

mod catalog;
mod check;
mod complexity;
mod compute;
mod connection;
mod conversation;
mod error;
mod gate;
mod growth;
mod interrupt;
mod message;
pub mod policy;
mod query;
mod refresh;
mod release;
mod rewrite;
mod scram;
mod series;
mod server;
mod service;
mod session;
mod startup;
mod tls;
mod to_char;
mod types;
mod visit;
mod waiting;
mod wire;
mod workspace;

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use log::{info, warn};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use crate::check::check;
use crate::compute::Compute;
pub use crate::error::{Error, Result};
pub use crate::policy::Policy;
use crate::refresh::Worker;
use crate::release::Releases;
pub use crate::series::begin_series;
use crate::server::Listener;
use crate::service::Service;

/// What the command line says beside the policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServeOptions {
    /// Another address than the policy's.
    pub listen: Option<SocketAddr>,
    /// Whether the service may be reached from other machines without TLS or passwords.
    pub allow_insecure: bool,
}

/// What is stored of a password, for the policy.
pub fn hash_password(password: &str) -> Result<String> {
    let verifier = scram::Verifier::new(password);
    verifier.map(|verifier| verifier.to_string()).map_err(|error| Error::setup(error.to_string()))
}

/// Serves the views of a policy until the program is asked to stop. `ready` learns the address.
pub async fn serve(
    policy: &Policy,
    options: ServeOptions,
    ready: impl FnOnce(SocketAddr),
) -> Result<()> {
    let listen = options.listen.unwrap_or(policy.server.listen);
    server::check_exposure(policy, listen, options.allow_insecure)?;
    let tls = policy.server.tls.as_ref().map(tls::acceptor).transpose()?;
    let _state = prepare_state(&policy.server.state)?;
    policy.warnings().iter().for_each(|warning| warn!("{warning}"));
    // From here on signals are heard: whoever reads the address may send one at once.
    let asked_to_stop = server::asked_to_stop()?;
    let hang_ups = server::hang_ups()?;

    let (stop, stopping) = watch::channel(false);
    let releases = Arc::new(Releases::default());
    let (refresher, requests) = refresh::channel();
    let compute = Compute::new()?;
    let engine = compute.handle().ok_or_else(|| Error::setup("there are no worker threads"))?;
    let service =
        Service::new(policy, &releases, refresher.clone(), engine.clone(), stopping.clone())?;
    let host = host(policy)?;
    let mut worker = Worker::new(policy, &releases, host, &service.runtime, stopping.clone());
    worker.adopt().await;

    let cannot =
        |error: std::io::Error| Error::setup(format!("cannot listen on {listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(cannot)?;
    ready(listener.local_addr().map_err(cannot)?);
    let listener = Listener {
        listener,
        tls,
        service,
        waiting: policy.server.max_connections,
        grace: policy.server.grace,
    };
    let work = tokio::task::spawn_blocking(move || engine.block_on(worker.run(requests)));
    let hang_ups = tokio::spawn(async move {
        let mut hang_ups = std::pin::pin!(hang_ups);
        // The signal that makes other services read their files again.
        while hang_ups.next().await.is_some() {
            info!("asked to refresh all views");
            refresher.refresh_all().await;
        }
    });
    let listening = tokio::spawn(listener.run(stopping));
    asked_to_stop.await;
    info!("asked to stop");
    // Both tasks hold a receiver.
    let _ = stop.send(true);
    hang_ups.abort();
    let ended = |error: tokio::task::JoinError| {
        Error::Failed(format!("a part of the service failed: {error}"))
    };
    listening.await.map_err(ended)?;
    work.await.map_err(ended)?;
    compute.end().await;
    Ok(())
}

/// Releases are as public as the views' users; whoever else has an account on the machine is not one.
/// The state belongs to this service until the file is closed, also if the program is killed: another one
/// would remove releases that are read here.
fn prepare_state(state: &Path) -> Result<File> {
    let failed = |error: std::io::Error| {
        Error::setup(format!("server: state: cannot use {}: {error}", state.display()))
    };
    std::fs::create_dir_all(state).map_err(failed)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    let lock = File::create(state.join("lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::setup(format!(
            "server: state: another service uses {}: stop it, or choose another directory",
            state.display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// The session in which sources are read.
fn host(policy: &Policy) -> Result<SessionContext> {
    let mut builder = RuntimeEnvBuilder::new();
    if let Some(bytes) = policy.server.refresh_memory {
        builder = builder.with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
    }
    if let Some(directory) = &policy.server.temp_dir {
        builder = builder.with_temp_file_path(directory);
    }
    let runtime = builder.build_arc().map_err(|error| {
        Error::setup(format!("the refreshes cannot be set up: {}", error.strip_backtrace()))
    })?;
    Ok(SessionContext::new_with_config_rt(
        SessionConfig::new().with_collect_statistics(false),
        runtime,
    ))
}
