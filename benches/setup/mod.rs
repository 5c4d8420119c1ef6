//! What the benches that run SQL share: arguments, data, costs and how they are printed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

/// The command line, as `--name value`.
pub struct Arguments(Vec<String>);

impl Arguments {
    pub fn of_process() -> Self {
        Self(std::env::args().collect())
    }

    pub fn value(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|argument| argument == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    pub fn number(&self, name: &str, default: usize) -> usize {
        self.value(name).map_or(default, |text| text.parse().unwrap())
    }

    /// A list with commas between its items.
    pub fn list(&self, name: &str, default: &str) -> Vec<String> {
        self.value(name).unwrap_or(default).split(',').map(str::to_owned).collect()
    }
}

#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: Duration,
    pub cpu: Duration,
}

/// Tells what something costs from here on.
pub struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu_time() }
    }

    pub fn cost(&self) -> Cost {
        Cost { wall: self.wall.elapsed(), cpu: cpu_time() - self.cpu }
    }
}

/// Every column of a made-up census.
pub fn census(rows: usize) -> String {
    format!("SELECT * FROM sample_census(rows => {rows}, seed => 7)")
}

/// Writes the rows of a query to Parquet and registers the file as a table.
pub async fn create_table(
    context: &SessionContext,
    table: &str,
    query: &str,
    directory: &Path,
) -> Result<()> {
    run(context, &copy(query, &directory.join(format!("{table}.parquet")))).await?;
    register(context, table, directory).await
}

/// Registers a file that [`create_table`] wrote.
pub async fn register(context: &SessionContext, table: &str, directory: &Path) -> Result<()> {
    let file = directory.join(format!("{table}.parquet"));
    let register =
        format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{}'", file.display());
    context.sql(&register).await?.collect().await?;
    Ok(())
}

pub fn copy(query: &str, to: &Path) -> String {
    format!("COPY ({query}) TO '{}' STORED AS PARQUET", to.display())
}

/// Runs a statement to its end. Rows that it returns are dropped as they come.
pub async fn run(context: &SessionContext, sql: &str) -> Result<(Cost, Arc<dyn ExecutionPlan>)> {
    let watch = Stopwatch::start();
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let mut rows = execute_stream(Arc::clone(&plan), context.task_ctx())?;
    while rows.try_next().await?.is_some() {}
    Ok((watch.cost(), plan))
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

pub fn median(costs: &[Cost]) -> Cost {
    let middle = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    Cost {
        wall: middle(costs.iter().map(|cost| cost.wall).collect()),
        cpu: middle(costs.iter().map(|cost| cost.cpu).collect()),
    }
}

pub fn print_head() {
    println!("{:<18} {:>9} {:>9} {:>11} {:>11}", "", "wall s", "cpu s", "wall ratio", "cpu ratio");
}

pub fn print_line(name: &str, cost: Cost, base: Cost) {
    let (wall, cpu) = (cost.wall.as_secs_f64(), cost.cpu.as_secs_f64());
    let (wall_ratio, cpu_ratio) = (wall / base.wall.as_secs_f64(), cpu / base.cpu.as_secs_f64());
    println!("{name:<18} {wall:>9.2} {cpu:>9.2} {wall_ratio:>11.2} {cpu_ratio:>11.2}");
}

pub fn print_phases(method: &str, plan: &Arc<dyn ExecutionPlan>) {
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
