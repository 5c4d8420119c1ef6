//! Eight constraints at once, against the eight plain `GROUP BY` queries over their columns, and how
//! the time grows with the rows.
//!
//! ```sh
//! cargo bench -p datafusion-anonymize --bench constraints -- --rows 1000000,10000000 --runs 3
//! ```
//!
//! Writes `sample_census` files, then alternates in one session, for every size, the eight queries
//! `SELECT columns, count(*) … GROUP BY columns` and one release by every method, all of them
//! without keeping the rows. Prints the medians of wall time and of CPU time, their ratio to the
//! eight queries together, and their growth from the first size to every other. `--output parquet`
//! writes the releases to a file instead of dropping their rows.

#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::{MethodOption, methods};
use mimalloc::MiMalloc;

use setup::{
    Arguments, Cost, census, copy, create_table, median, print_head, print_line, print_phases, run,
};

mod setup;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// What several recipients could know. The first four share columns, the next three do, the last
/// stands alone: three independent parts. The first has nearly as many groups as rows.
const CONSTRAINTS: [(&[&str], u32); 8] = [
    (&["birth_date", "sex", "zip"], 5),
    (&["sex", "race", "zip"], 10),
    (&["birth_date", "native_country"], 5),
    (&["race", "native_country"], 20),
    (&["education", "occupation"], 10),
    (&["workclass", "occupation", "hours_per_week"], 5),
    (&["education", "workclass"], 15),
    (&["marital_status", "salary_class"], 10),
];

const HIERARCHIES: &str = "birth_date: date_steps('month', 'year', 'decade'), \
     zip: prefixes(4, 3, 2), \
     hours_per_week: intervals(5, 10, 20), \
     race: sample_hierarchy(column => 'race'), \
     native_country: sample_hierarchy(column => 'native_country'), \
     education: sample_hierarchy(column => 'education'), \
     occupation: sample_hierarchy(column => 'occupation'), \
     workclass: sample_hierarchy(column => 'workclass'), \
     marital_status: sample_hierarchy(column => 'marital_status')";

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::of_process();
    let rows = arguments.list("--rows", "1000000");
    let rows: Vec<usize> = rows.iter().map(|rows| rows.parse().unwrap()).collect();
    let runs = arguments.number("--runs", 3);
    let several = methods().filter(|method| method.takes(MethodOption::ManyConstraints));
    let several: Vec<&str> = several.map(|method| method.name()).collect();
    let methods = arguments.list("--methods", &several.join(","));
    let to_parquet = arguments.value("--output") == Some("parquet");
    let directory = tempfile::tempdir()?;
    let output = directory.path().join("out.parquet");
    let context = SessionContext::new();
    datafusion_anonymize::register_all(&context)?;
    anonymize_sample::register(&context)?;
    for rows in &rows {
        create_table(&context, &table_name(*rows), &census(*rows), directory.path()).await?;
    }
    println!("8 constraints, {runs} runs each");

    // By size, the queries first and then the methods.
    let mut costs = vec![vec![Vec::new(); 1 + methods.len()]; rows.len()];
    for turn in 0..runs {
        for (rows, costs) in rows.iter().zip(&mut costs) {
            costs[0].push(group_by(&context, *rows).await?);
            for (method, costs) in methods.iter().zip(&mut costs[1..]) {
                let release = anonymize(method, *rows);
                let sql = if to_parquet { copy(&release, &output) } else { release };
                let (cost, plan) = run(&context, &sql).await?;
                costs.push(cost);
                if turn + 1 == runs {
                    print_phases(&format!("{method}, {rows} rows"), &plan);
                }
            }
        }
    }
    let medians: Vec<Vec<Cost>> =
        costs.iter().map(|costs| costs.iter().map(|costs| median(costs)).collect()).collect();
    let names: Vec<&str> =
        std::iter::once("8 x GROUP BY").chain(methods.iter().map(String::as_str)).collect();
    for (rows, medians) in rows.iter().zip(&medians) {
        println!("\n{rows} rows, ratio to the eight queries");
        print_head();
        names.iter().zip(medians).for_each(|(name, cost)| print_line(name, *cost, medians[0]));
    }
    for (larger, of_larger) in rows.iter().zip(&medians).skip(1) {
        println!("\n{larger} rows, ratio to {} rows", rows[0]);
        print_head();
        for (name, (cost, base)) in names.iter().zip(of_larger.iter().zip(&medians[0])) {
            print_line(name, *cost, *base);
        }
    }
    Ok(())
}

/// The cost of all eight queries together.
async fn group_by(context: &SessionContext, rows: usize) -> Result<Cost> {
    let mut sum = Cost { wall: Duration::ZERO, cpu: Duration::ZERO };
    for (columns, _) in CONSTRAINTS {
        let (columns, table) = (columns.join(", "), table_name(rows));
        let query = format!("SELECT {columns}, count(*) FROM {table} GROUP BY {columns}");
        let cost = run(context, &query).await?.0;
        sum = Cost { wall: sum.wall + cost.wall, cpu: sum.cpu + cost.cpu };
    }
    Ok(sum)
}

fn anonymize(method: &str, rows: usize) -> String {
    let constraints = CONSTRAINTS
        .map(|(columns, k)| format!("{{columns: ['{}'], k: {k}}}", columns.join("', '")))
        .join(", ");
    // The age is told by the date of birth.
    format!(
        "SELECT * FROM anonymize({}, method => '{method}', seed => 1,
           constraints => [{constraints}], identifiers => ['age', 'person_id'],
           hierarchies => {{{HIERARCHIES}}})",
        table_name(rows)
    )
}

fn table_name(rows: usize) -> String {
    format!("census_{rows}")
}
