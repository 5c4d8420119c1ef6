//! Why a job ends without a release.

use datafusion::error::DataFusionError;
use datafusion_anonymize::redact_values;

/// Where a run and a dry run write.
const STAGING: &str = ".staging/";
const SCRATCH: &str = "anonymize-dry-run-";

/// The outcome of anything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a job ends without a release. No message quotes a cell of the data or a seed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job cannot be followed as it is written: nothing ran.
    #[error("{0}")]
    Job(String),
    /// The release was made and does not keep what was asked of it.
    #[error("not published, because {}", .0.join("; "))]
    Unmet(Vec<String>),
    /// Another run of a job works on the same output.
    #[error("{0}")]
    Busy(String),
    /// Somebody asked the run to stop.
    #[error("stopped before anything was published")]
    Cancelled,
    /// A step failed; the text says which one and why.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// A mistake in the job.
    pub fn job(message: impl Into<String>) -> Self {
        Self::Job(message.into())
    }

    /// A query failed while the job was at `step`.
    pub fn query(step: &str, error: DataFusionError) -> Self {
        let shown = redact_values(error);
        Self::Failed(format!("{step}: {}", without_staged_paths(&shown.strip_backtrace())))
    }

    /// The engine refused what the job asks for.
    pub fn planning(step: &str, error: DataFusionError) -> Self {
        let shown = redact_values(error);
        let text = shown.strip_backtrace();
        let text = text.strip_prefix("Error during planning: ").unwrap_or(&text);
        let parser = text.strip_prefix("SQL error: ParserError(\"");
        let text = parser.and_then(|text| text.strip_suffix("\")")).unwrap_or(text);
        Self::Job(format!("{step}: {text}"))
    }

    /// A file or an object could not be read or written.
    pub fn storage(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{what}: {error}"))
    }
}

/// Directories of a release are named by values, and a message may name a directory that could not be
/// made: nothing below the staging place is repeated, except why the system refused.
fn without_staged_paths(text: &str) -> String {
    let places =
        [STAGING, SCRATCH].iter().filter_map(|place| text.find(place).map(|at| (at, place)));
    let Some((at, place)) = places.min() else { return text.to_owned() };
    let kept = &text[..at + place.len()];
    let reason = text.rfind("(os error").and_then(|end| {
        let from = text[..end].rfind(": ")?;
        let until = end + text[end..].find(')')? + 1;
        (from > at).then(|| &text[from..until])
    });
    format!("{kept}…{}", reason.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_are_named_by_values_are_not_repeated() {
        let text = "Object Store error: Unable to create dir /o/.staging/2026/published/ill=HIV: x/a.parquet: File \
                    name too long (os error 36)";
        assert_eq!(
            without_staged_paths(text),
            "Object Store error: Unable to create dir /o/.staging/…: File name too long (os error 36)"
        );
        let text = "bad file '/tmp/anonymize-dry-run-x/published/ill=HIV/a.parquet'";
        assert_eq!(without_staged_paths(text), "bad file '/tmp/anonymize-dry-run-…");
        assert_eq!(without_staged_paths("out of memory"), "out of memory");
    }
}
