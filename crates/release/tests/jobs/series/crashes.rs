//! A run may end between any two of its steps, on a local disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anonymize_release::{Error, Phase, run};
use datafusion::prelude::SessionContext;

use super::{Nights, files, ids, people};
use crate::{run_to, tree};

type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// The places of a series, with the files below them.
fn places(nights: &Nights) -> Tree {
    let mut files = tree(Path::new(&nights.output));
    files.extend(tree(Path::new(&nights.state)));
    files
}

fn restore(nights: &Nights, files: &Tree) {
    for place in [&nights.output, &nights.state] {
        let _ = std::fs::remove_dir_all(place);
    }
    for (path, bytes) in files {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// What is there when a run ends after each of its steps: the files before it, and those after it as far as they are
/// written.
fn gaps(nights: &Nights, before: &Tree, after: &Tree, run: &str) -> Vec<(&'static str, Tree)> {
    let (output, state) = (Path::new(&nights.output), Path::new(&nights.state));
    let released = output.join("releases").join(run);
    let staged = output.join(".staging").join(run);
    let below = |place: &Path| -> Tree {
        after
            .range(place.to_owned()..)
            .take_while(|(path, _)| path.starts_with(place))
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect()
    };
    let one = |path: PathBuf| Tree::from([(path.clone(), after[&path].clone())]);
    let mut files = before.clone();
    let claim = r#"{"kind": "anonymize-series/1", "job": "people", "published": null}"#;
    files.entry(state.join("state.json")).or_insert_with(|| claim.into());
    let mut found = vec![("claimed", files.clone())];
    for (path, bytes) in below(&released) {
        files.insert(staged.join(path.strip_prefix(&released).unwrap()), bytes);
    }
    found.push(("release staged", files.clone()));
    files.extend(one(state.join(format!("members-{run}.parquet"))));
    found.push(("members written", files.clone()));
    let mut half = files.clone();
    half.insert(state.join(format!(".series-{run}.json.new")), b"{".to_vec());
    found.push(("half a state written", half));
    files.extend(one(state.join(format!("series-{run}.json"))));
    found.push(("state written", files.clone()));
    files.retain(|path, _| !path.starts_with(&staged));
    files.extend(below(&released));
    found.push(("release in place", files.clone()));
    files.extend(one(output.join("manifest.json")));
    found.push(("pointer replaced", files.clone()));
    files.extend(one(state.join("state.json")));
    found.push(("said to be published", files));
    found.push(("tidied", after.clone()));
    found
}

/// Whatever happened, the next night goes on from what the pointer names, and nothing of the dead run remains.
async fn goes_on(nights: &Nights, gap: &str) {
    let (known, members) = match nights.manifest().await {
        Some(_) => {
            nights.check().await;
            (nights.published().await, nights.members().await)
        }
        None => Default::default(),
    };
    let outcome = nights.night(people(0..260)).await;
    let outcome = outcome.unwrap_or_else(|error| panic!("{gap}: {error}"));
    nights.check().await;
    let now = nights.members().await;
    assert!(members.iter().all(|(person, cohort)| now.get(person) == Some(cohort)), "{gap}");
    assert!(ids(&known).is_subset(&ids(&nights.published().await)), "{gap}");
    let segments = nights.state_now().await["segments"].as_array().unwrap().len();
    assert_eq!(files(&nights.state).len(), segments + 2, "{gap}: {:?}", files(&nights.state));
    assert!(!Path::new(&nights.output).join(".staging").exists(), "{gap}");
    let releases = 1 + outcome.manifest.previous.len();
    assert_eq!(files(Path::new(&nights.output).join("releases")).len(), releases, "{gap}");
}

#[tokio::test]
async fn a_run_may_end_after_any_step() {
    let nights = Nights::new();
    nights.night(people(0..150)).await.unwrap();
    let before = places(&nights);
    let outcome = nights.night(people(0..200)).await.unwrap();
    let after = places(&nights);
    for (gap, files) in gaps(&nights, &before, &after, &outcome.manifest.release) {
        restore(&nights, &files);
        goes_on(&nights, gap).await;
    }
}

#[tokio::test]
async fn so_may_the_first_one() {
    let nights = Nights::new();
    let outcome = nights.night(people(0..150)).await.unwrap();
    let after = places(&nights);
    for (gap, files) in gaps(&nights, &Tree::new(), &after, &outcome.manifest.release) {
        restore(&nights, &files);
        match gap {
            // Without a pointer nobody can tell strays among releases, as in any other job.
            "release in place" => {
                nights.night(people(0..260)).await.unwrap();
                nights.check().await;
            }
            _ => goes_on(&nights, gap).await,
        }
    }
}

#[tokio::test]
async fn so_may_the_first_one_of_another_series() {
    let mut nights = Nights::new();
    nights.night(people(0..150)).await.unwrap();
    let before = places(&nights);
    nights.new_series = true;
    let outcome = nights.night(people(0..200)).await.unwrap();
    let after = places(&nights);
    nights.new_series = false;
    assert_eq!(outcome.manifest.series.unwrap().night, 1);
    for (gap, files) in gaps(&nights, &before, &after, &outcome.manifest.release) {
        restore(&nights, &files);
        goes_on(&nights, gap).await;
    }
}

#[tokio::test]
async fn a_stopped_run_leaves_nothing_in_the_state() {
    let nights = Nights::new();
    nights.night(people(0..150)).await.unwrap();
    let before = places(&nights);
    nights.write(people(0..200));
    for phase in [Phase::Anonymize, Phase::Verify] {
        let stopped = run_to(phase, &nights.job().unwrap(), &nights.host, || ()).await;
        assert!(matches!(stopped, Err(Error::Cancelled)), "{phase}: {stopped:?}");
        assert_eq!(places(&nights), before, "{phase}");
    }
}

#[tokio::test]
async fn two_runs_at_once_are_one() {
    let nights = Nights::new();
    nights.night(people(0..150)).await.unwrap();
    nights.write(people(0..200));
    let (one, other) = tokio::join!(nights.run(), nights.run());
    let busy = [&one, &other].iter().filter(|ended| matches!(ended, Err(Error::Busy(_)))).count();
    let published = [&one, &other].iter().filter(|ended| ended.is_ok()).count();
    assert!(published >= 1 && busy + published == 2, "{one:?} {other:?}");
    nights.check().await;
    assert_eq!(nights.members().await.len(), 200);
}

#[tokio::test]
async fn a_failed_run_leaves_the_state_as_it_was() {
    let mut nights = Nights::new();
    nights.night(people(0..150)).await.unwrap();
    let before = places(&nights);
    nights.checks = "max_loss = 0.0001".to_owned();
    nights.night(people(0..200)).await.unwrap_err();
    assert_eq!(places(&nights), before);
    // A place that cannot be written to.
    nights.checks.clear();
    let blocked = Path::new(&nights.output).join("releases");
    let kept = Path::new(&nights.output).join("kept");
    std::fs::rename(&blocked, &kept).unwrap();
    std::fs::write(&blocked, "").unwrap();
    run(&nights.job().unwrap(), &SessionContext::new(), Default::default()).await.unwrap_err();
    std::fs::remove_file(&blocked).unwrap();
    std::fs::rename(&kept, &blocked).unwrap();
    assert_eq!(places(&nights), before);
}
