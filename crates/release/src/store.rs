//! Object stores by URL, with the credentials of the environment.

use std::sync::Arc;

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;

use crate::error::{Error, Result};

/// Somewhere in an object store; local files are one, too.
#[derive(Debug, Clone)]
pub struct Location {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The object or the prefix.
    pub path: Path,
}

impl Location {
    /// Finds the store of a path or URL, and tells the runtime about it if it is new.
    ///
    /// `s3://` and `gs://` read their credentials from the usual variables (`AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, …; `GOOGLE_APPLICATION_CREDENTIALS`). A
    /// store that the host registered before stays.
    pub fn new(runtime: &RuntimeEnv, path: &str) -> Result<Self> {
        let url = ListingTableUrl::parse(path).map_err(|error| {
            Error::job(format!("'{path}' is no path or URL: {}", error.strip_backtrace()))
        })?;
        let at = url.object_store();
        if runtime.object_store(&at).is_err() {
            let store = remote(url.scheme(), at.as_str(), path)?;
            runtime.register_object_store(at.as_ref(), store);
        }
        let store = runtime
            .object_store(&at)
            .map_err(|error| Error::storage(path, error.strip_backtrace()))?;
        Ok(Self { store, path: url.prefix().clone() })
    }
}

fn remote(scheme: &str, store: &str, path: &str) -> Result<Arc<dyn ObjectStore>> {
    let bucket = store.split("://").nth(1).unwrap_or_default().trim_end_matches('/');
    let wrong = |error: object_store::Error| Error::job(format!("'{path}': {error}"));
    Ok(match scheme {
        "s3" | "s3a" => {
            let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
            // A server in the house is often reached without TLS; its address says so.
            let plain = |name| std::env::var(name).is_ok_and(|url| url.starts_with("http://"));
            if plain("AWS_ENDPOINT_URL") || plain("AWS_ENDPOINT_URL_S3") || plain("AWS_ENDPOINT") {
                builder = builder.with_allow_http(true);
            }
            Arc::new(builder.build().map_err(wrong)?)
        }
        "gs" | "gcs" => Arc::new(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .build()
                .map_err(wrong)?,
        ),
        "http" | "https" => Arc::new(HttpBuilder::new().with_url(store).build().map_err(wrong)?),
        other => {
            return Err(Error::job(format!(
                "'{path}': '{other}' is not known; write a local path, s3://, gs:// or, for inputs, https://"
            )));
        }
    })
}
