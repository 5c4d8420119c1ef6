//! Where releases live, and how one becomes the current one.
//!
//! ```text
//! output/
//!   manifest.json                    the pointer: says which release is current, and where its files are
//!   releases/20261116T020000Z-1f6e/  a release; its files never change
//!     manifest.json                  what it is
//!     published/…                    its files
//!   current -> releases/20261116…    local directories only: for readers that cannot follow the pointer
//!   .staging/20261117T020000Z-07ad/  what a run writes before it is verified
//!   .lock                            who runs
//! ```
//!
//! Replacing `manifest.json` is the one step that publishes. On a local disk that is a rename; in an
//! object store it is a put on the condition that the pointer is still the one that the run saw when it
//! began, so that of two runs only one can win, whatever became of the lock. A directory of `releases/`
//! that no pointer ever named is what a killed run left behind; the next run removes it.

mod local;
mod remote;

use datafusion::execution::runtime_env::RuntimeEnv;
use local::LocalPlace;
use remote::RemotePlace;

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::store::Location;

const RELEASES: &str = "releases";
const STAGING: &str = ".staging";
const LOCK: &str = ".lock";
const CURRENT: &str = "current";

/// Where the releases of one job live.
#[derive(Debug)]
pub(crate) enum Place {
    Local(LocalPlace),
    Remote(RemotePlace),
}

/// The right to change a place. It ends when it is released or, for a local directory, dropped.
#[derive(Debug)]
pub(crate) enum Lock {
    Local(local::LocalLock),
    Remote(remote::RemoteLock),
}

/// What is there when a run begins.
#[derive(Debug)]
pub(crate) struct Found {
    /// The current release.
    pub(crate) manifest: Option<Manifest>,
    /// The version of the pointer, which must still be the same when the run publishes.
    version: Option<remote::Version>,
}

/// Why a release is not the current one.
#[derive(Debug)]
pub(crate) struct Unpublished {
    pub(crate) error: Error,
    /// Nobody could be asked whether the pointer names the release: its files must stay.
    pub(crate) is_uncertain: bool,
}

impl Unpublished {
    fn uncertain(error: Error) -> Self {
        Self { error, is_uncertain: true }
    }
}

impl From<Error> for Unpublished {
    fn from(error: Error) -> Self {
        Self { error, is_uncertain: false }
    }
}

impl Place {
    /// The place that a job's output names.
    pub(crate) fn new(runtime: &RuntimeEnv, path: &str) -> Result<Self> {
        let path = path.strip_prefix("file://").unwrap_or(path);
        if path.contains("://") {
            let directory = format!("{}/", path.trim_end_matches('/'));
            let location = Location::new(runtime, &directory)?;
            return Ok(Self::Remote(RemotePlace::new(location, directory)));
        }
        Ok(Self::Local(LocalPlace::new(path)))
    }

    /// A directory or prefix of this place, as DataFusion reads and writes it.
    pub(crate) fn url(&self, relative: &str) -> String {
        match self {
            Self::Local(place) => format!("{}/", place.path(relative).display()),
            Self::Remote(place) => format!("{}{relative}/", place.url),
        }
    }

    /// Where a run writes what is not verified yet, from the place.
    pub(crate) fn staging(release: &str) -> String {
        format!("{STAGING}/{release}")
    }

    /// Where a release is, from the place.
    pub(crate) fn release(release: &str) -> String {
        format!("{RELEASES}/{release}")
    }

    /// Keeps other runs away.
    pub(crate) async fn lock(&self, release: &str) -> Result<Lock> {
        match self {
            Self::Local(place) => Ok(Lock::Local(place.lock()?)),
            Self::Remote(place) => Ok(Lock::Remote(place.lock(release).await?)),
        }
    }

    /// The current release, if there is one.
    pub(crate) async fn find(&self) -> Result<Found> {
        match self {
            Self::Local(place) => Ok(Found { manifest: place.read()?, version: None }),
            Self::Remote(place) => {
                let (manifest, version) = place.read().await?.unzip();
                Ok(Found { manifest, version })
            }
        }
    }

    /// Removes what runs that were killed left behind, and makes a place for what is not verified yet. Whoever
    /// calls holds the lock.
    pub(crate) async fn tidy(&self, lock: &Lock, found: &Found) -> Result<()> {
        let known: Vec<&str> = found.manifest.iter().flat_map(known_releases).collect();
        let is_stray = |name: &str| is_release(name) && !known.contains(&name);
        // Without a pointer nobody can tell which of the releases are strays: the last one may be among them. They
        // wait until a pointer is there again.
        let knows_strays = found.manifest.is_some();
        match (self, lock) {
            (Self::Local(place), _) => {
                place.remove_children(STAGING, is_release)?;
                if knows_strays {
                    place.remove_children(RELEASES, is_stray)?;
                }
                place.prepare_staging()
            }
            (Self::Remote(place), Lock::Remote(lock)) => {
                place.remove_children(STAGING, is_release).await?;
                // A run that lost its lock may be about to name its release: that one waits for the next run.
                match lock.was_taken_over || !knows_strays {
                    true => Ok(()),
                    false => place.remove_children(RELEASES, is_stray).await,
                }
            }
            (Self::Remote(_), Lock::Local(_)) => Ok(()),
        }
    }

    /// Removes what a run has staged, and its release if it has not been named yet.
    pub(crate) async fn discard(&self, release: &str) -> Result<()> {
        let (staging, release) = (Self::staging(release), Self::release(release));
        match self {
            Self::Local(place) => place.remove(&staging).and(place.remove(&release)),
            Self::Remote(place) => {
                place.remove(&staging).await?;
                place.remove(&release).await
            }
        }
    }

    /// Puts the staged files in place and then names them in the pointer: the release is published. Returns what
    /// somebody should look at all the same.
    pub(crate) async fn publish(
        &self,
        lock: &Lock,
        found: &Found,
        manifest: &Manifest,
    ) -> Result<Option<String>, Unpublished> {
        match (self, lock) {
            (Self::Local(place), _) => Ok(place.publish(manifest)?),
            (Self::Remote(place), Lock::Remote(lock)) => {
                place.publish(lock, found.version.as_ref(), manifest).await?;
                Ok(None)
            }
            (Self::Remote(_), Lock::Local(_)) => {
                Err(Error::Failed("a lock of another place".to_owned()).into())
            }
        }
    }

    /// Replaces the pointer alone: what it says of the current release has changed, and not the release.
    pub(crate) async fn point_to(
        &self,
        lock: &Lock,
        found: &Found,
        manifest: &Manifest,
        run: &str,
    ) -> Result<(), Unpublished> {
        match (self, lock) {
            (Self::Local(place), _) => Ok(place.point_to(manifest, run)?),
            (Self::Remote(place), Lock::Remote(lock)) => {
                place.point_to(lock, found.version.as_ref(), manifest).await
            }
            (Self::Remote(_), Lock::Local(_)) => {
                Err(Error::Failed("a lock of another place".to_owned()).into())
            }
        }
    }

    /// Removes the releases that the last manifest kept and the new one does not. Others are not touched: one
    /// of them may be that of a run that lost its lock and is about to name it.
    pub(crate) async fn retire(&self, last: &Manifest, new: &Manifest) -> Result<()> {
        let kept: Vec<&str> = known_releases(new).collect();
        for old in known_releases(last).filter(|name| is_release(name) && !kept.contains(name)) {
            match self {
                Self::Local(place) => place.remove(&Self::release(old))?,
                Self::Remote(place) => place.remove(&Self::release(old)).await?,
            }
        }
        Ok(())
    }
}

impl Lock {
    /// Whether it belonged to a run that seems to be dead and may not be.
    pub(crate) fn was_taken_over(&self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::Remote(lock) => lock.was_taken_over,
        }
    }

    /// Lets others run.
    pub(crate) async fn release(self) {
        match self {
            Self::Local(lock) => drop(lock),
            Self::Remote(lock) => lock.release().await,
        }
    }
}

fn known_releases(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let previous = manifest.previous.iter().map(String::as_str);
    std::iter::once(manifest.release.as_str()).chain(previous)
}

/// Whether a name is one that a run gives: nothing else is ever removed.
pub(crate) fn is_release(name: &str) -> bool {
    let Some((time, random)) = name.split_once("Z-") else { return false };
    let digits = time.bytes().filter(u8::is_ascii_digit).count();
    time.len() == 15
        && digits == 14
        && time.as_bytes()[8] == b'T'
        && random.len() == 8
        && random.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A name for a run and its release that nobody else has: names sort by time.
pub(crate) fn new_release() -> Result<String> {
    let mut random = [0u8; 4];
    getrandom::fill(&mut random)
        .map_err(|_| Error::Failed("the operating system gave no randomness".to_owned()))?;
    let time = chrono::Utc::now().format("%Y%m%dT%H%M%SZ");
    Ok(format!("{time}-{:08x}", u32::from_be_bytes(random)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_run_gives_are_removed() {
        assert!(new_release().is_ok_and(|name| is_release(&name)));
        for other in [
            "",
            "current",
            "2026",
            "20261116T020000Z-xyz",
            "20261116-020000Z-00000000",
            "backup-Z-00000000",
        ] {
            assert!(!is_release(other), "{other}");
        }
    }
}
