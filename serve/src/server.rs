//! Listening, and stopping.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use datafusion_postgres::pgwire::error::ErrorInfo;
use datafusion_postgres::pgwire::messages::Message;
use datafusion_postgres::pgwire::messages::response::ErrorResponse;
use datafusion_postgres::pgwire::tokio::process_socket;
use log::{info, warn};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::policy::{Login, Policy};
use crate::service::Service;
use crate::session::Session;
use crate::wire::{self, state};

/// How often a connection is looked at while its query runs.
const LOOK: Duration = Duration::from_millis(250);

/// How long a client that is turned away may take to say hello.
const TURNED_AWAY: Duration = Duration::from_secs(1);

/// What a client sends first that would like to encrypt: over TLS, over GSSAPI.
const ENCRYPTION: [u32; 2] = [80_877_103, 80_877_104];

/// Refuses to carry rows or logins over a network where others can read them.
pub fn check_exposure(policy: &Policy, listen: SocketAddr, allow_insecure: bool) -> Result<()> {
    if allow_insecure || is_loopback(listen.ip()) {
        return Ok(());
    }
    if policy.server.tls.is_none() {
        return Err(Error::setup(format!(
            "{listen} can be reached from other machines: set tls_certificate and tls_key in [server], listen on \
             127.0.0.1, or say --allow-insecure"
        )));
    }
    let trusted = policy.users.iter().find(|(_, user)| matches!(user.login, Login::Trust));
    match trusted {
        Some((name, _)) => Err(Error::setup(format!(
            "{listen} can be reached from other machines and users.{name} logs in without a password: give them \
             one, listen on 127.0.0.1, or say --allow-insecure"
        ))),
        None => Ok(()),
    }
}

fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(v6.is_loopback(), |v4| v4.is_loopback()),
        IpAddr::V4(v4) => v4.is_loopback(),
    }
}

/// Accepts connections until the service is asked to stop, then lets running queries end.
pub struct Listener {
    /// Where connections come in.
    pub listener: TcpListener,
    /// How they are encrypted.
    pub tls: Option<TlsAcceptor>,
    /// What they share.
    pub service: Arc<Service>,
    /// Most of them at a time.
    pub max_connections: usize,
    /// How long running queries may go on.
    pub grace: Duration,
}

impl Listener {
    /// Serves until `stopping` turns true.
    pub async fn run(self, mut stopping: watch::Receiver<bool>) {
        let places = Arc::new(Semaphore::new(self.max_connections));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = stopped(&mut stopping) => break,
                accepted = self.listener.accept() => accepted,
                Some(ended) = connections.join_next() => {
                    if ended.is_err() {
                        warn!("a connection failed");
                    }
                    continue;
                }
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file handles, say: those that end give theirs back.
                    warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                warn!("connection from {peer} refused: all {} are taken", self.max_connections);
                connections.spawn(turn_away(stream));
                continue;
            };
            let (service, tls, stopping) =
                (Arc::clone(&self.service), self.tls.clone(), stopping.clone());
            connections.spawn(async move {
                attend(stream, tls, &service, stopping).await;
                drop(place);
            });
        }
        drop(self.listener);
        info!("stopping: running queries have {} seconds", self.grace.as_secs());
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, all).await.is_err() {
            warn!("stopping: {} connections are cut off", connections.len());
            connections.shutdown().await;
        }
    }
}

/// Serves one connection until either side ends it.
async fn attend(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: &Arc<Service>,
    stopping: watch::Receiver<bool>,
) {
    let Ok(peer) = stream.peer_addr() else { return };
    let twin = match twin(&stream) {
        Ok(twin) => twin,
        Err(error) => return warn!("connection from {peer} refused: {error}"),
    };
    let session = Session::new(service);
    let conversation = Box::pin(process_socket(stream, tls, Connection::new(&session)));
    // Whichever ends first drops the conversation, and with it the query that runs.
    tokio::select! {
        ended = conversation => {
            if let Err(error) = ended {
                info!("connection of {:?} from {peer} ended: {error}", session.user());
            }
        }
        () = hung_up(&twin, &session) => info!("user {:?} hung up during a query", session.user()),
        () = session.overdue() => warn!("user {:?} left rows unread: connection closed", session.user()),
        () = idle_after(stopping, &session) => {}
    }
}

/// A second handle of the connection, to look at it while the first is busy.
fn twin(stream: &TcpStream) -> std::io::Result<TcpStream> {
    let socket = socket2::SockRef::from(stream);
    // So that a peer that vanished without a word is noticed one day.
    socket.set_keepalive(true)?;
    let twin: std::net::TcpStream = socket.try_clone()?.into();
    TcpStream::from_std(twin)
}

/// Waits until the client is gone while its query runs: nobody reads from the connection then, and the
/// query would run to its end for nobody.
async fn hung_up(twin: &TcpStream, session: &Session) {
    loop {
        match twin.ready(Interest::READABLE).await {
            Ok(ready) if ready.is_read_closed() && session.is_busy() => return,
            // An idle connection notices by itself.
            Ok(_) => tokio::time::sleep(LOOK).await,
            Err(_) => return,
        }
    }
}

async fn idle_after(mut stopping: watch::Receiver<bool>, session: &Session) {
    stopped(&mut stopping).await;
    session.idle().await;
}

/// Waits until the service is asked to stop.
pub async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The sender lives as long as the service; were it gone, that is a reason to stop, too.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Says why, so that the client does not blame the network.
async fn turn_away(mut stream: TcpStream) {
    if !matches!(tokio::time::timeout(TURNED_AWAY, hear_out(&mut stream)).await, Ok(Ok(()))) {
        return;
    }
    let error = wire::fatal(state::TOO_MANY_CONNECTIONS, "sorry, too many clients already");
    let message = ErrorResponse::from(ErrorInfo::from(error));
    let mut bytes = bytes::BytesMut::new();
    if message.encode(&mut bytes).is_ok() {
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
    }
}

/// Reads until the client has said who it is: before that, it takes no error for an answer.
async fn hear_out(stream: &mut TcpStream) -> std::io::Result<()> {
    loop {
        let length = stream.read_u32().await?;
        let code = stream.read_u32().await?;
        if code == ENCRYPTION[0] || code == ENCRYPTION[1] {
            // Not over TLS, not over GSSAPI.
            stream.write_all(b"N").await?;
            continue;
        }
        let rest = length.saturating_sub(8).min(10_000);
        let mut rest = vec![0; rest as usize];
        stream.read_exact(&mut rest).await?;
        return Ok(());
    }
}

/// Waits for Ctrl-C or, as service managers send it, for the signal to end.
pub fn asked_to_stop() -> Result<impl Future<Output = ()>> {
    let failed =
        |error: std::io::Error| Error::setup(format!("signals cannot be received: {error}"));
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        Ok(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    {
        let _ = failed;
        Ok(async {
            let _ = tokio::signal::ctrl_c().await;
        })
    }
}
