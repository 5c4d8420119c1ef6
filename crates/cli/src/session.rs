//! The session: DataFusion's shell as it comes, with our functions on top.

use std::env;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::context::SessionConfig;
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::ignore_file_statistics;
use datafusion_cli::catalog::DynamicObjectStoreCatalog;
use datafusion_cli::functions::{
    ListFilesCacheFunc, MetadataCacheFunc, ParquetMetadataFunc, StatisticsCacheFunc,
};
use datafusion_cli::object_storage::StdinCarriesCommands;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use datafusion_cli::pool_type::PoolType;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

use crate::options::Options;

/// A context ready for statements, and how its results are printed.
pub struct Session {
    /// Where statements run.
    pub context: SessionContext,
    /// Format and row limit.
    pub print: PrintOptions,
}

impl Session {
    /// Sets up the limits, the catalogs and the functions.
    pub async fn new(options: &Options) -> Result<Self> {
        let registry = Arc::new(InstrumentedObjectStoreRegistry::new());
        let context = match cluster(options).await? {
            Some(context) => context.enable_url_table(),
            None => {
                let runtime = runtime(options, &registry)?;
                SessionContext::new_with_config_rt(config(options)?, runtime).enable_url_table()
            }
        };
        context.refresh_catalogs().await?;
        // Resolves a quoted location as a table, and its object store along the way.
        context.register_catalog_list(Arc::new(DynamicObjectStoreCatalog::new(
            Arc::clone(context.state().catalog_list()),
            context.state_weak_ref(),
        )));
        register_shell_functions(&context);
        // Last, because it may replace parts of the context's state.
        register(&context, options)?;
        if !options.on_cluster() {
            ignore_file_statistics(&context);
        }
        Ok(Self { context, print: print_options(options, registry) })
    }
}

/// A context whose statements run on a cluster, if one is named.
#[cfg(feature = "ballista")]
async fn cluster(options: &Options) -> Result<Option<SessionContext>> {
    let Some(url) = &options.ballista else { return Ok(None) };
    let context = anonymize_ballista::connect(url).await?;
    let state = context.state_ref();
    if let Some(partitions) = options.target_partitions {
        state.write().config_mut().options_mut().execution.target_partitions = partitions.get();
    }
    Ok(Some(context))
}

#[cfg(not(feature = "ballista"))]
async fn cluster(_options: &Options) -> Result<Option<SessionContext>> {
    Ok(None)
}

fn register(context: &SessionContext, options: &Options) -> Result<()> {
    match options.on_cluster() {
        #[cfg(feature = "ballista")]
        true => anonymize_ballista::register(context)?,
        _ => datafusion_anonymize::register_all(context)?,
    }
    // Made-up rows for trials. A job that this program runs can use them too, the service cannot.
    anonymize_sample::register(context)
}

fn config(options: &Options) -> Result<SessionConfig> {
    let mut config = ConfigOptions::from_env()?;
    if let Some(rows) = options.batch_size {
        config.execution.batch_size = ConfigNonZeroUsize::try_new(rows.get())?;
    }
    if let Some(partitions) = options.target_partitions {
        config.execution.target_partitions = partitions.get();
    }
    // A person reads these, unless the environment says otherwise.
    if env::var_os("DATAFUSION_EXPLAIN_FORMAT").is_none() {
        config.explain.format = ExplainFormat::Tree;
    }
    if env::var_os("DATAFUSION_FORMAT_NULL").is_none() {
        config.format.null = "NULL".to_owned();
    }
    let mut config = SessionConfig::from(config).with_information_schema(true);
    if options.reads_sql_from_stdin() {
        config = config.with_extension(Arc::new(StdinCarriesCommands));
    }
    Ok(config)
}

fn runtime(
    options: &Options,
    registry: &Arc<InstrumentedObjectStoreRegistry>,
) -> Result<Arc<RuntimeEnv>> {
    let mut builder =
        RuntimeEnvBuilder::new().with_object_store_registry(Arc::clone(registry) as _);
    if let Some(bytes) = options.memory_limit {
        builder = builder.with_memory_pool(memory_pool(bytes, options));
    }
    if let Some(directory) = &options.temp_dir {
        builder = builder.with_temp_file_path(directory);
    }
    if let Some(bytes) = options.disk_limit {
        builder = builder.with_max_temp_directory_size(bytes as u64);
    }
    builder.build_arc()
}

fn memory_pool(bytes: usize, options: &Options) -> Arc<dyn MemoryPool> {
    fn tracked<P: MemoryPool + 'static>(pool: P, top: usize) -> Arc<dyn MemoryPool> {
        match NonZeroUsize::new(top) {
            Some(top) => Arc::new(TrackConsumersPool::new(pool, top)),
            None => Arc::new(pool),
        }
    }
    match options.mem_pool_type {
        PoolType::Greedy => tracked(GreedyMemoryPool::new(bytes), options.top_memory_consumers),
        PoolType::Fair => tracked(FairSpillPool::new(bytes), options.top_memory_consumers),
    }
}

fn register_shell_functions(context: &SessionContext) {
    let caches = || Arc::clone(&context.runtime_env().cache_manager);
    context.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
    context.register_udtf("metadata_cache", Arc::new(MetadataCacheFunc::new(caches())));
    context.register_udtf("statistics_cache", Arc::new(StatisticsCacheFunc::new(caches())));
    context.register_udtf("list_files_cache", Arc::new(ListFilesCacheFunc::new(caches())));
}

fn print_options(
    options: &Options,
    instrumented_registry: Arc<InstrumentedObjectStoreRegistry>,
) -> PrintOptions {
    let format = options.print_format();
    // The shell keeps no more rows than a table would show, whatever the format: a CSV would end early.
    let maxrows = if format == PrintFormat::Table { options.maxrows } else { MaxRows::Unlimited };
    PrintOptions {
        format,
        quiet: options.quiet,
        maxrows,
        color: options.color,
        instrumented_registry,
    }
}
