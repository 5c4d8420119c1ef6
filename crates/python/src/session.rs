//! A session: DataFusion with the functions, its limits, and tables of Python among its own.

use std::path::PathBuf;
use std::sync::Arc;

use anonymize_release::report::Source;
use anonymize_release::{Job, RunOptions};
use datafusion::catalog::{CatalogProvider, MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::config::ConfigOptions;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion_anonymize::{AnonymizeConfig, ignore_file_statistics, register_all, use_seed};
use datafusion_cli::catalog::DynamicObjectStoreCatalog;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::call::{self, Tables};
use crate::failure::Failure;
use crate::job::{Summary, page, run_job};
use crate::progress::Inputs;
use crate::rows::{Rows, rows_of};
use crate::runtime::{Nobody, wait};
use crate::statement::{self, Outcome};

/// Where tables are that a call was given.
const SCHEMA: &str = "python";

/// A session of DataFusion with `anonymize` and its reports.
#[pyclass(frozen, module = "datafusion_anonymize._native")]
pub struct Session {
    context: SessionContext,
    catalog: String,
    /// Tables that calls name while they are planned.
    passing: Arc<MemorySchemaProvider>,
}

/// The limits of a session, as `connect` has checked them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Limits {
    memory_limit: Option<usize>,
    disk_limit: Option<u64>,
    temp_dir: Option<PathBuf>,
    target_partitions: Option<usize>,
    batch_size: Option<usize>,
}

impl Limits {
    fn config(&self) -> Result<SessionConfig, Failure> {
        let mut config = ConfigOptions::from_env()?;
        if let Some(partitions) = self.target_partitions {
            config.execution.target_partitions = partitions;
        }
        if let Some(rows) = self.batch_size {
            config.execution.batch_size = ConfigNonZeroUsize::try_new(rows)?;
        }
        Ok(SessionConfig::from(config).with_information_schema(true))
    }

    fn runtime(self) -> Result<Arc<RuntimeEnv>, Failure> {
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(bytes) = self.memory_limit {
            runtime = runtime.with_memory_limit(bytes, 1.0);
        }
        if let Some(directory) = self.temp_dir {
            runtime = runtime.with_temp_file_path(directory);
        }
        if let Some(bytes) = self.disk_limit {
            runtime = runtime.with_max_temp_directory_size(bytes);
        }
        Ok(runtime.build_arc()?)
    }
}

/// What a page is about.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct About {
    /// The job file; of a job that is a text the directory in which relative paths start.
    path: PathBuf,
    text: Option<String>,
    published: Option<String>,
    threshold: Option<u64>,
    title: Option<String>,
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (limits, seed=None))]
    fn new(limits: Limits, seed: Option<&str>) -> Result<Self, Failure> {
        let config = limits.config()?;
        let context = SessionContext::new_with_config_rt(config, limits.runtime()?);
        Self::of(context.enable_url_table(), seed)
    }

    /// Runs statements; the rows of the last one if it is a query, else nothing.
    fn sql(
        &self,
        py: Python<'_>,
        query: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Option<Rows>> {
        Ok(match self.run(py, query)? {
            Outcome::Done => None,
            Outcome::Query(frame) => {
                Some(Rows::planned(&self.context, frame, Inputs::default(), progress))
            }
            Outcome::Write(frame) => {
                let rows = Rows::planned(&self.context, frame, Inputs::default(), progress);
                rows.collect(py)?;
                Some(rows)
            }
        })
    }

    /// The rows of a function: all work is done and verified, and the first rows are there.
    fn call(
        &self,
        function: &str,
        inputs: &Bound<'_, PyTuple>,
        options: &Bound<'_, PyDict>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Rows> {
        let mut tables = Tables::new(self);
        let frame = call::plan(&mut tables, function, inputs, options)?;
        let rows =
            Rows::planned(&self.context, frame, std::mem::take(&mut tables.inputs), progress);
        rows.begin(inputs.py())?;
        Ok(rows)
    }

    /// Gives a table a name; a table of that name is replaced.
    fn register(&self, py: Python<'_>, name: &str, table: &Bound<'_, PyAny>) -> PyResult<()> {
        let table = match rows_of(table)? {
            Some(rows) => rows.get().as_table(py, self, self.partitions())?,
            None => crate::input::in_memory(table, self.partitions())?,
        };
        self.replace(name, table)
    }

    /// Gives the files at a path or URL a name, as far as they are there.
    fn register_files(&self, py: Python<'_>, name: &str, path: &str) -> PyResult<()> {
        let sql = format!("SELECT * FROM '{}'", path.replace('\'', "''"));
        match self.run(py, &sql)? {
            Outcome::Query(frame) => self.replace(name, frame.into_view()),
            Outcome::Done | Outcome::Write(_) => Ok(()),
        }
    }

    /// Takes a table's name away. Whether there was one.
    fn deregister(&self, name: &str) -> PyResult<bool> {
        let gone = self.context.deregister_table(name).map_err(Failure::from)?;
        Ok(gone.is_some())
    }

    /// `COPY rows TO path`: files appear when the last row is written, or not at all. How many rows were written.
    // Python hands over what it converts, in the arguments of the method there.
    #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
    fn write(
        &self,
        py: Python<'_>,
        rows: &Rows,
        path: &str,
        format: &str,
        partition_by: Vec<String>,
    ) -> PyResult<u64> {
        let mut tables = Tables::new(self);
        let source = tables.register(rows.as_stream(py, self)?)?;
        let partitioned = partitioned_by(&partition_by)?;
        let path = path.replace('\'', "''");
        let sql =
            format!("COPY (SELECT * FROM {source}) TO '{path}' STORED AS {format}{partitioned}");
        let written = self.sql(py, &sql, None)?;
        Ok(written.map_or(Ok(0), |written| written.first_number(py))?)
    }

    /// Runs a job file: the manifest as JSON, and what somebody should look at.
    // Python hands over what it converts, in the arguments of the method there.
    #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
    fn run_job(
        &self,
        py: Python<'_>,
        path: PathBuf,
        dry_run: bool,
        new_series: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Summary> {
        let options = RunOptions { dry_run, new_series, ..RunOptions::default() };
        Ok(run_job(py, &self.context, &path, &options, progress)?)
    }

    /// The page about the release of a job file, or of a job that is given as a text.
    fn report(&self, py: Python<'_>, about: About) -> PyResult<String> {
        let job = match &about.text {
            Some(text) => Job::from_toml(text, &about.path),
            None => Job::read(&about.path),
        };
        let About { published, threshold, title, .. } = about;
        let source = Source { job: job.map_err(Failure::from)?, published, threshold, title };
        Ok(page(py, &self.context, &source)?)
    }
}

impl Session {
    fn of(context: SessionContext, seed: Option<&str>) -> Result<Self, Failure> {
        // Resolves a quoted location as a table, and its object store along the way.
        context.register_catalog_list(Arc::new(DynamicObjectStoreCatalog::new(
            Arc::clone(context.state().catalog_list()),
            context.state_weak_ref(),
        )));
        // Last, because it may replace parts of the context's state.
        register_all(&context)?;
        anonymize_sample::register(&context)?;
        ignore_file_statistics(&context);
        if let Some(seed) = seed {
            use_seed(&context, seed)?;
        }
        let catalog = context.state().config_options().catalog.default_catalog.clone();
        let passing = Arc::new(MemorySchemaProvider::new());
        let schema = Arc::clone(&passing) as Arc<dyn SchemaProvider>;
        let into = context.catalog(&catalog);
        let into = into.ok_or_else(|| Failure::query("the session has no catalog"))?;
        CatalogProvider::register_schema(into.as_ref(), SCHEMA, schema)?;
        Ok(Self { context, catalog, passing })
    }

    /// Where statements run.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Tasks that a query is divided into.
    pub fn partitions(&self) -> usize {
        self.context.state().config_options().execution.target_partitions
    }

    /// Whether a table is read several times.
    pub fn works_in_cells(&self) -> bool {
        AnonymizeConfig::of(self.context.state().config_options()).cells > 1
    }

    /// Whether there is a table of this name.
    pub fn has_table(&self, name: &str) -> Result<bool, Failure> {
        // A name that cannot be one, such as a path with a colon, is none.
        Ok(self.context.table_exist(TableReference::parse_str(name)).unwrap_or(false))
    }

    /// A table for one call.
    pub fn add(
        &self,
        name: &str,
        table: Arc<dyn TableProvider>,
    ) -> Result<TableReference, Failure> {
        self.passing.register_table(name.to_owned(), table)?;
        Ok(TableReference::full(self.catalog.as_str(), SCHEMA, name))
    }

    /// The end of a table for one call.
    pub fn remove(&self, name: &str) {
        // It was there, and if not there is nothing to do.
        let _ = self.passing.deregister_table(name);
    }

    /// Plans a statement that was not written as a text.
    pub fn plan(&self, py: Python<'_>, statement: Statement) -> Result<DataFrame, Failure> {
        let plan = || async move {
            let plan = self.context.state().statement_to_plan(statement).await;
            let planned = self.context.execute_logical_plan(plan.map_err(Failure::planning)?).await;
            planned.map_err(Failure::planning)
        };
        wait(py, &mut Nobody, plan)
    }

    fn run(&self, py: Python<'_>, sql: &str) -> Result<Outcome, Failure> {
        let run = || async { statement::run(&self.context, sql).await.map_err(Failure::planning) };
        wait(py, &mut Nobody, run)
    }

    fn replace(&self, name: &str, table: Arc<dyn TableProvider>) -> PyResult<()> {
        self.context.deregister_table(name).map_err(Failure::from)?;
        self.context.register_table(name, table).map_err(Failure::from)?;
        Ok(())
    }
}

/// The clause of COPY, which takes names as they are: no quotes, and so nothing that would need them.
fn partitioned_by(columns: &[String]) -> Result<String, Failure> {
    let is_plain = |column: &String| {
        !column.is_empty() && column.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    match columns.iter().all(is_plain) {
        _ if columns.is_empty() => Ok(String::new()),
        true => Ok(format!(" PARTITIONED BY ({})", columns.join(", "))),
        false => Err(Failure::invalid(
            "partition_by: directories are named by columns of letters, digits and _; rename the column first",
        )),
    }
}
