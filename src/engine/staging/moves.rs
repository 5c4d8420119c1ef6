//! Files of a disk that become visible together.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::durable::{sync_directory, sync_tree};

/// A complete file under a hidden name, and the name that it is to have.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
}

/// What has to be renamed so that all files are visible, and what has been.
///
/// Directories that are missing come with their files in one step: a release in a new directory is there at
/// once, whatever happens to the process. Several files in a directory that is there already come one after
/// the other, and go again if one of them cannot come.
#[derive(Debug)]
pub(super) struct Moves {
    moves: Vec<Move>,
    done: usize,
}

/// One rename: of a file, or of a directory that is new.
#[derive(Debug)]
struct Move {
    from: PathBuf,
    to: PathBuf,
    /// The files that it makes visible.
    files: Vec<PathBuf>,
}

impl Moves {
    /// Puts the files on the disk for good and arranges them below `hidden`, which is in `root`.
    pub(super) fn prepare(root: &Path, hidden: &Path, files: Vec<Waiting>) -> io::Result<Self> {
        let mut moves: BTreeMap<PathBuf, Move> = BTreeMap::new();
        for (number, Waiting { from, to }) in files.into_iter().enumerate() {
            may_fail()?;
            File::open(&from)?.sync_all()?;
            let top = first_missing(root, &to)?;
            if top == to {
                let step = Move { from, to: to.clone(), files: vec![to.clone()] };
                if moves.insert(to, step).is_some() {
                    return Err(io::Error::other("two files have one name"));
                }
                continue;
            }
            let step = moves.entry(top.clone()).or_insert_with(|| Move {
                from: hidden.join(format!("tree-{number}")),
                to: top.clone(),
                files: Vec::new(),
            });
            let below = to.strip_prefix(&top).map_err(io::Error::other)?;
            let arranged = step.from.join(below);
            may_fail()?;
            arranged.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::rename(&from, &arranged)?;
            step.files.push(to);
        }
        let moves: Vec<Move> = moves.into_values().collect();
        for step in moves.iter().filter(|step| step.is_directory()) {
            may_fail()?;
            sync_tree(&step.from)?;
        }
        sync_directory(hidden)?;
        Ok(Self { moves, done: 0 })
    }

    /// How many files there are.
    pub(super) fn files(&self) -> usize {
        self.moves.iter().map(|step| step.files.len()).sum()
    }

    /// Makes the files visible; one that is there may be replaced if it is the only one. After an error the
    /// caller takes back what came before.
    pub(super) fn reveal(&mut self, may_replace: bool) -> io::Result<()> {
        for step in &self.moves {
            may_fail()?;
            if step.is_directory() && step.to.is_dir() {
                // Another part of the same release has brought the directory since.
                step.check_new()?;
                self.done += 1;
                join(&step.from, &step.to)?;
                continue;
            }
            match may_replace && !step.is_directory() {
                true => fs::rename(&step.from, &step.to)?,
                false => rename_to_new(step)?,
            }
            self.done += 1;
        }
        Ok(())
    }

    /// Hides the files again: removes those that came, and the directories that came with them if they are empty.
    /// Returns the files that could not be removed.
    pub(super) fn take_back(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for step in self.moves.iter().take(self.done) {
            let mut directories = Vec::new();
            for file in &step.files {
                if let Err(error) = fs::remove_file(file)
                    && error.kind() != ErrorKind::NotFound
                {
                    left.push(file.display().to_string());
                }
                let above = file.ancestors().skip(1).take_while(|path| path.starts_with(&step.to));
                directories.extend(above);
            }
            // The innermost first.
            directories.sort();
            directories.dedup();
            for directory in directories.into_iter().rev() {
                let _ = fs::remove_dir(directory);
            }
        }
        self.done = 0;
        left
    }

    /// The files are there; now they also survive a power cut.
    pub(super) fn settle(&self) {
        for step in &self.moves {
            if let Some(parent) = step.to.parent() {
                // Visible is visible, whatever comes of this.
                let _ = sync_directory(parent);
            }
        }
    }
}

impl Move {
    fn is_directory(&self) -> bool {
        self.files.first() != Some(&self.to)
    }

    /// Errors if a file is there that this step would bring.
    fn check_new(&self) -> io::Result<()> {
        match self.files.iter().any(|file| fs::symlink_metadata(file).is_ok()) {
            true => Err(ErrorKind::AlreadyExists.into()),
            false => Ok(()),
        }
    }
}

/// Moves what is in a directory into another one that is there.
fn join(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match target.is_dir() && entry.file_type()?.is_dir() {
            true => join(&entry.path(), &target)?,
            false => fs::rename(entry.path(), &target)?,
        }
    }
    Ok(())
}

/// The outermost name on the way from `root` to a file that is not there, or the file itself.
fn first_missing(root: &Path, file: &Path) -> io::Result<PathBuf> {
    let below = file.strip_prefix(root).map_err(io::Error::other)?;
    let mut path = root.to_owned();
    for name in below {
        path.push(name);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(path)
}

/// Renames unless something has that name.
fn rename_to_new(step: &Move) -> io::Result<()> {
    let Move { from, to, .. } = step;
    if fs::symlink_metadata(to).is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    if step.is_directory() {
        return fs::rename(from, to);
    }
    match fs::hard_link(from, to) {
        Ok(()) => {
            let _ = fs::remove_file(from);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
        // Not every file system has links.
        Err(_) => fs::rename(from, to),
    }
}

/// Every change passes here, so that a test can make any of them fail.
fn may_fail() -> io::Result<()> {
    #[cfg(test)]
    tests::next_step()?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Fails when as many steps are done as the test allows.
    pub(super) fn next_step() -> io::Result<()> {
        STEPS.with(|steps| match steps.get() {
            0 => Err(ErrorKind::StorageFull.into()),
            left => {
                steps.set(left - 1);
                Ok(())
            }
        })
    }

    fn contents(directory: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                found.extend(contents(&path));
                found.insert(path, None);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, Some(bytes));
            }
        }
        found
    }

    /// Publishes files below a root and fails after so many steps. Whether it went well.
    fn publish(root: &Path, names: &[&str], may_replace: bool, steps: usize) -> bool {
        let hidden = tempfile::tempdir_in(root).unwrap();
        let waiting = names.iter().enumerate().map(|(number, name)| {
            let from = hidden.path().join(number.to_string());
            fs::write(&from, name).unwrap();
            Waiting { from, to: root.join(name) }
        });
        let waiting = waiting.collect();
        STEPS.set(steps);
        let outcome = Moves::prepare(root, hidden.path(), waiting).and_then(|mut moves| {
            let revealed = moves.reveal(may_replace);
            match &revealed {
                Ok(()) => moves.settle(),
                Err(_) => assert!(moves.take_back().is_empty()),
            }
            revealed
        });
        STEPS.set(usize::MAX);
        outcome.is_ok()
    }

    /// Every step fails once: nothing has changed. When none fails, everything is there.
    #[test]
    fn all_files_or_none() {
        let cases: [(&[&str], bool); 6] = [
            (&["old.csv"], true),
            (&["new.csv"], true),
            (&["a.csv", "b.csv"], false),
            (&["new/a.csv", "new/b.csv"], false),
            (&["new/x=1/a.csv", "new/x=2/b.csv"], false),
            (&["there/x=1/a.csv", "there/x=2/b.csv", "there/c.csv"], false),
        ];
        let mut failures = 0;
        for (names, may_replace) in cases {
            for steps in 0.. {
                let root = tempfile::tempdir().unwrap();
                fs::write(root.path().join("old.csv"), "yesterday").unwrap();
                fs::create_dir_all(root.path().join("there/x=1")).unwrap();
                fs::write(root.path().join("there/x=1/old.csv"), "yesterday").unwrap();
                let before = contents(root.path());
                if publish(root.path(), names, may_replace, steps) {
                    for name in names {
                        assert_eq!(fs::read(root.path().join(name)).unwrap(), name.as_bytes());
                    }
                    let old = root.path().join("there/x=1/old.csv");
                    assert_eq!(fs::read(old).unwrap(), b"yesterday");
                    break;
                }
                assert_eq!(contents(root.path()), before, "{names:?} after {steps} steps");
                failures += 1;
            }
        }
        println!("{failures} failures");
        assert!(failures > 20);
    }

    #[test]
    fn nothing_of_others_is_replaced_or_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        fs::write(root.path().join("d/b.csv"), "yesterday").unwrap();
        let before = contents(root.path());
        // The first one comes and goes again, because the second one is in the way.
        assert!(!publish(root.path(), &["d/a.csv", "d/b.csv"], false, usize::MAX));
        assert_eq!(contents(root.path()), before);
        // A file where a directory has to be.
        assert!(!publish(root.path(), &["d/a.csv", "d/b.csv/c.csv"], false, usize::MAX));
        assert_eq!(contents(root.path()), before);
        assert!(!publish(root.path(), &["d"], true, usize::MAX));
        assert_eq!(contents(root.path()), before);
    }

    /// Two tables of one release in directories below one that neither finds there.
    #[test]
    fn parts_of_a_release_share_a_new_directory() {
        let root = tempfile::tempdir().unwrap();
        let part = |name: &str| {
            let hidden = root.path().join(format!(".{}", name.replace('/', "-")));
            fs::create_dir(&hidden).unwrap();
            fs::write(hidden.join("0"), name).unwrap();
            let waiting = Waiting { from: hidden.join("0"), to: root.path().join(name) };
            Moves::prepare(root.path(), &hidden, vec![waiting]).unwrap()
        };
        let (mut one, mut other) = (part("new/a/qi.csv"), part("new/b/sa.csv"));
        let mut same = part("new/a/qi.csv2");
        one.reveal(false).unwrap();
        other.reveal(false).unwrap();
        assert_eq!(fs::read(root.path().join("new/a/qi.csv")).unwrap(), b"new/a/qi.csv");
        assert_eq!(fs::read(root.path().join("new/b/sa.csv")).unwrap(), b"new/b/sa.csv");
        assert!(other.take_back().is_empty());
        assert!(!root.path().join("new/b").exists() && root.path().join("new/a/qi.csv").exists());
        // A file of that name is not replaced.
        fs::write(root.path().join("new/a/qi.csv2"), "of another").unwrap();
        assert!(same.reveal(false).is_err());
        assert!(same.take_back().is_empty());
        assert_eq!(fs::read(root.path().join("new/a/qi.csv2")).unwrap(), b"of another");
    }

    /// A new directory comes in one rename, and what others put into it since stays when it goes again.
    #[test]
    fn a_new_directory_comes_at_once() {
        let root = tempfile::tempdir().unwrap();
        let hidden = root.path().join("hidden");
        fs::create_dir(&hidden).unwrap();
        let waiting = |name: &str| {
            let from = hidden.join(name.replace('/', "-"));
            fs::write(&from, name).unwrap();
            Waiting { from, to: root.path().join(name) }
        };
        let files = ["r/below/a", "r/below/b", "r/c"].map(waiting).into();
        let mut moves = Moves::prepare(root.path(), &hidden, files).unwrap();
        assert_eq!((moves.moves.len(), moves.files()), (1, 3));
        moves.reveal(false).unwrap();
        fs::write(root.path().join("r/of another"), "x").unwrap();
        assert!(moves.take_back().is_empty());
        let left: Vec<_> = contents(&root.path().join("r")).into_keys().collect();
        assert_eq!(left, [root.path().join("r/of another")]);
    }
}
