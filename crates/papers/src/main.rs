//! Runs the experiments that the command line names, or all.

use std::path::PathBuf;

use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use datafusion::common::Result;
use papers::{EXPERIMENTS, Setting};

/// The experiments of the papers behind the methods.
///
/// Prints their tables and draws them as SVG files. The people are those of the Adult census in the directory ADULT_DIR
/// (adult.csv, adult_full.csv and hierarchies/*.csv), or of sample_census if it is not set.
#[derive(Parser)]
#[command(name = "papers")]
struct Arguments {
    /// Experiments to run [default: all]
    #[arg(value_name = "NAME", value_parser = names())]
    names: Vec<String>,

    /// Try everything on about 2 000 rows, with fewer points and runs
    #[arg(long)]
    quick: bool,

    /// Directory for the plots
    #[arg(short, long, value_name = "DIR", default_value = "target/papers")]
    output: PathBuf,
}

fn names() -> PossibleValuesParser {
    let known = EXPERIMENTS.iter().map(|known| PossibleValue::new(known.name).help(known.shows));
    PossibleValuesParser::new(known)
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { names, quick, output } = Arguments::parse();
    let adult = std::env::var_os("ADULT_DIR").map(PathBuf::from);
    if adult.is_none() {
        println!("ADULT_DIR is not set: sample_census instead of the Adult census\n");
    }
    let setting = Setting { quick, output, adult };
    let is_named = |name: &str| names.is_empty() || names.iter().any(|named| named == name);
    for experiment in EXPERIMENTS.iter().filter(|experiment| is_named(experiment.name)) {
        experiment.run(&setting).await?;
    }
    println!("The plots are in {}.", setting.output.display());
    Ok(())
}
