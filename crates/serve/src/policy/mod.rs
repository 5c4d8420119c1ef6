//! Who sees what: the policy file.
//!
//! ```toml
//! [server]
//! listen = "127.0.0.1:5433"
//! state = "state"                        # where releases are kept between restarts
//!
//! [sources.patients]                     # raw, never visible to a client
//! path = "lake/patients/"
//!
//! [views.patients_k10]                   # one anonymize query with fixed options
//! query = "SELECT age, zip, disease FROM patients"
//! anonymize = { k = 10, quasi_identifiers = ["age", "zip"], sensitive = ["disease"], seed = { env = "SEED" } }
//!
//! [users.analyst]
//! password = "SCRAM-SHA-256$4096:…"      # anonymize serve --hash-password
//! views = ["patients_k10"]
//! ```

mod server;
mod user;

use std::collections::BTreeMap;
use std::path::Path;

use anonymize_release::Job;
use anonymize_release::job::{Checks, Input, Output};
use datafusion_anonymize::Options;
use serde::Deserialize;

pub use server::{Server, Tls};
pub use user::{Login, User};

use crate::error::{Error, Result};

/// A policy file, checked.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How and where it is served.
    pub server: Server,
    /// What is served: every view with the job that makes its release.
    pub views: BTreeMap<String, View>,
    /// Who may read what.
    pub users: BTreeMap<String, User>,
}

/// A published view.
#[derive(Debug, Clone)]
pub struct View {
    /// The job that makes a release of it.
    pub job: Job,
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    #[serde(default)]
    server: server::Section,
    #[serde(default)]
    sources: BTreeMap<String, Input>,
    #[serde(default)]
    views: BTreeMap<String, ViewSection>,
    #[serde(default)]
    users: BTreeMap<String, user::Section>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewSection {
    /// The sources that the query names; all of them without it.
    sources: Option<Vec<String>>,
    query: Option<String>,
    anonymize: Options,
    #[serde(default)]
    checks: Checks,
}

impl Policy {
    /// Reads a policy file. Relative paths in it start where it is.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::setup(format!("cannot read {shown}: {error}")))?;
        let directory = std::path::absolute(path)
            .ok()
            .and_then(|path| path.parent().map(Path::to_owned))
            .unwrap_or_default();
        let policy = Self::from_toml(&text, &directory);
        policy.map_err(|error| Error::setup(format!("{shown}: {error}")))
    }

    /// Reads the text of a policy; relative paths start at `directory`.
    pub fn from_toml(text: &str, directory: &Path) -> Result<Self> {
        let file: PolicyFile = toml::from_str(text).map_err(|error| wrong_toml(text, &error))?;
        let server = file.server.resolve(directory)?;
        if file.views.is_empty() {
            return Err(Error::setup(
                "there is no view: write [views.NAME] with anonymize = { k = 10, … }",
            ));
        }
        let mut views = BTreeMap::new();
        for (name, section) in file.views {
            let wrong = |message: String| Error::setup(format!("views.{name}: {message}"));
            check_name(&name).map_err(wrong)?;
            let job = section.job(&name, &file.sources, directory, &server.state).map_err(wrong)?;
            views.insert(name, View { job });
        }
        let mut users = BTreeMap::new();
        for (name, section) in file.users {
            let user = section
                .resolve(&views, directory)
                .map_err(|message| Error::setup(format!("users.{name}: {message}")))?;
            users.insert(name, user);
        }
        if users.is_empty() {
            return Err(Error::setup(
                "there is no user: write [users.NAME] with password = \"…\" and views = [\"…\"]",
            ));
        }
        Ok(Self { server, views, users })
    }
}

impl ViewSection {
    fn job(
        self,
        name: &str,
        sources: &BTreeMap<String, Input>,
        directory: &Path,
        state: &Path,
    ) -> Result<Job, String> {
        let mut inputs = sources.clone();
        if let Some(wanted) = &self.sources {
            if let Some(unknown) = wanted.iter().find(|source| !sources.contains_key(*source)) {
                return Err(format!("there is no [sources.{unknown}]"));
            }
            inputs.retain(|source, _| wanted.contains(source));
        }
        if inputs.is_empty() {
            return Err(match self.sources {
                Some(_) => {
                    "sources names none: name those of the query, or leave it out for all of them"
                }
                None => "there is no source: write [sources.NAME] with path = \"…\"",
            }
            .to_owned());
        }
        let mut output = Output::new(format!("{}/", state.join(name).display()));
        // The release before the current one stays for the queries that read it.
        output.keep = 1;
        let job = Job {
            name: name.to_owned(),
            query: self.query,
            inputs,
            anonymize: self.anonymize,
            output,
            checks: self.checks,
            series: None,
            directory: directory.to_owned(),
        };
        job.check().map_err(|error| error.to_string())?;
        if job.has_two_tables() {
            let method = job.method().map_err(|error| error.to_string())?;
            return Err(format!(
                "method '{method}' publishes two tables that must not be joined; a view is one table: choose another \
                 method"
            ));
        }
        Ok(job)
    }
}

/// Names of views never need quotes, so that no client has to know how they were written.
fn check_name(name: &str) -> Result<(), String> {
    let starts = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !starts || !name.chars().all(plain) {
        return Err("write the name in lower-case letters, digits and _".to_owned());
    }
    if name.starts_with("pg_") {
        return Err("names that start with pg_ belong to the catalog; choose another".to_owned());
    }
    Ok(())
}

/// A mistake in the text, by line. The line itself is not repeated: it may hold a secret.
fn wrong_toml(text: &str, error: &toml::de::Error) -> Error {
    let line = error.span().map(|span| {
        let before = text.get(..span.start).unwrap_or(text);
        format!("line {}: ", before.matches('\n').count() + 1)
    });
    Error::setup(format!("{}{}", line.unwrap_or_default(), error.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit_share(written: &str) -> Result<Option<f64>> {
        let text = format!(
            "[sources.visits]\npath = \"visits.parquet\"\n[views.visits.anonymize]\nk = 5\n\
             quasi_identifiers = [\"age\"]\nprivacy_unit = \"person\"\nunit_share = {written}\n\
             [users.reader]\ntrust = true\nviews = [\"visits\"]\n"
        );
        let policy = Policy::from_toml(&text, Path::new("/policies"))?;
        Ok(policy.views.get("visits").and_then(|view| view.job.anonymize.unit_share))
    }

    #[test]
    fn a_view_bounds_what_one_person_holds_of_a_class() {
        assert!(matches!(unit_share("0.5"), Ok(Some(0.5))));
        assert!(unit_share("\"half\"").is_err());
    }
}
