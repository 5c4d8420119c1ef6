//! Parquet in, release, Parquet out, against DataFusion's own `ORDER BY` on the same columns.
//!
//! ```sh
//! cargo bench --bench end_to_end -- --rows 10000000 --runs 3
//! ```
//!
//! Writes a `sample_census` file, then alternates `COPY (SELECT * … ORDER BY 8 columns)` and
//! `COPY (SELECT * FROM anonymize(… the same 8 columns))` in one session, and prints the ratio of
//! the medians of wall time and of CPU time, with the phases of the release.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const QUASI_IDENTIFIERS: [&str; 8] = [
    "age",
    "sex",
    "race",
    "marital_status",
    "education",
    "native_country",
    "workclass",
    "hours_per_week",
];

struct Options {
    rows: usize,
    runs: usize,
    k: usize,
    methods: Vec<String>,
}

impl Options {
    fn parse() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let value = |name: &str| {
            let at = args.iter().position(|arg| arg == name)?;
            args.get(at + 1).cloned()
        };
        let number = |name, default| value(name).map_or(default, |text| text.parse().unwrap());
        Self {
            rows: number("--rows", 1_000_000),
            runs: number("--runs", 3),
            k: number("--k", 10),
            methods: value("--methods")
                .unwrap_or_else(|| "rounded".to_owned())
                .split(',')
                .map(str::to_owned)
                .collect(),
        }
    }
}

#[derive(Clone, Copy)]
struct Cost {
    wall: Duration,
    cpu: Duration,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let directory = tempfile::tempdir()?;
    let context = SessionContext::new();
    datafusion_anonymize::register_all(&context)?;
    let input = directory.path().join("census.parquet");
    let census = format!("SELECT * FROM sample_census(rows => {}, seed => 7)", options.rows);
    run(&context, &copy(&census, &input)).await?;
    let register =
        format!("CREATE EXTERNAL TABLE census STORED AS PARQUET LOCATION '{}'", input.display());
    context.sql(&register).await?.collect().await?;
    println!(
        "{} rows, k = {}, 8 quasi-identifiers, {} runs each",
        options.rows, options.k, options.runs
    );

    let output = directory.path().join("out.parquet");
    let sort = format!("SELECT * FROM census ORDER BY {}", QUASI_IDENTIFIERS.join(", "));
    let mut sorts = Vec::new();
    let mut releases = vec![Vec::new(); options.methods.len()];
    for turn in 0..options.runs {
        sorts.push(run(&context, &copy(&sort, &output)).await?.0);
        for (method, costs) in options.methods.iter().zip(&mut releases) {
            let (cost, plan) = run(&context, &copy(&anonymize(method, options.k), &output)).await?;
            costs.push(cost);
            if turn + 1 == options.runs {
                print_phases(method, &plan);
            }
        }
    }
    println!("{:<18} {:>9} {:>9} {:>11} {:>11}", "", "wall s", "cpu s", "wall ratio", "cpu ratio");
    let sort = median(&sorts);
    print_line("ORDER BY", sort, sort);
    for (method, costs) in options.methods.iter().zip(&releases) {
        print_line(method, median(costs), sort);
    }
    Ok(())
}

fn anonymize(method: &str, k: usize) -> String {
    format!(
        "SELECT * FROM anonymize(census, k => {k}, method => '{method}', seed => 1,
           quasi_identifiers => ['{}'], sensitive => ['occupation', 'salary_class'],
           keep => ['zip', 'birth_date', 'person_id'])",
        QUASI_IDENTIFIERS.join("', '")
    )
}

fn copy(query: &str, to: &Path) -> String {
    format!("COPY ({query}) TO '{}' STORED AS PARQUET", to.display())
}

async fn run(context: &SessionContext, sql: &str) -> Result<(Cost, Arc<dyn ExecutionPlan>)> {
    let (wall, cpu) = (Instant::now(), cpu_time());
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    collect(Arc::clone(&plan), context.task_ctx()).await?;
    Ok((Cost { wall: wall.elapsed(), cpu: cpu_time() - cpu }, plan))
}

/// User and system time of this process so far; zero where the system does not tell.
fn cpu_time() -> Duration {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return Duration::ZERO };
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks =
        after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok());
    // Linux counts in hundredths of a second whatever the kernel's own rate is.
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

fn median(costs: &[Cost]) -> Cost {
    let middle = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    Cost {
        wall: middle(costs.iter().map(|cost| cost.wall).collect()),
        cpu: middle(costs.iter().map(|cost| cost.cpu).collect()),
    }
}

fn print_line(name: &str, cost: Cost, base: Cost) {
    let (wall, cpu) = (cost.wall.as_secs_f64(), cost.cpu.as_secs_f64());
    let (wall_ratio, cpu_ratio) = (wall / base.wall.as_secs_f64(), cpu / base.cpu.as_secs_f64());
    println!("{name:<18} {wall:>9.2} {cpu:>9.2} {wall_ratio:>11.2} {cpu_ratio:>11.2}");
}

fn print_phases(method: &str, plan: &Arc<dyn ExecutionPlan>) {
    if plan.name() == "AnonymizeExec" {
        if let Some(metrics) = plan.metrics() {
            let metrics = metrics.aggregate_by_name().sorted_for_display();
            let shown: Vec<String> = metrics.iter().map(|metric| metric.to_string()).collect();
            println!("{method}: {}", shown.join(", "));
        }
        return;
    }
    plan.children().into_iter().for_each(|child| print_phases(method, child));
}
