//! What all connections share.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use datafusion::error::Result as EngineResult;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::object_store::local::LocalFileSystem;
use datafusion_postgres::pgwire::api::{
    ClientInfo, PidSecretKeyGenerator, RandomPidSecretKeyGenerator,
};
use datafusion_postgres::pgwire::messages::startup::SecretKey;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use crate::error::{Error, Result};
use crate::policy::{Login, Policy, Server};
use crate::refresh::Refresher;
use crate::release::Releases;
use crate::scram::random;
use crate::session::Session;
use crate::workspace::{ReleaseStore, Workspace};

/// What all connections share.
pub struct Service {
    // Who
    /// Everybody who may log in.
    pub users: BTreeMap<String, Account>,
    /// What answers to unknown users are made of.
    pub secret: [u8; 32],
    /// Whether only encrypted connections are served.
    pub requires_tls: bool,
    // Limits
    /// Of a single query.
    pub limits: Limits,
    /// Places of connections that have logged in.
    pub places: Arc<Semaphore>,
    /// Turns at running queries.
    pub turns: Arc<Semaphore>,
    /// How many connections wait for a turn.
    pub waiting_for_turn: AtomicUsize,
    // Resources
    /// The engine's resources for queries: no store but that of the releases.
    pub runtime: Arc<RuntimeEnv>,
    /// The threads that queries are computed on.
    pub engine: Handle,
    /// The connections that cancel requests can name.
    pub cancel_keys: CancelKeys,
    /// Computes views anew.
    pub refresher: Refresher,
    /// Whether the service was asked to stop.
    stopping: watch::Receiver<bool>,
}

/// A user with what belongs to them.
pub struct Account {
    /// How they log in.
    pub login: Login,
    /// What they see.
    pub workspace: Arc<Workspace>,
}

/// Limits of a single query.
pub struct Limits {
    /// Memory of the queries of one connection.
    pub query_memory: usize,
    /// How long a query may take.
    pub query_timeout: Duration,
}

impl Service {
    /// Prepares a workspace for every user.
    pub fn new(
        policy: &Policy,
        releases: &Arc<Releases>,
        refresher: Refresher,
        engine: Handle,
        stopping: watch::Receiver<bool>,
    ) -> Result<Arc<Self>> {
        let server = &policy.server;
        let failed = |error: datafusion::error::DataFusionError| {
            Error::setup(format!("the sessions cannot be set up: {}", error.strip_backtrace()))
        };
        let runtime = runtime(server).map_err(failed)?;
        let mut users = BTreeMap::new();
        for (name, user) in &policy.users {
            let workspace = Workspace::new(name, user, releases, &runtime).map_err(failed)?;
            let workspace = Arc::new(workspace);
            users.insert(name.clone(), Account { login: user.login.clone(), workspace });
        }
        Ok(Arc::new(Self {
            users,
            secret: random().map_err(|error| Error::setup(error.to_string()))?,
            requires_tls: server.tls.is_some(),
            limits: Limits {
                query_memory: server.query_memory,
                query_timeout: server.query_timeout,
            },
            places: Arc::new(Semaphore::new(server.max_connections)),
            turns: Arc::new(Semaphore::new(server.max_queries)),
            waiting_for_turn: AtomicUsize::new(0),
            runtime,
            engine,
            cancel_keys: CancelKeys::default(),
            refresher,
            stopping,
        }))
    }

    /// Whether the service was asked to stop.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}

/// The resources of queries, whose only store is that of the releases.
pub fn runtime(server: &Server) -> EngineResult<Arc<RuntimeEnv>> {
    let files = LocalFileSystem::new_with_prefix(&server.state)?;
    let mut builder = RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::new(ReleaseStore { store: Arc::new(files) }));
    if let Some(directory) = &server.temp_dir {
        builder = builder.with_temp_file_path(directory);
    }
    builder.build_arc()
}

/// Connections by the numbers that a cancel request names.
#[derive(Default)]
pub struct CancelKeys {
    numbers: RandomPidSecretKeyGenerator,
    connections: Mutex<HashMap<i32, (SecretKey, Weak<Session>)>>,
    since_sweep: AtomicI32,
}

impl CancelKeys {
    /// Gives a connection its number and the secret that goes with it.
    pub fn register(&self, session: &Arc<Session>, client: &dyn ClientInfo) -> (i32, SecretKey) {
        let (number, key) = self.numbers.generate(client);
        let mut connections = self.connections.lock();
        // Entries of closed connections are removed once in a while.
        if self.since_sweep.fetch_add(1, Ordering::Relaxed) % 64 == 63 {
            connections.retain(|_, (_, session)| session.strong_count() > 0);
        }
        connections.insert(number, (key.clone(), Arc::downgrade(session)));
        (number, key)
    }

    /// Stops what a connection runs, if the secret is right.
    pub fn cancel(&self, number: i32, key: &SecretKey) {
        let connections = self.connections.lock();
        let known = connections.get(&number);
        // The same bytes, in whichever version of the protocol they were sent.
        let known = known.filter(|(secret, _)| secret.to_bytes() == key.to_bytes());
        if let Some(session) = known.and_then(|(_, session)| session.upgrade()) {
            session.cancel();
        }
    }
}
