//! Files of a release are all there or not at all, whatever goes wrong while they are written.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan, Volatility, create_udf};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::{CsvReadOptions, SessionConfig, SessionContext};
use datafusion_anonymize::{AnonymizeExtensionPlanner, StageReleases, register_sql};

use crate::faults::failure;
use crate::faults::input::{End, broken};
use crate::faults::stores::{Fault, Faults, files};
use crate::faults::target_store::{RELEASE, ROWS, TARGETS, TargetStore};

async fn run(context: &SessionContext, sql: &str) -> Result<u64> {
    let batches: Vec<RecordBatch> = context.sql(sql).await?.collect().await?;
    Ok(batches.iter().map(|batch| batch.column(0).as_primitive::<UInt64Type>().value(0)).sum())
}

/// Every operation of the store is refused once.
async fn refuse_each(is_disk: bool) {
    let mut failures = 0;
    for target in TARGETS {
        for at in 0.. {
            let store = TargetStore::new(is_disk).await;
            let before = store.contents().await;
            let context = store.session(&Faults::new(at, Fault::Refused));
            match run(&context, &store.copy(target)).await {
                Ok(rows) => {
                    assert_eq!(rows, ROWS, "{target:?}");
                    assert_eq!(store.new_rows(&before, target.1).await, ROWS, "{target:?}");
                    assert!(at > 3, "{target:?}: {at} operations");
                    break;
                }
                Err(_) => store.check_still(&context, &before).await,
            }
            failures += 1;
        }
    }
    println!("{failures} failures");
    assert!(failures > 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_leaves_what_was_there() {
    refuse_each(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_store_that_fails_leaves_what_was_there() {
    refuse_each(false).await;
}

/// A request is done and its answer is lost. Several files go again; a single one is there as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_leaves_no_part() {
    let (mut kept, mut whole) = (0, 0);
    for target in TARGETS {
        for at in 0.. {
            let store = TargetStore::memory().await;
            let before = store.contents().await;
            let context = store.session(&Faults::new(at, Fault::AnswerLost));
            if run(&context, &store.copy(target)).await.is_ok() {
                break;
            }
            store.tidy(&context).await;
            if store.contents().await == before {
                kept += 1;
            } else {
                assert!(!target.0.ends_with('/'), "{target:?}: operation {at}");
                assert_eq!(store.new_rows(&before, target.1).await, ROWS, "{target:?}");
                whole += 1;
            }
        }
    }
    println!("{kept} times as before, {whole} times the whole release");
    assert!(kept > 50 && whole == 5);
}

/// The statement is given up at every operation of the store.
async fn drop_at_each(is_disk: bool) {
    let (mut kept, mut whole) = (0, 0);
    for target in TARGETS {
        for at in 0.. {
            let store = TargetStore::new(is_disk).await;
            let before = store.contents().await;
            let faults = Faults::new(at, Fault::Stalled);
            let context = store.session(&faults);
            let sql = store.copy(target);
            let is_over = tokio::select! {
                written = run(&context, &sql) => written.is_ok(),
                _ = faults.reached.acquire() => false,
            };
            if is_over {
                break;
            }
            faults.go.add_permits(1);
            datafusion_anonymize::until_published().await;
            store.tidy(&context).await;
            if store.contents().await == before {
                kept += 1;
            } else {
                // It was about to become visible, which nobody can stop half-way.
                assert_eq!(store.new_rows(&before, target.1).await, ROWS, "{target:?}: {at}");
                whole += 1;
            }
        }
    }
    println!("{kept} times as before, {whole} times the whole release");
    assert!(kept > 50);
    assert_eq!(whole > 0, !is_disk);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_given_up_leaves_a_disk_as_it_was() {
    drop_at_each(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_given_up_leaves_an_object_store_as_it_was() {
    drop_at_each(false).await;
}

/// Teaches a session a function that hands on two batches and fails on the third.
fn add_failing_function(context: &SessionContext) {
    let calls = AtomicUsize::new(0);
    let fails = move |arguments: &[ColumnarValue]| match calls.fetch_add(1, Ordering::SeqCst) {
        0..2 => Ok(arguments[0].clone()),
        _ => datafusion::common::exec_err!("the third batch fails"),
    };
    let text = DataType::Utf8;
    let volatile = Volatility::Volatile;
    context.register_udf(create_udf(
        "fails_later",
        vec![text.clone()],
        text,
        volatile,
        Arc::new(fails),
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_fails_leaves_what_was_there() {
    for is_disk in [true, false] {
        for target in TARGETS {
            let store = TargetStore::new(is_disk).await;
            let before = store.contents().await;
            let context = store.sound();
            add_failing_function(&context);
            let held = format!("CREATE TABLE held AS SELECT * FROM {RELEASE}");
            context.sql(&held).await.unwrap().collect().await.unwrap();
            let copy = store.copy(target);
            assert!(copy.contains(RELEASE));
            let failing = [
                (copy.replace("k => 5", "k => 601"), "cannot"),
                (
                    copy.replace("SELECT * FROM anonymize", "SELECT age, sex, fails_later(arrow_cast(zip, 'Utf8')) AS zip FROM anonymize"),
                    "the third batch fails",
                ),
                // A table that was made of a release is one.
                (
                    copy.replace(&format!("SELECT * FROM {RELEASE}"), "SELECT age, sex, fails_later(arrow_cast(zip, 'Utf8')) AS zip FROM held"),
                    "the third batch fails",
                ),
            ];
            for (sql, says) in failing {
                let message = failure(&context, &sql).await;
                assert!(message.contains(says), "{message}");
                store.check_still(&context, &before).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_that_fails_leaves_what_was_there() {
    let store = TargetStore::disk();
    let before = store.contents().await;
    let pool = Arc::new(datafusion::execution::memory_pool::UnboundedMemoryPool::default()) as _;
    let (context, _) = broken(&pool, &[(3, End::Error)]);
    for target in ["release.csv", "releases/", "new/below/"] {
        let sql = format!(
            "COPY (SELECT * FROM anonymize(broken, k => 2, quasi_identifiers => ['a'])) TO '{}' STORED AS CSV",
            store.url(target)
        );
        assert!(failure(&context, &sql).await.contains("the disk is gone"));
        assert_eq!(store.contents().await, before);
    }
}

/// `INSERT INTO` is staged like `COPY`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_comes_as_a_whole() {
    let store = TargetStore::disk();
    let before = store.contents().await;
    let context = store.sound();
    add_failing_function(&context);
    let table = format!(
        "CREATE EXTERNAL TABLE t (age VARCHAR, sex VARCHAR) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        store.url("inserted/")
    );
    std::fs::create_dir(store.url("inserted")).unwrap();
    context.sql(&table).await.unwrap().collect().await.unwrap();
    let insert = format!(
        "INSERT INTO t SELECT arrow_cast(age, 'Utf8'), arrow_cast(sex, 'Utf8') FROM {RELEASE}"
    );
    let failing = insert.replace("arrow_cast(age, 'Utf8')", "fails_later(arrow_cast(age, 'Utf8'))");
    assert!(failure(&context, &failing).await.contains("the third batch fails"));
    store.tidy(&context).await;
    assert_eq!(std::fs::read_dir(store.url("inserted")).unwrap().count(), 0);
    assert_eq!(run(&context, &insert).await.unwrap(), ROWS);
    let mut expected = before.clone();
    expected.insert("inserted/".to_owned(), Vec::new());
    assert_eq!(store.new_rows(&expected, "CSV").await, ROWS);
}

#[tokio::test]
async fn what_cannot_come_as_a_whole_is_refused() {
    let store = TargetStore::disk();
    let before = store.contents().await;
    let context = store.sound();
    let table = format!(
        "CREATE UNBOUNDED EXTERNAL TABLE u (age VARCHAR, sex VARCHAR) STORED AS CSV LOCATION '{}'",
        store.url("release.csv")
    );
    context.sql(&table).await.unwrap().collect().await.unwrap();
    let insert = format!(
        "INSERT INTO u SELECT arrow_cast(age, 'Utf8'), arrow_cast(sex, 'Utf8') FROM {RELEASE}"
    );
    assert!(failure(&context, &insert).await.contains("unbounded table"));
    for name in ["x*.csv", "a[1]/", "a?.csv"] {
        let message = failure(&context, &store.copy((name, "CSV"))).await;
        assert!(message.contains("cannot have *, ? or ["), "{message}");
    }
    let message = failure(&context, &store.copy(("release.csv/below/", "CSV"))).await;
    assert!(message.contains("release.csv is a file; name a directory"), "{message}");
    assert_eq!(store.contents().await, before);
}

#[tokio::test]
async fn the_plan_says_that_files_come_together() {
    let store = TargetStore::disk();
    let before = store.contents().await;
    let context = store.sound();
    for (copy, is_staged) in [
        (store.copy(TARGETS[0]), true),
        (store.copy(TARGETS[3]), true),
        (store.copy(TARGETS[0]).replace(RELEASE, "sample_census(rows => 10)"), false),
        (
            store.copy(TARGETS[0]).replace(
                &format!("SELECT * FROM {RELEASE}"),
                &format!("SELECT 1 AS a, (SELECT max(age) FROM {RELEASE}) AS b"),
            ),
            true,
        ),
    ] {
        let plan = context.sql(&format!("EXPLAIN {copy}")).await.unwrap().collect().await.unwrap();
        let plan = datafusion::arrow::util::pretty::pretty_format_batches(&plan).unwrap();
        assert_eq!(plan.to_string().contains("sink=StagedSink("), is_staged, "{plan}");
    }
    assert_eq!(store.contents().await, before);
}

/// A host that plans by itself, as the documentation of `register_sql` says.
#[derive(Debug)]
struct HostPlanner;

#[async_trait]
impl QueryPlanner for HostPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let ours = Arc::new(AnonymizeExtensionPlanner);
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![ours]);
        planner.create_physical_plan(plan, session).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_with_a_planner_of_its_own_adds_the_rule() {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_query_planner(Arc::new(HostPlanner))
        .with_physical_optimizer_rule(Arc::new(StageReleases))
        .build();
    let with_rule = SessionContext::new_with_state(state);
    register_sql(&with_rule).unwrap();
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_query_planner(Arc::new(HostPlanner))
        .build();
    let with_all = crate::with_functions(SessionContext::new_with_state(state));
    for context in [with_rule, with_all] {
        let store = TargetStore::disk();
        let before = store.contents().await;
        add_failing_function(&context);
        anonymize_sample::register(&context).unwrap();
        let copy = store.copy(("release.csv", "CSV"));
        let failing = copy.replace("k => 5", "k => 601");
        assert!(failure(&context, &failing).await.contains("cannot"));
        store.check_still(&context, &before).await;
        assert_eq!(run(&context, &copy).await.unwrap(), ROWS);
    }
}

/// While files wait, tables over their directory do not see them, even those that look into directories.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_wait_are_not_read() {
    let mut looked = 0;
    for at in 0.. {
        let store = TargetStore::disk();
        let TargetStore::Disk(directory) = &store else { unreachable!() };
        let table = directory.path().join("table");
        std::fs::create_dir(&table).unwrap();
        std::fs::write(table.join("old.csv"), "age,sex,zip,occupation\n1,2,3,4\n").unwrap();
        let faults = Faults::new(at, Fault::Stalled);
        let context = store.session(&faults);
        let copy = store.copy(("table/", "CSV"));
        let mut copy = Box::pin(run(&context, &copy));
        let is_over = tokio::select! {
            written = &mut copy => written.is_ok(),
            _ = faults.reached.acquire() => false,
        };
        if is_over {
            break;
        }
        let is_hidden = |name: &String| name.contains(".anonymize-") && !name.ends_with("lock");
        if files(&table).keys().filter(|name| is_hidden(name) && !name.ends_with('/')).count() > 0 {
            assert_eq!(rows_of(&table).await, [1, 1]);
            looked += 1;
        }
        faults.go.add_permits(1);
        assert_eq!(copy.await.unwrap(), ROWS);
        assert_eq!(rows_of(&table).await, [ROWS as usize + 1; 2]);
    }
    println!("looked {looked} times");
    assert!(looked > 3);
}

/// The rows of a directory, without and with those below it.
async fn rows_of(table: &Path) -> [usize; 2] {
    let mut found = [0; 2];
    for (rows, ignores) in found.iter_mut().zip([true, false]) {
        let mut config = SessionConfig::new();
        config.options_mut().execution.listing_table_ignore_subdirectory = ignores;
        let context = SessionContext::new_with_config(config);
        let as_text = CsvReadOptions::new().schema_infer_max_records(0);
        let read = context.read_csv(format!("{}/", table.display()), as_text).await;
        *rows = read.unwrap().count().await.unwrap();
    }
    found
}

/// Both tables are in two files, in one store or in two, or neither is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tables_or_none() {
    use datafusion_anonymize::{TwoFiles, write_two_tables};
    let mut failures = 0;
    for is_disk in [true, false] {
        for at in 0.. {
            let store = TargetStore::new(is_disk).await;
            let before = store.contents().await;
            let context = store.session(&Faults::new(at, Fault::Refused));
            let release = RELEASE.replace(
                "k => 5",
                "k => 5, method => 'alpha_k', alpha => 0.5, publish => 'sensitive'",
            );
            let release = context.sql(&format!("SELECT * FROM {release}")).await.unwrap();
            let two = TwoFiles {
                quasi_identifiers: store.url("two/qi/qi.parquet"),
                sensitive: store.url("two/sa/sensitive.csv"),
            };
            match write_two_tables(&context, release, &two).await {
                Ok(rows) => {
                    assert_eq!(rows, [ROWS; 2]);
                    let after = store.contents().await;
                    assert!(after.contains_key("two/qi/qi.parquet"));
                    assert!(after.contains_key("two/sa/sensitive.csv"));
                    break;
                }
                Err(_) => store.check_still(&context, &before).await,
            }
            failures += 1;
        }
    }
    println!("{failures} failures");
    assert!(failures > 10);
}
