//! Many clients, long queries, little memory, and the end.

use std::fs;
use std::process::{Child, Stdio};

use crate::client::{PAIRS, Raw};
use crate::server::{Outcome, Server, has_psql};
use crate::shell::signal;

/// Takes hours: 400⁴ pairs, none of which fits.
const LONG: &str =
    "SELECT count(*) FROM patients_k10 a CROSS JOIN (SELECT b.hours_per_week AS h FROM patients_k10 b CROSS JOIN (
        SELECT c.hours_per_week AS h FROM patients_k10 c CROSS JOIN patients_k10 d) c) b
    WHERE a.hours_per_week + b.h < 0";

/// Returns when the query runs.
fn start_long_query(server: &Server) -> Child {
    let running = |log: &str| log.matches("user \"local\": a query runs").count();
    let before = running(&server.log());
    let mut psql = server.psql_command("local", "");
    let client = psql.args(["-c", LONG]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let client = client.spawn().unwrap();
    server.wait_for_log(|log| running(log) > before);
    client
}

fn end(client: Child) -> Outcome {
    client.wait_with_output().unwrap().into()
}

#[test]
fn statements_that_are_too_deep_are_refused_and_deep_ones_answered() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    for sql in [
        format!("SELECT 1{}", "+1".repeat(1_000)),
        format!("SELECT {}1{}", "abs(".repeat(30), ")".repeat(30)),
        format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(1_000)),
    ] {
        let failure = server.failure(&sql);
        assert!(failure.contains("54001"), "{failure}");
    }
    assert_eq!(server.answer(&format!("SELECT 1{}", "+1".repeat(550))), "551");
    assert_eq!(server.answer(&format!("SELECT {}true", "1=2 or ".repeat(250))), "t");
    let ones = server
        .answer(&format!("SELECT count(*) FROM (SELECT 1{}) t", " UNION ALL SELECT 1".repeat(150)));
    assert_eq!(ones, "151");
    // The largest that there are, of columns that planning cannot replace by their value.
    let chain = |times: usize| format!("hours_per_week{}", "+hours_per_week".repeat(times));
    let sum = server.answer(&format!("SELECT sum({}) FROM patients_k10", chain(590)));
    let once = server.answer("SELECT sum(hours_per_week) * 591 FROM patients_k10");
    assert_eq!(sum, once);
    let stacked = |levels: usize, times: usize| {
        let mut sql = "WITH c0 AS (SELECT hours_per_week AS a, zip FROM patients_k10)".to_owned();
        for level in 1..=levels {
            let more = "+length(zip)".repeat(times);
            sql += &format!(", c{level} AS (SELECT a{more} AS a, zip FROM c{})", level - 1);
        }
        format!("{sql} SELECT count(a) FROM c{levels}")
    };
    // Expressions that become deep when they are put together.
    assert_eq!(server.answer(&stacked(4, 280)), "400");
    let failure = server.failure(&stacked(10, 280));
    assert!(failure.contains("54001: an expression has at most"), "{failure}");
    let short = format!("1{}", "+1".repeat(500));
    let failure = server.failure(&format!("SELECT {}", vec![short; 25].join(", ")));
    assert!(failure.contains("54001: a statement has at most 10000"), "{failure}");
}

#[test]
fn a_window_over_a_few_long_values_is_answered() {
    if !has_psql() {
        return;
    }
    let server = Server::with("query_memory_mb = 8");
    // One of 400 rows has a text that, were all rows so wide, would not fit.
    let long = "x".repeat(40_000);
    let rows = format!(
        "SELECT zip, CASE WHEN row_number() OVER () = 1 THEN '{long}' ELSE zip END AS s FROM patients_k10"
    );
    let numbered = format!(
        "SELECT max(n), max(length(s)) FROM (SELECT s, row_number() OVER () AS n FROM ({rows}) AS r) AS t"
    );
    assert_eq!(server.answer(&numbered), "400|40000");
    // As the value of every row it would not.
    let repeated = format!(
        "SELECT max(length(f)) FROM (SELECT first_value(s) OVER () AS f FROM ({rows}) AS r) AS t"
    );
    let failure = server.failure(&repeated);
    assert!(failure.contains("53200: rows of up to"), "{failure}");
    // Nor as a constant.
    let constant = format!(
        "SELECT max(length(f)) FROM (SELECT max('{long}') OVER () AS f FROM patients_k10) AS t"
    );
    let failure = server.failure(&constant);
    assert!(failure.contains("53200: rows of up to"), "{failure}");
    for default in [format!("'{long}'"), "replace('a', 'a', zip)".to_owned()] {
        let failure =
            server.failure(&format!("SELECT lag(zip, 1, {default}) OVER () FROM patients_k10"));
        assert!(failure.contains("0A000: "), "{failure}");
    }
    let numbers = "(VALUES (1), (2)) AS t (n)";
    let lagged = format!(
        "SELECT string_agg(l::text, ' ') FROM (SELECT lag(n, 1, -1) OVER () AS l FROM {numbers}) AS u"
    );
    assert_eq!(server.answer(&lagged), "-1 1");
}

#[test]
fn fifty_clients_are_answered_at_once() {
    if !has_psql() {
        return;
    }
    let server = Server::with("max_queries = 4");
    let expected = server.answer("SELECT count(DISTINCT age), count(*) FROM patients_k10");
    let clients: Vec<Child> = (0..50)
        .map(|_| {
            server
                .psql_command("analyst", "open sesame")
                .args(["-c", "SELECT count(DISTINCT age), count(*) FROM patients_k10"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for client in clients {
        let outcome = end(client);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert_eq!(outcome.stdout.trim_end(), expected);
    }
}

#[test]
fn a_query_is_cancelled_and_its_connection_goes_on() {
    if !has_psql() {
        return;
    }
    let server = Server::with("max_queries = 1");
    let client = start_long_query(&server);
    signal(client.id(), "INT");
    let outcome = end(client);
    assert!(
        outcome.stderr.contains("57014: canceling statement due to user request"),
        "{outcome:?}"
    );
    // Its turn is free again.
    assert_eq!(server.answer("SELECT 1"), "1");
    // Several statements of one message have their turns together.
    assert_eq!(server.answer("SELECT 1; SELECT 2; SELECT 3").lines().last(), Some("3"));
}

#[test]
fn a_client_that_is_gone_gives_its_turn_back() {
    if !has_psql() {
        return;
    }
    let server = Server::with("max_queries = 1");
    let mut client = start_long_query(&server);
    client.kill().unwrap();
    client.wait().unwrap();
    server.wait_for_log(|log| log.contains("hung up during a query"));
    assert_eq!(server.answer("SELECT 1"), "1");
}

#[test]
fn a_query_ends_with_its_time() {
    if !has_psql() {
        return;
    }
    let server = Server::with("query_timeout_seconds = 2\nmax_queries = 1");
    let late = server.failure(LONG);
    assert!(late.contains("57014: canceling statement due to statement timeout"), "{late}");
    // A client may ask for less, and not for more.
    let less = server.psql(&["-c", "SET statement_timeout = '200ms'", "-c", LONG]);
    assert!(less.stderr.contains("statement timeout"), "{less:?}");
    let more = server.psql(&["-c", "SET statement_timeout = '1h'", "-c", LONG]);
    assert!(more.stderr.contains("statement timeout"), "{more:?}");
}

#[test]
fn a_query_ends_with_its_memory() {
    if !has_psql() {
        return;
    }
    let server = Server::with("query_memory_mb = 1");
    let large = server.failure(
        "SELECT length(array_to_string(array_agg(a.occupation || b.occupation), '')) FROM patients_k10 a, patients_k10 b",
    );
    assert!(large.contains("53200: "), "{large}");
    assert_eq!(server.answer("SELECT count(*) FROM patients_k10"), "400");
    let endless = server.failure("SELECT repeat('x', 2000000000)");
    assert!(endless.contains("42883"), "{endless}");
}

/// The engine runs the smaller side of such a join again when memory is short, and may panic when it does.
#[test]
fn a_query_that_breaks_off_is_an_error_and_not_an_empty_answer() {
    if !has_psql() {
        return;
    }
    let server = Server::with("query_memory_mb = 1");
    let outcome = server.psql(&[
        "-c",
        "SELECT count(*) FROM patients_k10 a, patients_k10 b, patients_k10 c
         WHERE a.hours_per_week + b.hours_per_week + c.hours_per_week < 0",
    ]);
    match outcome.code {
        Some(0) => assert_eq!(outcome.stdout.trim_end(), "0"),
        _ => assert!(outcome.stderr.contains("ERROR: "), "{outcome:?}"),
    }
    assert_eq!(server.answer("SELECT count(*) FROM patients_k10"), "400");
}

#[test]
fn too_many_connections_are_told() {
    if !has_psql() {
        return;
    }
    let server = Server::with("max_connections = 1");
    let mut first = start_long_query(&server);
    let second = server.psql(&["-c", "SELECT 1"]);
    assert_eq!(second.code, Some(2));
    assert!(second.stderr.contains("too many clients"), "{second:?}");
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn the_service_stops_when_it_is_told_and_leaves_nothing_behind() {
    if !has_psql() {
        return;
    }
    let server = Server::with("temp_dir = \"spill\"\ngrace_seconds = 1");
    let spill = server.setting.path("spill");
    let client = start_long_query(&server);
    server.signal("TERM");
    let (code, log, setting) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("running queries have 1 seconds"), "{log}");
    assert!(log.contains("1 connections are cut off"), "{log}");
    assert_ne!(end(client).code, Some(0));
    let left: Vec<_> =
        fs::read_dir(spill).map(|found| found.flatten().collect()).unwrap_or_default();
    assert!(left.is_empty(), "{left:?}");
    let staged = fs::read_dir(setting.path("state/patients_k10/.staging"));
    assert_eq!(staged.map_or(0, Iterator::count), 0);
}

#[test]
fn a_query_that_runs_may_end_before_the_service_does() {
    let server = Server::with("grace_seconds = 3600");
    let mut client = Raw::logged_in(&server);
    // It cannot end before it is read.
    client.query(PAIRS);
    assert_eq!(client.until("D").0, "TD");
    server.signal("INT");
    server.wait_for_log(|log| log.contains("stopping: running queries have 3600 seconds"));
    let kinds = client.kinds();
    assert_eq!(kinds.matches('D').count(), 400 * 400 - 1);
    assert!(kinds.ends_with("CZ") && !kinds.contains('E'));
    let (code, log, _) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("cut off"), "{log}");
}

#[test]
fn no_expression_outgrows_the_memory() {
    if !has_psql() {
        return;
    }
    let server = Server::with("query_memory_mb = 64");
    let grow = |by: &str, times: usize| {
        (0..times).fold("'0123456789'".to_owned(), |inner, _| by.replace('?', &inner))
    };
    let doubled = |levels: usize, text: &str| {
        let mut with = format!("WITH c0 AS (SELECT {text} AS s FROM patients_k10)");
        for level in 1..=levels {
            with += &format!(", c{level} AS (SELECT s || s AS s FROM c{})", level - 1);
        }
        format!("{with} SELECT max(length(s)) FROM c{levels}")
    };
    let long_text = "x".repeat(100_000);
    for sql in [
        // Constants, at planning time and at run time.
        format!("SELECT length({})", grow("replace(?, '0', '0000000000')", 12)),
        format!("SELECT length({})", grow("regexp_replace(?, '.', '0123456789', 'g')", 12)),
        format!("SELECT * FROM generate_series(1, length({}))", grow("replace(?, '0', '0000000000')", 9)),
        // Values of rows.
        format!("SELECT max(length({})) FROM patients_k10", grow("replace(?, '0', '0000000000')", 12).replace("'0123456789'", "('0' || zip)")),
        format!("SELECT {} FROM patients_k10", grow("regexp_replace(?, '(.)', '\\1\\1\\1\\1\\1\\1', 'g')", 12).replace("'0123456789'", "('0' || zip)")),
        "SELECT length(array_to_string(string_to_array(replace(replace('0' || zip, '0', '0000000000'), '0', '0000000000'), NULL),
            replace(replace(replace('0' || zip, '0', '0000000000'), '0', '0000000000'), '0', '0000000000'))) FROM patients_k10".to_owned(),
        doubled(28, "zip"),
        // Values that are repeated.
        format!("SELECT '{long_text}', age FROM patients_k10"),
        format!("SELECT b.zip, a.s FROM (SELECT string_agg(zip || '{}', '') AS s FROM patients_k10) a, patients_k10 b", "y".repeat(1000)),
        format!("SELECT (SELECT string_agg(zip || '{}', '') FROM patients_k10), zip FROM patients_k10", "y".repeat(1000)),
        "SELECT string_agg(zip, ',') OVER () FROM patients_k10".to_owned(),
        "SELECT array_agg(zip) OVER (ORDER BY age) FROM patients_k10".to_owned(),
        "SELECT ARRAY[1]::int[1000000000]".to_owned(),
        "SELECT arrow_cast('x', 'FixedSizeBinary(2000000000)')".to_owned(),
    ] {
        let failure = server.failure(&sql);
        let shown: String = sql.chars().take(80).collect();
        assert!(
            // The last code is of arguments that planning could not compute.
            ["53200: ", "0A000: ", "42000: "].iter().any(|code| failure.contains(code)),
            "{shown}: {failure}"
        );
        assert!(failure.len() < 1_000, "{shown}");
    }
    // Ordinary work goes on, with the same functions.
    assert_eq!(server.answer("SELECT length(replace('a-b', '-', '--'))"), "4");
    assert_eq!(server.answer("SELECT 'a' || 'b' || NULL IS NULL, concat('a', NULL, 'b')"), "t|ab");
    assert_eq!(
        server.answer(
            "SELECT count(*) FROM patients_k10 WHERE regexp_replace(zip, '.', 'x') LIKE 'x%'"
        ),
        "400"
    );
    assert_eq!(server.answer("SELECT max(length(zip || age)) > 0 FROM patients_k10"), "t");
    assert_eq!(
        server.answer("SELECT length(string_agg(replace(occupation, ' ', '__'), ', ')) > 400 FROM patients_k10"),
        "t"
    );
    assert_eq!(server.answer(&doubled(8, "'ab'")), "512");
}

#[test]
fn statements_that_become_too_large_are_not_planned() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let doubling = |levels: usize, uses: &str, end: &str| {
        let mut sql = "WITH c0 AS (SELECT zip AS s FROM patients_k10)".to_owned();
        for level in 1..=levels {
            let before = format!("c{}", level - 1);
            sql += &format!(", c{level} AS ({})", uses.replace('?', &before));
        }
        format!("{sql} SELECT count(*) FROM c{levels} {end}")
    };
    let tables = "SELECT a.s FROM ? a JOIN ? b ON a.s = b.s";
    let columns = "SELECT s || s AS s FROM ?";
    for sql in [
        doubling(40, tables, ""),
        doubling(40, "SELECT * FROM ? UNION ALL SELECT * FROM ?", ""),
        doubling(40, columns, "WHERE s = 'x'"),
        doubling(40, "SELECT CASE WHEN s > 'a' THEN s ELSE s END AS s FROM ? WHERE s <> 'b'", ""),
    ] {
        let failure = server.failure(&sql);
        assert!(failure.contains("54001: "), "{failure}");
    }
    assert_eq!(
        server.answer(&doubling(
            4,
            "SELECT DISTINCT a.s FROM ? a JOIN ? b ON a.s = b.s",
            "WHERE s = 'x'"
        )),
        "0"
    );
    assert_eq!(server.answer(&doubling(6, columns, "WHERE s = 'x'")), "0");
}
