//! One piece and cells beside each other: loss and time.
//!
//! ```sh
//! cargo bench -p datafusion-anonymize --features cells --bench cells -- [rows] [cells] [k]
//! ```
//!
//! A million rows, 8 cells and k = 10 unless said otherwise.
#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Instant;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_anonymize::{AnonymizeExec, CellExec};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<()> {
    let mut numbers =
        std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let rows = numbers.next().unwrap_or(1_000_000);
    let cells = numbers.next().unwrap_or(8);
    let k = numbers.next().unwrap_or(10);
    let state =
        SessionStateBuilder::new().with_default_features().with_config(SessionConfig::new());
    let context = SessionContext::new_with_state(state.build());
    datafusion_anonymize::register_all(&context)?;
    anonymize_sample::register(&context)?;
    let create =
        format!("CREATE TABLE census AS SELECT * FROM sample_census(rows => {rows}, seed => 1)");
    context.sql(&create).await?.collect().await?;
    println!("{rows} rows, k = {k}, {cells} cells");
    for method in ["rounded", "mondrian", "layered"] {
        let mut measured = Vec::new();
        for cells in [0, cells] {
            context.sql(&format!("SET anonymize.cells = {cells}")).await?.collect().await?;
            let sql = format!(
                "SELECT * FROM anonymize((SELECT age, sex, race, marital_status, education, workclass, zip, occupation \
                 FROM census), k => {k}, quasi_identifiers => ['age', 'sex', 'race', 'marital_status', 'education', \
                 'workclass', 'zip'], sensitive => ['occupation'], method => '{method}', seed => 'the seed of a benchmark')"
            );
            let plan = context.sql(&sql).await?.create_physical_plan().await?;
            let start = Instant::now();
            let batches = collect(std::sync::Arc::clone(&plan), context.task_ctx()).await?;
            let seconds = start.elapsed().as_secs_f64();
            let published: usize = batches.iter().map(|batch| batch.num_rows()).sum();
            assert_eq!(published, rows);
            measured.push((loss(plan.as_ref()), seconds));
        }
        let [(one, one_seconds), (parts, parts_seconds)] = measured[..] else { continue };
        println!(
            "{method:10} loss {one:.5} in one piece, {parts:.5} in cells ({:+.2} %); time {one_seconds:.2} s and \
             {parts_seconds:.2} s (× {:.2})",
            100.0 * (parts / one - 1.0),
            parts_seconds / one_seconds
        );
    }
    Ok(())
}

fn loss(plan: &dyn ExecutionPlan) -> f64 {
    let one = plan.downcast_ref::<AnonymizeExec>().and_then(AnonymizeExec::loss);
    let parts = plan.downcast_ref::<CellExec>().and_then(CellExec::loss);
    let below = || plan.children().into_iter().map(|child| loss(child.as_ref())).next();
    one.or(parts).or_else(below).unwrap_or(f64::NAN)
}
