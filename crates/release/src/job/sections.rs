//! The sections of a job beside its options: inputs, output, checks.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion_anonymize::Ranges;
use serde::{Deserialize, Serialize};

use super::Job;
use crate::error::{Error, Result};

/// How a table is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Parquet files.
    #[default]
    Parquet,
    /// CSV files with a header.
    Csv,
    /// JSON files, one object a line.
    Json,
}

impl Format {
    /// How files of the format end.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Parquet => ".parquet",
            Self::Csv => ".csv",
            Self::Json => ".json",
        }
    }

    /// The format that a path tells by its ending; directories hold Parquet unless the job says otherwise.
    pub fn of_path(path: &str) -> Self {
        [Self::Csv, Self::Json]
            .into_iter()
            .find(|format| path.ends_with(format.ending()))
            .unwrap_or_default()
    }
}

/// The type of a CSV column, where the job knows it better than the cells tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// As it is written, with leading zeros.
    Text,
    /// A whole number.
    Integer,
    /// A number with a point.
    Number,
    /// A day, as in 2026-11-16.
    Date,
    /// A day and a time.
    Timestamp,
    /// `true` or `false`.
    Boolean,
}

impl ColumnType {
    /// How the column is read.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Text => DataType::Utf8,
            Self::Integer => DataType::Int64,
            Self::Number => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Boolean => DataType::Boolean,
        }
    }
}

/// A table that queries of the job can name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A file, a directory of files or an object-store URL of either.
    pub path: String,
    /// How it is stored; by the ending of the path, or Parquet.
    pub format: Option<Format>,
    /// Columns that are told by directories, as in `year=2026/`, from the outside in.
    #[serde(default)]
    pub partitions: Vec<String>,
    /// What parts the cells of a CSV file.
    pub delimiter: Option<char>,
    /// Whether a CSV file starts with the names of its columns; it does unless the job says otherwise.
    pub header: Option<bool>,
    /// Types of columns of a CSV file, where they are not what the cells look like.
    #[serde(default)]
    pub types: BTreeMap<String, ColumnType>,
}

impl Input {
    /// How the input is stored.
    pub fn format(&self) -> Format {
        self.format.unwrap_or_else(|| Format::of_path(&self.path))
    }

    pub(super) fn check(&self, name: &str) -> Result<()> {
        if self.path.is_empty() {
            return Err(Error::job(format!(
                "input '{name}': path is empty; name a file or a directory"
            )));
        }
        let told = self.delimiter.is_some() || self.header.is_some() || !self.types.is_empty();
        if self.format() != Format::Csv && told {
            return Err(Error::job(format!(
                "input '{name}': delimiter, header and types are for CSV; write format = \"csv\""
            )));
        }
        if self.delimiter.is_some_and(|delimiter| !delimiter.is_ascii()) {
            return Err(Error::job(format!(
                "input '{name}': the delimiter must be one ASCII character"
            )));
        }
        Ok(())
    }
}

/// Where a release goes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// A directory or an object-store prefix that holds this job's releases and nothing else.
    pub path: String,
    /// How the files are stored.
    #[serde(default)]
    pub format: Format,
    /// Columns that become directories, from the outside in.
    #[serde(default)]
    pub partition_by: Vec<String>,
    /// How Parquet files are compressed, such as `zstd(3)` or `snappy`.
    pub compression: Option<String>,
    /// The most rows of one file, about.
    pub rows_per_file: Option<NonZeroUsize>,
    /// How many older releases stay beside the current one, so that their readers can finish.
    #[serde(default = "two")]
    pub keep: usize,
}

fn two() -> usize {
    2
}

impl Output {
    /// An output with the defaults of everything but its place.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            format: Format::Parquet,
            partition_by: Vec::new(),
            compression: None,
            rows_per_file: None,
            keep: two(),
        }
    }

    pub(super) fn check(&self, job: &Job) -> Result<()> {
        let Self { path, .. } = self;
        if path.trim_matches('/').is_empty() {
            return Err(Error::job("output: path must name a directory or a prefix of its own"));
        }
        if path.contains(['*', '?', '[', ']']) {
            return Err(Error::job(format!(
                "output: path '{path}' is a pattern of names; write a name without *, ?, [ and ]"
            )));
        }
        if job.has_two_tables() && !self.partition_by.is_empty() {
            return Err(Error::job(format!(
                "output: partition_by is for one table; method '{}' publishes two",
                job.method()?
            )));
        }
        if self.compression.is_some() && self.format != Format::Parquet {
            return Err(Error::job("output: compression is for format = \"parquet\""));
        }
        let columns = &self.partition_by;
        if let Some(twice) = (1..columns.len()).find(|at| columns[..*at].contains(&columns[*at])) {
            return Err(Error::job(format!(
                "output: partition_by names '{}' twice",
                columns[twice]
            )));
        }
        Ok(())
    }
}

/// What must hold before a release is published, beside the options' own requirement.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Checks {
    /// The smallest class that may be published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_k: Option<NonZeroU64>,
    /// The fewest different sensitive values of a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_l: Option<NonZeroU64>,
    /// The smallest entropy of a class, as the l whose logarithm it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_entropy_l: Option<f64>,
    /// The largest distance of a class to the whole table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_t: Option<f64>,
    /// The largest share of one sensitive value in a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_alpha: Option<f64>,
    /// The largest loss (NCP of all cells), from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_loss: Option<f64>,
    /// The largest loss of single columns.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(default)]
    pub max_column_loss: BTreeMap<String, f64>,
    /// The largest share of suppressed rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_suppressed: Option<f64>,
    /// The fewest rows that make a release: fewer mean that the input is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rows: Option<NonZeroU64>,
    /// The largest share of tonight's persons that a series has not seen before; half of them without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_new: Option<f64>,
    /// The largest share of the persons of the last night who may be missing tonight; half of them without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_gone: Option<f64>,
    /// The smallest share of the cohorts of a series that still publish what is known tonight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_live: Option<f64>,
}

impl Checks {
    pub(super) fn check(&self, job: &Job) -> Result<()> {
        let shares = [
            ("max_t", self.max_t),
            ("max_alpha", self.max_alpha),
            ("max_loss", self.max_loss),
            ("max_suppressed", self.max_suppressed),
            ("max_new", self.max_new),
            ("max_gone", self.max_gone),
            ("min_live", self.min_live),
        ];
        let columns = self.max_column_loss.iter();
        let columns = columns.map(|(column, limit)| (column.as_str(), Some(*limit)));
        for (name, limit) in shares.into_iter().chain(columns) {
            if limit.is_some_and(|limit| !(0.0..=1.0).contains(&limit)) {
                return Err(Error::job(format!("checks: {name} must be between 0 and 1")));
            }
        }
        let of_series = [self.max_new, self.max_gone, self.min_live];
        if job.series.is_none() && of_series.iter().any(Option::is_some) {
            return Err(Error::job(
                "checks: max_new, max_gone and min_live are about releases that follow each other; write [series] with \
                 state = \"…\", or leave them out",
            ));
        }
        if self.min_entropy_l.is_some_and(|l| !l.is_finite() || l < 1.0) {
            return Err(Error::job("checks: min_entropy_l must be 1 or more"));
        }
        let wants_loss = self.max_loss.is_some() || !self.max_column_loss.is_empty();
        if wants_loss && job.has_two_tables() {
            return Err(Error::job(format!(
                "checks: method '{}' publishes quasi-identifiers as they are, so there is no loss to check; leave \
                 out max_loss and max_column_loss",
                job.method()?
            )));
        }
        if wants_loss && job.anonymize.ranges.is(Ranges::Mean) {
            return Err(Error::job(
                "checks: means do not tell what they lost; leave out max_loss, or ranges = \"mean\"",
            ));
        }
        if job.has_constraints()
            && (self.min_l.is_some()
                || self.min_entropy_l.is_some()
                || self.max_t.is_some()
                || self.max_alpha.is_some())
        {
            return Err(Error::job(
                "checks: this method keeps constraints on columns, so classes are not measured; leave out \
                 min_l, min_entropy_l, max_t and max_alpha",
            ));
        }
        Ok(())
    }
}
