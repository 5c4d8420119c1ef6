//! What Postgres writes differently from the engine, and what it means there.

use crate::server::{Server, has_psql};

#[test]
fn array_literals_are_read_as_postgres_reads_them() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    for (sql, expected) in [
        (r#"SELECT '{"a,b"}'::text[], cardinality('{"a,b"}'::text[])"#, r#"{"a,b"}|1"#),
        (r#"SELECT CAST('{a,"b c",NULL,"NULL"}' AS text[])"#, r#"{a,"b c",NULL,"NULL"}"#),
        ("SELECT '{1,-2, 3 }'::int[]", "{1,-2,3}"),
        ("SELECT '{t,f}'::boolean[]", "{t,f}"),
        ("SELECT '{2024-02-29}'::date[]", "{2024-02-29}"),
        ("SELECT cardinality('{}'::text[])", "0"),
        (
            r#"SELECT 'Sales' = ANY('{"Sales"}'), 'a' = ANY('{"a,b"}'), 'a,b' = ANY('{"a,b"}')"#,
            "t|f|t",
        ),
        (
            "SELECT 2 = ANY('{1,2}') AS a, 2 = ANY('{1,2}'::int[]) AS b, 3 = ANY(ARRAY[1, 2]) AS c",
            "t|t|f",
        ),
        ("SELECT 'a' <> ALL('{b,c}'), 'a' <> ALL('{a,b}'), 'a' <> ALL('{}')", "t|f|t"),
        // A missing value may be any: the answer is not known.
        ("SELECT 'a' <> ALL('{b,NULL}') IS NULL, 'a' = ANY(ARRAY['b', NULL]) IS NULL", "t|t"),
        ("SELECT (SELECT 'it''''s') || (SELECT 'a\\''b')", "it''sa\\'b"),
    ] {
        assert_eq!(server.answer(sql), expected, "{sql}");
    }
    let all = server
        .answer("SELECT count(*) FROM patients_k10 WHERE occupation IN ('Sales', 'Tech-support')");
    let any =
        r#"SELECT count(*) FROM patients_k10 WHERE occupation = ANY('{"Sales","Tech-support"}')"#;
    assert_eq!(server.answer(any), all);
    for (sql, expected) in [
        ("SELECT '{a'::text[]", "22P02: malformed array literal"),
        ("SELECT 'a,b'::text[]", "22P02: malformed array literal"),
        ("SELECT occupation::text[] FROM patients_k10", "0A000: a text cannot be cast to an array"),
        ("SELECT ('{a,' || 'b}')::text[]", "0A000: a text cannot be cast to an array"),
    ] {
        let failure = server.failure(sql);
        assert!(failure.contains(expected), "{sql}: {failure}");
    }
}

#[test]
fn dates_are_written_by_the_patterns_of_postgres() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let time = "TIMESTAMP '2024-03-05 16:07:09.5'";
    for (sql, expected) in [
        ("SELECT to_char(DATE '2024-03-05', 'YYYY-MM-DD')".to_owned(), "2024-03-05"),
        (format!("SELECT to_char({time}, 'YYYY-MM-DD HH24:MI:SS.MS')"), "2024-03-05 16:07:09.500"),
        (format!("SELECT to_char({time}, 'FMDay, DD FMMonth YYYY \"Q\"Q')"), "Tuesday, 05 March 2024 Q1"),
        (format!("SELECT to_char({time}, 'Mon')||to_char({time}, p) FROM (VALUES ('-YY')) t(p)"), "Mar-24"),
        ("SELECT to_char(NULL::date, 'YYYY') IS NULL, to_char(DATE '2024-03-05', NULL) IS NULL".to_owned(), "t|t"),
        ("SELECT date_format(DATE '2024-03-05', '%d.%m.%Y')".to_owned(), "05.03.2024"),
        (
            "SELECT count(*) FROM patients_k10 WHERE to_char(birth_date, 'YYYY-MM-DD') = birth_date::text".to_owned(),
            "400",
        ),
    ] {
        assert_eq!(server.answer(&sql), expected, "{sql}");
    }
    for (sql, expected) in [
        ("SELECT to_char(DATE '2024-03-05', '%Y')", "date_format"),
        ("SELECT to_char(DATE '2024-03-05', 'YYYY BC')", "does not know the pattern BC"),
        ("SELECT to_char(12.5, '99D9')", "to_char takes a date or timestamp here"),
    ] {
        let failure = server.failure(sql);
        assert!(failure.contains(expected), "{sql}: {failure}");
    }
}

#[test]
fn what_dashboards_write_is_answered() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let case = "sum(CASE WHEN hours_per_week > ? AND salary_class IS NOT NULL THEN 1 WHEN hours_per_week < -? THEN 2
        WHEN zip LIKE '?%' THEN 3 ELSE 0 END) AS c?";
    let numbered = |text: &str, count: usize, between: &str| {
        let each: Vec<String> = (0..count).map(|n| text.replace('?', &n.to_string())).collect();
        each.join(between)
    };
    let columns = server.answer(&format!("SELECT {} FROM patients_k10", numbered(case, 40, ", ")));
    assert_eq!(columns.split('|').count(), 40);
    let branch = "SELECT '?' AS part, count(*) AS n FROM patients_k10 WHERE hours_per_week >= ? AND age IS NOT NULL";
    let united = server.answer(&numbered(branch, 50, " UNION ALL "));
    assert_eq!(united.lines().count(), 50);
    let rows = numbered("(?, -?, 'a?')", 400, ", ");
    assert_eq!(
        server.answer(&format!("SELECT count(*), sum(b) FROM (VALUES {rows}) t(a, b, c)")),
        "400|-79800"
    );
    let negative = numbered("-?", 1_000, ", ");
    assert_eq!(
        server.answer(&format!(
            "SELECT count(*) FROM patients_k10 WHERE hours_per_week NOT IN ({negative})"
        )),
        "400"
    );
    let days = numbered("'2024-01-01'::date + ?", 365, ", ");
    assert_eq!(server.answer(&format!("SELECT DATE '2024-12-30' IN ({days})")), "t");
}

#[test]
fn questions_of_psql_are_answered_or_refused_in_plain_words() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    for (question, expected) in [
        ("\\dt", "public|patients_k10|table"),
        ("\\dt+", "public|patients_k10|table"),
        ("\\d patients_k10", "hours_per_week|integer"),
        ("\\dn", "public|"),
        ("\\l", "releases|"),
    ] {
        let outcome = server.psql(&["-c", question]);
        assert_eq!(outcome.code, Some(0), "{question}: {}", outcome.stderr);
        assert!(outcome.stdout.contains(expected), "{question}: {}", outcome.stdout);
    }
    for question in ["\\df", "\\du", "\\dT", "\\dp", "\\db", "\\dt+", "\\d+ ages", "\\do", "\\dd"] {
        let outcome = server.psql(&["-c", question]);
        let plain =
            outcome.stderr.contains("0A000: this question about the catalog is not answered here");
        assert!(outcome.code == Some(0) || plain, "{question}: {}", outcome.stderr);
        let told = outcome.stdout + &outcome.stderr;
        for secret in ["patients.parquet", "state/", "Valid fields", crate::server::RAW_NAME] {
            assert!(!told.contains(secret), "{question}: {told}");
        }
        assert!(!told.lines().any(|line| line.contains("|patients|")), "{question}: {told}");
    }
    // Mistakes in other questions are explained as before.
    let mistake = server.failure("SELECT no_such FROM patients_k10");
    assert!(mistake.contains("42703: "), "{mistake}");
    assert_eq!(server.answer("SELECT pg_size_pretty(10240)"), "10 kB");
}
