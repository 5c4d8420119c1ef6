//! What a series refuses, and what to do instead.

use std::fs;
use std::path::Path;

use anonymize_release::{Error, NEW_SERIES_COST, RunOptions, run, status};
use datafusion::prelude::SessionContext;

use super::{Nights, files, people};

/// A series of two nights, and the pointer and state of the first.
async fn two_nights() -> (Nights, Backup) {
    let nights = Nights::new();
    nights.night(people(0..100)).await.unwrap();
    let backup = Backup::of(&nights);
    nights.night(people(0..120)).await.unwrap();
    (nights, backup)
}

/// Both places as they were.
pub struct Backup(std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>);

impl Backup {
    fn of(nights: &Nights) -> Self {
        let mut files = crate::tree(Path::new(&nights.output));
        files.extend(crate::tree(Path::new(&nights.state)));
        Self(files)
    }

    fn restore(&self, place: &str) {
        fs::remove_dir_all(place).unwrap();
        for (path, bytes) in self.0.iter().filter(|(path, _)| path.starts_with(place)) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
}

async fn refused(nights: &Nights, told: &str) {
    let before = crate::tree(nights.directory.path());
    let error = nights.run().await.unwrap_err();
    assert!(error.to_string().contains(told), "{error}");
    assert_eq!(crate::tree(nights.directory.path()), before, "{told}");
}

#[tokio::test]
async fn a_state_that_is_lost_is_not_made_anew() {
    let (nights, _) = two_nights().await;
    fs::remove_dir_all(&nights.state).unwrap();
    fs::create_dir(&nights.state).unwrap();
    refused(&nights, "is missing. Without it everybody would be taken for a newcomer").await;
    let error = status(&nights.job().unwrap(), &nights.host).await.unwrap_err();
    assert!(error.to_string().contains(NEW_SERIES_COST), "{error}");
}

#[tokio::test]
async fn a_state_or_an_output_from_a_backup_is_refused() {
    let (nights, backup) = two_nights().await;
    let now = Backup::of(&nights);
    backup.restore(&nights.state);
    refused(&nights, "does not belong to the current release").await;
    now.restore(&nights.state);
    backup.restore(&nights.output);
    refused(&nights, "does not belong to the current release").await;
    // Also where the old state is still there, as after a run that could not remove it.
    for (path, bytes) in backup.0.iter().filter(|(path, _)| path.starts_with(&nights.state)) {
        if !path.ends_with("state.json") {
            fs::write(path, bytes).unwrap();
        }
    }
    refused(&nights, "is older than the state of the series").await;
    // Both together are one series that ends earlier.
    backup.restore(&nights.state);
    nights.run().await.unwrap();
    nights.check().await;
}

#[tokio::test]
async fn an_output_that_is_lost_does_not_start_the_series_anew() {
    let (mut nights, _) = two_nights().await;
    fs::remove_dir_all(&nights.output).unwrap();
    for new_series in [false, true] {
        nights.new_series = new_series;
        let error = nights.run().await.unwrap_err();
        assert!(error.to_string().contains("no release of it"), "{error}");
    }
}

#[tokio::test]
async fn altered_files_are_noticed() {
    let (nights, _) = two_nights().await;
    let now = Backup::of(&nights);
    for name in files(&nights.state).into_iter().filter(|name| name != "state.json") {
        let path = Path::new(&nights.state).join(&name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        refused(&nights, "is not what was written").await;
        fs::remove_file(&path).unwrap();
        refused(&nights, "is missing").await;
        now.restore(&nights.state);
    }
    // So is the last release, whose rows held cohorts repeat.
    let manifest = nights.manifest().await.unwrap();
    let file = Path::new(&nights.output).join(&manifest.tables[0].files[0].path);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    refused(&nights, "are not those that were verified").await;
}

#[tokio::test]
async fn another_seed_and_other_options_are_refused() {
    let (nights, _) = two_nights().await;
    let seed = Nights { seed: "another secret of the tests".to_owned(), ..nights.clone() };
    refused(&seed, "the seed is not the one").await;
    let larger = Nights { anonymize: "k = 6\nl = 2".to_owned(), ..nights.clone() };
    refused(&larger, "k is not what the series was begun with").await;
    let looser = Nights { anonymize: "k = 5".to_owned(), ..nights.clone() };
    refused(&looser, "write l = 2 again").await;
    let method = "k = 5\nl = 2\nmethod = \"mondrian\"".to_owned();
    refused(&Nights { anonymize: method, ..nights.clone() }, "method is not what").await;
    for (series, told) in [
        (
            "leavers = \"withdraw\"",
            "what becomes of rows of persons who leave; leave leavers out again",
        ),
        ("changes = \"never\"", "changes is not what the series was begun with"),
    ] {
        refused(&Nights { series: series.to_owned(), ..nights.clone() }, told).await;
    }
    nights.run().await.unwrap();
}

#[tokio::test]
async fn another_series_is_begun_on_request_only() {
    let (mut nights, _) = two_nights().await;
    let first = nights.manifest().await.unwrap().series.unwrap();
    nights.anonymize = "k = 6\nl = 2".to_owned();
    nights.run().await.unwrap_err();
    nights.new_series = true;
    let second = nights.run().await.unwrap().manifest.series.unwrap();
    assert_ne!(second.id, first.id);
    assert_eq!(second.night, 1);
    // Nothing of the old one remains.
    assert_eq!(files(&nights.state).len(), 3);
    nights.new_series = false;
    assert_eq!(nights.run().await.unwrap().manifest.series.unwrap().night, 2);
    nights.check().await;
    // Also when its state is lost.
    fs::remove_dir_all(&nights.state).unwrap();
    nights.run().await.unwrap_err();
    nights.new_series = true;
    nights.run().await.unwrap();
    nights.check().await;
}

#[tokio::test]
async fn plain_releases_and_a_series_do_not_mix() {
    let mut nights = Nights::new();
    nights.write(people(0..100));
    let plain = || {
        let mut job = nights.job().unwrap();
        job.series = None;
        job
    };
    run(&plain(), &SessionContext::new(), RunOptions::default()).await.unwrap();
    refused(&nights, "holds plain releases").await;
    let job = plain();
    nights.new_series = true;
    nights.run().await.unwrap();
    nights.new_series = false;
    nights.run().await.unwrap();
    let error = run(&job, &SessionContext::new(), RunOptions::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Job(text) if text.contains("holds a series")), "{error}");
    let options = RunOptions { new_series: true, ..RunOptions::default() };
    let error = run(&job, &SessionContext::new(), options).await.unwrap_err();
    assert!(error.to_string().contains("the job is no series"), "{error}");
}

#[tokio::test]
async fn two_jobs_do_not_share_a_state() {
    let nights = Nights::new();
    nights.night(people(0..100)).await.unwrap();
    let output = nights.directory.path().join("other").display().to_string();
    let copy = Nights { output, ..nights.clone() };
    refused(&copy, "no release of it").await;
    let mut job = copy.job().unwrap();
    job.name = "others".to_owned();
    let error = run(&job, &nights.host, RunOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("holds the state of the job 'people'"), "{error}");
    nights.run().await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_others_use_is_not_closed_to_them() {
    use std::os::unix::fs::PermissionsExt;
    let nights = Nights::new();
    fs::create_dir(&nights.state).unwrap();
    let mode = || fs::metadata(&nights.state).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(&nights.state, fs::Permissions::from_mode(0o755)).unwrap();
    let theirs = Path::new(&nights.state).join("notes.txt");
    fs::write(&theirs, "of others").unwrap();
    let error = nights.night(people(0..100)).await.unwrap_err();
    assert!(error.to_string().contains("name a folder of its own"), "{error}");
    assert_eq!((mode(), files(&nights.state).len()), (0o755, 1));
    // One that nobody else looks into may hold what it likes, and an empty one is closed.
    fs::set_permissions(&nights.state, fs::Permissions::from_mode(0o700)).unwrap();
    nights.run().await.unwrap();
    let empty = Nights::new();
    fs::create_dir(&empty.state).unwrap();
    empty.night(people(0..100)).await.unwrap();
    assert_eq!(fs::metadata(&empty.state).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_series_that_begins_says_so() {
    let nights = Nights::new();
    let outcome = nights.night(people(0..100)).await.unwrap();
    assert!(
        outcome.notes.iter().any(|note| note.starts_with("a series begins")),
        "{:?}",
        outcome.notes
    );
    assert!(nights.run().await.unwrap().notes.is_empty());
    // Who loses both places is told, as nobody can tell that from a first night.
    fs::remove_dir_all(&nights.state).unwrap();
    fs::remove_dir_all(&nights.output).unwrap();
    let outcome = nights.run().await.unwrap();
    assert!(
        outcome.notes.iter().any(|note| note.contains("bring them back")),
        "{:?}",
        outcome.notes
    );
}

#[tokio::test]
async fn somebody_with_two_rows_stops_the_job() {
    let nights = Nights::new();
    nights.night(people(0..100)).await.unwrap();
    nights.write(people((0..100).chain([17])));
    let error = nights.run().await.unwrap_err().to_string();
    assert!(!error.contains("17"), "{error}");
    nights.check().await;
}

#[test]
fn mistakes_in_the_section_say_what_to_write() {
    let cases: [(&str, &str, &str); 12] = [
        ("privacy_unit = \"person\"", "", "write privacy_unit = \"person_id\""),
        ("seed = \"a secret of the tests\"", "", "write seed = { env = \"NAME\" }"),
        (
            "k = 5",
            "k = 5\nmethod = \"classfly_complete\"",
            "forms no classes that could stay together",
        ),
        ("k = 5", "k = 5\nclass_id = true", "class_id is not needed"),
        ("k = 5", "k = 5\nunit_share = 0.5", "leave unit_share out"),
        ("[checks]", "format = \"csv\"\n[checks]", "only Parquet gives them back"),
        ("/state\"", "/out/state\"", "are in one another"),
        ("/state\"", "/people.csv/state\"", "and input 'people' are in one another"),
        ("/state\"", "/*\"", "without *, ?, [ and ]"),
        (
            "/state\"",
            "/state\"\nleavers = \"drop\"",
            "unknown variant `drop`, expected `hold` or `withdraw`",
        ),
        ("/state\"", "/state\"\nnewcomers_every = 0", "nonzero"),
        ("[checks]", "[checks]\nmax_new = 2", "max_new must be between 0 and 1"),
    ];
    let nights = Nights::new();
    for (from, to, told) in cases {
        let text = nights.text().replace(from, to);
        let error = anonymize_release::Job::from_toml(&text, nights.directory.path()).unwrap_err();
        assert!(matches!(&error, Error::Job(text) if text.contains(told)), "{to}: {error}");
    }
    let plain = nights.text().replace("[checks]", "[checks]\nmin_live = 0.5");
    let plain = plain.split("[series]").next().unwrap();
    let error = anonymize_release::Job::from_toml(plain, nights.directory.path()).unwrap_err();
    assert!(error.to_string().contains("write [series]"), "{error}");
}
