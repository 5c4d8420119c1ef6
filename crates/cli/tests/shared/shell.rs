//! What tests ask of a shell.

use std::process::Command;

/// Sends a process a signal, such as `INT`. A shell knows how to; the program `kill` is not everywhere.
pub fn signal(id: u32, name: &str) {
    let sent =
        Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Whether the shell of the documentation is there; says so if it is not.
#[allow(dead_code)]
pub fn has_bash() -> bool {
    let found = Command::new("bash").arg("--version").output().is_ok();
    if !found {
        println!("SKIPPED: bash is not installed");
    }
    found
}
