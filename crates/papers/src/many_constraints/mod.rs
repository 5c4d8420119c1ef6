//! Many constraints at once: Classfly+ against Datafly, as in the experiments of its paper (Yang, Liu,
//! Wang and Yu, "K-Anonymization approaches for supporting multiple constraints", 2006).
//!
//! Prec (1: unchanged, 0: everything at its top) and time, by rows and by number of constraints.
//!
//! From the paper: nine uniform columns and their types, 1 024 to 10 240 rows, the eight constraints,
//! and that the first n of them are used. The paper names neither domains nor hierarchies, and heights
//! decide how much a level costs. So there are two settings, and the second was chosen after measuring the first:
//!
//! | column | values | levels above the value, first | second |
//! | --- | --- | --- | --- |
//! | race | 5 | `*` | |
//! | birth | days of 1950 to 1989 | month, year, decade, `*` | without decade |
//! | sex | 2 | `*` | |
//! | zip | 02000 to 02999 | 4, 3 digits, `*` | |
//! | height | 150 to 199 | 5, 10, 20, `*` | without 20 |
//! | weight | 40 to 119 | 5, 10, 20, `*` | without 20 |
//! | work_hrs | 20 to 59 | 5, 10, 20, `*` | without 20 |
//! | salary | 1 000 to 19 900 by hundreds | 500, 1 000, 5 000, 10 000, `*` | |
//! | edu | 9th to Doctor, 7 | junior, senior, …; secondary, university; `*` | |

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::common::{Result, exec_err};

use crate::Report;
use crate::columns::{Column, names, quoted};
use crate::line::{Line, as_ratios, map_all, median};
use crate::plot::{LinePlot, Start};
use crate::variant::Variant;
use crate::workspace::{Release, Workspace};
use claims::Plots;
use people::{Heights, people};

mod claims;
mod people;

const METHODS: [&str; 4] = ["classfly_complete", "classfly_partial", "classfly_naive", "datafly"];

/// C1 to C8 of the paper.
const CONSTRAINTS: [(&[&str], u32); 8] = [
    (&["race", "birth", "sex"], 5),
    (&["birth", "sex", "zip"], 3),
    (&["sex", "zip"], 5),
    (&["zip", "height"], 3),
    (&["weight", "work_hrs", "salary"], 6),
    (&["work_hrs", "salary", "edu"], 3),
    (&["race", "birth", "edu"], 4),
    (&["zip", "weight"], 8),
];

/// The first so many constraints whose plots by rows the paper shows.
const SETS: [usize; 3] = [2, 4, 8];

/// Tables have this many rows, or a multiple of it.
const STEP: usize = 1024;
const SIZES: usize = 10;

/// Releases of which the median time is taken.
const RUNS: usize = 5;

pub async fn run(workspace: &Workspace) -> Result<Report> {
    // At least two sizes, so that there is something to compare.
    let most = workspace.rows(SIZES * STEP).div_ceil(STEP);
    let sizes: Vec<f64> = (1..=most).map(|size| (size * STEP) as f64).collect();
    for rows in &sizes {
        workspace.register(&table_name(*rows), people(*rows as usize)?)?;
    }
    let experiment = Experiment { workspace, sizes };
    let mut plots = Plots::default();
    for heights in Heights::BOTH {
        for constraints in SETS {
            let lines = experiment.by_rows(heights, constraints).await;
            plots.prec_by_rows.push((
                heights,
                constraints,
                prec_by_rows(heights, constraints, &lines),
            ));
            // The heights change the times little; one setting is enough.
            if heights == Heights::First {
                plots.time_by_rows.push((constraints, time_by_rows(constraints, &lines)));
            }
            plots.equal.push((heights, constraints, equal(&lines)));
        }
    }
    let lines = experiment.by_constraints().await;
    plots.prec_by_constraints =
        Some(by_constraints("Prec", Start::Lowest, map_all(&lines, |found| found.precision)));
    let times = as_ratios(&map_all(&lines, |found| found.time));
    plots.time_by_constraints = Some(by_constraints("time, shortest = 1", Start::Zero, times));
    let claims = plots.claims();
    let people = format!("uniform people, {} rows", most * STEP);
    Ok(Report { people, plots: plots.into_plots(), claims })
}

/// What one release has.
struct Measured {
    rows: Vec<RecordBatch>,
    precision: f64,
    time: f64,
}

struct Experiment<'a> {
    workspace: &'a Workspace,
    sizes: Vec<f64>,
}

/// One release by one method.
#[derive(Clone, Copy)]
struct Trial {
    method: &'static str,
    variant: Variant,
    heights: Heights,
    rows: f64,
    constraints: usize,
}

impl Experiment<'_> {
    async fn by_rows(&self, heights: Heights, constraints: usize) -> Vec<Line<Measured>> {
        let trial = |method, variant, rows| Trial { method, variant, heights, rows, constraints };
        self.sweep(&self.sizes, trial).await
    }

    async fn by_constraints(&self) -> Vec<Line<Measured>> {
        let rows = self.sizes.last().copied().unwrap_or_default();
        let trial = |method, variant, constraints: f64| {
            let constraints = constraints as usize;
            Trial { method, variant, heights: Heights::First, rows, constraints }
        };
        let all: Vec<f64> = (2..=CONSTRAINTS.len()).map(|number| number as f64).collect();
        self.sweep(&self.workspace.points(&all), trial).await
    }

    async fn sweep(
        &self,
        places: &[f64],
        trial: impl Fn(&'static str, Variant, f64) -> Trial,
    ) -> Vec<Line<Measured>> {
        let mut lines = Vec::new();
        for method in METHODS {
            for variant in Variant::BOTH {
                let measure = async |place| self.measure(trial(method, variant, place)).await;
                lines.push(Line::measure(variant.name(method), places, measure).await);
            }
        }
        lines
    }

    async fn measure(&self, trial: Trial) -> Result<Measured> {
        let first = self.release(trial).await?;
        let mut times = vec![first.forming()?];
        for _ in 1..self.workspace.runs(RUNS) {
            times.push(self.release(trial).await?.forming()?);
        }
        let precision = self.precision(trial, &first.batches).await?;
        Ok(Measured { precision, time: median(times), rows: first.batches })
    }

    /// Prec of a release, as the report reads it.
    async fn precision(&self, trial: Trial, published: &[RecordBatch]) -> Result<f64> {
        let [first, ..] = published else { return exec_err!("nothing was published") };
        self.workspace.register("published", concat_batches(&first.schema(), published)?)?;
        let columns = trial.heights.columns();
        let (constrained, _) = split_columns(&columns, trial.constraints);
        let report = format!(
            "utility_report({}, published, quasi_identifiers => [{}]{})",
            table_name(trial.rows),
            quoted(&names(&constrained)),
            self.workspace.hierarchies(&constrained)
        );
        self.workspace.measures(&report).await?.get("prec")
    }

    async fn release(&self, trial: Trial) -> Result<Release> {
        let columns = trial.heights.columns();
        let (constrained, free) = split_columns(&columns, trial.constraints);
        let constraints: Vec<String> = (CONSTRAINTS[..trial.constraints].iter())
            .map(|(columns, k)| format!("{{columns: [{}], k: {k}}}", quoted(columns)))
            .collect();
        let keep = match free.as_slice() {
            [] => String::new(),
            free => format!(", keep => [{}]", quoted(&names(free))),
        };
        let sql = format!(
            "SELECT * FROM anonymize({}, method => '{}', seed => 1, constraints => [{}]{keep}{}{})",
            table_name(trial.rows),
            trial.method,
            constraints.join(", "),
            self.workspace.hierarchies(&constrained),
            trial.variant.option()
        );
        self.workspace.release(&sql).await
    }
}

/// The columns of the first constraints, and all others.
fn split_columns(columns: &[Column], constraints: usize) -> (Vec<Column>, Vec<Column>) {
    let constraints = &CONSTRAINTS[..constraints];
    columns
        .iter()
        .partition(|(name, _)| constraints.iter().any(|(columns, _)| columns.contains(name)))
}

/// By rows, for both versions, whether complete and partial publish the same table: 1, or 0.
fn equal(lines: &[Line<Measured>]) -> [(Variant, Line); 2] {
    let points = |method: &str, variant: Variant| {
        let line = lines.iter().find(|line| line.name == variant.name(method));
        line.map_or_else(
            || Err("not measured".to_owned()),
            |line| line.points.as_ref().map_err(Clone::clone),
        )
    };
    Variant::BOTH.map(|variant| {
        let both =
            points(METHODS[0], variant).and_then(|one| Ok((one, points(METHODS[1], variant)?)));
        let points = both.map(|(one, other)| {
            let both = one.iter().zip(other);
            both.map(|(one, other)| (one.0, f64::from(same_rows(&one.1.rows, &other.1.rows))))
                .collect()
        });
        (variant, Line { name: "equal".to_owned(), points })
    })
}

/// Whether two releases have equal rows in equal order. Their schemas name different methods.
fn same_rows(one: &[RecordBatch], other: &[RecordBatch]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.columns() == other.columns())
}

fn table_name(rows: f64) -> String {
    format!("people_{rows}")
}

fn prec_by_rows(heights: Heights, constraints: usize, lines: &[Line<Measured>]) -> LinePlot {
    LinePlot {
        title: format!("Prec by rows, C1 to C{constraints}, {}", heights.name()),
        setting: format!("{}, C1 to C{constraints}", heights.name()),
        axis: "rows".to_owned(),
        y_label: "Prec".to_owned(),
        start: Start::Lowest,
        lines: map_all(lines, |found| found.precision),
    }
}

fn time_by_rows(constraints: usize, lines: &[Line<Measured>]) -> LinePlot {
    LinePlot {
        title: format!("Time by rows, C1 to C{constraints}"),
        setting: format!("C1 to C{constraints}"),
        axis: "rows".to_owned(),
        y_label: "time, shortest = 1".to_owned(),
        start: Start::Zero,
        lines: as_ratios(&map_all(lines, |found| found.time)),
    }
}

fn by_constraints(measure: &str, start: Start, lines: Vec<Line>) -> LinePlot {
    let what = measure.split(',').next().unwrap_or(measure);
    LinePlot {
        title: format!("{}{} by number of constraints", what[..1].to_uppercase(), &what[1..]),
        setting: String::new(),
        axis: "constraints".to_owned(),
        y_label: measure.to_owned(),
        start,
        lines,
    }
}
