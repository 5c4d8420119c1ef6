//! A night of a series against a plain release of the same rows, Parquet in and out; and how a series ages.
//!
//! ```sh
//! cargo bench --bench series                                  # 1 and 10 million persons, then 30 nights
//! cargo bench --bench series -- --rows 1000000 --runs 5
//! cargo bench --bench series -- --rows 0 --nightly 22000      # the 30 nights alone
//! ```
//!
//! The first night groups everybody. On the second one 1 % of the persons are newcomers, 1 % have another value and 0.05 % have left.
//! It reads what the first one left behind, members and release, and writes a release and the new members, both from one
//! computation, as a job does. A plain release of tonight's rows goes the same way to its file. Both take turns, so the ratio is
//! one of this machine in these minutes. `--method layered` for another method, `--k 5` for another k.
//!
//! Then 30 nights on which 0.05 %, 0.2 % and 0.5 % leave and 1 % come (`--nightly 0` leaves them out): the share of cohorts that
//! live, next to what (1 − share)^(k · nights) says of those of the first night, and the loss of their rows next to that of a plain
//! release of the same night.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::Result;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_anonymize::AnonymizeExec;
use mimalloc::MiMalloc;

use decay::Ageing;
use setup::{
    Arguments, Cost, Stopwatch, create_table, median, print_head, print_line, print_phases,
    register, run,
};

mod decay;
#[allow(dead_code)]
mod setup;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::of_process();
    let method = arguments.value("--method").unwrap_or("rounded");
    let k = arguments.number("--k", 10);
    for persons in arguments.list("--rows", "1000000,10000000") {
        let persons: usize = persons.parse().unwrap();
        if persons > 0 {
            compare(persons, arguments.number("--runs", 3).max(1), (method, k)).await?;
        }
    }
    let persons = arguments.number("--nightly", 100_000);
    if persons > 0 {
        let context = SessionContext::new();
        datafusion_anonymize::register_all(&context)?;
        anonymize_sample::register(&context)?;
        Ageing { context: &context, method, k, persons }.print().await?;
    }
    Ok(())
}

/// A night against a plain release.
async fn compare(persons: usize, runs: usize, (method, k): (&str, usize)) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let bench = Bench { context: SessionContext::new(), path: directory.path(), method, k };
    println!("{persons} persons, k = {k}, method {method}, {runs} runs each");
    let of_first = bench.begin(persons).await?;
    let [mut plain, mut night] = [Vec::new(), Vec::new()];
    for turn in 0..runs {
        let is_last = turn + 1 == runs;
        plain.push(bench.plain(is_last).await?);
        night.push(bench.night(1, is_last).await?);
    }
    let [plain, night] = [plain, night].map(|costs| median(&costs));
    print_head();
    print_line("plain release", plain, plain);
    print_line("first night", of_first, plain);
    print_line("a night", night, plain);
    let state = std::fs::metadata(directory.path().join("members_1.parquet"))?.len();
    let known = bench.count("members_1").await?;
    println!("state: {:.1} bytes a person in {known} rows", state as f64 / known as f64);
    Ok(())
}

/// Tonight's rows: 1 % are new, 1 % have another value, 0.05 % are gone.
const TONIGHT: &str = "(SELECT * EXCEPT (occupation), CASE WHEN id % 100 = 7 THEN 'another' ELSE occupation END AS \
                       occupation FROM people WHERE id % 2000 <> 1)";

struct Bench<'a> {
    context: SessionContext,
    path: &'a Path,
    method: &'a str,
    k: usize,
}

impl Bench<'_> {
    /// Makes the persons and the first night.
    async fn begin(&self, persons: usize) -> Result<Cost> {
        datafusion_anonymize::register_all(&self.context)?;
        anonymize_sample::register(&self.context)?;
        let people = format!(
            "SELECT age, sex, race, marital_status, education, zip, birth_date, occupation::varchar AS occupation, \
             row_number() OVER () AS id FROM sample_census(rows => {persons}, seed => 7)"
        );
        create_table(&self.context, "people", &people, self.path).await?;
        for empty in ["members_0 (person BYTEA, cohort BIGINT)", "release_0 (cohort BIGINT)"] {
            run(&self.context, &format!("CREATE TABLE {empty}")).await?;
        }
        let cost = self.night(0, false).await?;
        for table in ["members_1", "release_1"] {
            register(&self.context, table, self.path).await?;
        }
        Ok(cost)
    }

    async fn plain(&self, shows_phases: bool) -> Result<Cost> {
        let watch = Stopwatch::start();
        // Everybody has one row, so that nothing but rows has to be counted.
        let plan = self.plan(&self.anonymize(TONIGHT, "identifiers => ['id']")).await?;
        let rows = execute_stream(Arc::clone(&plan), self.context.task_ctx())?;
        self.write(rows, "plain").await?;
        let cost = watch.cost();
        if shows_phases {
            print_phases("plain release", &plan);
        }
        Ok(cost)
    }

    /// The night that goes on from the first tables (0), which are empty, or from the second ones.
    async fn night(&self, before: usize, shows_phases: bool) -> Result<Cost> {
        let first = "(SELECT * FROM people WHERE id % 100 <> 0)";
        let tonight = if before == 0 { first } else { TONIGHT };
        let series = format!(
            "privacy_unit => 'id', series => {{members: members_{before}, last: release_{before}}}"
        );
        let watch = Stopwatch::start();
        let plan = self.plan(&self.anonymize(tonight, &series)).await?;
        let exec = release_in(&plan).unwrap();
        let [rows, members] = exec.release_and_members(self.context.task_ctx()).await?;
        self.write(rows, &format!("release_{}", before + 1)).await?;
        self.write(members, &format!("members_{}", before + 1)).await?;
        let cost = watch.cost();
        if shows_phases {
            print_phases("a night", &plan);
        }
        Ok(cost)
    }

    fn anonymize(&self, input: &str, more: &str) -> String {
        let Self { method, k, .. } = self;
        format!(
            "SELECT * FROM anonymize({input}, k => {k}, method => '{method}', seed => 'the seed of a benchmark', \
             quasi_identifiers => ['age', 'sex', 'race', 'marital_status', 'education', 'zip', 'birth_date'], sensitive \
             => ['occupation'], {more})"
        )
    }

    async fn plan(&self, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
        self.context.sql(sql).await?.create_physical_plan().await
    }

    /// Writes rows to a Parquet file, in the way of DataFusion.
    async fn write(&self, rows: SendableRecordBatchStream, name: &str) -> Result<()> {
        let schema = rows.schema();
        let once = Arc::new(Once { schema: Arc::clone(&schema), rows: Mutex::new(Some(rows)) });
        let table = StreamingTable::try_new(schema, vec![once])?;
        let file = self.path.join(format!("{name}.parquet"));
        let options = DataFrameWriteOptions::new();
        let rows = self.context.read_table(Arc::new(table))?;
        rows.write_parquet(file.to_str().unwrap(), options, None).await.map(|_| ())
    }

    async fn count(&self, table: &str) -> Result<usize> {
        self.context.table(table).await?.count().await
    }
}

fn release_in(plan: &Arc<dyn ExecutionPlan>) -> Option<&AnonymizeExec> {
    match plan.downcast_ref::<AnonymizeExec>() {
        Some(exec) => Some(exec),
        None => plan.children().into_iter().find_map(release_in),
    }
}

/// A stream as a table that is read once.
struct Once {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.rows.lock().unwrap().take().unwrap()
    }
}
