//! Real processes on loopback: one scheduler, two executors, Parquet files in a directory that all of them see.

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;

use crate::{CALL, call, census, directory, local, number, ports, rows};

/// Processes that end with the test, also when it panics.
struct Cluster {
    scheduler_port: u16,
    scheduler: Child,
    executors: Vec<Child>,
    logs: PathBuf,
    works: PathBuf,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.executors.iter_mut().chain([&mut self.scheduler]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(program: &str, log: &Path, arguments: &[String]) -> Child {
    let log = File::create(log).unwrap();
    Command::new(program)
        .args(arguments)
        .env("RUST_LOG", "debug,h2=info,hyper=info,tonic=info,tower=info")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Longer than any step of a test takes: only a hopeless wait lasts until then.
const PATIENCE: Duration = Duration::from_secs(900);

/// Waits until something holds.
pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Cluster {
    /// A cluster that gives nobody up, however slow the machine is.
    fn new(directory: &Path, executors: usize) -> Self {
        Self::with_timeout(directory, executors, 3600)
    }

    /// A cluster that gives up executors of which it has not heard for so many seconds.
    fn with_timeout(directory: &Path, executors: usize, seconds: u32) -> Self {
        let (logs, works) = (directory.join("logs"), directory.join("work"));
        std::fs::create_dir_all(&logs).unwrap();
        std::fs::create_dir_all(&works).unwrap();
        let [scheduler_port] = ports();
        let arguments =
            ["--port", &scheduler_port.to_string(), "--executor-timeout", &seconds.to_string()];
        let scheduler = start(
            env!("CARGO_BIN_EXE_anonymize-scheduler"),
            &logs.join("scheduler.log"),
            &arguments.map(str::to_owned),
        );
        let mut cluster = Self { scheduler_port, scheduler, executors: Vec::new(), logs, works };
        // Executors look for it for half a minute, which may be too short.
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", scheduler_port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the scheduler does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        for _ in 0..executors {
            cluster.add_executor();
        }
        cluster
    }

    fn add_executor(&mut self) {
        let [port] = ports();
        let arguments = self.executor_arguments(port);
        let log = self.logs.join(format!("executor-{}.log", self.executors.len()));
        let program = env!("CARGO_BIN_EXE_anonymize-executor");
        self.executors.push(start(program, &log, &arguments));
    }

    fn executor_arguments(&self, port: u16) -> Vec<String> {
        let options = [
            ("--scheduler-port", self.scheduler_port.to_string()),
            ("--port", port.to_string()),
            ("--tasks", "2".to_owned()),
            ("--work-dir", self.works.display().to_string()),
            ("--scheduler-timeout", "3600".to_owned()),
        ];
        options.map(|(name, value)| [name.to_owned(), value]).concat()
    }

    /// A client, once as many executors have registered.
    async fn client(&self, directory: &Path) -> SessionContext {
        let is_running = |at: usize| {
            let log = std::fs::read_to_string(self.logs.join(format!("executor-{at}.log")));
            log.is_ok_and(|log| log.contains("Starting poll work loop with scheduler"))
        };
        eventually("the start of all executors", || (0..self.executors.len()).all(is_running))
            .await;
        let url = format!("df://localhost:{}", self.scheduler_port);
        let context = anonymize_ballista::remote(&url).await.unwrap();
        anonymize_sample::register(&context).unwrap();
        // What the scheduler does not know yet it refuses; what it knows it answers.
        let begun = Instant::now();
        loop {
            match rows(&context, "SELECT count(*) FROM sample_census(rows => 10)").await {
                Ok(_) => break,
                Err(error) if begun.elapsed() > PATIENCE => panic!("{error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
        census(&context, directory).await;
        context
    }

    fn logs(&self) -> String {
        let files = std::fs::read_dir(&self.logs).unwrap();
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
    }

    /// How often all logs together say this.
    fn logged(&self, text: &str) -> usize {
        self.logs().matches(text).count()
    }

    /// Files in the executors' working directories.
    fn shuffle_files(&self) -> Vec<PathBuf> {
        let mut files = files_below(&self.works);
        files.retain(|file| file.extension().is_none_or(|end| end != "lock"));
        files
    }
}

/// All files in a directory and in those below it.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = paths.map(|entry| entry.path());
    let files = paths.map(|path| if path.is_dir() { files_below(&path) } else { vec![path] });
    files.flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_and_two_executors_make_the_same_release_and_it_is_valid() {
    let directory = directory(3000);
    let local = local(directory.path()).await;
    let sql = format!("SELECT * FROM {CALL}");
    let expected = rows(&local, &sql).await.unwrap();
    let mut cluster = Cluster::new(directory.path(), 1);
    let client = cluster.client(directory.path()).await;
    assert_eq!(rows(&client, &sql).await.unwrap(), expected, "one executor");
    cluster.add_executor();
    let client = cluster.client(directory.path()).await;
    assert_eq!(rows(&client, &sql).await.unwrap(), expected, "two executors");

    let target = directory.path().join("release.parquet");
    let copy = format!("COPY (SELECT * FROM {CALL}) TO '{}' STORED AS PARQUET", target.display());
    rows(&client, &copy).await.unwrap();
    let report = format!(
        "SELECT count(*) FROM privacy_report((SELECT age, sex, education, zip, occupation FROM '{}'), \
         quasi_identifiers => ['age', 'sex', 'education', 'zip'], sensitive => ['occupation'], k => 5) WHERE NOT holds",
        target.display()
    );
    let reader = local.enable_url_table();
    assert_eq!(number(&reader, &report).await, 0);
    assert_eq!(
        number(&reader, &format!("SELECT count(*) FROM '{}'", target.display())).await,
        3000
    );

    // Raw rows stay in shuffle files while a query runs, and go with it.
    eventually("the end of all shuffle files", || cluster.shuffle_files().is_empty()).await;
}

/// The trial of the documentation, on ports and in a directory of its own.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_documentation_start_a_cluster() {
    let directory = directory(1000);
    let page = include_str!("../../../docs/cluster.md");
    let trial = page.split("On one machine, for a trial:").nth(1).unwrap();
    let commands = trial.split("```").nth(1).unwrap().lines().skip(1);
    let mut commands: Vec<String> = commands.map(str::to_owned).collect();
    let given = ["50050", "50051", "50061"];
    let free = ports::<3>().map(|port| port.to_string());
    for command in &mut commands {
        for (given, free) in given.iter().zip(&free) {
            *command = command.replace(given, free);
        }
        *command = command.replace("/tmp", &directory.path().display().to_string());
    }
    let executors = commands.split_off(1);
    for command in executors.iter().filter(|command| !command.contains(&free[0])) {
        // The scheduler's port is the usual one in the documentation.
        assert!(command.starts_with("target/release/anonymize-executor --port "), "{command}");
    }
    let logs = directory.path().join("logs");
    std::fs::create_dir_all(&logs).unwrap();
    let run = |command: &str, log: &str, more: &[String]| {
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let program = match words.remove(0).as_str() {
            "target/release/anonymize-scheduler" => env!("CARGO_BIN_EXE_anonymize-scheduler"),
            "target/release/anonymize-executor" => env!("CARGO_BIN_EXE_anonymize-executor"),
            other => panic!("{other} is no program of ours"),
        };
        words.extend_from_slice(more);
        start(program, &logs.join(log), &words)
    };
    let mut cluster = Cluster {
        scheduler_port: free[0].parse().unwrap(),
        scheduler: run(&commands[0], "scheduler.log", &[]),
        executors: Vec::new(),
        logs: logs.clone(),
        works: directory.path().to_owned(),
    };
    for (at, command) in executors.iter().enumerate() {
        let more = ["--scheduler-port".to_owned(), free[0].clone()];
        cluster.executors.push(run(command, &format!("executor-{at}.log"), &more));
    }
    assert_eq!(cluster.executors.len(), 2);
    let client = cluster.client(directory.path()).await;
    assert_eq!(number(&client, &format!("SELECT count(*) FROM {CALL}")).await, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_hold_neither_values_nor_the_seed() {
    let directory = directory(2000);
    let cluster = Cluster::new(directory.path(), 2);
    let client = cluster.client(directory.path()).await;
    rows(&client, &format!("SELECT * FROM {CALL}")).await.unwrap();
    let failing = call("k_member", ", suppression_limit => 0.001");
    assert!(rows(&client, &format!("SELECT * FROM {failing}")).await.is_err());
    let logs = cluster.logs();
    assert!(
        logs.contains("AnonymizeExec") || logs.contains("CellReleaseExec"),
        "nothing was logged"
    );
    let local = local(directory.path()).await;
    let values = "SELECT DISTINCT value FROM (SELECT occupation AS value FROM census UNION SELECT education FROM \
                  census UNION (SELECT zip FROM census LIMIT 200)) WHERE value IS NOT NULL";
    for value in rows(&local, values).await.unwrap() {
        // Short numbers occur anywhere; zip codes only by themselves.
        let shown =
            logs.contains(&format!("\"{value}\"")) || value.len() > 6 && logs.contains(&value);
        assert!(!shown, "a log shows the value {value}");
    }
    assert!(!logs.contains("unspeakable"), "a log shows the seed");
}

/// Stages without one of our operators must redact values from errors too.
#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_fail_on_a_value_do_not_tell_it_to_clients_or_logs() {
    let directory = directory(2000);
    let cluster = Cluster::new(directory.path(), 2);
    let client = cluster.client(directory.path()).await;
    let number = "CAST(occupation AS INT) AS o";
    let inputs = [
        format!("SELECT age, {number}, count(*) AS n FROM census GROUP BY 1, 2"),
        format!("SELECT age, {number}, 1 AS n FROM census ORDER BY 1, 2 LIMIT 900"),
        format!("SELECT a.age, b.o, 1 AS n FROM census a JOIN (SELECT zip, {number} FROM census) b ON a.zip = b.zip"),
        "SELECT age, rank() OVER (PARTITION BY CAST(occupation AS INT) ORDER BY age) AS o, 1 AS n FROM census"
            .to_owned(),
        format!("SELECT age, 1 AS o, 1 AS n FROM census UNION ALL SELECT min(age), max(o), 1 FROM (SELECT age, {number} FROM census)"),
    ];
    for input in inputs {
        for call in [
            format!(
                "anonymize(({input}), k => 5, quasi_identifiers => ['age', 'o'], keep => ['n'], seed => 1)"
            ),
            format!("privacy_report(({input}), k => 5, quasi_identifiers => ['age', 'o'])"),
        ] {
            let error = rows(&client, &format!("SELECT count(*) FROM {call}")).await.unwrap_err();
            let error = error.to_string();
            assert!(error.contains("the message is withheld"), "{call}: {error}");
            assert!(!error.contains("Cannot cast"), "{call}: {error}");
        }
    }
    let logs = cluster.logs();
    assert!(logs.contains("the message is withheld"), "nothing was logged");
    assert!(!logs.contains("Cannot cast"), "a log quotes a value");
}

/// Also when its directory goes while it runs, as directories for temporary files do.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_reads_or_takes_the_directory_of_an_executor() {
    use std::os::unix::fs::PermissionsExt;
    let directory = directory(1000);
    let mut cluster = Cluster::new(directory.path(), 0);
    let program = env!("CARGO_BIN_EXE_anonymize-executor");
    let [port] = ports();
    let log = |name: &str| directory.path().join("logs").join(name);
    let arguments = cluster.executor_arguments(port);
    cluster.executors.push(start(program, &log("executor-0.log"), &arguments));
    let client = cluster.client(directory.path()).await;
    let works = cluster.works.join(format!("anonymize-executor-{port}"));
    let note = works.join("note");
    std::fs::write(&note, "of the first").unwrap();

    let refused = |name: &str, arguments: &[String], says: &str| {
        let status = start(program, &log(name), arguments).wait().unwrap();
        let said = std::fs::read_to_string(log(name)).unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains(says) && !said.contains("panicked"), "{said}");
        assert!(note.exists(), "the files of the first executor are gone");
    };
    refused("same.txt", &arguments, &format!("--port {port}: cannot listen on 127.0.0.1:{port}"));
    let mut elsewhere = cluster.executor_arguments(port);
    elsewhere.extend(["--bind-host".to_owned(), "127.0.0.2".to_owned()]);
    refused("elsewhere.txt", &elsewhere, &format!("an executor with --port {port} works in"));

    std::fs::remove_dir_all(&works).unwrap();
    assert_eq!(number(&client, &format!("SELECT count(*) FROM {CALL}")).await, 1000);
    let mode = std::fs::metadata(&works).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "others can read {mode:o}");

    // Told to end, it does so in order.
    let executor = &mut cluster.executors[0];
    let id = executor.id().to_string();
    let told = Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &id]).status();
    assert!(told.unwrap().success());
    assert_eq!(executor.wait().unwrap().code(), Some(0));
    assert!(!works.exists(), "raw rows may be left");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_dies_leaves_no_wrong_or_partial_release() {
    // A query that is over before its executor dies says nothing, and the next one is larger.
    for rows in [60_000, 120_000, 240_000, 480_000] {
        if is_hit_by_a_death(rows).await {
            return;
        }
    }
    panic!("every query was faster than its test");
}

/// Whether the executor died in the middle of a task, hence before the query was over.
async fn is_hit_by_a_death(size: usize) -> bool {
    let directory = directory(size);
    let mut cluster = Cluster::with_timeout(directory.path(), 2, 10);
    let client = cluster.client(directory.path()).await;
    let target = directory.path().join("release/");
    let copy = format!("COPY (SELECT * FROM {CALL}) TO '{}' STORED AS PARQUET", target.display());
    let before = cluster.shuffle_files();
    let query = tokio::spawn(async move { rows(&client, &copy).await });
    // As soon as the query has written something, an executor that is running one of its tasks is killed.
    let log = cluster.logs.join("executor-0.log");
    let has_written = || cluster.shuffle_files().iter().any(|file| !before.contains(file));
    let is_running = || unfinished_tasks(&log) > 0;
    eventually("a task", || query.is_finished() || has_written() && is_running()).await;
    cluster.executors[0].kill().unwrap();
    cluster.executors[0].wait().unwrap();
    let is_hit = unfinished_tasks(&log) > 0;
    let outcome = tokio::time::timeout(PATIENCE, query).await;
    let outcome = outcome.expect("the query neither ended nor failed").unwrap();
    let local = local(directory.path()).await;
    let reader = local.clone().enable_url_table();
    let published = rows(&reader, &format!("SELECT * FROM '{}'", target.display())).await;
    match outcome {
        Ok(_) => {
            println!("the query finished without its executor");
            let expected = rows(&local, &format!("SELECT * FROM {CALL}")).await;
            let (mut published, mut expected) = (published.unwrap(), expected.unwrap());
            published.sort();
            expected.sort();
            assert_eq!(published, expected);
        }
        Err(error) => {
            println!("the query failed: {error}");
            assert!(published.is_err() || published.unwrap().is_empty(), "a part was left");
        }
    }
    is_hit
}

/// How many tasks an executor has begun and not ended, by its log.
fn unfinished_tasks(log: &Path) -> usize {
    let log = std::fs::read_to_string(log).unwrap();
    let [begun, ended] =
        ["Received task: [", "Finished task : ["].map(|text| log.matches(text).count());
    begun - ended
}

/// An abandoned query must not leave raw rows in shuffle files or occupy task slots.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_its_client_gives_up_ends_on_the_cluster() {
    let directory = directory(2000);
    let cluster = Cluster::new(directory.path(), 2);
    let client = cluster.client(directory.path()).await;
    // As soon as the scheduler has heard of it, and when it has written something.
    let is_known = |known: usize| cluster.logged("Job queued: [") > known;
    let has_written = |_| !cluster.shuffle_files().is_empty();
    for is_under_way in [&is_known as &dyn Fn(usize) -> bool, &has_written] {
        eventually("the end of earlier files", || cluster.shuffle_files().is_empty()).await;
        give_up(&cluster, &client, &directory.path().join("release"), is_under_way).await;
    }
    let running = |at: usize| unfinished_tasks(&cluster.logs.join(format!("executor-{at}.log")));
    eventually("the end of all tasks", || running(0) + running(1) == 0).await;
    eventually("the end of all shuffle files", || cluster.shuffle_files().is_empty()).await;
    let names = std::fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["census", "logs", "work"], "something was left");
}

/// Sends a query and gives it up when it is under way. Its input would take hours.
async fn give_up(
    cluster: &Cluster,
    client: &SessionContext,
    target: &Path,
    is_under_way: &dyn Fn(usize) -> bool,
) {
    let columns = "SELECT age, sex, education, zip, occupation FROM";
    let endless = format!("{columns} census UNION ALL {columns} sample_census(rows => 4000000000)");
    let call = CALL.replace(&format!("{columns} census"), &endless);
    assert_ne!(call, CALL);
    let copy = format!("COPY (SELECT * FROM {call}) TO '{}/' STORED AS PARQUET", target.display());
    let (known, cancelled) = (cluster.logged("Job queued: ["), cluster.logged("Job cancelled: ["));
    let client = client.clone();
    let query = tokio::spawn(async move { rows(&client, &copy).await });
    eventually("the query", || is_under_way(known) || query.is_finished()).await;
    query.abort();
    let outcome = query.await;
    assert!(outcome.is_err(), "an endless query has ended: {outcome:?}");
    let told = || cluster.logged("Job cancelled: [") > cancelled;
    eventually("the word to the scheduler", told).await;
}
