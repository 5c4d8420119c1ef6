//! Two tables from one computation, against DataFusion's own `ORDER BY` on the sensitive column.
//!
//! ```sh
//! cargo bench -p datafusion-anonymize --bench two_tables -- --rows 10000000 --runs 3
//! ```
//!
//! Writes a `sample_census` with a sensitive column of 50 values to Parquet: the most frequent one has
//! 14 % of the rows, the rarest 1 %. Then alternates, in one session, `SELECT … ORDER BY` the sensitive
//! column and both tables of `alpha_k` over the same rows, with one alpha and with alphas for five
//! levels. Once the rows are dropped as they come, once they are written to Parquet. Prints the ratios
//! of the medians of wall time and of CPU time, with the phases of the release and its memory.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::{AnonymizeExec, TwoFiles, write_two_tables};
use futures::TryStreamExt;
use mimalloc::MiMalloc;

use setup::{
    Arguments, Cost, Stopwatch, census, copy, create_table, median, print_head, print_line,
    print_phases, run,
};

mod setup;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const QUASI_IDENTIFIERS: &str =
    "age, sex, race, marital_status, education, native_country, workclass, hours_per_week";

/// The releases: what the output calls them, and their options.
const RELEASES: [(&str, &str); 2] = [
    ("one alpha", "alpha => 0.3"),
    ("five levels", "alpha => [0.2, 0.3, 0.35, 0.4, 0.5], sensitivity => levels"),
];

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::of_process();
    let rows = arguments.number("--rows", 1_000_000);
    let runs = arguments.number("--runs", 3);
    let k = arguments.number("--k", 10);
    let outputs = arguments.list("--outputs", "dropped,parquet");
    let directory = tempfile::tempdir()?;
    let context = SessionContext::new();
    datafusion_anonymize::register_all(&context)?;
    anonymize_sample::register(&context)?;
    create_tables(&context, rows, directory.path()).await?;
    println!("{rows} rows, k = {k}, 8 quasi-identifiers, 50 sensitive values, {runs} runs each");

    let bench = Bench { context, directory: directory.path(), k };
    for output in &outputs {
        match output.as_str() {
            "dropped" => bench.dropped(runs, rows).await?.print("rows dropped as they come"),
            "parquet" => bench.written(runs).await?.print("written to Parquet"),
            _ => panic!("--outputs takes dropped and parquet"),
        }
    }
    Ok(())
}

struct Bench<'a> {
    context: SessionContext,
    directory: &'a Path,
    k: usize,
}

impl Bench<'_> {
    async fn dropped(&self, runs: usize, rows: usize) -> Result<Turns> {
        let mut turns = Turns::default();
        for turn in 0..runs {
            turns.sorts.push(run(&self.context, &sort()).await?.0);
            for ((name, options), costs) in RELEASES.iter().zip(&mut turns.releases) {
                let (cost, plan) = drop_both(&self.context, &release(self.k, options)).await?;
                costs.push(cost);
                if turn + 1 == runs {
                    print_phases(name, &plan);
                    print_memory(&self.context, name, &plan, rows).await?;
                }
            }
        }
        Ok(turns)
    }

    async fn written(&self, runs: usize) -> Result<Turns> {
        let sorted = self.directory.join("sorted.parquet");
        let mut turns = Turns::default();
        for _ in 0..runs {
            turns.sorts.push(run(&self.context, &copy(&sort(), &sorted)).await?.0);
            std::fs::remove_file(&sorted)?;
            for ((_, options), costs) in RELEASES.iter().zip(&mut turns.releases) {
                let sql = release(self.k, options);
                costs.push(write_both(&self.context, &sql, self.directory).await?);
            }
        }
        Ok(turns)
    }
}

/// The costs of all turns.
#[derive(Default)]
struct Turns {
    sorts: Vec<Cost>,
    releases: [Vec<Cost>; RELEASES.len()],
}

impl Turns {
    fn print(&self, name: &str) {
        println!("\n{name}");
        print_head();
        let sort = median(&self.sorts);
        print_line("ORDER BY", sort, sort);
        for ((name, _), costs) in RELEASES.iter().zip(&self.releases) {
            print_line(name, median(costs), sort);
        }
    }
}

async fn create_tables(context: &SessionContext, rows: usize, directory: &Path) -> Result<()> {
    // The number of a person is as good as a random number; its square makes some values frequent.
    let number = "CAST(50 * power((person_id % 1000003) / 1000003.0, 2) AS INT)";
    let query = format!(
        "SELECT {QUASI_IDENTIFIERS}, concat('condition-', lpad(CAST({number} AS VARCHAR), 2, '0')) AS condition
         FROM ({})",
        census(rows)
    );
    create_table(context, "census", &query, directory).await?;
    let levels = "CREATE TABLE levels AS
         SELECT condition, row_number() OVER (ORDER BY condition) % 5 + 1 AS level
         FROM (SELECT DISTINCT condition FROM census)";
    context.sql(levels).await?.collect().await?;
    Ok(())
}

fn sort() -> String {
    format!("SELECT {QUASI_IDENTIFIERS}, condition FROM census ORDER BY condition")
}

fn release(k: usize, options: &str) -> String {
    format!(
        "SELECT * FROM anonymize(census, method => 'alpha_k', k => {k}, {options}, seed => 'the seed of a benchmark',
           quasi_identifiers => ['{}'], sensitive => ['condition'], publish => 'quasi_identifiers')",
        QUASI_IDENTIFIERS.replace(", ", "', '")
    )
}

async fn drop_both(context: &SessionContext, sql: &str) -> Result<(Cost, Arc<dyn ExecutionPlan>)> {
    let watch = Stopwatch::start();
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let release = plan.downcast_ref::<AnonymizeExec>().unwrap();
    for mut table in release.both_tables(context.task_ctx()).await? {
        while table.try_next().await?.is_some() {}
    }
    Ok((watch.cost(), plan))
}

async fn write_both(context: &SessionContext, sql: &str, directory: &Path) -> Result<Cost> {
    let path = |name: &str| directory.join(name).display().to_string();
    let files = TwoFiles { quasi_identifiers: path("qi.parquet"), sensitive: path("sa.parquet") };
    let watch = Stopwatch::start();
    write_two_tables(context, context.sql(sql).await?, &files).await?;
    let cost = watch.cost();
    std::fs::remove_file(&files.quasi_identifiers)?;
    std::fs::remove_file(&files.sensitive)?;
    Ok(cost)
}

/// What the release reserved, and what its input takes in memory.
async fn print_memory(
    context: &SessionContext,
    name: &str,
    plan: &Arc<dyn ExecutionPlan>,
    rows: usize,
) -> Result<()> {
    let peak = plan.metrics().and_then(|metrics| metrics.sum_by_name("peak_memory"));
    let peak = peak.map_or(0, |metric| metric.as_usize());
    let mut batches = context.table("census").await?.execute_stream().await?;
    let mut input = 0;
    while let Some(batch) = batches.try_next().await? {
        input += batch.get_array_memory_size();
    }
    let per_row = |bytes: usize| bytes as f64 / rows as f64;
    println!(
        "{name}: {:.1} bytes per row reserved; all columns of the input take {:.1}",
        per_row(peak),
        per_row(input)
    );
    Ok(())
}
