//! `anonymize release` to an S3 server on this machine: moto's, if `.ci/run` could install it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::tempdir;

use crate::{Outcome, job, program, run};

/// A server that ends with the test.
pub struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn moto() -> Option<PathBuf> {
    let named = std::env::var_os("MOTO_SERVER").map(PathBuf::from);
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/moto/bin/moto_server");
    named.into_iter().chain([installed]).find(|path| path.exists())
}

impl Server {
    /// A server with a bucket, or nothing if there is no server to start.
    pub fn start() -> Option<Self> {
        let Some(path) = moto() else {
            println!(
                "SKIPPED: no S3 server; python3 -m venv target/moto && target/moto/bin/pip install 'moto[s3,server]'"
            );
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(path);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Self { child, port };
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                assert!(server.ask("PUT", "/lake", "").starts_with("HTTP/1.1 200"));
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the S3 server did not start");
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: AWS test:test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn keys(&self) -> Vec<String> {
        let listing = self.ask("GET", "/lake?list-type=2", "");
        let keys = listing.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        keys.map(str::to_owned).collect()
    }

    /// What a program must know to talk to it.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
    }

    fn run(&self, directory: &Path, text: &str) -> Outcome {
        fs::write(directory.join("job.toml"), text).unwrap();
        let mut command = program(directory, &["release", "job.toml"]);
        command.env("CENSUS_SEED", "a secret seed of the tests").envs(self.environment());
        run(command)
    }

    fn release(&self, directory: &Path, more: &str) -> Outcome {
        self.run(directory, &job(2000, "s3://lake/census", more))
    }

    fn pointer(&self) -> serde_json::Value {
        let answer = self.ask("GET", "/lake/census/manifest.json", "");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }
}

#[test]
fn releases_in_a_bucket_follow_the_pointer() {
    let Some(server) = Server::start() else { return };
    let directory = tempdir().unwrap();
    let first = server.release(directory.path(), "keep = 0");
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let before = (server.keys(), server.pointer());

    let unmet = server.release(directory.path(), "[checks]\nmax_loss = 0.0001");
    assert_eq!(unmet.code, Some(1), "{}", unmet.stderr);
    assert_eq!((server.keys(), server.pointer()), before, "a failed run left something behind");

    // Somebody else at work keeps the run away.
    server.ask(
        "PUT",
        "/lake/census/.lock",
        "{\"run\": \"another\", \"until\": \"2999-01-01T00:00:00Z\"}",
    );
    let busy = server.release(directory.path(), "");
    assert_eq!(busy.code, Some(1));
    assert!(busy.stderr.contains("run another holds it"), "{}", busy.stderr);
    server.ask(
        "PUT",
        "/lake/census/.lock",
        "{\"run\": \"dead\", \"until\": \"2020-01-01T00:00:00Z\"}",
    );

    // The second release replaces the pointer on the condition that it is still the first one's.
    let second = server.release(directory.path(), "keep = 0");
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    let pointer = server.pointer();
    assert_ne!(pointer["release"], before.1["release"]);
    let mut expected = vec!["census/manifest.json".to_owned()];
    let files = pointer["tables"][0]["files"].as_array().unwrap().iter();
    expected.extend(files.map(|file| format!("census/{}", file["path"].as_str().unwrap())));
    expected.push(format!("census/{}/manifest.json", pointer["location"].as_str().unwrap()));
    let mut keys = server.keys();
    keys.sort();
    expected.sort();
    assert_eq!(keys, expected);
}

#[test]
fn what_s3_needs_and_lacks_is_told() {
    let Some(server) = Server::start() else { return };
    let directory = tempdir().unwrap();
    let outcome = server.run(directory.path(), &job(2000, "s3://nowhere/census", ""));
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("s3://nowhere/census"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("a secret seed of the tests"));
}

#[test]
fn inputs_come_from_a_bucket_too() {
    let Some(server) = Server::start() else { return };
    let directory = tempdir().unwrap();
    let first = server.release(directory.path(), "");
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let location = server.pointer()["tables"][0]["location"].as_str().unwrap().to_owned();
    let text = format!(
        r#"
[input.lake]
path = "s3://lake/census/{location}/"
[anonymize]
k = 20
quasi_identifiers = ["age", "sex", "education"]
sensitive = ["occupation"]
keep = ["zip"]
[output]
path = "out"
"#
    );
    let outcome = server.run(directory.path(), &text);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("2000 rows read, 2000 published"), "{}", outcome.stdout);
}

#[test]
fn a_pointer_that_somebody_else_replaced_meanwhile_stays() {
    let Some(server) = Server::start() else { return };
    let directory = tempdir().unwrap();
    let first = server.release(directory.path(), "");
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    fs::write(directory.path().join("job.toml"), job(100_000, "s3://lake/census", "")).unwrap();
    let mut command = program(directory.path(), &["release", "job.toml"]);
    command.env("CENSUS_SEED", "a secret of the tests").envs(server.environment());
    let slow = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The run has read the pointer when it begins to stage.
    while !server.keys().iter().any(|key| key.contains(".staging/")) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let other = format!("{}\n\n", server.pointer());
    server.ask("PUT", "/lake/census/manifest.json", &other);
    let outcome: Outcome = slow.wait_with_output().unwrap().into();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("another run has published"), "{}", outcome.stderr);
    let answer = server.ask("GET", "/lake/census/manifest.json", "");
    assert!(answer.ends_with(&other), "{answer}");
    let current = server.pointer()["release"].as_str().unwrap().to_owned();
    let strangers: Vec<String> =
        server.keys().into_iter().filter(|key| !key.contains(&current)).collect();
    assert_eq!(strangers, ["census/manifest.json"]);
}
