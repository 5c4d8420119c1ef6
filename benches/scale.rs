//! Growth and memory: more rows, more quasi-identifiers, less memory than the input has.
//!
//! ```sh
//! cargo bench --bench scale -- --rows 1000000,10000000,50000000
//! cargo bench --bench scale -- --rows 1000000 --columns 8,24
//! cargo bench --bench scale -- --rows 10000000 --memory 1/8
//! ```
//!
//! Every run is a process of its own, so that its peak memory is its own: it reads `sample_census`
//! from Parquet, anonymizes it and writes Parquet. Memory is compared with the input's Arrow size.
//! With `--memory`, every run is repeated with a pool of that share of the Arrow size; the files
//! that both wrote must be equal, byte for byte.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use mimalloc::MiMalloc;

use setup::{Arguments, copy, create_table, print_phases, register, run};

// Other benches use the rest.
#[allow(dead_code)]
mod setup;

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

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::of_process();
    match arguments.value("--child") {
        Some("write") => write(&arguments).await,
        Some("release") => release(&arguments).await,
        _ => measure(&arguments).await,
    }
}

/// Starts one process after the other and prints what they cost.
async fn measure(arguments: &Arguments) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let columns: Vec<usize> = numbers(&arguments.list("--columns", "8"));
    let share = arguments.value("--memory").map(|share| {
        let (top, bottom) = share.split_once('/').unwrap();
        top.parse::<f64>().unwrap() / bottom.parse::<f64>().unwrap()
    });
    let runs = arguments.number("--runs", 1);
    println!(
        "{:>10} {:>3} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "rows", "qi", "limit MB", "wall s", "cpu s", "peak MB", "arrow MB", "peak/arrow"
    );
    for rows in numbers(&arguments.list("--rows", "1000000")) {
        let (input, output) = (directory.path().join("in"), directory.path().join("out"));
        std::fs::create_dir_all(&input)?;
        std::fs::create_dir_all(&output)?;
        let widest = columns.iter().max().unwrap();
        let write = ["write".into(), rows.to_string(), widest.to_string(), text(&input)];
        let arrow: f64 =
            child(&["--child", "--rows", "--columns", "--to"], &write).parse().unwrap();
        for columns in &columns {
            for _ in 0..runs {
                let mut limits = vec![0];
                limits.extend(share.map(|share| (arrow * share) as usize));
                for limit in &limits {
                    let to = output.join(format!("{limit}.parquet"));
                    let values = [
                        "release".into(),
                        columns.to_string(),
                        limit.to_string(),
                        text(&input),
                        text(&to),
                    ];
                    let names = ["--child", "--columns", "--limit", "--from", "--to"];
                    let shown = child(&names, &values);
                    let (cost, phases) = shown.split_once('\n').unwrap_or((&shown, ""));
                    let peak: f64 = cost.split_whitespace().last().unwrap().parse().unwrap();
                    let megabytes = *limit as f64 / 1e6;
                    println!(
                        "{rows:>10} {columns:>3} {megabytes:>9.0} {cost} {:>9.0} {:>9.2}",
                        arrow / 1e6,
                        peak * 1e6 / arrow
                    );
                    println!("           {}", phases.trim());
                }
                let files: Vec<PathBuf> =
                    limits.iter().map(|limit| output.join(format!("{limit}.parquet"))).collect();
                for file in &files[1..] {
                    assert!(equal(&files[0], file)?, "the limited run wrote another release");
                    println!("           both runs wrote the same bytes");
                }
            }
        }
        std::fs::remove_dir_all(&input)?;
        std::fs::remove_dir_all(&output)?;
    }
    Ok(())
}

fn numbers(texts: &[String]) -> Vec<usize> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// What a process of this program prints.
fn child(names: &[&str], values: &[String]) -> String {
    let arguments = names.iter().zip(values).flat_map(|(name, value)| [*name, value.as_str()]);
    let child = Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    String::from_utf8(child.stdout).unwrap().trim_end().to_owned()
}

fn equal(one: &Path, other: &Path) -> Result<bool> {
    // Read as a whole: the files are much smaller than the table in memory.
    Ok(std::fs::read(one)? == std::fs::read(other)?)
}

/// Columns beyond the eighth are made from the others, with as many values as they have.
fn query(rows: usize, columns: usize) -> String {
    let mut more = String::new();
    for column in QUASI_IDENTIFIERS.len()..columns {
        let expression = match column % 4 {
            0 => format!("(age * {column} + hours_per_week) % 73"),
            1 => format!("concat(education, ' ', (age + {column}) % 3)"),
            2 => format!("concat(race, ' ', (hours_per_week + {column}) % 5)"),
            _ => format!("(hours_per_week * {column} + age) % 97"),
        };
        more += &format!(", {expression} AS q{column}");
    }
    format!("SELECT *{more} FROM sample_census(rows => {rows}, seed => 7)")
}

/// Writes the input and prints its Arrow size.
async fn write(arguments: &Arguments) -> Result<()> {
    let (rows, columns) = (arguments.number("--rows", 0), arguments.number("--columns", 0));
    let context = SessionContext::new();
    anonymize_sample::register(&context)?;
    create_table(
        &context,
        "census",
        &query(rows, columns),
        arguments.value("--to").unwrap().as_ref(),
    )
    .await?;
    // Of the census columns, from a sample: the rows are all alike.
    let sample = rows.min(200_000);
    let batches = context.sql(&query(sample, QUASI_IDENTIFIERS.len())).await?.collect().await?;
    let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    println!("{}", bytes / sample * rows);
    Ok(())
}

/// Anonymizes the input and prints what it cost.
async fn release(arguments: &Arguments) -> Result<()> {
    let runtime = RuntimeEnvBuilder::new();
    let runtime = match arguments.number("--limit", 0) {
        0 => runtime,
        limit => runtime.with_memory_pool(Arc::new(GreedyMemoryPool::new(limit))),
    };
    let context = SessionContext::new_with_config_rt(SessionConfig::new(), runtime.build_arc()?);
    datafusion_anonymize::register_all(&context)?;
    register(&context, "census", arguments.value("--from").unwrap().as_ref()).await?;
    let columns = arguments.number("--columns", 8);
    let mut quasi_identifiers: Vec<String> = QUASI_IDENTIFIERS.map(str::to_owned).to_vec();
    quasi_identifiers.extend((QUASI_IDENTIFIERS.len()..columns).map(|column| format!("q{column}")));
    let input = "SELECT * FROM census";
    let names = context.sql(input).await?;
    let unused = names.schema().fields().iter().map(|field| field.name());
    let unused = unused.filter(|name| name.starts_with('q') && !quasi_identifiers.contains(name));
    let unused: Vec<String> = unused.map(|name| format!("'{name}'")).collect();
    let sql = format!(
        "SELECT * FROM anonymize(census, k => 10, seed => 'the seed of a benchmark', quasi_identifiers => ['{}'],
           sensitive => ['occupation', 'salary_class'], keep => ['zip', 'birth_date', 'person_id'],
           identifiers => [{}])",
        quasi_identifiers.join("', '"),
        unused.join(", ")
    );
    let to = arguments.value("--to").unwrap();
    let (cost, plan) = run(&context, &copy(&sql, to.as_ref())).await?;
    let (wall, cpu) = (cost.wall.as_secs_f64(), cost.cpu.as_secs_f64());
    println!("{wall:>8.2} {cpu:>8.2} {:>8.0}", peak_memory() / 1e6);
    print_phases("rounded", &plan);
    Ok(())
}

/// The most memory this process ever had, in bytes; zero where the system does not tell.
fn peak_memory() -> f64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0.0 };
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}
