//! Queries on a scheduler and an executor inside this process: plans go through the codecs, stages through
//! shuffle files.

use datafusion::prelude::SessionContext;

use crate::{CALL, call, census, in_cells, local, number, rows};

async fn cluster(directory: &std::path::Path) -> SessionContext {
    let context = anonymize_ballista::standalone().await.unwrap();
    census(&context, directory).await;
    context
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_is_that_of_one_machine() {
    let directory = crate::directory(3000);
    let (cluster, local) = (cluster(directory.path()).await, local(directory.path()).await);
    for (method, more) in in_cells() {
        let sql = format!("SELECT * FROM {}", call(method, more));
        let there = rows(&cluster, &sql).await.unwrap_or_else(|error| panic!("{method}: {error}"));
        assert_eq!(there, rows(&local, &sql).await.unwrap(), "{method}");
        assert!(there.len() > 1500, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_that_do_not_work_in_cells_run_in_one_task() {
    let directory = crate::directory(1000);
    let (cluster, local) = (cluster(directory.path()).await, local(directory.path()).await);
    for sql in [
        "SELECT * FROM anonymize((SELECT age, sex FROM census), quasi_identifiers => ['age', 'sex'], method => \
         'datafly', constraints => [{columns: ['age', 'sex'], k: 3}])",
        "SELECT * FROM anonymize((SELECT age, sex FROM census), quasi_identifiers => ['age', 'sex'], method => \
         'classfly', constraints => [{columns: ['age', 'sex'], k: 3}])",
        "SELECT * FROM anonymize((SELECT age, sex, occupation FROM census), k => 3, quasi_identifiers => ['age', \
         'sex'], sensitive => ['occupation'], method => 'alpha_k', alpha => 0.9, publish => \
         'quasi_identifiers', seed => 1)",
        "SELECT * FROM anonymize((SELECT age, zip FROM census), k => 3, quasi_identifiers => ['age', 'zip'], \
         method => 'top_down', hierarchies => {age: intervals(5, 20), zip: prefixes(2)}, seed => 1)",
    ] {
        assert_eq!(rows(&cluster, sql).await.unwrap(), rows(&local, sql).await.unwrap(), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_hierarchies_and_samples_work_there() {
    let directory = crate::directory(1000);
    let cluster = cluster(directory.path()).await;
    let with = CALL.replace(
        "seed =>",
        "hierarchies => {education: sample_hierarchy('education'), zip: prefixes(3), age: intervals(5, 10)}, seed =>",
    );
    let report = format!(
        "SELECT count(*) FROM privacy_report((SELECT age, sex, education, zip, occupation FROM {with}), \
         quasi_identifiers => ['age', 'sex', 'education', 'zip'], sensitive => ['occupation'], k => 5) WHERE NOT holds"
    );
    assert_eq!(number(&cluster, &report).await, 0);
    let utility = format!(
        "SELECT count(*) FROM utility_report(census, (SELECT age, sex, education, zip, occupation FROM {with}), \
         quasi_identifiers => ['age', 'sex', 'education', 'zip'], hierarchies => {{education: \
         sample_hierarchy('education'), zip: prefixes(3), age: intervals(5, 10)}}) WHERE measure = 'ncp' AND value < 0.9"
    );
    assert!(number(&cluster, &utility).await > 0);
    assert_eq!(number(&cluster, "SELECT count(*) FROM sample_census(rows => 1234)").await, 1234);
    // More than a batch, and nothing that could be told without reading.
    let read = "SELECT count(*) FROM sample_census(rows => 30000) WHERE age > 0";
    assert_eq!(number(&cluster, read).await, 30_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_written_whole_or_not_at_all() {
    let directory = crate::directory(1000);
    let cluster = cluster(directory.path()).await;
    let target = directory.path().join("release/");
    let copy = |call: &str| {
        format!("COPY (SELECT * FROM {call}) TO '{}' STORED AS PARQUET", target.display())
    };
    // Missing cells are more than nothing: the release fails in its last look at all cells together.
    let failing = call("k_member", ", suppression_limit => 0.001");
    let error = rows(&cluster, &copy(&failing)).await.unwrap_err().to_string();
    assert!(error.contains("suppression_limit = 0.001"), "{error}");
    let left = std::fs::read_dir(&target).map_or(0, Iterator::count);
    assert_eq!(left, 0, "files were left");
    rows(&cluster, &copy(CALL)).await.unwrap();
    let local = local(directory.path()).await;
    let published = format!("SELECT * FROM '{}'", target.display());
    let mut published = rows(&local.clone().enable_url_table(), &published).await.unwrap();
    let mut expected = rows(&local, &format!("SELECT * FROM {CALL}")).await.unwrap();
    published.sort();
    expected.sort();
    assert_eq!(published, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_reach_the_scheduler() {
    let directory = crate::directory(1000);
    let cluster = cluster(directory.path()).await;
    rows(&cluster, "SET anonymize.cells = 3").await.unwrap();
    let analyze = format!("EXPLAIN ANALYZE SELECT * FROM {CALL}");
    let analyzed = rows(&cluster, &analyze).await.unwrap().join("\n");
    assert!(analyzed.contains(" cells=3,"), "{analyzed}");
    rows(&cluster, "SET anonymize.cells = 0").await.unwrap();
    let analyzed = rows(&cluster, &analyze).await.unwrap().join("\n");
    assert!(!analyzed.contains(" cells="), "{analyzed}");
    // In one piece and in one task: all rows, not those of the first partition.
    assert_eq!(number(&cluster, &format!("SELECT count(*) FROM {CALL}")).await, 1000);
    let error = rows(&cluster, "SET anonymize.cells = 'many'").await.unwrap_err().to_string();
    assert!(error.contains("must be a whole number"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unions_of_releases_have_every_row_once_whatever_planner_is_asked_for() {
    let directory = crate::directory(1000);
    let (cluster, local) = (cluster(directory.path()).await, local(directory.path()).await);
    let other = CALL.replace("k => 5", "k => 9");
    let sql = format!("SELECT * FROM {CALL} UNION ALL SELECT * FROM {other}");
    let mut expected = rows(&local, &sql).await.unwrap();
    expected.sort();
    assert_eq!(expected.len(), 2000);
    for adaptive in [true, false] {
        rows(&cluster, &format!("SET ballista.planner.adaptive.enabled = {adaptive}"))
            .await
            .unwrap();
        let mut there = rows(&cluster, &sql).await.unwrap();
        there.sort();
        assert_eq!(there, expected, "adaptive = {adaptive}");
        let single = format!("SELECT * FROM {CALL}");
        assert_eq!(rows(&cluster, &single).await.unwrap(), rows(&local, &single).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_write_a_release_explain_themselves_or_say_what_to_write() {
    let directory = crate::directory(1000);
    let cluster = cluster(directory.path()).await;
    let target = directory.path().join("release");
    let copy = format!("COPY (SELECT * FROM {CALL}) TO '{}/' STORED AS PARQUET", target.display());
    let explained = rows(&cluster, &format!("EXPLAIN {copy}")).await.unwrap().join("\n");
    for part in ["client_plan", "CopyTo: format=parquet", "written by the client", "CellGatherExec"]
    {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    assert!(!explained.contains("unspeakable"), "{explained}");

    let table = format!(
        "CREATE EXTERNAL TABLE more (age VARCHAR, sex VARCHAR) STORED AS CSV LOCATION '{}/'",
        target.display()
    );
    std::fs::create_dir(&target).unwrap();
    rows(&cluster, &table).await.unwrap();
    let insert = format!("INSERT INTO more SELECT age, sex FROM {CALL}");
    let fails = async |sql: &str, says: &str| {
        let error = rows(&cluster, sql).await.unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("Internal"), "{sql}: {error}");
    };
    fails(&format!("EXPLAIN ANALYZE {copy}"), "write EXPLAIN ANALYZE SELECT").await;
    fails(&insert, "'more' of a release does not work on a cluster").await;
    fails(&format!("EXPLAIN {insert}"), "write COPY (SELECT").await;
    fails(&format!("EXPLAIN ANALYZE {insert}"), "write COPY (SELECT").await;

    rows(&cluster, &format!("CREATE TABLE kept AS SELECT * FROM {CALL}")).await.unwrap();
    fails("SELECT count(*) FROM kept", "the table 'kept' is in the memory of this client").await;
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0, "something was written");

    rows(&cluster, &format!("CREATE VIEW seen AS SELECT * FROM {CALL}")).await.unwrap();
    assert_eq!(number(&cluster, "SELECT count(*) FROM seen").await, 1000);
}

/// Half of the rows are in a row group of which the file has no statistics.
#[tokio::test(flavor = "multi_thread")]
async fn plain_queries_read_what_is_in_a_file() {
    let directory = crate::directory(100);
    let cluster = cluster(directory.path()).await;
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/faults/partial_statistics.parquet");
    let sql = format!("CREATE EXTERNAL TABLE partial STORED AS PARQUET LOCATION '{file}'");
    rows(&cluster, &sql).await.unwrap();
    for collect in [true, false] {
        let set = format!("SET datafusion.execution.collect_statistics = {collect}");
        rows(&cluster, &set).await.unwrap();
        for (expression, expected) in [
            ("count(DISTINCT note) FROM partial", 2),
            ("max(length(note)) FROM partial", 5000),
            ("length(max(note)) FROM partial", 5000),
            ("count(*) FROM partial WHERE isnan(score)", 10),
            ("count(*) FROM partial WHERE score > 1e9", 10),
        ] {
            let found = number(&cluster, &format!("SELECT {expression}")).await;
            assert_eq!(found, expected, "{expression}, collect_statistics = {collect}");
        }
    }
}
