//! Object stores in which one operation goes wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result, UploadPart,
};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use tokio::sync::Semaphore;

/// How an operation goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens.
    Refused,
    /// It is done, and nobody learns it.
    AnswerLost,
    /// It waits until the test lets it go on.
    Stalled,
    /// Nothing happens any more, as if the program had been killed.
    Killed,
}

/// Which operation goes wrong, and how many there have been.
#[derive(Debug)]
pub struct Faults {
    at: usize,
    fault: Fault,
    /// How many operations there have been.
    pub seen: AtomicUsize,
    /// Has a permit when the operation is there.
    pub reached: Semaphore,
    /// Gets a permit when it may go on.
    pub go: Semaphore,
}

impl Faults {
    pub fn new(at: usize, fault: Fault) -> Arc<Self> {
        let (reached, go) = (Semaphore::new(0), Semaphore::new(0));
        Arc::new(Self { at, fault, seen: AtomicUsize::new(0), reached, go })
    }

    async fn run<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        let seen = self.seen.fetch_add(1, Ordering::SeqCst);
        let is_over = self.fault == Fault::Killed && seen > self.at;
        if seen != self.at && !is_over {
            return operation.await;
        }
        match self.fault {
            Fault::Refused | Fault::Killed => Err(full()),
            Fault::AnswerLost => {
                operation.await?;
                Err(full())
            }
            Fault::Stalled => {
                self.reached.add_permits(1);
                self.go.acquire().await.unwrap().forget();
                operation.await
            }
        }
    }
}

fn full() -> Error {
    let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
    Error::Generic { store: "test", source: source.into() }
}

#[derive(Debug)]
pub struct FaultyStore {
    pub inner: Arc<dyn ObjectStore>,
    pub faults: Arc<Faults>,
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, at: &Path, data: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.faults.run(self.inner.put_opts(at, data, how)).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.faults.run(self.inner.put_multipart_opts(at, how)).await?;
        Ok(Box::new(FaultyUpload { upload, faults: Arc::clone(&self.faults) }))
    }

    async fn get_opts(&self, at: &Path, how: GetOptions) -> Result<GetResult> {
        self.faults.run(self.inner.get_opts(at, how)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, faults) = (Arc::clone(&self.inner), Arc::clone(&self.faults));
        let delete = move |location: Result<Path>| {
            let (inner, faults) = (Arc::clone(&inner), Arc::clone(&faults));
            async move {
                let location = location?;
                faults.run(inner.delete(&location)).await?;
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (listed, faults) = (self.inner.list(prefix), Arc::clone(&self.faults));
        let listed = async move { faults.run(listed.try_collect::<Vec<_>>()).await };
        stream::once(listed).map_ok(|all| stream::iter(all).map(Ok)).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.faults.run(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.faults.run(self.inner.copy_opts(from, to, how)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, how: RenameOptions) -> Result<()> {
        self.faults.run(self.inner.rename_opts(from, to, how)).await
    }
}

#[derive(Debug)]
struct FaultyUpload {
    upload: Box<dyn MultipartUpload>,
    faults: Arc<Faults>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, faults) = (self.upload.put_part(data), Arc::clone(&self.faults));
        async move { faults.run(part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.faults.run(self.upload.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.faults.run(self.upload.abort()).await
    }
}

/// Names and bytes.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// Everything in an object store.
pub async fn objects(store: &dyn ObjectStore) -> Contents {
    let mut found = Contents::new();
    for object in store.list(None).try_collect::<Vec<_>>().await.unwrap() {
        let bytes = store.get(&object.location).await.unwrap().bytes().await.unwrap();
        found.insert(object.location.to_string(), bytes.to_vec());
    }
    found
}

/// Everything in a directory, hidden or not, directories included.
pub fn files(root: &FilePath) -> Contents {
    let mut found = Contents::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if path.is_dir() {
                found.insert(format!("{name}/"), Vec::new());
                pending.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                found.insert(name, bytes);
            }
        }
    }
    found
}
