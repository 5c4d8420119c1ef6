//! The page about the service: its commands run as they are written.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::server::{Outcome, has_psql};

/// The port that the page names.
const PORT: &str = "5433";

/// The texts of the page's blocks of a kind, in their order.
fn blocks(page: &str, kind: &str) -> Vec<String> {
    let parts = page.split("\n```").collect::<Vec<_>>();
    // Fences open and close in turn, so every second part is the inside of a block.
    let inside = parts.iter().skip(1).step_by(2);
    let wanted =
        inside.filter_map(|block| block.split_once('\n').filter(|(fence, _)| *fence == kind));
    wanted.map(|(_, text)| text.to_owned()).collect()
}

#[test]
fn the_commands_of_the_page_run() {
    if !has_psql() {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/query-service.md");
    let page = fs::read_to_string(page).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let directory = TempDir::new().unwrap();
    let policies = blocks(&page, "toml file=policy.toml");
    assert_eq!(policies.len(), 1);
    let policy = policies[0].replace(PORT, &free);
    fs::write(directory.path().join("policy.toml"), policy).unwrap();
    let commands = blocks(&page, "sh");
    assert!(commands.len() >= 4, "{}", commands.len());
    // Whatever fails, the service does not outlive the test.
    let script =
        format!("trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n{}", commands.join("\n"));
    let program = Path::new(env!("CARGO_BIN_EXE_anonymize")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path =
        std::env::join_paths([program].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let outcome: Outcome = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script.replace(PORT, &free)])
        .current_dir(directory.path())
        .env("PATH", path)
        .env("PAGER", "")
        .output()
        .unwrap()
        .into();
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("REFRESH MATERIALIZED VIEW\n"), "{}", outcome.stdout);
    for refused in blocks(&page, "text") {
        assert!(outcome.stderr.contains(refused.trim_end()), "{refused}{}", outcome.stderr);
    }
}
