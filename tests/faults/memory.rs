//! Memory limits: a clean error that names the operator, and nothing left reserved.

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool};

use crate::faults::{eventually, session};

const CLUSTERED: &str = "SELECT * FROM anonymize(
  (SELECT age, zip, education, occupation, person_id FROM sample_census(rows => 20000, seed => 7)),
  k => 10, method => 'kaim', quasi_identifiers => ['age', 'education'], sensitive => ['occupation'],
  keep => ['person_id', 'zip'], seed => 1)";

const RELEASE: &str = "SELECT * FROM anonymize(
  (SELECT age, zip, education, occupation, person_id FROM sample_census(rows => 20000, seed => 7)),
  k => 10, l => 2, quasi_identifiers => ['age', 'zip', 'education'], sensitive => ['occupation'],
  keep => ['person_id'], seed => 1)";

async fn run(pool: &Arc<dyn MemoryPool>, sql: &str) -> Result<usize, String> {
    let context = session(Arc::clone(pool));
    let outcome = match context.sql(sql).await.unwrap().collect().await {
        Ok(batches) => Ok(batches.iter().map(|batch| batch.num_rows()).sum()),
        Err(error) => {
            let root = error.find_root();
            assert!(matches!(root, DataFusionError::ResourcesExhausted(_)), "{error}");
            Err(error.strip_backtrace())
        }
    };
    eventually("the return of all memory", || pool.reserved() == 0).await;
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_little_memory_is_a_clean_error_that_names_the_operator() {
    let pools: [fn(usize) -> Arc<dyn MemoryPool>; 2] = [
        |bytes| Arc::new(GreedyMemoryPool::new(bytes)),
        |bytes| Arc::new(FairSpillPool::new(bytes)),
    ];
    for pool in pools {
        let message = run(&pool(50_000), RELEASE).await.unwrap_err();
        assert!(message.contains("Resources exhausted"), "{message}");
        assert!(message.contains("AnonymizeExec"), "{message}");
    }
}

/// Whatever phase the memory ends in, the outcome is the whole release or an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_amount_of_memory_gives_all_rows_or_none() {
    for sql in [RELEASE, CLUSTERED] {
        let (mut released, mut refused) = (0, 0);
        for megabytes in [1, 2, 3, 4, 6, 8, 16, 64] {
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(megabytes * 500_000));
            match run(&pool, sql).await {
                Ok(rows) => {
                    assert_eq!(rows, 20_000);
                    released += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(released > 0 && refused > 0, "{released} released, {refused} refused");
    }
}

/// Reservations live until the consumer has what it wants, not longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_release_holds_no_memory() {
    use futures::StreamExt;
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
    let context = session(Arc::clone(&pool));
    let mut stream = context.sql(RELEASE).await.unwrap().execute_stream().await.unwrap();
    let first = stream.next().await.unwrap().unwrap();
    assert!(first.num_rows() > 0);
    assert!(pool.reserved() > 20_000 * 8, "the rows that wait are accounted for");
    while let Some(batch) = stream.next().await {
        batch.unwrap();
    }
    drop(stream);
    eventually("the return of all memory", || pool.reserved() == 0).await;
}
