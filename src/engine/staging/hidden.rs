//! The directory in which files wait on a disk.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// How the names begin. DataFusion's tables do not look into directories that are not partitions; other readers
/// skip those that begin with a dot.
const PREFIX: &str = ".anonymize-";
/// The file in it that the process keeps locked for as long as it lives.
pub(super) const LOCK: &str = "lock";
/// How often to try again: between making a directory and locking it, another process may take it for abandoned.
const ATTEMPTS: usize = 8;

/// A directory with an unguessable name, for this process alone. Dropping it removes it; one that a killed process
/// left is removed when the next one is made beside it.
#[derive(Debug)]
pub(super) struct HiddenDirectory {
    path: PathBuf,
    _lock: File,
}

impl HiddenDirectory {
    /// Makes one, and removes those of processes that are gone.
    pub(super) fn make_in(parent: &Path) -> io::Result<Self> {
        tidy(parent);
        for _ in 0..ATTEMPTS {
            let path = parent.join(new_name()?);
            make_private(&path)?;
            match lock(&path) {
                Ok(Some(lock)) => return Ok(Self { path, _lock: lock }),
                Ok(None) => {}
                Err(error) => {
                    let _ = fs::remove_dir_all(&path);
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("other processes removed the directory again and again"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it now. Writers that were told to stop may still be adding files, so it tries again.
    pub(super) fn remove(&self) {
        for _ in 0..ATTEMPTS {
            match fs::remove_dir_all(&self.path) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                _ => return,
            }
        }
    }
}

impl Drop for HiddenDirectory {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Takes the lock of a new directory; none if another process has removed the directory meanwhile.
fn lock(directory: &Path) -> io::Result<Option<File>> {
    let path = directory.join(LOCK);
    let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(None),
        // A file system without locks: then `tidy` cannot lock it either, and removes nothing.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(path.exists().then_some(file)),
    }
}

/// Removes the directories of processes that are gone: their locks can be taken.
fn tidy(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(is_name);
        // A symbolic link is not a directory here, so nothing elsewhere is ever touched.
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let held = OpenOptions::new().write(true).open(entry.path().join(LOCK));
        if held.as_ref().is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn new_name() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| io::Error::other("the operating system gave no randomness"))?;
    Ok(format!("{PREFIX}{:032x}", u128::from_le_bytes(bytes)))
}

/// Whether a name is one that [`new_name`] gives: nothing else is ever removed.
fn is_name(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|token| {
        token.len() == 32 && token.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_dead_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let alive = HiddenDirectory::make_in(parent.path()).unwrap();
        let dead = format!("{PREFIX}{:032x}", 1);
        let unlocked = format!("{PREFIX}{:032x}", 2);
        let of_others = [".anonymize-mine", ".anonymize-", "anonymize", ".staging"];
        for name in of_others.iter().copied().chain([dead.as_str(), unlocked.as_str()]) {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), "x").unwrap();
        }
        for name in of_others.iter().copied().chain([dead.as_str()]) {
            fs::write(at(name).join(LOCK), "").unwrap();
        }
        let next = HiddenDirectory::make_in(parent.path()).unwrap();
        assert!(!at(&dead).exists());
        assert!(alive.path().join(LOCK).exists());
        assert!(next.path().join(LOCK).exists());
        // One without a lock may be a process that is just about to take it.
        assert!(at(&unlocked).join("file").exists());
        for name in of_others {
            assert!(at(name).join("file").exists(), "{name}");
        }
        drop((alive, next));
        let left = fs::read_dir(parent.path()).unwrap().count();
        assert_eq!(left, of_others.len() + 1);
    }

    /// A link with one of our names to a directory of the user.
    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let kept = tempfile::tempdir().unwrap();
        fs::write(kept.path().join(LOCK), "").unwrap();
        let link = parent.path().join(format!("{PREFIX}{:032x}", 3));
        std::os::unix::fs::symlink(kept.path(), &link).unwrap();
        drop(HiddenDirectory::make_in(parent.path()).unwrap());
        assert!(kept.path().join(LOCK).exists());
        assert!(link.exists());
    }
}
