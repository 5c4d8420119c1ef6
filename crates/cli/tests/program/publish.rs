//! `anonymize publish`: two tables of one release, or none.

use std::fs;

use tempfile::TempDir;

use crate::{files_in, run, run_in};

const TWO_TABLES: &str = "CREATE TABLE census AS SELECT age, zip, occupation FROM sample_census(rows => 400, seed => 1);
    SELECT * FROM anonymize(census, method => 'alpha_k', k => 4, alpha => 0.3, quasi_identifiers => ['age', 'zip'],
      sensitive => ['occupation'], publish => 'sensitive', seed => 'a seed of the tests')";

#[test]
fn publish_writes_both_tables_of_one_release() {
    let directory = TempDir::new().unwrap();
    let files = ["--quasi-identifiers", "qi.parquet", "--sensitive", "sa.csv"];
    let arguments = [&["--no-progress", "publish", "-c", TWO_TABLES], &files[..]].concat();
    let outcome = run_in(directory.path(), &arguments);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{}", outcome.stdout);
    assert_eq!(outcome.stdout, "400 rows in qi.parquet\n400 rows in sa.csv\n");
    assert_eq!(files_in(directory.path()), ["qi.parquet", "sa.csv"]);
    // Both agree on the classes with what the two queries say.
    let check =
        "SELECT count(*) FROM (SELECT class_id, count(*) AS n FROM 'qi.parquet' GROUP BY 1) AS q
        FULL JOIN (SELECT class_id, count(*) AS n FROM 'sa.csv' GROUP BY 1) AS s USING (class_id)
        WHERE (q.n IS DISTINCT FROM s.n) OR q.n < 4";
    let rows = run_in(directory.path(), &["--format", "csv", "-q", "-c", check]);
    assert_eq!(rows.stdout, "count(*)\n0\n");
    let same = format!("{TWO_TABLES} EXCEPT SELECT class_id, occupation FROM 'sa.csv'");
    let rows = run_in(directory.path(), &["--format", "csv", "-q", "-c", &same]);
    assert_eq!(
        (rows.code, rows.stdout.trim()),
        (Some(0), "class_id,occupation"),
        "{}",
        rows.stderr
    );
    // A second release must not stand beside the first.
    let outcome = run_in(directory.path(), &arguments);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("'qi.parquet' is there already"), "{}", outcome.stderr);
}

#[test]
fn publish_takes_any_file_name() {
    let directory = TempDir::new().unwrap();
    for (qi, sa) in [("ü.parquet", "a b%41#~.csv"), ("Öl/1 %.json", "Öl/2.parquet")] {
        fs::create_dir_all(directory.path().join("Öl")).unwrap();
        let arguments = ["publish", "-c", TWO_TABLES, "--quasi-identifiers", qi, "--sensitive", sa];
        let outcome = run_in(directory.path(), &arguments);
        assert_eq!(outcome.code, Some(0), "{qi}, {sa}: {}", outcome.stderr);
        assert!(directory.path().join(qi).exists() && directory.path().join(sa).exists());
    }
    assert_eq!(files_in(directory.path()), ["a b%41#~.csv", "Öl", "ü.parquet"]);
    assert_eq!(files_in(&directory.path().join("Öl")), ["1 %.json", "2.parquet"]);
}

#[test]
fn a_failed_publish_leaves_neither_file_behind() {
    let broken = TWO_TABLES.replace("alpha => 0.3", "alpha => 0.01");
    let paper = TWO_TABLES.replace("k => 4", "k => 4, variant => 'paper'");
    let generalized = TWO_TABLES
        .replace("method => 'alpha_k'", "method => 'rounded'")
        .replace(", publish => 'sensitive'", "");
    let below = format!(
        "SELECT age FROM ({})",
        TWO_TABLES.rsplit_once(';').unwrap().1.replace("'sensitive'", "'quasi_identifiers'")
    );
    let below = format!("{}; {below}", TWO_TABLES.rsplit_once(';').unwrap().0);
    for (sql, qi, sa, message) in [
        (broken.as_str(), "qi.parquet", "sa.parquet", "no class of the table's rows satisfies"),
        (paper.as_str(), "qi.parquet", "sa.parquet", "variant => 'paper' of method 'alpha_k'"),
        (generalized.as_str(), "qi.parquet", "sa.parquet", "two tables are published by"),
        (below.as_str(), "qi.parquet", "sa.parquet", "two tables are published by"),
        ("SELECT 1", "qi.parquet", "sa.parquet", "two tables are published by"),
        (
            "CREATE TABLE t AS SELECT 1",
            "qi.parquet",
            "sa.parquet",
            "the last statement must be SELECT",
        ),
        (TWO_TABLES, "qi.parquet", "qi.parquet", "need two files"),
        (TWO_TABLES, "qi.parquet", "s*.parquet", "is a pattern of names"),
        (TWO_TABLES, "qi.parquet", "sa.xlsx", "must end in .parquet, .csv or .json"),
        (TWO_TABLES, "qi.parquet", "/dev/null/sa.parquet", ""),
    ] {
        let directory = TempDir::new().unwrap();
        let arguments = ["publish", "-c", sql, "--quasi-identifiers", qi, "--sensitive", sa];
        let outcome = run_in(directory.path(), &arguments);
        assert_eq!(outcome.code, Some(1), "{sa}: {}", outcome.stdout);
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
        assert_eq!(files_in(directory.path()), [""; 0], "{}", outcome.stderr);
    }
    let outcome = run(&["publish", "--quasi-identifiers", "qi.parquet"]);
    assert_eq!(outcome.code, Some(2));
}
