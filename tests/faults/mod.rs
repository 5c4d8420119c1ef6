//! What happens when something goes wrong, or when the input is extreme.

mod cancel;
mod copy;
mod extremes;
mod gate;
mod input;
mod memory;
mod parquet;
mod scans;
mod spill;
mod stores;
mod target_store;

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::with_functions;

/// A session that knows the functions and takes its memory from the pool.
fn session(pool: Arc<dyn MemoryPool>) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let config = SessionConfig::new().with_target_partitions(2);
    with_functions(SessionContext::new_with_config_rt(config, runtime))
}

/// A session without a memory limit.
fn unlimited() -> SessionContext {
    session(Arc::new(datafusion::execution::memory_pool::UnboundedMemoryPool::default()))
}

/// Waits until something holds. The deadline is no measure of speed: it only ends a hopeless wait.
async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(600);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The only cell of a query that counts something.
async fn count(context: &SessionContext, sql: &str) -> Result<i64> {
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int64Type;
    let batches = context.sql(sql).await?.collect().await?;
    Ok(batches[0].column(0).as_primitive::<Int64Type>().value(0))
}

/// The message of a query that must fail, from planning or from running it.
async fn failure(context: &SessionContext, sql: &str) -> String {
    let outcome = match context.sql(sql).await {
        Ok(frame) => frame.collect().await.map(|_| ()),
        Err(error) => Err(error),
    };
    outcome.map_or_else(|error| error.strip_backtrace(), |()| panic!("this should fail: {sql}"))
}
