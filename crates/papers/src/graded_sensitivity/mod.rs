//! Sensitive values of different weight: `alpha_k`, which publishes two tables, with one alpha and with
//! one per level of sensitivity, against `top_down`, which generalizes, as in the experiments of the
//! paper on (αᵢ,k)-anonymity.
//!
//! On 10 000 complete rows: the average reconstruction distance by k and by alpha, the time by number of
//! quasi-identifiers, the sensitivity distance by alpha and by k, and which of the paper's findings hold.
//!
//! A release is allowed to suppress any number of rows. A suppressed row counts as lost: its
//! reconstruction distance is 1. Ages of `top_down` are ranges as narrow as their class allows.

use datafusion::common::Result;

use crate::columns::Column;
use crate::people::{AdultRows, People, Wanted};
use crate::plot::{LinePlot, Series, Start};
use crate::table::{Table, number};
use crate::workspace::Workspace;
use findings::{ByMethod, Finding, GENERALIZED, below_top_down, flat, larger};
use release::{Constraint, Found, METHODS, Method, Release, Times};

mod findings;
mod release;

const ROWS: usize = 10_000;

/// Quasi-identifiers where their number does not change.
const COLUMNS: usize = 6;

const KS: [u32; 7] = [2, 4, 6, 8, 10, 15, 20];
const ALPHAS: [f64; 7] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];

/// Runs of which the median time is taken.
const TIMED_RUNS: usize = 25;

/// Quasi-identifiers in the order of the paper, and the sensitive column.
const ADULT: &[Column] = &[
    ("age", None),
    ("workclass", Some("workclass_levels")),
    ("education", Some("education_levels")),
    ("marital_status", Some("marital_status_levels")),
    ("relationship", Some("relationship_levels")),
    ("race", Some("race_levels")),
    ("sex", Some("sex_levels")),
    ("native_country", Some("native_country_levels")),
    ("salary_class", Some("salary_class_levels")),
    ("occupation", None),
];

/// The same without the one that `sample_census` does not have.
const CENSUS: &[Column] = &[
    ("age", None),
    ("workclass", Some("workclass_levels")),
    ("education", Some("education_levels")),
    ("marital_status", Some("marital_status_levels")),
    ("race", Some("race_levels")),
    ("sex", Some("sex_levels")),
    ("native_country", Some("native_country_levels")),
    ("salary_class", Some("salary_class_levels")),
    ("occupation", None),
];

/// The occupations of every level of sensitivity, as the paper grades them.
const LEVELS: [&[&str]; 5] = [
    &["Protective-serv", "Armed-Forces"],
    &["Exec-managerial", "Prof-specialty", "Adm-clerical"],
    &["Tech-support", "Craft-repair", "Machine-op-inspct", "Transport-moving"],
    &["Priv-house-serv", "Farming-fishing", "Handlers-cleaners", "Sales"],
    &["Other-service"],
];

/// Why findings of the paper may not hold.
const REASONS: &str = "
Reconstruction distance: where k rows agree in all quasi-identifiers and keep alpha, top_down publishes
them as they are, at distance 0. Two tables leave in doubt which sensitive value belongs to which row, a
distance of about 1 - 1/k, whatever the quasi-identifiers are. So it depends on how many rows agree; of
the rows that top_down generalizes more is lost than in two tables.

Sensitivity distance: the paper compares with classes made from the quasi-identifiers alone, as top_down
makes them. With one alpha, alpha_k takes the rows of a class from different values and so mixes levels
without knowing them; with levels it fills every class by the share of each level in the rows left.";

pub async fn run(workspace: &Workspace) -> Result<()> {
    let wanted = Wanted {
        sample: CENSUS,
        sample_rows: ROWS,
        adult: ADULT,
        adult_rows: AdultRows::Complete { at_most: ROWS },
    };
    let people = workspace.load_people(&wanted).await?;
    grade_occupations(workspace).await?;
    let experiment = Experiment { workspace, people };
    let (ks, alphas) = (workspace.points(&KS), workspace.points(&ALPHAS));
    let mut findings = experiment.reconstruction(&Sweep::by_k(&ks)).await?;
    findings.extend(experiment.reconstruction(&Sweep::by_alpha(&alphas, 4)).await?);
    findings.push(experiment.reconstruction_by_both(&ks, &alphas).await?);
    for k in [4, 10] {
        findings.extend(experiment.time_by_columns(k).await?);
    }
    let alphas = workspace.points(&[0.2, 0.3, 0.35, 0.4, 0.5]);
    findings.extend(experiment.sensitivity(&Sweep::by_alpha(&alphas, 5)).await?);
    let ks = workspace.points(&[2, 3, 4, 5, 6, 8, 10]);
    findings.extend(experiment.sensitivity(&Sweep::by_k(&ks)).await?);
    println!("Findings");
    for Finding { claim, holds } in findings {
        println!("- {}: {claim}", if holds { "holds" } else { "DOES NOT HOLD" });
    }
    println!("{REASONS}\n");
    Ok(())
}

/// The table `levels`: how sensitive every occupation is.
async fn grade_occupations(workspace: &Workspace) -> Result<()> {
    let graded = LEVELS.iter().zip(1..);
    let graded = graded.flat_map(|(values, level)| values.iter().map(move |value| (value, level)));
    let rows: Vec<String> = graded.map(|(value, level)| format!("('{value}', {level})")).collect();
    workspace.query(&format!("CREATE TABLE levels AS VALUES {}", rows.join(", "))).await?;
    Ok(())
}

/// Constraints along one axis, each with its place there.
struct Sweep {
    axis: &'static str,
    /// What is the same for all of them.
    fixed: String,
    constraints: Vec<(f64, Constraint)>,
}

impl Sweep {
    fn by_k(ks: &[u32]) -> Self {
        let constraints = ks.iter().map(|k| (f64::from(*k), Constraint { k: *k, alpha: 0.5 }));
        Self { axis: "k", fixed: "alpha = 0.5".to_owned(), constraints: constraints.collect() }
    }

    /// Graded alphas do not change with alpha and are there to compare.
    fn by_alpha(alphas: &[f64], k: u32) -> Self {
        let constraints = alphas.iter().map(|alpha| (*alpha, Constraint { k, alpha: *alpha }));
        Self { axis: "alpha", fixed: format!("k = {k}"), constraints: constraints.collect() }
    }
}

struct Experiment<'a> {
    workspace: &'a Workspace,
    people: People,
}

impl Experiment<'_> {
    fn release(&self, method: Method, constraint: Constraint, columns: usize) -> Release {
        Release { method, constraint, quasi_identifiers: &self.people.columns[..columns] }
    }

    async fn measure(&self, constraint: Constraint) -> Result<[Found; 3]> {
        let releases = METHODS.map(|method| self.release(method, constraint, COLUMNS));
        let [graded, one_alpha, top_down] = releases.each_ref();
        Ok([
            graded.measure(self.workspace).await?,
            one_alpha.measure(self.workspace).await?,
            top_down.measure(self.workspace).await?,
        ])
    }

    async fn reconstruction(&self, sweep: &Sweep) -> Result<Vec<Finding>> {
        let Sweep { axis, fixed, constraints } = sweep;
        let title = format!(
            "Average reconstruction distance by {axis}, {fixed}, {COLUMNS} quasi-identifiers, {}; the \
             rows that top_down publishes as they are, and its distance for the others",
            self.people.title
        );
        let table = Table::start(title, &heads(axis, &["exact rows", "for the others"]));
        let (mut found, mut of_others) = (ByMethod::new(), Vec::new());
        for (at, constraint) in constraints {
            let all = self.measure(*constraint).await?;
            let top_down = self.release(Method::TopDown, *constraint, COLUMNS);
            let exact = top_down.exact_rows(self.workspace).await?;
            let rows = self.people.rows as f64;
            let others = all[2].reconstruction * rows / (rows - exact).max(1.0);
            let more = [exact.to_string(), number(others)];
            table.row(at, all.iter().map(show_reconstruction).chain(more));
            found.push((*at, all));
            of_others.push(others);
        }
        table.end();
        let file = format!("reconstruction_by_{axis}.svg");
        let labels = Labels { fixed, x: axis, y: "average reconstruction distance" };
        self.draw(&file, &labels, &found, |found| found.reconstruction)?;
        let all_rows: Vec<f64> = found.iter().map(|(_, all)| all[2].reconstruction).collect();
        let below =
            |method, rows, top_down: &[f64]| below_top_down(axis, method, &found, rows, top_down);
        Ok(vec![
            below(Method::Graded, "", &all_rows),
            below(Method::OneAlpha, "", &all_rows),
            below(Method::Graded, GENERALIZED, &of_others),
            below(Method::OneAlpha, GENERALIZED, &of_others),
        ])
    }

    /// Every k with every alpha, beyond the two lines of the paper.
    async fn reconstruction_by_both(&self, ks: &[u32], alphas: &[f64]) -> Result<Finding> {
        let shown: Vec<String> = alphas.iter().map(f64::to_string).collect();
        let heads = ["k \\ alpha"].into_iter().chain(shown.iter().map(String::as_str));
        let table = Table::start(
            "Reconstruction distance of alpha_k with one alpha, divided by that of top_down",
            &heads.collect::<Vec<_>>(),
        );
        let mut below = 0;
        for k in ks {
            let mut ratios = Vec::new();
            for alpha in alphas {
                let constraint = Constraint { k: *k, alpha: *alpha };
                let [_, two_tables, top_down] = self.measure(constraint).await?;
                ratios.push(two_tables.reconstruction / top_down.reconstruction);
                below += usize::from(two_tables.reconstruction < top_down.reconstruction);
            }
            table.row(k, ratios.into_iter().map(number));
        }
        table.end();
        let all = ks.len() * alphas.len();
        let claim = format!(
            "the reconstruction distance of alpha_k with one alpha is below that of top_down for every k \
             and alpha ({below} of {all} pairs)"
        );
        Ok(Finding { claim, holds: below == all })
    }

    async fn time_by_columns(&self, k: u32) -> Result<Vec<Finding>> {
        let constraint = Constraint { k, alpha: 0.5 };
        // The last column is the sensitive one.
        let all_columns = 2..self.people.columns.len();
        let mut measured = vec![METHODS.map(|_| Vec::new()); all_columns.clone().count()];
        // In turns, so that a busy moment of the machine meets all of them.
        for _ in 0..self.workspace.runs(TIMED_RUNS) {
            for (columns, measured) in all_columns.clone().zip(&mut measured) {
                for (method, measured) in METHODS.iter().zip(measured) {
                    let release = self.release(*method, constraint, columns);
                    measured.push(release.time(self.workspace).await?);
                }
            }
        }
        let title = format!(
            "Milliseconds from codes to classes (from SQL to the last row) by number of \
             quasi-identifiers, k = {k}, alpha = 0.5, {}",
            self.people.title
        );
        let table = Table::start(title, &heads("columns", &[]));
        let mut times = ByMethod::new();
        for (columns, measured) in all_columns.zip(&measured) {
            let all = measured.each_ref().map(|measured| Times::median(measured));
            table.row(columns, all.map(|time| format!("{:.2} ({:.1})", time.forming, time.whole)));
            times.push((columns as f64, all));
        }
        table.end();
        let fixed = format!("k = {k}, alpha = 0.5");
        let labels = Labels {
            fixed: &fixed,
            x: "quasi-identifiers",
            y: "milliseconds from codes to classes",
        };
        self.draw(&format!("time_by_columns_k{k}.svg"), &labels, &times, |time| time.forming)?;
        Ok(vec![flat(k, Method::Graded, &times), flat(k, Method::OneAlpha, &times)])
    }

    async fn sensitivity(&self, sweep: &Sweep) -> Result<Vec<Finding>> {
        let Sweep { axis, fixed, constraints } = sweep;
        let title = format!(
            "Sensitivity distance Ds in levels (as a share of the most it can be) of the classes that have \
             a value of level 1 or 2, by {axis}, {fixed}, {COLUMNS} quasi-identifiers, {}",
            self.people.title
        );
        let table = Table::start(title, &heads(axis, &[]));
        let mut found = ByMethod::new();
        for (at, constraint) in constraints {
            let all = self.measure(*constraint).await?;
            table.row(at, all.map(show_sensitivity));
            found.push((*at, all));
        }
        table.end();
        let labels = Labels { fixed, x: axis, y: "sensitivity distance in levels" };
        let file = format!("sensitivity_by_{axis}.svg");
        self.draw(&file, &labels, &found, |found| found.sensitivity)?;
        Ok(vec![larger(axis, &found, Method::OneAlpha), larger(axis, &found, Method::TopDown)])
    }

    fn draw<T>(
        &self,
        file: &str,
        labels: &Labels<'_>,
        points: &[(f64, [T; 3])],
        height: impl Fn(&T) -> f64,
    ) -> Result<()> {
        let series = METHODS.iter().enumerate().map(|(at, method)| Series {
            name: method.name().to_owned(),
            points: points.iter().map(|(x, all)| (*x, height(&all[at]))).collect(),
        });
        let plot = LinePlot {
            title: format!("{}, {}", self.people.title, labels.fixed),
            x_label: labels.x.to_owned(),
            y_label: labels.y.to_owned(),
            y_start: Start::Zero,
            series: series.collect(),
        };
        self.workspace.draw(file, &plot)
    }
}

/// The labels of a plot.
struct Labels<'a> {
    fixed: &'a str,
    x: &'a str,
    y: &'a str,
}

fn heads<'a>(first: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [first].into_iter().chain(METHODS.map(Method::name)).chain(more.iter().copied()).collect()
}

fn show_reconstruction(found: &Found) -> String {
    match found.suppressed {
        0.0 => number(found.reconstruction),
        suppressed => format!("{} ({suppressed} rows lost)", number(found.reconstruction)),
    }
}

fn show_sensitivity(found: Found) -> String {
    format!("{} ({})", number(found.sensitivity), number(found.sensitivity_normalized))
}
