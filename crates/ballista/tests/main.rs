//! A shared directory of Parquet files, and the same questions to a cluster and to one machine.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod cluster;
mod given_up;
mod standalone;

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_anonymize::{Family, methods};
use tempfile::TempDir;

/// Methods that work in cells, with the options they need.
fn in_cells() -> impl Iterator<Item = (&'static str, &'static str)> {
    methods().filter(|method| method.works_in_cells()).map(|method| {
        let more = match method.name() {
            "rounded" => ", l => 2, t => 0.6",
            "mondrian_relaxed" => ", privacy_unit => 'person_id'",
            _ if method.family() == Family::Slices => ", l => 2, suppression_limit => 0.2",
            _ if method.suppresses() => ", suppression_limit => 0.5",
            _ => "",
        };
        (method.name(), more)
    })
}

const CALL: &str = "anonymize((SELECT age, sex, education, zip, occupation FROM census), k => 5, \
                        quasi_identifiers => ['age', 'sex', 'education', 'zip'], sensitive => ['occupation'], \
                        class_id => true, seed => 'unspeakable secret')";

fn call(method: &str, more: &str) -> String {
    let unit = if more.contains("privacy_unit") { ", person_id" } else { "" };
    CALL.replace("occupation FROM", &format!("occupation{unit} FROM"))
        .replace("seed =>", &format!("method => '{method}'{more}, seed =>"))
}

/// A directory in which `census/` has four files with so many rows together.
fn directory(rows: usize) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let write = async move {
        let context = SessionContext::new();
        anonymize_sample::register(&context).unwrap();
        for part in 0..4 {
            let sql = format!(
                "COPY (SELECT * FROM sample_census(rows => {}, seed => {part}, missing => 0.01)) TO \
                 '{}/census/{part}.parquet' STORED AS PARQUET",
                rows / 4,
                path.display()
            );
            context.sql(&sql).await.unwrap().collect().await.unwrap();
        }
    };
    std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(write)).join().unwrap();
    directory
}

async fn census(context: &SessionContext, directory: &Path) {
    let sql = format!(
        "CREATE EXTERNAL TABLE census STORED AS PARQUET LOCATION '{}/census/'",
        directory.display()
    );
    context.sql(&sql).await.unwrap().collect().await.unwrap();
}

/// One machine with as many cells as a cluster has.
async fn local(directory: &Path) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .set_bool("datafusion.execution.parquet.schema_force_view_types", false);
    let context = SessionContext::new_with_config(config);
    datafusion_anonymize::register_all(&context).unwrap();
    let cells = anonymize_ballista::DEFAULT_CELLS;
    rows(&context, &format!("SET anonymize.cells = {cells}")).await.unwrap();
    census(&context, directory).await;
    context
}

/// The rows of a query, every one written out.
async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = context.sql(sql).await?.collect().await?;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> =
            columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> =
                columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(cells.join(" | "));
        }
    }
    Ok(rows)
}

async fn number(context: &SessionContext, sql: &str) -> i64 {
    let rows = rows(context, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows[0].parse().unwrap()
}

/// Free ports, all different, that the system gives to nobody by itself. Each belongs to this process until it ends: tests that run
/// at the same time, in this process or in another, get others.
fn ports<const N: usize>() -> [u16; N] {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    static LOCKS: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let is_mine = |port: &u16| {
        let lock = File::create(std::env::temp_dir().join(format!("anonymize-tests-{port}.lock")));
        let lock = lock.ok().filter(|lock| lock.try_lock().is_ok());
        let is_free = lock.is_some() && TcpListener::bind(("127.0.0.1", *port)).is_ok();
        LOCKS.lock().unwrap().extend(lock);
        is_free
    };
    let begin = std::process::id().wrapping_mul(128);
    let next =
        || 10_000 + (begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % 20_000) as u16;
    [(); N].map(|()| std::iter::repeat_with(next).take(20_000).find(is_mine).unwrap())
}
