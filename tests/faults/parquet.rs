//! Parquet files whose statistics do not tell everything: releases and reports hold what is in the file.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_writer::{ArrowColumnChunk, compute_leaves};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::statistics::Statistics;
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;

use crate::faults::unlimited;

/// Rows of a row group.
const ROWS: usize = 10;

/// A string that writers do not put into statistics, or not all of it.
fn long() -> String {
    "b".repeat(5000)
}

/// Two row groups. Every column holds one value in the first and another one in the second.
fn groups() -> [RecordBatch; 2] {
    let group = |age: i64, note: &str, score: f64, day: i32| {
        let columns: [(&str, ArrayRef); 5] = [
            ("age", Arc::new(Int64Array::from(vec![age; ROWS]))),
            ("note", Arc::new(StringArray::from(vec![note; ROWS]))),
            ("disease", Arc::new(StringArray::from(vec![note; ROWS]))),
            ("score", Arc::new(Float64Array::from(vec![score; ROWS]))),
            ("day", Arc::new(Date32Array::from(vec![day; ROWS]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    [group(30, "a", 1.0, 10_000), group(40, &long(), f64::NAN, 20_000)]
}

/// What is missing from the statistics of the second row group.
#[derive(Clone, Copy, PartialEq)]
enum Missing {
    /// Smallest and largest value, as if they were too long, or NaN.
    Bounds,
    /// How many cells are NULL.
    NullCount,
    /// All.
    Everything,
}

fn without_statistics(chunk: &mut ArrowColumnChunk, missing: Missing) {
    macro_rules! left {
        ($kind:ident, $of:ident) => {{
            let bounds = (missing != Missing::Bounds).then_some($of);
            let min = bounds.and_then(|of| of.min_opt().cloned());
            let max = bounds.and_then(|of| of.max_opt().cloned());
            let nulls = $of.null_count_opt().filter(|_| missing != Missing::NullCount);
            Statistics::$kind(min, max, None, nulls, false)
        }};
    }
    let close = chunk.close_mut();
    let metadata = close.metadata.clone();
    let statistics = match metadata.statistics().unwrap() {
        Statistics::Int32(of) => left!(int32, of),
        Statistics::Int64(of) => left!(int64, of),
        Statistics::Double(of) => left!(double, of),
        Statistics::ByteArray(of) => left!(byte_array, of),
        other => panic!("{other}"),
    };
    let builder = metadata.into_builder();
    let builder = match missing {
        Missing::Everything => builder.clear_statistics(),
        _ => builder.set_statistics(statistics),
    };
    close.metadata = builder.build().unwrap();
    close.column_index = None;
}

/// A file of two row groups in which the statistics of the second one tell less.
fn write_partly_described(path: &Path, [first, second]: [RecordBatch; 2], missing: Missing) {
    let properties = WriterProperties::builder().build();
    let file = std::fs::File::create(path).unwrap();
    let writer = ArrowWriter::try_new(file, first.schema(), Some(properties)).unwrap();
    let (mut writer, factory) = writer.into_serialized_writer().unwrap();
    for (number, batch) in [first, second].iter().enumerate() {
        let mut columns = factory.create_column_writers(number).unwrap();
        for (column, (field, array)) in
            columns.iter_mut().zip(batch.schema().fields().iter().zip(batch.columns()))
        {
            for leaf in compute_leaves(field, array).unwrap() {
                column.write(&leaf).unwrap();
            }
        }
        let mut chunks: Vec<_> =
            columns.into_iter().map(|column| column.close().unwrap()).collect();
        if number == 1 {
            chunks.iter_mut().for_each(|chunk| without_statistics(chunk, missing));
        }
        let mut group = writer.next_row_group().unwrap();
        for chunk in chunks {
            chunk.append_to_row_group(&mut group).unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// The same rows as pyarrow writes them: no statistics of long strings and of NaN.
fn write_with_pyarrow(path: &Path) -> bool {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    let script = format!(
        "import datetime, sys, pyarrow as pa, pyarrow.parquet as pq\n\
         n, b, day = {ROWS}, 'b' * 5000, datetime.date(1970, 1, 1)\n\
         days = [day + datetime.timedelta(d) for d in (10000, 20000)]\n\
         table = pa.table({{'age': pa.array([30] * n + [40] * n, pa.int64()), 'note': ['a'] * n + [b] * n,\n\
           'disease': ['a'] * n + [b] * n, 'score': [1.0] * n + [float('nan')] * n,\n\
           'day': [days[0]] * n + [days[1]] * n}})\n\
         pq.write_table(table, sys.argv[1], row_group_size=n)\n"
    );
    let written = Command::new(python).args(["-c", &script]).arg(path).output();
    let is_written = written.is_ok_and(|outcome| outcome.status.success());
    if !is_written {
        println!("skipped: target/python has no pyarrow");
    }
    is_written
}

/// Every way in which a session gets to know a file, all over the same file.
async fn registered(path: &Path) -> Vec<(&'static str, SessionContext)> {
    let file = path.display();
    let plain = unlimited();
    plain.register_parquet("lake", &file.to_string(), Default::default()).await.unwrap();
    let external = unlimited();
    let create = format!("CREATE EXTERNAL TABLE lake STORED AS PARQUET LOCATION '{file}'");
    let warmed = unlimited();
    let asked = unlimited();
    for context in [&external, &warmed, &asked] {
        rows(context, &create).await;
    }
    // The cache of statistics is filled by a query that is none of ours.
    rows(&warmed, "SELECT age, note FROM lake WHERE age > 0").await;
    rows(&asked, "SET datafusion.execution.collect_statistics = true").await;
    let pushed = unlimited();
    rows(&pushed, "SET datafusion.execution.parquet.pushdown_filters = true").await;
    rows(&pushed, &create).await;
    vec![
        ("register_parquet", plain),
        ("CREATE EXTERNAL TABLE", external),
        ("a warm cache", warmed),
        ("collect_statistics", asked),
        ("pushdown_filters", pushed),
    ]
}

/// All rows as text, sorted.
async fn rows(context: &SessionContext, sql: &str) -> Vec<String> {
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| array_value_to_string(column, row).unwrap();
            rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort_unstable();
    rows
}

/// What the file holds of these rows, as text.
fn expected(kept: &[usize], columns: &[usize]) -> Vec<String> {
    let mut rows = Vec::new();
    for (number, group) in groups().iter().enumerate().filter(|(number, _)| kept.contains(number)) {
        for row in 0..group.num_rows() {
            let cell = |at: &usize| array_value_to_string(group.column(*at), row).unwrap();
            rows.push(columns.iter().map(cell).collect::<Vec<_>>().join("|"));
            assert!(number < 2);
        }
    }
    rows.sort_unstable();
    rows
}

/// Inputs of a release, and which row groups they read.
const INPUTS: [(&str, &[usize]); 9] = [
    ("lake", &[0, 1]),
    ("(SELECT * FROM lake WHERE note >= 'a')", &[0, 1]),
    ("(SELECT * FROM lake WHERE note <> 'a')", &[1]),
    ("(SELECT * FROM lake WHERE age > 35)", &[1]),
    ("(SELECT * FROM lake WHERE score > 5)", &[1]),
    ("(SELECT * FROM lake WHERE age = (SELECT max(age) FROM lake))", &[1]),
    ("(SELECT * FROM lake WHERE note IN (SELECT max(note) FROM lake))", &[1]),
    ("(SELECT * FROM lake ORDER BY note DESC LIMIT 10)", &[1]),
    ("(SELECT * FROM lake UNION ALL SELECT * FROM lake WHERE age < 0)", &[0, 1]),
];

async fn check_releases(path: &Path) -> usize {
    let mut checked = 0;
    for (way, context) in registered(path).await {
        for (input, groups) in INPUTS {
            let release = format!(
                "SELECT age, note, disease, score, day FROM anonymize({input}, k => 5, \
                 quasi_identifiers => ['age'], sensitive => ['disease'], keep => ['note', 'score', 'day'], seed => 1)"
            );
            let found = rows(&context, &release).await;
            assert_eq!(found, expected(groups, &[0, 1, 2, 3, 4]), "{way}: {input}");
            // The same columns as quasi-identifiers, whose classes have one value each.
            let release = format!(
                "SELECT note, day FROM anonymize({input}, k => 5, quasi_identifiers => ['note', 'day'], \
                 sensitive => ['age'], identifiers => ['disease', 'score'], seed => 1)"
            );
            let found = rows(&context, &release).await;
            let quoted: Vec<String> = expected(groups, &[1, 4]);
            assert_eq!(found, quoted, "{way}: {input}");
            checked += 2;
        }
    }
    checked
}

async fn check_reports(path: &Path) {
    for (way, context) in registered(path).await {
        let privacy = "SELECT value FROM privacy_report(lake, quasi_identifiers => ['note'], sensitive => ['age']) \
                       WHERE measure = 'classes'";
        assert_eq!(rows(&context, privacy).await, ["2.0"], "{way}");
        let smallest = "SELECT value FROM privacy_report(lake, quasi_identifiers => ['score'], sensitive => ['age']) \
                        WHERE measure = 'k'";
        assert_eq!(rows(&context, smallest).await, ["10.0"], "{way}");
        let utility = "SELECT value FROM utility_report(lake, (SELECT * FROM lake), quasi_identifiers => ['age']) \
                       WHERE measure = 'ncp' AND column_name IS NULL";
        assert_eq!(rows(&context, utility).await, ["0.0"], "{way}");
    }
}

/// Whether DataFusion still reads such a file wrongly by itself. When this fails, `engine/rules/file_statistics.rs`
/// has nothing left to do.
async fn check_that_plain_queries_are_wrong(path: &Path) {
    let context = unlimited();
    context
        .register_parquet("lake", &path.display().to_string(), Default::default())
        .await
        .unwrap();
    let found = rows(&context, "SELECT note FROM lake").await;
    let largest = rows(&context, "SELECT max(note) FROM lake").await;
    let is_right = found == expected(&[0, 1], &[1]) && largest == [long()];
    assert!(!is_right, "the file does not mislead DataFusion");
}

#[tokio::test]
async fn row_groups_without_statistics_are_read() {
    for missing in [Missing::Bounds, Missing::Everything] {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("lake.parquet");
        write_partly_described(&path, groups(), missing);
        check_that_plain_queries_are_wrong(&path).await;
        assert_eq!(check_releases(&path).await, 90);
        check_reports(&path).await;
    }
}

/// Some cells of the second row group are NULL or NaN, which its statistics do not tell.
fn partly_null() -> [RecordBatch; 2] {
    let group = |with_gaps: bool| {
        let rows = 0..ROWS;
        let text = rows.clone().map(|at| (!with_gaps || at % 2 == 0).then_some("a"));
        let number = rows.clone().map(|at| if with_gaps && at % 2 == 1 { f64::NAN } else { 1.0 });
        let columns: [(&str, ArrayRef); 3] = [
            ("age", Arc::new(rows.map(|at| Some(at as i64)).collect::<Int64Array>())),
            ("note", Arc::new(text.collect::<StringArray>())),
            ("score", Arc::new(number.map(Some).collect::<Float64Array>())),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
            .unwrap()
    };
    [group(false), group(true)]
}

#[tokio::test]
async fn nulls_that_are_not_counted_and_nan_are_read() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("lake.parquet");
    write_partly_described(&path, partly_null(), Missing::NullCount);
    // The controls: DataFusion alone skips the row group, although it looks at no statistics of the file.
    let plain =
        SessionContext::new_with_config(SessionConfig::new().with_collect_statistics(false));
    plain.register_parquet("lake", &path.display().to_string(), Default::default()).await.unwrap();
    for condition in ["note IS NULL", "score > 5"] {
        let found = rows(&plain, &format!("SELECT count(*) FROM lake WHERE {condition}")).await;
        assert_eq!(found, ["0"], "{condition}");
    }
    let cases = [
        ("lake", 20, 5, 5),
        ("(SELECT * FROM lake WHERE note IS NULL)", 5, 5, 5),
        ("(SELECT * FROM lake WHERE score > 5)", 5, 5, 5),
        ("(SELECT * FROM lake WHERE score < 5 LIMIT 15)", 15, 0, 0),
        ("(SELECT * FROM lake ORDER BY score DESC LIMIT 5)", 5, 5, 5),
    ];
    let mut checked = 0;
    for (way, context) in registered(&path).await {
        for (input, all, nulls, nans) in cases {
            let counts = format!(
                "SELECT count(*), count(*) FILTER (WHERE note IS NULL), count(*) FILTER (WHERE isnan(score))
                 FROM anonymize({input}, k => 5, quasi_identifiers => ['age'], sensitive => ['note'],
                   keep => ['score'], seed => 1)"
            );
            let found = rows(&context, &counts).await;
            assert_eq!(found, [format!("{all}|{nulls}|{nans}")], "{way}: {input}");
            checked += 1;
        }
    }
    assert_eq!(checked, 25);
}

#[tokio::test]
async fn files_of_pyarrow_are_read_as_they_are() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("lake.parquet");
    if !write_with_pyarrow(&path) {
        return;
    }
    check_that_plain_queries_are_wrong(&path).await;
    assert_eq!(check_releases(&path).await, 90);
    check_reports(&path).await;
}

/// A file of pyarrow whose pages have checksums.
const CHECKSUMS: &[u8] = include_bytes!("checksums.parquet");

#[tokio::test]
async fn a_flipped_bit_is_an_error_that_shows_no_value() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("lake.parquet");
    let release = "SELECT * FROM anonymize(lake, k => 5, quasi_identifiers => ['age'], keep => ['note'], seed => 1)";
    std::fs::write(&path, CHECKSUMS).unwrap();
    let context = unlimited();
    let file = path.display().to_string();
    context.register_parquet("lake", &file, Default::default()).await.unwrap();
    assert_eq!(rows(&context, release).await.len(), 40);
    let marker = b"marker-17";
    let at = CHECKSUMS.windows(marker.len()).position(|bytes| bytes == marker).unwrap();
    let mut flipped = CHECKSUMS.to_vec();
    // The last letter: the text stays one, and only its checksum tells.
    flipped[at + marker.len() - 1] ^= 1;
    std::fs::write(&path, flipped).unwrap();
    let context = unlimited();
    context.register_parquet("lake", &file, Default::default()).await.unwrap();
    let message = crate::faults::failure(&context, release).await;
    assert!(!message.contains("marker"), "{message}");
    println!("{message}");
}
