//! Listening, and stopping.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use log::{info, warn};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::conversation::converse;
use crate::error::{Error, Result};
use crate::policy::{Login, Policy};
use crate::service::Service;
use crate::session::Session;
use crate::waiting::PendingLogins;

/// How often a connection is checked while its query runs.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

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
    /// Most of them that have not logged in.
    pub waiting: usize,
    /// How long running queries may go on.
    pub grace: Duration,
}

impl Listener {
    /// Serves until `stopping` turns true.
    pub async fn run(self, mut stopping: watch::Receiver<bool>) {
        let mut waiting = PendingLogins::new(self.waiting);
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = stopped(&mut stopping) => break,
                accepted = self.listener.accept() => accepted,
                Some(ended) = connections.join_next() => {
                    if ended.is_err_and(|ended| ended.is_panic()) {
                        warn!("a connection failed");
                    }
                    continue;
                }
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file handles, say: those that end give theirs back.
                    warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
            };
            let (tls, stopping) = (self.tls.clone(), stopping.clone());
            let session = Session::new(&self.service);
            let task =
                connections.spawn(serve_connection(stream, tls, Arc::clone(&session), stopping));
            waiting.enter(task, &session);
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
async fn serve_connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    session: Arc<Session>,
    stopping: watch::Receiver<bool>,
) {
    let Ok(peer) = stream.peer_addr() else { return };
    let second_handle = match second_handle(&stream) {
        Ok(second_handle) => second_handle,
        Err(error) => return warn!("connection from {peer} refused: {error}"),
    };
    let conversation = Box::pin(converse(stream, tls, &session));
    // Whichever ends first drops the conversation, and with it the query that runs.
    tokio::select! {
        ended = conversation => {
            if let Err(error) = ended {
                info!("connection of {:?} from {peer} ended: {error}", session.user());
            }
        }
        () = client_is_gone(&second_handle, &session) => info!("user {:?} hung up during a query", session.user()),
        () = session.overdue() => warn!("user {:?} left rows unread: connection closed", session.user()),
        () = idle_after(stopping, &session) => {}
    }
}

/// A second handle of the connection, to notice that the client is gone while the first one waits for a query.
fn second_handle(stream: &TcpStream) -> std::io::Result<TcpStream> {
    let socket = socket2::SockRef::from(stream);
    // So that a peer that vanished without a word is noticed one day.
    socket.set_keepalive(true)?;
    let second_handle: std::net::TcpStream = socket.try_clone()?.into();
    TcpStream::from_std(second_handle)
}

/// Waits until the client is gone while its query runs: nobody reads from the connection then, and the
/// query would run to its end for nobody.
async fn client_is_gone(second_handle: &TcpStream, session: &Session) {
    loop {
        match second_handle.ready(Interest::READABLE).await {
            Ok(ready) if ready.is_read_closed() && session.is_busy() => return,
            // An idle connection notices by itself.
            Ok(_) => tokio::time::sleep(POLL_INTERVAL).await,
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

/// The hang-ups from now on, each of which asks for all views to be computed anew.
pub fn hang_ups() -> Result<impl Stream<Item = ()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let failed =
            |error: std::io::Error| Error::setup(format!("signals cannot be received: {error}"));
        let hang_up = signal(SignalKind::hangup()).map_err(failed)?;
        Ok(futures::stream::unfold(hang_up, |mut hang_up| async {
            hang_up.recv().await.map(|()| ((), hang_up))
        }))
    }
    #[cfg(not(unix))]
    Ok(futures::stream::empty())
}
