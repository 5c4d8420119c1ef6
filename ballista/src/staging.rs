//! Where files of a release wait until they are complete, and how they are published.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::common::{exec_datafusion_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as StorePath;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use futures::TryStreamExt;

/// Where a release waits until it is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The name of the hidden directory, which nobody else uses.
    pub(crate) directory: String,
    /// The target's last name in that directory: whether a file or a directory is written depends on the name.
    pub(crate) output: String,
    /// Directories that are missing and will be made on the way, the innermost first.
    made: Vec<PathBuf>,
}

impl Place {
    /// Beside the target; inside it if that is a directory which files beside it could not be moved to. Whatever can
    /// be known to be in the way is an error now and not after hours.
    pub(crate) fn of(target: &str) -> Result<Self> {
        let (parent, name) = split(target)?;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let directory = format!(".anonymize-{:x}-{time:x}", std::process::id());
        let url = ListingTableUrl::parse(target)?;
        // What is a directory already gets files, whatever its name looks like.
        let slash = if url.is_collection() { "/" } else { "" };
        let is_directory = url.is_collection() || url.file_extension().is_none();
        let local = if url.scheme() == "file" { url.get_url().to_file_path().ok() } else { None };
        // Without the slash at the end, with which a file would seem not to be there.
        let local = local.map(|path| path.components().collect::<PathBuf>());
        let (above, made) = match local {
            Some(path) if path.is_dir() => {
                (above_directory(target, &path, &directory)?, Vec::new())
            }
            Some(path) if is_directory && path.exists() => {
                return plan_err!(
                    "COPY TO '{target}': {} is a file; name a directory, or a file with its extension",
                    path.display()
                );
            }
            Some(path) => (Above::Parent, missing_above(target, &path, &directory)?),
            None => (Above::Parent, Vec::new()),
        };
        let output = match above {
            Above::Parent => format!("{parent}/{directory}/{name}{slash}"),
            Above::Target => format!("{}/{directory}/{name}/", target.trim_end_matches('/')),
        };
        Ok(Self { directory, output, made })
    }
}

/// The directory in which the hidden one is made.
enum Above {
    Parent,
    Target,
}

/// The parent and the last name of a target.
fn split(target: &str) -> Result<(&str, &str)> {
    let name = target.trim_end_matches('/');
    let (parent, name) = name.rsplit_once('/').unwrap_or((".", name));
    if parent.ends_with(":/") || matches!(name, "" | "." | "..") {
        return plan_err!("COPY TO '{target}': name a file or a directory below it");
    }
    // DataFusion reads them as patterns, and would write and look for files in different places.
    if target.contains(['*', '?', '[']) {
        return plan_err!("COPY TO '{target}': a release cannot have *, ? or [ in its name");
    }
    Ok((parent, name))
}

/// For a directory that is there: its parent, unless files cannot be moved from there or made there.
fn above_directory(target: &str, path: &Path, hidden: &str) -> Result<Above> {
    check_writable(target, path, hidden)?;
    match path.parent() {
        Some(parent) if same_file_system(parent, path) && can_write(parent, hidden).is_ok() => {
            Ok(Above::Parent)
        }
        _ => Ok(Above::Target),
    }
}

/// For a file, or a directory that is not there yet: what has to be made above it, the innermost first.
fn missing_above(target: &str, path: &Path, hidden: &str) -> Result<Vec<PathBuf>> {
    let mut missing = Vec::new();
    for above in path.ancestors().skip(1) {
        if above.exists() {
            check_writable(target, above, hidden)?;
            break;
        }
        missing.push(above.to_owned());
    }
    Ok(missing)
}

fn check_writable(target: &str, directory: &Path, hidden: &str) -> Result<()> {
    match can_write(directory, hidden) {
        Ok(()) => Ok(()),
        Err(error) => plan_err!(
            "COPY TO '{target}': this machine, which writes the release, cannot make files in {} ({}); name a place \
             where this user can",
            directory.display(),
            error.kind()
        ),
    }
}

/// Tries it: permissions alone do not tell.
fn can_write(directory: &Path, hidden: &str) -> std::io::Result<()> {
    let probe = directory.join(hidden);
    fs::create_dir(&probe)?;
    fs::remove_dir(&probe)
}

#[cfg(unix)]
fn same_file_system(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.dev() == other.dev(),
        _ => false,
    }
}

/// Where it cannot be told, moving inside a directory is always possible.
#[cfg(not(unix))]
fn same_file_system(_one: &Path, _other: &Path) -> bool {
    false
}

/// Files that are not published yet.
pub(crate) struct Staging {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) staged: ListingTableUrl,
    pub(crate) target: ListingTableUrl,
    pub(crate) place: Place,
    pub(crate) is_over: bool,
}

impl Staging {
    /// Moves all files to their places, or none.
    pub(crate) async fn publish(&self) -> Result<()> {
        let mut moved = Vec::new();
        for from in self.files().await? {
            let Some(below) = from.prefix_match(self.staged.prefix()) else { continue };
            let to = below.fold(self.target.prefix().clone(), |path, part| path.join(part));
            if let Err(error) = self.rename(&from, &to).await {
                for published in &moved {
                    let _ = self.store.delete(published).await;
                }
                self.remove_empty(moved.iter().chain([&to]));
                return Err(error);
            }
            moved.push(to);
        }
        Ok(())
    }

    /// Removes the directories of files that were to be published, if they are below the target and empty.
    fn remove_empty<'a>(&self, files: impl Iterator<Item = &'a StorePath>) {
        let local = LocalFileSystem::new();
        let Ok(target) = local.path_to_filesystem(self.target.prefix()) else { return };
        if self.staged.scheme() != "file" {
            return;
        }
        for file in files.filter_map(|file| local.path_to_filesystem(file).ok()) {
            let above = file.ancestors().skip(1);
            for directory in above.take_while(|path| path.starts_with(&target) && *path != target) {
                let _ = fs::remove_dir(directory);
            }
        }
    }

    /// On this machine at once: a runtime that is shutting down runs no more tasks of the object store.
    async fn rename(&self, from: &StorePath, to: &StorePath) -> Result<()> {
        if self.staged.scheme() != "file" {
            return Ok(self.store.rename(from, to).await?);
        }
        let files = LocalFileSystem::new();
        let (from, to) = (files.path_to_filesystem(from)?, files.path_to_filesystem(to)?);
        let directory = to.parent().map_or(Ok(()), fs::create_dir_all);
        directory.and_then(|()| fs::rename(&from, &to)).map_err(|error| {
            exec_datafusion_err!(
                "COPY TO '{}': a complete file cannot be moved to {} ({}); nothing was left behind",
                self.target,
                to.display(),
                error.kind()
            )
        })
    }

    async fn files(&self) -> Result<Vec<StorePath>> {
        let files = self.store.list(Some(self.staged.prefix()));
        let mut files: Vec<StorePath> = files.map_ok(|file| file.location).try_collect().await?;
        // A single file is not below its own name.
        if files.is_empty() && self.store.head(self.staged.prefix()).await.is_ok() {
            files.push(self.staged.prefix().clone());
        }
        files.sort();
        Ok(files)
    }

    /// Removes what is left, as far as that is possible: hidden files are no release.
    pub(crate) async fn remove(&mut self) {
        if self.staged.scheme() != "file" {
            for file in self.files().await.unwrap_or_default() {
                let _ = self.store.delete(&file).await;
            }
        }
        self.remove_directory();
        self.is_over = true;
    }

    /// The hidden directory on this machine.
    fn hidden(&self) -> Option<PathBuf> {
        let path = self.staged.get_url().to_file_path().ok()?;
        let is_hidden = |path: &&Path| {
            path.file_name().is_some_and(|name| name == self.place.directory.as_str())
        };
        path.ancestors().find(is_hidden).map(Path::to_owned)
    }

    /// Removes the hidden directory, and nothing that is not called by its name, and the empty directories that were
    /// made for it. Object stores have none.
    fn remove_directory(&self) {
        if let Some(hidden) = self.hidden() {
            let _ = fs::remove_dir_all(hidden);
        }
        // They are not empty if a release is there, or if somebody else has found a use for them.
        for made in &self.place.made {
            let _ = fs::remove_dir(made);
        }
    }
}

/// A query that is given up while it writes leaves nothing either, where that can be done at once.
impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Writers that have been told to stop may still be at it, and make the directory again.
        let mut gone = 0;
        for _ in 0..100 {
            gone = if self.hidden().is_some_and(|hidden| hidden.exists()) { 0 } else { gone + 1 };
            self.remove_directory();
            if gone > 5 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names_keep_the_last_part() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let here = directory.path().display().to_string();
        for (target, parent, last) in [
            (format!("{here}/shared/release/"), format!("{here}/shared"), "release/"),
            (format!("{here}/release"), here.clone(), "release"),
            ("s3://bucket/a/release.parquet".into(), "s3://bucket/a".into(), "release.parquet"),
            ("release.csv".into(), ".".into(), "release.csv"),
        ] {
            let place = Place::of(&target)?;
            assert_eq!(place.output, format!("{parent}/{}/{last}", place.directory));
        }
        let refused = [
            "s3://bucket/",
            "/",
            ".",
            "./",
            "..",
            "a/.",
            "/a/../",
            "a*.csv",
            "a[1]/b.csv",
            "a?/",
            "",
        ];
        for target in refused {
            assert!(Place::of(target).is_err(), "{target}");
        }
        Ok(())
    }

    /// Whatever a path turns out to be, only a directory of the hidden name is ever removed.
    #[tokio::test]
    async fn nothing_else_is_removed() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let kept = directory.path().join("kept/below");
        std::fs::create_dir_all(&kept)?;
        let staged = ListingTableUrl::parse(format!("{}/x*.csv", kept.display()))?;
        let staging = Staging {
            store: Arc::new(datafusion::object_store::memory::InMemory::new()),
            target: staged.clone(),
            staged,
            place: Place {
                directory: ".anonymize-1".to_owned(),
                output: String::new(),
                made: Vec::new(),
            },
            is_over: false,
        };
        drop(staging);
        assert!(kept.exists());
        Ok(())
    }

    #[test]
    fn what_is_in_the_way_is_named() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("file");
        fs::write(&file, "")?;
        let refused = |target: String, says: &str| match Place::of(&target) {
            Ok(place) => panic!("{target}: {place:?}"),
            Err(error) => assert!(error.to_string().contains(says), "{target}: {error}"),
        };
        refused(format!("{}/", file.display()), "file is a file; name a directory");
        refused(file.display().to_string(), "file is a file; name a directory");
        refused(format!("{}/below/release/", file.display()), "cannot make files in ");
        if cfg!(target_os = "linux") {
            refused("/proc/release/".to_owned(), "cannot make files in /proc (");
        }
        assert_eq!(fs::read_dir(directory.path())?.count(), 1, "something was left");
        Ok(())
    }
}
