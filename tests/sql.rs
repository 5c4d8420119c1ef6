//! What the functions do in SQL, pinned statement by statement in `tests/slt/*.slt`.
//!
//! Every file has a session of its own. `$TMP` in a statement is a directory that only this file
//! sees. `SLT_COMPLETE=1 cargo test --test integration sql::` writes the present answers into the files: read the
//! difference before it is kept.

use std::path::{Path, PathBuf};

use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::{SessionConfig, SessionContext};
use sqllogictest::{
    AsyncDB, DBOutput, DefaultColumnType, Runner, default_column_validator, default_validator,
};
use tempfile::TempDir;

use crate::{session, texts};

struct Session {
    context: SessionContext,
    directory: TempDir,
}

/// An error as a user reads it, the session's directory written as `$TMP`.
#[derive(Debug)]
struct Shown(String);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Shown {}

impl Session {
    fn new() -> Result<Self> {
        let config = SessionConfig::new().with_target_partitions(2).with_information_schema(true);
        Ok(Self { context: session(config), directory: TempDir::new()? })
    }

    fn directory(&self) -> String {
        self.directory.path().display().to_string()
    }

    async fn rows(&self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        let sql = sql.replace("$TMP", &self.directory());
        let frame = self.context.sql(&sql).await?;
        let columns = frame.schema().fields().len();
        let batches = frame.collect().await?;
        if columns == 0 {
            return Ok(DBOutput::StatementComplete(0));
        }
        let rows =
            texts(&batches, "NULL").into_iter().map(|row| self.hide_directory(&written(row)));
        let lines =
            rows.flat_map(|row| row.lines().map(|line| vec![line.to_owned()]).collect::<Vec<_>>());
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows: lines.collect() })
    }

    fn hide_directory(&self, text: &str) -> String {
        let directory = self.directory();
        let without_root = directory.trim_start_matches('/');
        text.replace(&directory, "$TMP").replace(without_root, "$TMP")
    }
}

/// Columns apart by ` | `.
fn written(row: Vec<String>) -> String {
    let cell = |cell: String| if cell.is_empty() { "(empty)".to_owned() } else { cell };
    row.into_iter().map(cell).collect::<Vec<_>>().join(" | ")
}

#[async_trait::async_trait]
impl AsyncDB for Session {
    type Error = Shown;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Shown> {
        let shown = |error: DataFusionError| Shown(self.hide_directory(&error.strip_backtrace()));
        self.rows(sql).await.map_err(shown)
    }

    async fn shutdown(&mut self) {}
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there are no files in tests/slt");
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_answers_as_written_down() {
    let complete = std::env::var_os("SLT_COMPLETE").is_some();
    let mut failures = Vec::new();
    for file in files() {
        let mut runner = Runner::new(|| async {
            Session::new().map_err(|error| Shown(error.strip_backtrace()))
        });
        let outcome = if complete {
            let types = default_column_validator;
            let normalizer = sqllogictest::default_normalizer;
            let completed =
                runner.update_test_file(&file, " ", default_validator, normalizer, types).await;
            completed.map_err(|error| error.to_string())
        } else {
            runner.run_file_async(&file).await.map_err(|error| error.display(true).to_string())
        };
        failures.extend(outcome.err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The messages of bad input are half of the interface: that many are pinned word by word.
#[test]
fn at_least_forty_kinds_of_bad_input_are_pinned() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let text = std::fs::read_to_string(directory.join("bad_input.slt")).unwrap();
    assert!(text.lines().filter(|line| *line == "query error").count() >= 40);
}
