//! The promises of the one list of options: nothing about an option is written in a second place.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use super::definition::DEFINITIONS;
use super::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The tables of `docs/options.md`: the options, and how their values are written.
fn tables() -> [String; 2] {
    let option = |definition: &Definition| {
        let reports = ["privacy_report", "utility_report", "series_report"];
        let reports = reports.into_iter().filter(|report| definition.is_in(Place::Sql(report)));
        let reports: Vec<String> = reports.map(|report| format!("`{report}`")).collect();
        let Definition { name, wanted, .. } = definition;
        let (does, reports) = (definition.description(), reports.join(", "));
        format!("| `{name}` | {} | {does} | {reports} |\n", wanted.words)
    };
    let mut kinds: Vec<String> = Vec::new();
    for Definition { wanted, .. } in DEFINITIONS {
        let row = format!("| {} | `{}` | `{}` |\n", wanted.words, wanted.sql, wanted.file);
        if !kinds.contains(&row) {
            kinds.push(row);
        }
    }
    let published = DEFINITIONS.iter().filter(|definition| definition.name != "run_rows");
    [published.map(option).collect(), kinds.concat()]
}

#[test]
fn the_tables_of_the_documentation_are_this_list() {
    let page = fs::read_to_string(root().join("docs/options.md")).unwrap();
    for expected in tables() {
        let table = format!("| --- |\n{expected}\n");
        assert!(page.contains(&table), "paste this table into docs/options.md:\n\n{expected}");
    }
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            false => {}
        }
    }
}

/// An option that is read and never used would be dropped without a word.
#[test]
fn every_option_is_used() {
    let mut files = Vec::new();
    sources(&root().join("src/engine/options"), &mut files);
    let is_use = |path: &PathBuf| !path.ends_with("definition.rs") && !path.ends_with("tests.rs");
    let code: String =
        files.into_iter().filter(is_use).map(|path| fs::read_to_string(path).unwrap()).collect();
    for Definition { name, .. } in DEFINITIONS {
        let is_end = |c: char| !c.is_alphanumeric() && c != '_' && c != '(';
        let field = format!("self.{name}");
        let is_used = code.split(&field).skip(1).any(|rest| rest.starts_with(is_end));
        assert!(
            is_used,
            "option '{name}' is read and never used: check it where options are resolved"
        );
    }
}

#[test]
fn every_option_says_in_plain_words_what_it_does() {
    for definition in DEFINITIONS {
        let summary = definition.summary();
        assert!(summary.ends_with('.') && !summary.contains('`'), "{}: {summary}", definition.name);
    }
}

/// What a caller can set, in the words of SQL and of files, must come out of a manifest as it went in.
#[test]
fn what_a_manifest_tells_is_read_back() {
    let values = [
        ("k", Value::from(10)),
        ("quasi_identifiers", ["age", "zip"].into_iter().collect()),
        ("unit_share", 0.5.into()),
        ("method", "rounded".into()),
        (
            "hierarchies",
            Value::map([("age", Value::map([("intervals", [5, 10].into_iter().collect())]))]),
        ),
        ("alpha", 0.4.into()),
        ("class_id", true.into()),
        ("suppress", true.into()),
        ("weights", Value::map([("age", 2.0.into())])),
        (
            "constraints",
            Value::List(vec![Value::map([
                ("columns", ["age"].into_iter().collect()),
                ("k", Value::from(3)),
            ])]),
        ),
    ];
    let mut options = Options::default();
    for (name, value) in values {
        let definition = Options::definitions(Place::File).find(|one| one.name == name).unwrap();
        options.set(definition, value, Place::File).unwrap();
    }
    let told = format!("{options:?}");
    let mut again = Options::default();
    for (name, value) in options.for_manifest() {
        let definition = Options::definitions(Place::File).find(|one| one.name == name).unwrap();
        again.set(definition, value, Place::File).unwrap();
    }
    assert_eq!(format!("{again:?}"), told);
}

#[test]
fn neither_seeds_nor_sensitive_values_are_shown_or_told() {
    let mut options = Options::default();
    let levels = Value::map([("hush", Value::from(1))]);
    for (name, value) in [("seed", Value::from("hush")), ("sensitivity", levels)] {
        let definition = Options::definitions(Place::File).find(|one| one.name == name).unwrap();
        assert!(!format!("{value:?}").contains("hush"));
        options.set(definition, value, Place::File).unwrap();
    }
    assert!(!format!("{options:?}").contains("hush"));
    let told: Vec<&str> = options.for_manifest().into_iter().map(|(name, _)| name).collect();
    assert_eq!(told, ["sensitivity"]);
}
