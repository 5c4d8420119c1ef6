//! Every experiment runs, on few rows: every claim has its verdict, and the page every plot.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::process::{Command, Output};

use papers::EXPERIMENTS;
use tempfile::TempDir;

/// The claims of the five papers.
const CLAIMS: [(&str, usize); 5] = [
    ("rounded-partition", 8),
    ("yang-2006", 9),
    ("wang-2018", 8),
    ("graded-alpha", 8),
    ("gong-2013", 8),
];

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

/// What an experiment prints: numbers of every plot, and a table and a verdict for every claim.
fn check_printed(printed: &str) {
    assert!(!printed.contains("not measured"), "{printed}");
    assert!(!printed.contains("NaN"), "{printed}");
    for table in tables(printed) {
        assert!(table.len() > 2, "a table without rows\n{printed}");
        for row in &table {
            assert_eq!(row.len(), table[0].len(), "{row:?}");
            // Only the head of the column that says where is empty.
            assert!(row[1..].iter().all(|cell| !cell.is_empty()), "{row:?}");
        }
    }
    for (paper, claims) in CLAIMS {
        for number in 1..=claims {
            let title = format!("\n## {paper}.{number} ");
            let claim = printed.split(&title).nth(1).unwrap_or_else(|| panic!("no {title}"));
            let claim = claim.split("\n## ").next().unwrap();
            let verdict = claim.lines().find_map(|line| line.strip_prefix("Verdict: ")).unwrap();
            let verdicts: Vec<&str> =
                verdict.split("with variant => 'paper'; by default:").collect();
            assert_eq!(verdicts.len(), 2, "{verdict}");
            for verdict in verdicts {
                let known = ["holds", "does not hold"].iter().any(|known| verdict.contains(known));
                assert!(known, "{title}: {verdict}");
            }
        }
    }
    let claims = CLAIMS.iter().map(|(_, claims)| claims).sum::<usize>();
    assert_eq!(printed.matches("\nVerdict: ").count(), claims, "a claim that is not listed here");
}

/// A page has all that was printed, as plots, and loads nothing.
fn check_page(page: &str, printed: &str) {
    // Every table that is no claim's has the numbers of a plot.
    let claims = page.matches("<article ").count();
    let plots = tables(printed).len() - claims;
    assert_eq!(page.matches("<svg class=\"plot\"").count(), plots);
    for figure in page.split("<figure>").skip(1) {
        let drawn = figure.split("</svg>").next().unwrap();
        assert!(drawn.contains("<polyline") && drawn.contains("<circle"), "nothing in {figure}");
    }
    assert!(!page.contains("NaN") && !page.contains("not measured"));
    for outside in ["http:", "https:", "src=", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "the page has {outside}");
    }
    for experiment in EXPERIMENTS {
        assert!(page.contains(&format!("<section id=\"{}\">", experiment.name)));
    }
    for (paper, claims) in CLAIMS {
        for number in 1..=claims {
            assert!(page.contains(&format!("<article id=\"{paper}.{number}\">")));
            assert!(page.contains(&format!("href=\"#{paper}.{number}\"")));
        }
    }
}

fn check_all(output: &Output, directory: &Path) {
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for experiment in EXPERIMENTS {
        assert!(printed.contains(&format!("# {}: ", experiment.name)), "{}", experiment.name);
    }
    check_printed(&printed);
    check_page(&std::fs::read_to_string(directory.join("page.html")).unwrap(), &printed);
    let summary = std::fs::read_to_string(directory.join("summary.md")).unwrap();
    for (paper, claims) in CLAIMS {
        assert_eq!(summary.matches(&format!("| **{paper}.")).count(), claims);
    }
    for table in tables(&summary) {
        assert!(
            table
                .iter()
                .all(|row| row.len() == table[0].len() && row.iter().all(|cell| !cell.is_empty()))
        );
    }
}

/// Runs all of them.
fn run_quick(adult: bool) {
    let directory = TempDir::new().unwrap();
    let mut command = program(&["--quick", "--page"]);
    command
        .arg(directory.path().join("page.html"))
        .arg("--markdown")
        .arg(directory.path().join("summary.md"));
    if !adult {
        command.env_remove("ADULT_DIR");
    }
    check_all(&command.output().unwrap(), directory.path());
}

#[test]
fn every_claim_has_a_verdict_on_sample_census() {
    run_quick(false);
}

#[test]
fn every_claim_has_a_verdict_on_adult() {
    if std::env::var_os("ADULT_DIR").is_none() {
        println!("SKIPPED, nothing was checked: ADULT_DIR is not set");
        return;
    }
    run_quick(true);
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
