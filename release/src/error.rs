//! Why a job ends without a release.

use datafusion::error::DataFusionError;
use datafusion_anonymize::engine::without_values;

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
        let shown = without_values(error);
        Self::Failed(format!("{step}: {}", shown.strip_backtrace()))
    }

    /// The engine refused what the job asks for.
    pub fn planning(step: &str, error: DataFusionError) -> Self {
        let shown = without_values(error);
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
