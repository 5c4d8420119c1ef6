//! A method that is one file (`method/toy.rs`) and one line in the registry, through all that a user does with one.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::{AnonymizeExec, register_all};

const RELEASE: &str = "SELECT * FROM anonymize(census, method => 'sorted_runs', k => 10, l => 3, class_id => true,
    quasi_identifiers => ['age', 'sex', 'education'], sensitive => ['occupation'], keep => ['person_id', 'truth'],
    ranges => 'bounds', seed => 'a seed of the tests')";

async fn census(rows: usize) -> Result<Vec<RecordBatch>> {
    let context = SessionContext::new();
    anonymize_sample::register(&context)?;
    let sql = format!(
        "SELECT age, sex, education, occupation, person_id, age AS truth FROM sample_census(rows => {rows}, seed => 3)"
    );
    context.sql(&sql).await?.collect().await
}

/// A session in which `census` has these partitions, with so many bytes of memory.
fn session(partitions: Vec<Vec<RecordBatch>>, memory: Option<usize>) -> Result<SessionContext> {
    let runtime = RuntimeEnvBuilder::new();
    let runtime = match memory {
        Some(bytes) => runtime.with_memory_limit(bytes, 1.0),
        None => runtime,
    };
    let config = SessionConfig::new().with_target_partitions(2).with_batch_size(512);
    let context = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
    register_all(&context)?;
    let schema = partitions[0][0].schema();
    context.register_table("census", Arc::new(MemTable::try_new(schema, partitions)?))?;
    Ok(context)
}

async fn text(context: &SessionContext, sql: &str) -> Result<String> {
    Ok(pretty_format_batches(&context.sql(sql).await?.collect().await?)?.to_string())
}

/// The rows in pieces, from the last one on, dealt to three partitions.
fn shuffled(batches: &[RecordBatch]) -> Vec<Vec<RecordBatch>> {
    let pieces = batches.iter().flat_map(|batch| {
        let starts = (0..batch.num_rows()).step_by(37);
        starts.map(|start| batch.slice(start, 37.min(batch.num_rows() - start)))
    });
    let mut pieces: Vec<RecordBatch> = pieces.collect();
    pieces.reverse();
    let mut partitions = vec![Vec::new(); 3];
    pieces.into_iter().enumerate().for_each(|(at, piece)| partitions[at % 3].push(piece));
    partitions
}

fn spills(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own = plan.downcast_ref::<AnonymizeExec>().and_then(|exec| exec.metrics());
    let own = own.and_then(|metrics| metrics.spill_count()).unwrap_or(0);
    own + plan.children().into_iter().map(spills).sum::<usize>()
}

#[tokio::test]
async fn it_is_released_explained_and_reported() -> Result<()> {
    let context = session(vec![census(2000).await?], None)?;
    let kept = format!(
        "SELECT count(*) = 2000 AND min(size) >= 10 AND bool_and(truth BETWEEN age.lower AND age.upper) AS kept
         FROM (SELECT *, count(*) OVER (PARTITION BY class_id) AS size FROM ({RELEASE}))"
    );
    assert!(text(&context, &kept).await?.contains("true"));
    let report = format!(
        "SELECT count(*) AS violated FROM privacy_report((SELECT age, sex, education, occupation FROM ({RELEASE})),
           quasi_identifiers => ['age', 'sex', 'education'], sensitive => ['occupation'], k => 10, l => 3) WHERE NOT holds"
    );
    assert!(text(&context, &report).await?.contains("| 0        |"));
    let utility = format!(
        "SELECT count(*) > 0 AS measured FROM utility_report(census, ({RELEASE}), quasi_identifiers => ['age', 'sex'])"
    );
    assert!(text(&context, &utility).await?.contains("true"));
    let plan = text(&context, &format!("EXPLAIN {RELEASE}")).await?;
    assert!(plan.contains("method=sorted_runs, k=10, l=3"), "{plan}");
    Ok(())
}

#[tokio::test]
async fn neither_arrival_nor_memory_changes_its_release() -> Result<()> {
    let batches = census(20_000).await?;
    let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    let expected = text(&session(vec![batches.clone()], None)?, RELEASE).await?;
    let limited = session(shuffled(&batches), Some(bytes / 2))?;
    let plan = limited.sql(RELEASE).await?.create_physical_plan().await?;
    let rows = collect(Arc::clone(&plan), limited.task_ctx()).await?;
    assert!(spills(&plan) > 0, "nothing was spilled");
    assert!(pretty_format_batches(&rows)?.to_string() == expected, "another release");
    Ok(())
}

#[cfg(feature = "cells")]
#[tokio::test]
async fn it_works_in_cells() -> Result<()> {
    let batches = census(2000).await?;
    let (one, other) = (session(vec![batches.clone()], None)?, session(shuffled(&batches), None)?);
    for context in [&one, &other] {
        context.sql("SET anonymize.cells = 4").await?.collect().await?;
    }
    assert_eq!(text(&one, RELEASE).await?, text(&other, RELEASE).await?);
    Ok(())
}

#[tokio::test]
async fn it_refuses_what_it_cannot_keep() -> Result<()> {
    let context = session(vec![census(100).await?], None)?;
    for (given, wanted, message) in [
        ("k => 10", "k => 101", "100 rows cannot form a class of k = 101"),
        ("l => 3", "l => 100", "the whole table does not satisfy l = 100"),
        ("l => 3", "split => 'widest'", "option 'split' does not go with method 'sorted_runs'"),
        ("l => 3", "weights => {age: 2}", "use 'kaim', 'k_member', 'bottom_up' or 'asg_ls'"),
        ("sorted_runs", "sorted_walks", ", 'sorted_runs'"),
    ] {
        let failed = text(&context, &RELEASE.replace(given, wanted)).await.err();
        let failed = failed.map(|error| error.strip_backtrace()).unwrap_or_default();
        assert!(failed.contains(message), "{wanted}: {failed}");
    }
    Ok(())
}
