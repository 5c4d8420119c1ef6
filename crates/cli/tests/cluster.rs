//! The program as the client of a cluster: `--ballista`, a scheduler and two executors as real processes.
#![cfg(feature = "ballista")]
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

#[path = "shared/ports.rs"]
mod ports;

use ports::free_ports;

const PROGRAM: &str = env!("CARGO_BIN_EXE_anonymize");
const COLUMNS: &str = "age, sex, zip, occupation";
const OPTIONS: &str = "k => 5, quasi_identifiers => ['age', 'sex', 'zip'], sensitive => ['occupation'], seed => 'a seed of the tests'";

/// Longer than any step of a test takes: only a hopeless wait lasts until then.
const PATIENCE: Duration = Duration::from_secs(900);

/// Processes that end with the test, also when it panics.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The programs of the cluster are built into the same directory by a test run of the whole workspace.
fn beside(program: &str) -> PathBuf {
    Path::new(PROGRAM).with_file_name(program)
}

fn start(program: &str, arguments: &[String]) -> Child {
    let mut command = Command::new(beside(program));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// A cluster and the address of its scheduler.
fn cluster(directory: &Path) -> (Processes, String) {
    let [scheduler, ports @ ..] = free_ports::<3>();
    let mut processes = Processes(vec![start(
        "anonymize-scheduler",
        &["--port", &scheduler.to_string(), "--executor-timeout", "3600"].map(str::to_owned),
    )]);
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", scheduler)).is_err() {
        assert!(begin.elapsed() < PATIENCE, "the scheduler does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    for port in ports {
        let arguments = [
            ("--scheduler-port", scheduler.to_string()),
            ("--port", port.to_string()),
            ("--tasks", "2".to_owned()),
            ("--work-dir", directory.display().to_string()),
            ("--scheduler-timeout", "3600".to_owned()),
        ];
        let arguments = arguments.map(|(name, value)| [name.to_owned(), value]);
        processes.0.push(start("anonymize-executor", &arguments.concat()));
    }
    (processes, format!("df://127.0.0.1:{scheduler}"))
}

fn anonymize(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = anonymize(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn fails(arguments: &[&str]) -> String {
    let output = anonymize(arguments);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn scripts_run_on_a_cluster() {
    if !beside("anonymize-scheduler").exists() || !beside("anonymize-executor").exists() {
        println!(
            "SKIPPED: the programs of the cluster are not built; cargo test --workspace builds them"
        );
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (data, release) = (path("census/"), path("release/"));
    let copy = format!(
        "COPY (SELECT {COLUMNS} FROM sample_census(rows => 2000, seed => 1)) TO '{data}' STORED AS PARQUET"
    );
    succeeds(&["-q", "-c", &copy]);
    let (_processes, url) = cluster(directory.path());
    let table = format!("CREATE EXTERNAL TABLE census STORED AS PARQUET LOCATION '{data}'");
    let on_cluster = |sql: &str| {
        ["--ballista", &url, "-q", "--format", "csv", "-c", &table, "-c", sql].map(str::to_owned)
    };
    let succeeds_on_cluster = |sql: &str| {
        let arguments = on_cluster(sql);
        succeeds(&arguments.each_ref().map(String::as_str))
    };
    let fails_on_cluster = |sql: &str| {
        let arguments = on_cluster(sql);
        fails(&arguments.each_ref().map(String::as_str))
    };

    // The release of a script is the one that this machine makes in as many cells.
    let query = format!("SELECT * FROM anonymize(census, {OPTIONS})");
    let order = "ORDER BY age, sex, zip, occupation";
    let remote = succeeds_on_cluster(&format!("{query} {order}"));
    let here = [
        "-q",
        "--format",
        "csv",
        "-c",
        &table,
        "-c",
        "SET anonymize.cells = 8",
        "-c",
        &format!("{query} {order}"),
    ]
    .map(str::to_owned);
    assert_eq!(remote, succeeds(&here.each_ref().map(String::as_str)));
    assert_eq!(remote.lines().count(), 2001);

    succeeds_on_cluster(&format!("COPY ({query}) TO '{release}' STORED AS PARQUET"));
    let smallest = format!(
        "SELECT min(n) FROM (SELECT count(*) AS n FROM '{release}' GROUP BY age, sex, zip)"
    );
    let smallest = succeeds(&["-q", "--format", "csv", "-c", &smallest]);
    assert!(smallest.lines().nth(1).unwrap().parse::<u32>().unwrap() >= 5, "{smallest}");

    let analyzed = succeeds_on_cluster(&format!("EXPLAIN ANALYZE {query}"));
    assert!(analyzed.contains("CellGatherExec") && analyzed.contains("loss="), "{analyzed}");
    let one_piece =
        succeeds_on_cluster(&format!("SET anonymize.cells = 0; EXPLAIN ANALYZE {query}"));
    assert!(one_piece.contains("AnonymizeExec") && one_piece.contains("loss="), "{one_piece}");

    // A person reads what went wrong, not the errors around it.
    let message = fails_on_cluster(
        "SELECT * FROM anonymize((SELECT age, sex FROM census), k => 3000, quasi_identifiers => ['age', 'sex'])",
    );
    assert!(message.contains("Error: on the cluster, job "), "{message}");
    assert!(message.contains(": 2000 rows cannot form a class of k = 3000"), "{message}");
    assert!(!message.contains("DataFusionError"), "{message}");
    let message =
        fails_on_cluster("SELECT * FROM anonymize(nobody, k => 2, quasi_identifiers => ['age'])");
    assert!(message.contains("there is no table 'nobody'; there are census"), "{message}");
}

#[test]
fn wrong_addresses_are_named() {
    let message = fails(&["--ballista", "localhost", "-c", "SELECT 1"]);
    assert!(
        message.contains("'localhost' is not the address of a scheduler: write df://host:port"),
        "{message}"
    );
    let [port] = free_ports();
    let message = fails(&["--ballista", &format!("df://127.0.0.1:{port}"), "-c", "SELECT 1"]);
    assert!(
        message.contains(&format!("no scheduler answers at df://127.0.0.1:{port}")),
        "{message}"
    );
    // What would quietly run here instead is refused.
    let message = fails(&["--ballista", "df://127.0.0.1:1", "release", "job.toml"]);
    assert!(
        message.contains("release works on this machine alone: leave --ballista out"),
        "{message}"
    );
}
