//! Release jobs from beginning to end, on a local disk and in an object store.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod figures;
mod inputs;
mod local;
mod mistakes;
mod remote;
mod series;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anonymize_release::{Error, Job, Observer, Outcome, Phase, RunOptions, run, run_until};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use tokio::sync::Notify;

/// A job over a small census, with what a test adds to its sections.
#[derive(Clone)]
pub struct Draft {
    pub query: &'static str,
    pub anonymize: &'static str,
    pub output: String,
    pub checks: &'static str,
}

pub const CENSUS: &str = "SELECT age, sex, education, zip, occupation, person_id FROM sample_census(rows => 2000, seed => 3)";
pub const ROUNDED: &str = r#"
k = 10
quasi_identifiers = ["age", "sex", "education"]
sensitive = ["occupation"]
identifiers = ["person_id"]
keep = ["zip"]
seed = "a secret of the tests"
"#;

impl Draft {
    pub fn new(output: &str) -> Self {
        Self {
            query: CENSUS,
            anonymize: ROUNDED,
            output: format!("path = \"{output}\""),
            checks: "",
        }
    }

    pub fn job(&self, directory: &Path) -> Result<Job, Error> {
        let Self { query, anonymize, output, checks } = self;
        let text = format!(
            "name = \"census\"\nquery = \"\"\"{query}\"\"\"\n[output]\n{output}\n[checks]\n{checks}\n[anonymize]\n{anonymize}"
        );
        Job::from_toml(&text, directory)
    }

    pub async fn run(&self, directory: &Path) -> Result<Outcome, Error> {
        run(&self.job(directory)?, &host(), RunOptions::default()).await
    }
}

/// A host whose jobs can make up their rows.
pub fn host() -> SessionContext {
    let host = SessionContext::new();
    anonymize_sample::register(&host).unwrap();
    host
}

/// Rows that never come to an end.
pub const ENDLESS: &str = "SELECT age, sex, education, zip, occupation, person_id \
    FROM sample_census(rows => 1000000000000000) WHERE age < 0";

/// Looks around when a phase begins, and has the run stopped.
struct Stopper<F> {
    at: Phase,
    look: F,
    stop: Arc<Notify>,
}

impl<F: Fn() + Send + Sync> Observer for Stopper<F> {
    fn phase(&self, phase: Phase) {
        if phase == self.at {
            (self.look)();
            self.stop.notify_one();
        }
    }

    fn running(&self, _plan: &Arc<dyn ExecutionPlan>) {}
}

/// Runs a job until a phase begins, when somebody looks around.
pub async fn run_to(
    at: Phase,
    job: &Job,
    host: &SessionContext,
    look: impl Fn() + Send + Sync + 'static,
) -> Result<Outcome, Error> {
    let stop = Arc::new(Notify::new());
    let observer = Arc::new(Stopper { at, look, stop: Arc::clone(&stop) });
    let options = RunOptions { observer, ..RunOptions::default() };
    run_until(job, host, options, stop.notified()).await
}

/// Every file below a directory with its bytes, links left out.
pub fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(directory) else { return found };
    for entry in entries {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(tree(&entry.path()));
        } else if kind.is_file() && entry.file_name() != ".lock" {
            found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
        }
    }
    found
}
