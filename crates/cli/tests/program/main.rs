//! The program as its users meet it: arguments in, text and an exit code out.

#![allow(clippy::unwrap_used)]

#[path = "../shared/program.rs"]
mod process;
mod publish;
#[cfg(unix)]
#[path = "../shared/shell.rs"]
mod shell;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use process::Outcome;
use tempfile::TempDir;

/// Longer than any step of a test takes: only a hopeless wait lasts until then.
const PATIENCE: Duration = Duration::from_secs(600);

/// The program in a directory of its own.
fn program(directory: &Path) -> Command {
    let mut command = process::program();
    command.current_dir(directory);
    command
}

fn run_in(directory: &Path, arguments: &[&str]) -> Outcome {
    program(directory).args(arguments).output().unwrap().into()
}

fn run(arguments: &[&str]) -> Outcome {
    run_in(TempDir::new().unwrap().path(), arguments)
}

fn pipe(sql: &str, arguments: &[&str]) -> Outcome {
    let directory = TempDir::new().unwrap();
    let mut child = program(directory.path())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn commands_print_their_results_and_nothing_else() {
    let sql = ["-c", "SELECT 1 AS a; SELECT 'x' AS b", "-c", "SELECT 2 AS c"];
    // A slow machine would be told of the progress.
    let outcome = run(&[&sql[..], &["--format", "csv", "--no-progress"]].concat());
    assert_eq!(outcome.stdout, "a\n1\nb\nx\nc\n2\n");
    assert_eq!(outcome.stderr, "");
    assert_eq!(outcome.code, Some(0));
}

#[test]
fn tables_are_the_default_format() {
    let outcome = run(&["-c", "SELECT NULL AS a"]);
    assert_eq!(outcome.stdout, "+------+\n| a    |\n+------+\n| NULL |\n+------+\n");
}

#[test]
fn files_run_in_order_and_share_a_session() {
    let directory = TempDir::new().unwrap();
    fs::write(
        directory.path().join("one.sql"),
        "#!/usr/bin/env anonymize -f\nCREATE TABLE t AS\n-- a ; in a comment\nSELECT ';' AS a;\n",
    )
    .unwrap();
    fs::write(directory.path().join("two.sql"), "SELECT * FROM t").unwrap();
    let outcome = run_in(directory.path(), &["--format", "csv", "-f", "one.sql", "two.sql"]);
    assert_eq!(outcome.stdout, "a\n;\n");
    assert_eq!(outcome.code, Some(0));
}

#[test]
fn the_first_failing_statement_ends_a_file() {
    let directory = TempDir::new().unwrap();
    let script =
        "SELECT 1 AS a;\nSELECT missing\nFROM nowhere\nWHERE b = 'private';\nSELECT 2 AS a;\n";
    fs::write(directory.path().join("job.sql"), script).unwrap();
    let outcome =
        run_in(directory.path(), &["--format", "csv", "-f", "job.sql", "-c", "SELECT 3 AS a"]);
    assert_eq!(outcome.code, Some(1));
    assert_eq!(outcome.stdout, "a\n1\n");
    assert!(
        outcome.stderr.contains("job.sql:2: statement 2 of 3: SELECT missing"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("nowhere"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("private"), "{}", outcome.stderr);
}

#[test]
fn a_syntax_error_is_found_when_its_turn_comes_and_points_into_the_script() {
    let outcome = run(&["--format", "csv", "-c", "SELECT 1 AS a;\n  SELEC 2"]);
    assert_eq!(outcome.code, Some(1));
    assert_eq!(outcome.stdout, "a\n1\n");
    assert!(outcome.stderr.contains("Line: 2, Column: 3"), "{}", outcome.stderr);
}

#[test]
fn an_error_while_rows_are_produced_fails_too() {
    let outcome = run(&["-c", "SELECT 1 / (value - 1) FROM generate_series(1, 3)"]);
    assert_eq!(outcome.code, Some(1));
    assert_eq!(outcome.stdout, "");
    assert!(outcome.stderr.contains("Divide by zero"), "{}", outcome.stderr);
}

#[test]
fn piped_sql_runs_like_a_file() {
    let outcome = pipe("SELECT 1 AS a;\nSELECT 2\n AS a", &["--format", "csv"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "a\n1\na\n2\n"));
    let outcome = pipe("SELECT 1 AS a;\nSELEC;\nSELECT 3 AS a;", &["--format", "csv"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), "a\n1\n"));
    assert!(outcome.stderr.contains("stdin:2: statement 2 of 3"), "{}", outcome.stderr);
    let outcome = pipe("SELECT 1 AS a", &["--format", "csv", "-f", "-"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "a\n1\n"));
}

#[test]
fn data_can_be_piped_when_the_sql_is_not() {
    let create = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/dev/stdin'";
    let outcome =
        pipe("a,b\n1,2\n3,4\n", &["--format", "csv", "-c", create, "SELECT sum(a) AS s FROM t"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "s\n4\n"), "{}", outcome.stderr);
}

#[test]
fn every_format_has_its_shape() {
    let sql = "SELECT * FROM (VALUES (1, 'x'), (2, NULL)) AS t(a, b) ORDER BY a";
    let expected = [
        ("csv", "a,b\n1,x\n2,\n"),
        ("tsv", "a\tb\n1\tx\n2\t\n"),
        ("json", "[{\"a\":1,\"b\":\"x\"},{\"a\":2}]\n"),
        ("nd-json", "{\"a\":1,\"b\":\"x\"}\n{\"a\":2}\n"),
        (
            "table",
            "+---+------+\n| a | b    |\n+---+------+\n| 1 | x    |\n| 2 | NULL |\n+---+------+\n",
        ),
    ];
    for (format, text) in expected {
        assert_eq!(run(&["--format", format, "-c", sql]).stdout, text, "{format}");
    }
}

#[test]
fn an_empty_result_keeps_its_header() {
    for (format, text) in [("csv", "a\n"), ("json", "[]\n"), ("nd-json", "")] {
        assert_eq!(
            run(&["--format", format, "-c", "SELECT 1 AS a WHERE false"]).stdout,
            text,
            "{format}"
        );
    }
    assert_eq!(run(&["--format", "json", "-c", "CREATE VIEW v AS SELECT 1"]).stdout, "");
}

#[test]
fn only_tables_are_cut_at_maxrows() {
    let sql = "SELECT value FROM generate_series(1, 100000)";
    let outcome = run(&["--format", "csv", "--maxrows", "3", "-c", sql]);
    assert_eq!(outcome.stdout.lines().count(), 100_001);
    let outcome = run(&["--maxrows", "3", "-c", sql]);
    assert_eq!(outcome.stdout.lines().count(), 3 + 3 + 4);
    assert!(outcome.stderr.contains("3 of 100000 rows shown"), "{}", outcome.stderr);
    assert_eq!(
        run(&["--maxrows", "inf", "-c", "SELECT value FROM generate_series(1, 50)"])
            .stdout
            .lines()
            .count(),
        54
    );
    assert!(run(&["-c", "SHOW ALL"]).stdout.lines().count() > 60);
}

#[test]
fn quiet_leaves_results_and_errors() {
    let sql = "SELECT value FROM generate_series(1, 9)";
    assert_eq!(run(&["-q", "--maxrows", "3", "-c", sql]).stderr, "");
    let outcome = run(&["-q", "-c", "SELEC"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("SELEC"));
}

#[test]
fn parquet_written_by_copy_is_read_back() {
    let directory = TempDir::new().unwrap();
    let copy =
        "COPY (SELECT value AS a FROM generate_series(1, 10)) TO 'out.parquet' STORED AS PARQUET";
    let outcome = run_in(
        directory.path(),
        &["--format", "csv", "-c", copy, "SELECT sum(a) AS s FROM 'out.parquet'"],
    );
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (Some(0), "count\n10\ns\n55\n"),
        "{}",
        outcome.stderr
    );
    let metadata = "SELECT DISTINCT path_in_schema AS p FROM parquet_metadata('out.parquet')";
    let outcome = run_in(directory.path(), &["--format", "csv", "-c", metadata]);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (Some(0), "p\n\"\"\"a\"\"\"\n"),
        "{}",
        outcome.stderr
    );
    let external = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'out.parquet'";
    let outcome =
        run_in(directory.path(), &["--format", "csv", "-c", external, "SELECT max(a) AS m FROM t"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "m\n10\n"), "{}", outcome.stderr);
}

#[test]
fn relative_paths_in_sql_start_at_the_data_path_and_those_of_options_do_not() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("data")).unwrap();
    fs::write(directory.path().join("data/t.csv"), "a\n7\n").unwrap();
    fs::write(directory.path().join("job.sql"), "SELECT a FROM 't.csv'").unwrap();
    let arguments =
        ["--data-path", "data", "--temp-dir", "data", "-f", "job.sql", "--format", "csv"];
    let outcome = run_in(directory.path(), &arguments);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "a\n7\n"), "{}", outcome.stderr);
}

#[test]
fn exhausted_memory_names_the_consumer() {
    for pool in ["greedy", "fair"] {
        let sql = "SELECT array_agg(value) FROM generate_series(1, 1000000)";
        let outcome = run(&["--memory-limit", "1m", "--mem-pool-type", pool, "-c", sql]);
        assert_eq!(outcome.code, Some(1));
        assert!(outcome.stderr.contains("Resources exhausted"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("AggregateStream"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("top memory consumers"), "{}", outcome.stderr);
    }
}

#[test]
fn streamed_formats_need_no_memory_for_the_result() {
    let sql = "SELECT value FROM generate_series(1, 500000)";
    let outcome = run(&["--memory-limit", "100k", "--format", "nd-json", "-c", sql]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.stdout.lines().count(), 500_000);
}

#[test]
fn a_sort_spills_within_the_disk_limit_and_cleans_up() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("spill")).unwrap();
    let sql =
        "COPY (SELECT value FROM generate_series(1, 2000000) ORDER BY value % 1000) TO 'o.csv'";
    let limits = [
        "--memory-limit",
        "24m",
        "--mem-pool-type",
        "fair",
        "--temp-dir",
        "spill",
        "--target-partitions",
        "2",
    ];
    for (disk, code) in [("1k", 1), ("1g", 0)] {
        let arguments = [&limits[..], &["--disk-limit", disk, "-c", sql]].concat();
        let outcome = run_in(directory.path(), &arguments);
        assert_eq!(outcome.code, Some(code), "{disk}: {}", outcome.stderr);
        assert_eq!(outcome.stderr.contains("disk space"), code == 1, "{}", outcome.stderr);
        assert_eq!(fs::read_dir(directory.path().join("spill")).unwrap().count(), 0);
    }
}

#[test]
fn settings_reach_the_session() {
    let sql = "SELECT value FROM information_schema.df_settings
               WHERE name IN ('datafusion.execution.batch_size', 'datafusion.execution.target_partitions') ORDER BY name";
    let outcome =
        run(&["--batch-size", "17", "--target-partitions", "3", "--format", "csv", "-c", sql]);
    assert_eq!(outcome.stdout, "value\n17\n3\n");
}

#[test]
fn another_dialect_applies_to_the_statements_after_it() {
    let sql = "SET datafusion.sql_parser.dialect = 'MySQL'; SELECT 'a\\'b;' AS a; SELECT 2 AS a";
    let outcome = run(&["--format", "csv", "-c", sql]);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (Some(0), "a\na'b;\na\n2\n"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn wrong_options_say_what_is_wrong() {
    let wrong: [(&[&str], &str); 9] = [
        (&["--memory-limit", "2x"], "such as 512m or 2g"),
        (&["--memory-limit", "0"], "larger than zero"),
        (&["-f", "absent.sql"], "absent.sql"),
        (&["-f", "."], "directory"),
        (&["-c", " "], "no statement"),
        (&["--data-path", "absent"], "absent"),
        (&["--format", "xml"], "nd-json"),
        (&["--batch-size", "0"], "zero"),
        (&["--mem-pool-type", "lazy"], "lazy"),
    ];
    for (arguments, message) in wrong {
        let outcome = run(arguments);
        assert_eq!(outcome.code, Some(2), "{arguments:?}");
        assert!(outcome.stderr.contains(message), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn help_shows_examples() {
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("anonymize -f job.sql"));
}

#[test]
fn the_version_is_that_of_the_package_and_of_datafusion() {
    let datafusion = datafusion::DATAFUSION_VERSION;
    let expected = format!("anonymize {} (DataFusion {datafusion})\n", env!("CARGO_PKG_VERSION"));
    for option in ["--version", "-V"] {
        let version = run(&[option]);
        assert_eq!((version.code, version.stdout), (Some(0), expected.clone()));
    }
}

/// Ctrl-C, and what service managers and batch systems send.
#[cfg(unix)]
#[test]
fn signals_stop_a_statement() {
    for signal in ["INT", "TERM", "HUP"] {
        let directory = TempDir::new().unwrap();
        let endless =
            "COPY (SELECT value FROM generate_series(1, 1000000000000000)) TO 'endless.csv'";
        let mut child = program(directory.path())
            .args(["-c", endless, "SELECT 2"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It runs when it has begun to write.
        let begun = Instant::now();
        while files_in(directory.path()).is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "{signal}: it ended by itself");
            if begun.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{signal}: it does not begin");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        shell::signal(child.id(), signal);
        let outcome = Outcome::from(child.wait_with_output().unwrap());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(130), ""), "{signal}");
        assert!(outcome.stderr.contains("interrupted"), "{signal}: {}", outcome.stderr);
    }
}

fn files_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Half of the rows are in a row group of which the file has no statistics.
#[test]
fn plain_queries_read_what_is_in_a_file() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/faults/partial_statistics.parquet");
    let query = format!(
        "SELECT count(DISTINCT note) AS notes, max(length(note)) AS longest,
           count(*) FILTER (WHERE isnan(score)) AS nans FROM '{file}'; SELECT length(max(note)) AS largest FROM '{file}'"
    );
    for collect in ["true", "false"] {
        let set = format!("SET datafusion.execution.collect_statistics = {collect}");
        let outcome: Outcome = program(TempDir::new().unwrap().path())
            .env("DATAFUSION_EXECUTION_COLLECT_STATISTICS", collect)
            .args(["-c", &set, "-c", &query, "--format", "csv"])
            .output()
            .unwrap()
            .into();
        assert_eq!(
            outcome.stdout, "notes,longest,nans\n2,5000,10\nlargest\n5000\n",
            "{}",
            outcome.stderr
        );
    }
}
