//! Release jobs and reports as their users run them.

#![allow(clippy::unwrap_used, missing_docs)]

mod docs;
mod jobs;
mod page;
#[path = "../shared/program.rs"]
mod program;
mod s3;
mod series;
#[path = "../shared/shell.rs"]
mod shell;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub use program::Outcome;

/// Longer than any step of a test takes: only a hopeless wait lasts until then.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The program in a directory.
pub fn program(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = program::program();
    command.current_dir(directory).args(arguments);
    command
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
