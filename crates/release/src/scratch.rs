//! Where a dry run writes.

use std::fs::{self, File};
use std::path::Path;

use datafusion::prelude::SessionContext;
use tempfile::TempDir;

use crate::error::{Error, Result};

const PREFIX: &str = "anonymize-dry-run-";
const LOCK: &str = ".lock";

/// A directory for a dry run, where the session keeps its temporary files and nobody else can look. It goes
/// with the run, or, if that is killed, with the next one.
pub(crate) struct Scratch {
    directory: TempDir,
    /// The system holds it for us until it is closed.
    _lock: File,
}

impl Scratch {
    pub(crate) fn new(context: &SessionContext) -> Result<Self> {
        let temporary = context.runtime_env().disk_manager.create_tmp_file("a dry run").ok();
        // Two levels up: the session's files are in a directory that goes with the session.
        let parent = temporary.as_ref().and_then(|file| file.path()?.parent()?.parent());
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        remove_abandoned(&parent);
        Self::inside(&parent).map_err(|error| Error::storage("no place for a dry run", error))
    }

    fn inside(parent: &Path) -> std::io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o700));
        }
        let directory = builder.tempdir_in(parent)?;
        // It has its name only when it is held: a lock that nobody holds belongs to a run that was killed.
        let new = directory.path().join(".new-lock");
        let lock = File::create(&new)?;
        lock.try_lock().map_err(std::io::Error::from)?;
        fs::rename(new, directory.path().join(LOCK))?;
        Ok(Self { directory, _lock: lock })
    }

    /// The directory, with a slash at its end.
    pub(crate) fn url(&self) -> String {
        format!("{}/", self.directory.path().display())
    }
}

/// Removes what killed runs left. What cannot be removed is somebody else's.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            continue;
        }
        let held = File::options().write(true).open(entry.path().join(LOCK));
        if held.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_a_running_one_has_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let running = Scratch::inside(parent.path()).unwrap();
        let Scratch { directory, _lock } = Scratch::inside(parent.path()).unwrap();
        drop(_lock);
        let killed = directory.keep();
        remove_abandoned(parent.path());
        assert!(running.directory.path().exists());
        assert!(!killed.exists());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_look_into_it() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::inside(parent.path()).unwrap();
        let mode = fs::metadata(scratch.directory.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
