//! The protocol's handlers for one connection.

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion_postgres::pgwire;
use datafusion_postgres::pgwire::api::auth::StartupHandler;
use datafusion_postgres::pgwire::api::cancel::CancelHandler;
use datafusion_postgres::pgwire::api::portal::{Format, Portal, PortalExecutionState};
use datafusion_postgres::pgwire::api::query::{
    ExtendedQueryHandler, SimpleQueryHandler, send_execution_response, send_partial_query_response,
};
use datafusion_postgres::pgwire::api::results::{FieldInfo, Response, Tag};
use datafusion_postgres::pgwire::api::stmt::QueryParser;
use datafusion_postgres::pgwire::api::store::{Entry, PortalStore};
use datafusion_postgres::pgwire::api::{
    ClientInfo, ClientPortalStore, DEFAULT_NAME, ErrorHandler, PgWireConnectionState,
    PgWireServerHandlers, Type,
};
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::PgWireBackendMessage;
use datafusion_postgres::pgwire::messages::cancel::CancelRequest;
use datafusion_postgres::pgwire::messages::extendedquery::{Bind, BindComplete, Execute};
use datafusion_postgres::pgwire::messages::simplequery::Query;
use futures::future::BoxFuture;
use futures::{Sink, SinkExt};
use log::info;

use crate::complexity;
use crate::gate::{self, Verdict};
use crate::rewrite::rewrite_for_parser;
use crate::session::Session;
use crate::startup::Startup;
use crate::wire::{self, state};
use crate::workspace::Workspace;

/// A prepared statement, as the protocol's library keeps it.
type Prepared = (String, Option<(Statement, LogicalPlan)>);

/// All handlers of one connection.
pub struct Connection {
    startup: Arc<Startup>,
    statements: Arc<Statements>,
}

impl Connection {
    /// For a connection that has just been made.
    pub fn new(session: &Arc<Session>) -> Self {
        let statements = Arc::new(Statements { session: Arc::clone(session) });
        Self { startup: Arc::new(Startup::new(session)), statements }
    }
}

impl PgWireServerHandlers for Connection {
    fn simple_query_handler(&self) -> Arc<impl SimpleQueryHandler> {
        Arc::clone(&self.statements)
    }

    fn extended_query_handler(&self) -> Arc<impl ExtendedQueryHandler> {
        Arc::clone(&self.statements)
    }

    fn startup_handler(&self) -> Arc<impl StartupHandler> {
        Arc::clone(&self.startup)
    }

    fn error_handler(&self) -> Arc<impl ErrorHandler> {
        Arc::clone(&self.statements)
    }

    fn cancel_handler(&self) -> Arc<impl CancelHandler> {
        Arc::clone(&self.statements)
    }
}

/// Statements in both of the protocol's ways: as text, or prepared.
struct Statements {
    session: Arc<Session>,
}

#[async_trait]
impl SimpleQueryHandler for Statements {
    async fn on_query<C>(&self, client: &mut C, query: Query) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let _occupied = self.session.mark_busy()?;
        self._on_query(client, query).await
    }

    async fn do_query<C>(&self, client: &mut C, query: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        complexity::check(query)?;
        run_text(self.session.workspace()?, client, &rewrite_for_parser(query)?).await
    }
}

#[async_trait]
impl ExtendedQueryHandler for Statements {
    type Statement = Prepared;
    type QueryParser = Parser;

    fn query_parser(&self) -> Arc<Parser> {
        Arc::new(Parser { session: Arc::clone(&self.session) })
    }

    async fn on_execute<C>(&self, client: &mut C, mut message: Execute) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let _occupied = self.session.mark_busy()?;
        let name = message.name.as_deref().unwrap_or(DEFAULT_NAME);
        // No number, and one below zero, mean all rows.
        let most = usize::try_from(message.max_rows).unwrap_or(0);
        if let Some(sent) = rows_of_portal(self, client, name, most) {
            return sent.await;
        }
        message.max_rows = 0;
        self._on_execute(client, message).await
    }

    async fn on_bind<C>(&self, client: &mut C, message: Bind) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        self.bind(client.portal_store(), message)?;
        client.send(PgWireBackendMessage::BindComplete(BindComplete::new())).await?;
        Ok(())
    }

    // As `async_trait` would write it, for the reason that `QueryHook` has.
    fn do_query<'s: 'f, 'l: 'f, 'p: 'f, 'f, C>(
        &'s self,
        client: &'l mut C,
        portal: &'p Portal<Prepared>,
        max_rows: usize,
    ) -> BoxFuture<'f, PgWireResult<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync + 'f,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        run_portal(&self.session, client, portal, max_rows)
    }
}

/// Runs statements that were sent as text.
async fn run_text<C>(
    workspace: &Workspace,
    client: &mut C,
    sql: &str,
) -> PgWireResult<Vec<Response>>
where
    C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
    C::PortalStore: PortalStore,
    C::Error: Debug,
    PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
{
    SimpleQueryHandler::do_query(workspace.protocol(), client, sql).await
}

/// Runs a prepared statement.
fn run_portal<'a, C>(
    session: &'a Session,
    client: &'a mut C,
    portal: &'a Portal<Prepared>,
    max_rows: usize,
) -> BoxFuture<'a, PgWireResult<Response>>
where
    C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
    C::PortalStore: PortalStore<Statement = Prepared>,
    C::Error: Debug,
    PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
{
    session.set_result_format(portal.result_column_format.clone());
    match session.workspace() {
        Ok(workspace) => {
            ExtendedQueryHandler::do_query(workspace.protocol(), client, portal, max_rows)
        }
        Err(error) => Box::pin(ready(Err(error))),
    }
}

/// Sends rows of a portal as they come, if it is that of a query. The library would collect all of them first, outside
/// of any limit.
fn rows_of_portal<'a, C>(
    statements: &'a Statements,
    client: &'a mut C,
    name: &str,
    most: usize,
) -> Option<BoxFuture<'a, PgWireResult<()>>>
where
    C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
    C::PortalStore: PortalStore<Statement = Prepared>,
    C::Error: Debug,
    PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
{
    let portal = match client.portal_store().get_portal(name) {
        Some(Entry::Value(portal)) if is_query(&portal) => portal,
        _ => return None,
    };
    Some(Box::pin(async move {
        if !matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            return Err(PgWireError::NotReadyForQuery);
        }
        client.set_state(PgWireConnectionState::QueryInProgress);
        let shared = portal.state();
        let mut progress = shared.lock().await;
        if matches!(*progress, PortalExecutionState::Initial) {
            match run_portal(&statements.session, client, &portal, most).await? {
                Response::Query(rows) => *progress = PortalExecutionState::Suspended(rows),
                _ => return Err(wire::error(state::INTERNAL, "a query has no rows")),
            }
        }
        match &mut *progress {
            PortalExecutionState::Suspended(rows) => {
                let sent = send_partial_query_response(client, rows, most).await;
                if !matches!(sent, Ok(true)) {
                    *progress = PortalExecutionState::Finished;
                }
                sent?;
            }
            _ => send_execution_response(client, Tag::new("SELECT").with_rows(0)).await?,
        }
        client.set_state(PgWireConnectionState::ReadyForQuery);
        Ok(())
    }))
}

impl Statements {
    fn bind(
        &self,
        portals: &impl PortalStore<Statement = Prepared>,
        mut message: Bind,
    ) -> PgWireResult<()> {
        let name = message.statement_name.as_deref().unwrap_or(DEFAULT_NAME);
        match portals.get_statement(name) {
            Some(Entry::Value(statement)) => {
                let types = self.query_parser().get_parameter_types(&statement.statement)?;
                self.check_bind(&message, &statement.statement, types.len())?;
                keep_quotes(&mut message, &types);
                portals.put_portal(Arc::new(Portal::try_new(&message, statement)?));
            }
            Some(Entry::Empty) if message.parameters.is_empty() => {
                portals.put_empty_portal(message.portal_name.as_deref().unwrap_or(DEFAULT_NAME));
            }
            Some(Entry::Empty) => {
                return Err(wrong_count("parameters", message.parameters.len(), 0));
            }
            None => return Err(PgWireError::StatementNotFound(name.to_owned())),
        }
        Ok(())
    }

    /// Whether the numbers of a message fit the statement. The protocol's library takes that for granted.
    fn check_bind(
        &self,
        message: &Bind,
        statement: &Prepared,
        parameters: usize,
    ) -> PgWireResult<()> {
        let given = message.parameters.len();
        if given != parameters {
            return Err(wrong_count("parameters", given, parameters));
        }
        let formats = message.parameter_format_codes.len();
        if formats > 1 && formats != given {
            return Err(wrong_count("formats of parameters", formats, given));
        }
        let formats = message.result_column_format_codes.len();
        if formats > 1 {
            let columns = self.query_parser().get_result_schema(statement, None)?.len();
            if formats != columns {
                return Err(wrong_count("formats of columns", formats, columns));
            }
        }
        Ok(())
    }
}

/// Doubles the quotes of texts that are bound as text. The protocol's library takes two of them for one, as if the text
/// were a literal.
fn keep_quotes(message: &mut Bind, types: &[Type]) {
    let formats = &message.parameter_format_codes;
    let is_text = |at: usize| {
        let format = if formats.len() == 1 { formats.first() } else { formats.get(at) };
        format.copied().unwrap_or(0) == 0
    };
    let texts = [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::NAME, Type::UNKNOWN];
    for (at, parameter) in message.parameters.iter_mut().enumerate() {
        let is_string = types.get(at).is_some_and(|given| texts.contains(given));
        if let Some(bytes) = parameter
            && is_text(at)
            && is_string
            && bytes.contains(&b'\'')
        {
            let double = |byte: &u8| if *byte == b'\'' { vec![*byte; 2] } else { vec![*byte] };
            *parameter = Some(bytes.iter().flat_map(double).collect::<Vec<u8>>().into());
        }
    }
}

fn is_query(portal: &Portal<Prepared>) -> bool {
    let statement = portal.statement.statement.1.as_ref();
    statement.is_some_and(|(statement, _)| matches!(gate::judge(statement), Ok(Verdict::Query)))
}

fn wrong_count(what: &str, given: usize, wanted: usize) -> PgWireError {
    let message = format!("the message has {given} {what}; the statement has {wanted}");
    wire::error(state::PROTOCOL, message)
}

/// Prepares statements in the workspace of whoever has logged in.
struct Parser {
    session: Arc<Session>,
}

#[async_trait]
impl QueryParser for Parser {
    type Statement = Prepared;

    async fn parse_sql<C>(
        &self,
        client: &C,
        sql: &str,
        types: &[Option<Type>],
    ) -> PgWireResult<Option<Prepared>>
    where
        C: ClientInfo + Unpin + Send + Sync,
    {
        complexity::check(sql)?;
        parse(self.session.workspace()?, client, &rewrite_for_parser(sql)?, types).await
    }

    fn get_parameter_types(&self, statement: &Prepared) -> PgWireResult<Vec<Type>> {
        self.session.workspace()?.protocol().query_parser().get_parameter_types(statement)
    }

    fn get_result_schema(
        &self,
        statement: &Prepared,
        format: Option<&Format>,
    ) -> PgWireResult<Vec<FieldInfo>> {
        self.session.workspace()?.protocol().query_parser().get_result_schema(statement, format)
    }
}

fn parse<'a, C>(
    workspace: &Workspace,
    client: &'a C,
    sql: &'a str,
    types: &'a [Option<Type>],
) -> BoxFuture<'a, PgWireResult<Option<Prepared>>>
where
    C: ClientInfo + Unpin + Send + Sync,
{
    let parser = workspace.protocol().query_parser();
    Box::pin(async move { parser.parse_sql(client, sql, types).await })
}

impl ErrorHandler for Statements {
    fn on_error<C: ClientInfo>(&self, _client: &C, error: &mut PgWireError) {
        let failure = std::mem::replace(error, PgWireError::QueryCanceled);
        *error = match (wire::for_client(failure), self.session.workspace()) {
            (failure, Ok(_)) => failure,
            // The library would serve whoever goes on after a failed login.
            (failure, Err(_)) => {
                let mut info = pgwire::error::ErrorInfo::from(failure);
                info.severity = "FATAL".to_owned();
                PgWireError::UserError(Box::new(info))
            }
        };
        info!("user {:?}: error {}", self.session.user(), wire::code_of(error));
    }
}

#[async_trait]
impl CancelHandler for Statements {
    async fn on_cancel_request(&self, request: CancelRequest) {
        self.session.service().cancel_keys.cancel(request.pid, &request.secret_key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_bound_keep_their_quotes() {
        let given = [Some("a''b".into()), Some("'".into()), None, Some("{a'b}".into())].to_vec();
        let types = [Type::TEXT, Type::UNKNOWN, Type::TEXT, Type::TEXT_ARRAY];
        let bound = |formats: Vec<i16>| {
            let mut message = Bind::new(None, None, formats, given.clone(), Vec::new());
            keep_quotes(&mut message, &types);
            message.parameters
        };
        let mut doubled = given.clone();
        doubled[0] = Some("a''''b".into());
        doubled[1] = Some("''".into());
        assert_eq!(bound(Vec::new()), doubled);
        assert_eq!(bound(vec![0]), doubled);
        assert_eq!(bound(vec![1]), given);
        assert_eq!(bound(vec![1, 0, 0, 0])[..2], [given[0].clone(), doubled[1].clone()]);
    }
}
