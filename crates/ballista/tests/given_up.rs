//! A task that is still at work when its query has been given up, and that nobody can reach.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use anonymize_ballista::{
    Retention, executor_config, run_executor, scheduler_config, session_state,
};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::arrow::datatypes::DataType;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::cluster::eventually;
use crate::{census, directory, number, ports, rows};

/// Where a task waits until the test lets it go on.
#[derive(Debug, Default)]
struct Gate {
    is_reached: AtomicBool,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        self.is_reached.store(true, Ordering::SeqCst);
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// `held(x)` is x, for whoever has passed the gate.
fn held(gate: &Arc<Gate>) -> Arc<ScalarUDF> {
    let gate = Arc::clone(gate);
    let pass = move |arguments: &[ColumnarValue]| {
        gate.pass();
        Ok(arguments[0].clone())
    };
    let (text, kind) = (DataType::Utf8, Volatility::Volatile);
    Arc::new(create_udf("held", vec![text.clone()], text, kind, Arc::new(pass)))
}

/// A scheduler and an executor with one task at once, whose queries know `held`.
async fn start(work: &Path, function: &Arc<ScalarUDF>) -> String {
    let [scheduler_port, port] = ports();
    let of_session = Arc::clone(function);
    let config = SchedulerConfig {
        bind_port: scheduler_port,
        override_session_builder: Some(Arc::new(move |config: SessionConfig| {
            let mut state = session_state(config)?;
            state.register_udf(Arc::clone(&of_session))?;
            Ok(state)
        })),
        ..scheduler_config()
    };
    let cluster = BallistaCluster::new_from_config(&config).await.unwrap();
    let address = ([127, 0, 0, 1], scheduler_port).into();
    tokio::spawn(start_server(cluster, address, Arc::new(config)));

    let mut functions = BallistaFunctionRegistry::default();
    functions.scalar_functions.insert("held".to_owned(), Arc::clone(function));
    let config = ExecutorProcessConfig {
        scheduler_port,
        scheduler_connect_timeout_seconds: 600,
        port,
        vcores: 1,
        work_dir: Some(work.display().to_string()),
        override_function_registry: Some(Arc::new(functions)),
        ..executor_config()
    };
    assert_eq!(config.grpc_port, 0, "the scheduler could reach the executor");
    let retention = Retention {
        after_success: Duration::from_secs(3600),
        without_scheduler: Duration::from_secs(3600),
    };
    tokio::spawn(run_executor(config, retention));
    format!("df://localhost:{scheduler_port}")
}

/// A client, as soon as the scheduler answers.
async fn client(url: &str, directory: &Path, function: &ScalarUDF) -> SessionContext {
    let begun = Instant::now();
    let context = loop {
        match anonymize_ballista::remote(url).await {
            Ok(context) => break context,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(600), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    context.register_udf(function.clone());
    census(&context, directory).await;
    context
}

/// Directories of jobs, which are called like them.
fn jobs(work: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(work).unwrap().map(|entry| entry.unwrap());
    let is_spill = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("datafusion-");
    entries.filter(|entry| !is_spill(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// The scheduler cannot tell the executor to cancel a task, which ends after everybody has forgotten its query.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_that_outlives_its_query_leaves_no_rows() {
    let directory = directory(2000);
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let gate = Arc::new(Gate::default());
    let function = held(&gate);
    let url = start(&work, &function).await;
    let context = client(&url, directory.path(), &function).await;

    // Its first step writes raw rows by hash, into a directory that the writer makes again when it misses it.
    let sql = "SELECT zip, count(*) FROM (SELECT held(zip) AS zip FROM census) GROUP BY zip";
    let query = context.clone();
    let query = tokio::spawn(async move { rows(&query, sql).await });
    eventually("the task", || gate.is_reached.load(Ordering::SeqCst)).await;
    let [files] = <[PathBuf; 1]>::try_from(jobs(&work)).unwrap();
    query.abort();
    assert!(query.await.unwrap_err().is_cancelled());
    eventually("the end of the query's files", || !files.exists()).await;

    // There is room for another task when this one has ended, and not before.
    gate.open();
    assert_eq!(number(&context, "SELECT count(*) FROM census").await, 2000);
    eventually("the end of what it wrote afterwards", || !files.exists()).await;
}
