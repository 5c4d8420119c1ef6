//! `anonymize release` to an S3 server on this machine: moto's, if `.ci/run` could install it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::tempdir;

use crate::{Outcome, job, program, run};

struct Server {
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
    fn start() -> Option<Self> {
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

    fn release(&self, directory: &Path, more: &str) -> Outcome {
        fs::write(directory.join("job.toml"), job(2000, "s3://lake/census", more)).unwrap();
        let mut command = program(directory, &["release", "job.toml"]);
        command
            .env("CENSUS_SEED", "a secret seed")
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", "us-east-1");
        run(command)
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
    fs::write(directory.path().join("job.toml"), job(2000, "s3://nowhere/census", "")).unwrap();
    let mut command = program(directory.path(), &["release", "job.toml"]);
    command
        .env("CENSUS_SEED", "a secret seed")
        .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", server.port))
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "us-east-1");
    let outcome = run(command);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("s3://nowhere/census"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("a secret seed"));
}
