//! Sensitive values of different weight: `alpha_k`, which publishes two tables, with one alpha and with
//! one per level of sensitivity, against generalization, as in the experiments of the paper on (αᵢ,k)-anonymity.
//!
//! On 10 000 complete rows: the average reconstruction distance by k and by alpha, the time by alpha, by k and by
//! number of quasi-identifiers, the sensitivity distance by alpha and by k. Generalization is [full-domain](full_domain)
//! recoding, which is how the paper's figures read, and `top_down`, which recodes locally and publishes
//! rows exactly where k of them agree.
//!
//! A release is allowed to suppress any number of rows. A suppressed row counts as lost: its
//! reconstruction distance is 1. Ages of `top_down` are ranges as narrow as their class allows.

use datafusion::common::Result;

use crate::Report;
use crate::columns::Column;
use crate::line::{Line, as_ratios, map_all, medians};
use crate::people::{AdultRows, People, Wanted};
use crate::plot::{LinePlot, Start};
use crate::variant::Variant;
use crate::workspace::Workspace;
use claims::Plots;
use full_domain::FullDomain;
use release::{Constraint, Measured, Method, Release};

mod claims;
mod full_domain;
mod release;

const ROWS: usize = 10_000;

/// Quasi-identifiers where their number does not change.
const COLUMNS: usize = 6;

const KS: [f64; 7] = [2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0];
const ALPHAS: [f64; 7] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];

/// Rounds of which the median time is taken.
const ROUNDS: usize = 9;

/// Quasi-identifiers in the order of the paper, and the sensitive column.
const ADULT: [Column; 10] = [
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

/// The column that `sample_census` does not have.
const NOT_IN_CENSUS: &str = "relationship";

/// The occupations of every level of sensitivity, as the paper grades them.
const LEVELS: [&[&str]; 5] = [
    &["Protective-serv", "Armed-Forces"],
    &["Exec-managerial", "Prof-specialty", "Adm-clerical"],
    &["Tech-support", "Craft-repair", "Machine-op-inspct", "Transport-moving"],
    &["Priv-house-serv", "Farming-fishing", "Handlers-cleaners", "Sales"],
    &["Other-service"],
];

pub async fn run(workspace: &Workspace) -> Result<Report> {
    let wanted = Wanted {
        sample: ADULT.into_iter().filter(|column| column.0 != NOT_IN_CENSUS).collect(),
        sample_rows: ROWS,
        adult: ADULT.to_vec(),
        adult_rows: AdultRows::Complete { at_most: ROWS },
    };
    let people = workspace.load_people(&wanted).await?;
    grade_occupations(workspace).await?;
    let full_domain = FullDomain::new(workspace, &people.columns[..COLUMNS]).await?;
    let experiment = Experiment { workspace, people: &people };
    let plots = experiment.plots(&full_domain).await;
    let claims = plots.claims();
    Ok(Report { people: people.title, plots: plots.into_plots(), claims })
}

/// The table `levels`: how sensitive every occupation is.
async fn grade_occupations(workspace: &Workspace) -> Result<()> {
    let graded = LEVELS.iter().zip(1..);
    let graded = graded.flat_map(|(values, level)| values.iter().map(move |value| (value, level)));
    let rows: Vec<String> = graded.map(|(value, level)| format!("('{value}', {level})")).collect();
    workspace.query(&format!("CREATE TABLE levels AS VALUES {}", rows.join(", "))).await?;
    Ok(())
}

/// Constraints along one axis. Graded alphas do not change with alpha and are there to compare.
struct Sweep {
    axis: &'static str,
    /// What is the same for all of them.
    fixed: String,
    places: Vec<f64>,
    constraint: Box<dyn Fn(f64) -> Constraint>,
}

impl Sweep {
    fn by_k(ks: &[f64]) -> Self {
        let constraint = |k: f64| Constraint { k: k as u32, alpha: 0.5 };
        let (axis, fixed) = ("k", "alpha = 0.5".to_owned());
        Self { axis, fixed, places: ks.to_vec(), constraint: Box::new(constraint) }
    }

    fn by_alpha(alphas: &[f64], k: u32) -> Self {
        let constraint = move |alpha| Constraint { k, alpha };
        let (axis, fixed) = ("alpha", format!("k = {k}"));
        Self { axis, fixed, places: alphas.to_vec(), constraint: Box::new(constraint) }
    }
}

struct Experiment<'a> {
    workspace: &'a Workspace,
    people: &'a People,
}

impl Experiment<'_> {
    async fn plots(&self, full_domain: &FullDomain<'_>) -> Plots {
        let (ks, alphas) = (self.workspace.points(&KS), self.workspace.points(&ALPHAS));
        let few_alphas = self.workspace.points(&[0.2, 0.3, 0.35, 0.4, 0.5]);
        let (by_k, by_alpha) = (Sweep::by_k(&ks), Sweep::by_alpha(&alphas, 4));
        let (of_ks, of_alphas) = (self.measure(&by_k).await, self.measure(&by_alpha).await);
        let with_five = Sweep::by_alpha(&few_alphas, 5);
        Plots {
            reconstruction: vec![
                reconstruction(&by_k, &of_ks, full_domain).await,
                reconstruction(&by_alpha, &of_alphas, full_domain).await,
            ],
            time: vec![
                self.time(&by_alpha).await,
                self.time(&Sweep::by_alpha(&alphas, 10)).await,
                self.time(&by_k).await,
            ],
            time_by_columns: vec![self.time_by_columns(4).await, self.time_by_columns(10).await],
            sensitivity: vec![
                sensitivity(&with_five, &self.measure(&with_five).await),
                sensitivity(&by_k, &of_ks),
            ],
        }
    }

    fn release(&self, method: Method, variant: Variant, constraint: Constraint) -> Release<'_> {
        Release { method, variant, constraint, quasi_identifiers: &self.people.columns[..COLUMNS] }
    }

    async fn sweep<T>(
        &self,
        places: &[f64],
        measure: impl AsyncFn(Method, Variant, f64) -> Result<T>,
    ) -> Vec<Line<T>> {
        let mut lines = Vec::new();
        for method in Method::ALL {
            for variant in Variant::BOTH {
                let measure = async |place| measure(method, variant, place).await;
                lines.push(Line::measure(variant.name(method.name()), places, measure).await);
            }
        }
        lines
    }

    async fn measure(&self, sweep: &Sweep) -> Vec<Line<Measured>> {
        let measure = async |method, variant, place| {
            self.release(method, variant, (sweep.constraint)(place)).measure(self.workspace).await
        };
        self.sweep(&sweep.places, measure).await
    }

    async fn time(&self, sweep: &Sweep) -> LinePlot {
        let mut rounds = Vec::new();
        for _ in 0..self.workspace.runs(ROUNDS) {
            let measure = async |method, variant, place| {
                self.release(method, variant, (sweep.constraint)(place)).time(self.workspace).await
            };
            rounds.push(self.sweep(&sweep.places, measure).await);
        }
        plot("Time", sweep, "time, shortest = 1", as_ratios(&medians(&rounds)))
    }

    async fn time_by_columns(&self, k: u32) -> LinePlot {
        // The last column is the sensitive one.
        let all: Vec<f64> = (2..self.people.columns.len()).map(|columns| columns as f64).collect();
        let places = self.workspace.points(&all);
        let mut rounds = Vec::new();
        for _ in 0..self.workspace.runs(ROUNDS) {
            let measure = async |method, variant, columns: f64| {
                let quasi_identifiers = &self.people.columns[..columns as usize];
                let constraint = Constraint { k, alpha: 0.5 };
                Release { method, variant, constraint, quasi_identifiers }
                    .time(self.workspace)
                    .await
            };
            rounds.push(self.sweep(&places, measure).await);
        }
        LinePlot {
            title: format!("Time by number of quasi-identifiers, k = {k}"),
            setting: format!("k = {k}"),
            axis: "quasi-identifiers".to_owned(),
            y_label: "time, shortest = 1".to_owned(),
            start: Start::Zero,
            lines: as_ratios(&medians(&rounds)),
        }
    }
}

async fn reconstruction(
    sweep: &Sweep,
    lines: &[Line<Measured>],
    full_domain: &FullDomain<'_>,
) -> LinePlot {
    let mut lines = map_all(lines, |found| found.reconstruction);
    let measure = async |place| full_domain.reconstruction((sweep.constraint)(place)).await;
    lines.push(Line::measure(claims::FULL_DOMAIN.to_owned(), &sweep.places, measure).await);
    plot("Reconstruction distance", sweep, "average reconstruction distance", lines)
}

fn sensitivity(sweep: &Sweep, lines: &[Line<Measured>]) -> LinePlot {
    let lines = map_all(lines, |found| found.sensitivity);
    plot("Sensitivity distance", sweep, "sensitivity distance, levels", lines)
}

fn plot(title: &str, sweep: &Sweep, y_label: &str, lines: Vec<Line>) -> LinePlot {
    LinePlot {
        title: format!("{title} by {}, {}", sweep.axis, sweep.fixed),
        setting: sweep.fixed.clone(),
        axis: sweep.axis.to_owned(),
        y_label: y_label.to_owned(),
        start: Start::Zero,
        lines,
    }
}
