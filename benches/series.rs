//! A night of a series against a plain release of the same rows, Parquet in and out.
//!
//! ```sh
//! cargo bench --bench series -- --rows 10000000 --runs 3
//! ```
//!
//! The first night groups everybody. On the second one 1 % are newcomers and 0.05 % have left. What the first one left behind, its
//! members and its release, is in files. `--method layered` for another method.

#![allow(clippy::unwrap_used, missing_docs)]

use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use mimalloc::MiMalloc;

use common::{Arguments, copy, create_table, median, print_head, print_line, print_phases, run};

#[allow(dead_code)]
mod common;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::of_process();
    let rows = arguments.number("--rows", 1_000_000);
    let runs = arguments.number("--runs", 3);
    let k = arguments.number("--k", 10);
    let method = arguments.value("--method").unwrap_or("rounded").to_owned();
    let directory = tempfile::tempdir()?;
    let path = directory.path();
    let context = SessionContext::new();
    datafusion_anonymize::register_all(&context)?;
    anonymize_sample::register(&context)?;
    let people = format!(
        "SELECT age, sex, race, marital_status, education, zip, birth_date, occupation, row_number() OVER () AS id \
         FROM sample_census(rows => {rows}, seed => 7)"
    );
    create_table(&context, "people", &people, path).await?;
    for empty in ["members_0 (person BYTEA, cohort BIGINT)", "release_0 (cohort BIGINT)"] {
        run(&context, &format!("CREATE TABLE {empty}")).await?;
    }
    let night = |tonight: &str, before: usize, publish: &str| {
        let series = format!(
            "series => {{members: members_{before}, last: release_{before}}}, publish => '{publish}'"
        );
        anonymize(tonight, &method, k, &series)
    };
    let first = "(SELECT * FROM people WHERE id % 100 <> 0)";
    let second = "(SELECT * FROM people WHERE id % 2000 <> 1)";
    create_table(&context, "release_1", &night(first, 0, "release"), path).await?;
    create_table(&context, "members_1", &night(first, 0, "members"), path).await?;
    println!("{rows} rows, k = {k}, method {method}, {runs} runs each");
    let queries = [
        ("plain release", anonymize(second, &method, k, "unit_share => 1")),
        ("first night", night(first, 0, "release")),
        ("second night", night(second, 1, "release")),
        ("its members", night(second, 1, "members")),
    ];
    let mut costs = vec![Vec::new(); queries.len()];
    for turn in 0..runs {
        for ((name, query), costs) in queries.iter().zip(&mut costs) {
            let (cost, plan) = run(&context, &copy(query, &path.join("out.parquet"))).await?;
            costs.push(cost);
            if turn + 1 == runs {
                print_phases(name, &plan);
            }
        }
    }
    print_head();
    let plain = median(&costs[0]);
    for ((name, _), costs) in queries.iter().zip(&costs) {
        print_line(name, median(costs), plain);
    }
    Ok(())
}

fn anonymize(input: &str, method: &str, k: usize, more: &str) -> String {
    format!(
        "SELECT * FROM anonymize({input}, k => {k}, method => '{method}', seed => 'the seed of a benchmark', \
         quasi_identifiers => ['age', 'sex', 'race', 'marital_status', 'education', 'zip', 'birth_date'], sensitive \
         => ['occupation'], privacy_unit => 'id', {more})"
    )
}
