//! `manifest.json`: what a release is, without a value of the data.

use datafusion_anonymize::{Changes, Leavers, round_measure};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::job::Format;

/// The name of the manifest, and of the pointer to the current release.
pub const MANIFEST: &str = "manifest.json";

/// What tells a manifest from any other JSON file.
const KIND: &str = "anonymize-release/1";

/// A release, told without a value of the data and without the seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// `anonymize-release/1`
    pub kind: String,
    /// The name of the job.
    pub name: String,
    /// The release: the time it was begun and a random part.
    pub release: String,
    /// Its directory, from where the pointer is.
    pub location: String,
    /// When it was verified and about to be published, in UTC.
    pub created: String,
    /// The version of this program.
    pub version: String,
    /// Older releases that are still there, the newest first.
    pub previous: Vec<String>,
    /// One table, or two that are joined by the class alone.
    pub tables: Vec<Table>,
    /// The options of `anonymize()`.
    pub options: serde_json::Value,
    /// Rows read and published.
    pub counts: Counts,
    /// What `privacy_report` and `utility_report` say of the files that were written, with three significant digits.
    pub measures: Vec<Measure>,
    /// The checks of the job, all of which hold.
    pub checks: Vec<Check>,
    /// The series that the release belongs to, if it belongs to one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub series: Option<Series>,
}

/// A release as one of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// The series, by the name of its first release.
    pub id: String,
    /// The number of the release, from 1.
    pub night: u64,
    /// The file of the state that belongs to the release, in the folder that the job names.
    pub state: String,
    /// The SHA-256 of that file.
    pub state_sha256: String,
    /// What becomes of a cohort of which a member is missing.
    pub leavers: Leavers,
    /// Whether changed sensitive values are published.
    pub changes: Changes,
    /// Cohorts of this release.
    pub cohorts: u64,
    /// Those among them that repeat their last rows.
    pub cohorts_held: u64,
    /// Rows of those.
    pub rows_held: u64,
    /// Persons who wait for a cohort and are not published yet.
    pub persons_waiting: u64,
}

/// A published table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Table {
    /// `published`, or `quasi_identifiers` and `sensitive`.
    pub name: String,
    /// Its directory, from where the pointer is.
    pub location: String,
    /// How its files are stored.
    pub format: Format,
    /// Columns that directories tell, from the outside in.
    pub partitioned_by: Vec<String>,
    /// The columns.
    pub schema: Vec<Column>,
    /// All of its rows.
    pub rows: u64,
    /// The files.
    pub files: Vec<File>,
}

/// A published column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub r#type: String,
    /// Whether a cell may be missing.
    pub nullable: bool,
}

/// A file of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Where it is, from where the pointer is.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes.
    pub sha256: String,
}

/// Rows of both sides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows of the input.
    pub rows_original: u64,
    /// Rows of the release.
    pub rows_published: u64,
    /// Rows that were left out, or publish nothing of their quasi-identifiers.
    pub rows_suppressed: u64,
}

/// One measure of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Its name.
    pub measure: String,
    /// The column it is of, none for the whole table.
    pub column: Option<String>,
    /// Its value, if it can be told.
    pub value: Option<f64>,
    /// What was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<f64>,
    /// Whether that holds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub holds: Option<bool>,
}

impl Measure {
    /// The measure as it is stored and served. Whether it holds was found before.
    pub(crate) fn told(self) -> Self {
        let value = self.value.map(|value| round_measure(&self.measure, value));
        Self { value, ..self }
    }

    /// Whether anything was asked of it.
    pub fn is_asked(&self) -> bool {
        self.target.is_some() || self.holds.is_some()
    }

    /// Whether what was asked does not hold. What cannot be told does not hold.
    pub fn is_broken(&self) -> bool {
        self.is_asked() && self.holds != Some(true)
    }
}

/// One check of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub check: String,
    /// The column it is about.
    pub column: Option<String>,
    /// The limit that the job sets.
    pub limit: f64,
    /// What was measured.
    pub value: Option<f64>,
    /// Whether the limit is kept.
    pub holds: bool,
}

impl Manifest {
    /// A manifest of this version of the program.
    pub(crate) fn kind() -> String {
        KIND.to_owned()
    }

    /// The manifest in a JSON text, `whose` file it is.
    pub fn from_json(bytes: &[u8], whose: &str) -> Result<Self> {
        let parsed: Result<Self, _> = serde_json::from_slice(bytes);
        match parsed {
            Ok(manifest) if manifest.kind == KIND => Ok(manifest),
            _ => Err(Error::Failed(format!(
                "'{whose}' is not the manifest of a release by this program: choose another place, or move \
                 the file away"
            ))),
        }
    }

    /// The text of the file.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::storage("the manifest cannot be written", error))?;
        Ok(text + "\n")
    }

    /// A measure of the whole table.
    pub fn measure(&self, name: &str) -> Option<f64> {
        self.measures.iter().find(|m| m.measure == name && m.column.is_none()).and_then(|m| m.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_does_not_hold() {
        let measure = |target, holds| Measure {
            measure: "t".to_owned(),
            column: None,
            value: None,
            target,
            holds,
        };
        assert!(measure(Some(0.2), None).is_broken());
        assert!(measure(Some(0.2), Some(false)).is_broken());
        assert!(!measure(Some(0.2), Some(true)).is_broken());
        assert!(!measure(None, None).is_broken());
    }
}
