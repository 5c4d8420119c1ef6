//! A place with yesterday's releases, on a disk or in an object store.

use std::sync::Arc;

use datafusion::arrow::ipc::reader::FileReader;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path as Location;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;
use url::Url;

use crate::faults::eventually;
use crate::faults::stores::{Contents, Fault, Faults, FaultyStore, files, objects};

pub const ROWS: u64 = 600;
pub const RELEASE: &str =
    "anonymize((SELECT age, sex, zip, occupation FROM sample_census(rows => 600, seed => 1)),
    k => 5, quasi_identifiers => ['age', 'sex', 'zip'], sensitive => ['occupation'],
    seed => 'a seed that nobody guesses')";

/// Targets and how they are written; `releases/` is there already.
pub const TARGETS: [(&str, &str); 9] = [
    ("release.parquet", "PARQUET"),
    ("release.csv", "CSV"),
    ("release.json", "JSON"),
    ("release.arrow", "ARROW"),
    ("releases/", "PARQUET"),
    ("releases/", "CSV PARTITIONED BY (sex)"),
    ("new.parquet", "PARQUET"),
    ("new/", "ARROW PARTITIONED BY (sex)"),
    ("new/below/", "CSV"),
];

/// What yesterday left.
const YESTERDAY: [&str; 6] = [
    "release.parquet",
    "release.csv",
    "release.json",
    "release.arrow",
    "releases/old.parquet",
    "releases/sex=female/old.csv",
];

/// A store with yesterday's files.
pub enum TargetStore {
    Memory(Arc<InMemory>),
    Disk(TempDir),
}

impl TargetStore {
    pub async fn memory() -> Self {
        let store = Arc::new(InMemory::new());
        for name in YESTERDAY {
            store.put(&Location::from(name), "yesterday".into()).await.unwrap();
        }
        Self::Memory(store)
    }

    pub fn disk() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in YESTERDAY {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "yesterday").unwrap();
        }
        Self::Disk(directory)
    }

    pub async fn new(is_disk: bool) -> Self {
        if is_disk { Self::disk() } else { Self::memory().await }
    }

    pub fn store(&self) -> Arc<dyn ObjectStore> {
        match self {
            Self::Memory(store) => Arc::clone(store) as _,
            Self::Disk(_) => Arc::new(LocalFileSystem::new()),
        }
    }

    pub fn url(&self, name: &str) -> String {
        match self {
            Self::Memory(_) => format!("memory://store/{name}"),
            Self::Disk(directory) => directory.path().join(name).display().to_string(),
        }
    }

    pub async fn contents(&self) -> Contents {
        match self {
            Self::Memory(store) => objects(store.as_ref()).await,
            Self::Disk(directory) => files(directory.path()),
        }
    }

    fn root(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory://store",
            Self::Disk(_) => "file://",
        }
    }

    /// Waits for writers of a session that are on their way out: what they began is hidden and goes with them.
    pub async fn tidy(&self, context: &SessionContext) {
        let root = Url::parse(self.root()).unwrap();
        // The session has the store, and whoever asks.
        let store = || context.runtime_env().object_store_registry.get_store(&root).unwrap();
        eventually("the end of all writers", || Arc::strong_count(&store()) == 2).await;
        if let Self::Disk(directory) = self {
            let is_tidy =
                || files(directory.path()).keys().all(|name| !name.contains(".anonymize-"));
            eventually("the removal of what is hidden", is_tidy).await;
        }
    }

    /// Nothing has changed.
    pub async fn check_still(&self, context: &SessionContext, before: &Contents) {
        self.tidy(context).await;
        let after = self.contents().await;
        let changed = |name: &&String| after.get(*name) != before.get(*name);
        let changed: Vec<_> = after.keys().chain(before.keys()).filter(changed).collect();
        assert!(changed.is_empty(), "{changed:?}");
    }

    /// A session that writes to it.
    pub fn session(&self, faults: &Arc<Faults>) -> SessionContext {
        let mut config = SessionConfig::new().with_target_partitions(2).with_batch_size(100);
        let execution = &mut config.options_mut().execution;
        // Several files, and several parts of each.
        execution.minimum_parallel_output_files = ConfigNonZeroUsize::try_new(2).unwrap();
        execution.objectstore_writer_buffer_size = 4096;
        let context = crate::session(config);
        let store = FaultyStore { inner: self.store(), faults: Arc::clone(faults) };
        context.register_object_store(&Url::parse(self.root()).unwrap(), Arc::new(store));
        context
    }

    pub fn sound(&self) -> SessionContext {
        self.session(&Faults::new(usize::MAX, Fault::Refused))
    }

    pub fn copy(&self, (name, format): (&str, &str)) -> String {
        format!("COPY (SELECT * FROM {RELEASE}) TO '{}' STORED AS {format}", self.url(name))
    }

    /// The rows in files that are new or changed.
    pub async fn new_rows(&self, before: &Contents, format: &str) -> u64 {
        let after = self.contents().await;
        let is_new = |name: &&String| !name.ends_with('/') && after.get(*name) != before.get(*name);
        let new: Vec<&String> = after.keys().filter(is_new).collect();
        let format = format.split(' ').next().unwrap();
        if format != "PARQUET" {
            return new.iter().map(|name| rows_in(&after[*name], format)).sum();
        }
        let urls: Vec<String> = new.iter().map(|name| self.url(name)).collect();
        let read = self.sound().read_parquet(urls, Default::default()).await;
        read.unwrap().count().await.unwrap() as u64
    }
}

/// DataFusion does not read its own Arrow files from object stores, nor files whose names have special characters.
fn rows_in(bytes: &[u8], format: &str) -> u64 {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    match format {
        "CSV" => lines - 1,
        "JSON" => lines,
        _ => {
            let reader = FileReader::try_new(std::io::Cursor::new(bytes), None).unwrap();
            reader.map(|batch| batch.unwrap().num_rows() as u64).sum()
        }
    }
}
