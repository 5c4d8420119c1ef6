//! What has been written and is not visible yet.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, fs, io};

use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as Location;
use datafusion::object_store::{
    Error as StoreError, MultipartUpload, ObjectStore, ObjectStoreExt, Result as StoreResult,
};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::hidden::{HiddenDirectory, LOCK};
use super::moves::{Moves, Waiting};
use super::publish::{Held, Part};
use crate::engine::mark_redacted;

/// The files of one target, from their first byte until they are visible or gone.
#[derive(Debug)]
pub(super) struct Area {
    /// What the user calls the target, for messages.
    pub(super) name: String,
    /// Where files wait on a disk; none if the store is no disk.
    disk: OnceCell<Option<Disk>>,
    files: Mutex<Vec<File>>,
    is_over: AtomicBool,
    /// The first error of the store, which writers do not always pass on.
    failure: Mutex<Option<String>>,
}

/// A file that somebody writes.
#[derive(Debug)]
struct File {
    store: Arc<dyn ObjectStore>,
    location: Location,
    state: State,
}

#[derive(Debug)]
enum State {
    Begun,
    /// Complete under a hidden name.
    Hidden,
    /// All parts are in the store; completing the upload makes the object visible.
    Held(Box<dyn MultipartUpload>),
}

/// A hidden directory, and the one in which it is.
#[derive(Debug)]
struct Disk {
    root: PathBuf,
    hidden: HiddenDirectory,
    /// The hidden directory as the store knows it.
    location: Location,
}

/// A file that has been begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) number: usize,
    /// Its hidden name, if files wait under one.
    pub(super) hidden: Option<Location>,
}

impl Area {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            disk: OnceCell::new(),
            files: Mutex::default(),
            is_over: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// Makes the hidden directory for files below a directory on disk, so that a place where that is impossible is
    /// an error before the work begins.
    pub(super) async fn open(
        &self,
        store: &Arc<dyn ObjectStore>,
        directory: &Location,
    ) -> Result<Option<Location>> {
        let disk = self.disk.get_or_try_init(|| Disk::near(store, directory, self)).await?;
        Ok(disk.as_ref().map(|disk| disk.location.clone()))
    }

    /// A place for another file.
    pub(super) async fn begin(
        &self,
        store: &Arc<dyn ObjectStore>,
        is_disk: bool,
        location: &Location,
    ) -> StoreResult<Begun> {
        self.check_open()?;
        let directory = match is_disk {
            true => self.open(store, &above_partitions(location)).await.map_err(|error| {
                StoreError::Generic { store: "staging", source: Box::new(error) }
            })?,
            false => None,
        };
        let mut files = self.files.lock();
        let number = files.len();
        let (store, location) = (Arc::clone(store), location.clone());
        files.push(File { store, location, state: State::Begun });
        // Without the extension of its format: tables that look into every directory select files by extension.
        Ok(Begun { number, hidden: directory.map(|at| at.join(number.to_string())) })
    }

    /// An error if the statement is over and no more files are wanted.
    pub(super) fn check_open(&self) -> StoreResult<()> {
        if !self.is_over.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.remove_hidden();
        Err(StoreError::Generic { store: "staging", source: "the statement is over".into() })
    }

    /// Notes that a file is complete under its hidden name.
    pub(super) fn mark_hidden(&self, number: usize) {
        self.set(number, State::Hidden);
    }

    /// Keeps an upload that is complete but for its last request.
    pub(super) fn hold(&self, number: usize, upload: Box<dyn MultipartUpload>) {
        self.set(number, State::Held(upload));
    }

    fn set(&self, number: usize, state: State) {
        if let Some(file) = self.files.lock().get_mut(number) {
            file.state = state;
        }
    }

    pub(super) fn note_failure(&self, error: &StoreError) {
        self.failure.lock().get_or_insert_with(|| error.to_string());
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// When everything is written: what is left to do to make it visible.
    pub(super) fn prepare(&self) -> Result<Part> {
        let files = std::mem::take(&mut *self.files.lock());
        let (mut waiting, mut held) = (Vec::new(), Vec::new());
        for (number, File { store, location, state }) in files.into_iter().enumerate() {
            match (state, self.disk()) {
                (State::Held(upload), _) => held.push(Held::new(store, location, upload)),
                (State::Hidden, Some(disk)) => waiting.push(Waiting {
                    from: disk.hidden.path().join(number.to_string()),
                    to: LocalFileSystem::new().path_to_filesystem(&location)?,
                }),
                _ => return Err(self.failed("a file was not closed")),
            }
        }
        let moves = match self.disk() {
            Some(disk) => Some(
                Moves::prepare(&disk.root, disk.hidden.path(), waiting)
                    .map_err(|error| self.failed_to_move(&error))?,
            ),
            None => None,
        };
        Ok(Part { moves, held })
    }

    /// An error about the target, without values.
    pub(super) fn failed(&self, why: impl fmt::Display) -> DataFusionError {
        mark_redacted(exec_datafusion_err!("COPY TO '{}': {why}", self.name))
    }

    pub(super) fn failed_to_move(&self, error: &io::Error) -> DataFusionError {
        self.failed(format!(
            "the files are complete and cannot be put in place ({}); what was there before is there still",
            error.kind()
        ))
    }

    /// Nothing more is written. Removes what is hidden, and returns the uploads to be aborted.
    pub(super) fn close(&self) -> Vec<Box<dyn MultipartUpload>> {
        self.is_over.store(true, Ordering::SeqCst);
        self.remove_hidden();
        let files = std::mem::take(&mut *self.files.lock());
        let held = files.into_iter().filter_map(|file| match file.state {
            State::Held(upload) => Some(upload),
            _ => None,
        });
        held.collect()
    }

    fn disk(&self) -> Option<&Disk> {
        self.disk.get().and_then(Option::as_ref)
    }

    fn remove_hidden(&self) {
        if let Some(disk) = self.disk() {
            disk.hidden.remove();
        }
    }
}

impl Disk {
    /// A hidden directory in the one that files go to, or in the nearest one above it that exists: so renames stay on
    /// one file system, and a new directory can appear together with its files. `None` if the store keeps its files
    /// elsewhere.
    async fn near(
        store: &Arc<dyn ObjectStore>,
        directory: &Location,
        area: &Area,
    ) -> Result<Option<Self>> {
        let (root, location) = existing(directory, area)?;
        let hidden = HiddenDirectory::make_in(&root).map_err(|error| {
            area.failed(format!(
                "cannot make files in {} ({}); name a place where this user can",
                root.display(),
                error.kind()
            ))
        })?;
        let Some(name) = hidden.path().file_name().and_then(|name| name.to_str()) else {
            return Ok(None);
        };
        let location = location.join(name);
        match store.head(&location.clone().join(LOCK)).await {
            Ok(_) => Ok(Some(Self { root, hidden, location })),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A directory, or the nearest one above it that exists, as the system and as the store name it.
fn existing(directory: &Location, area: &Area) -> Result<(PathBuf, Location)> {
    // The store knows paths of files only.
    let file = LocalFileSystem::new().path_to_filesystem(&directory.clone().join("file"))?;
    let mut path = file.parent().map(Path::to_owned).unwrap_or_default();
    let mut location = directory.clone();
    while !path.is_dir() {
        if fs::symlink_metadata(&path).is_ok() {
            return Err(area.failed(format!(
                "{} is a file; name a directory, or a file with its extension",
                path.display()
            )));
        }
        if !path.pop() {
            return Err(area.failed("there is no directory to write to"));
        }
        location = location.parent().unwrap_or_default();
    }
    Ok((path, location))
}

/// The directory of the table that a file belongs to: the nearest one that is no `column=value`.
fn above_partitions(file: &Location) -> Location {
    let mut directory = file.parent().unwrap_or_default();
    while directory.filename().is_some_and(|name| name.contains('=')) {
        directory = directory.parent().unwrap_or_default();
    }
    directory
}
