//! Attackers who know the method, the options and everybody's quasi-identifiers, and not the seed.
//!
//! One file per attacker. Each shows that its attack works where it should (a control), asserts a bound on
//! what it gains from a release, and prints the figures that `docs/privacy.md` quotes.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod alpha_k;
mod classes;
mod definetti;
mod equal_tuples;
mod hidden_values;
mod minimality;
mod persons;
mod slicing;
mod suppressed;
mod ties;

use std::path::PathBuf;

use datafusion::arrow::array::Array;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use datafusion::prelude::*;

/// A session with the functions.
fn session() -> SessionContext {
    let context = SessionContext::new();
    datafusion_anonymize::register_all(&context).unwrap();
    anonymize_sample::register(&context).unwrap();
    context
}

/// Every cell of a query's result as text, `None` for NULL.
async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
    let batches = context.sql(sql).await?.collect().await?;
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<ArrayFormatter> = (batch.columns().iter())
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<std::result::Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cell = |at: usize| {
                let present = !batch.column(at).is_null(row);
                present.then(|| columns[at].value(row).to_string())
            };
            rows.push((0..columns.len()).map(cell).collect());
        }
    }
    Ok(rows)
}

/// Where the Adult census is, or a note that the test is skipped.
fn adult(test: &str) -> Option<PathBuf> {
    let directory = std::env::var_os("ADULT_DIR").map(PathBuf::from);
    if directory.is_none() {
        println!("{test}: SKIPPED, nothing was checked: ADULT_DIR is not set");
    }
    directory
}
