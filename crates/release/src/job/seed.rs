//! The secret of a job: where it comes from.

use datafusion_anonymize::{Secret, SeedSource};

use super::Job;
use crate::error::{Error, Result};

impl Job {
    /// Looks up the seed where the job says that it is. Only who makes a release does: who reports on one need
    /// not know the secret.
    pub(crate) fn reveal_seed(&mut self) -> Result<()> {
        let text = match &self.anonymize.seed {
            None | Some(SeedSource::Given(Ok(_))) => return Ok(()),
            Some(SeedSource::Given(Err(_))) => String::new(),
            Some(SeedSource::Environment(env)) => std::env::var(env).map_err(|_| {
                Error::job(format!(
                    "the seed: the environment has no variable '{env}'; set it to the secret"
                ))
            })?,
            Some(SeedSource::File(file)) => {
                let text = std::fs::read_to_string(self.locate(file)).map_err(|error| {
                    Error::job(format!("the seed: cannot read '{file}': {error}"))
                })?;
                // The end of the line does not count.
                text.trim_end_matches(['\r', '\n']).to_owned()
            }
        };
        let secret = Secret::from_text(&text).map_err(|_| {
            Error::job(
                "the seed is empty: write a secret of 16 characters or more (openssl rand -hex 16 prints one)",
            )
        })?;
        self.anonymize.seed = Some(SeedSource::Given(Ok(secret)));
        Ok(())
    }

    /// The secret of a series, once it was looked up.
    pub(crate) fn series_secret(&self) -> Result<&Secret> {
        match &self.anonymize.seed {
            Some(SeedSource::Given(Ok(secret))) => Ok(secret),
            _ => Err(Error::job("series: the seed is missing; write seed = { env = \"NAME\" }")),
        }
    }
}
