//! Every experiment runs, on few rows.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::process::{Command, Output};

use papers::EXPERIMENTS;
use tempfile::TempDir;

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_papers"));
    command.args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The tables in a text, head and ruler included, each row as its cells.
fn tables(text: &str) -> Vec<Vec<Vec<String>>> {
    let mut tables: Vec<Vec<Vec<String>>> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let row = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        if let Some(row) = row {
            let cells = row.split('|').map(|cell| cell.trim().to_owned()).collect();
            match tables.last_mut().filter(|_| inside) {
                Some(table) => table.push(cells),
                None => tables.push(vec![cells]),
            }
        }
        inside = row.is_some();
    }
    tables
}

fn check(name: &str, output: &Output, plots: &Path) {
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    assert!(printed.contains(&format!("# {name}: ")), "{name}: {printed}");
    let tables = tables(&printed);
    assert!(!tables.is_empty(), "{name}: no table\n{printed}");
    for table in tables {
        assert!(table.len() > 2, "{name}: a table without rows\n{printed}");
        for row in &table {
            assert_eq!(row.len(), table[0].len(), "{name}: {row:?}");
            assert!(row.iter().all(|cell| !cell.is_empty() && cell != "NaN"), "{name}: {row:?}");
        }
    }
    let drawn: Vec<_> = plots.join(name).read_dir().unwrap().map(|file| file.unwrap()).collect();
    assert!(!drawn.is_empty(), "{name}: no plot");
    for file in drawn {
        let plot = std::fs::read_to_string(file.path()).unwrap();
        assert!(plot.contains("<polyline"), "{name}: nothing in {}", file.path().display());
        assert!(!plot.contains("NaN"), "{name}: no number in {}", file.path().display());
    }
}

#[test]
fn every_experiment_runs_on_sample_census() {
    let directory = TempDir::new().unwrap();
    for experiment in EXPERIMENTS {
        let mut command = program(&[experiment.name, "--quick", "--output"]);
        command.arg(directory.path()).env_remove("ADULT_DIR");
        check(experiment.name, &command.output().unwrap(), directory.path());
    }
}

#[test]
fn every_experiment_runs_on_adult() {
    if std::env::var_os("ADULT_DIR").is_none() {
        println!("SKIPPED, nothing was checked: ADULT_DIR is not set");
        return;
    }
    let directory = TempDir::new().unwrap();
    // Without names: all of them.
    let mut command = program(&["--quick", "--output"]);
    let output = command.arg(directory.path()).output().unwrap();
    for experiment in EXPERIMENTS {
        check(experiment.name, &output, directory.path());
    }
}

#[test]
fn help_and_an_unknown_name_say_what_there_is() {
    let help = program(&["--help"]).output().unwrap();
    // However it is broken into lines.
    let help = text(&help.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let wrong = program(&["no_such_experiment"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    for experiment in EXPERIMENTS {
        assert!(help.contains(experiment.name));
        assert!(help.contains(experiment.shows));
        assert!(text(&wrong.stderr).contains(experiment.name));
    }
}
