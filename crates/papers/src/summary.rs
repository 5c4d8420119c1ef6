//! What was found, as Markdown: everything for the terminal, a row per claim for the documentation.

use std::fmt::Write;

use crate::claim::{Claim, Verdict, refusals, rows, summary as figures};
use crate::table::markdown;
use crate::{Experiment, Report};

/// How this run was started, so that it can be repeated.
pub struct Command {
    /// Whether the people are those of the Adult census.
    pub adult: bool,
    /// Whether it was a quick one.
    pub quick: bool,
}

impl Command {
    /// As it is typed, for one experiment or for all.
    pub fn line(&self, name: Option<&str>) -> String {
        let mut line = String::new();
        if self.adult {
            line.push_str("ADULT_DIR=… ");
        }
        line.push_str("cargo run --release -p papers");
        let arguments = name.into_iter().chain(self.quick.then_some("--quick"));
        let arguments: Vec<&str> = arguments.collect();
        if !arguments.is_empty() {
            line.push_str(&format!(" -- {}", arguments.join(" ")));
        }
        line
    }
}

/// The heads of the table of a claim.
pub(crate) const HEADS: [&str; 5] = ["", "variant => 'paper'", "holds", "by default", "holds"];

/// Numbers of all plots, then a table for each claim.
pub fn printed(experiment: &Experiment, report: &Report) -> String {
    let Experiment { name, shows, note, .. } = experiment;
    let mut text = format!("# {name}: {shows}\n\n{}. {note}\n", report.people);
    for plot in &report.plots {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{}", plot.to_markdown());
    }
    for claim in &report.claims {
        let _ =
            write!(text, "\n## {} {}\n\nThe paper: {}\n\n", claim.number, claim.says, claim.place);
        let rows: Vec<Vec<String>> = rows(claim).into_iter().map(Into::into).collect();
        let [printed, ours] = verdicts(claim);
        let _ = writeln!(
            text,
            "{}\nVerdict: {printed} with variant => 'paper'; by default: {ours}",
            markdown(&HEADS, &rows)
        );
        refusals(claim).for_each(|refusal| text.push_str(&format!("{refusal}\n")));
    }
    text
}

/// As printed, and by default.
pub(crate) fn verdicts(claim: &Claim) -> [Verdict; 2] {
    [Verdict::of(&claim.as_printed), Verdict::of(&claim.by_default)]
}

/// The page of the documentation.
pub fn summary(reports: &[(&Experiment, Report)], command: &Command) -> String {
    let mut text = format!(
        "# What the papers claim, and what is measured\n\n\
         Written by `crates/papers`, which repeats the experiments of the five papers. It decides from the measured numbers\n\
         whether a claim holds: for the method as its paper prints it (`variant => 'paper'`), and for the version that you get\n\
         by default. “In part” counts the comparisons that are true. Times are ratios inside one run.\n\n\
         ```sh\n{} --page papers.html --markdown docs/papers.md\n```\n\n\
         `papers.html` has all plots and all comparisons. `--quick` tries everything on 2 000 rows, `--help` lists the\n\
         experiments.\n",
        with_separator(&command.line(None))
    );
    for (experiment, report) in reports.iter().filter(|(_, report)| !report.claims.is_empty()) {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n## {}\n\n{}. Measured on {}. {}\n\n```sh\n{}\n```\n\n",
            capitalized(experiment.shows),
            experiment.paper.unwrap_or_default(),
            report.people,
            experiment.note,
            command.line(Some(experiment.name))
        );
        let heads =
            ["claim", "as printed", "by default", "figures as printed", "figures by default"];
        let _ = writeln!(text, "| {} |\n|{}", heads.join(" | "), " --- |".repeat(heads.len()));
        for claim in &report.claims {
            let [printed, ours] = verdicts(claim);
            let cells = [
                format!("**{}** {} ({})", claim.number, claim.says, claim.place),
                printed.to_string(),
                ours.to_string(),
                figures(&claim.as_printed),
                figures(&claim.by_default),
            ];
            let _ =
                writeln!(text, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
    }
    text
}

fn with_separator(command: &str) -> String {
    match command.contains(" -- ") {
        true => command.to_owned(),
        false => format!("{command} --"),
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
