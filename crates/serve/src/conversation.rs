//! What is said on one connection, from the first byte to the last.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use datafusion_postgres::pgwire::api::{ErrorHandler, PgWireServerHandlers};
use datafusion_postgres::pgwire::messages::PgWireFrontendMessage;
use datafusion_postgres::pgwire::tokio::server::{negotiate_tls, process_error, process_message};
use tokio::io::AsyncRead;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::message::{Next, next};
use crate::session::Session;

/// How long a client may take to log in, as in Postgres: a busy machine is slow, and whoever waits is in nobody's way.
pub const LOGIN: Duration = Duration::from_secs(60);

/// How long a client may take to hear the last word.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Answers a client until either side ends the connection.
pub async fn converse(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    session: &Arc<Session>,
) -> io::Result<()> {
    let handlers = Connection::new(session);
    let late = Instant::now() + LOGIN;
    let Ok(socket) = timeout_at(late, negotiate_tls(stream, tls)).await else { return Ok(()) };
    // Nothing: a client that speaks TLS to a service that does not.
    let Some(mut socket) = socket? else { return Ok(()) };
    loop {
        let heard = match session.is_logged_in() {
            true => next(&mut socket).await?,
            false => match timeout_at(late, next(&mut socket)).await {
                Ok(heard) => heard?,
                Err(_) => return Ok(()),
            },
        };
        let (outcome, extended) = match heard {
            Next::End | Next::Message(PgWireFrontendMessage::Terminate(_)) => return Ok(()),
            Next::Invalid(error, extended) => (Err(error), extended),
            Next::Message(message) => {
                let extended = message.is_extended_query();
                let outcome = process_message(
                    message,
                    &mut socket,
                    handlers.startup_handler(),
                    handlers.simple_query_handler(),
                    handlers.extended_query_handler(),
                    handlers.copy_handler(),
                    handlers.cancel_handler(),
                );
                (outcome.await, extended)
            }
        };
        if let Err(mut error) = outcome {
            handlers.error_handler().on_error(&socket, &mut error);
            let is_fatal = crate::wire::is_fatal(&error);
            process_error(&mut socket, error, extended).await?;
            if is_fatal {
                // What was sent meanwhile would otherwise make the network drop the last word.
                let _ = timeout(LAST_WORD, drain(socket.get_mut())).await;
                return Ok(());
            }
        }
    }
}

async fn drain(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<u64> {
    tokio::io::copy(stream, &mut tokio::io::sink()).await
}
