//! Logging in.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion_postgres::pgwire::api::auth::{
    DefaultServerParameterProvider, ServerParameterProvider, StartupHandler, finish_authentication,
    protocol_negotiation, save_startup_parameters_to_metadata,
};
use datafusion_postgres::pgwire::api::{ClientInfo, METADATA_USER, PgWireConnectionState};
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::startup::{Authentication, PasswordMessageFamily};
use datafusion_postgres::pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use futures::{Sink, SinkExt};
use log::{info, warn};
use tokio::sync::Mutex;

use crate::policy::Login;
use crate::scram::{Challenge, MECHANISM, Refusal, Verifier};
use crate::session::Session;
use crate::wire::{fatal, state};
use crate::workspace::SCHEMA;

/// What a wrong password costs whoever guesses.
const PAUSE: Duration = Duration::from_millis(500);

/// Logs one connection in.
pub struct Startup {
    session: Arc<Session>,
    challenge: Mutex<Option<Challenge>>,
}

impl Startup {
    /// For a connection that has just been made.
    pub fn new(session: &Arc<Session>) -> Self {
        Self { session: Arc::clone(session), challenge: Mutex::new(None) }
    }

    /// The first answer to a password: what it has to prove.
    fn challenge(
        &self,
        user: &str,
        message: PasswordMessageFamily,
    ) -> PgWireResult<(Challenge, String)> {
        if !is_initial_response(&message) {
            return Err(self.refused(user, Refusal::Malformed));
        }
        let first = message.into_sasl_initial_response()?;
        if first.auth_method != MECHANISM {
            return Err(PgWireError::UnsupportedSASLAuthMethod(first.auth_method));
        }
        let service = self.session.service();
        let verifier = match service.users.get(user).map(|user| &user.login) {
            Some(Login::Password(verifier)) => verifier.clone(),
            // Somebody without a password has logged in already; nobody else can.
            Some(Login::Trust) | None => Verifier::of_nobody(&service.secret, user),
        };
        let first = first.data.unwrap_or_default();
        Challenge::new(verifier, &first).map_err(|refusal| self.refused(user, refusal))
    }

    fn refused(&self, user: &str, refusal: Refusal) -> PgWireError {
        warn!("login refused: {refusal}");
        match refusal {
            Refusal::Malformed => fatal("08P01", refusal.to_string()),
            Refusal::WrongPassword => fatal(
                state::WRONG_PASSWORD,
                format!("password authentication failed for user \"{user}\""),
            ),
        }
    }

    /// The connection is the user's from now on.
    async fn admit<C>(&self, client: &mut C, user: &str) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let service = self.session.service();
        let Some(known) = service.users.get(user) else {
            return Err(self.refused(user, Refusal::WrongPassword));
        };
        self.session.log_in(Arc::clone(&known.workspace))?;
        let (pid, key) = service.cancel_keys.register(&self.session, client);
        client.set_pid_and_secret_key(pid, key);
        client.session_extensions().insert(Arc::clone(&self.session));
        info!("user {user:?} logged in from {}", client.socket_addr());
        finish_authentication(client, &Parameters).await
    }
}

#[async_trait]
impl StartupHandler for Startup {
    async fn on_startup<C>(
        &self,
        client: &mut C,
        message: PgWireFrontendMessage,
    ) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        match message {
            PgWireFrontendMessage::Startup(ref startup) => {
                protocol_negotiation(client, startup).await?;
                save_startup_parameters_to_metadata(client, startup);
                let service = self.session.service();
                if service.requires_tls && !client.is_secure() {
                    let message =
                        "this service takes encrypted connections only: use sslmode=require";
                    return Err(fatal(state::NO_AUTHORIZATION, message));
                }
                let user = user(client)?;
                let login = service.users.get(&user).map(|user| &user.login);
                if matches!(login, Some(Login::Trust)) {
                    return self.admit(client, &user).await;
                }
                client.set_state(PgWireConnectionState::AuthenticationInProgress);
                let ask = Authentication::SASL(vec![MECHANISM.to_owned()]);
                client.send(PgWireBackendMessage::Authentication(ask)).await?;
            }
            PgWireFrontendMessage::PasswordMessageFamily(message) => {
                let user = user(client)?;
                let mut challenge = self.challenge.lock().await;
                match challenge.take() {
                    None => {
                        let (begun, answer) = self.challenge(&user, message)?;
                        *challenge = Some(begun);
                        let answer = Authentication::SASLContinue(answer.into());
                        client.send(PgWireBackendMessage::Authentication(answer)).await?;
                    }
                    Some(begun) => {
                        let last = message.into_sasl_response()?;
                        let proof = begun.verify(&last.data);
                        if proof.is_err() {
                            tokio::time::sleep(PAUSE).await;
                        }
                        let proof = proof.map_err(|refusal| self.refused(&user, refusal))?;
                        let proof = Authentication::SASLFinal(proof.into());
                        client.send(PgWireBackendMessage::Authentication(proof)).await?;
                        self.admit(client, &user).await?;
                    }
                }
            }
            _ => return Err(fatal("08P01", "unexpected message before the login is complete")),
        }
        Ok(())
    }
}

/// Whether the message is a name, a length and that many bytes. The protocol's library takes it for granted.
fn is_initial_response(message: &PasswordMessageFamily) -> bool {
    let PasswordMessageFamily::Raw(body) = message else { return true };
    let Some(end) = body.iter().position(|byte| *byte == 0) else { return false };
    let Some((length, data)) = body[end + 1..].split_first_chunk::<4>() else { return false };
    match i32::from_be_bytes(*length) {
        -1 => data.is_empty(),
        length => usize::try_from(length).is_ok_and(|length| length == data.len()),
    }
}

fn user(client: &impl ClientInfo) -> PgWireResult<String> {
    client.metadata().get(METADATA_USER).cloned().ok_or(PgWireError::UserNameRequired)
}

/// What a client is told about the service.
struct Parameters;

impl ServerParameterProvider for Parameters {
    fn server_parameters<C: ClientInfo>(&self, client: &C) -> Option<HashMap<String, String>> {
        let mut defaults = DefaultServerParameterProvider::default();
        defaults.server_version = format!("16.6 (anonymize {})", env!("CARGO_PKG_VERSION"));
        defaults.is_superuser = false;
        defaults.default_transaction_read_only = true;
        defaults.search_path = SCHEMA.to_owned();
        defaults.server_parameters(client)
    }
}
