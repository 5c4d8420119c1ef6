//! Inputs that misbehave: they end with an error, or never end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};

use crate::faults::{eventually, session};

/// What comes after the batches of a partition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    Error,
    Never,
}

/// A partition that yields some batches and then misbehaves; counts the streams that are alive.
pub struct Partition {
    pub batches: usize,
    pub end: End,
    pub alive: Arc<AtomicUsize>,
    pub schema: SchemaRef,
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({:?})", self.end)
    }
}

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PartitionStream for Partition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.alive.fetch_add(1, Ordering::SeqCst);
        let alive = Alive(Arc::clone(&self.alive));
        let schema = Arc::clone(&self.schema);
        let batch = move |at: usize| {
            let numbers = (0..5000).map(|row| Some((at * 5000 + row) as i64));
            let column = Arc::new(numbers.collect::<Int64Array>());
            Ok(RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap())
        };
        let batches = stream::iter(0..self.batches).map(batch);
        let stream = match self.end {
            End::Error => {
                let error = Err(DataFusionError::from(std::io::Error::other("the disk is gone")));
                batches.chain(stream::iter([error])).boxed()
            }
            End::Never => batches.chain(stream::pending()).boxed(),
        };
        let stream = stream.inspect(move |_| {
            let _alive = &alive;
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

/// A session with a table `broken` of these partitions.
pub fn broken(
    pool: &Arc<dyn MemoryPool>,
    partitions: &[(usize, End)],
) -> (SessionContext, Arc<AtomicUsize>) {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    let alive = Arc::new(AtomicUsize::new(0));
    let partition = |(batches, end): &(usize, End)| {
        let (alive, schema) = (Arc::clone(&alive), Arc::clone(&schema));
        Arc::new(Partition { batches: *batches, end: *end, alive, schema }) as _
    };
    let table =
        StreamingTable::try_new(Arc::clone(&schema), partitions.iter().map(partition).collect());
    let context = session(Arc::clone(pool));
    context.register_table("broken", Arc::new(table.unwrap())).unwrap();
    (context, alive)
}

pub const RELEASE: &str = "SELECT * FROM anonymize(broken, k => 2, quasi_identifiers => ['a'])";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_input_comes_out_and_nothing_else() {
    // Where another partition never ends, the error must not wait for it.
    let tables = [
        &[(0, End::Error)][..],
        &[(3, End::Error)],
        &[(3, End::Error), (2, End::Never)],
        &[(2, End::Never), (3, End::Error)],
    ];
    for partitions in tables {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
        let (context, alive) = broken(&pool, partitions);
        let mut stream = context.sql(RELEASE).await.unwrap().execute_stream().await.unwrap();
        let first = stream.next().await.unwrap();
        assert_eq!(first.unwrap_err().strip_backtrace(), "IO error: the disk is gone");
        assert!(stream.next().await.is_none());
        drop(stream);
        eventually("the end of the input", || alive.load(Ordering::SeqCst) == 0).await;
        eventually("the return of all memory", || pool.reserved() == 0).await;
    }
}
