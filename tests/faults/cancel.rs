//! A consumer that goes away: the work stops, the input is let go of, the memory returns.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;

use crate::input::{End, RELEASE, broken};
use crate::{eventually, session};

const LARGE: &str = "SELECT * FROM anonymize(
  (SELECT age, zip, education, workclass, occupation FROM sample_census(rows => 300000, seed => 7)),
  k => 3, l => 2, quasi_identifiers => ['age', 'zip', 'education', 'workclass'],
  sensitive => ['occupation'], seed => 1)";

fn pool() -> Arc<dyn MemoryPool> {
    Arc::new(GreedyMemoryPool::new(4 << 30))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_nobody_reads_costs_nothing() {
    let pool = pool();
    let (context, alive) = broken(&pool, &[(3, End::Never)]);
    let stream = context.sql(RELEASE).await.unwrap().execute_stream().await.unwrap();
    drop(stream);
    eventually("the end of the input", || alive.load(Ordering::SeqCst) == 0).await;
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_dropped_while_it_reads_lets_go_of_an_endless_input() {
    let pool = pool();
    let (context, alive) = broken(&pool, &[(3, End::Never), (1, End::Never)]);
    let mut stream = context.sql(RELEASE).await.unwrap().execute_stream().await.unwrap();
    let waiting = async {
        tokio::select! {
            item = stream.next() => panic!("published before the input ended: {item:?}"),
            () = eventually("reading", || pool.reserved() > 0 && alive.load(Ordering::SeqCst) == 2) => {}
        }
    };
    waiting.await;
    drop(stream);
    eventually("the end of the input", || alive.load(Ordering::SeqCst) == 0).await;
    eventually("the return of all memory", || pool.reserved() == 0).await;
}

fn metric(plan: &dyn ExecutionPlan, name: &str) -> usize {
    plan.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |sum| sum.as_usize())
}

/// The rows are in, the classes are not formed yet: a thread is inside the method.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_dropped_while_classes_are_formed_stops_the_work() {
    for method in ["rounded", "kaim", "k_member", "bottom_up"] {
        drop_while_classes_are_formed(method).await;
    }
}

async fn drop_while_classes_are_formed(method: &str) {
    let pool = pool();
    let context = session(Arc::clone(&pool));
    let sql = LARGE.replace("seed => 1", &format!("seed => 1, method => '{method}'"));
    let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
    assert_eq!(plan.name(), "AnonymizeExec");
    let mut stream = plan.execute(0, context.task_ctx()).unwrap();
    tokio::select! {
        item = stream.next() => panic!("published before the classes were formed: {item:?}"),
        () = eventually("reading", || metric(plan.as_ref(), "input_rows") > 0) => {}
    }
    drop(stream);
    eventually("the return of all memory", || pool.reserved() == 0).await;
    assert_eq!(metric(plan.as_ref(), "input_rows"), 300_000);
    assert_eq!(metric(plan.as_ref(), "classes"), 0, "the work of {method} went on to its end");
}

/// At whatever moment it is dropped: reading, encoding, partitioning or verifying.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_dropped_while_it_works_returns_its_memory() {
    let mut dropped_at_work = 0;
    for delay in [0, 100, 300, 600, 1000, 1500, 2500] {
        let pool = pool();
        let context = session(Arc::clone(&pool));
        let mut stream = context.sql(LARGE).await.unwrap().execute_stream().await.unwrap();
        let first = tokio::time::timeout(Duration::from_millis(delay), stream.next()).await;
        dropped_at_work += usize::from(first.is_err());
        drop(stream);
        eventually("the return of all memory", || pool.reserved() == 0).await;
    }
    assert!(dropped_at_work > 0, "the release was finished before it could be dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_dropped_after_its_first_batch_returns_its_memory() {
    let pool = pool();
    let context = session(Arc::clone(&pool));
    let mut stream = context.sql(LARGE).await.unwrap().execute_stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    assert!(pool.reserved() > 0);
    drop(stream);
    eventually("the return of all memory", || pool.reserved() == 0).await;
}
