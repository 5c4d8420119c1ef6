//! `[server]`: how and where it is served.

use std::net::{SocketAddr, ToSocketAddrs};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::error::{Error, Result};

/// How and where views are served.
#[derive(Debug, Clone)]
pub struct Server {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Where releases are kept between restarts.
    pub state: PathBuf,
    /// Where queries and refreshes spill; the system's directory without it.
    pub temp_dir: Option<PathBuf>,
    /// The certificate, if connections may be encrypted.
    pub tls: Option<Tls>,
    /// Most connections at a time.
    pub max_connections: usize,
    /// Most connections that run queries at a time; others wait for their turn.
    pub max_queries: usize,
    /// Memory of the queries of one connection, in bytes.
    pub query_memory: usize,
    /// How long a query may take, the reading of its rows included.
    pub query_timeout: Duration,
    /// Memory of a refresh, in bytes; no limit without it.
    pub refresh_memory: Option<usize>,
    /// How often the sources are looked at; never without it.
    pub poll: Option<Duration>,
    /// How long running queries may go on after the service was asked to stop.
    pub grace: Duration,
}

/// Where the certificate and its key are, as PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate, and those that sign it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// `[server]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Section {
    listen: String,
    state: PathBuf,
    temp_dir: Option<PathBuf>,
    tls_certificate: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    max_connections: NonZeroUsize,
    max_queries: NonZeroUsize,
    query_memory_mb: NonZeroUsize,
    query_timeout_seconds: NonZeroU64,
    refresh_memory_mb: Option<NonZeroUsize>,
    poll_seconds: u64,
    grace_seconds: u64,
}

/// More could not be counted by those that count them.
const MOST_AT_ONCE: u64 = 1_000_000;
/// A year: later moments could not be told.
const LONGEST_SECONDS: u64 = 366 * 24 * 60 * 60;

impl Default for Section {
    fn default() -> Self {
        let count = |count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        Self {
            listen: "127.0.0.1:5433".to_owned(),
            state: "state".into(),
            temp_dir: None,
            tls_certificate: None,
            tls_key: None,
            max_connections: count(100),
            max_queries: count(8),
            query_memory_mb: count(512),
            query_timeout_seconds: NonZeroU64::new(60).unwrap_or(NonZeroU64::MIN),
            refresh_memory_mb: None,
            poll_seconds: 60,
            grace_seconds: 10,
        }
    }
}

impl Section {
    pub(super) fn resolve(self, directory: &Path) -> Result<Server> {
        let wrong = |message: String| Error::setup(format!("server: {message}"));
        let mut addresses = self.listen.to_socket_addrs().map_err(|error| {
            wrong(format!("listen = \"{}\": {error}; write \"127.0.0.1:5433\"", self.listen))
        })?;
        let listen = addresses.next().ok_or_else(|| wrong("listen names no address".to_owned()))?;
        let tls = match (self.tls_certificate, self.tls_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(Tls { certificate: directory.join(certificate), key: directory.join(key) })
            }
            _ => return Err(wrong("tls_certificate and tls_key go together".to_owned())),
        };
        for (name, given, most) in [
            ("max_connections", self.max_connections.get() as u64, MOST_AT_ONCE),
            ("max_queries", self.max_queries.get() as u64, MOST_AT_ONCE),
            ("query_timeout_seconds", self.query_timeout_seconds.get(), LONGEST_SECONDS),
            ("poll_seconds", self.poll_seconds, LONGEST_SECONDS),
            ("grace_seconds", self.grace_seconds, LONGEST_SECONDS),
        ] {
            if given > most {
                return Err(wrong(format!("{name} = {given} is too large; write at most {most}")));
            }
        }
        let bytes = |megabytes: NonZeroUsize| megabytes.get().saturating_mul(1 << 20);
        Ok(Server {
            listen,
            state: directory.join(self.state),
            temp_dir: self.temp_dir.map(|path| directory.join(path)),
            tls,
            max_connections: self.max_connections.get(),
            max_queries: self.max_queries.get(),
            query_memory: bytes(self.query_memory_mb),
            query_timeout: Duration::from_secs(self.query_timeout_seconds.get()),
            refresh_memory: self.refresh_memory_mb.map(bytes),
            poll: (self.poll_seconds > 0).then(|| Duration::from_secs(self.poll_seconds)),
            grace: Duration::from_secs(self.grace_seconds),
        })
    }
}
