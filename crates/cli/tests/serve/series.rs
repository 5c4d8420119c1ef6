//! Views whose releases cannot be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::server::{Outcome, Server, Setting, has_psql, program};

/// A view of `people.csv`, with what stands behind these places.
struct Policy {
    server: &'static str,
    options: &'static str,
    checks: &'static str,
    /// The section `[views.people.series]`.
    series: &'static str,
    may_refresh: bool,
}

const SERIES: Policy = Policy {
    server: "poll_seconds = 0",
    options: "k = 5\nl = 2\nprivacy_unit = \"person\"",
    checks: "",
    series: "[views.people.series]\nstate = \"people-series\"",
    may_refresh: true,
};

impl Policy {
    fn write(&self, setting: &Setting) {
        let Self { server, options, checks, series, may_refresh } = self;
        let text = format!(
            r#"
[server]
listen = "127.0.0.1:0"
query_timeout_seconds = 3600
{server}

[sources.people]
path = "people.csv"
types = {{ zip = "text" }}

[views.people.anonymize]
{options}
quasi_identifiers = ["age", "zip"]
sensitive = ["disease"]
keep = ["badge"]
seed = {{ env = "RELEASE_SEED" }}

[views.people.checks]
{checks}

{series}

[users.local]
trust = true
views = ["people"]
may_refresh = {may_refresh}
"#
        );
        fs::write(setting.path("policy.toml"), text).unwrap();
    }
}

/// Persons by number; the badge is published and names them, so that tests recognize their rows.
fn write_people(setting: &Setting, people: impl IntoIterator<Item = usize>) {
    write_people_with(setting, people, 0);
}

/// The same, after so many years.
fn write_people_with(setting: &Setting, people: impl IntoIterator<Item = usize>, years: usize) {
    let mut text = "person,badge,age,zip,disease\n".to_owned();
    for id in people {
        let disease = ["Flu", "Cold", "Asthma", "HIV"][id * 13 % 7 % 4];
        let (age, zip) = (20 + id * 7 % 50 + years, 2130 + id % 10);
        text += &format!("{id},{},{age},0{zip},{disease}\n", 100_000 + id);
    }
    let new = setting.path("people.new");
    fs::write(&new, text).unwrap();
    fs::rename(new, setting.path("people.csv")).unwrap();
}

fn setting(policy: &Policy, people: Range<usize>) -> Setting {
    let setting = Setting::new();
    policy.write(&setting);
    write_people(&setting, people);
    setting
}

fn start(setting: Setting) -> Server {
    let command = setting.command();
    let server = Server::spawn_without_waiting(setting, command);
    server
        .wait_for_log(|log| log.contains("view people: release") || log.contains("not refreshed"));
    server
}

fn refresh(server: &Server) -> Outcome {
    server.psql(&["-c", "REFRESH MATERIALIZED VIEW people"])
}

/// The cohort of every badge, and what its row publishes.
fn published(server: &Server) -> BTreeMap<usize, (i64, String)> {
    let rows = server.answer("SELECT badge, cohort, age, zip, disease FROM people");
    let row = |line: &str| {
        let mut cells = line.splitn(3, '|');
        let (badge, cohort) = (cells.next().unwrap(), cells.next().unwrap());
        let shown = cells.next().unwrap().to_owned();
        (badge.parse::<usize>().unwrap() - 100_000, (cohort.parse().unwrap(), shown))
    };
    rows.lines().map(row).collect()
}

fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn serve(setting: &Setting, arguments: &[&str]) -> Outcome {
    setting.command().args(arguments).output().unwrap().into()
}

fn series(setting: &Setting, arguments: &[&str]) -> Outcome {
    let mut command = program();
    command.arg("series").args(arguments).current_dir(setting.directory.path());
    command.env("RELEASE_SEED", "a secret of the tests").output().unwrap().into()
}

#[test]
fn members_keep_their_cohort_when_the_view_is_refreshed() {
    if !has_psql() {
        return;
    }
    let server = start(setting(&SERIES, 0..200));
    let first = published(&server);
    assert_eq!(first.len(), 200);
    // Everybody is older, somebody has left, and others came.
    write_people_with(&server.setting, (0..240).filter(|id| *id != 17), 1);
    let done = refresh(&server);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let second = published(&server);
    assert_eq!(second.len(), 240);
    let cohorts: BTreeSet<i64> = first.values().map(|(cohort, _)| *cohort).collect();
    for (id, (cohort, row)) in &second {
        match first.get(id) {
            Some((before, old)) => {
                assert_eq!(cohort, before);
                assert_eq!(row == old, *cohort == first[&17].0, "the leaver's cohort is held");
            }
            None => assert!(!cohorts.contains(cohort)),
        }
    }
    // Nobody who asks meets the state.
    assert_eq!(server.psql(&["-c", "\\dt"]).stdout.lines().count(), 1);
    let failure = server.failure("SELECT * FROM 'people-series/state.json'");
    assert!(failure.contains("42P01"), "{failure}");
    let status = series(&server.setting, &["status", "policy.toml", "--view", "people"]);
    assert!(status.stdout.contains(", night 2") && status.stdout.contains("1 held"), "{status:?}");
}

#[test]
fn a_refresh_that_fails_keeps_the_old_release_and_the_old_state() {
    if !has_psql() {
        return;
    }
    let server = start(setting(&SERIES, 0..200));
    let release = || fs::read(server.setting.path("state/people/manifest.json")).unwrap();
    let state = || tree(&server.setting.path("people-series"));
    let before = (release(), state(), published(&server));
    // Most keys are others, as after a move to another system.
    for (people, told) in [
        (150..350, "max_new = 0.5 is not met"),
        (1000..1200, "none of the 200 members is here tonight"),
        (0..0, ""),
    ] {
        write_people(&server.setting, people);
        let failed = refresh(&server);
        assert!(failed.stderr.contains("XX000: not refreshed: "), "{failed:?}");
        server.wait_for_log(|log| log.contains(told) && log.contains("the old release stays"));
        assert_eq!((release(), state(), published(&server)), before);
    }
    write_people(&server.setting, 0..220);
    assert_eq!(refresh(&server).code, Some(0));
    let status = series(&server.setting, &["status", "policy.toml", "--view", "people"]);
    assert!(status.stdout.contains(", night 2"), "{status:?}");
}

#[test]
fn another_series_is_begun_on_request_only() {
    if !has_psql() {
        return;
    }
    let server = start(setting(&SERIES, 0..200));
    let first = published(&server);
    let busy = serve(&server.setting, &["--new-series", "people"]);
    assert!(busy.stderr.contains("another service uses"), "{busy:?}");
    server.signal("TERM");
    let (_, _, setting) = server.end();
    // A restart goes on with what is there.
    let server = start(setting);
    assert!(server.log().contains("is still good"), "{}", server.log());
    assert_eq!(published(&server), first);
    server.signal("TERM");
    let (_, _, setting) = server.end();
    // Another k would regroup people: a check finds that before the service is stopped for it.
    Policy { options: "k = 6\nl = 2\nprivacy_unit = \"person\"", ..SERIES }.write(&setting);
    let told = "views.people: series: k is not what the series was begun with, so its releases could be compared; write \
                k = 5 again, or start another series with anonymize serve --new-series people, but the last release";
    let checked = serve(&setting, &["--check"]);
    assert_eq!(checked.code, Some(2));
    assert!(checked.stderr.contains(told), "{}", checked.stderr);
    let server = start(setting);
    server.wait_for_log(|log| log.contains("anonymize serve --new-series people"));
    assert!(server.failure("SELECT * FROM people").contains("55000"));
    server.signal("TERM");
    let (_, _, setting) = server.end();
    let begun = serve(&setting, &["--new-series", "people"]);
    assert_eq!(begun.code, Some(0), "{begun:?}");
    assert!(begun.stderr.contains("the last release of the old series and the first of the new"));
    assert!(begun.stdout.contains("begins another series"), "{begun:?}");
    let server = start(setting);
    assert!(server.log().contains("is still good"), "{}", server.log());
    let second = published(&server);
    let cohorts = |of: &BTreeMap<usize, (i64, String)>| -> BTreeSet<i64> {
        of.values().map(|(cohort, _)| *cohort).collect()
    };
    assert!(cohorts(&first).is_disjoint(&cohorts(&second)));
}

#[test]
fn plain_releases_do_not_become_a_series_by_themselves_nor_a_series_plain_ones() {
    if !has_psql() {
        return;
    }
    let plain = Policy { series: "", ..SERIES };
    let server = start(setting(&plain, 0..200));
    assert!(server.log().contains("view people: it is refreshed and is no series"));
    server.signal("TERM");
    let (_, _, setting) = server.end();
    SERIES.write(&setting);
    let checked = serve(&setting, &["--check"]);
    assert_eq!(checked.code, Some(2), "{checked:?}");
    assert!(
        checked.stderr.contains("holds plain releases")
            && checked.stderr.contains(
                "Give the view another name, or start it here with anonymize serve --new-series people"
            ),
        "{}",
        checked.stderr
    );
    assert_eq!(serve(&setting, &["--new-series", "people"]).code, Some(0));
    assert_eq!(serve(&setting, &["--check"]).code, Some(0));
    plain.write(&setting);
    let checked = serve(&setting, &["--check"]);
    assert_eq!(checked.code, Some(2), "{checked:?}");
    assert!(
        checked.stderr.contains(
            "write [views.people.series] with its state again, or give the view another name"
        ),
        "{}",
        checked.stderr
    );
}

#[test]
fn somebody_is_forgotten_beside_the_running_service() {
    if !has_psql() {
        return;
    }
    let server = start(setting(&SERIES, 0..200));
    let first = published(&server);
    write_people(&server.setting, (0..200).filter(|id| *id != 17));
    let forget = ["forget", "policy.toml", "--view", "people", "17", "--withdraw"];
    let forgotten = series(&server.setting, &forget);
    assert_eq!(forgotten.code, Some(0), "{forgotten:?}");
    let done = refresh(&server);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let second = published(&server);
    assert!(second.values().all(|(cohort, _)| *cohort != first[&17].0));
    assert!(second.len() < first.len() && second.len() > 180);
    let unknown = series(&server.setting, &["status", "policy.toml", "--view", "patients"]);
    assert!(unknown.stderr.contains("there is no [views.patients]"), "{unknown:?}");
}

#[test]
fn a_view_that_is_refreshed_and_no_series_is_warned_of() {
    let setting = setting(&SERIES, 0..200);
    let checked = serve(&setting, &["--check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(
        checked.stdout.contains("its releases are a series, whose state is in "),
        "{checked:?}"
    );
    assert_eq!(checked.stderr, "");
    assert!(!setting.path("people-series").exists() && !setting.path("state").exists());
    let bare = "k = 5\nidentifiers = [\"person\"]";
    let constraints = "method = \"classfly_complete\"\nk = 5\nidentifiers = [\"person\"]";
    for (policy, told) in [
        (
            Policy { series: "", ..SERIES },
            "view people: it is refreshed and is no series, so its releases can be compared, and who compares them may \
             narrow a person down to fewer than k. Write [views.people.series] with state = \"…\". A view that",
        ),
        (
            Policy { series: "", options: bare, ..SERIES },
            "state = \"…\", and in [views.people.anonymize] privacy_unit = \"the column that names a person\". A view",
        ),
        (
            Policy { series: "", options: constraints, ..SERIES },
            " and a method that forms classes (",
        ),
        (Policy { series: "", server: "", may_refresh: false, ..SERIES }, "it is refreshed and is"),
        (Policy { series: "", may_refresh: false, ..SERIES }, ""),
    ] {
        policy.write(&setting);
        let checked = serve(&setting, &["--check"]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
        assert!(checked.stderr.contains(told), "{told}: {}", checked.stderr);
        assert_eq!(checked.stderr.is_empty(), told.is_empty(), "{}", checked.stderr);
    }
}

#[test]
fn mistakes_in_the_section_say_what_to_write() {
    let setting = setting(&SERIES, 0..200);
    let outcome = serve(&setting, &["--new-series", "patients"]);
    assert!(outcome.stderr.contains("there is no [views.patients]"), "{outcome:?}");
    let series = |text: &'static str| Policy { series: text, ..SERIES };
    for (policy, told) in [
        (series("[views.people.series]"), "missing field `state`"),
        (series("[views.people.series]\nstate = \"s\"\nleavers = \"drop\""), "expected `hold` or"),
        (
            series("[views.people.series]\nstate = \"state/private\""),
            "views.people: series: the state 'state/private' and the state of [server] are in one another",
        ),
        (series("[views.people.series]\nstate = \"state/people\""), "are in one another"),
        (series("[views.people.series]\nstate = \"people.csv\""), "are in one another"),
        (
            Policy { options: "k = 5\nidentifiers = [\"person\"]", ..SERIES },
            "write privacy_unit = \"person_id\" in [views.people.anonymize]",
        ),
        (
            Policy { series: "", checks: "max_new = 0.5", ..SERIES },
            "write [views.people.series] with state = \"…\", or leave them out",
        ),
        (
            series(
                "[views.people.series]\nstate = \"s\"\n[views.more]\nsources = [\"people\"]\n\
                 anonymize = { k = 5, quasi_identifiers = [\"age\"], privacy_unit = \"person\", seed = \"a seed of the \
                 tests\" }\nseries = { state = \"s/more\" }",
            ),
            "the state 's' and that of [views.more.series] are in one another",
        ),
    ] {
        policy.write(&setting);
        let outcome = serve(&setting, &["--check"]);
        assert_eq!(outcome.code, Some(2), "{told}: {outcome:?}");
        assert!(outcome.stderr.contains(told), "{told}: {}", outcome.stderr);
    }
    Policy { series: "", ..SERIES }.write(&setting);
    let outcome = serve(&setting, &["--new-series", "people"]);
    assert!(outcome.stderr.contains("is no series that could be started anew"), "{outcome:?}");
}
