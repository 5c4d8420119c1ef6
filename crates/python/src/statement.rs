//! Statements of SQL. The loop of DataFusion's shell runs them, so that object stores and their credentials are found
//! as the program finds them; what a query returns goes to Python instead of to standard output.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::object_store::ObjectStore;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::redact_values;
use datafusion_cli::cli_context::CliSessionContext;
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};
use futures::future::BoxFuture;
use url::Url;

/// What a text of SQL leaves to do.
pub enum Outcome {
    /// Everything is done.
    Done,
    /// A query, whose rows nobody has asked for yet.
    Query(DataFrame),
    /// Files or tables to be written, which does not wait for somebody to ask.
    Write(DataFrame),
}

/// Runs the statements of a text. The last one may be a query.
pub async fn run(context: &SessionContext, sql: &str) -> Result<Outcome> {
    let kept = Kept { context, frame: Mutex::new(None) };
    let print = PrintOptions {
        format: PrintFormat::Json,
        quiet: true,
        maxrows: MaxRows::Limited(0),
        color: false,
        instrumented_registry: Arc::new(InstrumentedObjectStoreRegistry::new()),
    };
    exec_from_commands(&kept, vec![sql.to_owned()], &print).await?;
    Ok(match kept.take() {
        None => Outcome::Done,
        Some(frame) if writes(frame.logical_plan()) => Outcome::Write(frame),
        Some(frame) => Outcome::Query(frame),
    })
}

fn writes(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Copy(_) | LogicalPlan::Dml(_))
}

/// A session that keeps the last query instead of printing what it returns.
struct Kept<'a> {
    context: &'a SessionContext,
    frame: Mutex<Option<DataFrame>>,
}

impl CliSessionContext for Kept<'_> {
    fn task_ctx(&self) -> Arc<TaskContext> {
        self.context.task_ctx()
    }

    fn session_state(&self) -> SessionState {
        self.context.state()
    }

    fn register_object_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.context.register_object_store(url, store)
    }

    fn register_table_options_extension_from_scheme(&self, scheme: &str) {
        CliSessionContext::register_table_options_extension_from_scheme(self.context, scheme);
    }

    // As `async_trait` would write it, except that a function without bounds on lifetimes boxes the future.
    fn execute_logical_plan<'s: 'f, 'f>(
        &'s self,
        plan: LogicalPlan,
    ) -> BoxFuture<'f, Result<DataFrame>> {
        self.execute(plan)
    }
}

impl Kept<'_> {
    fn take(&self) -> Option<DataFrame> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn execute(&self, plan: LogicalPlan) -> BoxFuture<'_, Result<DataFrame>> {
        Box::pin(async move {
            // A statement before the last one: what it writes is written, what it would return nobody reads.
            if let Some(before) = self.take().filter(|before| writes(before.logical_plan())) {
                before.collect().await.map_err(redact_values)?;
            }
            let frame = self.context.execute_logical_plan(plan).await?;
            // SET, CREATE and the like are done by now and return nothing.
            if frame.schema().fields().is_empty() {
                return Ok(frame);
            }
            *self.frame.lock().unwrap_or_else(PoisonError::into_inner) = Some(frame);
            let nothing = LogicalPlanBuilder::empty(false).build()?;
            Ok(DataFrame::new(self.context.state(), nothing))
        })
    }
}
