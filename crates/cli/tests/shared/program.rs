//! The program as a process, and what it printed.

// Every test program includes this file and needs a part of it.
#![allow(dead_code)]

use std::process::{Command, Output, Stdio};

/// The program without the settings of the shell that runs the tests.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anonymize"));
    command.stdin(Stdio::null()).env_remove("RUST_LOG");
    remove_variables(&mut command, &["DATAFUSION_", "AWS_"]);
    command
}

/// Removes the variables with these prefixes from the environment of a command.
pub fn remove_variables(command: &mut Command, prefixes: &[&str]) {
    for (name, _) in std::env::vars_os() {
        if prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
}

/// What a program printed, and how it ended.
#[derive(Debug)]
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
