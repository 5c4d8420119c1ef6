//! Parquet in, release, Parquet out, against DataFusion's own `ORDER BY` on the same columns.
//!
//! ```sh
//! cargo bench --bench end_to_end -- --rows 10000000 --runs 3
//! ```
//!
//! Writes a `sample_census` file, then alternates `COPY (SELECT * … ORDER BY 8 columns)` and
//! `COPY (SELECT * FROM anonymize(… the same 8 columns))` in one session, and prints the ratio of
//! the medians of wall time and of CPU time, with the phases of the release. Other columns, as in
//! `--quasi-identifiers age,sex,race,marital_status,education,native_country,workclass,zip,birth_date`,
//! show what columns of many values cost.

#![allow(clippy::unwrap_used, missing_docs)]

use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use mimalloc::MiMalloc;

use setup::{
    Arguments, census, copy, create_table, median, print_head, print_line, print_phases, run,
};

mod setup;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const QUASI_IDENTIFIERS: &str =
    "age,sex,race,marital_status,education,native_country,workclass,hours_per_week";

/// Those that are kept if they are no quasi-identifiers.
const OTHERS: [&str; 4] = ["hours_per_week", "zip", "birth_date", "person_id"];

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::of_process();
    let rows = arguments.number("--rows", 1_000_000);
    let runs = arguments.number("--runs", 3);
    let k = arguments.number("--k", 10);
    let methods = arguments.list("--methods", "rounded");
    let directory = tempfile::tempdir()?;
    let context = SessionContext::new();
    datafusion_anonymize::register_all(&context)?;
    anonymize_sample::register(&context)?;
    create_table(&context, "census", &census(rows), directory.path()).await?;
    let quasi_identifiers = arguments.list("--quasi-identifiers", QUASI_IDENTIFIERS);
    let count = quasi_identifiers.len();
    println!("{rows} rows, k = {k}, {count} quasi-identifiers, {runs} runs each");

    let output = directory.path().join("out.parquet");
    let sort = format!("SELECT * FROM census ORDER BY {}", quasi_identifiers.join(", "));
    let mut sorts = Vec::new();
    let mut releases = vec![Vec::new(); methods.len()];
    for turn in 0..runs {
        sorts.push(run(&context, &copy(&sort, &output)).await?.0);
        for (method, costs) in methods.iter().zip(&mut releases) {
            let (cost, plan) =
                run(&context, &copy(&anonymize(method, k, &quasi_identifiers), &output)).await?;
            costs.push(cost);
            if turn + 1 == runs {
                print_phases(method, &plan);
            }
        }
    }
    print_head();
    let sort = median(&sorts);
    print_line("ORDER BY", sort, sort);
    for (method, costs) in methods.iter().zip(&releases) {
        print_line(method, median(costs), sort);
    }
    Ok(())
}

fn anonymize(method: &str, k: usize, quasi_identifiers: &[String]) -> String {
    let kept = OTHERS.into_iter().filter(|name| quasi_identifiers.iter().all(|qi| qi != name));
    format!(
        "SELECT * FROM anonymize(census, k => {k}, method => '{method}', seed => 'the seed of a benchmark',
           quasi_identifiers => ['{}'], sensitive => ['occupation', 'salary_class'], keep => ['{}'])",
        quasi_identifiers.join("', '"),
        kept.collect::<Vec<&str>>().join("', '")
    )
}
