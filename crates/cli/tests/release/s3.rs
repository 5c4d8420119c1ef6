//! `anonymize release` to an S3 server on this machine: moto's, if `.ci/run` could install it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

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
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/moto/bin/moto_server");
    named.into_iter().chain([installed]).find(|path| path.exists())
}

/// Asks the server at a port, by hand.
fn ask(port: u16, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
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

impl Server {
    /// A server with a bucket, or nothing if there is no server to start.
    pub fn start() -> Option<Self> {
        let Some(path) = moto() else {
            println!(
                "SKIPPED: no S3 server; python3 -m venv target/moto && target/moto/bin/pip install 'moto[s3,server]'"
            );
            return None;
        };
        let mut command = Command::new(path);
        // Any free port: it says which one.
        command.args(["-H", "127.0.0.1", "-p", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let port = log.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, address) = line.split_once("Running on http://127.0.0.1:")?;
            address.trim_end_matches(|end: char| !end.is_ascii_digit()).parse().ok()
        });
        // It goes on saying things.
        std::thread::spawn(move || log.for_each(drop));
        let server = Self { child, port: port.unwrap() };
        assert!(server.ask("PUT", "/lake", "").starts_with("HTTP/1.1 200"));
        Some(server)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        ask(self.port, method, path, body)
    }

    pub fn keys(&self) -> Vec<String> {
        let listing = self.ask("GET", "/lake?list-type=2", "");
        let keys = listing.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        keys.map(str::to_owned).collect()
    }

    /// What a program must know to talk to it.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        Self::environment_at(self.port)
    }

    fn environment_at(port: u16) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
            ("NO_PROXY", "127.0.0.1".to_owned()),
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

/// Passes on what a program says to a server and back. When the program says something, somebody does
/// something else first.
fn eavesdrop(server: u16, said: &'static str, mut first: impl FnMut() + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = channel::<Sender<()>>();
    std::thread::spawn(move || {
        for heard in told {
            first();
            let _ = heard.send(());
        }
    });
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (from, to) = (stream.unwrap(), TcpStream::connect(("127.0.0.1", server)).unwrap());
            let (mut back, mut answers) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            let tell = tell.clone();
            std::thread::spawn(move || pass_on(from, to, said, &tell));
        }
    });
    port
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, said: &str, tell: &Sender<Sender<()>>) {
    let (mut part, mut last) = ([0_u8; 4096], Vec::<u8>::new());
    while let Ok(read @ 1..) = from.read(&mut part) {
        // What begins in one part may end in the next; the server does nothing before it has both.
        last.extend(&part[..read]);
        if last.windows(said.len()).any(|window| window == said.as_bytes()) {
            let (heard, go_on) = channel();
            tell.send(heard).unwrap();
            go_on.recv().unwrap();
            last.clear();
        }
        last.drain(..last.len().saturating_sub(said.len() - 1));
        if to.write_all(&part[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

#[test]
fn a_pointer_that_somebody_else_replaced_meanwhile_stays() {
    let Some(server) = Server::start() else { return };
    let directory = tempdir().unwrap();
    let first = server.release(directory.path(), "");
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let other = format!("{}\n\n", server.pointer());
    // Just before the run replaces the pointer that it has read when it began.
    let replaced = Arc::new(AtomicUsize::new(0));
    let replace = {
        let (port, other, replaced) = (server.port, other.clone(), Arc::clone(&replaced));
        move || {
            if replaced.fetch_add(1, Ordering::SeqCst) == 0 {
                ask(port, "PUT", "/lake/census/manifest.json", &other);
            }
        }
    };
    let port = eavesdrop(server.port, "PUT /lake/census/manifest.json ", replace);
    let mut command = program(directory.path(), &["release", "job.toml"]);
    command.env("CENSUS_SEED", "a secret of the tests").envs(Server::environment_at(port));
    let outcome = run(command);
    assert!(replaced.load(Ordering::SeqCst) > 0, "the run did not replace the pointer");
    assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("another run has published"), "{}", outcome.stderr);
    let answer = server.ask("GET", "/lake/census/manifest.json", "");
    assert!(answer.ends_with(&other), "{answer}");
    let current = server.pointer()["release"].as_str().unwrap().to_owned();
    let strangers: Vec<String> =
        server.keys().into_iter().filter(|key| !key.contains(&current)).collect();
    assert_eq!(strangers, ["census/manifest.json"]);
}
