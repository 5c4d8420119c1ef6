//! Rows, types, errors.

use crate::server::{RAW_NAME, Server, has_psql};

#[test]
fn values_missing_values_and_types_arrive() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    assert_eq!(server.answer("SELECT count(*) FROM patients_k10"), "400");
    assert_eq!(
        server.answer("SELECT count(*) - count(salary_class) > 0 FROM patients_k10"),
        "t",
        "missing values stay missing"
    );
    let shown = server.psql(&["-P", "null=(missing)", "-c", "SELECT NULL, 1, 'x'"]);
    assert_eq!(shown.stdout, "(missing)|1|x\n");
    let typed = "SELECT 1::smallint, 2::int, 3::bigint, 1.5::double precision, 1.25::numeric(5, 2), true, 'a',
        DATE '2026-02-28', TIMESTAMP '2026-02-28 01:02:03', ARRAY[1, 2]";
    assert_eq!(
        server.answer(typed),
        "1|2|3|1.5|1.25|t|a|2026-02-28|2026-02-28 01:02:03.000000|{1,2}"
    );
    // A generalized number as bounds is a composite.
    let bounds = server.answer("SELECT age FROM ages LIMIT 1");
    assert!(bounds.starts_with('(') && bounds.contains(','), "{bounds}");
    // A class of one value publishes it.
    let dates =
        server.answer("SELECT count(*) FROM patients_k10 WHERE birth_date < DATE '2026-01-01'");
    assert_eq!(dates, "400");
    assert_eq!(server.answer("SELECT current_user, current_database()"), "local|releases");
}

/// Dashboards ask for totals beside rows.
#[test]
fn subqueries_among_the_results_are_answered() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let total =
        "SELECT (SELECT count(*) FROM patients_k10 WHERE patients_k10.age IS NOT NULL) AS n";
    assert_eq!(server.answer(total), "400");
    let common =
        "WITH c AS (SELECT count(*) AS n FROM patients_k10) SELECT (SELECT c.n FROM c) AS total";
    assert_eq!(server.answer(common), "400");
    let correlated = "SELECT bool_and(n >= 1) FROM (SELECT (SELECT count(*) FROM patients_k10 b WHERE b.occupation = p.occupation) AS n
        FROM patients_k10 p) t";
    assert_eq!(server.answer(correlated), "t");
    let many = server.psql(&["-c", "SELECT (SELECT age FROM patients_k10) AS many"]);
    assert!(!many.stderr.is_empty() && many.stdout.is_empty(), "{}", many.stdout);
    let long: Vec<String> = (0..5_000).map(|number| format!("'{number}'")).collect();
    let long =
        format!("SELECT count(*) FROM patients_k10 WHERE occupation IN ({})", long.join(","));
    assert_eq!(server.answer(&long), "0");
}

#[test]
fn nested_and_unusual_values_arrive_as_postgres_writes_them() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    for (sql, expected) in [
        (
            r#"named_struct('a', 'x y', 'b', NULL, 'c', 'say "hi"', 'd', '', 'e', 1, 'f', true, 'g', 'a\b')"#,
            r#"("x y",,"say ""hi""","",1,t,"a\\b")"#,
        ),
        ("named_struct('in', named_struct('a', 1, 'b', 'c,d'))", r#"("(1,""c,d"")")"#),
        ("named_struct('list', ['a', 'b c', NULL])", r#"("{a,""b c"",NULL}")"#),
        (
            "named_struct('on', TIMESTAMP '2026-02-28 01:02:03', 'day', DATE '2026-02-28')",
            r#"("2026-02-28 01:02:03",2026-02-28)"#,
        ),
        ("[[1, 2], [3]]", "{{1,2},{3}}"),
        ("[named_struct('a', 1, 'b', 'x y')]", r#"{"(1,\"x y\")"}"#),
        ("arrow_cast(1.5, 'Float16')", "1.5"),
        (
            "arrow_cast('123456789012345678901234567890123456789012.25', 'Decimal256(60, 2)')",
            "123456789012345678901234567890123456789012.25",
        ),
    ] {
        assert_eq!(server.answer(&format!("SELECT {sql} AS value")), expected, "{sql}");
    }
    let failure = server.failure("SELECT arrow_cast(['a'], 'ListView(Utf8)') AS strange");
    assert!(failure.contains("0A000") && failure.contains("'strange'"), "{failure}");
}

#[test]
fn every_class_of_what_clients_see_has_at_least_k_rows() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let smallest =
        "SELECT min(n) >= 10 FROM (SELECT count(*) AS n FROM patients_k10 GROUP BY age, zip) AS c";
    assert_eq!(server.answer(smallest), "t");
    let report = "SELECT holds FROM privacy_report(patients_k10, quasi_identifiers => ['age', 'zip'], k => 10)
        WHERE measure = 'k'";
    assert_eq!(server.answer(report), "t");
    // Clients may anonymize further what they see.
    let coarser = "SELECT count(*) FROM anonymize((SELECT age, zip FROM patients_k10), k => 50,
        quasi_identifiers => ['age', 'zip'])";
    assert_eq!(server.answer(coarser), "400");
    let all = server.answer("SELECT * FROM patients_k10");
    assert!(!all.contains(RAW_NAME));
}

#[test]
fn the_catalog_shows_what_the_user_may_see() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let tables = server.psql_as("analyst", "open sesame", &["-c", "\\dt"]);
    assert_eq!(tables.stdout, "public|patients_k10|table|postgres\n", "{}", tables.stderr);
    let described = server.psql_as("analyst", "open sesame", &["-c", "\\d patients_k10"]);
    assert!(described.stdout.contains("hours_per_week|integer"), "{described:?}");
    assert!(!described.stdout.contains("name"), "{described:?}");
    let columns =
        "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = 'public'";
    let listed = server.psql_as("analyst", "open sesame", &["-c", columns]);
    assert_eq!(listed.stdout, "patients_k10\n");
    assert_eq!(server.answer(&format!("{columns} ORDER BY 1")), "ages\npatients_k10");
}

#[test]
fn errors_have_their_code_and_a_sentence() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    for (sql, expected) in [
        ("SELEC 1", "42601: sql parser error: Expected: an SQL statement"),
        ("SELECT missing FROM ages", "42703: No field named missing"),
        ("SELECT * FROM missing", "42P01: table 'releases.public.missing' not found"),
        ("SELECT missing(1)", "42883: Invalid function 'missing'"),
        ("SELECT 1 / 0", "22012: Divide by zero"),
        ("SELECT 'abc'::int", "22P02: Cannot cast string 'abc'"),
        ("SET no_such_setting = 1", "42704: unrecognized configuration parameter"),
        ("DROP TABLE ages", "42501: permission denied"),
        ("SHOW ALL", "0A000: SHOW shows one setting"),
        ("SHOW datafusion.execution.batch_size", "42501: permission denied"),
        ("SHOW no_such_setting", "42704: unrecognized configuration parameter"),
        ("SELECT * FROM information_schema.df_settings", "42P01: table"),
        ("SELECT input_file_name() FROM ages", "42883: Invalid function"),
        // The program makes up rows for trials, and the service has none of it.
        ("SELECT * FROM sample_census()", "42P01: table function 'sample_census' not found"),
        (
            "SELECT * FROM sample_hierarchy('sex')",
            "42P01: table function 'sample_hierarchy' not found",
        ),
    ] {
        let failure = server.failure(sql);
        assert!(failure.contains(expected), "{sql}: {failure}");
    }
    // The connection goes on after an error, and a failed transaction until its end.
    let session = server.psql(&["-c", "SELECT 1 / 0", "-c", "SELECT 'still here'"]);
    assert_eq!(session.stdout, "still here\n");
    let session = server.psql(&[
        "-c",
        "BEGIN",
        "-c",
        "SELECT 1 / 0",
        "-c",
        "SELECT 2",
        "-c",
        "ROLLBACK",
        "-c",
        "SELECT 3",
    ]);
    assert!(session.stderr.contains("25P02"), "{session:?}");
    assert_eq!(session.stdout, "BEGIN\nROLLBACK\n3\n");
}
