//! The examples for Python, against a service and against its files.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Outcome, Server};

/// A Python that has these packages, in an environment of the tests' own; says so if there is none.
fn python(packages: &[&str]) -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
    let imports: Vec<String> = packages.iter().map(|package| format!("import {package}")).collect();
    let check = Command::new(&python).args(["-c", &imports.join("; ")]).output();
    if !check.is_ok_and(|check| check.status.success()) {
        println!(
            "SKIPPED: no Python with {}; python3 -m venv target/python && target/python/bin/pip install \
             'psycopg[binary]' pyarrow datafusion",
            packages.join(", ")
        );
        return None;
    }
    Some(python)
}

fn run(python: &Path, example: &str, argument: &str) -> Outcome {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python");
    Command::new(python).arg(examples.join(example)).arg(argument).output().unwrap().into()
}

fn url(server: &Server) -> String {
    let (host, port) = (server.address.ip(), server.address.port());
    format!("host={host} port={port} user=analyst password='open sesame' dbname=releases")
}

#[test]
fn the_example_reads_a_view_with_psycopg() {
    let Some(python) = python(&["psycopg"]) else { return };
    let server = Server::new();
    let outcome = run(&python, "query_service.py", &url(&server));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains(" work in sales\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("refused: table 'releases.public.patients' not found"));
}

#[test]
fn the_example_reads_the_files_of_a_release() {
    let Some(python) = python(&["pyarrow", "datafusion"]) else { return };
    let server = Server::new();
    let output = server.setting.path("state/patients_k10").display().to_string();
    let outcome = run(&python, "read_release.py", &output);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("of patients_k10: 400 rows"), "{}", outcome.stdout);
}

/// What psql never does: prepared statements, parameters, binary rows, portions.
#[test]
fn prepared_statements_see_the_current_release_and_nothing_raw() {
    let Some(python) = python(&["psycopg"]) else { return };
    let server = Server::with("poll_seconds = 0");
    let script = r#"
import sys, psycopg
url = sys.argv[1]
with psycopg.connect(url.replace("analyst", "steward").replace("open sesame", "keys"), autocommit=True) as c:
    count = "SELECT count(*) FROM patients_k10 WHERE hours_per_week >= %s"
    first = c.execute(count, [0], prepare=True).fetchone()[0]
    assert first == 400, first
    c.execute("REFRESH MATERIALIZED VIEW patients_k10")
    assert c.execute(count, [0], prepare=True).fetchone()[0] == 400
    row = c.execute("SELECT %s::int + 1, %s::text, NULL::text, %s::date", [1, "x", "2026-02-28"]).fetchone()
    assert row[:3] == (2, "x", None) and str(row[3]) == "2026-02-28", row
    with c.cursor(binary=True) as b:
        values = b.execute("SELECT birth_date, hours_per_week, salary_class FROM patients_k10").fetchall()
        tiny = b.execute("SELECT arrow_cast(hours_per_week % 7 - 3, 'Int8') AS tiny, hours_per_week FROM patients_k10").fetchall()
        assert all(t == h % 7 - 3 for t, h in tiny), tiny[:3]
        assert len(values) == 400 and any(v[2] is None for v in values) and all(v[0].year > 1900 for v in values)
    for sql in ["SELECT * FROM patients", "COPY patients_k10 TO '/tmp/x'", "SET datafusion.execution.batch_size = 1",
                "CREATE TABLE t AS SELECT 1", "EXPLAIN VERBOSE SELECT 1"]:
        try:
            c.execute(sql, prepare=True)
        except psycopg.Error as error:
            assert error.sqlstate in ("42P01", "42501", "0A000"), (sql, error.sqlstate)
        else:
            raise SystemExit(sql)
with psycopg.connect(url) as c:
    assert c.execute("SELECT 1").fetchone() == (1,)
    try:
        c.execute("SELECT * FROM ages")
    except psycopg.errors.UndefinedTable:
        c.rollback()
    assert c.execute("SELECT 2").fetchone() == (2,)
print("all held")
"#;
    let outcome: Outcome =
        Command::new(&python).args(["-c", script, &url(&server)]).output().unwrap().into();
    assert_eq!(outcome.stdout, "all held\n", "{}", outcome.stderr);
}
