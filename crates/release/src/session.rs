//! A session of the job's own: its inputs and views, and nobody else's.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::TableReference;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::execution::cache::cache_manager::{CacheManager, CacheManagerConfig};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::{AnonymizeConfig, ignore_file_statistics};
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore};

use crate::csv;
use crate::error::{Error, Result};
use crate::job::{ColumnType, Format, Input, Job};
use crate::sql::ORIGINAL;
use crate::store::Location;

/// Files that are read as one table.
pub(crate) struct Files<'a> {
    pub(crate) path: &'a str,
    pub(crate) format: Format,
    /// Columns that directories tell, with their types.
    pub(crate) partitions: Vec<(String, DataType)>,
    /// The columns of the files, where the format does not tell them well.
    pub(crate) schema: Option<SchemaRef>,
    /// Types of columns that a CSV file does not tell.
    pub(crate) types: BTreeMap<String, ColumnType>,
    pub(crate) delimiter: u8,
    pub(crate) header: bool,
}

impl<'a> Files<'a> {
    pub(crate) fn new(path: &'a str, format: Format) -> Self {
        Self {
            path,
            format,
            partitions: Vec::new(),
            schema: None,
            types: BTreeMap::new(),
            delimiter: b',',
            header: true,
        }
    }

    fn format(&self) -> Arc<dyn FileFormat> {
        match self.format {
            Format::Parquet => Arc::new(ParquetFormat::default()),
            Format::Csv => Arc::new(
                CsvFormat::default().with_has_header(self.header).with_delimiter(self.delimiter),
            ),
            Format::Json => Arc::new(JsonFormat::default()),
        }
    }

    /// The files as a table. `what` says whose they are.
    pub(crate) async fn table(
        &self,
        context: &SessionContext,
        what: &str,
    ) -> Result<Arc<ListingTable>> {
        let path = self.path;
        let location = Location::new(&context.runtime_env(), path)?;
        let failed = |error| Error::query(what, error);
        let url = ListingTableUrl::parse(path).map_err(failed)?;
        // A file may be named in any way; those of a directory tell by their ending that they belong.
        let ending = if url.is_collection() { self.format.ending() } else { "" };
        let state = context.state();
        let listed =
            url.list_all_files(&state, location.store.as_ref(), ending).await.map_err(failed)?;
        let files: Vec<_> = listed.try_collect().await.map_err(failed)?;
        if files.is_empty() {
            let kind = self.format.ending();
            return Err(Error::Failed(format!("{what}: there is no {kind} file at '{path}'")));
        }
        if url.is_collection() && self.partitions.is_empty() {
            check_no_deeper(&location, &files, ending, path, what).await?;
        }
        let options = ListingOptions::new(self.format())
            .with_file_extension(ending)
            .with_table_partition_cols(self.partitions.clone());
        let config = ListingTableConfig::new(url).with_listing_options(options);
        let is_csv = self.format == Format::Csv;
        let config = match &self.schema {
            Some(schema) => config.with_schema(Arc::clone(schema)),
            None => {
                if is_csv && self.header {
                    csv::check_headers(&location.store, &files, self.delimiter, what).await?;
                }
                config.infer_schema(&state).await.map_err(failed)?
            }
        };
        let config = match is_csv && self.schema.is_none() {
            true => match csv::columns(context, &config, &self.types, what).await? {
                Some(schema) => config.with_schema(schema),
                None => config,
            },
            false => config,
        };
        Ok(Arc::new(ListingTable::try_new(config).map_err(failed)?))
    }
}

/// Files of deeper directories would be left out without a word.
async fn check_no_deeper(
    location: &Location,
    files: &[ObjectMeta],
    ending: &str,
    path: &str,
    what: &str,
) -> Result<()> {
    let failed = |error: object_store::Error| Error::storage(what, error);
    let all: Vec<_> =
        location.store.list(Some(&location.path)).try_collect().await.map_err(failed)?;
    let read: HashSet<_> = files.iter().map(|file| &file.location).collect();
    let is_left_out = |file: &&ObjectMeta| {
        // Writers keep their own files in directories that start so.
        let below = file.location.prefix_match(&location.path);
        let is_hidden =
            below.is_some_and(|mut parts| parts.any(|part| part.as_ref().starts_with(['.', '_'])));
        file.location.as_ref().ends_with(ending) && !is_hidden && !read.contains(&file.location)
    };
    match all.iter().filter(is_left_out).count() {
        0 => Ok(()),
        files => Err(Error::Failed(format!(
            "{what}: {files} {ending} files are in directories below '{path}' and would not be read: put them into one \
             directory, make every directory an input of its own, or, if the directories are named like \
             year=2026, write partitions = [\"year\"]"
        ))),
    }
}

/// A session with the host's limits and settings, and the job's inputs and rows; and the job with its columns
/// spelled as those rows do. The session has no seed: who reports on a release need not know the secret.
pub(crate) async fn open(job: &Job, host: &SessionContext) -> Result<(SessionContext, Job)> {
    let context = bare(job, host)?;
    for (name, input) in &job.inputs {
        register_input(job, &context, name, input).await?;
    }
    view(&context, ORIGINAL, &job.source()?, "the input").await?;
    let rows = context.table(TableReference::bare(ORIGINAL)).await;
    let rows = rows.map_err(|error| Error::planning("the input", error))?;
    let job = job.spelled_as_in(rows.schema().as_arrow());
    Ok((context, job))
}

/// A session that knows the functions and no table.
pub(crate) fn bare(job: &Job, host: &SessionContext) -> Result<SessionContext> {
    let mut config = host.copied_config();
    let options = config.options_mut();
    // Hosts that bring their own catalogs switch it off.
    options.catalog.create_default_catalog_and_schema = true;
    // One file after the other, in the order of the classes: fewer and better compressed ones.
    options.execution.minimum_parallel_output_files =
        datafusion::common::config::ConfigNonZeroUsize::try_new(1)
            .map_err(|error| Error::query("the session", error))?;
    if let Some(rows) = job.output.rows_per_file {
        options.execution.soft_max_rows_per_output_file =
            datafusion::common::config::ConfigNonZeroUsize::try_new(rows.get())
                .map_err(|error| Error::query("the session", error))?;
    }
    // Caches of its own: a host that runs for weeks remembers which files were there last night.
    let caches = CacheManager::try_new(&CacheManagerConfig::default())
        .map_err(|error| Error::query("the session", error))?;
    let runtime = RuntimeEnv { cache_manager: caches, ..host.runtime_env().as_ref().clone() };
    let context = SessionContext::new_with_config_rt(config, Arc::new(runtime));
    let failed = |error| Error::query("the session", error);
    // Ours come last and are asked first: those of the host would look up tables in its session.
    for planner in host.state().relation_planners().iter().rev() {
        context.register_relation_planner(Arc::clone(planner)).map_err(failed)?;
    }
    datafusion_anonymize::register_all(&context).map_err(failed)?;
    // Also for plain queries, of the page about a release for example.
    ignore_file_statistics(&context);
    // Of a host's settings a job takes only what says how strict it is: a release depends on its file.
    let allow_short_seeds = AnonymizeConfig::of(host.copied_config().options()).allow_short_seeds;
    let settings = AnonymizeConfig { allow_short_seeds, ..AnonymizeConfig::default() };
    context.state_ref().write().config_mut().options_mut().extensions.insert(settings);
    Ok(context)
}

async fn register_input(
    job: &Job,
    context: &SessionContext,
    name: &str,
    input: &Input,
) -> Result<()> {
    let path = job.locate(&input.path);
    let files = Files {
        partitions: input.partitions.iter().map(|name| (name.clone(), DataType::Utf8)).collect(),
        types: input.types.clone(),
        delimiter: input.delimiter.map_or(b',', |delimiter| delimiter as u8),
        header: input.header.unwrap_or(true),
        ..Files::new(&path, input.format())
    };
    let what = format!("input '{name}'");
    let table = files.table(context, &what).await?;
    let reference = TableReference::bare(name);
    context.register_table(reference, table).map_err(|error| Error::query(&what, error))?;
    Ok(())
}

/// A job reads: what a query would change is nobody's business here.
pub(crate) fn reads_only() -> SQLOptions {
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false)
}

async fn view(context: &SessionContext, name: &str, query: &str, what: &str) -> Result<()> {
    let frame = context.sql_with_options(query, reads_only()).await;
    let frame = frame.map_err(|error| Error::planning(what, error))?;
    context
        .register_table(TableReference::bare(name), frame.into_view())
        .map_err(|error| Error::planning(what, error))?;
    Ok(())
}
