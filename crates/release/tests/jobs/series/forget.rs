//! Who is forgotten.

use anonymize_release::{Error, forget, withdraw_forgotten};

use super::{Nights, common, files, ids, people};

fn without(gone: u64) -> Vec<super::Person> {
    people((0..100).filter(|id| *id != gone))
}

#[tokio::test]
async fn who_is_forgotten_is_not_in_the_state_and_the_cohort_is_held() {
    let nights = Nights::new();
    let release = nights.night(people(0..100)).await.unwrap().manifest.release;
    let (first, members, before) =
        (nights.published().await, nights.members().await, files(&nights.state));
    nights.write(without(17));
    let forgotten = forget(&nights.job().unwrap(), &nights.host, "17", false).await.unwrap();
    assert!(!forgotten.is_withdrawn && forgotten.notes.is_empty(), "{forgotten:?}");
    let now = nights.members().await;
    let gone: Vec<_> = members.iter().filter(|(person, _)| !now.contains_key(*person)).collect();
    let new: Vec<_> = now.iter().filter(|(person, _)| !members.contains_key(*person)).collect();
    assert_eq!((gone.len(), new.len(), gone[0].1), (1, 1, new[0].1));
    // The release is the same, and no old file remains.
    assert_eq!(nights.manifest().await.unwrap().release, release);
    assert_eq!(nights.published().await, first);
    let after = files(&nights.state);
    assert_eq!(after.intersection(&before).collect::<Vec<_>>(), ["state.json"]);
    assert_eq!(after.len(), 3);
    // From the next night on the cohort repeats its rows, even if the person comes back, who is a stranger then.
    let cohort = *gone[0].1;
    nights.run().await.unwrap();
    assert_eq!(nights.published().await[&cohort], first[&cohort]);
    assert_eq!(nights.manifest().await.unwrap().series.unwrap().cohorts_held, 1);
    nights.check().await;
}

#[tokio::test]
async fn the_cohort_may_be_withdrawn_too() {
    let nights = Nights::new();
    nights.night(people(0..100)).await.unwrap();
    let first = nights.published().await;
    nights.write(without(17));
    forget(&nights.job().unwrap(), &nights.host, "17", true).await.unwrap();
    for _ in 0..2 {
        nights.run().await.unwrap();
        let now = nights.published().await;
        assert_eq!(ids(&now).len() + 1, ids(&first).len());
        assert!(common(&first, &now).into_iter().all(|same| same));
        nights.check().await;
    }
}

#[tokio::test]
async fn the_cohort_may_be_withdrawn_later() {
    let nights = Nights::new();
    nights.night(people(0..100)).await.unwrap();
    let error = withdraw_forgotten(&nights.job().unwrap(), &nights.host).await.unwrap_err();
    assert!(error.to_string().contains("nobody was forgotten"), "{error}");
    let first = nights.published().await;
    nights.write(without(17));
    forget(&nights.job().unwrap(), &nights.host, "17", false).await.unwrap();
    nights.run().await.unwrap();
    assert_eq!(ids(&nights.published().await), ids(&first));
    let error = forget(&nights.job().unwrap(), &nights.host, "17", true).await.unwrap_err();
    assert!(error.to_string().contains("anonymize series withdraw"), "{error}");
    let withdrawn = withdraw_forgotten(&nights.job().unwrap(), &nights.host).await.unwrap();
    assert_eq!(withdrawn.cohorts, 1);
    for _ in 0..2 {
        nights.run().await.unwrap();
        assert_eq!(ids(&nights.published().await).len() + 1, ids(&first).len());
        nights.check().await;
    }
}

#[tokio::test]
async fn who_is_still_there_or_was_never_there_is_not_forgotten() {
    let mut nights = Nights::new();
    nights.write(people(0..100));
    let error = forget(&nights.job().unwrap(), &nights.host, "170", false).await.unwrap_err();
    assert!(error.to_string().contains("no release of a series"), "{error}");
    nights.night(people(0..100)).await.unwrap();
    let before = crate::tree(nights.directory.path());
    for (key, told) in [
        ("17", "still among the rows"),
        ("170", "nobody with this key has a cohort"),
        ("Smith", "the key is no Int64"),
    ] {
        let error = forget(&nights.job().unwrap(), &nights.host, key, false).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        assert!(
            !error.to_string().contains("170") && !error.to_string().contains("Smith"),
            "{error}"
        );
    }
    nights.seed = "another secret of the tests".to_owned();
    let error = forget(&nights.job().unwrap(), &nights.host, "170", false).await.unwrap_err();
    assert!(
        matches!(&error, Error::Job(text) if text.contains("the seed is not the one")),
        "{error}"
    );
    assert_eq!(crate::tree(nights.directory.path()), before);
}

#[tokio::test]
async fn a_pointer_from_before_somebody_was_forgotten_is_refused() {
    let nights = Nights::new();
    nights.night(people(0..100)).await.unwrap();
    let pointer = std::path::Path::new(&nights.output).join("manifest.json");
    let old = std::fs::read(&pointer).unwrap();
    nights.write(without(17));
    forget(&nights.job().unwrap(), &nights.host, "17", false).await.unwrap();
    std::fs::write(&pointer, old).unwrap();
    let error = nights.run().await.unwrap_err();
    assert!(error.to_string().contains("is missing"), "{error}");
}
