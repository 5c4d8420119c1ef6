//! Sensitive values of different weight: `alpha_k`, which publishes two tables, with one alpha and with
//! one per level of sensitivity, against `top_down`, which generalizes, as in the experiments of the
//! paper on (αᵢ,k)-anonymity.
//!
//! ```sh
//! cargo run --release --example graded_sensitivity -- target/graded_sensitivity
//! ADULT_DIR=… cargo run --release --example graded_sensitivity -- target/graded_sensitivity
//! ```
//!
//! With `ADULT_DIR` naming a directory with `adult_full.csv` and `hierarchies/*.csv` it works on 10 000
//! complete rows of the Adult census, drawn at random, otherwise on as many of `sample_census`. Prints
//! the average reconstruction distance by k and by alpha, the time by number of quasi-identifiers and
//! the sensitivity distance by alpha, writes them as SVG plots into the directory, and says which of
//! the paper's findings hold.
//!
//! A release is allowed to suppress any number of rows. A suppressed row counts as lost: its
//! reconstruction distance is 1. Ages of `top_down` are ranges as narrow as their class allows.

use std::path::{Path, PathBuf};

use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::register_all;

use data::{Data, ROWS};
use plot::{LinePlot, Series, Start};
use release::{Found, METHODS, Method, Release, Times};

#[path = "graded_sensitivity/data.rs"]
mod data;
#[path = "common/plot.rs"]
mod plot;
#[path = "graded_sensitivity/release.rs"]
mod release;

/// Quasi-identifiers where their number does not change.
const COLUMNS: usize = 6;

const KS: [u32; 7] = [2, 4, 6, 8, 10, 15, 20];
const ALPHAS: [f64; 7] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];

/// Runs of which the median time is taken.
const TIMED_RUNS: usize = 25;

/// A time that grows by less than this from two quasi-identifiers to all is flat.
const FLAT: f64 = 1.5;

/// Why findings of the paper may not hold.
const REASONS: &str = "
Reconstruction distance: where k rows agree in all quasi-identifiers and keep alpha, top_down publishes
them as they are, at distance 0. Two tables leave in doubt which sensitive value belongs to which row, a
distance of about 1 - 1/k, whatever the quasi-identifiers are. So it depends on how many rows agree; of
the rows that top_down generalizes more is lost than in two tables.

Sensitivity distance: the paper compares with classes made from the quasi-identifiers alone, as top_down
makes them. With one alpha, alpha_k takes the rows of a class from different values and so mixes levels
without knowing them; with levels it fills every class by the share of each level in the rows left.";

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::args().nth(1);
    let directory = PathBuf::from(directory.unwrap_or("target/graded_sensitivity".to_owned()));
    std::fs::create_dir_all(&directory)?;
    let context = SessionContext::new();
    register_all(&context)?;
    anonymize_sample::register(&context)?;
    let data = match std::env::var_os("ADULT_DIR") {
        Some(adult) => data::load_adult(&context, Path::new(&adult)).await?,
        None => {
            println!(
                "Skipped: the Adult census; sample_census instead. Set ADULT_DIR to a directory with \
                 adult_full.csv and hierarchies/*.csv.\n"
            );
            data::load_census(&context).await?
        }
    };
    println!("{}, {ROWS} rows\n", data.name);
    let experiments = Experiments { context, data, directory };
    let mut findings = Vec::new();
    let by_k: Vec<(u32, f64)> = KS.iter().map(|k| (*k, 0.5)).collect();
    findings.extend(experiments.reconstruction("k", &by_k).await?);
    let by_alpha: Vec<(u32, f64)> = ALPHAS.iter().map(|alpha| (4, *alpha)).collect();
    findings.extend(experiments.reconstruction("alpha", &by_alpha).await?);
    findings.push(experiments.reconstruction_by_both().await?);
    for k in [4, 10] {
        findings.extend(experiments.time_by_columns(k).await?);
    }
    let by_alpha: Vec<(u32, f64)> = [0.2, 0.3, 0.35, 0.4, 0.5].map(|alpha| (5, alpha)).to_vec();
    findings.extend(experiments.sensitivity("alpha", &by_alpha).await?);
    let by_k: Vec<(u32, f64)> = [2, 3, 4, 5, 6, 8, 10].map(|k| (k, 0.5)).to_vec();
    findings.extend(experiments.sensitivity("k", &by_k).await?);
    println!("Findings");
    for (finding, holds) in findings {
        println!("- {}: {finding}", if holds { "holds" } else { "DOES NOT HOLD" });
    }
    println!("{REASONS}");
    println!("\nPlots are in {}.", experiments.directory.display());
    Ok(())
}

/// What is claimed, and whether it is so here.
type Finding = (String, bool);

/// Something known of all three methods, by position on an axis.
type ByMethod<T> = Vec<(f64, [T; 3])>;

struct Experiments {
    context: SessionContext,
    data: Data,
    directory: PathBuf,
}

impl Experiments {
    fn release(&self, method: Method, (k, alpha): (u32, f64), columns: usize) -> Release {
        let quasi_identifiers = &self.data.quasi_identifiers[..columns];
        Release { method, k, alpha, quasi_identifiers }
    }

    async fn measure(&self, constraint: (u32, f64)) -> Result<[Found; 3]> {
        let releases = METHODS.map(|method| self.release(method, constraint, COLUMNS));
        let [graded, one_alpha, top_down] = releases.each_ref();
        Ok([
            graded.measure(&self.context).await?,
            one_alpha.measure(&self.context).await?,
            top_down.measure(&self.context).await?,
        ])
    }

    /// Along one axis; graded alphas do not change with alpha and are there to compare.
    async fn reconstruction(&self, axis: &str, constraints: &[(u32, f64)]) -> Result<Vec<Finding>> {
        let fixed = if axis == "k" { "alpha = 0.5" } else { "k = 4" };
        println!(
            "Average reconstruction distance by {axis}, {fixed}, {COLUMNS} quasi-identifiers; the rows \
             that top_down publishes as they are, and its distance for the others"
        );
        print_head(axis, &["exact rows", "for the others"]);
        let (mut found, mut of_others) = (ByMethod::new(), Vec::new());
        for (k, alpha) in constraints {
            let all = self.measure((*k, *alpha)).await?;
            let top_down = self.release(Method::TopDown, (*k, *alpha), COLUMNS);
            let exact = top_down.exact_rows(&self.context).await?;
            let others = all[2].reconstruction * ROWS as f64 / (ROWS as f64 - exact).max(1.0);
            let at = if axis == "k" { f64::from(*k) } else { *alpha };
            let mut cells: Vec<String> = all.iter().map(show_reconstruction).collect();
            cells.extend([exact.to_string(), format!("{others:.4}")]);
            print_line(at, &cells);
            found.push((at, all));
            of_others.push(others);
        }
        println!();
        let title = format!("{}, {fixed}, {COLUMNS} quasi-identifiers", self.data.name);
        let labels = [&title, axis, "average reconstruction distance"];
        let file = format!("reconstruction_by_{axis}.svg");
        self.plot(&file, labels, &found, |found| found.reconstruction)?;
        let all_rows: Vec<f64> = found.iter().map(|(_, all)| all[2].reconstruction).collect();
        Ok(vec![
            below_top_down(axis, (Method::Graded, &found), ("", &all_rows)),
            below_top_down(axis, (Method::OneAlpha, &found), ("", &all_rows)),
            below_top_down(axis, (Method::Graded, &found), (GENERALIZED, &of_others)),
            below_top_down(axis, (Method::OneAlpha, &found), (GENERALIZED, &of_others)),
        ])
    }

    /// Every k with every alpha, beyond the two lines of the paper.
    async fn reconstruction_by_both(&self) -> Result<Finding> {
        println!("Reconstruction distance of alpha_k with one alpha, divided by that of top_down");
        let head: Vec<String> = ALPHAS.iter().map(|alpha| format!("{alpha:>6}")).collect();
        println!("| k \\ alpha | {} |", head.join(" | "));
        println!("| --------- |{}", " ------ |".repeat(ALPHAS.len()));
        let mut below = 0;
        for k in KS {
            let mut line = Vec::new();
            for alpha in ALPHAS {
                let [_, two_tables, top_down] = self.measure((k, alpha)).await?;
                line.push(format!("{:6.3}", two_tables.reconstruction / top_down.reconstruction));
                below += usize::from(two_tables.reconstruction < top_down.reconstruction);
            }
            println!("| {k:9} | {} |", line.join(" | "));
        }
        println!();
        let all = KS.len() * ALPHAS.len();
        let finding = format!(
            "the reconstruction distance of alpha_k with one alpha is below that of top_down for every k \
             and alpha ({below} of {all} pairs)"
        );
        Ok((finding, below == all))
    }

    async fn time_by_columns(&self, k: u32) -> Result<Vec<Finding>> {
        println!(
            "Milliseconds from codes to classes (from SQL to the last row) by number of \
             quasi-identifiers, k = {k}, alpha = 0.5"
        );
        print_head("columns", &[]);
        let all_columns = 2..=self.data.quasi_identifiers.len();
        let mut measured = vec![METHODS.map(|_| Vec::new()); all_columns.clone().count()];
        // In turns, so that a busy moment of the machine meets all of them.
        for _ in 0..TIMED_RUNS {
            for (columns, measured) in all_columns.clone().zip(&mut measured) {
                for (method, measured) in METHODS.iter().zip(measured) {
                    let release = self.release(*method, (k, 0.5), columns);
                    measured.push(release.time(&self.context).await?);
                }
            }
        }
        let mut times = ByMethod::new();
        for (columns, measured) in all_columns.zip(&measured) {
            let all = measured.each_ref().map(|measured| Times::median(measured));
            let show = |time: &Times| format!("{:.2} ({:.1})", time.forming, time.whole);
            print_line(columns as f64, &all.each_ref().map(show));
            times.push((columns as f64, all));
        }
        println!();
        let title = format!("{}, k = {k}, alpha = 0.5", self.data.name);
        let labels = [&title, "quasi-identifiers", "milliseconds from codes to classes"];
        self.plot(&format!("time_by_columns_k{k}.svg"), labels, &times, |time| time.forming)?;
        Ok(vec![flat(k, Method::Graded, &times), flat(k, Method::OneAlpha, &times)])
    }

    async fn sensitivity(&self, axis: &str, constraints: &[(u32, f64)]) -> Result<Vec<Finding>> {
        let fixed = if axis == "k" { "alpha = 0.5" } else { "k = 5" };
        println!(
            "Sensitivity distance Ds in levels (as a share of the most it can be) of the classes that have \
             a value of level 1 or 2, by {axis}, {fixed}, {COLUMNS} quasi-identifiers"
        );
        print_head(axis, &[]);
        let mut found = ByMethod::new();
        for (k, alpha) in constraints {
            let all = self.measure((*k, *alpha)).await?;
            let show = |found: &Found| {
                format!("{:.4} ({:.4})", found.sensitivity, found.sensitivity_normalized)
            };
            let at = if axis == "k" { f64::from(*k) } else { *alpha };
            print_line(at, &all.each_ref().map(show));
            found.push((at, all));
        }
        println!();
        let title = format!("{}, {fixed}, {COLUMNS} quasi-identifiers", self.data.name);
        let labels = [&title, axis, "sensitivity distance in levels"];
        let file = format!("sensitivity_by_{axis}.svg");
        self.plot(&file, labels, &found, |found| found.sensitivity)?;
        let larger = |than: usize| {
            let not = found.iter().filter(|(_, all)| all[0].sensitivity <= all[than].sensitivity);
            let not: Vec<String> = not.map(|(at, _)| at.to_string()).collect();
            let finding = format!(
                "by {axis}, the sensitivity distance of alpha_k, graded is above that of {}",
                METHODS[than].name()
            );
            excepted(finding, axis, &not)
        };
        Ok(vec![larger(1), larger(2)])
    }

    fn plot<T>(
        &self,
        file: &str,
        [title, x_label, y_label]: [&str; 3],
        points: &[(f64, [T; 3])],
        height: impl Fn(&T) -> f64,
    ) -> Result<()> {
        let series = METHODS.iter().enumerate().map(|(at, method)| Series {
            name: method.name().to_owned(),
            points: points.iter().map(|(x, all)| (*x, height(&all[at]))).collect(),
        });
        let plot = LinePlot {
            title: title.to_owned(),
            x_label: x_label.to_owned(),
            y_label: y_label.to_owned(),
            y_start: Start::Zero,
            series: series.collect(),
        };
        Ok(std::fs::write(self.directory.join(file), plot.to_svg())?)
    }
}

/// Said of findings that leave out the rows which `top_down` publishes as they are. Their distance is 0,
/// and that of a row in two tables is at least 1 - 1/k or so.
const GENERALIZED: &str = " for the rows that it generalizes";

/// Whether a method is below what `top_down` has, for all rows or for some.
fn below_top_down(
    axis: &str,
    (method, found): (Method, &ByMethod<Found>),
    (rows, top_down): (&str, &[f64]),
) -> Finding {
    let at = METHODS.iter().position(|other| *other == method).unwrap_or_default();
    let above = found.iter().zip(top_down);
    let above = above.filter(|((_, all), top_down)| all[at].reconstruction >= **top_down);
    let above: Vec<String> = above.map(|((x, _), _)| x.to_string()).collect();
    let finding = format!(
        "by {axis}, the reconstruction distance of {} is below that of top_down{rows}",
        method.name()
    );
    excepted(finding, axis, &above)
}

/// A finding that holds unless there are exceptions.
fn excepted(finding: String, axis: &str, exceptions: &[String]) -> Finding {
    match exceptions.is_empty() {
        true => (finding, true),
        false => (format!("{finding}; not with {axis} = {}", exceptions.join(", ")), false),
    }
}

fn flat(k: u32, method: Method, times: &ByMethod<Times>) -> Finding {
    let growth = |method: Method| {
        let at = METHODS.iter().position(|other| *other == method).unwrap_or_default();
        let ends = times.first().zip(times.last());
        ends.map_or(f64::NAN, |((_, first), (_, last))| last[at].forming / first[at].forming)
    };
    let finding = format!(
        "k = {k}, the time of {} from two quasi-identifiers to all grows {:.2} times, less than {FLAT} \
         (top_down: {:.2} times)",
        method.name(),
        growth(method),
        growth(Method::TopDown)
    );
    (finding, growth(method) < FLAT)
}

fn show_reconstruction(found: &Found) -> String {
    match found.suppressed {
        0.0 => format!("{:.4}", found.reconstruction),
        suppressed => format!("{:.4} ({suppressed} rows lost)", found.reconstruction),
    }
}

fn print_head(first: &str, more: &[&str]) {
    let names = METHODS.iter().map(|method| method.name()).chain(more.iter().copied());
    let names: Vec<String> = names.map(|name| format!("{name:>18}")).collect();
    println!("| {first:>7} | {} |", names.join(" | "));
    println!("| ------- |{}", " ------------------ |".repeat(names.len()));
}

fn print_line(first: f64, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>18}")).collect();
    println!("| {first:>7} | {} |", cells.join(" | "));
}
