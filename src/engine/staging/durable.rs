//! Files and names that survive a power cut.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Waits until everything below a directory, names included, is on the disk.
pub fn sync_tree(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_tree(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    sync_directory(directory)
}

/// Waits until the names in a directory are on the disk.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    // Not every system can do that, and those that cannot need not.
    match File::open(directory).and_then(|directory| directory.sync_all()) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
