//! A series in an object store in which operations go wrong.

#[allow(dead_code)]
#[path = "../../../../../tests/faults/stores.rs"]
mod stores;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anonymize_release::{Error, Outcome};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::{Nights, ids, people};
use stores::{Fault, Faults, FaultyStore};

/// The nights of a bucket.
fn bucket(store: Arc<dyn ObjectStore>, nights: &Nights) -> Nights {
    let host = SessionContext::new();
    host.register_object_store(&"mem://bucket".parse().unwrap(), store);
    let (output, state) = ("mem://bucket/out".to_owned(), "mem://bucket/state".to_owned());
    Nights { host, output, state, ..nights.clone() }
}

async fn names(store: &InMemory, below: &str) -> Vec<String> {
    let objects: Vec<_> = store.list(Some(&Path::from(below))).try_collect().await.unwrap();
    let mut names: Vec<String> = objects.iter().map(|object| object.location.to_string()).collect();
    names.sort();
    names
}

/// The lock of a run that is dead runs out.
async fn expire_lock(store: &InMemory) {
    let lock = Path::from("out/.lock");
    if store.head(&lock).await.is_ok() {
        let claim = r#"{"run": "dead", "until": "2020-01-01T00:00:00Z"}"#;
        store.put(&lock, claim.into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_series_lives_in_a_bucket() {
    let store = Arc::new(InMemory::new());
    let nights = bucket(Arc::clone(&store) as _, &Nights::new());
    nights.night(people(0..100)).await.unwrap();
    let first = nights.published().await;
    nights.night(people(0..120)).await.unwrap();
    nights.check().await;
    assert!(ids(&first).is_subset(&ids(&nights.published().await)));
    let state = names(&store, "state").await;
    let of = |start: &str| state.iter().filter(|name| name.starts_with(start)).count();
    assert_eq!((state.len(), of("state/members-"), of("state/series-")), (4, 2, 1), "{state:?}");
    nights.write(people(1..120));
    anonymize_release::forget(&nights.job().unwrap(), &nights.host, "0", true).await.unwrap();
    nights.run().await.unwrap();
    nights.check().await;
    assert_eq!(names(&store, "state").await.len(), 4);
}

/// Whatever goes wrong at one of the operations of a night, or from there on, the next night finds a release with its
/// state, nobody is in two cohorts, and no file of the broken run remains.
async fn a_night_survives(fault: Fault) {
    let base = Arc::new(InMemory::new());
    let draft = Nights::new();
    let first = bucket(Arc::clone(&base) as _, &draft);
    first.night(people(0..60)).await.unwrap();
    let (published, members) = (first.published().await, first.members().await);
    let (mut failed, mut succeeded) = (0, 0);
    for at in 0.. {
        let store = Arc::new(base.fork());
        let faults = Faults::new(at, fault);
        let faulty = FaultyStore { inner: Arc::clone(&store) as _, faults: Arc::clone(&faults) };
        draft.write(people(0..80));
        let outcome: Result<Outcome, Error> = bucket(Arc::new(faulty), &draft).run().await;
        if faults.seen.load(Ordering::SeqCst) <= at {
            assert!(outcome.is_ok(), "{outcome:?}");
            break;
        }
        match outcome {
            Ok(_) => succeeded += 1,
            Err(_) => failed += 1,
        }
        expire_lock(&store).await;
        let nights = bucket(Arc::clone(&store) as _, &draft);
        nights.check().await;
        nights.night(people(0..95)).await.unwrap_or_else(|error| panic!("{at}: {error}"));
        nights.check().await;
        let now = nights.members().await;
        assert!(members.iter().all(|(person, cohort)| now.get(person) == Some(cohort)), "{at}");
        assert!(ids(&published).is_subset(&ids(&nights.published().await)), "{at}");
        let segments = nights.state_now().await["segments"].as_array().unwrap().len();
        assert_eq!(names(&store, "state").await.len(), segments + 2, "{at}");
        assert!(names(&store, "out/.staging").await.is_empty(), "{at}");
    }
    assert!(failed > 20, "{failed} runs failed and {succeeded} did not");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_operation_is_refused() {
    a_night_survives(Fault::Refused).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_to_one_operation_is_lost() {
    a_night_survives(Fault::AnswerLost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_run_is_killed_before_one_operation() {
    a_night_survives(Fault::Killed).await;
}

#[tokio::test]
async fn of_two_runs_that_both_believe_to_hold_the_lock_one_adds_a_night() {
    let store = Arc::new(InMemory::new());
    let nights = bucket(Arc::clone(&store) as _, &Nights::new());
    nights.night(people(0..60)).await.unwrap();
    nights.write(people(0..80));
    let steal = async {
        while store.head(&Path::from("out/.lock")).await.is_err() {
            tokio::task::yield_now().await;
        }
        store.delete(&Path::from("out/.lock")).await.unwrap();
        nights.run().await
    };
    let (slow, quick) = tokio::join!(nights.run(), steal);
    let published = [slow, quick].into_iter().flatten().count();
    assert_eq!(published, 1, "one of them must be refused");
    nights.check().await;
    assert_eq!(nights.manifest().await.unwrap().series.unwrap().night, 2);
    assert_eq!(nights.run().await.unwrap().manifest.series.unwrap().night, 3);
    nights.check().await;
}
