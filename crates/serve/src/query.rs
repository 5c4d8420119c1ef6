//! One statement of a client, under the limits of its connection.
//!
//! ```text
//! statement ─► gate ─► plan ─► gate again ─► releases leased ─► engine, with the connection's memory
//!     ─► rows, until the last one, the deadline, a cancel request or the end of the connection
//! ```

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::common::{DFSchema, ParamValues};
use datafusion::dataframe::DataFrame;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as EngineStatement;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion_postgres::arrow_pg::datatypes::df::encode_dataframe;
use datafusion_postgres::hooks::HookClient;
use datafusion_postgres::pgwire::api::ClientInfo;
use datafusion_postgres::pgwire::api::portal::Format;
use datafusion_postgres::pgwire::api::results::{QueryResponse, Response, SendableRowStream, Tag};
use datafusion_postgres::pgwire::api::store::PortalStore;
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::data::DataRow;
use datafusion_postgres::pgwire::messages::response::TransactionStatus;
use datafusion_postgres::pgwire::types::format::FormatOptions;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use log::debug;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;

use crate::catalog;
use crate::complexity::{expansion, predicates};
use crate::compute::Work;
use crate::gate::{self, Verdict};
use crate::growth::bounded::BoundFunctions;
use crate::growth::wide::RefuseWideRows;
use crate::interrupt::Stop;
use crate::release::{Release, lease};
use crate::session::{Allowance, Reclaimable, Session, Watch};
use crate::types;
use crate::wire::{self, state};

/// Rows that travel together from the engine to the connection.
const CHUNK: usize = 256;

/// Bytes after which fewer rows travel.
const CHUNK_BYTES: usize = 1 << 20;

/// How many such bundles may wait for a slow client.
const AHEAD: usize = 2;

/// Where the protocol's handlers keep the timeout that a client asked for.
const CLIENT_TIMEOUT: &str = "statement_timeout_ms";

/// Decides about every statement: none reaches the engine in another way.
pub struct QueryHook;

// Written as `async_trait` would, except that the futures are boxed by functions without bounds on lifetimes. With such
// bounds the compiler shares no proof between functions, and to prove that everything in a statement or a plan can be
// sent to another thread takes it seconds.
impl datafusion_postgres::QueryHook for QueryHook {
    fn handle_simple_query<'s: 'f, 'q: 'f, 'c: 'f, 'l: 'f, 'f>(
        &'s self,
        statement: &'q Statement,
        context: &'c SessionContext,
        client: &'l mut dyn HookClient,
    ) -> BoxFuture<'f, Option<PgWireResult<Response>>> {
        respond(Query { statement, params: None, format: Format::UnifiedText }, context, client)
    }

    fn handle_extended_parse_query<'s: 'f, 'q: 'f, 'c: 'f, 'l: 'f, 'f>(
        &'s self,
        statement: &'q Statement,
        context: &'c SessionContext,
        client: &'l (dyn ClientInfo + Send + Sync),
    ) -> BoxFuture<'f, Option<PgWireResult<LogicalPlan>>> {
        prepare_statement(statement, context, client)
    }

    fn handle_extended_query<'s: 'f, 'q: 'f, 'p: 'f, 'v: 'f, 'c: 'f, 'l: 'f, 'f>(
        &'s self,
        statement: &'q Statement,
        prepared: &'p LogicalPlan,
        params: &'v ParamValues,
        context: &'c SessionContext,
        client: &'l mut dyn HookClient,
    ) -> BoxFuture<'f, Option<PgWireResult<Response>>> {
        let format = match session(client) {
            Ok(session) => session.result_format(),
            Err(error) => return Box::pin(ready(Some(Err(error)))),
        };
        respond(Query { statement, params: Some((prepared, params)), format }, context, client)
    }
}

fn respond<'a>(
    query: Query<'a>,
    context: &'a SessionContext,
    client: &'a mut (dyn HookClient + 'a),
) -> BoxFuture<'a, Option<PgWireResult<Response>>> {
    Box::pin(async move { answer(&query, context, client).await.transpose() })
}

fn prepare_statement<'a>(
    statement: &'a Statement,
    context: &'a SessionContext,
    client: &'a (dyn ClientInfo + Send + Sync + 'a),
) -> BoxFuture<'a, Option<PgWireResult<LogicalPlan>>> {
    let nothing_to_plan = || {
        let schema = Arc::new(DFSchema::empty());
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema })
    };
    Box::pin(async move {
        match gate::judge(statement) {
            Err(error) => Some(Err(error)),
            Ok(Verdict::Query) => Some(plan_in_time(statement, context, client).await),
            Ok(Verdict::Connection) => None,
            Ok(_) => Some(Ok(nothing_to_plan())),
        }
    })
}

/// A statement with what it was prepared and bound to.
struct Query<'a> {
    statement: &'a Statement,
    params: Option<(&'a LogicalPlan, &'a ParamValues)>,
    format: Format,
}

/// The connection's own state; without it nobody has logged in.
fn session(client: &(impl ClientInfo + ?Sized)) -> PgWireResult<Arc<Session>> {
    let session = client.session_extensions().get::<Arc<Session>>();
    let session = session.map(|session| Arc::clone(session.as_ref()));
    session.ok_or_else(|| wire::fatal(state::NO_AUTHORIZATION, "log in first"))
}

/// The answer, or nothing if the protocol's other handlers have it.
async fn answer(
    query: &Query<'_>,
    context: &SessionContext,
    client: &mut dyn HookClient,
) -> PgWireResult<Option<Response>> {
    let verdict = gate::judge(query.statement)?;
    let session = session(client)?;
    if verdict != Verdict::Connection && client.transaction_status() == TransactionStatus::Error {
        return Err(wire::error(
            state::FAILED_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        ));
    }
    Ok(match verdict {
        Verdict::Connection => None,
        Verdict::Acknowledge(tag) => Some(Response::Execution(Tag::new(tag))),
        Verdict::Forget(name) => {
            // ALL only frees memory, which the end of the connection does as well.
            client.portal_store().rm_statement(&name.value);
            Some(Response::Execution(Tag::new("DEALLOCATE")))
        }
        Verdict::Refresh(view) => {
            session.refresh(&view, asked_timeout(client)).await?;
            Some(Response::Execution(Tag::new("REFRESH MATERIALIZED VIEW")))
        }
        Verdict::Query => {
            let watch = session.watch(asked_timeout(client));
            let options = Arc::new(FormatOptions::from_client_metadata(client.metadata()));
            Some(Response::Query(supervise(query, context, &session, watch, options).await?))
        }
    })
}

/// The timeout that a client asked for, in milliseconds.
fn asked_timeout(client: &(impl ClientInfo + ?Sized)) -> Option<u64> {
    client.metadata().get(CLIENT_TIMEOUT).and_then(|text| text.parse().ok())
}

/// Plans a statement that is to be prepared, under the same limits as one that runs.
async fn plan_in_time(
    statement: &Statement,
    context: &SessionContext,
    client: &(dyn ClientInfo + Send + Sync),
) -> PgWireResult<LogicalPlan> {
    let session = session(client)?;
    let watch = session.watch(asked_timeout(client));
    tokio::select! {
        biased;
        interrupted = watch => Err(interrupted),
        plan = plan(statement, context, &session.service().engine) => plan,
    }
}

/// Plans the statement as it was parsed: its text is never parsed a second time, by other rules. Planning
/// is work for the engine's threads: those of the connections stay free for deadlines and cancel requests.
async fn plan(
    statement: &Statement,
    context: &SessionContext,
    engine: &Handle,
) -> PgWireResult<LogicalPlan> {
    expansion::check(statement)?;
    let asked = statement;
    let statement = EngineStatement::Statement(Box::new(statement.clone()));
    let state = context.state();
    let work = async move {
        let plan = state.statement_to_plan(statement).await;
        let plan = plan.map_err(|error| wire::engine_error(&error))?;
        predicates::check(&plan)?;
        gate::check_plan(&plan).map_err(|error| wire::engine_error(&error))?;
        types::presentable(plan).map_err(|error| wire::engine_error(&error))
    };
    let planned = Work::start(engine, work).done().await;
    let planned = planned.map_err(|error| wire::error(state::INTERNAL, error.to_string()))?;
    planned.map_err(|error| catalog::explain_failure(error, asked))
}

/// Starts a query and watches over it until its last row.
async fn supervise(
    query: &Query<'_>,
    context: &SessionContext,
    session: &Arc<Session>,
    mut watch: Watch,
    options: Arc<FormatOptions>,
) -> PgWireResult<QueryResponse> {
    let stop = Stop::default();
    let begin = async {
        let allowance = session.allowance().await?;
        debug!("user {:?}: a query runs", session.user());
        let engine = &session.service().engine;
        let (frame, leased) = prepare(query, context, engine, &allowance, &stop).await?;
        let format = query.format.clone();
        // A thread that still plans keeps its turn, also if nobody waits for it any more.
        let held = Arc::clone(&allowance);
        let encode = async move {
            let encoded = encode_dataframe(frame, &format, Some(options)).await;
            drop(held);
            encoded
        };
        let response = Work::start(engine, encode).done().await;
        let response =
            response.map_err(|error| wire::error(state::INTERNAL, error.to_string()))??;
        Ok((response, allowance, leased))
    };
    let (mut response, allowance, leased) = tokio::select! {
        biased;
        interrupted = &mut watch => return Err(interrupted),
        begun = begin => begun.map_err(|error| {
            catalog::explain_failure(wire::for_client(error), query.statement)
        })?,
    };
    let rows = std::mem::replace(&mut response.data_rows, futures::stream::empty().boxed());
    let rows = produce(&session.service().engine, rows, allowance, leased);
    let running = Arc::new(Mutex::new(Some(Running { rows, watch, _stop: stop })));
    let reclaimable: Arc<dyn Reclaimable> = running.clone();
    session.remember(&reclaimable);
    response.data_rows = Supervised { running, ready: Vec::new().into_iter(), over: false }.boxed();
    Ok(response)
}

/// Lets a task compute the rows: the connection stays awake for a cancel request however long the engine
/// takes between two of them. The task keeps what it uses until it is done, or noticed that it is not
/// wanted any more.
fn produce(
    engine: &Handle,
    rows: SendableRowStream,
    allowance: Arc<Allowance>,
    leased: Vec<Arc<Release>>,
) -> Chunks {
    let (send, receive) = tokio::sync::mpsc::channel(AHEAD);
    let work = Work::start(engine, async move {
        let mut rows = rows;
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next().await {
            bytes += row.as_ref().map_or(0, |row| row.data.len());
            chunk.push(row);
            if chunk.len() < CHUNK && bytes < CHUNK_BYTES {
                continue;
            }
            bytes = 0;
            if send.send(Some(std::mem::take(&mut chunk))).await.is_err() {
                break;
            }
        }
        // Whoever does not listen any more does not miss the rest.
        let _ = send.send(Some(chunk)).await;
        let _ = send.send(None).await;
        drop((allowance, leased));
    });
    Chunks { receive, _work: work }
}

/// The query in a state of its own, with the memory of its connection and its parameters in place.
async fn prepare(
    query: &Query<'_>,
    context: &SessionContext,
    engine: &Handle,
    allowance: &Allowance,
    stop: &Stop,
) -> PgWireResult<(DataFrame, Vec<Arc<Release>>)> {
    // A prepared statement is planned again, so that it reads the current release.
    let mut plan = plan(query.statement, context, engine).await?;
    let failed = |error| wire::engine_error(&error);
    if let Some((prepared, params)) = query.params {
        if plan.schema().as_arrow().fields() != prepared.schema().as_arrow().fields() {
            return Err(wire::error(
                state::NOT_SUPPORTED,
                "cached plan must not change result type: prepare the statement again",
            ));
        }
        plan = plan.replace_params_with_values(params).map_err(failed)?;
    }
    let leased = lease(&plan).map_err(failed)?;
    let functions = BoundFunctions { budget: allowance.budget.clone() };
    let narrow = RefuseWideRows { budget: allowance.budget.clone() };
    let state = context.state();
    let rules = stop.check_between(state.optimizers());
    let state = SessionStateBuilder::new_from_existing(state)
        .with_optimizer_rules(rules)
        .with_runtime_env(Arc::clone(&allowance.runtime))
        .with_analyzer_rule(Arc::new(functions))
        .with_physical_optimizer_rule(Arc::new(narrow))
        .with_physical_optimizer_rule(stop.rule())
        .build();
    Ok((DataFrame::new(state, plan), leased))
}

/// Rows of a query by the hundred, from the task that computes them. Dropped, it stops the task.
struct Chunks {
    /// `None` after the last row: a task that panics ends the channel without it.
    receive: Receiver<Option<Vec<PgWireResult<DataRow>>>>,
    _work: Work<()>,
}

/// A query and who watches over it.
struct Running {
    rows: Chunks,
    watch: Watch,
    _stop: Stop,
}

impl Reclaimable for Mutex<Option<Running>> {
    fn reclaim(&self) {
        *self.lock() = None;
    }
}

/// The rows one by one. Lets go of everything with the last row or the first error.
struct Supervised {
    running: Arc<Mutex<Option<Running>>>,
    ready: std::vec::IntoIter<PgWireResult<DataRow>>,
    over: bool,
}

impl Stream for Supervised {
    type Item = PgWireResult<DataRow>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.as_mut().get_mut();
        if this.over {
            return Poll::Ready(None);
        }
        let mut held = this.running.lock();
        let row = loop {
            let Some(running) = held.as_mut() else { break Some(Err(reclaimed())) };
            if let Some(row) = this.ready.next() {
                break Some(row.map_err(wire::for_client));
            }
            if let Poll::Ready(interrupted) = Pin::new(&mut running.watch).poll(cx) {
                break Some(Err(interrupted));
            }
            match running.rows.receive.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Some(chunk))) => this.ready = chunk.into_iter(),
                Poll::Ready(Some(None)) => break None,
                Poll::Ready(None) => break Some(Err(incomplete())),
            }
        };
        if !matches!(row, Some(Ok(_))) {
            *held = None;
            this.over = true;
        }
        Poll::Ready(row)
    }
}

/// Why a query gave its turn to somebody else.
fn reclaimed() -> PgWireError {
    wire::error(
        state::CANCELLED,
        "the query was ended: it rested between two portions of its rows while others waited",
    )
}

/// The error of a query whose rows are not complete.
fn incomplete() -> PgWireError {
    wire::error(
        state::INTERNAL,
        "the engine failed in the middle of the query: its rows are not complete",
    )
}

/// Why a query ended before its last row.
pub fn interrupted(by_client: bool) -> PgWireError {
    let reason = if by_client { "user request" } else { "statement timeout" };
    wire::error(state::CANCELLED, format!("canceling statement due to {reason}"))
}
