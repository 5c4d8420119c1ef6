//! Runs the experiments that the command line names, or all.

use std::path::{Path, PathBuf};

use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use datafusion::common::Result;
use papers::{Command, EXPERIMENTS, Setting, page, printed, summary};

/// The experiments of the papers behind the methods, and whether what the papers claim is found.
///
/// Prints the numbers and a table for each claim, and writes a page with all plots. The people are those of the Adult
/// census in the directory ADULT_DIR (adult.csv, adult_full.csv and hierarchies/*.csv), or of sample_census if it is not
/// set.
#[derive(Parser)]
#[command(name = "papers")]
struct Arguments {
    /// Experiments to run [default: all]
    #[arg(value_name = "NAME", value_parser = names())]
    names: Vec<String>,

    /// Try everything on about 2 000 rows, with fewer points and runs
    #[arg(long)]
    quick: bool,

    /// The page with all claims and plots
    #[arg(long, value_name = "FILE", default_value = "target/papers/index.html")]
    page: PathBuf,

    /// Also write a row per claim as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn names() -> PossibleValuesParser {
    let known = EXPERIMENTS.iter().map(|known| PossibleValue::new(known.name).help(known.shows));
    PossibleValuesParser::new(known)
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { names, quick, page: page_file, markdown } = Arguments::parse();
    let adult = std::env::var_os("ADULT_DIR").map(PathBuf::from);
    if adult.is_none() {
        println!("ADULT_DIR is not set: sample_census instead of the Adult census\n");
    }
    let command = Command { adult: adult.is_some(), quick };
    let setting = Setting { quick, adult };
    let is_named = |name: &str| names.is_empty() || names.iter().any(|named| named == name);
    let mut reports = Vec::new();
    for experiment in EXPERIMENTS.iter().filter(|experiment| is_named(experiment.name)) {
        let report = experiment.run(&setting).await?;
        println!("{}", printed(experiment, &report));
        reports.push((experiment, report));
    }
    write(&page_file, &page(&reports, &command))?;
    println!("All plots are in {}.", page_file.display());
    match &markdown {
        Some(file) => write(file, &summary(&reports, &command)),
        None => Ok(()),
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    Ok(std::fs::write(file, text)?)
}
