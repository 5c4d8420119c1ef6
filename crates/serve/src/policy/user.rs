//! `[users.NAME]`: who may read what.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::View;
use crate::scram::{MECHANISM, Verifier};

/// Somebody who may log in.
#[derive(Debug, Clone)]
pub struct User {
    /// How the user proves who they are.
    pub login: Login,
    /// The views the user sees; there is nothing else.
    pub views: BTreeSet<String>,
    /// Whether the user may ask for a refresh of these views.
    pub may_refresh: bool,
}

/// How a user proves who they are.
#[derive(Debug, Clone)]
pub enum Login {
    /// By the password of this verifier.
    Password(Verifier),
    /// Not at all: for connections from the machine itself.
    Trust,
}

/// `[users.NAME]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    password: Option<String>,
    password_env: Option<String>,
    password_file: Option<PathBuf>,
    #[serde(default)]
    trust: bool,
    views: Vec<String>,
    #[serde(default)]
    may_refresh: bool,
}

// A password may stand in it.
impl std::fmt::Debug for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Section").field("views", &self.views).finish_non_exhaustive()
    }
}

impl Section {
    pub(super) fn resolve(
        self,
        views: &BTreeMap<String, View>,
        directory: &Path,
    ) -> Result<User, String> {
        if let Some(unknown) = self.views.iter().find(|view| !views.contains_key(*view)) {
            return Err(format!("there is no [views.{unknown}]"));
        }
        Ok(User {
            login: self.login(directory)?,
            views: self.views.into_iter().collect(),
            may_refresh: self.may_refresh,
        })
    }

    fn login(&self, directory: &Path) -> Result<Login, String> {
        let verifier = match (&self.password, &self.password_env, &self.password_file, self.trust) {
            (Some(text), None, None, false) => text.parse().map_err(|_| {
                "password is stored hashed: run `anonymize serve --hash-password` and write what it prints, or \
                 name a variable with password_env"
                    .to_owned()
            }),
            (None, Some(name), None, false) => match std::env::var(name) {
                Ok(text) => verifier(&text),
                Err(_) => Err(format!("the variable {name} of password_env is not set")),
            },
            (None, None, Some(path), false) => {
                let text = std::fs::read_to_string(directory.join(path));
                let text = text.map_err(|error| format!("cannot read password_file: {error}"))?;
                verifier(text.trim_end_matches(['\r', '\n']))
            }
            (None, None, None, true) => return Ok(Login::Trust),
            (None, None, None, false) => Err("there is no password: write password, password_env or \
                                              password_file, or trust = true"
                .to_owned()),
            _ => Err("write one of password, password_env, password_file and trust".to_owned()),
        };
        verifier.map(Login::Password)
    }
}

/// The verifier, or that of the password.
fn verifier(text: &str) -> Result<Verifier, String> {
    if text.is_empty() {
        return Err("the password is empty".to_owned());
    }
    if text.starts_with(MECHANISM) {
        return text
            .parse()
            .map_err(|error: &str| format!("the password's hash is damaged: {error}"));
    }
    Verifier::new(text).map_err(|error| error.to_string())
}
