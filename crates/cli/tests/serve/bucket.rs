//! Sources in an object store: moto's S3 server, if `.ci/run` could install it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::server::{Outcome, Server, Setting, has_psql, program};

/// An object store that ends with the test, with a bucket `lake`.
struct Store {
    child: Child,
    address: String,
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Store {
    fn start() -> Option<Self> {
        let installed =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/moto/bin/moto_server");
        let moto = std::env::var_os("MOTO_SERVER").map_or(installed, PathBuf::from);
        if !moto.exists() {
            println!("skipped: no S3 server");
            return None;
        }
        let mut command = Command::new(moto);
        // Any free port: it says which one.
        command.args(["-H", "127.0.0.1", "-p", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = log.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, address) = line.split_once("Running on http://")?;
            Some(address.trim_end_matches(|end: char| !end.is_ascii_digit()).to_owned())
        });
        // It goes on saying things.
        std::thread::spawn(move || log.for_each(drop));
        let store = Self { child, address: address.unwrap() };
        assert!(store.make_bucket().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")));
        Some(store)
    }

    fn make_bucket(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.write_all(
            b"PUT /lake HTTP/1.1\r\nHost: lake\r\nAuthorization: AWS test:test\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn known_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("AWS_ENDPOINT_URL", format!("http://{}", self.address))
            .env("AWS_ALLOW_HTTP", "true")
            .env("NO_PROXY", "127.0.0.1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", "us-east-1")
    }

    /// Adds an object with that many patients.
    fn add(&self, name: &str, rows: usize) {
        let sql = format!(
            "COPY (SELECT age, occupation FROM sample_census(rows => {rows}, seed => 3))
             TO 's3://lake/patients/{name}.parquet' STORED AS PARQUET"
        );
        let outcome: Outcome =
            self.known_to(&mut program()).args(["-q", "-c", &sql]).output().unwrap().into();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
}

#[test]
fn objects_that_arrive_in_a_bucket_are_noticed() {
    let Some(store) = Store::start() else { return };
    store.add("monday", 300);
    let setting = Setting { directory: tempfile::TempDir::new().unwrap() };
    let policy = r#"
[server]
listen = "127.0.0.1:0"
poll_seconds = 1
[sources.patients]
path = "s3://lake/patients/"
[views.ages]
anonymize = { k = 5, quasi_identifiers = ["age"], sensitive = ["occupation"], seed = "a seed of the tests" }
[users.local]
trust = true
views = ["ages"]
"#;
    std::fs::write(setting.path("policy.toml"), policy).unwrap();
    let mut command = setting.command();
    store.known_to(&mut command);
    let server = Server::spawn_without_waiting(setting, command);
    server.wait_for_log(|log| log.contains("with 300 rows"));
    store.add("tuesday", 200);
    server.wait_for_log(|log| log.contains("with 500 rows"));
    if has_psql() {
        assert_eq!(server.answer("SELECT count(*) FROM ages"), "500");
        let raw = server.failure("SELECT * FROM 's3://lake/patients/'");
        assert!(raw.contains("42P01"), "{raw}");
    }
}
