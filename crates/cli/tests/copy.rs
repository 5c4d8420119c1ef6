//! `COPY` of a release by the program: killed, interrupted or without space, it leaves what was there.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_anonymize");

/// How a release is written, and what a reader calls it.
const TARGETS: [(&str, &str); 3] = [
    ("'release.parquet' STORED AS PARQUET", "release.parquet"),
    ("'releases/' STORED AS CSV PARTITIONED BY (sex)", "releases"),
    ("'new/' STORED AS ARROW", "new"),
];

fn copy(rows: usize, target: &str) -> String {
    format!(
        "COPY (SELECT * FROM anonymize((SELECT age, sex, zip, occupation FROM sample_census(rows => {rows}, seed => 1)),
         k => 5, quasi_identifiers => ['age', 'sex', 'zip'], sensitive => ['occupation'],
         seed => 'a seed that nobody guesses')) TO {target}"
    )
}

fn program(directory: &Path, sql: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(directory).args(["-q", "-c", sql]).stdin(Stdio::null());
    // Files are begun early, and not when all rows are there.
    command.env("DATAFUSION_EXECUTION_OBJECTSTORE_WRITER_BUFFER_SIZE", "65536");
    command.env("DATAFUSION_EXECUTION_PARQUET_MAX_ROW_GROUP_SIZE", "10000");
    command
}

/// A directory with yesterday's releases.
fn yesterday() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("release.parquet"), "yesterday").unwrap();
    fs::create_dir(directory.path().join("releases")).unwrap();
    fs::write(directory.path().join("releases/old.csv"), "yesterday").unwrap();
    directory
}

/// Names and bytes of all that is not hidden, and the number of files that are.
fn contents(root: &Path) -> (BTreeMap<String, Vec<u8>>, usize) {
    let (mut visible, mut hidden) = (BTreeMap::new(), 0);
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if path.is_dir() {
                if !name.contains(".anonymize-") {
                    visible.insert(format!("{name}/"), Vec::new());
                }
                pending.push(path);
            } else if name.contains(".anonymize-") {
                hidden += 1;
            } else if let Ok(bytes) = fs::read(&path) {
                visible.insert(name, bytes);
            }
        }
    }
    (visible, hidden)
}

fn send(signal: &str, child: &Child) {
    let _ = Command::new("kill").args([signal, &child.id().to_string()]).status();
}

/// Whether all threads of a process stand still, or it has ended.
fn stands(child: &Child) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten();
    let stands = |thread: fs::DirEntry| {
        let state = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        state.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 'Z']))
    };
    threads.flatten().all(stands)
}

/// How many rows to write: so many that the program is still at work when a signal reaches it.
const ROWS: [usize; 4] = [100_000, 400_000, 1_600_000, 6_400_000];

/// Stops the program when there are so many hidden files, looks whether it is still at work, and then sends it a
/// signal. Takes more rows if it was faster. Returns the directory, the exit code and the number of rows.
fn hit(
    target: &str,
    hidden: usize,
    signal: &str,
    rows: &[usize],
) -> (tempfile::TempDir, Option<i32>, usize) {
    for &rows in rows {
        let directory = yesterday();
        let (before, _) = contents(directory.path());
        let mut command = program(directory.path(), &copy(rows, target));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while contents(directory.path()).1 < hidden && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        send("-STOP", &child);
        while !stands(&child) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (now, left) = contents(directory.path());
        if now == before && left >= hidden {
            send(signal, &child);
            send("-CONT", &child);
            return (directory, child.wait().unwrap().code(), rows);
        }
        send("-CONT", &child);
        assert!(child.wait().unwrap().success(), "{target}");
    }
    panic!("the program was always faster");
}

#[test]
fn a_killed_copy_leaves_yesterdays_release() {
    let (before, _) = contents(yesterday().path());
    for (target, name) in TARGETS {
        // Before the first row, and when files are being written.
        for hidden in [1, 2] {
            let (directory, code, _) = hit(target, hidden, "-KILL", &ROWS);
            assert_eq!(code, None, "{target}");
            let (after, left) = contents(directory.path());
            assert_eq!(after, before, "{target}");
            assert!(left > 0, "{target}");
            // The next one works, and removes what is left.
            let next = program(directory.path(), &copy(1000, target)).output().unwrap();
            assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));
            let (after, left) = contents(directory.path());
            assert_eq!(left, 0, "{target}");
            let is_new = |(file, bytes): (&String, &Vec<u8>)| {
                file.starts_with(name) && !bytes.is_empty() && before.get(file) != Some(bytes)
            };
            assert!(after.iter().any(is_new), "{target}");
        }
    }
}

#[test]
fn an_interrupted_copy_leaves_nothing() {
    let before = contents(yesterday().path());
    for (target, name) in TARGETS {
        let mut sizes = &ROWS[..];
        loop {
            let (directory, code, rows) = hit(target, 2, "-INT", sizes);
            let after = contents(directory.path());
            if after == before {
                assert_eq!(code, Some(130), "{target}");
                break;
            }
            // The last file was complete before the signal was heard: then the release is there as a whole.
            assert!(matches!(code, Some(0 | 130)), "{target}: {code:?}");
            assert_eq!(after.1, 0, "{target}");
            assert_eq!(published(directory.path(), target, name), rows, "{target}");
            sizes = &ROWS[ROWS.iter().position(|size| *size == rows).unwrap() + 1..];
        }
    }
}

/// How many rows a release has.
fn published(directory: &Path, target: &str, name: &str) -> usize {
    let format = target.split("STORED AS ").nth(1).unwrap().split(' ').next().unwrap();
    // Yesterday's file beside today's is not a table.
    let _ = fs::remove_file(directory.join("releases/old.csv"));
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{name}'; SELECT count(*) FROM t"
    );
    let mut count = program(directory, &sql);
    let output = count.args(["--format", "csv"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().unwrap_or_default().parse().unwrap_or(0)
}

#[test]
fn a_copy_that_fails_leaves_what_was_there() {
    for (target, _) in TARGETS {
        let directory = yesterday();
        let before = contents(directory.path());
        let sql = copy(1000, target).replace("k => 5", "k => 1001");
        assert_eq!(program(directory.path(), &sql).output().unwrap().status.code(), Some(1));
        assert_eq!(contents(directory.path()), before, "{target}");
    }
}

/// A disk that is full in the middle: a small file system in a name space of its own, which needs no root.
#[test]
fn a_full_disk_leaves_what_was_there() {
    let can_mount = Command::new("unshare")
        .args(["-rm", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"])
        .output();
    if !can_mount.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: this system lets nobody mount in a name space of their own");
        return;
    }
    for (target, _) in TARGETS {
        let directory = tempfile::tempdir().unwrap();
        // The program sees the small disk; what is on it is looked at before it goes away.
        let script = format!(
            "mount -t tmpfs -o size=256k none . && cd \"$PWD\" && echo yesterday > release.parquet && mkdir releases \
             && echo yesterday > releases/old.csv && {PROGRAM} -q -c \"$1\" ; echo code=$? ; find . -type f -exec cat {{}} + ; find ."
        );
        let output = Command::new("unshare")
            .args(["-rm", "sh", "-c", &script, "sh", &copy(200_000, target)])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (said, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("code=1\n"), "{target}: {said} {errors}");
        assert!(errors.contains("No space left on device"), "{target}: {errors}");
        let found = said.split_once("code=1\n").unwrap().1;
        let mut names: Vec<&str> =
            found.strip_prefix("yesterday\nyesterday\n").unwrap().lines().collect();
        names.sort_unstable();
        let kept = [".", "./release.parquet", "./releases", "./releases/old.csv"];
        assert_eq!(names, kept, "{target}");
    }
}
