//! Releases in an object store.
//!
//! The lock is an object that a run creates if it is not there, and renews while it works. One that was
//! not renewed for [`LEASE`] belongs to a run that is dead; another run then replaces it, on the condition
//! that nobody else did. The lock saves work; what keeps two runs apart is the condition on the pointer.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutResult, UpdateVersion,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::{LOCK, Place, Unpublished};
use crate::error::{Error, Result};
use crate::manifest::{MANIFEST, Manifest};
use crate::store::Location;

/// A lock that was not renewed for so long belongs to nobody.
const LEASE: Duration = Duration::from_secs(120);
/// How often a run renews its lock.
const RENEW: Duration = Duration::from_secs(30);
/// Copies and deletions under way at once.
const AT_ONCE: usize = 8;

/// What a conditional put compares.
pub(super) type Version = UpdateVersion;

/// A prefix of an object store.
#[derive(Debug)]
pub(crate) struct RemotePlace {
    location: Location,
    /// With a slash at its end.
    pub(super) url: String,
}

/// The version of a lock object that is ours, none if it was lost.
type Held = Arc<Mutex<Option<Version>>>;

/// What the lock object says.
#[derive(Debug, Serialize, Deserialize)]
struct Claim {
    run: String,
    until: DateTime<Utc>,
}

impl Claim {
    fn new(run: &str) -> Self {
        Self { run: run.to_owned(), until: Utc::now() + LEASE }
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| Error::storage("the lock cannot be written", error))
    }
}

/// A lock object and the task that renews it.
#[derive(Debug)]
pub(crate) struct RemoteLock {
    store: Arc<dyn ObjectStore>,
    path: Path,
    run: String,
    held: Held,
    renewal: JoinHandle<()>,
    /// Whether the lock belonged to a run that seems to be dead.
    pub(super) was_taken_over: bool,
}

impl Drop for RemoteLock {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

fn version(put: PutResult) -> Version {
    Version { e_tag: put.e_tag, version: put.version }
}

impl RemotePlace {
    pub(super) fn new(location: Location, url: String) -> Self {
        Self { location, url }
    }

    fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.location.store
    }

    fn path(&self, relative: &str) -> Path {
        relative.split('/').fold(self.location.path.clone(), |path, part| path.join(part))
    }

    fn failed(&self, what: &str, relative: &str, error: &StoreError) -> Error {
        if matches!(error, StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }) {
            return Error::job(format!(
                "output '{}': this store has no conditional puts, without which two runs could mix",
                self.url
            ));
        }
        let told = Error::storage(&format!("{what} '{}{relative}'", self.url), error);
        // Without keys the store asks the machine for a role, and its answer helps nobody.
        if self.url.starts_with("s3") && std::env::var_os("AWS_ACCESS_KEY_ID").is_none() {
            return Error::Failed(format!(
                "{told}; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, and this machine's role was \
                 not enough"
            ));
        }
        told
    }

    pub(super) async fn lock(&self, run: &str) -> Result<RemoteLock> {
        let failed = |error: StoreError| self.failed("cannot lock", LOCK, &error);
        let path = self.path(LOCK);
        let claim = || Claim::new(run).bytes();
        let options = PutOptions::from(PutMode::Create);
        let created = self.store().put_opts(&path, claim()?.into(), options).await;
        let (put, was_taken_over) = match created {
            Ok(put) => (put, false),
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {
                let held = self.store().get(&path).await.map_err(failed)?;
                let seen =
                    Version { e_tag: held.meta.e_tag.clone(), version: held.meta.version.clone() };
                let bytes = held.bytes().await.map_err(failed)?;
                let claimed: Option<Claim> = serde_json::from_slice(&bytes).ok();
                if let Some(Claim { run, until }) = claimed
                    && until > Utc::now()
                {
                    return Err(
                        self.busy(&format!("run {run} holds it until {}", until.format("%FT%TZ")))
                    );
                }
                let options = PutOptions::from(PutMode::Update(seen));
                match self.store().put_opts(&path, claim()?.into(), options).await {
                    Ok(put) => (put, true),
                    Err(StoreError::Precondition { .. }) => {
                        return Err(self.busy("it was just taken over"));
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            Err(error) => return Err(failed(error)),
        };
        let held = Arc::new(Mutex::new(Some(version(put))));
        let (store, run) = (Arc::clone(self.store()), run.to_owned());
        let renewal =
            tokio::spawn(renew(Arc::clone(&store), path.clone(), run.clone(), Arc::clone(&held)));
        Ok(RemoteLock { store, path, run, held, renewal, was_taken_over })
    }

    fn busy(&self, why: &str) -> Error {
        Error::Busy(format!("another run works on '{}': wait for it to end ({why})", self.url))
    }

    pub(super) async fn read(&self) -> Result<Option<(Manifest, Version)>> {
        let failed = |error: StoreError| self.failed("cannot read", MANIFEST, &error);
        let found = match self.store().get(&self.path(MANIFEST)).await {
            Ok(found) => found,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let version =
            Version { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        let bytes = found.bytes().await.map_err(failed)?;
        let manifest = Manifest::from_json(&bytes, &format!("{}{MANIFEST}", self.url))?;
        Ok(Some((manifest, version)))
    }

    /// Removes everything under the prefixes below this one that have such names.
    pub(super) async fn remove_children(
        &self,
        parent: &str,
        doomed: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let failed = |error: StoreError| self.failed("cannot list", parent, &error);
        let listed =
            self.store().list_with_delimiter(Some(&self.path(parent))).await.map_err(failed)?;
        for child in listed.common_prefixes {
            if let Some(name) = child.filename().filter(|name| doomed(name)) {
                self.remove(&format!("{parent}/{name}")).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn remove(&self, relative: &str) -> Result<()> {
        let failed = |error: StoreError| self.failed("cannot remove", relative, &error);
        let listed =
            self.store().list(Some(&self.path(relative))).map_ok(|object| object.location).boxed();
        let removed = self.store().delete_stream(listed);
        let ignoring_missing = removed.filter_map(|outcome| async move {
            match outcome {
                Ok(_) | Err(StoreError::NotFound { .. }) => None,
                Err(error) => Some(Err::<(), StoreError>(error)),
            }
        });
        ignoring_missing.try_collect::<Vec<()>>().await.map_err(failed)?;
        Ok(())
    }

    pub(super) async fn publish(
        &self,
        lock: &RemoteLock,
        seen: Option<&Version>,
        manifest: &Manifest,
    ) -> Result<(), Unpublished> {
        let release = Place::release(&manifest.release);
        let failed = |error: &StoreError| self.failed("cannot publish to", &release, error);
        self.copy(&Place::staging(&manifest.release), &release).await?;
        let text = manifest.to_json()?;
        let own = self.path(&format!("{release}/{MANIFEST}"));
        self.store().put(&own, text.into()).await.map_err(|error| failed(&error))?;
        self.point_to(lock, seen, manifest).await?;
        // Published: leftovers do no harm, and the next run removes them.
        let _ = self.remove(&Place::staging(&manifest.release)).await;
        Ok(())
    }

    /// The one step that publishes: the pointer is replaced if it is still the one that this run saw.
    pub(super) async fn point_to(
        &self,
        lock: &RemoteLock,
        seen: Option<&Version>,
        manifest: &Manifest,
    ) -> Result<(), Unpublished> {
        let failed = |error: &StoreError| self.failed("cannot publish to", MANIFEST, error);
        let text = manifest.to_json()?;
        lock.renew().await?;
        let mode = match seen {
            Some(version) => PutMode::Update(version.clone()),
            None => PutMode::Create,
        };
        let pointer = self.path(MANIFEST);
        let put = self.store().put_opts(&pointer, text.into(), PutOptions::from(mode)).await;
        if let Err(error) = put {
            // The answer may be lost though the put went through, and a second attempt is then refused.
            let now = self.read().await.map_err(|_| Unpublished::uncertain(failed(&error)))?;
            let is_there = now.is_some_and(|(current, _)| {
                current.release == manifest.release && current.series == manifest.series
            });
            if !is_there {
                return Err(match error {
                    StoreError::AlreadyExists { .. } | StoreError::Precondition { .. } => {
                        Error::Busy(format!(
                            "another run has published to '{}' meanwhile; its release stays",
                            self.url
                        ))
                    }
                    error => failed(&error),
                }
                .into());
            }
        }
        Ok(())
    }

    /// Copies what was verified, inside the store.
    async fn copy(&self, from: &str, to: &str) -> Result<()> {
        let failed = |error: StoreError| self.failed("cannot copy to", to, &error);
        let (source, target) = (self.path(from), self.path(to));
        let objects: Vec<_> =
            self.store().list(Some(&source)).try_collect().await.map_err(failed)?;
        let copies = objects.iter().map(|object| {
            let parts = object.location.prefix_match(&source);
            let copied =
                parts.map(|parts| parts.fold(target.clone(), |path, part| path.join(part)));
            async {
                let Some(copied) = copied else { return Ok(()) };
                self.store().copy(&object.location, &copied).await?;
                let size = self.store().head(&copied).await?.size;
                match size == object.size {
                    true => Ok(()),
                    false => Err(StoreError::Generic {
                        store: "copy",
                        source: "a copy has another size than its original".into(),
                    }),
                }
            }
        });
        futures::stream::iter(copies)
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await
            .map_err(failed)?;
        Ok(())
    }
}

/// Renews a lock until it is lost or the task is stopped.
async fn renew(store: Arc<dyn ObjectStore>, path: Path, run: String, held: Held) {
    loop {
        tokio::time::sleep(RENEW).await;
        // The store may be out of reach for the moment; the lease outlasts several attempts.
        if let Ok(false) = renew_once(store.as_ref(), &path, &run, &held).await {
            return;
        }
    }
}

/// Whether the lock is still held. The version stays locked meanwhile, so that it is never an old one.
async fn renew_once(store: &dyn ObjectStore, path: &Path, run: &str, held: &Held) -> Result<bool> {
    let mut held = held.lock().await;
    let Some(seen) = held.clone() else { return Ok(false) };
    let bytes = Claim::new(run).bytes()?;
    match store.put_opts(path, bytes.into(), PutOptions::from(PutMode::Update(seen))).await {
        Ok(put) => {
            *held = Some(version(put));
            Ok(true)
        }
        Err(StoreError::Precondition { .. } | StoreError::NotFound { .. }) => {
            *held = None;
            Ok(false)
        }
        Err(error) => Err(Error::storage("cannot renew the lock", error)),
    }
}

impl RemoteLock {
    /// An error if somebody else has taken the lock.
    async fn renew(&self) -> Result<()> {
        match renew_once(self.store.as_ref(), &self.path, &self.run, &self.held).await? {
            true => Ok(()),
            false => Err(Error::Busy(format!(
                "run {} was so slow that another one took its lock; run it again",
                self.run
            ))),
        }
    }

    pub(super) async fn release(self) {
        self.renewal.abort();
        // Whoever took it over holds it now. One that could not be deleted expires.
        let renewed = renew_once(self.store.as_ref(), &self.path, &self.run, &self.held).await;
        if !matches!(renewed, Ok(false)) {
            let _ = self.store.delete(&self.path).await;
        }
    }
}
