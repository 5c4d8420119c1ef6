//! The files of a release and their checksums.

use datafusion::execution::runtime_env::RuntimeEnv;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::manifest::File;
use crate::store::Location;

/// Files read at once.
const AT_ONCE: usize = 4;

/// Reads every file below `url` and tells it by the path it will have below `released`.
pub(crate) async fn files(runtime: &RuntimeEnv, url: &str, released: &str) -> Result<Vec<File>> {
    let location = Location::new(runtime, url)?;
    let failed =
        |error: object_store::Error| Error::storage("reading back what was written", error);
    let objects: Vec<ObjectMeta> =
        location.store.list(Some(&location.path)).try_collect().await.map_err(failed)?;
    let hashed = objects.into_iter().map(|object| {
        let location = &location;
        async move { file(location, &object, released).await }
    });
    let hashed = futures::stream::iter(hashed).buffer_unordered(AT_ONCE);
    let mut files: Vec<File> = hashed.try_collect().await.map_err(failed)?;
    files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

async fn file(
    location: &Location,
    object: &ObjectMeta,
    released: &str,
) -> object_store::Result<File> {
    let (bytes, sha256) = digest(location.store.as_ref(), &object.location).await?;
    let parts = object.location.prefix_match(&location.path).into_iter().flatten();
    let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
    Ok(File { path: format!("{released}/{}", parts.join("/")), bytes, sha256 })
}

/// The size and the SHA-256 of an object.
pub(crate) async fn digest(
    store: &dyn ObjectStore,
    path: &Path,
) -> object_store::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut bytes = 0u64;
    let mut chunks = store.get(path).await?.into_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        bytes += chunk.len() as u64;
        hash.update(&chunk);
    }
    Ok((bytes, hexadecimal(&hash.finalize())))
}

/// The SHA-256 of a text.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
