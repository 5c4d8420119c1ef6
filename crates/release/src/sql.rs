//! Names and texts in the queries of a job. Everything that a job says becomes a quoted name or a quoted literal,
//! so nothing in it can be anything else.

/// The rows to release.
pub const ORIGINAL: &str = "__original";
/// What was written, read back.
pub const PUBLISHED: &str = "__published";
/// The second of two tables, read back.
pub const PUBLISHED_SENSITIVE: &str = "__published_sensitive";

/// Who was in which cohort of a series before tonight.
pub const MEMBERS: &str = "__members";
/// Who got a cohort tonight.
pub const NEWCOMERS: &str = "__newcomers";
/// Cohorts that repeat their last rows tonight.
pub const HELD: &str = "__held";
/// Rows of a release of a series that are of tonight.
pub const LIVE: &str = "__live";
/// The last release of a series.
pub const LAST: &str = "__last";

/// A name in double quotes.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in single quotes.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
