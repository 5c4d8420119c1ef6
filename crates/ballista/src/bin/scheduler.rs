//! The scheduler of a cluster that knows `anonymize()`.

use std::net::SocketAddr;
use std::sync::Arc;

use ballista_core::error::{BallistaError, Result};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use clap::Parser;

/// Plans queries of anonymize() clients and gives their tasks to executors.
#[derive(Parser)]
#[command(name = "anonymize-scheduler", version)]
struct Options {
    /// Address to listen on. Whoever reaches it can run queries: keep it inside a trusted network
    #[arg(long, default_value = "127.0.0.1")]
    bind_host: String,
    /// Port to listen on
    #[arg(long, default_value_t = 50050)]
    port: u16,
    /// Host name under which executors and clients reach this scheduler
    #[arg(long, default_value = "localhost")]
    external_host: String,
    /// Seconds after which an executor that has not been heard of is given up; busy ones are heard of every 5
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..))]
    executor_timeout: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let options = Options::parse();
    let address = format!("{}:{}", options.bind_host, options.port);
    let address: SocketAddr = address.parse().map_err(|_| {
        BallistaError::Configuration(format!(
            "--bind-host {}: write an IP address, as in --bind-host 0.0.0.0",
            options.bind_host
        ))
    })?;
    let config = SchedulerConfig {
        bind_host: options.bind_host,
        bind_port: options.port,
        external_host: options.external_host,
        executor_timeout_seconds: options.executor_timeout,
        expire_dead_executor_interval_seconds: options.executor_timeout.div_ceil(4),
        no_executors_grace_period_seconds: options.executor_timeout,
        ..anonymize_ballista::scheduler_config()
    };
    let cluster = BallistaCluster::new_from_config(&config).await?;
    start_server(cluster, address, Arc::new(config)).await
}
