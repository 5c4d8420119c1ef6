//! Many constraints at once: Classfly+ against Datafly, as in the experiment of its paper (Yang, Liu,
//! Wang and Yu, "K-Anonymization approaches for supporting multiple constraints", 2006).
//!
//! ```sh
//! cargo run --release --example many_constraints -- target/many_constraints
//! ```
//!
//! Prints Prec (1: unchanged, 0: everything at its top) by rows and by number of constraints, and the
//! time by number of constraints. Checks that `classfly_complete` and `classfly_partial` publish the
//! same table. Writes the plots as SVG files into the directory.
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

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, Date32Array, Int32Array, RecordBatch, StringArray};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_anonymize::engine::AnonymizeExec;
use datafusion_anonymize::register_all;

use plot::{LinePlot, Series, Start};

#[path = "common/plot.rs"]
mod plot;

const METHODS: [&str; 4] = ["classfly_complete", "classfly_partial", "classfly_naive", "datafly"];

/// Columns in the order of the table, each with its hierarchy.
const COLUMNS: [(&str, &str); 9] = [
    (
        "race",
        "(SELECT column1, '*' FROM (VALUES ('Asian'), ('Black'), ('Native'), ('Other'), ('White')))",
    ),
    ("birth", "date_steps('month', 'year', 'decade')"),
    ("sex", "(SELECT column1, '*' FROM (VALUES ('f'), ('m')))"),
    ("zip", "prefixes(4, 3, 2)"),
    ("height", "intervals(5, 10, 20)"),
    ("weight", "intervals(5, 10, 20)"),
    ("work_hrs", "intervals(5, 10, 20)"),
    ("salary", "intervals(500, 1000, 5000, 10000)"),
    (
        "edu",
        "(SELECT column1, column2, column3, '*' FROM (VALUES
            ('9th', 'junior', 'secondary'), ('10th', 'junior', 'secondary'),
            ('11th', 'senior', 'secondary'), ('12th', 'senior', 'secondary'),
            ('Bachelor', 'undergraduate', 'university'),
            ('Master', 'graduate', 'university'), ('Doctor', 'graduate', 'university')))",
    ),
];

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

const SMALLEST: usize = 1024;
const LARGEST: usize = 10 * SMALLEST;

/// Releases of which the median time is shown.
const RUNS: usize = 7;

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "target/many_constraints".to_owned());
    let directory = PathBuf::from(directory);
    std::fs::create_dir_all(&directory)?;
    let context = SessionContext::new();
    register_all(&context)?;
    for rows in sizes() {
        context.register_batch(table_name(rows), people(rows)?)?;
    }
    for constraints in [2, 4, 8] {
        let svg = by_rows(&context, constraints).await?;
        std::fs::write(directory.join(format!("prec_by_rows_c{constraints}.svg")), svg)?;
    }
    let (precision, time) = by_constraints(&context).await?;
    std::fs::write(directory.join("prec_by_constraints.svg"), precision)?;
    std::fs::write(directory.join("time_by_constraints.svg"), time)?;
    println!("The plots are in {}.", directory.display());
    Ok(())
}

/// Prec of every method for the first constraints by the size of the table, printed and plotted.
async fn by_rows(context: &SessionContext, constraints: usize) -> Result<String> {
    println!("Prec by rows, constraints C1 to C{constraints}\n");
    print_head("rows", &["complete/datafly"]);
    let mut lines = new_lines();
    for rows in sizes() {
        let releases = release_all(context, rows, constraints).await?;
        let precisions: Vec<f64> = releases.iter().map(|release| release.precision).collect();
        print_row(rows, &precisions, &[ratio(&precisions, 1.0)]);
        add_points(&mut lines, rows, &precisions);
    }
    println!();
    Ok(LinePlot {
        title: format!("Prec by rows, constraints C1 to C{constraints}"),
        x_label: "rows".to_owned(),
        y_label: "Prec".to_owned(),
        y_start: Start::Lowest,
        series: lines,
    }
    .to_svg())
}

/// Prec and time of every method by the number of constraints, printed and plotted.
async fn by_constraints(context: &SessionContext) -> Result<(String, String)> {
    let (mut precision_lines, mut time_lines) = (new_lines(), new_lines());
    let mut times = Vec::new();
    println!("Prec by number of constraints, {LARGEST} rows\n");
    print_head("constraints", &["complete/datafly", "over all nine"]);
    for constraints in 1..=CONSTRAINTS.len() {
        let mut runs = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            runs.push(release_all(context, LARGEST, constraints).await?);
        }
        let precisions: Vec<f64> = runs[0].iter().map(|release| release.precision).collect();
        // Columns in no constraint are unchanged; some count them in.
        let share = constrained(constraints).len() as f64 / COLUMNS.len() as f64;
        print_row(constraints, &precisions, &[ratio(&precisions, 1.0), ratio(&precisions, share)]);
        let medians: Vec<f64> = (0..METHODS.len()).map(|method| median(&runs, method)).collect();
        add_points(&mut precision_lines, constraints, &precisions);
        add_points(&mut time_lines, constraints, &medians);
        times.push(medians);
    }
    println!("\nTime by number of constraints, {LARGEST} rows, median of {RUNS} in ms\n");
    print_head("constraints", &[]);
    for (constraints, medians) in (1..).zip(&times) {
        print_row(constraints, medians, &[]);
    }
    println!();
    let precision = LinePlot {
        title: format!("Prec by number of constraints, {LARGEST} rows"),
        x_label: "constraints".to_owned(),
        y_label: "Prec".to_owned(),
        y_start: Start::Lowest,
        series: precision_lines,
    };
    let time = LinePlot {
        title: format!("Time by number of constraints, {LARGEST} rows"),
        x_label: "constraints".to_owned(),
        y_label: "milliseconds".to_owned(),
        y_start: Start::Zero,
        series: time_lines,
    };
    Ok((precision.to_svg(), time.to_svg()))
}

struct Release {
    batches: Vec<RecordBatch>,
    precision: f64,
    time: Duration,
}

/// One release by every method, in the order of `METHODS`.
async fn release_all(
    context: &SessionContext,
    rows: usize,
    constraints: usize,
) -> Result<Vec<Release>> {
    let mut releases = Vec::with_capacity(METHODS.len());
    for method in METHODS {
        releases.push(release(context, &query(rows, constraints, method)).await?);
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
async fn release(context: &SessionContext, sql: &str) -> Result<Release> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let start = Instant::now();
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    let time = start.elapsed();
    let precision = precision_of(&plan)
        .ok_or_else(|| exec_datafusion_err!("the plan has no release with constraints"))?;
    Ok(Release { batches, precision, time })
}

fn precision_of(plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
    match plan.downcast_ref::<AnonymizeExec>() {
        Some(exec) => exec.precision(),
        None => plan.children().into_iter().find_map(precision_of),
    }
}

fn query(rows: usize, constraints: usize, method: &str) -> String {
    let listed = constrained(constraints);
    let quoted = |names: &[&str]| {
        names.iter().map(|name| format!("'{name}'")).collect::<Vec<String>>().join(", ")
    };
    let asked: Vec<String> = (CONSTRAINTS[..constraints].iter())
        .map(|(columns, k)| format!("{{columns: [{}], k: {k}}}", quoted(columns)))
        .collect();
    let (own, free): (Vec<_>, Vec<_>) =
        COLUMNS.iter().partition(|(column, _)| listed.contains(column));
    let hierarchies: Vec<String> =
        own.iter().map(|(column, hierarchy)| format!("{column}: {hierarchy}")).collect();
    let keep = match free.as_slice() {
        [] => String::new(),
        free => {
            let names: Vec<&str> = free.iter().map(|(column, _)| *column).collect();
            format!("keep => [{}], ", quoted(&names))
        }
    };
    format!(
        "SELECT * FROM anonymize({}, method => '{method}', variant => 'paper', seed => 1, {keep}\
         constraints => [{}], hierarchies => {{{}}})",
        table_name(rows),
        asked.join(", "),
        hierarchies.join(", ")
    )
}

/// The columns of the first constraints.
fn constrained(constraints: usize) -> Vec<&'static str> {
    let is_listed = |column: &&str| {
        CONSTRAINTS[..constraints].iter().any(|(columns, _)| columns.contains(column))
    };
    COLUMNS.iter().map(|(column, _)| *column).filter(is_listed).collect()
}

/// Whether two releases have equal rows in equal order. Their schemas name different methods.
fn same_rows(one: &[RecordBatch], other: &[RecordBatch]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.columns() == other.columns())
}

fn sizes() -> impl Iterator<Item = usize> {
    (SMALLEST..=LARGEST).step_by(SMALLEST)
}

fn table_name(rows: usize) -> String {
    format!("people_{rows}")
}

/// Uniform persons. A smaller table has the first rows of a larger one.
fn people(rows: usize) -> Result<RecordBatch> {
    const RACES: [&str; 5] = ["Asian", "Black", "Native", "Other", "White"];
    const EDUCATION: [&str; 7] = ["9th", "10th", "11th", "12th", "Bachelor", "Master", "Doctor"];
    /// 1950-01-01 as days since 1970-01-01, and the days of forty years.
    const BIRTH: (i32, u64) = (-7305, 14_610);
    let mut random = Random(2006);
    let persons: Vec<[u64; 9]> = (0..rows)
        .map(|_| [5, BIRTH.1, 2, 1000, 50, 80, 40, 190, 7].map(|values| random.below(values)))
        .collect();
    let numbers = |column: usize, first: i32, step: i32| -> ArrayRef {
        let number = |person: &[u64; 9]| first + step * person[column] as i32;
        Arc::new(persons.iter().map(number).collect::<Int32Array>())
    };
    let labels = |column: usize, labels: &[&'static str]| -> ArrayRef {
        let label = |person: &[u64; 9]| Some(labels[person[column] as usize]);
        Arc::new(persons.iter().map(label).collect::<StringArray>())
    };
    let births = persons.iter().map(|person| BIRTH.0 + person[1] as i32);
    let zips = persons.iter().map(|person| Some(format!("02{:03}", person[3])));
    let columns: [ArrayRef; 9] = [
        labels(0, &RACES),
        Arc::new(Date32Array::from_iter_values(births)),
        labels(2, &["f", "m"]),
        Arc::new(zips.collect::<StringArray>()),
        numbers(4, 150, 1),
        numbers(5, 40, 1),
        numbers(6, 20, 1),
        numbers(7, 1000, 100),
        labels(8, &EDUCATION),
    ];
    let names = COLUMNS.iter().map(|(name, _)| *name);
    Ok(RecordBatch::try_from_iter(names.zip(columns))?)
}

/// SplitMix64: the same numbers everywhere.
struct Random(u64);

impl Random {
    /// A number from 0 up, below the bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((bits ^ (bits >> 31)) >> 32) * bound) >> 32
    }
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

fn new_lines() -> Vec<Series> {
    METHODS.iter().map(|method| Series { name: (*method).to_owned(), points: Vec::new() }).collect()
}

fn add_points(lines: &mut [Series], x: usize, values: &[f64]) {
    for (line, value) in lines.iter_mut().zip(values) {
        line.points.push((x as f64, *value));
    }
}

fn print_head(first: &str, more: &[&str]) {
    let names = METHODS.iter().chain(more).map(|name| format!("{name:>18}"));
    println!("{first:<12}{}", names.collect::<String>());
}

fn print_row(first: impl Display, values: &[f64], more: &[f64]) {
    let shown = values.iter().chain(more).map(|value| format!("{value:>18.4}"));
    println!("{first:<12}{}", shown.collect::<String>());
}
