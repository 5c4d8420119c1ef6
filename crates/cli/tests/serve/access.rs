//! Who is let in, and to what.

use std::fs;

use crate::server::{RAW_NAME, Server, has_psql, holds};

#[test]
fn a_wrong_password_and_an_unknown_user_are_refused_alike() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let right = server.psql_as("analyst", "open sesame", &["-c", "SELECT 1"]);
    assert_eq!(right.stdout, "1\n", "{}", right.stderr);
    assert_eq!(server.psql_as("steward", "keys", &["-c", "SELECT 1"]).stdout, "1\n");
    for (user, password) in
        [("analyst", "open says me"), ("nobody", "open sesame"), ("analyst", "")]
    {
        let wrong = server.psql_as(user, password, &["-c", "SELECT count(*) FROM patients_k10"]);
        assert_eq!(wrong.code, Some(2), "{user}");
        assert_eq!(wrong.stdout, "");
    }
    let wrong = server.psql_as("nobody", "x", &["-c", "SELECT 1"]).stderr;
    assert!(wrong.contains("password authentication failed for user \"nobody\""), "{wrong}");
    let log = server.log();
    assert!(!log.contains("open sesame") && !log.contains("open says me"), "{log}");
}

#[test]
fn a_view_of_somebody_else_does_not_exist() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let other = server.psql_as("analyst", "open sesame", &["-c", "SELECT * FROM ages"]);
    assert!(other.stderr.contains("42P01: table 'releases.public.ages' not found"), "{other:?}");
    let denied =
        server.psql_as("analyst", "open sesame", &["-c", "REFRESH MATERIALIZED VIEW patients_k10"]);
    assert!(denied.stderr.contains("42501"), "{denied:?}");
}

#[test]
fn no_way_leads_to_a_raw_table() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let raw = server.setting.path("patients.parquet").display().to_string();
    let leak = server.setting.path("leak").display().to_string();
    let by_name = [
        "patients",
        "public.patients",
        "releases.public.patients",
        "datafusion.public.patients",
        "\"patients\"",
        "\"patients.parquet\"",
    ];
    let mut attempts: Vec<String> =
        by_name.iter().map(|name| format!("SELECT * FROM {name}")).collect();
    attempts.extend(by_name.iter().map(|name| format!("TABLE {name}")));
    attempts.extend([
        format!("SELECT * FROM '{raw}'"),
        format!("SELECT * FROM \"{raw}\""),
        format!("SELECT * FROM \"file://{raw}\""),
        "SELECT * FROM 'release://views/patients_k10/'".to_owned(),
        format!("SELECT * FROM parquet_metadata('{raw}')"),
        format!("SELECT * FROM read_parquet('{raw}')"),
        format!("SELECT pg_read_file('{raw}')"),
        "SELECT * FROM anonymize(patients, k => 2, quasi_identifiers => ['age'])".to_owned(),
        format!("SELECT * FROM anonymize((SELECT * FROM '{raw}'), k => 2, quasi_identifiers => ['age'])"),
        "SELECT * FROM privacy_report(patients, quasi_identifiers => ['age'])".to_owned(),
        format!(
            "SELECT * FROM anonymize((SELECT zip FROM patients_k10), k => 2, quasi_identifiers => ['zip'],
                hierarchies => named_struct('zip', '{raw}'))"
        ),
        format!("COPY patients_k10 TO '{leak}'"),
        format!("COPY (SELECT 1) TO '{leak}' STORED AS PARQUET"),
        format!("COPY patients_k10 FROM '{raw}'"),
        "COPY patients_k10 TO STDOUT".to_owned(),
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{raw}'"),
        "CREATE TABLE t AS SELECT 1".to_owned(),
        "CREATE VIEW v AS SELECT 1".to_owned(),
        "SELECT 1 INTO t".to_owned(),
        "INSERT INTO patients_k10 SELECT * FROM patients_k10".to_owned(),
        "WITH d AS (DELETE FROM patients_k10) SELECT 1".to_owned(),
        "SET datafusion.catalog.location = '/'".to_owned(),
        "SET datafusion.execution.time_zone = 'UTC'".to_owned(),
        "SET anonymize.default_k = 2".to_owned(),
        "RESET datafusion.catalog.location".to_owned(),
        "EXPLAIN VERBOSE SELECT * FROM patients_k10".to_owned(),
        "EXPLAIN (VERBOSE) SELECT * FROM patients_k10".to_owned(),
        "EXPLAIN SELECT * FROM patients".to_owned(),
        "PREPARE p AS SELECT * FROM patients".to_owned(),
        "DECLARE c CURSOR FOR SELECT * FROM patients".to_owned(),
        "DESCRIBE patients".to_owned(),
    ]);
    for sql in &attempts {
        let failure = server.failure(sql);
        assert!(failure.contains("ERROR"), "{sql}: {failure}");
        assert!(!failure.contains(RAW_NAME), "{sql}: {failure}");
    }
    // One message, several statements: the raw one fails, and nothing of it was done.
    let several = server.failure("SELECT 1; SELECT * FROM patients; SELECT 2");
    assert!(several.contains("42P01"), "{several}");
    let several = server.failure(&format!("SELECT 1; COPY patients_k10 TO '{leak}'"));
    assert!(several.contains("42501"), "{several}");
    assert!(!fs::exists(leak).unwrap());
    // What was asked in vain is not in the log, nor is a value of the data or the seed.
    let log = server.log();
    for secret in [RAW_NAME, "a secret of the tests", "parquet_metadata"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}

#[test]
fn nothing_of_the_state_holds_an_identifier_or_the_seed() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let mut found = 0;
    let mut directories = vec![server.setting.path("state")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found += 1;
                assert!(!holds(&path, RAW_NAME), "{}", path.display());
                assert!(!holds(&path, "a secret of the tests"), "{}", path.display());
            }
        }
    }
    assert!(found >= 6, "two releases with their manifests: {found}");
    assert!(holds(&server.setting.path("patients.parquet"), RAW_NAME), "the raw file has it");
}
