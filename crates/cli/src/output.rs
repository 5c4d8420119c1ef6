//! Results on standard output.
//!
//! The shell's own loop gathers every result before it prints. Here the statement is executed while
//! that loop asks for its plan, which leaves it nothing to print: CSV and JSON then stream in constant
//! memory, progress can leave the terminal before rows appear, and the running plan is at hand.

use std::io::{IsTerminal, Stdout, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::json;
use datafusion::common::instant::Instant;
use datafusion::common::plan_err;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::object_store::ObjectStore;
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::{Family, TwoFiles, write_two_tables};
use datafusion_cli::cli_context::CliSessionContext;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};
use futures::StreamExt;
use futures::future::BoxFuture;
use url::Url;

use crate::progress::Progress;
use crate::session::Session;

/// A session that prints what a statement returns, and returns nothing.
pub struct Printing<'a> {
    session: &'a Session,
    progress: Mutex<Progress>,
    /// Settings and descriptions are shown in full.
    is_show: bool,
    /// Where the statement's two tables go instead of to standard output.
    files: Option<&'a TwoFiles>,
    published: AtomicBool,
}

impl<'a> Printing<'a> {
    /// Prepares for one statement.
    pub fn new(
        session: &'a Session,
        progress: Progress,
        sql: &str,
        files: Option<&'a TwoFiles>,
    ) -> Self {
        let is_show = sql.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("show"));
        let published = AtomicBool::new(false);
        Self { session, progress: Mutex::new(progress), is_show, files, published }
    }

    /// An error if two tables were to be written and the statement was no query.
    pub fn check_published(&self) -> Result<()> {
        if self.files.is_some() && !self.published.load(Ordering::Relaxed) {
            return plan_err!(
                "publish: the last statement must be SELECT * FROM anonymize(…, method => {}, publish => \
                 'sensitive', …)",
                Family::TwoTables.method_names()
            );
        }
        Ok(())
    }

    async fn publish(&self, frame: DataFrame, files: &TwoFiles) -> Result<()> {
        let [quasi_identifiers, sensitive] = write_two_tables(self.context(), frame, files).await?;
        self.published.store(true, Ordering::Relaxed);
        self.with_progress(Progress::hide);
        if !self.session.print.quiet {
            println!("{quasi_identifiers} rows in {}", files.quasi_identifiers);
            println!("{sensitive} rows in {}", files.sensitive);
        }
        Ok(())
    }

    fn context(&self) -> &SessionContext {
        &self.session.context
    }

    fn with_progress(&self, act: impl FnOnce(&mut Progress)) {
        act(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
    }

    async fn print(&self, frame: DataFrame, shows_all: bool) -> Result<()> {
        if let Some(files) = self.files {
            return self.publish(frame, files).await;
        }
        let plan = frame.create_physical_plan().await?;
        self.with_progress(|progress| progress.watch(Arc::clone(&plan)));
        let stream = execute_stream(plan, self.context().task_ctx())?;
        match self.session.print.format {
            PrintFormat::Table | PrintFormat::Automatic => {
                self.print_table(stream, shows_all).await
            }
            format => self.print_rows(stream, format).await,
        }
    }

    fn execute(&self, plan: LogicalPlan) -> BoxFuture<'_, Result<DataFrame>> {
        Box::pin(async move {
            let shows_all = self.is_show
                || matches!(
                    plan,
                    LogicalPlan::Explain(_)
                        | LogicalPlan::Analyze(_)
                        | LogicalPlan::DescribeTable(_)
                );
            let frame = self.context().execute_logical_plan(plan).await?;
            // SET, CREATE and the like are done by now and return nothing.
            if frame.schema().fields().is_empty() {
                return Ok(frame);
            }
            self.print(frame, shows_all).await?;
            let nothing = LogicalPlanBuilder::empty(false).build()?;
            Ok(DataFrame::new(self.context().state(), nothing))
        })
    }

    /// Counts all rows, keeps those that will be shown.
    async fn print_table(
        &self,
        mut stream: SendableRecordBatchStream,
        shows_all: bool,
    ) -> Result<()> {
        let started = Instant::now();
        let maxrows = if shows_all { MaxRows::Unlimited } else { self.session.print.maxrows };
        // One more than is shown tells the printer that there are more.
        let wanted = match maxrows {
            MaxRows::Unlimited => usize::MAX,
            MaxRows::Limited(rows) => rows.saturating_add(1),
        };
        let task = self.context().task_ctx();
        let memory = MemoryConsumer::new("printed table").register(task.memory_pool());
        let mut batches = Vec::new();
        let mut rows = 0_usize;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            if rows < wanted {
                memory.try_grow(get_record_batch_memory_size(&batch))?;
                batches.push(batch.slice(0, batch.num_rows().min(wanted - rows)));
            }
            rows += batch.num_rows();
        }
        self.with_progress(Progress::hide);
        let quiet = self.session.print.quiet;
        let print = PrintOptions { maxrows, quiet: true, ..self.session.print.clone() };
        let options = task.session_config().options();
        print.print_batches(stream.schema(), &batches, started, rows, &options.format)?;
        if let MaxRows::Limited(shown) = maxrows
            && shown < rows
            && !quiet
        {
            eprintln!("anonymize: {shown} of {rows} rows shown, --maxrows shows more");
        }
        Ok(())
    }

    async fn print_rows(
        &self,
        mut stream: SendableRecordBatchStream,
        format: PrintFormat,
    ) -> Result<()> {
        let mut writer = RowWriter::new(format);
        let mut begun = false;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            if !begun && stdout().is_terminal() && stderr().is_terminal() {
                self.with_progress(Progress::hide);
            }
            begun = true;
            writer.write(&batch)?;
        }
        if !begun {
            writer.write(&RecordBatch::new_empty(stream.schema()))?;
        }
        writer.finish()
    }
}

impl CliSessionContext for Printing<'_> {
    fn task_ctx(&self) -> Arc<TaskContext> {
        self.context().task_ctx()
    }

    fn session_state(&self) -> SessionState {
        self.context().state()
    }

    fn register_object_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.context().register_object_store(url, store)
    }

    fn register_table_options_extension_from_scheme(&self, scheme: &str) {
        CliSessionContext::register_table_options_extension_from_scheme(self.context(), scheme);
    }

    // As `async_trait` would write it, except that a function without bounds on lifetimes boxes the future: with such bounds
    // the compiler takes seconds to prove that everything in a plan can be sent to another thread.
    fn execute_logical_plan<'s: 'f, 'f>(
        &'s self,
        plan: LogicalPlan,
    ) -> BoxFuture<'f, Result<DataFrame>> {
        self.execute(plan)
    }
}

/// Rows as text, batch after batch.
enum RowWriter {
    Separated(Box<csv::Writer<Stdout>>),
    Lines(json::LineDelimitedWriter<Stdout>),
    Array(json::ArrayWriter<Stdout>),
}

impl RowWriter {
    fn new(format: PrintFormat) -> Self {
        let separated = |delimiter| {
            Box::new(csv::WriterBuilder::new().with_delimiter(delimiter).build(stdout()))
        };
        match format {
            PrintFormat::Json => Self::Array(json::ArrayWriter::new(stdout())),
            PrintFormat::NdJson => Self::Lines(json::LineDelimitedWriter::new(stdout())),
            PrintFormat::Tsv => Self::Separated(separated(b'\t')),
            PrintFormat::Csv | PrintFormat::Table | PrintFormat::Automatic => {
                Self::Separated(separated(b','))
            }
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Separated(writer) => writer.write(batch)?,
            Self::Lines(writer) => writer.write(batch)?,
            Self::Array(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let mut stdout = match self {
            Self::Separated(_) | Self::Lines(_) => stdout(),
            Self::Array(mut writer) => {
                writer.finish()?;
                let mut stdout = writer.into_inner();
                writeln!(stdout)?;
                stdout
            }
        };
        stdout.flush()?;
        Ok(())
    }
}
