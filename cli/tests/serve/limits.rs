//! Many clients, long queries, little memory, and the end.

use std::fs;
use std::process::{Child, Stdio};

use crate::server::{Outcome, Server, has_psql};

/// Takes hours: 400³ pairs, none of which fits.
const LONG: &str =
    "SELECT count(*) FROM patients_k10 a, patients_k10 b, patients_k10 c, patients_k10 d
    WHERE a.hours_per_week + b.hours_per_week + c.hours_per_week + d.hours_per_week < 0";

fn start_long_query(server: &Server) -> Child {
    let mut psql = server.psql_command("local", "");
    let client = psql.args(["-c", "SELECT 'begun'", "-c", LONG]);
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first answer tells that the connection stands; the second statement follows at once.
    let mut begun = [0; 6];
    std::io::Read::read_exact(client.stdout.as_mut().unwrap(), &mut begun).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    client
}

fn interrupt(client: &Child) {
    let id = client.id().to_string();
    assert!(
        std::process::Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success()
    );
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
    interrupt(&client);
    let outcome = end(client);
    assert!(
        outcome.stderr.contains("57014: canceling statement due to user request"),
        "{outcome:?}"
    );
    // Its turn is free again.
    assert_eq!(server.answer("SELECT 1"), "1");
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
    // Several statements of one message have their turns together.
    assert_eq!(server.answer("SELECT 1; SELECT 2; SELECT 3").lines().last(), Some("3"));
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
    assert!(!setting.path("state/patients_k10/staging").exists());
}

#[test]
fn a_query_that_runs_may_end_before_the_service_does() {
    if !has_psql() {
        return;
    }
    let server = Server::with("grace_seconds = 60");
    let mut psql = server.psql_command("local", "");
    let slow = "SELECT count(*) FROM patients_k10 a, patients_k10 b, patients_k10 c
        WHERE a.hours_per_week + b.hours_per_week + c.hours_per_week < 0";
    let client = psql
        .args(["-c", "SELECT 'begun'", "-c", slow])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut client = client.spawn().unwrap();
    let mut begun = [0; 6];
    std::io::Read::read_exact(client.stdout.as_mut().unwrap(), &mut begun).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    server.signal("INT");
    let outcome = end(client);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.stdout, "0\n");
    let (code, log, _) = server.end();
    assert_eq!(code, Some(0), "{log}");
}
