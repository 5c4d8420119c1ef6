//! Attackers who know the method, the options and everybody's quasi-identifiers, and not the seed.
//!
//! One file per attacker. Each shows that its attack works where it should (a control), asserts a bound on
//! what it gains from a release, and prints the figures that `docs/privacy.md` quotes.

mod alpha_k;
mod classes;
mod definetti;
mod equal_tuples;
mod hidden_values;
mod minimality;
mod persons;
mod series;
mod slicing;
mod suppressed;
mod ties;

use datafusion::arrow::array::Array;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use datafusion::prelude::*;

fn session() -> SessionContext {
    crate::session(SessionConfig::new())
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
