//! One process and two executors on this machine beside each other.
//!
//! `cargo bench -p anonymize-ballista --bench overhead -- [rows] [cells]`; a million rows and 8 cells unless said otherwise.
//! Prints seconds and ratios: what a cluster costs where it cannot win, because everything shares the same cores.
#![allow(missing_docs, clippy::unwrap_used)]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start(program: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

async fn run(context: &SessionContext, sql: &str) -> Result<usize> {
    let batches = context.sql(sql).await?.collect().await?;
    Ok(batches.iter().map(|batch| batch.num_rows()).sum())
}

async fn seconds(context: &SessionContext, sql: &str) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let start = Instant::now();
        run(context, sql).await?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

async fn census(context: &SessionContext, directory: &Path) -> Result<()> {
    let location = directory.join("census/");
    let sql =
        format!("CREATE EXTERNAL TABLE census STORED AS PARQUET LOCATION '{}'", location.display());
    run(context, &sql).await.map(|_| ())
}

async fn local(directory: &Path) -> Result<SessionContext> {
    let context = SessionContext::new_with_config(SessionConfig::new());
    datafusion_anonymize::register_all(&context)?;
    census(&context, directory).await?;
    Ok(context)
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut numbers =
        std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let (rows, cells) = (numbers.next().unwrap_or(1_000_000), numbers.next().unwrap_or(8));
    let directory = tempfile::tempdir()?;
    let maker = SessionContext::new();
    anonymize_sample::register(&maker)?;
    for part in 0..4 {
        let path = directory.path().join(format!("census/{part}.parquet"));
        let from = format!("sample_census(rows => {}, seed => {part})", rows / 4);
        run(
            &maker,
            &format!("COPY (SELECT * FROM {from}) TO '{}' STORED AS PARQUET", path.display()),
        )
        .await?;
    }
    let target = directory.path().join("release/");
    let release = format!(
        "COPY (SELECT * FROM anonymize((SELECT age, sex, race, marital_status, education, workclass, zip, occupation \
         FROM census), k => 10, quasi_identifiers => ['age', 'sex', 'race', 'marital_status', 'education', \
         'workclass', 'zip'], sensitive => ['occupation'], seed => 'the seed of a benchmark')) TO '{}' STORED AS PARQUET",
        target.display()
    );
    let [scheduler, executors @ ..] = [(); 3].map(|()| free_port().to_string());
    let work_dir = directory.path().display().to_string();
    let mut processes =
        Processes(vec![start(env!("CARGO_BIN_EXE_anonymize-scheduler"), &["--port", &scheduler])]);
    for port in &executors {
        let arguments = [
            "--scheduler-port",
            &scheduler,
            "--port",
            port,
            "--work-dir",
            &work_dir,
            "--tasks",
            "1",
        ];
        processes.0.push(start(env!("CARGO_BIN_EXE_anonymize-executor"), &arguments));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let cluster = anonymize_ballista::remote(&format!("df://localhost:{scheduler}")).await?;
    census(&cluster, directory.path()).await?;
    let local = local(directory.path()).await?;

    println!("{rows} rows, {cells} cells, k = 10, written as Parquet; best of three");
    let one_piece = seconds(&local, &release).await?;
    println!("one process, one piece       {one_piece:8.2} s");
    run(&local, &format!("SET anonymize.cells = {cells}")).await?;
    let in_cells = seconds(&local, &release).await?;
    println!("one process, in cells        {in_cells:8.2} s   × {:.2}", in_cells / one_piece);
    run(&cluster, &format!("SET anonymize.cells = {cells}")).await?;
    let executors = seconds(&cluster, &release).await?;
    println!(
        "two executors, in cells      {executors:8.2} s   × {:.2} of one process in cells, × {:.2} of one piece",
        executors / in_cells,
        executors / one_piece
    );
    println!("a row costs {:.2} µs of one core in cells", in_cells * 1e6 * cores() / rows as f64);
    Ok(())
}

fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}
