//! Where the state of a series is: a directory that nobody else can look into, or a prefix of an object store.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_anonymize::sync_directory;
use object_store::path::Path as StorePath;
use object_store::{Error as StoreError, ObjectStoreExt};

use crate::checksum;
use crate::error::{Error, Result};
use crate::store::Location;

/// The files of a state. All are written whole, under names that are never used again, except the claim.
#[derive(Debug)]
pub(super) struct Folder {
    location: Location,
    /// With a slash at its end.
    url: String,
    /// On a local disk, where a file is the owner's alone and must survive a power cut before a pointer names it.
    directory: Option<PathBuf>,
}

impl Folder {
    /// The place that a job names. Nothing is made there yet.
    pub(super) fn new(runtime: &RuntimeEnv, path: &str) -> Result<Self> {
        let path = path.strip_prefix("file://").unwrap_or(path).trim_end_matches('/');
        let url = format!("{path}/");
        let location = Location::new(runtime, &url)?;
        let directory = (!path.contains("://")).then(|| PathBuf::from(path));
        Ok(Self { location, url, directory })
    }

    /// Where it is, for people.
    pub(super) fn shown(&self) -> &str {
        &self.url
    }

    /// A file as DataFusion reads and writes it.
    pub(super) fn url(&self, name: &str) -> String {
        format!("{}{name}", self.url)
    }

    fn path(&self, name: &str) -> StorePath {
        self.location.path.clone().join(name)
    }

    fn failed(&self, what: &str, name: &str, error: impl std::fmt::Display) -> Error {
        Error::storage(
            &format!("the state of the series: cannot {what} '{}'", self.url(name)),
            error,
        )
    }

    /// Makes a local directory that nobody else can look into; a store needs none. One that is there and open to others is
    /// closed if nothing of others is in it.
    pub(super) fn prepare(&self, is_ours: impl Fn(&str) -> bool) -> Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let failed = |error: std::io::Error| self.failed("prepare", "", error);
        fs::create_dir_all(directory).map_err(failed)?;
        if !is_open_to_others(directory).map_err(failed)? {
            return Ok(());
        }
        let entries =
            fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let entries: Vec<fs::DirEntry> = entries.map_err(failed)?;
        let mut names = entries.iter().map(fs::DirEntry::file_name);
        if names.any(|name| !name.to_str().is_some_and(&is_ours)) {
            return Err(Error::Failed(format!(
                "the state of the series: others may look into '{}', and other files are in it: name a folder of its own, \
                 or, if the files belong there, let nobody but the job's user into it (chmod 700)",
                self.url
            )));
        }
        owner_only(directory, 0o700).map_err(failed)
    }

    /// The files that are there, also those that a writer had not finished when it was killed.
    pub(super) async fn names(&self) -> Result<Vec<String>> {
        if let Some(directory) = &self.directory {
            let failed = |error: std::io::Error| self.failed("list", "", error);
            let entries =
                fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
            let entries: Vec<fs::DirEntry> = entries.map_err(failed)?;
            let names = entries.iter().filter_map(|entry| entry.file_name().into_string().ok());
            return Ok(names.collect());
        }
        let listed = self.location.store.list_with_delimiter(Some(&self.location.path)).await;
        let objects = listed.map_err(|error| self.failed("list", "", error))?.objects;
        let names = objects.iter().filter_map(|object| object.location.filename());
        Ok(names.map(str::to_owned).collect())
    }

    /// A small file, if it is there.
    pub(super) async fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let failed = |error: StoreError| self.failed("read", name, error);
        match self.location.store.get(&self.path(name)).await {
            Ok(found) => Ok(Some(found.bytes().await.map_err(failed)?.to_vec())),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Writes a small file: whole, or not at all.
    pub(super) async fn write(&self, name: &str, text: &str) -> Result<()> {
        let Some(directory) = &self.directory else {
            let put = self.location.store.put(&self.path(name), text.to_owned().into()).await;
            return put.map(drop).map_err(|error| self.failed("write", name, error));
        };
        let new = directory.join(format!(".{name}.new"));
        let written = write_durably(&new, text)
            .and_then(|()| fs::rename(&new, directory.join(name)))
            .and_then(|()| sync_directory(directory));
        written.map_err(|error| {
            let _ = fs::remove_file(&new);
            self.failed("write", name, error)
        })
    }

    /// What DataFusion wrote becomes the owner's alone and survives a power cut.
    pub(super) fn settle(&self, name: &str) -> Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let path = directory.join(name);
        let settled = owner_only(&path, 0o600)
            .and_then(|()| File::open(&path)?.sync_all())
            .and_then(|()| sync_directory(directory));
        settled.map_err(|error| self.failed("write", name, error))
    }

    /// The size and the SHA-256 of a file, if it is there.
    pub(super) async fn digest(&self, name: &str) -> Result<Option<(u64, String)>> {
        match checksum::digest(self.location.store.as_ref(), &self.path(name)).await {
            Ok(found) => Ok(Some(found)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", name, error)),
        }
    }

    /// Removes a file; one that is not there is no mistake.
    pub(super) async fn remove(&self, name: &str) -> Result<()> {
        if let Some(directory) = &self.directory {
            return match fs::remove_file(directory.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(self.failed("remove", name, error))
                }
                _ => Ok(()),
            };
        }
        match self.location.store.delete(&self.path(name)).await {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("remove", name, error)),
        }
    }
}

fn write_durably(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(unix)]
fn owner_only(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(unix)]
fn is_open_to_others(directory: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::metadata(directory)?.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_directory: &Path) -> std::io::Result<bool> {
    Ok(false)
}

#[cfg(not(unix))]
fn owner_only(_path: &Path, _mode: u32) -> std::io::Result<()> {
    Ok(())
}
