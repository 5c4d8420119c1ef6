//! How much every method loses, by k: a table and a plot.
//!
//! ```sh
//! cargo run --release --example loss_by_k -- target/loss_by_k
//! ADULT_DIR=… cargo run --release --example loss_by_k -- target/loss_by_k
//! ```
//!
//! Prints the loss (NCP per cell: 0 for an exact value, 1 for `*`, 1 for every cell of a row that is
//! suppressed) of `sample_census`, and writes it as SVG into the directory. With `ADULT_DIR` naming a
//! directory with `adult.csv` and `hierarchies/*.csv` (`;`-separated) the same of the Adult census.
//! Age is published as a range and counted against the range of all ages; the other columns climb
//! their hierarchies. `alpha_k` is not here: it publishes quasi-identifiers as they are.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{CsvReadOptions, SessionContext};
use datafusion_anonymize::register_all;
use futures::TryStreamExt;

use plot::{LinePlot, Series, Start};

#[path = "common/plot.rs"]
mod plot;

const KS: [u32; 6] = [2, 5, 10, 25, 50, 100];

const METHODS: [&str; 10] = [
    "layered",
    "rounded",
    "mondrian",
    "mondrian_relaxed",
    "k_member",
    "kaim",
    "bottom_up",
    "top_down",
    "classfly",
    "datafly",
];

/// Quasi-identifiers. Age has no hierarchy and becomes a range; nor has the salary class of
/// `sample_census`, whose two values become a set.
const QUASI_IDENTIFIERS: [&str; 8] = [
    "sex",
    "age",
    "race",
    "marital_status",
    "education",
    "native_country",
    "workclass",
    "salary_class",
];

/// The hierarchy of a column, as SQL, if it has one.
type Hierarchies<'a> = dyn Fn(&str) -> Option<String> + 'a;

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "target/loss_by_k".to_owned());
    let directory = PathBuf::from(directory);
    std::fs::create_dir_all(&directory)?;
    let context = SessionContext::new();
    register_all(&context)?;
    anonymize_sample::register(&context)?;
    let columns = QUASI_IDENTIFIERS.join(", ");
    let census = format!("(SELECT {columns} FROM sample_census(rows => 30162, seed => 7))");
    let hierarchy = |column: &str| {
        (column != "salary_class").then(|| format!("sample_hierarchy(column => '{column}')"))
    };
    table(&context, ("sample_census", &census), &hierarchy, &directory).await?;
    match std::env::var_os("ADULT_DIR") {
        Some(adult) => on_adult(&context, Path::new(&adult), &directory).await?,
        None => println!(
            "Skipped: the figures on Adult. Set ADULT_DIR to a directory with adult.csv and \
             hierarchies/*.csv."
        ),
    }
    println!("Plots are in {}.", directory.display());
    Ok(())
}

async fn on_adult(context: &SessionContext, adult: &Path, directory: &Path) -> Result<()> {
    let options = CsvReadOptions::new().delimiter(b';').has_header(true);
    let path = adult.join("adult.csv").display().to_string();
    context.register_csv("adult_csv", path, options).await?;
    let named = |column: &str| match column.contains('_') {
        true => format!("\"{}\" AS {column}", column.replace('_', "-")),
        false => column.to_owned(),
    };
    let columns = QUASI_IDENTIFIERS.map(named).join(", ");
    let hierarchy = |column: &str| {
        let name = format!("{}.csv", column.replace('_', "-"));
        Some(format!("'{}'", adult.join("hierarchies").join(name).display()))
    };
    let input = format!("(SELECT {columns} FROM adult_csv)");
    table(context, ("Adult", &input), &hierarchy, directory).await
}

/// Prints the losses of one table and writes their plot.
async fn table(
    context: &SessionContext,
    (name, input): (&str, &str),
    hierarchy: &Hierarchies<'_>,
    directory: &Path,
) -> Result<()> {
    println!("Loss (NCP per cell) of {name}:\n");
    println!("| k | {} | seconds for all k |", KS.map(|k| k.to_string()).join(" | "));
    println!("| --- |{}", " --- |".repeat(KS.len() + 1));
    let mut series = Vec::new();
    for method in METHODS {
        let start = Instant::now();
        let mut points = Vec::new();
        for k in KS {
            let call = anonymize(input, method, k, hierarchy);
            points.push((f64::from(k), loss(context, &call).await?));
        }
        let losses: Vec<String> = points.iter().map(|(_, loss)| format!("{loss:.4}")).collect();
        let seconds = start.elapsed().as_secs_f64();
        println!("| `{method}` | {} | {seconds:.1} |", losses.join(" | "));
        series.push(Series { name: method.to_owned(), points });
    }
    println!();
    let plot = LinePlot {
        title: format!("Loss of {name}"),
        x_label: "k".to_owned(),
        y_label: "NCP per cell".to_owned(),
        y_start: Start::Zero,
        series,
    };
    let file = directory.join(format!("loss_{}.svg", name.to_lowercase()));
    std::fs::write(file, plot.to_svg())?;
    Ok(())
}

fn anonymize(input: &str, method: &str, k: u32, hierarchy: &Hierarchies<'_>) -> String {
    let climbing = QUASI_IDENTIFIERS.iter().filter(|column| **column != "age");
    let hierarchies =
        climbing.filter_map(|column| Some(format!("{column}: {}", hierarchy(column)?)));
    let hierarchies: Vec<String> = hierarchies.collect();
    // What a method leaves out counts as lost, however much it is.
    format!(
        "SELECT * FROM anonymize({input}, k => {k}, method => '{method}', suppression_limit => 1,
           quasi_identifiers => ['{}'], hierarchies => {{{}}}, seed => 1)",
        QUASI_IDENTIFIERS.join("', '"),
        hierarchies.join(", ")
    )
}

/// The loss that the operator reports for a query.
async fn loss(context: &SessionContext, sql: &str) -> Result<f64> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let mut rows = execute_stream(Arc::clone(&plan), context.task_ctx())?;
    while rows.try_next().await?.is_some() {}
    reported(&plan).ok_or_else(|| exec_datafusion_err!("the operator reports no loss"))
}

fn reported(plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
    if plan.name() != "AnonymizeExec" {
        return plan.children().into_iter().find_map(reported);
    }
    let metrics = plan.metrics()?;
    let metric = metrics.iter().find(|metric| metric.value().name() == "loss")?;
    metric.value().to_string().parse().ok()
}
