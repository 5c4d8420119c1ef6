//! Releases in an object store; this one is in memory. The program's tests talk to an S3 server.

use std::sync::Arc;

use anonymize_release::{
    Error, Manifest, Outcome, Phase, RunOptions, current, register_release, run,
};
use datafusion::prelude::SessionContext;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::{CENSUS, Draft, ENDLESS, host, run_to};

const OUTPUT: &str = "mem://bucket/census/";

struct Bucket {
    store: Arc<InMemory>,
    host: SessionContext,
}

impl Bucket {
    fn new() -> Self {
        let store = Arc::new(InMemory::new());
        let host = host();
        let url = "mem://bucket".parse().unwrap();
        host.register_object_store(&url, Arc::clone(&store) as Arc<dyn ObjectStore>);
        Self { store, host }
    }

    async fn run(&self, draft: &Draft) -> Result<Outcome, Error> {
        let job = draft.job(std::path::Path::new("/"))?;
        run(&job, &self.host, RunOptions::default()).await
    }

    async fn put(&self, path: &str, text: &str) {
        self.store.put(&Path::from(path), text.to_owned().into()).await.unwrap();
    }

    async fn text(&self, path: &str) -> String {
        let bytes = self.store.get(&Path::from(path)).await.unwrap().bytes().await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    async fn names(&self) -> Vec<String> {
        let objects: Vec<_> = self.store.list(None).try_collect().await.unwrap();
        let mut names: Vec<String> =
            objects.iter().map(|object| object.location.to_string()).collect();
        names.sort();
        names
    }

    async fn manifest(&self) -> Manifest {
        Manifest::from_json(self.text("census/manifest.json").await.as_bytes(), "test").unwrap()
    }
}

#[tokio::test]
async fn a_release_is_named_by_its_pointer_and_nothing_else_remains() {
    let bucket = Bucket::new();
    let outcome = bucket.run(&Draft::new(OUTPUT)).await.unwrap();
    let manifest = bucket.manifest().await;
    assert_eq!(manifest.release, outcome.manifest.release);
    let mut expected: Vec<String> =
        manifest.tables[0].files.iter().map(|file| format!("census/{}", file.path)).collect();
    expected.push("census/manifest.json".to_owned());
    expected.push(format!("census/{}/manifest.json", manifest.location));
    expected.sort();
    assert_eq!(bucket.names().await, expected);
    let found = current(&bucket.host, OUTPUT).await.unwrap().unwrap();
    register_release(&bucket.host, OUTPUT, &found.tables[0], "released").await.unwrap();
    assert_eq!(bucket.host.table("released").await.unwrap().count().await.unwrap(), 2000);
}

#[tokio::test]
async fn a_failed_run_leaves_the_bucket_as_it_was() {
    let bucket = Bucket::new();
    let draft = Draft::new(OUTPUT);
    bucket.run(&draft).await.unwrap();
    let before = (bucket.names().await, bucket.text("census/manifest.json").await);
    let error = bucket.run(&Draft { checks: "max_loss = 0.001", ..draft }).await.unwrap_err();
    assert!(matches!(error, Error::Unmet(_)), "{error}");
    assert_eq!((bucket.names().await, bucket.text("census/manifest.json").await), before);
}

#[tokio::test]
async fn older_releases_are_removed_and_strays_too() {
    let bucket = Bucket::new();
    bucket.put("census/.staging/20200101T000000Z-00000000/published/x.parquet", "half").await;
    bucket
        .put("census/releases/20200101T000000Z-00000001/published/x.parquet", "never named")
        .await;
    bucket.put("census/releases/mine/x", "somebody else's").await;
    let mut draft = Draft::new(OUTPUT);
    draft.output += "\nkeep = 0";
    bucket.run(&draft).await.unwrap();
    bucket.run(&draft).await.unwrap();
    let names = bucket.names().await;
    let current = bucket.manifest().await.location;
    let strangers: Vec<_> = names
        .iter()
        .filter(|name| !name.contains(&current) && *name != "census/manifest.json")
        .collect();
    assert_eq!(strangers, ["census/releases/mine/x"]);
}

#[tokio::test]
async fn a_lock_keeps_others_away_until_it_expires() {
    let bucket = Bucket::new();
    bucket.put("census/.lock", r#"{"run": "another", "until": "2999-01-01T00:00:00Z"}"#).await;
    let error = bucket.run(&Draft::new(OUTPUT)).await.unwrap_err();
    assert!(
        matches!(&error, Error::Busy(text) if text.contains("run another holds it")),
        "{error}"
    );
    bucket.put("census/.lock", r#"{"run": "dead", "until": "2020-01-01T00:00:00Z"}"#).await;
    // The dead run may not be dead: what it was about to name stays until the next run.
    bucket
        .put("census/releases/20200101T000000Z-00000001/published/x.parquet", "about to be named")
        .await;
    bucket
        .run(&Draft { output: format!("path = \"{OUTPUT}\"\nkeep = 5"), ..Draft::new(OUTPUT) })
        .await
        .unwrap();
    let names = bucket.names().await;
    assert!(!names.contains(&"census/.lock".to_owned()));
    let orphan = "census/releases/20200101T000000Z-00000001/published/x.parquet".to_owned();
    assert!(names.contains(&orphan));
    bucket.run(&Draft::new(OUTPUT)).await.unwrap();
    assert!(!bucket.names().await.contains(&orphan));
}

#[tokio::test]
async fn of_two_runs_that_both_believe_to_hold_the_lock_one_publishes() {
    let bucket = Bucket::new();
    bucket.run(&Draft::new(OUTPUT)).await.unwrap();
    let job = Draft::new(OUTPUT).job(std::path::Path::new("/")).unwrap();
    // Takes the lock away as soon as the run has it, and lets another run publish meanwhile.
    let steal = async {
        while bucket.store.head(&Path::from("census/.lock")).await.is_err() {
            tokio::task::yield_now().await;
        }
        bucket.store.delete(&Path::from("census/.lock")).await.unwrap();
        bucket.run(&Draft::new(OUTPUT)).await
    };
    let (slow, quick) = tokio::join!(run(&job, &bucket.host, RunOptions::default()), steal);
    let published: Vec<Outcome> = [slow, quick].into_iter().flatten().collect();
    assert_eq!(published.len(), 1, "one of them must be refused");
    let manifest = bucket.manifest().await;
    assert_eq!(manifest.release, published[0].manifest.release);
    for file in &manifest.tables[0].files {
        bucket.store.head(&Path::from(format!("census/{}", file.path))).await.unwrap();
    }
}

#[tokio::test]
async fn a_stopped_run_leaves_no_objects() {
    // While rows are read, and when objects are staged.
    for (query, phase, are_staged) in
        [(ENDLESS, Phase::Anonymize, false), (CENSUS, Phase::Verify, true)]
    {
        let bucket = Bucket::new();
        let draft = Draft { query, ..Draft::new(OUTPUT) };
        let job = draft.job(std::path::Path::new("/")).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let store = Arc::clone(&bucket.store);
        let look = move || {
            let staged = store.list(Some(&Path::from("census/.staging"))).next().now_or_never();
            tell.send(staged.unwrap().is_some()).unwrap();
        };
        let stopped = run_to(phase, &job, &bucket.host, look).await;
        assert!(matches!(stopped, Err(Error::Cancelled)), "{phase}: {stopped:?}");
        assert_eq!(told.recv().unwrap(), are_staged, "{phase}");
        assert_eq!(bucket.names().await, Vec::<String>::new(), "{phase}");
    }
}

#[tokio::test]
async fn a_foreign_manifest_is_not_overwritten() {
    let bucket = Bucket::new();
    bucket.put("census/manifest.json", "{\"short_name\": \"an app\"}").await;
    let error = bucket.run(&Draft::new(OUTPUT)).await.unwrap_err();
    assert!(error.to_string().contains("is not the manifest of a release"), "{error}");
    assert_eq!(bucket.names().await, ["census/manifest.json"]);
}
