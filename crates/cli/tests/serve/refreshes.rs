//! Releases are computed once, kept, and replaced as a whole.

use std::fs;
use std::process::Stdio;

use crate::client::{PAIRS, Raw};
use crate::server::{Outcome, Server, Setting, has_psql};
use crate::shell::signal;

fn current(setting: &Setting, view: &str) -> String {
    let manifest =
        fs::read_to_string(setting.path(&format!("state/{view}/manifest.json"))).unwrap();
    let line = manifest.lines().find(|line| line.contains("\"release\"")).unwrap();
    line.to_owned()
}

#[test]
fn a_restart_uses_the_release_that_is_there() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let rows = server.answer("SELECT * FROM patients_k10");
    let first = current(&server.setting, "patients_k10");
    server.signal("TERM");
    let (code, log, setting) = server.end();
    assert_eq!(code, Some(0), "{log}");
    let server = setting.start();
    assert!(server.log().contains("view patients_k10: release"), "{}", server.log());
    assert!(server.log().contains("is still good"), "{}", server.log());
    assert_eq!(current(&server.setting, "patients_k10"), first);
    assert_eq!(server.answer("SELECT * FROM patients_k10"), rows);
}

#[test]
fn a_release_whose_files_were_touched_is_made_anew() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let first = current(&server.setting, "patients_k10");
    server.signal("TERM");
    let (_, _, setting) = server.end();
    let directory = setting.path("state/patients_k10/current/published");
    let file = fs::read_dir(directory).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let server = setting.start();
    let log = server.log();
    assert!(log.contains("patients_k10: the last release cannot be used"), "{log}");
    assert_ne!(current(&server.setting, "patients_k10"), first);
    assert_eq!(server.answer("SELECT count(*) FROM patients_k10"), "400");
    // What cannot be read later is no business of the client.
    let directory = server.setting.path("state/patients_k10/current/published");
    let file = fs::read_dir(directory).unwrap().next().unwrap().unwrap().path();
    fs::write(file, b"not a table").unwrap();
    let failed = server.psql(&["-c", "SELECT age FROM patients_k10"]);
    assert!(failed.stderr.contains("a file of the release cannot be read"), "{}", failed.stderr);
    assert!(!failed.stderr.contains("state/"), "{}", failed.stderr);
}

#[test]
fn a_changed_policy_retires_the_old_release_at_once() {
    if !has_psql() {
        return;
    }
    let server = Server::new();
    let first = current(&server.setting, "patients_k10");
    server.signal("TERM");
    let (_, _, setting) = server.end();
    let policy = fs::read_to_string(setting.path("policy.toml")).unwrap();
    fs::write(setting.path("policy.toml"), policy.replacen("k = 10", "k = 40", 1)).unwrap();
    let server = setting.start();
    assert!(server.log().contains("patients_k10: the policy has changed"), "{}", server.log());
    assert!(server.log().contains("view ages: release") && server.log().contains("is still good"));
    assert_ne!(current(&server.setting, "patients_k10"), first);
    let smallest =
        "SELECT min(n) >= 40 FROM (SELECT count(*) AS n FROM patients_k10 GROUP BY age, zip) AS c";
    assert_eq!(server.answer(smallest), "t");
}

#[test]
fn a_changed_source_is_noticed() {
    if !has_psql() {
        return;
    }
    let server = Server::with("poll_seconds = 1");
    assert_eq!(server.answer("SELECT count(*) FROM ages"), "400");
    server.setting.write_patients(500);
    server.wait_for_log(|log| log.matches("with 500 rows").count() >= 2);
    assert_eq!(server.answer("SELECT count(*) FROM ages"), "500");
    assert_eq!(server.answer("SELECT count(*) FROM patients_k10"), "500");
}

#[test]
fn a_refresh_can_be_asked_for() {
    if !has_psql() {
        return;
    }
    let server = Server::with("poll_seconds = 0");
    let first = current(&server.setting, "ages");
    let done = server.psql_as("steward", "keys", &["-c", "REFRESH MATERIALIZED VIEW ages"]);
    assert_eq!(done.stdout, "REFRESH MATERIALIZED VIEW\n", "{}", done.stderr);
    let second = current(&server.setting, "ages");
    assert_ne!(first, second);
    server.signal("HUP");
    server.wait_for_log(|log| log.matches("view patients_k10: release").count() >= 2);
    server.wait_for_log(|log| log.matches("view ages: release").count() >= 3);
    assert_eq!(server.answer("SELECT count(*) FROM patients_k10"), "400");
}

#[test]
fn a_failed_refresh_keeps_the_old_release_and_tells_no_value() {
    if !has_psql() {
        return;
    }
    let server = Server::with("poll_seconds = 0");
    let rows = server.answer("SELECT * FROM patients_k10");
    let first = current(&server.setting, "patients_k10");
    // Too few rows for k = 10, but enough for a release of the other view.
    server.setting.write_patients(8);
    let failed =
        server.psql_as("steward", "keys", &["-c", "REFRESH MATERIALIZED VIEW patients_k10"]);
    assert!(failed.stderr.contains("XX000: not refreshed: "), "{failed:?}");
    server.wait_for_log(|log| log.contains("k = 10") && log.contains("the old release stays"));
    assert_eq!(current(&server.setting, "patients_k10"), first);
    assert_eq!(server.answer("SELECT * FROM patients_k10"), rows);
    assert!(!server.log().contains("Zebediah"), "{}", server.log());
    fs::remove_file(server.setting.path("patients.parquet")).unwrap();
    let failed = server.psql_as("steward", "keys", &["-c", "REFRESH MATERIALIZED VIEW ages"]);
    assert!(failed.stderr.contains("not refreshed"), "{failed:?}");
    // Files and raw columns are for the log.
    assert!(!failed.stderr.contains("parquet"), "{failed:?}");
    server.wait_for_log(|log| log.contains("patients.parquet"));
    assert_eq!(server.answer("SELECT count(*) FROM ages"), "400");
    let other = "COPY (SELECT 1 AS another, 2 AS column) TO '?' STORED AS PARQUET";
    let other = other.replace('?', &server.setting.path("patients.parquet").display().to_string());
    assert!(crate::server::program().args(["-q", "-c", &other]).output().unwrap().status.success());
    let failed = server.psql_as("steward", "keys", &["-c", "REFRESH MATERIALIZED VIEW ages"]);
    assert!(failed.stderr.contains("not refreshed: "), "{failed:?}");
    assert!(!failed.stderr.contains("another"), "{failed:?}");
    server.wait_for_log(|log| log.contains("another"));
    assert_eq!(server.answer("SELECT count(*) FROM ages"), "400");
}

fn refresh(server: &Server, view: &str) -> Outcome {
    let refresh = format!("REFRESH MATERIALIZED VIEW CONCURRENTLY {view}");
    server.psql_as("steward", "keys", &["-c", &refresh])
}

/// Somebody who has read a few rows of the current release, and rests.
fn reader(server: &Server) -> Raw {
    let mut reader = Raw::logged_in(server);
    reader.parse(PAIRS);
    reader.bind();
    reader.execute(3);
    assert_eq!(reader.until("sE").0, "12DDDs");
    reader
}

/// Reads the rest; how many rows they were.
fn read_on(reader: &mut Raw) -> usize {
    reader.execute(0);
    let (kinds, _) = reader.until("CE");
    assert!(kinds.ends_with('C'));
    3 + kinds.matches('D').count()
}

#[test]
fn a_refresh_ends_with_the_time_that_was_asked_for() {
    if !has_psql() {
        return;
    }
    let server = Server::with("poll_seconds = 0");
    // A refresh waits for those who read the release before the last: this one has no end of its own.
    let mut reader = reader(&server);
    assert_eq!(refresh(&server, "patients_k10").code, Some(0));
    let last = current(&server.setting, "patients_k10");
    for time in ["1ms", "1s"] {
        let time = format!("SET statement_timeout = '{time}'");
        let late = ["-c", &time, "-c", "REFRESH MATERIALIZED VIEW patients_k10"];
        let late = server.psql_as("steward", "keys", &late);
        assert!(
            late.stderr.contains("57014: canceling statement due to statement timeout"),
            "{late:?}"
        );
    }
    // Whether it had begun or not, it has ended: another one is not kept waiting.
    server.wait_for_log(|log| log.matches("whoever asked for it gave up").count() == 2);
    assert_eq!(refresh(&server, "ages").code, Some(0));
    assert_eq!(current(&server.setting, "patients_k10"), last);
    // The next one has the time that it needs.
    assert_eq!(read_on(&mut reader), 400 * 400);
    let done = refresh(&server, "patients_k10");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_ne!(current(&server.setting, "patients_k10"), last);
}

/// A view whose release is made at once from 400 patients or fewer, and never from more.
fn policy_with_an_endless_view(setting: &Setting) {
    setting.write_policy("poll_seconds = 0");
    let policy = fs::read_to_string(setting.path("policy.toml")).unwrap();
    let usual = "salary_class, occupation FROM patients\"";
    assert!(policy.contains(usual));
    let endless = "salary_class, occupation FROM patients WHERE hours_per_week >= (
        WITH RECURSIVE turns (n, most) AS (
            SELECT 0, CASE WHEN count(*) <= 400 THEN 0 ELSE 9000000000000000000 END FROM patients
            UNION ALL SELECT n + 1, most FROM turns WHERE n < most)
        SELECT min(n) FROM turns)";
    let policy = policy.replacen("query = \"SELECT name", "query = \"\"\"SELECT name", 1);
    let policy = policy.replacen(usual, &format!("{endless}\"\"\""), 1);
    fs::write(setting.path("policy.toml"), policy).unwrap();
}

#[test]
fn a_refresh_that_is_cancelled_leaves_the_old_release_and_nothing_else() {
    if !has_psql() {
        return;
    }
    let setting = Setting::new();
    policy_with_an_endless_view(&setting);
    let server = setting.start();
    let rows = server.answer("SELECT * FROM patients_k10");
    let first = current(&server.setting, "patients_k10");
    let entries = |directory: &str| {
        let found = fs::read_dir(server.setting.path(directory)).unwrap();
        let mut names: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = [entries("state/patients_k10"), entries("state/patients_k10/releases")];
    server.setting.write_patients(401);
    let mut psql = server.psql_command("steward", "keys");
    let asked = ["-c", "REFRESH MATERIALIZED VIEW CONCURRENTLY patients_k10"];
    let client = psql.args(asked).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while !server.setting.path("state/patients_k10/.staging").exists() {
        assert!(begun.elapsed() < crate::server::PATIENCE, "{}", server.log());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    signal(client.id(), "INT");
    let outcome = client.wait_with_output().unwrap();
    let stderr = String::from_utf8(outcome.stderr).unwrap();
    assert!(stderr.contains("57014: canceling statement due to user request"), "{stderr}");
    server.wait_for_log(|log| log.contains("whoever asked for it gave up"));
    assert_eq!(current(&server.setting, "patients_k10"), first);
    assert_eq!([entries("state/patients_k10"), entries("state/patients_k10/releases")], before);
    assert_eq!(server.answer("SELECT * FROM patients_k10"), rows);
    // The next one is not hindered.
    server.setting.write_patients(300);
    let done = refresh(&server, "patients_k10");
    assert_eq!(done.stdout, "REFRESH MATERIALIZED VIEW\n", "{}", done.stderr);
    assert_eq!(server.answer("SELECT count(*) FROM patients_k10"), "300");
}

#[test]
fn a_view_that_cannot_be_made_is_not_served_and_others_are() {
    if !has_psql() {
        return;
    }
    let setting = Setting::new();
    setting.write_policy("");
    let policy = fs::read_to_string(setting.path("policy.toml")).unwrap();
    let more = "[views.broken]
query = \"SELECT name, age FROM patients\"
anonymize = { k = 5, quasi_identifiers = ['age'] }
[users.analyst]";
    let policy = policy.replacen("[users.analyst]", more, 1);
    let policy =
        policy.replace("[\"patients_k10\", \"ages\"]", "[\"patients_k10\", \"ages\", \"broken\"]");
    fs::write(setting.path("policy.toml"), policy).unwrap();
    let server = setting.start();
    server.wait_for_log(|log| log.contains("view broken: not refreshed: ") && log.contains("name"));
    let failure = server.failure("SELECT * FROM broken");
    assert!(failure.contains("55000: view 'broken' has no release yet"), "{failure}");
    assert_eq!(server.answer("SELECT count(*) FROM ages"), "400");
}

#[test]
fn whoever_reads_keeps_the_release_they_began_with() {
    if !has_psql() {
        return;
    }
    let server = Server::with("poll_seconds = 0");
    let mut readers: Vec<Raw> = (0..2).map(|_| reader(&server)).collect();
    // One release after the other is replaced while it is read.
    for (before, rows) in [(400, 200), (200, 100)] {
        server.setting.write_patients(rows);
        let done = refresh(&server, "patients_k10");
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert_eq!(server.answer("SELECT count(*) FROM patients_k10"), rows.to_string());
        let later: Vec<Raw> = (0..2).map(|_| reader(&server)).collect();
        for mut reader in std::mem::replace(&mut readers, later) {
            assert_eq!(read_on(&mut reader), before * before);
        }
    }
    // One release and the one before it are kept, no more.
    let kept = fs::read_dir(server.setting.path("state/patients_k10/releases")).unwrap().count();
    assert_eq!(kept, 2);
}
