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
/// A missing directory appears with all its files in one rename, whatever happens to the process. Several files in
/// an existing directory appear one after the other, and are removed again if one of them fails.
#[derive(Debug)]
pub(super) struct Moves {
    moves: Vec<Move>,
    /// Files that have become visible.
    shown: Vec<PathBuf>,
    /// Directories that were not there before.
    made: Vec<PathBuf>,
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
        Ok(Self { moves, shown: Vec::new(), made: Vec::new() })
    }

    /// How many files there are.
    pub(super) fn files(&self) -> usize {
        self.moves.iter().map(|step| step.files.len()).sum()
    }

    /// Makes the files visible. With `may_replace` a file takes the place of an existing one; the caller allows it
    /// for a single file only. After an error the caller takes back those that became visible.
    pub(super) fn reveal(&mut self, may_replace: bool) -> io::Result<()> {
        for step in &self.moves {
            may_fail()?;
            if step.is_directory() {
                step.reveal_directory(&mut self.shown, &mut self.made)?;
            } else if may_replace {
                fs::rename(&step.from, &step.to)?;
            } else {
                rename_to_new(&step.from, &step.to)?;
                self.shown.push(step.to.clone());
            }
        }
        Ok(())
    }

    /// Removes the files that became visible, and the directories that were made for them if they are empty. Returns
    /// the files that could not be removed.
    pub(super) fn take_back(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for file in self.shown.drain(..) {
            if let Err(error) = fs::remove_file(&file)
                && error.kind() != ErrorKind::NotFound
            {
                left.push(file.display().to_string());
            }
        }
        // The innermost first.
        self.made.sort();
        self.made.dedup();
        for directory in self.made.drain(..).rev() {
            let _ = fs::remove_dir(directory);
        }
        left
    }

    /// The files are there; now they also survive a power cut.
    pub(super) fn settle(&self) {
        for step in &self.moves {
            if let Some(parent) = step.to.parent() {
                // The files are visible already; an error changes nothing about that.
                let _ = sync_directory(parent);
            }
        }
    }
}

impl Move {
    fn is_directory(&self) -> bool {
        self.files.first() != Some(&self.to)
    }

    /// The directories on the way to a file, from the one that is moved.
    fn directories<'a>(&'a self, file: &'a Path) -> impl Iterator<Item = &'a Path> {
        file.ancestors().skip(1).take_while(|path| path.starts_with(&self.to))
    }

    /// Moves a directory with all its files in one step, or file by file if it exists by now: another part of the
    /// same release may have made it.
    fn reveal_directory(
        &self,
        shown: &mut Vec<PathBuf>,
        made: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        if fs::symlink_metadata(&self.to).is_err() {
            fs::rename(&self.from, &self.to)?;
            for file in &self.files {
                made.extend(self.directories(file).map(Path::to_owned));
                shown.push(file.clone());
            }
            return Ok(());
        }
        for file in &self.files {
            let mut directories: Vec<&Path> = self.directories(file).collect();
            directories.reverse();
            for directory in directories {
                match fs::create_dir(directory) {
                    Ok(()) => made.push(directory.to_owned()),
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
            let below = file.strip_prefix(&self.to).map_err(io::Error::other)?;
            may_fail()?;
            rename_to_new(&self.from.join(below), file)?;
            shown.push(file.clone());
        }
        Ok(())
    }
}

/// The outermost missing path on the way from `root` to a file, or the file itself if only it, or nothing, is missing.
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

/// Renames a file unless something has that name.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => {
            let _ = fs::remove_file(from);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
        // Not every file system has links.
        Err(_) if fs::symlink_metadata(to).is_err() => fs::rename(from, to),
        Err(_) => Err(ErrorKind::AlreadyExists.into()),
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

    /// Two parts of a release below one new directory: the second one finds it there.
    #[test]
    fn parts_share_a_new_directory() {
        let mut failures = 0;
        for steps in 0.. {
            let root = tempfile::tempdir().unwrap();
            let hidden = tempfile::tempdir().unwrap();
            let part = |name: &str| {
                let at = hidden.path().join(name);
                fs::create_dir(&at).unwrap();
                fs::write(at.join("0"), name).unwrap();
                let to = root.path().join("new").join(name).join("file");
                let files = vec![Waiting { from: at.join("0"), to }];
                Moves::prepare(root.path(), &at, files).unwrap()
            };
            let mut parts = [part("one"), part("two")];
            STEPS.set(steps);
            let outcome = parts.iter_mut().try_for_each(|part| part.reveal(false));
            STEPS.set(usize::MAX);
            let found = contents(root.path()).len();
            if outcome.is_ok() {
                assert_eq!(found, 5);
                break;
            }
            assert!(parts.iter_mut().rev().all(|part| part.take_back().is_empty()));
            assert_eq!(contents(root.path()).len(), 0, "{steps} steps");
            failures += 1;
        }
        assert_eq!(failures, 3);
    }
}
