//! A consumer that goes away: the work stops, the input is let go of, the memory returns.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_anonymize::{Family, methods};
use futures::StreamExt;

use crate::faults::gate::Gate;
use crate::faults::input::{End, RELEASE, broken};
use crate::faults::{eventually, session};

const ROWS: usize = 50_000;
const RELEASE_OF_CENSUS: &str = "SELECT * FROM anonymize(
  (SELECT age, zip, education, workclass, occupation FROM sample_census(rows => 50000, seed => 7)),
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

/// The rows are in, the classes are not formed yet: a thread is about to enter the method.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_dropped_while_classes_are_formed_stops_the_work() {
    for method in methods().filter(|method| method.family() == Family::Classes) {
        let gate = Gate::new(pool(), "[method]", 1);
        let context = session(Arc::clone(&gate) as _);
        let sql =
            RELEASE_OF_CENSUS.replace("seed => 1", &format!("seed => 1, method => '{method}'"));
        let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
        assert_eq!(plan.name(), "AnonymizeExec");
        let mut stream = plan.execute(0, context.task_ctx()).unwrap();
        tokio::select! {
            item = stream.next() => panic!("published before the classes were formed: {item:?}"),
            () = eventually("the method", || gate.is_reached()) => {}
        }
        drop(stream);
        gate.open();
        eventually("the return of all memory", || gate.reserved() == 0).await;
        assert_eq!(metric(plan.as_ref(), "input_rows"), ROWS);
        assert_eq!(metric(plan.as_ref(), "classes"), 0, "the work of {method} went on to its end");
    }
}

/// While it reads the first rows and later ones, orders codes, forms classes, and makes rows to leave.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_dropped_while_it_works_returns_its_memory() {
    for (name, nth) in
        [("[input]", 1), ("[input]", 4), ("[codes]", 1), ("[method]", 1), ("[output]", 1)]
    {
        let gate = Gate::new(pool(), name, nth);
        let context = session(Arc::clone(&gate) as _);
        let mut stream =
            context.sql(RELEASE_OF_CENSUS).await.unwrap().execute_stream().await.unwrap();
        tokio::select! {
            item = stream.next() => panic!("{name} {nth}: published before that: {item:?}"),
            () = eventually(name, || gate.is_reached()) => {}
        }
        drop(stream);
        gate.open();
        eventually("the return of all memory", || gate.reserved() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_dropped_after_its_first_batch_returns_its_memory() {
    let pool = pool();
    let context = session(Arc::clone(&pool));
    let mut stream = context.sql(RELEASE_OF_CENSUS).await.unwrap().execute_stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    assert!(pool.reserved() > 0);
    drop(stream);
    eventually("the return of all memory", || pool.reserved() == 0).await;
}
