//! The object stores that a writer sees: what it writes to them stays invisible.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::object_store::path::Path as Location;
use datafusion::object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result as StoreResult, UploadPart,
};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;
use url::Url;

use super::area::Area;

/// The stores of a session, for a writer whose files wait in an area.
#[derive(Debug)]
pub(super) struct StagingRegistry {
    pub(super) stores: Arc<dyn ObjectStoreRegistry>,
    pub(super) area: Arc<Area>,
}

impl ObjectStoreRegistry for StagingRegistry {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.stores.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let store = self.stores.get_store(url)?;
        let area = Arc::clone(&self.area);
        Ok(Arc::new(StagingStore { store, is_disk: url.scheme() == "file", area }))
    }
}

/// A store whose new files stay invisible until the area publishes them.
#[derive(Debug)]
struct StagingStore {
    store: Arc<dyn ObjectStore>,
    is_disk: bool,
    area: Arc<Area>,
}

impl fmt::Display for StagingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staging({})", self.store)
    }
}

impl StagingStore {
    async fn begin(
        &self,
        location: &Location,
        options: PutMultipartOptions,
    ) -> StoreResult<StagedUpload> {
        let begun = self.area.begin(&self.store, self.is_disk, location).await?;
        let at = begun.hidden.as_ref().unwrap_or(location);
        let upload = self.store.put_multipart_opts(at, options).await?;
        // The statement may have ended in between.
        self.area.check_open()?;
        Ok(StagedUpload {
            number: begun.number,
            is_hidden: begun.hidden.is_some(),
            upload: Some(upload),
            area: Arc::clone(&self.area),
        })
    }

    fn note_error<T>(&self, outcome: StoreResult<T>) -> StoreResult<T> {
        outcome.inspect_err(|error| self.area.note_failure(error))
    }
}

fn not_supported(what: &'static str) -> StoreError {
    StoreError::NotSupported { source: format!("{what} while a release is written").into() }
}

#[async_trait]
impl ObjectStore for StagingStore {
    async fn put_opts(
        &self,
        location: &Location,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        let PutOptions { mode, tags, attributes, extensions } = options;
        if mode != PutMode::Overwrite {
            return Err(not_supported("conditional puts"));
        }
        let options = PutMultipartOptions { tags, attributes, extensions };
        let mut upload = self.note_error(self.begin(location, options).await)?;
        upload.put_part(payload).await?;
        upload.complete().await
    }

    async fn put_multipart_opts(
        &self,
        location: &Location,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        Ok(Box::new(self.note_error(self.begin(location, options).await)?))
    }

    async fn get_opts(&self, location: &Location, options: GetOptions) -> StoreResult<GetResult> {
        self.store.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        _locations: BoxStream<'static, StoreResult<Location>>,
    ) -> BoxStream<'static, StoreResult<Location>> {
        stream::once(async { Err(not_supported("removing")) }).boxed()
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Location>) -> StoreResult<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Location, _: &Location, _: CopyOptions) -> StoreResult<()> {
        Err(not_supported("copying"))
    }
}

/// A file that is being written.
#[derive(Debug)]
struct StagedUpload {
    number: usize,
    is_hidden: bool,
    /// None when it is complete or gone.
    upload: Option<Box<dyn MultipartUpload>>,
    area: Arc<Area>,
}

#[async_trait]
impl MultipartUpload for StagedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let Some(upload) = &mut self.upload else {
            return async { Err(not_supported("writing on")) }.boxed();
        };
        let (part, area) = (upload.put_part(data), Arc::clone(&self.area));
        async move { part.await.inspect_err(|error| area.note_failure(error)) }.boxed()
    }

    async fn complete(&mut self) -> StoreResult<PutResult> {
        let Some(mut upload) = self.upload.take() else {
            return Err(not_supported("closing twice"));
        };
        if !self.is_hidden {
            self.area.hold(self.number, upload);
            return Ok(PutResult { e_tag: None, version: None });
        }
        let put = upload.complete().await.inspect_err(|error| self.area.note_failure(error))?;
        self.area.mark_hidden(self.number);
        Ok(put)
    }

    async fn abort(&mut self) -> StoreResult<()> {
        match self.upload.take() {
            Some(mut upload) => upload.abort().await,
            None => Ok(()),
        }
    }
}

/// Writers that fail or are stopped just drop their uploads; without an abort, object stores would keep the parts.
impl Drop for StagedUpload {
    fn drop(&mut self) {
        abort_later(self.upload.take().into_iter().collect());
    }
}

/// Aborts uploads in the background, if there is a runtime to do it.
pub(super) fn abort_later(uploads: Vec<Box<dyn MultipartUpload>>) {
    if !uploads.is_empty()
        && let Ok(runtime) = Handle::try_current()
    {
        runtime.spawn(abort(uploads));
    }
}

pub(super) async fn abort(uploads: Vec<Box<dyn MultipartUpload>>) {
    for mut upload in uploads {
        // What is left of it is never visible.
        let _ = upload.abort().await;
    }
}
