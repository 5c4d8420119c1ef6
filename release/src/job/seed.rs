//! The secret of a job: where it comes from.

use std::fmt;

use serde::Deserialize;

use super::Job;
use crate::error::{Error, Result};

/// Where the seed comes from. It is a secret, so a job file that is shared names a variable or a file.
#[derive(Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "the seed must be a text, a whole number, { env = \"NAME\" } or { file = \"path\" }"
)]
pub enum SeedSource {
    /// In the job file.
    Number(i64),
    /// In the job file.
    Text(String),
    /// In an environment variable.
    Environment(FromEnvironment),
    /// In a file of its own; the end of the line does not count.
    File(FromFile),
}

/// `{ env = "NAME" }`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromEnvironment {
    env: String,
}

/// `{ file = "path" }`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromFile {
    file: String,
}

/// What is written is a secret.
impl fmt::Debug for SeedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeedSource(secret)")
    }
}

impl SeedSource {
    /// The secret itself.
    pub fn reveal(&self, job: &Job) -> Result<String> {
        let seed = match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
            Self::Environment(FromEnvironment { env }) => std::env::var(env).map_err(|_| {
                Error::job(format!(
                    "the seed: the environment has no variable '{env}'; set it to the secret"
                ))
            })?,
            Self::File(FromFile { file }) => {
                let text = std::fs::read_to_string(job.locate(file)).map_err(|error| {
                    Error::job(format!("the seed: cannot read '{file}': {error}"))
                })?;
                text.trim_end_matches(['\r', '\n']).to_owned()
            }
        };
        if seed.is_empty() {
            return Err(Error::job("the seed is empty: anybody could guess it"));
        }
        Ok(seed)
    }
}
