//! What is read from files, and what is written to them.

use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use tempfile::TempDir;

use crate::faults::{count, unlimited};

/// A session whose table `lake` is a Parquet file. One town and one age stand out.
async fn lake() -> (SessionContext, TempDir) {
    let context = unlimited();
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("lake.parquet").display().to_string();
    let copy = format!(
        "COPY (SELECT CASE WHEN value = 7 THEN 987654321 ELSE value END AS age,
                 CASE WHEN value = 7 THEN 'XMARKERX' ELSE 'Xtown  ' || (value % 5) END AS town,
                 'd' || (value % 3) AS disease, value AS cost, 'n' || value AS note,
                 'XMARKERX ' || value AS name, value / 2 AS person
               FROM generate_series(1, 100)) TO '{path}' STORED AS PARQUET"
    );
    context.sql(&copy).await.unwrap().collect().await.unwrap();
    context.register_parquet("lake", &path, Default::default()).await.unwrap();
    (context, directory)
}

const CALL: &str = "anonymize(lake, k => 5, quasi_identifiers => ['age', 'town'], sensitive => ['disease'],
  keep => ['cost', 'note'], identifiers => ['name', 'person'], hierarchies => {town: prefixes(1)}, seed => 'a seed of the tests')";

fn leaf(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.children().first() {
        Some(child) => leaf(child),
        None => Arc::clone(plan),
    }
}

#[tokio::test]
async fn only_needed_columns_are_read() {
    let (context, _directory) = lake().await;
    let cases = [
        ("SELECT *", "", &["age", "town", "disease", "cost", "note"][..]),
        ("SELECT age", "", &["age", "town", "disease"]),
        ("SELECT cost", "", &["age", "town", "disease", "cost"]),
        ("SELECT count(*)", "", &["age", "town", "disease"]),
        ("SELECT age", "WHERE note <> 'n1'", &["age", "town", "disease", "note"]),
        ("SELECT max(cost), disease", "GROUP BY disease", &["age", "town", "disease", "cost"]),
        ("SELECT town", "ORDER BY cost LIMIT 3", &["age", "town", "disease", "cost"]),
    ];
    for (select, rest, expected) in cases {
        let sql = format!("{select} FROM {CALL} {rest}");
        let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
        let scan = leaf(&plan);
        assert_eq!(scan.name(), "DataSourceExec");
        let schema = scan.schema();
        let read: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(read, expected, "{sql}");
    }
}

/// A privacy unit is read, because persons are counted, and not published.
#[tokio::test]
async fn the_privacy_unit_is_read_and_not_published() {
    let (context, _directory) = lake().await;
    let call = CALL
        .replace("'name', 'person'", "'name'")
        .replace("seed =>", "privacy_unit => 'person', seed =>");
    let frame = context.sql(&format!("SELECT * FROM {call}")).await.unwrap();
    assert!(frame.schema().field_with_unqualified_name("person").is_err());
    let plan = frame.create_physical_plan().await.unwrap();
    assert!(leaf(&plan).schema().column_with_name("person").is_some());
    assert!(leaf(&plan).schema().column_with_name("name").is_none());
    let rows: usize =
        collect(plan, context.task_ctx()).await.unwrap().iter().map(|b| b.num_rows()).sum();
    assert_eq!(rows, 100);
}

#[tokio::test]
async fn statistics_know_the_number_of_rows_and_no_values() {
    let (context, _directory) = lake().await;
    for ranges in ["label", "bounds", "mean"] {
        let call = CALL.replace("seed =>", &format!("ranges => '{ranges}', seed =>"));
        let frame = context.sql(&format!("SELECT * FROM {call}")).await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        assert_eq!(plan.name(), "AnonymizeExec");
        let largest = |plan: &Arc<dyn ExecutionPlan>| {
            let statistics =
                StatisticsContext::new().compute(leaf(plan).as_ref(), &StatisticsArgs::new());
            statistics.unwrap().column_statistics[0].max_value.get_value().cloned()
        };
        let plain = context.table("lake").await.unwrap().create_physical_plan().await.unwrap();
        assert!(largest(&plain).is_some(), "a scan knows its values");
        assert_eq!(largest(&plan), None, "and forgets them below a release");
        let statistics =
            StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).unwrap();
        assert_eq!(statistics.num_rows, Precision::Inexact(100));
        for column in &statistics.column_statistics {
            assert_eq!(column.min_value, Precision::Absent);
            assert_eq!(column.max_value, Precision::Absent);
            assert_eq!(column.distinct_count, Precision::Absent);
            assert_eq!(column.sum_value, Precision::Absent);
        }
    }
}

/// Statistics must not answer what the operator might refuse.
#[tokio::test]
async fn counting_rows_fails_closed_too() {
    let (context, _directory) = lake().await;
    assert_eq!(count(&context, &format!("SELECT count(*) FROM {CALL}")).await.unwrap(), 100);
    let call = CALL.replace("k => 5", "k => 101");
    assert!(count(&context, &format!("SELECT count(*) FROM {call}")).await.is_err());
}

#[tokio::test]
async fn a_written_file_holds_published_values_only() {
    let (context, directory) = lake().await;
    let path = directory.path().join("release.parquet");
    let copy = format!(
        "COPY (SELECT age, town, disease FROM {CALL}) TO '{}' STORED AS PARQUET
         OPTIONS ('format.compression' 'uncompressed')",
        path.display()
    );
    context.sql(&copy).await.unwrap().collect().await.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("X*******"), "the published label is there to be found");
    // The town and the name of one row; its age may be the end of a range.
    for secret in ["XMARKERX", "n42"] {
        assert!(!holds(secret), "the file holds {secret}");
    }
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let published =
        context.read_parquet(path.display().to_string(), Default::default()).await.unwrap();
    let published: Vec<String> =
        datafusion::arrow::util::pretty::pretty_format_batches(&published.collect().await.unwrap())
            .unwrap()
            .to_string()
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect();
    for group in reader.metadata().row_groups() {
        for column in group.columns() {
            let statistics = column.statistics().unwrap();
            for end in [statistics.min_bytes_opt(), statistics.max_bytes_opt()] {
                let end = String::from_utf8(end.unwrap().to_vec()).unwrap();
                assert!(published.contains(&end), "{end} is not published");
            }
        }
    }
}
