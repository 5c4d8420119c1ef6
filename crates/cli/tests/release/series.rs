//! Releases that follow each other, as their users run them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use tempfile::tempdir;

use crate::s3::Server;
use crate::{Outcome, program, run};

/// A job over some of the persons of a census.
fn job(persons: &str, places: [&str; 2]) -> String {
    let [output, state] = places;
    format!(
        r#"
name = "patients"
query = """
SELECT person_id, min(age) AS age, min(sex) AS sex, min(zip) AS zip, min(occupation) AS occupation
FROM (SELECT dense_rank() OVER (ORDER BY person_id) AS number, * FROM sample_census(rows => 2000, seed => 3))
WHERE {persons} GROUP BY person_id
"""

[anonymize]
k = 10
quasi_identifiers = ["age", "sex", "zip"]
sensitive = ["occupation"]
privacy_unit = "person_id"
seed = {{ env = "CENSUS_SEED" }}

[output]
path = "{output}"

[series]
state = "{state}"
"#
    )
}

const LOCAL: [&str; 2] = ["out", "state"];

fn anonymize(directory: &Path, text: &str, arguments: &[&str]) -> Outcome {
    fs::write(directory.join("job.toml"), text).unwrap();
    let mut command = program(directory, arguments);
    command.env("CENSUS_SEED", "a secret seed of the tests");
    run(command)
}

#[test]
fn a_series_goes_on_and_tells_how_it_stands() {
    let directory = tempdir().unwrap();
    let run = |text: &str, arguments: &[&str]| anonymize(directory.path(), text, arguments);
    let first = run(&job("number <= 1000", LOCAL), &["release", "job.toml"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(
        first.stdout.contains(", night 1: ") && first.stdout.contains("0 held"),
        "{}",
        first.stdout
    );
    let second = run(&job("number > 5 AND number <= 1200", LOCAL), &["release", "job.toml"]);
    assert!(second.stdout.contains(", night 2: "), "{}{}", second.stdout, second.stderr);
    let status = run(&job("true", LOCAL), &["series", "status", "job.toml"]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    for told in [
        "patients: series ",
        ", night 2",
        " live (",
        "share of live cohorts, nights 1 to 2",
        "is reached in about",
    ] {
        assert!(status.stdout.contains(told), "{told}: {}", status.stdout);
    }
}

#[test]
fn another_series_says_what_it_costs() {
    let directory = tempdir().unwrap();
    let run = |text: &str, arguments: &[&str]| anonymize(directory.path(), text, arguments);
    let text = job("number <= 1000", LOCAL);
    assert_eq!(run(&text, &["release", "job.toml"]).code, Some(0));
    let larger = text.replace("k = 10", "k = 12");
    let refused = run(&larger, &["release", "job.toml"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("--new-series"), "{}", refused.stderr);
    let begun = run(&larger, &["release", "job.toml", "--new-series"]);
    assert_eq!(begun.code, Some(0), "{}", begun.stderr);
    assert!(begun.stderr.contains("can be compared"), "{}", begun.stderr);
    assert!(begun.stdout.contains(", night 1: "), "{}", begun.stdout);
}

#[test]
fn a_key_is_read_from_standard_input_and_not_repeated() {
    let directory = tempdir().unwrap();
    let run = |text: &str, arguments: &[&str]| anonymize(directory.path(), text, arguments);
    assert_eq!(run(&job("number <= 1000", LOCAL), &["release", "job.toml"]).code, Some(0));
    let query = "SELECT min(person_id) AS id FROM sample_census(rows => 2000, seed => 3)";
    let found = crate::run(program(directory.path(), &["-q", "--format", "csv", "-c", query]));
    let key = found.stdout.lines().nth(1).unwrap().to_owned();
    fs::write(directory.path().join("job.toml"), job("number > 1 AND number <= 1000", LOCAL))
        .unwrap();
    let mut command =
        program(directory.path(), &["series", "forget", "job.toml", "-", "--withdraw"]);
    command.env("CENSUS_SEED", "a secret seed of the tests");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{key}").unwrap();
    let outcome: Outcome = child.wait_with_output().unwrap().into();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("forgotten; the cohort is left out"), "{}", outcome.stdout);
    assert!(!format!("{}{}", outcome.stdout, outcome.stderr).contains(&key));
    let again =
        run(&job("number > 1 AND number <= 1000", LOCAL), &["series", "forget", "job.toml", &key]);
    assert_eq!(again.code, Some(1), "{}", again.stdout);
    assert!(again.stderr.contains("nobody with this key"), "{}", again.stderr);
}

#[test]
fn a_series_lives_in_two_prefixes_of_a_bucket() {
    let Some(server) = Server::start() else { return };
    let directory = tempdir().unwrap();
    let places = ["s3://lake/patients", "s3://lake/private/patients"];
    for (night, persons) in ["number <= 1000", "number <= 1200"].into_iter().enumerate() {
        fs::write(directory.path().join("job.toml"), job(persons, places)).unwrap();
        let mut command = program(directory.path(), &["release", "job.toml"]);
        command.env("CENSUS_SEED", "a secret seed of the tests").envs(server.environment());
        let outcome = run(command);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let told = format!(", night {}: ", night + 1);
        assert!(outcome.stdout.contains(&told), "{}", outcome.stdout);
    }
    let keys: Vec<String> = server.keys();
    let state: Vec<&String> = keys.iter().filter(|key| key.starts_with("private/")).collect();
    assert_eq!(state.len(), 4, "{state:?}");
}
