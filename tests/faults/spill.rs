//! Tables larger than memory: the same release from temporary files, which are gone afterwards.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, DictionaryArray, Int8Array, Int64Array, RecordBatch,
    StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryPool, UnboundedMemoryPool,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_anonymize::{Family, MethodOption, methods};
use datafusion_anonymize::{TwoFiles, write_two_tables};
use futures::StreamExt;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::faults::gate::Gate;
use crate::faults::{eventually, unlimited};
use crate::with_functions;

const ROWS: usize = 40_000;
const HIERARCHIES: &str =
    "hierarchies => {age: intervals(5, 10, 20), hours_per_week: intervals(10, 50)}";

/// The census in two partitions, and its size in memory. All tests read the same.
async fn census() -> (Vec<Vec<RecordBatch>>, usize) {
    static CENSUS: OnceCell<(Vec<Vec<RecordBatch>>, usize)> = OnceCell::const_new();
    CENSUS.get_or_init(generated).await.clone()
}

async fn generated() -> (Vec<Vec<RecordBatch>>, usize) {
    let sql = format!("SELECT * FROM sample_census(rows => {ROWS}, seed => 7, missing => 0.01)");
    let batches = unlimited().sql(&sql).await.unwrap().collect().await.unwrap();
    let bytes = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    let small = batches.iter().flat_map(|batch| {
        let starts = (0..batch.num_rows()).step_by(600);
        starts.map(|start| batch.slice(start, 600.min(batch.num_rows() - start)))
    });
    let small: Vec<RecordBatch> = small.collect();
    let (front, back) = small.split_at(small.len() / 3);
    (vec![front.to_vec(), back.to_vec()], bytes)
}

/// A session with the table `census` that spills to a directory of its own.
struct Limited {
    context: SessionContext,
    pool: Arc<dyn MemoryPool>,
    directory: TempDir,
}

impl Limited {
    fn new(census: &[Vec<RecordBatch>], pool: Arc<dyn MemoryPool>) -> Self {
        Self::with_disk(census, pool, |disk| disk)
    }

    fn with_disk(
        census: &[Vec<RecordBatch>],
        pool: Arc<dyn MemoryPool>,
        disk: impl Fn(DiskManagerBuilder) -> DiskManagerBuilder,
    ) -> Self {
        let directory = TempDir::new().unwrap();
        let directories = DiskManagerMode::Directories(vec![directory.path().to_owned()]);
        let disk = disk(DiskManagerBuilder::default().with_mode(directories));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool));
        let runtime = runtime.with_disk_manager_builder(disk).build_arc().unwrap();
        let config = SessionConfig::new().with_target_partitions(2).with_batch_size(512);
        let context = with_functions(SessionContext::new_with_config_rt(config, runtime));
        let table = MemTable::try_new(census[0][0].schema(), census.to_vec()).unwrap();
        context.register_table("census", Arc::new(table)).unwrap();
        Self { context, pool, directory }
    }

    async fn plan(&self, sql: &str) -> Arc<dyn ExecutionPlan> {
        self.context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
    }

    async fn release(&self, sql: &str) -> Result<(Vec<RecordBatch>, Arc<dyn ExecutionPlan>)> {
        let plan = self.plan(sql).await;
        let batches = collect(Arc::clone(&plan), self.context.task_ctx()).await;
        self.is_clean().await;
        Ok((batches?, plan))
    }

    /// Nothing is reserved and no temporary file is left.
    async fn is_clean(&self) {
        eventually("the return of all memory", || self.pool.reserved() == 0).await;
        eventually("the end of all temporary files", || files(self.directory.path()) == 0).await;
        let disk = &self.context.runtime_env().disk_manager;
        eventually("the count of no temporary byte", || disk.used_disk_space() == 0).await;
    }
}

fn files(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

/// A metric of the release, wherever it stands in the plan.
fn metric(plan: &dyn ExecutionPlan, name: &str) -> usize {
    if plan.name() != "AnonymizeExec" {
        return plan.children().iter().map(|child| metric(child.as_ref(), name)).sum();
    }
    let metrics = plan.metrics().unwrap();
    let metric = metrics.iter().find(|metric| metric.value().name() == name);
    metric.unwrap().value().as_usize()
}

fn greedy(bytes: usize) -> Arc<dyn MemoryPool> {
    Arc::new(GreedyMemoryPool::new(bytes))
}

fn unbounded() -> Arc<dyn MemoryPool> {
    Arc::new(UnboundedMemoryPool::default())
}

fn release(options: &str) -> String {
    format!(
        "SELECT * FROM anonymize(census, quasi_identifiers => ['age', 'sex', 'education', 'hours_per_week'],
           sensitive => ['occupation', 'salary_class'], class_id => true, seed => 'a seed of the tests',
           keep => ['race', 'marital_status', 'native_country', 'workclass', 'zip', 'birth_date'], {options})"
    )
}

fn kept(options: &str) -> String {
    release(options).replace("'birth_date'", "'birth_date', 'person_id'")
}

/// What every method is asked, and the memory that it gets, in per cent of the input.
fn requests() -> Vec<(String, usize)> {
    let constraints = "constraints => [{columns: ['age', 'sex'], k: 20},
        {columns: ['education', 'hours_per_week'], k: 5}]";
    let mut requests = vec![
        (kept("k => 10, method => 'rounded'"), 12),
        (kept("k => 10, method => 'rounded', split => 'widest', ranges => 'mean'"), 12),
        (kept("k => 5, method => 'rounded', l => 2, t => 0.6"), 12),
        // Persons are told apart by their distinct values, which stay in memory.
        (release("k => 5, method => 'rounded', privacy_unit => 'person_id'"), 50),
        (kept("k => 10, method => 'mondrian', ranges => 'bounds'"), 12),
        (kept("k => 10, method => 'mondrian_relaxed'"), 12),
        (
            kept(&format!("k => 50, method => 'top_down', suppression_limit => 1, {HIERARCHIES}")),
            12,
        ),
        // A block in work is larger than this table, and its tuples and classes take more than its rows.
        (kept("k => 10"), 180),
        // Four bytes for the place of every row, beside the blocks in work.
        (kept("k => 10, method => 'kaim', block_rows => 500"), 16),
        (kept("k => 10, method => 'k_member', block_rows => 500, suppression_limit => 1"), 16),
        (kept("k => 10, method => 'bottom_up', block_rows => 500"), 16),
    ];
    // These methods take memory for every row beside its codes.
    for method in methods().filter(|method| method.takes(MethodOption::ManyConstraints)) {
        let options = format!(
            "method => '{method}', {constraints}, suppression_limit => 1,
             hierarchies => {{age: intervals(5, 20), hours_per_week: intervals(10, 50),
                sex: prefixes(1), education: prefixes(1)}}"
        );
        // A class that whole columns make is as large as this.
        let percent = if method.name() == "datafly" { 100 } else { 50 };
        requests.push((kept(&options), percent));
    }
    for method in methods().filter(|method| method.family() == Family::Slices) {
        // Blocks in work take memory beside the rows.
        let blocks = if method.takes(MethodOption::BlockRows) { ", block_rows => 500" } else { "" };
        let options = format!("k => 10, l => 3, method => '{method}', rare_below => 0.001{blocks}");
        let one_sensitive = kept(&options).replace("'occupation', 'salary_class'", "'occupation'");
        requests.push((one_sensitive.replace("'race'", "'race', 'salary_class'"), 50));
    }
    for publish in ["quasi_identifiers", "sensitive"] {
        let options = format!(
            "k => 5, alpha => 0.5, method => 'alpha_k', suppression_limit => 1,
             publish => '{publish}'"
        );
        let one_sensitive = kept(&options).replace("'occupation', 'salary_class'", "'occupation'");
        requests.push((one_sensitive.replace("'race'", "'race', 'salary_class'"), 50));
    }
    requests
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fraction_of_the_memory_gives_the_same_release() {
    let (census, bytes) = census().await;
    for (sql, percent) in requests() {
        let (whole, plan) = Limited::new(&census, unbounded()).release(&sql).await.unwrap();
        assert_eq!(metric(plan.as_ref(), "spill_count"), 0, "{sql}");
        let limited = Limited::new(&census, greedy(bytes * percent / 100));
        let (spilled, plan) = match limited.release(&sql).await {
            Ok(spilled) => spilled,
            Err(error) => panic!("{sql}: {error}"),
        };
        assert!(metric(plan.as_ref(), "spill_count") > 0, "nothing was spilled: {sql}");
        assert!(metric(plan.as_ref(), "spilled_bytes") > bytes / 10, "{sql}");
        assert!(metric(plan.as_ref(), "spilled_rows") >= ROWS, "{sql}");
        assert!(whole == spilled, "another release: {sql}");
    }
}

/// From nothing but an error to no spilling at all, through every order of what is spilled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_limit_gives_the_same_release_or_a_clean_error() {
    let (census, bytes) = census().await;
    // `layered` reserves memory for a whole block, which is larger than this table.
    let sql = kept("k => 10, l => 2, method => 'rounded'");
    let (whole, _) = Limited::new(&census, unbounded()).release(&sql).await.unwrap();
    let (mut refused, mut codes, mut payload, mut held) = (0, 0, 0, 0);
    for percent in [0, 1, 2, 4, 6, 8, 12, 16, 25, 50, 60, 70, 80, 100, 400] {
        let limit = bytes * percent / 100;
        for pool in [greedy(limit), Arc::new(FairSpillPool::new(limit)) as _] {
            let limited = Limited::new(&census, pool);
            match limited.release(&sql).await {
                Ok((batches, plan)) => {
                    assert!(batches == whole, "{percent} %");
                    let rows = metric(plan.as_ref(), "spilled_rows");
                    match metric(plan.as_ref(), "spill_count") {
                        0 => held += 1,
                        // Payload is written twice, codes once.
                        _ if rows > 2 * ROWS => codes += 1,
                        _ => payload += 1,
                    }
                }
                Err(error) => {
                    let root = error.find_root();
                    assert!(matches!(root, DataFusionError::ResourcesExhausted(_)), "{error}");
                    let message = error.strip_backtrace();
                    assert!(message.contains("AnonymizeExec["), "{message}");
                    refused += 1;
                }
            }
        }
    }
    let outcomes = [refused, codes, payload, held];
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

/// Columns of every layout come back as they were, whoever holds their buffers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_column_survives_a_spill() {
    let (census, _) = census().await;
    let input =
        "SELECT age, zip, occupation AS s, arrow_cast(race, 'Dictionary(Int32, Utf8)') AS d,
        arrow_cast(zip, 'Dictionary(UInt16, LargeUtf8)') AS small,
        CASE WHEN age % 3 = 0 THEN NULL ELSE make_array(age, hours_per_week) END AS list,
        named_struct('a', race, 'b', age) AS pair, age > 40 AS old, repeat(education, 3) AS long,
        arrow_cast(race, 'LargeUtf8') AS large, arrow_cast(zip, 'BinaryView') AS bytes,
        arrow_cast(age, 'Decimal128(20, 2)') AS exact, birth_date, NULL AS nothing FROM census";
    let sql = format!(
        "SELECT * FROM anonymize(({input}), k => 7, method => 'rounded', seed => 1, quasi_identifiers => ['age', 'zip'],
           sensitive => ['s'], keep => ['d', 'small', 'list', 'pair', 'old', 'long', 'large', 'bytes', 'exact',
           'birth_date', 'nothing'])"
    );
    let (whole, _) = Limited::new(&census, unbounded()).release(&sql).await.unwrap();
    let (spilled, plan) = Limited::new(&census, greedy(1_500_000)).release(&sql).await.unwrap();
    assert!(metric(plan.as_ref(), "spill_count") > 0);
    assert!(whole == spilled);
}

/// Every batch has a dictionary of its own, with a hundred values: together they are far more than a byte
/// can number, and even one batch of the release has too many.
fn small_keys() -> Vec<Vec<RecordBatch>> {
    let batch = |batch: i64| {
        let values: Vec<String> = (0..100).map(|value| format!("{batch} {value}")).collect();
        let keys = Int8Array::from_iter_values((0..600).map(|row| (row % 100) as i8));
        let values = Arc::new(StringArray::from(values));
        let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, values));
        let ages: ArrayRef =
            Arc::new(Int64Array::from_iter_values((0..600).map(|row| (row * 7 + batch) % 91)));
        RecordBatch::try_from_iter([("age", ages), ("d", dictionary)]).unwrap()
    };
    vec![(0..20).map(batch).collect(), (20..30).map(batch).collect()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_outgrow_their_keys_leave_in_smaller_batches() {
    let sql = "SELECT * FROM anonymize(census, k => 10, method => 'rounded', seed => 1, quasi_identifiers => ['age'], keep => ['d'])";
    let (whole, _) = Limited::new(&small_keys(), unbounded()).release(sql).await.unwrap();
    let (spilled, plan) = Limited::new(&small_keys(), greedy(250_000)).release(sql).await.unwrap();
    assert!(metric(plan.as_ref(), "spill_count") > 0);
    assert!(whole == spilled);
    let texts = |batches: &[RecordBatch]| {
        let plain = batches.iter().map(|batch| {
            let column = batch.column_by_name("d").unwrap();
            assert_eq!(column.data_type(), small_keys()[0][0].column(1).data_type());
            cast(column, &DataType::Utf8).unwrap()
        });
        let mut texts: Vec<String> = plain
            .flat_map(|column| {
                let texts = column.as_string::<i32>().iter();
                texts.map(|text| text.unwrap().to_owned()).collect::<Vec<String>>()
            })
            .collect();
        texts.sort_unstable();
        texts
    };
    assert!(texts(&whole) == texts(&small_keys().concat()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tables_come_from_one_set_of_temporary_files() {
    let (census, bytes) = census().await;
    let (sql, _) = requests().pop().unwrap();
    let mut written = Vec::new();
    for pool in [unbounded(), greedy(bytes / 2)] {
        let limited = Limited::new(&census, pool);
        let output = TempDir::new().unwrap();
        let path = |name: &str| output.path().join(name).display().to_string();
        let files = TwoFiles { quasi_identifiers: path("qi.csv"), sensitive: path("sa.csv") };
        let release = limited.context.sql(&sql).await.unwrap();
        let rows = write_two_tables(&limited.context, release, &files).await.unwrap();
        limited.is_clean().await;
        let table = |file: &str| std::fs::read(file).unwrap();
        written.push((rows, table(&files.quasi_identifiers), table(&files.sensitive)));
    }
    assert_eq!(written[0].0, written[1].0);
    assert!(written[0] == written[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_may_not_be_used_is_a_clean_error() {
    let (census, bytes) = census().await;
    let sql = kept("k => 10");
    let disabled = Limited::with_disk(&census, greedy(bytes / 8), |_| {
        DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled)
    });
    let error = disabled.release(&sql).await.unwrap_err();
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    assert!(error.strip_backtrace().contains("AnonymizeExec[payload]"), "{error}");
    let small = Limited::with_disk(&census, greedy(bytes / 8), |disk| {
        disk.with_max_temp_directory_size(1_000_000)
    });
    let error = small.release(&sql).await.unwrap_err().strip_backtrace();
    assert!(error.contains("max_temp_directory_size"), "{error}");
}

/// While it reads, while it works, while it rewrites what it spilled, and while rows leave.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dropped_stream_leaves_no_temporary_file() {
    let (census, bytes) = census().await;
    let sql = kept("k => 3, l => 2, method => 'rounded'");
    // A run of rows in class order takes memory of the method's, after the method has ended.
    for (name, nth) in
        [("[input]", 1), ("[input]", 4), ("[codes]", 1), ("[method]", 1), ("[method]", 2)]
    {
        let gate = Gate::new(greedy(bytes / 8), name, nth);
        let limited = Limited::new(&census, Arc::clone(&gate) as _);
        let plan = limited.plan(&sql).await;
        let mut stream = plan.execute(0, limited.context.task_ctx()).unwrap();
        tokio::select! {
            batch = stream.next() => panic!("{name} {nth}: published before that: {batch:?}"),
            () = eventually(name, || gate.is_reached()) => {}
        }
        let spilled = files(limited.directory.path());
        assert!(spilled > 0 || name == "[input]", "{name} {nth}: nothing was spilled");
        drop(stream);
        gate.open();
        limited.is_clean().await;
    }
    let limited = Limited::new(&census, greedy(bytes / 8));
    let plan = limited.plan(&sql).await;
    let mut stream = plan.execute(0, limited.context.task_ctx()).unwrap();
    stream.next().await.unwrap().unwrap();
    assert!(files(limited.directory.path()) > 0, "the rows that wait are in files");
    drop(stream);
    limited.is_clean().await;
}
