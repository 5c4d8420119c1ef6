//! The tests that drive the SQL functions, in one program: linking DataFusion takes longer than most of them.
//!
//! `cargo test --test integration faults::` runs one folder. Tests share a process, so none changes its environment,
//! its directory or its limits; files go to temporary directories, and every test has sessions of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod attacks;
mod faults;
mod invariants;
mod papers;
mod reports;
mod series;
mod sql;

use std::path::PathBuf;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::{SessionConfig, SessionContext};

/// A session with the functions.
fn session(config: SessionConfig) -> SessionContext {
    with_functions(SessionContext::new_with_config(config))
}

/// The session, with the functions.
fn with_functions(context: SessionContext) -> SessionContext {
    datafusion_anonymize::register_all(&context).unwrap();
    anonymize_sample::register(&context).unwrap();
    context
}

/// Every cell as text.
fn texts(batches: &[RecordBatch], null: &str) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null(null);
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<ArrayFormatter> =
            columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect();
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows
}

/// Where the Adult census is, or a note that the test is skipped.
fn adult(test: &str) -> Option<PathBuf> {
    let directory = std::env::var_os("ADULT_DIR").map(PathBuf::from);
    if directory.is_none() {
        println!("{test}: SKIPPED, nothing was checked: ADULT_DIR is not set");
    }
    directory
}
