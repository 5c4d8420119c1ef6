//! Nights that go well.

use std::path::Path;

use anonymize_release::report::{Source, report};
use anonymize_release::{Error, RunOptions, run, status};

use super::{Nights, Person, common, files, ids, people};

#[tokio::test]
async fn the_same_night_twice_is_the_same_release() {
    let nights = Nights::new();
    let one = nights.night(people(0..200)).await.unwrap().manifest;
    let first = nights.published().await;
    let other = nights.run().await.unwrap().manifest;
    assert_eq!(nights.published().await, first);
    let sums = |manifest: &anonymize_release::Manifest| {
        manifest.tables[0].files.iter().map(|file| file.sha256.clone()).collect::<Vec<_>>()
    };
    assert_eq!(sums(&one), sums(&other));
    let (one, other) = (one.series.unwrap(), other.series.unwrap());
    assert_eq!((one.night, other.night), (1, 2));
    assert_eq!((&one.id, one.cohorts, other.cohorts_held), (&other.id, other.cohorts, 0));
    nights.check().await;
}

#[tokio::test]
async fn nobody_changes_cohort_and_newcomers_get_their_own() {
    let nights = Nights::new();
    nights.night(people(0..200)).await.unwrap();
    let (first, members) = (nights.published().await, nights.members().await);
    assert_eq!(members.len(), 200);
    let outcome = nights.night(people(0..240)).await.unwrap();
    let (second, grown) = (nights.published().await, nights.members().await);
    assert_eq!(outcome.manifest.counts.rows_published, 240);
    assert_eq!(grown.len(), 240);
    assert!(members.iter().all(|(person, cohort)| grown.get(person) == Some(cohort)));
    assert!(ids(&first).is_subset(&ids(&second)) && ids(&second).len() > ids(&first).len());
    nights.check().await;
}

#[tokio::test]
async fn a_cohort_without_a_member_repeats_its_rows_and_the_others_go_on() {
    let nights = Nights::new();
    nights.night(people(0..200)).await.unwrap();
    let first = nights.published().await;
    // Everybody else has another disease tonight.
    let changed = people(0..200).into_iter().filter(|person| person.id != 17);
    let changed = changed.map(|person| Person {
        disease: ["Gout", "Mumps", "Measles"][(person.id / 10 % 3) as usize],
        ..person
    });
    let facts = nights.night(changed).await.unwrap().manifest.series.unwrap();
    let second = nights.published().await;
    assert_eq!(ids(&first), ids(&second));
    let same = common(&first, &second).into_iter().filter(|same| *same).count() as u64;
    assert!(same >= 1 && facts.cohorts_held == 1, "{same} {facts:?}");
    assert!(facts.rows_held >= 5 && same < facts.cohorts);
    nights.check().await;
}

#[tokio::test]
async fn held_rows_may_have_values_that_nobody_has_tonight() {
    let mut nights = Nights::new();
    nights.checks = "max_loss = 0.9\nmax_suppressed = 0.0".to_owned();
    // Five persons alone have the last zip.
    let rare = |id: &u64| id % 10 == 9;
    nights.night(people((0..200).filter(|id| !rare(id) || *id < 50))).await.unwrap();
    let outcome = nights.night(people((0..200).filter(|id| !rare(id)))).await.unwrap();
    assert!(outcome.manifest.series.unwrap().cohorts_held >= 1);
    let loss = outcome.manifest.measures.iter().find(|measure| measure.measure == "ncp");
    assert!(loss.unwrap().value.is_some_and(|loss| (0.0..=1.0).contains(&loss)), "{loss:?}");
    nights.check().await;
}

#[tokio::test]
async fn a_cohort_may_be_withdrawn_for_good_instead() {
    let mut nights = Nights::new();
    nights.series = "leavers = \"withdraw\"".to_owned();
    nights.night(people(0..200)).await.unwrap();
    let first = nights.published().await;
    nights.night(people((0..200).filter(|id| *id != 17))).await.unwrap();
    let second = nights.published().await;
    assert_eq!(ids(&second).len() + 1, ids(&first).len());
    // The leaver comes back, and the cohort does not.
    nights.night(people(0..200)).await.unwrap();
    assert_eq!(ids(&nights.published().await), ids(&second));
    let found = status(&nights.job().unwrap(), &nights.host).await.unwrap();
    assert_eq!(found.nights.iter().map(|night| night.withdrawn()).collect::<Vec<_>>(), [0, 1, 1]);
    nights.check().await;
}

#[tokio::test]
async fn too_few_newcomers_wait_and_are_counted() {
    let nights = Nights::new();
    nights.night(people(0..200)).await.unwrap();
    let outcome = nights.night(people(0..203)).await.unwrap();
    let facts = outcome.manifest.series.unwrap();
    assert_eq!((facts.persons_waiting, outcome.manifest.counts.rows_suppressed), (3, 3));
    assert_eq!(nights.members().await.len(), 200);
    let facts = nights.night(people(0..220)).await.unwrap().manifest.series.unwrap();
    assert_eq!(facts.persons_waiting, 0);
    nights.check().await;
}

#[tokio::test]
async fn a_query_may_look_up_single_values() {
    let nights = Nights::new();
    let query = "query = \"SELECT * FROM people WHERE age >= (SELECT min(age) + 1 FROM people) AND age <= (SELECT max(age) \
                 FROM people)\"";
    let text = nights.text().replace("name = \"people\"", &format!("name = \"people\"\n{query}"));
    for (persons, night) in [(200, 1), (220, 2)] {
        nights.write(people(0..persons));
        let job = anonymize_release::Job::from_toml(&text, nights.directory.path()).unwrap();
        let manifest = run(&job, &nights.host, RunOptions::default()).await.unwrap().manifest;
        assert_eq!(manifest.series.unwrap().night, night);
        let rows = manifest.counts.rows_original;
        assert!(rows < persons && rows > persons * 9 / 10, "{rows}");
        nights.check().await;
    }
}

#[tokio::test]
async fn newcomers_wait_for_their_night() {
    let mut nights = Nights::new();
    nights.series = "newcomers_every = 3".to_owned();
    let mut waiting = Vec::new();
    for night in 0..4 {
        let outcome = nights.night(people(0..200 + 10 * night)).await.unwrap();
        waiting.push(outcome.manifest.series.unwrap().persons_waiting);
    }
    assert_eq!(waiting, [0, 10, 20, 0]);
    nights.check().await;
}

#[tokio::test]
async fn values_may_stay_those_of_the_first_night() {
    let mut nights = Nights::new();
    nights.series = "changes = \"never\"".to_owned();
    nights.night(people(0..100)).await.unwrap();
    let first = nights.published().await;
    let changed = people(0..100).into_iter().map(|person| Person { disease: "Gout", ..person });
    nights.night(changed).await.unwrap();
    assert_eq!(nights.published().await, first);
}

#[tokio::test]
async fn held_cohorts_are_marked_on_request() {
    let mut nights = Nights::new();
    nights.series = "held = true".to_owned();
    let manifest = nights.night(people(0..100)).await.unwrap().manifest;
    let columns: Vec<&str> =
        manifest.tables[0].schema.iter().map(|column| column.name.as_str()).collect();
    assert!(columns.contains(&"cohort") && columns.contains(&"held"), "{columns:?}");
    assert!(!columns.contains(&"person"), "{columns:?}");
    nights.night(people(1..100)).await.unwrap();
    nights.check().await;
}

#[tokio::test]
async fn a_trial_of_a_night_writes_nothing() {
    let nights = Nights::new();
    nights.night(people(0..100)).await.unwrap();
    let before = crate::tree(nights.directory.path());
    let options = RunOptions { dry_run: true, ..RunOptions::default() };
    let outcome = run(&nights.job().unwrap(), &nights.host, options.clone()).await.unwrap();
    assert!(!outcome.published);
    assert_eq!(outcome.manifest.series.unwrap().night, 2);
    assert_eq!(crate::tree(nights.directory.path()), before);
    let fresh = Nights::new();
    fresh.write(people(0..100));
    run(&fresh.job().unwrap(), &fresh.host, options).await.unwrap();
    assert!(!Path::new(&fresh.state).exists() && !Path::new(&fresh.output).exists());
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_reads_the_state_and_old_states_go() {
    use std::os::unix::fs::PermissionsExt;
    let nights = Nights::new();
    for persons in [100, 120] {
        nights.night(people(0..persons)).await.unwrap();
    }
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(Path::new(&nights.state)), 0o700);
    let names = files(&nights.state);
    for name in &names {
        assert_eq!(mode(&Path::new(&nights.state).join(name)), 0o600, "{name}");
    }
    let of = |start: &str| names.iter().filter(|name| name.starts_with(start)).count();
    assert_eq!(
        (names.len(), of("members-"), of("series-"), of("state.json")),
        (4, 2, 1, 1),
        "{names:?}"
    );
}

#[tokio::test]
async fn the_state_holds_no_attribute_and_no_key() {
    let nights = Nights::new();
    nights.night(people(900_001..900_101)).await.unwrap();
    for (path, bytes) in crate::tree(Path::new(&nights.state)) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for value in ["900001", "900050", "Asthma", "02135", "a secret of the tests"] {
            assert!(!text.contains(value), "{value} in {}", path.display());
        }
    }
}

#[tokio::test]
async fn the_status_tells_the_decay() {
    let nights = Nights::new();
    let job = nights.job().unwrap();
    let error = status(&job, &nights.host).await.unwrap_err();
    assert!(error.to_string().contains("no release of a series"), "{error}");
    for gone in 0..4 {
        nights.night(people(4 * gone..200)).await.unwrap();
    }
    let found = status(&job, &nights.host).await.unwrap();
    let shares: Vec<f64> = found.nights.iter().map(anonymize_release::Night::live_share).collect();
    assert_eq!(shares[0], 1.0);
    assert!(shares.windows(2).all(|pair| pair[1] < pair[0]), "{shares:?}");
    assert!(found.nights_left(shares[3] / 2.0).unwrap() > 0.0);
    let source = Source { job, published: None, threshold: None, title: None };
    let html = report(&source, &nights.host).await.unwrap();
    assert!(html.contains("Comparing releases") && html.contains("Groups that publish new values"));
    // Who may not look at the state gets the page, too.
    std::fs::remove_dir_all(&nights.state).unwrap();
    let html = report(&source, &nights.host).await.unwrap();
    assert!(html.contains("was not there for this report"));
}

#[tokio::test]
async fn a_table_with_other_keys_and_a_series_that_is_over_stop_the_job() {
    let mut nights = Nights::new();
    nights.night(people(0..200)).await.unwrap();
    let before = nights.published().await;
    // Keys that nobody has: no night is computed, and the message comes as it was written.
    let error = nights.night(people(1000..1200)).await.unwrap_err().to_string();
    assert!(error.contains("none of the 200 members is here tonight"), "{error}");
    assert_eq!(nights.published().await, before);
    for (checks, persons, told) in [
        ("", 150..350, "max_new = 0.5 is not met: it is 0.75"),
        ("", 150..350, "max_gone = 0.5 is not met: it is 0.75"),
        ("max_new = 0.1", 0..300, "max_new = 0.1 is not met: it is 0.333"),
        ("max_gone = 0.1", 100..200, "max_gone = 0.1 is not met: it is 0.5"),
        ("min_live = 0.9\nmax_gone = 1.0", 100..200, "another series is due"),
    ] {
        nights.checks = checks.to_owned();
        let error = nights.night(people(persons)).await.unwrap_err();
        assert!(matches!(error, Error::Unmet(_)) && error.to_string().contains(told), "{error}");
        assert_eq!(nights.published().await, before);
        nights.check().await;
    }
    nights.checks = "max_new = 1.0\nmax_gone = 1.0\nmin_live = 0.0".to_owned();
    let outcome = nights.night(people(100..400)).await.unwrap();
    assert_eq!(outcome.manifest.checks.len(), 3);
}
