//! Releases are computed once, kept, and replaced as a whole.

use std::fs;
use std::process::Stdio;

use crate::server::{Server, Setting, has_psql};

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
    server.wait_for_log(|log| {
        log.matches("view ages: release").count() >= 3 || log.contains("all views")
    });
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
    assert!(server.log().contains("k = 10"), "{}", server.log());
    assert_eq!(current(&server.setting, "patients_k10"), first);
    assert_eq!(server.answer("SELECT * FROM patients_k10"), rows);
    assert!(server.log().contains("the old release stays"), "{}", server.log());
    assert!(!server.log().contains("Zebediah"), "{}", server.log());
    fs::remove_file(server.setting.path("patients.parquet")).unwrap();
    let failed = server.psql_as("steward", "keys", &["-c", "REFRESH MATERIALIZED VIEW ages"]);
    assert!(failed.stderr.contains("not refreshed"), "{failed:?}");
    // Files and raw columns are for the log.
    assert!(!failed.stderr.contains("parquet"), "{failed:?}");
    assert!(server.log().contains("patients.parquet"), "{}", server.log());
    assert_eq!(server.answer("SELECT count(*) FROM ages"), "400");
    let other = "COPY (SELECT 1 AS another, 2 AS column) TO '?' STORED AS PARQUET";
    let other = other.replace('?', &server.setting.path("patients.parquet").display().to_string());
    assert!(crate::server::program().args(["-q", "-c", &other]).output().unwrap().status.success());
    let failed = server.psql_as("steward", "keys", &["-c", "REFRESH MATERIALIZED VIEW ages"]);
    assert!(failed.stderr.contains("not refreshed: "), "{failed:?}");
    assert!(!failed.stderr.contains("another"), "{failed:?}");
    assert!(server.log().contains("another"), "{}", server.log());
    assert_eq!(server.answer("SELECT count(*) FROM ages"), "400");
}

#[test]
fn a_refresh_ends_with_the_time_that_was_asked_for() {
    if !has_psql() {
        return;
    }
    let server = Server::with("poll_seconds = 0");
    let first = current(&server.setting, "patients_k10");
    let late = server.psql_as(
        "steward",
        "keys",
        &["-c", "SET statement_timeout = '1ms'", "-c", "REFRESH MATERIALIZED VIEW patients_k10"],
    );
    assert!(
        late.stderr.contains("57014: canceling statement due to statement timeout"),
        "{late:?}"
    );
    server.wait_for_log(|log| log.contains("whoever asked for it gave up"));
    assert_eq!(current(&server.setting, "patients_k10"), first);
    // The next one has the time that it needs.
    let done = server.psql_as("steward", "keys", &["-c", "REFRESH MATERIALIZED VIEW patients_k10"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_ne!(current(&server.setting, "patients_k10"), first);
}

#[test]
fn a_refresh_that_is_cancelled_leaves_the_old_release_and_nothing_else() {
    if !has_psql() {
        return;
    }
    let server = Server::with("poll_seconds = 0");
    let rows = server.answer("SELECT * FROM patients_k10");
    let first = current(&server.setting, "patients_k10");
    let entries = |directory: &str| {
        let found = fs::read_dir(server.setting.path(directory)).unwrap();
        let mut names: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = [entries("state/patients_k10"), entries("state/patients_k10/releases")];
    // Long enough to be met while it runs.
    server.setting.write_patients(150_000);
    let mut psql = server.psql_command("steward", "keys");
    let refresh = ["-c", "REFRESH MATERIALIZED VIEW CONCURRENTLY patients_k10"];
    let client = psql.args(refresh).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let staging = server.setting.path("state/patients_k10");
    let is_written = || fs::read_dir(&staging).unwrap().count() > before[0].len();
    let begun = std::time::Instant::now();
    while !is_written() {
        assert!(begun.elapsed() < crate::server::PATIENCE, "{}", server.log());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let id = client.id().to_string();
    let interrupt = std::process::Command::new("kill").args(["-s", "INT", &id]).status().unwrap();
    assert!(interrupt.success());
    let outcome = client.wait_with_output().unwrap();
    let stderr = String::from_utf8(outcome.stderr).unwrap();
    assert!(stderr.contains("57014: canceling statement due to user request"), "{stderr}");
    server.wait_for_log(|log| log.contains("whoever asked for it gave up"));
    assert_eq!(current(&server.setting, "patients_k10"), first);
    assert_eq!([entries("state/patients_k10"), entries("state/patients_k10/releases")], before);
    assert_eq!(server.answer("SELECT * FROM patients_k10"), rows);
    // The next one is not hindered.
    server.setting.write_patients(500);
    let done = server.psql_as("steward", "keys", &refresh);
    assert_eq!(done.stdout, "REFRESH MATERIALIZED VIEW\n", "{}", done.stderr);
    assert_eq!(server.answer("SELECT count(*) FROM patients_k10"), "500");
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
    // Reads all rows of the old release several times over, while it is replaced twice.
    let reading = "SELECT count(*), count(DISTINCT b.zip || a.zip || a.age || b.age) > 0
        FROM patients_k10 a, patients_k10 b WHERE a.hours_per_week <= b.hours_per_week + 100";
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let mut psql = server.psql_command("local", "");
            psql.args(["-c", reading])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for rows in [500, 600] {
        server.setting.write_patients(rows);
        let done =
            server.psql_as("steward", "keys", &["-c", "REFRESH MATERIALIZED VIEW patients_k10"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    for reader in readers {
        let outcome = reader.wait_with_output().unwrap();
        let stdout = String::from_utf8(outcome.stdout).unwrap();
        let stderr = String::from_utf8(outcome.stderr).unwrap();
        // One release from the first row to the last, whichever was current when the query began.
        let whole = [400, 500, 600].map(|rows| format!("{}|t\n", rows * rows));
        assert!(whole.contains(&stdout), "{stdout}{stderr}");
    }
    // One release and the one before it are kept, no more.
    let kept = fs::read_dir(server.setting.path("state/patients_k10/releases")).unwrap().count();
    assert_eq!(kept, 2);
}
