//! `anonymize release` on a local disk.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::tempdir;

use crate::{Outcome, PATIENCE, job, program, run};

fn release(directory: &Path, text: &str, more: &[&str]) -> Outcome {
    fs::write(directory.join("job.toml"), text).unwrap();
    let arguments = [&["release", "job.toml"], more].concat();
    let mut command = program(directory, &arguments);
    command.env("CENSUS_SEED", "a secret seed of the tests");
    run(command)
}

fn manifest(directory: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(directory.join("out/manifest.json")).unwrap()).unwrap()
}

#[test]
fn a_job_publishes_and_says_what() {
    let directory = tempdir().unwrap();
    let Outcome { code, stdout, stderr } =
        release(directory.path(), &job(2000, "out", "[checks]\nmax_loss = 0.5"), &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("is published at out"), "{stdout}");
    assert!(stdout.contains("2000 rows read, 2000 published, 0 suppressed"), "{stdout}");
    assert!(stdout.contains("check max_loss = 0.5000 holds"), "{stdout}");
    for phase in
        ["preparing (1 of 4)", "anonymizing (2 of 4)", "verifying (3 of 4)", "publishing (4 of 4)"]
    {
        assert!(stderr.contains(phase), "{stderr}");
    }
    assert!(
        !format!("{stdout}{stderr}{}", manifest(directory.path()))
            .contains("a secret seed of the tests")
    );
}

#[test]
fn a_dry_run_tells_the_measures_and_writes_nothing() {
    let directory = tempdir().unwrap();
    let Outcome { code, stdout, stderr } =
        release(directory.path(), &job(2000, "out", ""), &["--dry-run"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("dry run, nothing was published"), "{stdout}");
    assert!(
        stdout.contains("  k: 10 (asked for: 10)") || stdout.contains("(asked for: 10)"),
        "{stdout}"
    );
    assert!(!directory.path().join("out").exists());
}

#[test]
fn an_unmet_check_is_told_and_exits_with_1() {
    let directory = tempdir().unwrap();
    release(directory.path(), &job(2000, "out", ""), &[]);
    let before = manifest(directory.path());
    let outcome = release(directory.path(), &job(2000, "out", "[checks]\nmax_loss = 0.0001"), &[]);
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("census: not published, because max_loss = 0.0001 is not met"),
        "{}",
        outcome.stderr
    );
    assert_eq!(manifest(directory.path()), before);
    assert!(!directory.path().join("out/.staging").exists());
}

#[test]
fn a_mistake_in_the_job_exits_with_2() {
    let directory = tempdir().unwrap();
    let outcome = release(directory.path(), &job(10, "out", "[checks]\nmax_los = 1"), &[]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("job.toml: line "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("unknown field `max_los`"), "{}", outcome.stderr);
    let missing = run(program(directory.path(), &["release", "nothing.toml"]));
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("cannot read nothing.toml"), "{}", missing.stderr);
    let script = run(program(directory.path(), &["release", "job.toml", "-c", "SELECT 1"]));
    assert_eq!(script.code, Some(2));
}

/// Nobody reads what the program says; what it does is the same.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_is_gone_changes_nothing() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let directory = tempdir().unwrap();
    fs::write(directory.path().join("job.toml"), job(2000, "out", "")).unwrap();
    for arguments in [
        &["release", "job.toml"][..],
        &["release", "job.toml", "--dry-run"],
        &["report", "--job", "job.toml"],
    ] {
        let mut command = program(directory.path(), arguments);
        command.env("CENSUS_SEED", "a secret of the tests").stdout(full()).stderr(full());
        assert_eq!(command.status().unwrap().code(), Some(0), "{arguments:?}");
    }
    assert!(directory.path().join("report.html").exists());
}

/// A run whose rows never come to an end, hit as soon as it has a staging place.
#[cfg(unix)]
fn hit_a_run(directory: &Path, signal: &str) -> Option<i32> {
    let endless =
        job(1_000_000_000_000_000, "out", "").replace("seed => 3)", "seed => 3) WHERE age < 0");
    assert!(endless.contains("WHERE age < 0"));
    fs::write(directory.join("job.toml"), endless).unwrap();
    let mut command = program(directory, &["release", "job.toml"]);
    command.env("CENSUS_SEED", "a secret of the tests").stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while !directory.join("out/.staging").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be hit");
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the run does not begin to stage");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    crate::shell::signal(child.id(), signal);
    child.wait().unwrap().code()
}

#[cfg(unix)]
#[test]
fn a_terminated_run_cleans_up_and_keeps_the_last_release() {
    let directory = tempdir().unwrap();
    release(directory.path(), &job(2000, "out", ""), &[]);
    let before = manifest(directory.path());
    assert_eq!(hit_a_run(directory.path(), "TERM"), Some(130));
    assert_eq!(manifest(directory.path()), before);
    assert!(!directory.path().join("out/.staging").exists());
}

#[cfg(unix)]
#[test]
fn a_killed_run_is_cleaned_up_by_the_next() {
    let directory = tempdir().unwrap();
    release(directory.path(), &job(2000, "out", ""), &[]);
    let before = manifest(directory.path());
    assert_eq!(hit_a_run(directory.path(), "KILL"), None);
    assert_eq!(manifest(directory.path()), before);
    assert!(directory.path().join("out/.staging").exists(), "nobody could clean up");
    let again = release(directory.path(), &job(2000, "out", ""), &[]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(!directory.path().join("out/.staging").exists());
    assert_ne!(manifest(directory.path()), before);
}

/// A disk that is full: the writer's files may not grow beyond a few blocks.
#[cfg(unix)]
#[test]
fn a_disk_that_is_full_leaves_the_last_release() {
    let directory = tempdir().unwrap();
    release(directory.path(), &job(2000, "out", ""), &[]);
    let before = manifest(directory.path());
    fs::write(directory.path().join("job.toml"), job(100_000, "out", "")).unwrap();
    // SIGXFSZ is ignored, so that a write beyond the limit fails as it does on a full disk.
    let script = format!(
        "trap '' XFSZ; ulimit -f 64; exec {} release job.toml",
        env!("CARGO_BIN_EXE_anonymize")
    );
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", &script])
        .current_dir(directory.path())
        .env("CENSUS_SEED", "a secret of the tests");
    let outcome: Outcome = command.output().unwrap().into();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("anonymizing: "), "{}", outcome.stderr);
    assert_eq!(manifest(directory.path()), before);
    assert!(!directory.path().join("out/.staging").exists());
}
