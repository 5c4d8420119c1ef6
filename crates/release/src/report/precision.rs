//! How precise the published cells of a column are.

use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;

use super::distribution::shown_text;
use super::facts::pairs;
use crate::error::Result;
use crate::sql::{ORIGINAL, identifier};

/// Cells of a column by what they still tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Precision {
    /// Published as they were.
    pub(super) exact: u64,
    /// Published as a range, a set or a node of a hierarchy.
    pub(super) general: u64,
    /// Published as `*`.
    pub(super) hidden: u64,
}

impl Precision {
    pub(super) fn total(&self) -> u64 {
        self.exact + self.general + self.hidden
    }
}

/// Counts the cells; nothing for means, which do not tell what they stand for.
pub(super) async fn precision(
    context: &SessionContext,
    table: &str,
    column: &str,
    published: &DataType,
) -> Result<Option<Precision>> {
    if matches!(published, DataType::Float16 | DataType::Float32 | DataType::Float64) {
        return Ok(None);
    }
    let (quoted, table, original) = (identifier(column), identifier(table), identifier(ORIGINAL));
    let label = shown_text(&quoted, published);
    // A column of bounds has NULL where it tells nothing, others a star.
    let hidden = if published.is_nested() { "label IS NULL" } else { "label = '*'" };
    let query = format!(
        "SELECT CASE WHEN {hidden} THEN 'hidden' WHEN label IS NULL OR known.value IS NOT NULL THEN 'exact' \
           ELSE 'general' END, sum(rows)
         FROM (SELECT {label} AS label, count(*) AS rows FROM {table} GROUP BY 1) AS cells
         LEFT JOIN (SELECT DISTINCT arrow_cast({quoted}, 'Utf8') AS value FROM {original}) AS known
           ON cells.label = known.value
         GROUP BY 1"
    );
    let mut found = Precision { exact: 0, general: 0, hidden: 0 };
    for (kind, rows) in pairs(context, &query).await? {
        match kind.as_deref() {
            Some("exact") => found.exact += rows,
            Some("general") => found.general += rows,
            _ => found.hidden += rows,
        }
    }
    Ok(Some(found))
}
