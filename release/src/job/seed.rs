//! The secret of a job: where it comes from.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::Job;
use crate::error::{Error, Result};

/// Where the seed comes from. It is a secret, so a job file that is shared names a variable or a file.
#[derive(Clone)]
pub enum SeedSource {
    /// In the job file.
    Text(String),
    /// In an environment variable.
    Environment(String),
    /// In a file of its own; the end of the line does not count.
    File(String),
}

/// By hand, because messages of the derived code may repeat what they could not read.
impl<'de> Deserialize<'de> for SeedSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || {
            D::Error::custom(
                "the seed must be a text, a whole number, { env = \"NAME\" } or { file = \"path\" }",
            )
        };
        match toml::Value::deserialize(deserializer).map_err(|_| wrong())? {
            toml::Value::Integer(number) => Ok(Self::Text(number.to_string())),
            toml::Value::String(text) => Ok(Self::Text(text)),
            toml::Value::Table(table) => match table.into_iter().collect::<Vec<_>>().as_slice() {
                [(key, toml::Value::String(name))] if key == "env" => {
                    Ok(Self::Environment(name.clone()))
                }
                [(key, toml::Value::String(path))] if key == "file" => Ok(Self::File(path.clone())),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
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
            Self::Text(text) => text.clone(),
            Self::Environment(env) => std::env::var(env).map_err(|_| {
                Error::job(format!(
                    "the seed: the environment has no variable '{env}'; set it to the secret"
                ))
            })?,
            Self::File(file) => {
                let text = std::fs::read_to_string(job.locate(file)).map_err(|error| {
                    Error::job(format!("the seed: cannot read '{file}': {error}"))
                })?;
                text.trim_end_matches(['\r', '\n']).to_owned()
            }
        };
        if seed.is_empty() {
            return Err(Error::job(
                "the seed is empty: write a secret of 16 characters or more (openssl rand -hex 16 prints one)",
            ));
        }
        Ok(seed)
    }
}
