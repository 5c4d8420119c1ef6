//! Release jobs and reports as their users run them.

#![allow(clippy::unwrap_used, missing_docs)]

mod docs;
mod jobs;
mod page;
mod s3;
mod series;
#[path = "../shared/shell.rs"]
mod shell;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Longer than any step of a test takes: only a hopeless wait lasts until then.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The program in a directory, deaf to the settings of whoever runs the tests.
pub fn program(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anonymize"));
    command.current_dir(directory).stdin(Stdio::null()).args(arguments);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("DATAFUSION_") || text.starts_with("AWS_") || text == "RUST_LOG" {
            command.env_remove(&name);
        }
    }
    command
}

pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub fn run(mut command: Command) -> Outcome {
    command.output().unwrap().into()
}

/// A job over a made-up census with so many rows.
pub fn job(rows: u64, output: &str, more: &str) -> String {
    format!(
        r#"
name = "census"
query = "SELECT age, sex, education, zip, occupation, person_id FROM sample_census(rows => {rows}, seed => 3)"

[anonymize]
k = 10
quasi_identifiers = ["age", "sex", "education"]
sensitive = ["occupation"]
identifiers = ["person_id"]
keep = ["zip"]
seed = {{ env = "CENSUS_SEED" }}
hierarchies = {{ age = {{ intervals = [5, 10, 20] }} }}

[output]
path = "{output}"

{more}
"#
    )
}
