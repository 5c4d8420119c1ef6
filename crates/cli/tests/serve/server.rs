//! A service of a test's own: its data, its policy, its process.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::program::remove_variables;
pub use crate::program::{Outcome, program};
use crate::shell;

/// Longer than any step of a test takes: only a hopeless wait lasts until then.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Longer than any test takes: a query that ends before its time does not end because of it.
const LONG_ENOUGH: &str = "query_timeout_seconds = 3600";

/// A word in the raw data that no release may show.
pub const RAW_NAME: &str = "Zebediah";

/// A directory with raw data and the policy of a test.
pub struct Setting {
    pub directory: TempDir,
}

impl Setting {
    /// 400 patients in `patients.parquet`.
    pub fn new() -> Self {
        let setting = Self { directory: TempDir::new().unwrap() };
        setting.write_patients(400);
        setting
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Puts that many patients in place, in one step.
    pub fn write_patients(&self, rows: usize) {
        // Made once for all tests.
        static MADE: Mutex<BTreeMap<usize, Vec<u8>>> = Mutex::new(BTreeMap::new());
        let new = self.path("new.parquet");
        let made = MADE.lock().unwrap().get(&rows).cloned();
        let made = made.unwrap_or_else(|| {
            self.make_patients(rows, &new);
            fs::read(&new).unwrap()
        });
        fs::write(&new, &made).unwrap();
        fs::rename(new, self.path("patients.parquet")).unwrap();
        MADE.lock().unwrap().insert(rows, made);
    }

    fn make_patients(&self, rows: usize, new: &Path) {
        let sql = format!(
            "COPY (SELECT '{RAW_NAME} ' || person_id AS name, age, zip, birth_date, hours_per_week,
                CASE WHEN person_id % 5 = 0 THEN NULL ELSE salary_class END AS salary_class, occupation
              FROM sample_census(rows => {rows}, seed => 3)) TO '{}' STORED AS PARQUET",
            new.display()
        );
        let outcome: Outcome = program().args(["-q", "-c", &sql]).output().unwrap().into();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }

    /// A policy with two views and three users, and these lines in `[server]`.
    pub fn write_policy(&self, server: &str) {
        static HASHED: OnceLock<String> = OnceLock::new();
        let password = HASHED.get_or_init(|| hash("open sesame"));
        let server = match server {
            "" => LONG_ENOUGH.to_owned(),
            server if server.contains("query_timeout_seconds") => server.to_owned(),
            server => format!("{LONG_ENOUGH}\n{server}"),
        };
        let policy = format!(
            r#"
[server]
listen = "127.0.0.1:0"
{server}

[sources.patients]
path = "patients.parquet"

[views.patients_k10]
query = "SELECT name, age, zip, birth_date, hours_per_week, salary_class, occupation FROM patients"
[views.patients_k10.anonymize]
k = 10
quasi_identifiers = ["age", "zip"]
sensitive = ["occupation"]
identifiers = ["name"]
keep = ["birth_date", "hours_per_week", "salary_class"]
hierarchies = {{ zip = {{ prefixes = [3, 2, 1] }} }}
seed = {{ env = "RELEASE_SEED" }}

[views.ages]
query = "SELECT age, occupation FROM patients"
anonymize = {{ k = 5, quasi_identifiers = ["age"], sensitive = ["occupation"], ranges = "bounds", seed = "a seed of the tests" }}

[users.analyst]
password = '{password}'
views = ["patients_k10"]

[users.steward]
password_env = "STEWARD_PASSWORD"
views = ["patients_k10", "ages"]
may_refresh = true

[users.local]
trust = true
views = ["patients_k10", "ages"]
"#
        );
        fs::write(self.path("policy.toml"), policy).unwrap();
    }

    /// The service's command, with the secrets in its environment.
    pub fn command(&self) -> Command {
        let mut command = program();
        command
            .args(["serve", "--policy"])
            .arg(self.path("policy.toml"))
            // It tells when a query runs.
            .env("RUST_LOG", "error,anonymize_serve=debug")
            .env("RELEASE_SEED", "a secret of the tests")
            .env("STEWARD_PASSWORD", "keys");
        command
    }

    /// Starts the service.
    pub fn start(self) -> Server {
        let command = self.command();
        Server::spawn(self, command)
    }
}

/// What a policy stores of a password.
pub fn hash(password: &str) -> String {
    let mut child = program()
        .args(["serve", "--hash-password"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), password.as_bytes()).unwrap();
    let outcome: Outcome = child.wait_with_output().unwrap().into();
    assert_eq!(outcome.code, Some(0));
    outcome.stdout.trim_end().to_owned()
}

/// A running service. It is killed when the test ends, however it ends.
pub struct Server {
    pub setting: Setting,
    pub address: SocketAddr,
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// A service with the usual policy.
    pub fn new() -> Self {
        Self::with("")
    }

    /// A service with these lines in `[server]`.
    pub fn with(server: &str) -> Self {
        let setting = Setting::new();
        setting.write_policy(server);
        setting.start()
    }

    /// Starts a command and waits until it serves and every view of the usual policy has a release.
    pub fn spawn(setting: Setting, command: Command) -> Self {
        let server = Self::spawn_without_waiting(setting, command);
        for view in ["patients_k10", "ages"] {
            server.wait_for_log(|log| log.contains(&format!("view {view}: release")));
        }
        server
    }

    /// Starts a command and waits until it serves.
    pub fn spawn_without_waiting(setting: Setting, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let reader = std::thread::spawn({
            let (log, stderr) = (Arc::clone(&log), child.stderr.take().unwrap());
            move || copy_lines(stderr, &log)
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().rsplit(' ').next().unwrap_or_default();
        let address = address.parse().unwrap_or_else(|_| {
            let _ = child.wait();
            panic!("it did not start: {line}{}", log.lock().unwrap())
        });
        Self { setting, address, child, log, reader: Some(reader) }
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the log tells.
    pub fn wait_for_log(&self, told: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        // Asked before the log is read: what is not in it then will never be.
        let mut is_over = false;
        while !told(&self.log()) {
            assert!(
                !is_over && begun.elapsed() < PATIENCE,
                "the log does not tell: {}",
                self.log()
            );
            is_over = self.reader.as_ref().is_none_or(JoinHandle::is_finished);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends the process a signal.
    pub fn signal(&self, name: &str) {
        shell::signal(self.child.id(), name);
    }

    /// Waits for its end; returns the exit code and all that it logged.
    pub fn end(mut self) -> (Option<i32>, String, Setting) {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let log = self.log();
        let empty = Setting { directory: TempDir::new().unwrap() };
        let setting = std::mem::replace(&mut self.setting, empty);
        (status.code(), log, setting)
    }

    /// psql as a user who needs no password.
    pub fn psql(&self, arguments: &[&str]) -> Outcome {
        self.psql_as("local", "", arguments)
    }

    /// psql as a user.
    pub fn psql_as(&self, user: &str, password: &str, arguments: &[&str]) -> Outcome {
        self.psql_command(user, password).args(arguments).output().unwrap().into()
    }

    /// psql, ready to be started.
    pub fn psql_command(&self, user: &str, password: &str) -> Command {
        let mut command = Command::new("psql");
        remove_variables(&mut command, &["PG"]);
        command
            .args(["-X", "-A", "-t", "-v", "VERBOSITY=verbose", "-U", user, "-d", "releases"])
            .args(["-h", &self.address.ip().to_string(), "-p", &self.address.port().to_string()])
            .env("PGPASSWORD", password)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        command
    }

    /// The only answer to a query.
    pub fn answer(&self, sql: &str) -> String {
        let outcome = self.psql(&["-c", sql]);
        assert_eq!(outcome.code, Some(0), "{sql}: {}", outcome.stderr);
        outcome.stdout.trim_end().to_owned()
    }

    /// The SQLSTATE and the sentence that a statement fails with.
    pub fn failure(&self, sql: &str) -> String {
        let outcome = self.psql(&["-c", sql]);
        assert_eq!(outcome.code, Some(1), "{sql} did not fail: {}", outcome.stdout);
        outcome.stderr
    }
}

fn copy_lines(stderr: ChildStderr, log: &Mutex<String>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = String::new();
    while stderr.read_line(&mut line).unwrap_or(0) > 0 {
        log.lock().unwrap().push_str(&line);
        line.clear();
    }
}

/// Whether psql is there; says so if it is not.
pub fn has_psql() -> bool {
    let found = Command::new("psql").arg("--version").output().is_ok();
    if !found {
        println!("skipped: psql is not installed");
    }
    found
}

/// Whether a file holds a text.
pub fn holds(path: &Path, text: &str) -> bool {
    let mut bytes = Vec::new();
    fs::File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
