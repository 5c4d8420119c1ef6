//! Many constraints at once: Classfly+ against Datafly, as in the experiment of its paper (Yang, Liu,
//! Wang and Yu, "K-Anonymization approaches for supporting multiple constraints", 2006).
//!
//! Prec (1: unchanged, 0: everything at its top) by rows and by number of constraints, and the time by
//! number of constraints. Checks that `classfly_complete` and `classfly_partial` publish the same table.
//!
//! From the paper: nine uniform columns and their types, 1 024 to 10 240 rows, the eight constraints,
//! and that the first n of them are used. The paper names neither domains nor hierarchies. Those here
//! follow the values of its first figure and were chosen before anything was measured:
//!
//! | column | values | levels above the value |
//! | --- | --- | --- |
//! | race | 5 | `*` |
//! | birth | days of 1950 to 1989 | month, year, decade, `*` |
//! | sex | 2 | `*` |
//! | zip | 02000 to 02999 | 4, 3, 2 digits, `*` |
//! | height | 150 to 199 | 5, 10, 20, `*` |
//! | weight | 40 to 119 | 5, 10, 20, `*` |
//! | work_hrs | 20 to 59 | 5, 10, 20, `*` |
//! | salary | 1 000 to 19 900 by hundreds | 500, 1 000, 5 000, 10 000, `*` |
//! | edu | 9th to Doctor, 7 | junior, senior, …; secondary, university; `*` |
//!
//! The paper finds complete and partial equal, and on average 10 to 20 % above Datafly. Here they are
//! equal everywhere, and from 0.5 % below Datafly to 14 % above it, by size and constraints. Uniform
//! values make groups of nearly equal size, so a level of these hierarchies, each with about ten
//! times the rows of the one before, suits nearly all rows or nearly none. Freezing rows pays where
//! the groups of a level lie around K: there most rows stay a level below Datafly's. Beyond that
//! size Datafly reaches the same level, and the two are equal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::physical_plan::collect;

use crate::columns::{Column, hierarchies, names, quoted};
use crate::plot::{LinePlot, Series, Start};
use crate::table::{Table, number};
use crate::workspace::{Workspace, release_in};
use people::{COLUMNS, people};

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

/// Tables have this many rows, or a multiple of it.
const STEP: usize = 1024;
const SIZES: usize = 10;

/// Releases of which the median time is shown.
const RUNS: usize = 7;

pub async fn run(workspace: &Workspace) -> Result<()> {
    // At least two sizes, so that there is something to compare.
    let most = workspace.rows(SIZES * STEP).div_ceil(STEP);
    let sizes: Vec<usize> = (1..=most).map(|size| size * STEP).collect();
    for rows in &sizes {
        workspace.context.register_batch(table_name(*rows), people(*rows)?)?;
    }
    for constraints in [2, 4, 8] {
        by_rows(workspace, &sizes, constraints).await?;
    }
    by_constraints(workspace, most * STEP).await
}

/// Prec of every method for the first constraints by the size of the table.
async fn by_rows(workspace: &Workspace, sizes: &[usize], constraints: usize) -> Result<()> {
    let title = format!("Prec by rows, constraints C1 to C{constraints}");
    let table = Table::start(&title, &heads("rows", &["complete/datafly"]));
    let mut lines = new_lines();
    for rows in sizes {
        let releases = release_all(workspace, *rows, constraints).await?;
        let precisions: Vec<f64> = releases.iter().map(|release| release.precision).collect();
        let cells = precisions.iter().copied().chain([ratio(&precisions, 1.0)]);
        table.row(rows, cells.map(number));
        add_points(&mut lines, *rows, &precisions);
    }
    table.end();
    let plot = LinePlot {
        title,
        x_label: "rows".to_owned(),
        y_label: "Prec".to_owned(),
        y_start: Start::Lowest,
        series: lines,
    };
    workspace.draw(&format!("prec_by_rows_c{constraints}.svg"), &plot)
}

/// Prec and time of every method by the number of constraints.
async fn by_constraints(workspace: &Workspace, rows: usize) -> Result<()> {
    let (mut precision_lines, mut time_lines) = (new_lines(), new_lines());
    let (mut times, runs) = (Vec::new(), workspace.runs(RUNS));
    let title = format!("Prec by number of constraints, {rows} rows");
    let table = Table::start(&title, &heads("constraints", &["complete/datafly", "over all nine"]));
    for constraints in 1..=CONSTRAINTS.len() {
        let mut releases = Vec::with_capacity(runs);
        for _ in 0..runs {
            releases.push(release_all(workspace, rows, constraints).await?);
        }
        let precisions: Vec<f64> = releases[0].iter().map(|release| release.precision).collect();
        // Columns in no constraint are unchanged; some count them in.
        let share = split_columns(constraints).0.len() as f64 / COLUMNS.len() as f64;
        let ratios = [ratio(&precisions, 1.0), ratio(&precisions, share)];
        table.row(constraints, precisions.iter().copied().chain(ratios).map(number));
        let medians: Vec<f64> = (0..METHODS.len()).map(|at| median(&releases, at)).collect();
        add_points(&mut precision_lines, constraints, &precisions);
        add_points(&mut time_lines, constraints, &medians);
        times.push(medians);
    }
    table.end();
    let x_label = "constraints".to_owned();
    let (y_label, y_start) = ("Prec".to_owned(), Start::Lowest);
    let plot =
        LinePlot { title, x_label: x_label.clone(), y_label, y_start, series: precision_lines };
    workspace.draw("prec_by_constraints.svg", &plot)?;

    let title = format!("Time by number of constraints, {rows} rows, median of {runs} in ms");
    let table = Table::start(&title, &heads("constraints", &[]));
    for (constraints, medians) in (1..).zip(&times) {
        table.row(constraints, medians.iter().copied().map(number));
    }
    table.end();
    let (y_label, y_start) = ("milliseconds".to_owned(), Start::Zero);
    let plot = LinePlot { title, x_label, y_label, y_start, series: time_lines };
    workspace.draw("time_by_constraints.svg", &plot)
}

struct Release {
    batches: Vec<RecordBatch>,
    precision: f64,
    time: Duration,
}

/// One release by every method, in the order of `METHODS`.
async fn release_all(
    workspace: &Workspace,
    rows: usize,
    constraints: usize,
) -> Result<Vec<Release>> {
    let mut releases = Vec::with_capacity(METHODS.len());
    for method in METHODS {
        releases.push(release(workspace, &query(rows, constraints, method)).await?);
    }
    if !same_rows(&releases[0].batches, &releases[1].batches) {
        return exec_err!(
            "{} and {} differ for {rows} rows and {constraints} constraints",
            METHODS[0],
            METHODS[1]
        );
    }
    Ok(releases)
}

/// The time is that of the execution, without planning.
async fn release(workspace: &Workspace, sql: &str) -> Result<Release> {
    let plan = workspace.context.sql(sql).await?.create_physical_plan().await?;
    let start = Instant::now();
    let batches = collect(Arc::clone(&plan), workspace.context.task_ctx()).await?;
    let time = start.elapsed();
    let precision = release_in(&plan)?.precision();
    let precision =
        precision.ok_or_else(|| exec_datafusion_err!("the release has no constraints"))?;
    Ok(Release { batches, precision, time })
}

fn query(rows: usize, constraints: usize, method: &str) -> String {
    let asked: Vec<String> = (CONSTRAINTS[..constraints].iter())
        .map(|(columns, k)| format!("{{columns: [{}], k: {k}}}", quoted(columns)))
        .collect();
    let (constrained, free) = split_columns(constraints);
    let keep = match free.as_slice() {
        [] => String::new(),
        free => format!(", keep => [{}]", quoted(&names(free))),
    };
    format!(
        "SELECT * FROM anonymize({}, method => '{method}', variant => 'paper', seed => 1, \
         constraints => [{}]{keep}{})",
        table_name(rows),
        asked.join(", "),
        hierarchies(&constrained)
    )
}

/// The columns of the first constraints, and all others.
fn split_columns(constraints: usize) -> (Vec<Column>, Vec<Column>) {
    let constraints = &CONSTRAINTS[..constraints];
    COLUMNS
        .into_iter()
        .partition(|(name, _)| constraints.iter().any(|(columns, _)| columns.contains(name)))
}

/// Whether two releases have equal rows in equal order. Their schemas name different methods.
fn same_rows(one: &[RecordBatch], other: &[RecordBatch]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.columns() == other.columns())
}

fn table_name(rows: usize) -> String {
    format!("people_{rows}")
}

/// Prec of complete over that of datafly, when only a share of the columns is generalized.
fn ratio(precisions: &[f64], share: f64) -> f64 {
    let overall = |precision: f64| 1.0 - share * (1.0 - precision);
    overall(precisions[0]) / overall(precisions[3])
}

/// The median time of one method, in milliseconds.
fn median(runs: &[Vec<Release>], method: usize) -> f64 {
    let mut times: Vec<Duration> = runs.iter().map(|releases| releases[method].time).collect();
    times.sort_unstable();
    1000.0 * times[times.len() / 2].as_secs_f64()
}

fn heads(first: &'static str, more: &[&'static str]) -> Vec<&'static str> {
    [&[first][..], &METHODS, more].concat()
}

fn new_lines() -> Vec<Series> {
    METHODS.iter().map(|method| Series { name: (*method).to_owned(), points: Vec::new() }).collect()
}

fn add_points(lines: &mut [Series], x: usize, values: &[f64]) {
    for (line, value) in lines.iter_mut().zip(values) {
        line.points.push((x as f64, *value));
    }
}
