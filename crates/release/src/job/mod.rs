//! What a job file asks for.
//!
//! ```toml
//! name  = "patients"                                    # how the release is called
//! query = "SELECT * FROM patients WHERE year = 2026"    # needed with more than one input
//!
//! [input.patients]
//! path = "lake/patients/"                               # relative to the job file, or s3://…
//!
//! [anonymize]                                           # every option of anonymize()
//! k = 10
//! quasi_identifiers = ["age", "zip"]
//! sensitive = ["disease"]
//! identifiers = ["name"]
//! seed = { env = "PATIENTS_SEED" }
//!
//! [anonymize.hierarchies]
//! age = { intervals = [5, 10, 20] }
//!
//! [output]
//! path = "s3://bucket/releases/patients/"
//! partition_by = ["year"]
//!
//! [checks]
//! max_loss = 0.3
//! max_suppressed = 0.02
//!
//! [series]                                              # releases that follow each other
//! state = "s3://private/patients-series/"
//! ```

mod names;
mod options;
mod sections;
mod seed;
mod series;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use datafusion_anonymize::Options;
use serde::Deserialize;

pub use sections::{Checks, ColumnType, Format, Input, Output};
pub use series::Series;

use crate::error::{Error, Result};

/// Names that start so are the job's own.
const RESERVED: &str = "__";

/// A release job, as its file says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// How the release is called in messages and in the manifest.
    #[serde(default)]
    pub name: String,
    /// The rows to release, over the named inputs; all rows of the only input without it.
    pub query: Option<String>,
    /// Tables by the names that the queries use.
    #[serde(default, rename = "input")]
    pub inputs: BTreeMap<String, Input>,
    /// How the rows are anonymized.
    pub anonymize: Options,
    /// Where the release goes.
    pub output: Output,
    /// What must hold before anything is published.
    #[serde(default)]
    pub checks: Checks,
    /// What makes the releases a series, whose nights cannot be compared.
    pub series: Option<Series>,
    /// Where relative paths start: the directory of the job file.
    #[serde(skip)]
    pub directory: PathBuf,
}

impl Job {
    /// Reads a job file.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::job(format!("cannot read {shown}: {error}")))?;
        let directory = std::path::absolute(path)
            .ok()
            .and_then(|path| path.parent().map(Path::to_owned))
            .unwrap_or_default();
        let mut job = Self::from_toml(&text, &directory)
            .map_err(|error| Error::job(format!("{shown}: {error}")))?;
        if job.name.is_empty() {
            job.name = path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default();
        }
        Ok(job)
    }

    /// Reads the text of a job; relative paths start at `directory`.
    pub fn from_toml(text: &str, directory: &Path) -> Result<Self> {
        let mut job: Self = toml::from_str(text).map_err(|error| wrong_toml(text, &error))?;
        job.directory = directory.to_owned();
        job.check()?;
        Ok(job)
    }

    /// The rows to release: the query, or all rows of the only input.
    pub fn source(&self) -> Result<String> {
        match (&self.query, self.inputs.len()) {
            (Some(query), _) => Ok(query.clone()),
            (None, 1) => {
                let names: Vec<String> =
                    self.inputs.keys().map(|name| crate::sql::identifier(name)).collect();
                Ok(format!("SELECT * FROM {}", names.join("")))
            }
            (None, 0) => Err(Error::job(
                "there is no input: write [input.patients] with path = \"lake/patients/\", or query = \"SELECT …\"",
            )),
            (None, _) => Err(Error::job(format!(
                "there are several inputs ({}): say which rows to release with query = \"SELECT …\"",
                self.inputs.keys().cloned().collect::<Vec<_>>().join(", ")
            ))),
        }
    }

    /// A path of the job, from where the job file is; URLs stay as they are.
    pub fn locate(&self, path: &str) -> String {
        if path.contains("://") {
            return path.to_owned();
        }
        let joined = self.directory.join(path);
        let absolute = std::path::absolute(&joined).unwrap_or(joined);
        let mut located = absolute.display().to_string();
        if path.ends_with('/') && !located.ends_with('/') {
            located.push('/');
        }
        located
    }

    /// Tomorrow's input must not be today's release.
    fn check_apart(&self, name: &str, input: &Input) -> Result<()> {
        match self.are_in_one_another(&input.path, &self.output.path) {
            true => Err(Error::job(format!(
                "the output '{}' and input '{name}' are in one another: the next run would read this release; \
                 choose another place",
                self.output.path
            ))),
            false => Ok(()),
        }
    }

    /// Whether two paths are the same place or one is inside the other, whatever links lead there.
    pub fn are_in_one_another(&self, one: &str, other: &str) -> bool {
        let (one, other) = (real(&self.locate(one)), real(&self.locate(other)));
        one.starts_with(&other) || other.starts_with(&one)
    }

    /// Whether the job can be followed; jobs that were read from a text have been asked.
    pub fn check(&self) -> Result<()> {
        self.source()?;
        for (name, input) in &self.inputs {
            if name.starts_with(RESERVED) || name.is_empty() {
                return Err(Error::job(format!(
                    "input '{name}': names that start with {RESERVED} are the job's own; choose another"
                )));
            }
            input.check(name)?;
            self.check_apart(name, input)?;
        }
        self.check_options()?;
        self.output.check(self)?;
        if let Some(series) = &self.series {
            series.check(self)?;
        }
        self.checks.check(self)
    }
}

/// A path as a directory, whatever links lead there. Of a path that is not there yet, as far as it is.
fn real(path: &str) -> String {
    let with_slash = |path: &str| format!("{}/", path.trim_end_matches('/'));
    let local = path.strip_prefix("file://").unwrap_or(path);
    if local.contains("://") {
        return with_slash(local);
    }
    let there = Path::new(local).ancestors().find_map(|ancestor| {
        let rest = Path::new(local).strip_prefix(ancestor).ok()?;
        Some(ancestor.canonicalize().ok()?.join(rest))
    });
    match there {
        Some(path) => with_slash(&path.display().to_string()),
        None => with_slash(local),
    }
}

/// A mistake in the text, by line. The line itself is not repeated: it may hold the seed.
fn wrong_toml(text: &str, error: &toml::de::Error) -> Error {
    let line = error.span().map(|span| {
        let before = text.get(..span.start).unwrap_or(text);
        format!("line {}: ", before.matches('\n').count() + 1)
    });
    let message = match error.message() {
        "missing field `output`" => {
            "the section [output] is missing: write [output] and path = \"…\"".to_owned()
        }
        "missing field `anonymize`" => {
            "the section [anonymize] is missing: write [anonymize], k = 10 and the roles of all columns"
                .to_owned()
        }
        "missing field `path`" => "path is missing: write path = \"…\"".to_owned(),
        message => message.to_owned(),
    };
    Error::job(format!("{}{message}", line.unwrap_or_default()))
}
