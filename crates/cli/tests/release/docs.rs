//! The pages of the documentation: every command in them runs as it is written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;

use crate::s3::Server;
use crate::shell::has_bash;

/// A block of a page: what stands behind its fence, and its text.
struct Block {
    kind: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(kind), None) => open = Some(Block { kind: kind.to_owned(), text: String::new() }),
            (Some(_), Some(block)) => found.push(block),
            (None, Some(block)) => {
                open = Some(Block { text: block.text + line + "\n", ..block });
            }
            (None, None) => {}
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a block in the directory of its page, with the program on the path.
fn run_block(directory: &Path, block: &Block, program: &mut Command) {
    let bin = Path::new(env!("CARGO_BIN_EXE_anonymize")).parent().unwrap().to_owned();
    let path = std::env::join_paths(
        [bin].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let output = program
        .arg(&block.text)
        .current_dir(directory)
        .env("PATH", path.unwrap())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{told}", block.text);
}

fn run_page(name: &str) -> usize {
    let page = fs::read_to_string(root().join("docs").join(name)).unwrap();
    let directory = tempdir().unwrap();
    let mut ran = 0;
    for block in blocks(&page) {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c"]);
        if let Some(file) = block.kind.strip_prefix("toml file=") {
            fs::write(directory.path().join(file), &block.text).unwrap();
        } else if block.kind == "sh" {
            run_block(directory.path(), &block, &mut shell);
            ran += 1;
        } else if block.kind == "sh s3" {
            let Some(server) = Server::start() else { continue };
            run_block(directory.path(), &block, shell.envs(server.environment()));
            ran += 1;
        } else if block.kind == "python duckdb" {
            let python = root().join("target/moto/bin/python");
            let known = Command::new(&python).args(["-c", "import duckdb"]).output();
            if !known.is_ok_and(|output| output.status.success()) {
                println!("SKIPPED: no duckdb; target/moto/bin/pip install duckdb");
                continue;
            }
            run_block(directory.path(), &block, Command::new(python).arg("-c"));
            ran += 1;
        }
    }
    ran
}

#[test]
fn the_commands_about_release_jobs_run() {
    assert!(!has_bash() || run_page("release-job.md") >= 3);
}

#[test]
fn the_commands_about_reports_run() {
    assert!(!has_bash() || run_page("report.md") >= 2);
}

#[test]
fn the_example_job_runs() {
    let directory = tempdir().unwrap();
    // Two levels down, as in the repository: its output is beside the sources.
    let place = directory.path().join("examples/release");
    fs::create_dir_all(&place).unwrap();
    fs::copy(root().join("examples/release/census.toml"), place.join("census.toml")).unwrap();
    let mut command =
        crate::program(directory.path(), &["release", "examples/release/census.toml"]);
    command.env("CENSUS_SEED", "a secret seed of the tests");
    let outcome = crate::run(command);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(directory.path().join("target/releases/census/current/published/sex=Female").exists());
}
