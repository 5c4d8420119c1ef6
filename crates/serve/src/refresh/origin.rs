//! What a release was made from, so that a restart knows whether it still fits.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anonymize_release::Job;
use anonymize_release::store::Location;
use datafusion::object_store::ObjectStoreExt;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::Hierarchy;
use futures::TryStreamExt;
use ring::digest;
use serde::{Deserialize, Serialize};

use super::Reason;

/// What a release was made from: hashes, no names and no values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The release.
    pub release: String,
    /// The view's definition, and the program that computed it.
    pub definition: String,
    /// The objects that were read: names, sizes, times and tags.
    pub source: String,
}

impl Origin {
    /// Where the origin of a view's release is kept: beside its directory, which belongs to the job.
    fn path(state: &Path, view: &str) -> PathBuf {
        state.join(format!("{view}.origin.toml"))
    }

    /// The origin of the release that was published last; nothing if it cannot be told.
    pub fn read(state: &Path, view: &str) -> Option<Self> {
        toml::from_str(&std::fs::read_to_string(Self::path(state, view)).ok()?).ok()
    }

    /// Keeps the origin, in one step.
    pub fn write(&self, state: &Path, view: &str) -> Result<(), Reason> {
        let path = Self::path(state, view);
        let Self { release, definition, source } = self;
        let text =
            format!("release = '{release}'\ndefinition = '{definition}'\nsource = '{source}'\n");
        let new = path.with_extension("new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
        written.map_err(|error| Reason::failed(format!("cannot write {}: {error}", path.display())))
    }
}

/// The view's definition. The seed is no part of it: a short one could be guessed from the hash.
pub fn definition(job: &Job) -> String {
    let Job { query, inputs, anonymize, checks, series, directory, .. } = job;
    let version = env!("CARGO_PKG_VERSION");
    hash(&format!(
        "{version} {query:?} {inputs:?} {anonymize:?} {checks:?} {series:?} {directory:?}"
    ))
}

/// What the view is made from, as it is now.
pub async fn source(job: &Job, host: &SessionContext) -> Result<String, Reason> {
    let inputs = job.inputs.values().map(|input| input.path.clone());
    let hierarchies =
        job.anonymize.hierarchies.iter().filter_map(|(_, hierarchy)| match hierarchy {
            Hierarchy::File(path) => Some(path.clone()),
            _ => None,
        });
    let paths: Vec<String> = inputs.chain(hierarchies).collect();
    let mut listed = String::new();
    for path in paths {
        let located = job.locate(&path);
        let at = Location::new(&host.runtime_env(), &located)?;
        let unreadable = |error| Reason::failed(format!("cannot list '{path}': {error}"));
        let mut found = match at.store.head(&at.path).await {
            Ok(object) => vec![object],
            Err(_) => at.store.list(Some(&at.path)).try_collect().await.map_err(unreadable)?,
        };
        found.sort_by(|one, other| one.location.cmp(&other.location));
        for object in found {
            let time = object.last_modified.timestamp_micros();
            let (name, size, tag) = (object.location, object.size, object.e_tag);
            // Writing to a text cannot fail.
            let _ = writeln!(listed, "{name} {size} {time} {tag:?}");
        }
    }
    Ok(hash(&listed))
}

fn hash(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
