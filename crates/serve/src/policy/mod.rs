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
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anonymize_release::job::Input;
use serde::Deserialize;

pub use server::{Server, Tls};
pub use user::{Login, User};
pub use view::{View, in_policy};

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

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    #[serde(default)]
    server: server::Section,
    #[serde(default)]
    sources: BTreeMap<String, Input>,
    #[serde(default)]
    views: BTreeMap<String, view::Section>,
    #[serde(default)]
    users: BTreeMap<String, user::Section>,
}

impl Policy {
    /// Reads a policy file. Relative paths in it start where it is.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let (text, directory) = open(path)?;
        let policy = Self::from_toml(&text, &directory);
        policy.map_err(|error| Error::setup(format!("{shown}: {error}")))
    }

    /// Reads the text of a policy; relative paths start at `directory`.
    pub fn from_toml(text: &str, directory: &Path) -> Result<Self> {
        let file: PolicyFile = toml::from_str(text).map_err(|error| wrong_toml(text, &error))?;
        let server = file.server.resolve(directory)?;
        let views = views(file.views, &file.sources, directory, &server)?;
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

    /// A view of a policy file, for whoever looks after its series and serves nobody.
    pub fn read_view(path: &Path, name: &str) -> Result<View> {
        let shown = path.display();
        let (text, directory) = open(path)?;
        let file: Result<PolicyFile> =
            toml::from_str(&text).map_err(|error| wrong_toml(&text, &error));
        let views = file.and_then(|file| {
            let server = file.server.resolve(&directory)?;
            views(file.views, &file.sources, &directory, &server)
        });
        let mut views = views.map_err(|error| Error::setup(format!("{shown}: {error}")))?;
        views
            .remove(name)
            .ok_or_else(|| Error::setup(format!("{shown}: there is no [views.{name}]")))
    }

    /// What somebody should know of the views before they are served.
    pub fn warnings(&self) -> Vec<String> {
        let is_refreshed = |name: &String| {
            let by_request = |user: &User| user.may_refresh && user.views.contains(name);
            self.server.poll.is_some() || self.users.values().any(by_request)
        };
        let views = self.views.iter().filter(|(name, _)| is_refreshed(name));
        views.filter_map(|(name, view)| view.warning(name)).collect()
    }
}

/// The text of a policy, and where its relative paths start.
fn open(path: &Path) -> Result<(String, PathBuf)> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::setup(format!("cannot read {}: {error}", path.display())))?;
    let directory = std::path::absolute(path)
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned))
        .unwrap_or_default();
    Ok((text, directory))
}

fn views(
    sections: BTreeMap<String, view::Section>,
    sources: &BTreeMap<String, Input>,
    directory: &Path,
    server: &Server,
) -> Result<BTreeMap<String, View>> {
    if sections.is_empty() {
        return Err(Error::setup(
            "there is no view: write [views.NAME] with anonymize = { k = 10, … }",
        ));
    }
    let mut views = BTreeMap::new();
    for (name, section) in sections {
        let wrong =
            |message: String| Error::setup(format!("views.{name}: {}", in_policy(&name, &message)));
        let job = section.job(&name, sources, directory, &server.state).map_err(wrong)?;
        view::check_series(&job, sources, &server.state, &views).map_err(wrong)?;
        views.insert(name, View { job });
    }
    Ok(views)
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
