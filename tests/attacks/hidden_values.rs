//! Looks for values of rows that a query does not show, in the buffers of its batches and in Arrow files.

use std::collections::BTreeSet;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;

fn session() -> SessionContext {
    crate::session(SessionConfig::new().with_target_partitions(2).with_batch_size(512))
}

/// A release with dictionaries, views and plain strings. Every note is one person's.
const RELEASE: &str = "anonymize(
  (SELECT age, zip, occupation, 'the note of person ' || arrow_cast(person_id, 'Utf8') AS note,
     arrow_cast('the view of person ' || arrow_cast(person_id, 'Utf8'), 'Utf8View') AS viewed
   FROM sample_census(rows => 2000, seed => 7)),
  k => 10, quasi_identifiers => ['age', 'zip'], sensitive => ['occupation'], keep => ['note', 'viewed'],
  seed => 'the secret of this attack')";

async fn run(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    context.sql(sql).await.unwrap().collect().await.unwrap()
}

fn texts(column: &ArrayRef) -> impl Iterator<Item = String> {
    (0..column.len()).map(|row| array_value_to_string(column, row).unwrap())
}

/// All bytes behind an array, whatever it shows.
fn bytes(column: &ArrayRef) -> Vec<u8> {
    fn of(data: &datafusion::arrow::array::ArrayData, all: &mut Vec<u8>) {
        data.buffers().iter().for_each(|buffer| all.extend_from_slice(buffer.as_slice()));
        data.child_data().iter().for_each(|child| of(child, all));
    }
    let mut all = Vec::new();
    of(&column.to_data(), &mut all);
    all
}

fn sent(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

/// Labels and notes of the release that these batches do not show and that are found in their bytes:
/// in memory, and as an IPC stream.
fn found(batches: &[RecordBatch], release: &[RecordBatch]) -> (usize, usize, usize) {
    let (mut in_memory, mut in_stream, mut hidden_values) = (0, 0, 0);
    for batch in batches {
        let schema = batch.schema();
        let stream = sent(batch);
        let stream = String::from_utf8_lossy(&stream);
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            let shown: BTreeSet<String> = texts(column).collect();
            let of_release = release.iter().filter_map(|batch| batch.column_by_name(field.name()));
            let all: BTreeSet<String> = of_release.flat_map(texts).collect();
            // Short texts are found by chance, and as parts of others.
            let is_hidden = |text: &&String| {
                text.len() > 6 && !shown.iter().any(|shown| shown.contains(text.as_str()))
            };
            let hidden: Vec<&String> = all.iter().filter(is_hidden).collect();
            let memory = bytes(column);
            let memory = String::from_utf8_lossy(&memory);
            let extra = column.as_any_dictionary_opt().map_or(0, |dictionary| {
                texts(dictionary.values()).filter(|value| !shown.contains(value)).count()
            });
            in_memory +=
                hidden.iter().filter(|text| memory.contains(text.as_str())).count().max(extra);
            in_stream += hidden.iter().filter(|text| stream.contains(text.as_str())).count();
            hidden_values += hidden.len();
        }
    }
    (in_memory, in_stream, hidden_values)
}

#[tokio::test]
async fn batches_hold_no_value_of_rows_that_are_not_shown() {
    let context = session();
    let release = run(&context, &format!("SELECT * FROM {RELEASE}")).await;
    assert_eq!(release.iter().map(RecordBatch::num_rows).sum::<usize>(), 2000);
    // The control is what a limit does: it slices.
    let (in_memory, in_stream, hidden) = found(&[release[0].slice(0, 7)], &release);
    println!(
        "control: {in_memory} hidden values in memory, {in_stream} in the stream, of {hidden}"
    );
    assert!(in_memory > 500 && in_stream > 100, "{in_memory} {in_stream}");
    let queries = [
        "SELECT * FROM RELEASE LIMIT 7",
        "SELECT * FROM RELEASE OFFSET 100 LIMIT 7",
        "SELECT zip, note, viewed FROM RELEASE WHERE occupation = 'Sales'",
        "SELECT * FROM RELEASE WHERE random() < 0.01",
        "SELECT * FROM RELEASE ORDER BY note LIMIT 7",
        "SELECT age, viewed FROM RELEASE JOIN (VALUES ('Sales')) AS wanted (job) ON occupation = job LIMIT 20",
        "SELECT DISTINCT zip FROM RELEASE WHERE note LIKE '%7'",
        "SELECT zip, max(viewed) AS viewed, min(note) AS note FROM RELEASE GROUP BY zip HAVING min(note) LIKE '%7'",
        "SELECT nullif(arrow_cast(age, 'Utf8'), 'x') AS age, note FROM RELEASE WHERE note LIKE '%9'",
    ];
    let mut checked = 0;
    for cells in [0, 4] {
        run(&context, &format!("SET anonymize.cells = {cells}")).await;
        let release = run(&context, &format!("SELECT * FROM {RELEASE}")).await;
        for query in queries {
            let batches = run(&context, &query.replace("RELEASE", RELEASE)).await;
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let (in_memory, in_stream, hidden) = found(&batches, &release);
            println!("{rows} rows, {hidden} hidden values: {query}");
            assert!(rows > 0 && hidden > 0, "{query}");
            assert_eq!((in_memory, in_stream), (0, 0), "{query}");
            checked += 1;
        }
    }
    assert_eq!(checked, 18);
}

#[tokio::test]
async fn arrow_files_hold_a_release_and_no_other_rows() {
    let context = session();
    let directory = TempDir::new().unwrap();
    let release = run(&context, &format!("SELECT * FROM {RELEASE}")).await;
    assert!(release.len() > 2, "one batch proves nothing");
    for (name, rest, rows) in [("all", "", 2000), ("some", "LIMIT 7", 7)] {
        let path = directory.path().join(format!("{name}.arrow"));
        let (target, query) = (path.display(), format!("SELECT * FROM {RELEASE} {rest}"));
        run(&context, &format!("COPY ({query}) TO '{target}' STORED AS ARROW")).await;
        run(&context, &format!("CREATE EXTERNAL TABLE {name} STORED AS ARROW LOCATION '{target}'"))
            .await;
        let lines = |batches: &[RecordBatch]| {
            let mut lines = Vec::new();
            for batch in batches {
                for row in 0..batch.num_rows() {
                    let cells = batch
                        .columns()
                        .iter()
                        .map(|column| array_value_to_string(column, row).unwrap());
                    lines.push(cells.collect::<Vec<_>>());
                }
            }
            lines
        };
        let read = lines(&run(&context, &format!("SELECT * FROM {name}")).await);
        assert_eq!(read.len(), rows);
        assert_eq!(read, lines(&run(&context, &query).await), "the order of the rows too");
        let file = std::fs::read(&path).unwrap();
        let file = String::from_utf8_lossy(&file);
        let shown: BTreeSet<&String> = read.iter().flatten().collect();
        let notes = release.iter().flat_map(|batch| texts(batch.column_by_name("note").unwrap()));
        let hidden = |note: &String| !shown.iter().any(|shown| shown.contains(note.as_str()));
        let hidden: Vec<String> = notes.filter(hidden).collect();
        assert_eq!(hidden.iter().filter(|note| file.contains(note.as_str())).count(), 0, "{name}");
        assert!(rows == 2000 || hidden.len() > 1000);
    }
}
