//! Modules use those below them only.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The library, from the bottom up. Names of one line do not know each other.
const LAYERS: &[&[&str]] = &[
    &["error"],
    &["model"],
    &["hierarchy", "association"],
    &["method", "measure"],
    &["columnar"],
    &["engine"],
];

/// The folders of the engine. What is said of rows in errors belongs to everybody.
const ENGINE: &[&[&str]] = &[
    &["errors", "wire"],
    &["options"],
    &["plan"],
    &["exec"],
    &["reports"],
    &["staging"],
    &["rules", "codec"],
    &["sql"],
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn rust_files(at: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a module, without comments and without tests.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let text = text.split("#[cfg(test)]\n#[allow(clippy::unwrap_used)]\nmod tests {").next();
    let lines = text.unwrap_or_default().lines();
    lines.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The names that follow a path: one, or all in braces.
fn named_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split(';').next().unwrap_or_default(),
            None => rest,
        };
        let mut depth = 0;
        let mut name = String::new();
        for letter in list.chars() {
            match letter {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '_' if depth == 0 => name.push(letter),
                _ => {
                    names.insert(std::mem::take(&mut name));
                    match letter {
                        '{' => depth += 1,
                        '}' if depth > 0 => depth -= 1,
                        // The first segment of a path is what it is about.
                        ':' if depth == 0 => depth = 1,
                        ',' if depth == 1 => depth = 0,
                        _ => {}
                    }
                    if !rest.starts_with('{') {
                        break;
                    }
                }
            }
        }
    }
    names.remove("");
    names
}

/// Every module of `root` with what it names of its layers, and how many times anything was named.
fn check(root: &Path, prefix: &str, layers: &[&[&str]]) -> usize {
    let level = |name: &str| layers.iter().position(|layer| layer.contains(&name));
    let (mut files, mut seen) = (Vec::new(), 0);
    rust_files(root, &mut files);
    for file in files {
        let within = file.strip_prefix(root).unwrap();
        let first = within.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        let is_test = within.to_str().unwrap().contains("test") || module.contains("toy");
        let Some(own) = level(module).filter(|_| !is_test) else { continue };
        let mut names = named_after(&code(&file), prefix);
        // From the root of a folder `super` is what its siblings are in.
        if within.ends_with("mod.rs") && within.components().count() == 2 {
            names.extend(named_after(&code(&file), "use super::"));
        }
        for name in names {
            let Some(other) = level(&name) else { continue };
            seen += 1;
            assert!(
                name == module || other < own,
                "{} uses {prefix}{name}, which is not below it",
                file.display()
            );
        }
    }
    seen
}

#[test]
fn layers_know_those_below_them_only() {
    let seen = check(&source(), "crate::", LAYERS);
    assert!(seen > 100, "{seen}");
}

#[test]
fn folders_of_the_engine_make_no_circle() {
    let seen = check(&source().join("engine"), "crate::engine::", ENGINE);
    assert!(seen > 50, "{seen}");
    // Every folder has its place.
    for entry in fs::read_dir(source().join("engine")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.trim_end_matches(".rs");
        let has_place = ENGINE.iter().any(|layer| layer.contains(&name));
        assert!(has_place || ["mod", "toy_method"].contains(&name), "{name}");
    }
}

#[test]
fn names_in_braces_are_found() {
    let code =
        "use crate::engine::{exec::{A, B}, options, plan::C};\nlet x = crate::engine::sql::Y;";
    let names = named_after(code, "crate::engine::");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(names, ["exec", "options", "plan", "sql"]);
}
