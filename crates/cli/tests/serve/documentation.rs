//! The page about the service and its example: they run as they are written.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::ports::free_ports;
use crate::server::{Outcome, PATIENCE, Server, Setting, has_psql, program};
use crate::shell::{has_bash, signal};

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

/// The page waits for the service as long as it takes; the test does not.
fn output_in_time(child: Child) -> Outcome {
    let id = child.id();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    match told.recv_timeout(PATIENCE) {
        Ok(output) => output.unwrap().into(),
        Err(_) => {
            signal(id, "TERM");
            panic!("the commands of the page do not come to their end");
        }
    }
}

#[test]
fn the_commands_of_the_page_run() {
    if !has_psql() || !has_bash() {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/query-service.md");
    let page = fs::read_to_string(page).unwrap();
    let [free] = free_ports().map(|port: u16| port.to_string());
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
    let child = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script.replace(PORT, &free)])
        .current_dir(directory.path())
        .env("PATH", path)
        .env("PAGER", "")
        .env("LC_ALL", "C")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let outcome = output_in_time(child);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("REFRESH MATERIALIZED VIEW\n"), "{}", outcome.stdout);
    for refused in blocks(&page, "text") {
        assert!(outcome.stderr.contains(refused.trim_end()), "{refused}{}", outcome.stderr);
    }
}

#[test]
fn the_example_policy_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let policy = fs::read_to_string(root.join("examples/serve/policy.toml")).unwrap();
    // Two levels down, as in the repository: what it reads and writes is beside the sources.
    let directory = TempDir::new().unwrap();
    let place = directory.path().join("examples/serve");
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("policy.toml"), &policy).unwrap();
    let made = "COPY (SELECT * FROM sample_census(rows => 2000)) TO 'target/serve/lake/' STORED AS PARQUET";
    assert!(
        policy.contains(&made.replace("2000", "20000")),
        "the policy tells how to make its lake"
    );
    let made: Outcome =
        program().current_dir(&directory).args(["-q", "-c", made]).output().unwrap().into();
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let mut command = program();
    command
        .current_dir(&directory)
        .args(["serve", "--policy", "examples/serve/policy.toml", "--listen", "127.0.0.1:0"])
        .env("RELEASE_SEED", "a secret of the tests");
    let server = Server::spawn_without_waiting(Setting { directory }, command);
    server.wait_for_log(|log| log.contains("view census_k10: release"));
    if has_psql() {
        let answer = server.psql_as("me", "", &["-c", "SELECT count(*) FROM census_k10"]);
        // Some persons have several rows in the lake.
        assert_eq!(answer.stdout, "1736\n", "{}", answer.stderr);
    }
}
