//! Releases in a local directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use datafusion_anonymize::{sync_directory, sync_tree};

use super::{CURRENT, LOCK, Place, RELEASES};
use crate::error::{Error, Result};
use crate::manifest::{MANIFEST, Manifest};

/// A directory on a local disk.
#[derive(Debug)]
pub(crate) struct LocalPlace {
    root: PathBuf,
}

/// A file that the system holds for us until it is closed, also if the program is killed.
#[derive(Debug)]
pub(crate) struct LocalLock {
    _file: File,
}

impl LocalPlace {
    pub(super) fn new(path: &str) -> Self {
        Self { root: PathBuf::from(path.trim_end_matches('/')) }
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    pub(super) fn lock(&self) -> Result<LocalLock> {
        let failed = |error: std::io::Error| self.failed("cannot prepare", "", &error);
        fs::create_dir_all(&self.root).map_err(failed)?;
        let path = self.path(LOCK);
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(LocalLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Busy(format!(
                "another run works on '{}': wait for it to end",
                self.root.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    pub(super) fn read(&self) -> Result<Option<Manifest>> {
        let path = self.path(MANIFEST);
        match fs::read(&path) {
            Ok(bytes) => Manifest::from_json(&bytes, &path.display().to_string()).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("cannot read", MANIFEST, &error)),
        }
    }

    /// Removes the directories of a directory that have such names.
    pub(super) fn remove_children(
        &self,
        parent: &str,
        doomed: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let entries = match fs::read_dir(self.path(parent)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.failed("cannot read", parent, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| self.failed("cannot read", parent, &error))?;
            if entry.file_name().to_str().is_some_and(&doomed) {
                let path = entry.path();
                fs::remove_dir_all(&path).map_err(|error| {
                    Error::storage(&format!("cannot remove '{}'", path.display()), error)
                })?;
            }
        }
        // Empty, unless somebody else put something there.
        let _ = fs::remove_dir(self.path(parent));
        Ok(())
    }

    pub(super) fn remove(&self, relative: &str) -> Result<()> {
        let path = self.path(relative);
        let removed = match fs::remove_dir_all(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other.map_err(|error| self.failed("cannot remove", relative, &error)),
        };
        if let Some(parent) = path.parent() {
            let _ = fs::remove_dir(parent);
        }
        removed
    }

    /// A directory that nobody else can look into: what is not verified yet may tell more than it should.
    pub(super) fn prepare_staging(&self) -> Result<()> {
        let path = self.path(super::STAGING);
        let failed = |error: std::io::Error| self.failed("cannot prepare", super::STAGING, &error);
        fs::create_dir_all(&path).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        Ok(())
    }

    pub(super) fn publish(&self, manifest: &Manifest) -> Result<Option<String>> {
        let staging = self.path(&Place::staging(&manifest.release));
        let release = self.path(&Place::release(&manifest.release));
        let failed = |error: std::io::Error| self.failed("cannot publish to", "", &error);
        let text = manifest.to_json()?;
        write_durably(&staging.join(MANIFEST), &text).map_err(failed)?;
        // A pointer that survives a power cut must not point to files that did not.
        sync_tree(&staging).map_err(failed)?;
        fs::create_dir_all(self.path(RELEASES)).map_err(failed)?;
        fs::rename(&staging, &release).map_err(failed)?;
        sync_directory(&self.path(RELEASES)).map_err(failed)?;
        self.point_to(manifest, &manifest.release)?;
        // From here on the release is published, whatever else fails.
        let _ = fs::remove_dir(self.path(super::STAGING));
        Ok(self.follow(&manifest.release))
    }

    /// The one step that publishes: whoever opens the pointer reads the old one or the new one.
    pub(super) fn point_to(&self, manifest: &Manifest, run: &str) -> Result<()> {
        let failed = |error: std::io::Error| self.failed("cannot publish to", "", &error);
        let text = manifest.to_json()?;
        let new = self.path(&format!(".{MANIFEST}.{run}"));
        let replaced =
            write_durably(&new, &text).and_then(|()| fs::rename(&new, self.path(MANIFEST)));
        if let Err(error) = replaced {
            let _ = fs::remove_file(&new);
            return Err(failed(error));
        }
        // It is published, whatever else fails.
        let _ = sync_directory(&self.root);
        Ok(())
    }

    /// Turns the link `current` to the release, for readers that take nothing but a path. Says what they should
    /// know if it cannot.
    #[cfg(unix)]
    fn follow(&self, release: &str) -> Option<String> {
        let new = self.path(&format!(".{CURRENT}.{release}"));
        let current = self.path(CURRENT);
        let linked = std::os::unix::fs::symlink(Place::release(release), &new);
        let error = linked.and_then(|()| fs::rename(&new, &current)).err()?;
        let _ = fs::remove_file(&new);
        Some(format!(
            "'{}' could not be turned to the new release ({}), so who reads it sees something else: move away what \
             is there; manifest.json names the new release",
            current.display(),
            error.kind()
        ))
    }

    #[cfg(not(unix))]
    fn follow(&self, _release: &str) -> Option<String> {
        None
    }

    fn failed(&self, what: &str, relative: &str, error: &std::io::Error) -> Error {
        Error::storage(&format!("{what} '{}'", self.path(relative).display()), error)
    }
}

fn write_durably(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
