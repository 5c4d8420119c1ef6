//! Modules use those below them only.

use std::collections::{BTreeMap, BTreeSet};
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
    &["operator"],
    &["options"],
    &["plan", "hierarchies"],
    &["exec", "reports"],
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
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let text = text.split("#[cfg(test)]\n#[allow(clippy::unwrap_used)]\nmod tests {").next();
    let lines = text.unwrap_or_default().lines();
    lines.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The first segments of what follows a path: one, or all in braces.
fn first_segments(rest: &str) -> BTreeSet<String> {
    let list = match rest.strip_prefix('{') {
        Some(list) => list.split(';').next().unwrap_or_default(),
        None => rest,
    };
    let (mut names, mut name, mut depth) = (BTreeSet::new(), String::new(), 0);
    for letter in list.chars().chain([' ']) {
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
    names.remove("");
    names
}

/// What code names of a root: after its own path, or after as many `super` as lead there from `depth` modules below.
fn named(code: &str, root: &str, depth: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(root) {
        names.extend(first_segments(&code[at + root.len()..]));
    }
    for (at, _) in code.match_indices("super::").filter(|(at, _)| !code[..*at].ends_with("super::"))
    {
        let (mut rest, mut steps) = (&code[at..], 0);
        while let Some(above) = rest.strip_prefix("super::") {
            (rest, steps) = (above, steps + 1);
        }
        if steps == depth {
            names.extend(first_segments(rest));
        }
    }
    names
}

/// The names that a root re-exports from its modules, each with its module.
fn re_exports(root: &Path) -> BTreeMap<String, String> {
    let code =
        ["mod.rs", "lib.rs"].map(|file| root.join(file)).into_iter().find(|file| file.exists());
    let code = code.map(|file| code_of(&file)).unwrap();
    let mut names = BTreeMap::new();
    for statement in code.split(';') {
        let Some((visible, path)) = statement.rsplit_once("use ") else { continue };
        let Some((module, exported)) = path.split_once("::") else { continue };
        // `crate::` is in modules of the root that show other modules.
        if !visible.contains("pub") || path.starts_with("crate::") {
            continue;
        }
        match exported {
            "*" => names.extend(
                re_exports(&root.join(module)).into_keys().map(|name| (name, module.to_owned())),
            ),
            _ => names.extend(
                exported
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .filter(|name| !name.is_empty())
                    .map(|name| (name.to_owned(), module.to_owned())),
            ),
        }
    }
    names
}

/// Every module of `root` with what it names of its layers, and how many times anything was named.
fn check(root: &Path, prefix: &str, layers: &[&[&str]]) -> usize {
    let level = |name: &str| layers.iter().position(|layer| layer.contains(&name));
    let re_exports = re_exports(root);
    let (mut files, mut seen) = (Vec::new(), 0);
    rust_files(root, &mut files);
    for file in files {
        let within = file.strip_prefix(root).unwrap();
        let first = within.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        let is_test = within.to_str().unwrap().contains("test") || module.contains("toy");
        let Some(own) = level(module).filter(|_| !is_test) else { continue };
        let depth = within.components().count() - usize::from(within.ends_with("mod.rs"));
        for name in named(&code_of(&file), prefix, depth) {
            let owner = re_exports.get(&name).unwrap_or(&name);
            let other = level(owner).unwrap_or_else(|| {
                panic!("{} uses {prefix}{name}, which belongs to no layer", file.display())
            });
            seen += 1;
            assert!(
                owner == module || other < own,
                "{} uses {prefix}{name} of {owner}, which is not below it",
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
        assert!(has_place || ["mod", "toy_method", "toy_option"].contains(&name), "{name}");
    }
}

#[test]
fn names_are_found_however_they_are_written() {
    let code = "use crate::engine::{exec::{A, B}, options, plan::C};\nlet x = crate::engine::sql::Y;\n\
                use super::super::codec::D;\nsuper::super::staging();\nuse super::sibling;";
    let names = named(code, "crate::engine::", 2);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(names, ["codec", "exec", "options", "plan", "sql", "staging"]);
}

#[test]
fn names_of_the_root_belong_to_the_module_that_they_come_from() {
    let library = re_exports(&source());
    let of = |name: &str| library.get(name).map(String::as_str);
    assert_eq!(
        [of("Anonymize"), of("Error"), of("Variant"), of("nothing")],
        [Some("engine"), Some("error"), Some("method"), None]
    );
    let engine = re_exports(&source().join("engine"));
    assert_eq!(engine.get("AnonymizeExec").map(String::as_str), Some("exec"));
}
