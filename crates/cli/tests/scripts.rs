//! Every script in `sql/` runs as a user would run it.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    scripts.sort();
    scripts
}

#[test]
fn every_script_succeeds() {
    let scripts = scripts();
    assert!(scripts.iter().any(|script| script.ends_with("quickstart.sql")));
    for script in scripts {
        // Scripts write below the directory they are started in.
        let directory = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_anonymize"))
            .arg("-f")
            .arg(script.canonicalize().unwrap())
            .current_dir(directory.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", script.display());
    }
}
