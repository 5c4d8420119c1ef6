//! The rules of thumb of CONTRIBUTING.md that a program can check.

use std::fs;
use std::path::{Path, PathBuf};

const LINES_OF_A_FILE: usize = 500;
const LINES_OF_THE_README: usize = 150;

/// Names that say nothing about what is in a module.
const VAGUE: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the workspace.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        match path.is_dir() {
            true if name.starts_with('.') || name == "target" => {}
            true => sources(&path, found),
            false if name.ends_with(".rs") => found.push(path),
            false => {}
        }
    }
}

/// What breaks a rule for a file with this text.
fn broken_rule(file: &Path, text: &str) -> Option<String> {
    let lines = text.lines().count();
    if lines > LINES_OF_A_FILE {
        return Some(format!("{} has {lines} lines: split it by subject", file.display()));
    }
    let mut segments = file.iter().map(|segment| segment.to_str().unwrap());
    let vague = segments.find(|segment| VAGUE.contains(&segment.trim_end_matches(".rs")))?;
    Some(format!("{}: '{vague}' does not say what is in it", file.display()))
}

#[test]
fn files_are_short_and_named_after_what_is_in_them() {
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests", "benches", "examples"] {
        sources(&root().join(folder), &mut files);
    }
    assert!(files.len() > 300, "{} files", files.len());
    let broken = files.iter().filter_map(|file| {
        broken_rule(file.strip_prefix(root()).unwrap(), &fs::read_to_string(file).unwrap())
    });
    let broken: Vec<String> = broken.collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_readme_is_read_to_its_end() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= LINES_OF_THE_README, "{lines} lines: move what few people need to docs/");
}

/// Clippy finds the functions.
#[test]
fn functions_take_at_most_five_arguments() {
    let clippy = fs::read_to_string(root().join("clippy.toml")).unwrap();
    assert!(clippy.contains("too-many-arguments-threshold = 5"), "{clippy}");
}

#[test]
fn broken_rules_are_found() {
    let long = "\n".repeat(LINES_OF_A_FILE + 1);
    for (file, text) in
        [("src/a.rs", long.as_str()), ("src/utils.rs", ""), ("benches/common/mod.rs", "")]
    {
        assert!(broken_rule(Path::new(file), text).is_some(), "{file}");
    }
    assert_eq!(broken_rule(Path::new("src/commonplace.rs"), &long[1..]), None);
}
