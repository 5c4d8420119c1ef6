//! Releases in a local directory.

use std::path::Path;

use anonymize_release::report::{Source, report};
use anonymize_release::{Error, Manifest, Phase, RunOptions, current, register_release, run};
use datafusion::prelude::SessionContext;
use tempfile::tempdir;

use crate::{CENSUS, Draft, ENDLESS, host, run_to, tree};

fn manifest(output: &Path) -> Manifest {
    let bytes = std::fs::read(output.join("manifest.json")).unwrap();
    Manifest::from_json(&bytes, "test").unwrap()
}

#[tokio::test]
async fn a_release_is_named_by_its_manifest_and_readable() {
    let directory = tempdir().unwrap();
    let outcome = Draft::new("out").run(directory.path()).await.unwrap();
    assert!(outcome.published && outcome.notes.is_empty());
    let output = directory.path().join("out");
    let manifest = manifest(&output);
    assert_eq!(manifest.counts.rows_published, 2000);
    assert_eq!(manifest.counts.rows_suppressed, 0);
    assert!(manifest.measure("k").unwrap() >= 10.0);
    let table = &manifest.tables[0];
    for file in &table.files {
        let bytes = std::fs::read(output.join(&file.path)).unwrap();
        assert_eq!(bytes.len() as u64, file.bytes);
    }
    let context = SessionContext::new();
    let found = current(&context, output.to_str().unwrap()).await.unwrap().unwrap();
    assert_eq!(found.release, manifest.release);
    register_release(&context, output.to_str().unwrap(), &found.tables[0], "released")
        .await
        .unwrap();
    assert_eq!(context.table("released").await.unwrap().count().await.unwrap(), 2000);
    let through_link = output.join("current/manifest.json");
    assert_eq!(
        std::fs::read(through_link).unwrap(),
        std::fs::read(output.join("manifest.json")).unwrap()
    );
}

#[tokio::test]
async fn the_manifest_tells_neither_seed_nor_values() {
    let directory = tempdir().unwrap();
    Draft::new("out").run(directory.path()).await.unwrap();
    let text = std::fs::read_to_string(directory.path().join("out/manifest.json")).unwrap();
    assert!(!text.contains("a secret") && !text.contains("seed"));
    for value in ["Bachelors", "Sales", "Never-married", "Male"] {
        assert!(!text.contains(value), "{value}");
    }
}

#[tokio::test]
async fn an_unmet_check_leaves_the_last_release_untouched() {
    let directory = tempdir().unwrap();
    let draft = Draft::new("out");
    draft.run(directory.path()).await.unwrap();
    let before = tree(directory.path());
    let strict = Draft { checks: "max_loss = 0.001\nmin_k = 11", ..draft };
    let error = strict.run(directory.path()).await.unwrap_err();
    assert!(matches!(&error, Error::Unmet(reasons) if reasons.len() == 2), "{error}");
    assert!(error.to_string().contains("max_loss = 0.001 is not met"), "{error}");
    assert_eq!(tree(directory.path()), before);
}

#[tokio::test]
async fn older_releases_stay_as_long_as_the_job_says() {
    let directory = tempdir().unwrap();
    let mut draft = Draft::new("out");
    draft.output += "\nkeep = 1";
    let mut releases = Vec::new();
    for _ in 0..3 {
        releases.push(draft.run(directory.path()).await.unwrap().manifest.release);
    }
    let manifest = manifest(&directory.path().join("out"));
    assert_eq!(manifest.previous, [releases[1].clone()]);
    let mut there: Vec<String> = std::fs::read_dir(directory.path().join("out/releases"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    releases[1..].sort();
    assert_eq!(there, releases[1..]);
}

#[tokio::test]
async fn what_a_killed_run_left_is_removed_by_the_next() {
    let directory = tempdir().unwrap();
    let output = directory.path().join("out");
    let stale = output.join(".staging/20200101T000000Z-00000000/published");
    let orphan = output.join("releases/20200101T000000Z-00000001");
    let foreign = output.join("releases/mine");
    for path in [&stale, &orphan, &foreign] {
        std::fs::create_dir_all(path).unwrap();
        std::fs::write(path.join("x.parquet"), "half").unwrap();
    }
    // Without a pointer nobody can tell whether a release is one that readers use.
    let strict = Draft { checks: "min_k = 5000", ..Draft::new("out") };
    strict.run(directory.path()).await.unwrap_err();
    assert!(!stale.exists() && orphan.exists() && foreign.exists());
    Draft::new("out").run(directory.path()).await.unwrap();
    Draft::new("out").run(directory.path()).await.unwrap();
    assert!(!orphan.exists() && foreign.exists());
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_not_verified_yet_is_nobody_elses() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempdir().unwrap();
    let job = Draft::new("out").job(directory.path()).unwrap();
    let staging = directory.path().join("out/.staging");
    let (tell, told) = std::sync::mpsc::channel();
    let look = move || {
        let mode = std::fs::metadata(&staging).unwrap().permissions().mode() & 0o777;
        tell.send((mode, tree(&staging).len())).unwrap();
    };
    let _ = run_to(Phase::Verify, &job, &host(), look).await;
    let (mode, files) = told.recv().unwrap();
    assert_eq!(mode, 0o700);
    assert!(files > 0, "nothing is there that others could read");
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_that_cannot_be_turned_is_told() {
    let directory = tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("out/current/published")).unwrap();
    let outcome = Draft::new("out").run(directory.path()).await.unwrap();
    assert!(outcome.published);
    assert!(outcome.notes[0].contains("out/current' could not be turned"), "{:?}", outcome.notes);
}

#[tokio::test]
async fn releases_of_another_job_are_not_replaced() {
    let directory = tempdir().unwrap();
    Draft::new("out").run(directory.path()).await.unwrap();
    let before = tree(directory.path());
    let mut job = Draft::new("out").job(directory.path()).unwrap();
    job.name = "patients".to_owned();
    let error = run(&job, &host(), RunOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("holds the releases of the job 'census'"), "{error}");
    assert_eq!(tree(directory.path()), before);
}

#[tokio::test]
async fn a_row_is_suppressed_once_whichever_constraint_hides_it() {
    let directory = tempdir().unwrap();
    // Half of the rare rows are rare in one column and half in the other.
    let draft = Draft {
        query: "SELECT CASE WHEN i < 5 THEN 'a' || i ELSE 'x' END AS a,
                  CASE WHEN i >= 5 AND i < 10 THEN 'b' || i ELSE 'y' END AS b
                FROM (SELECT unnest(range(0, 200)) AS i)",
        anonymize: "constraints = [{ columns = [\"a\"], k = 8 }, { columns = [\"b\"], k = 8 }]\nsuppress = true\nsuppression_limit = 1.0",
        ..Draft::new("out")
    };
    let outcome = draft.run(directory.path()).await;
    let counts = outcome.unwrap().manifest.counts;
    assert_eq!(counts.rows_suppressed, 200 - kept(directory.path()).await, "{counts:?}");
    assert!(counts.rows_suppressed >= 10, "{counts:?}");
    let strict = Draft { checks: "max_suppressed = 0.04", ..draft };
    let error = strict.run(directory.path()).await.unwrap_err().to_string();
    assert!(error.contains("max_suppressed = 0.04 is not met"), "{error}");
}

/// Published rows in which neither column is a star.
async fn kept(directory: &Path) -> u64 {
    let output = directory.join("out");
    let context = SessionContext::new();
    let table = &manifest(&output).tables[0];
    register_release(&context, output.to_str().unwrap(), table, "released").await.unwrap();
    let rows = context.sql("SELECT * FROM released WHERE a <> '*' AND b <> '*'").await.unwrap();
    rows.count().await.unwrap() as u64
}

#[tokio::test]
async fn a_dry_run_leaves_nothing_at_the_output() {
    let directory = tempdir().unwrap();
    let job = Draft::new("out").job(directory.path()).unwrap();
    let options = RunOptions { dry_run: true, ..RunOptions::default() };
    let outcome = run(&job, &host(), options).await.unwrap();
    assert!(!outcome.published);
    assert!(outcome.manifest.measure("ncp").unwrap() > 0.0);
    assert!(!directory.path().join("out").exists());
}

#[tokio::test]
async fn a_stopped_run_leaves_nothing_behind() {
    let directory = tempdir().unwrap();
    Draft::new("out").run(directory.path()).await.unwrap();
    let before = tree(directory.path());
    let staging = directory.path().join("out/.staging");
    // While rows are read, and when files are staged.
    for (query, phase, are_staged) in
        [(ENDLESS, Phase::Anonymize, false), (CENSUS, Phase::Verify, true)]
    {
        let job = Draft { query, ..Draft::new("out") }.job(directory.path()).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let files = staging.clone();
        let look = move || tell.send(!tree(&files).is_empty()).unwrap();
        let stopped = run_to(phase, &job, &host(), look).await;
        assert!(matches!(stopped, Err(Error::Cancelled)), "{phase}: {stopped:?}");
        assert_eq!(told.recv().unwrap(), are_staged, "{phase}");
        assert_eq!(tree(directory.path()), before, "{phase}");
        assert!(!staging.exists(), "{phase}");
    }
}

#[tokio::test]
async fn two_runs_at_once_never_mix() {
    let directory = tempdir().unwrap();
    let draft = Draft::new("out");
    let (one, other) = tokio::join!(draft.run(directory.path()), draft.run(directory.path()));
    let outcomes = [one, other];
    let busy = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::Busy(_)))).count();
    let published = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(busy + published, 2);
    assert!(published >= 1);
    let manifest = manifest(&directory.path().join("out"));
    assert_eq!(manifest.tables[0].rows, 2000);
}

#[tokio::test]
async fn both_tables_are_one_release() {
    let directory = tempdir().unwrap();
    let draft = Draft {
        query: "SELECT age, sex, zip, occupation FROM sample_census(rows => 2000, seed => 3)",
        anonymize: r#"
            method = "alpha_k"
            k = 5
            alpha = 0.4
            quasi_identifiers = ["age", "sex", "zip"]
            sensitive = ["occupation"]
            suppression_limit = 0.1
        "#,
        ..Draft::new("out")
    };
    let manifest = draft.run(directory.path()).await.unwrap().manifest;
    let names: Vec<&str> = manifest.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["quasi_identifiers", "sensitive"]);
    assert_eq!(manifest.tables[0].rows, manifest.tables[1].rows);
    assert!(manifest.measures.iter().any(|measure| measure.measure == "alpha"));
}

#[tokio::test]
async fn the_largest_share_of_one_person_is_in_the_manifest_and_on_the_page() {
    let directory = tempdir().unwrap();
    let query = "SELECT 20 + i % 5 AS age, 'd' || (i % 3) AS disease, CASE WHEN i < 200 THEN 0 ELSE i END AS person
                 FROM (SELECT unnest(range(0, 1000)) AS i)";
    let anonymize = "k = 5\nquasi_identifiers = [\"age\"]\nsensitive = [\"disease\"]\nprivacy_unit = \"person\"\nunit_share = 0.4";
    let draft = Draft { query, anonymize, ..Draft::new("out") };
    let manifest = draft.run(directory.path()).await.unwrap().manifest;
    let found = manifest.measures.iter().find(|measure| measure.measure == "unit_share").unwrap();
    assert_eq!((found.target, found.holds), (Some(0.4), Some(true)));
    let share = found.value.unwrap();
    assert!(share > 0.1 && share <= 0.4 && (share * 1000.0).fract() < 1e-6, "{share}");
    assert!(manifest.measure("split_persons").is_some());
    assert_eq!(manifest.options["unit_share"], 0.4);
    let job = draft.job(directory.path()).unwrap();
    let source = Source { job, published: None, threshold: None, title: None };
    let html = report(&source, &SessionContext::new()).await.unwrap();
    assert!(html.contains("One person may own several of them, at most"), "{html}");
    // Without a bound it is told all the same.
    let without = anonymize.replace("\nunit_share = 0.4", "").leak();
    let unbounded = Draft { anonymize: without, ..draft.clone() };
    let manifest = unbounded.run(directory.path()).await.unwrap().manifest;
    assert!(manifest.measure("unit_share").unwrap() > 0.4);
    let wrong = Draft { anonymize: anonymize.replace("0.4", "1.4").leak(), ..draft };
    let error = wrong.run(directory.path()).await.unwrap_err().to_string();
    assert!(error.contains("option 'unit_share': 1.4 is not above 0 and at most 1"), "{error}");
}

#[tokio::test]
async fn every_kind_of_method_can_be_verified() {
    let kinds = [
        "method = \"layered\"\nk = 10\nquasi_identifiers = [\"age\", \"sex\", \"education\"]\nl = 2",
        "method = \"asg_ls\"\nk = 10\nl = 3\nquasi_identifiers = [\"age\", \"sex\", \"education\"]",
        "method = \"asg_ls\"\nk = 5\nl = 4\nvariant = \"paper\"\nquasi_identifiers = [\"age\", \"sex\", \"education\"]",
        "method = \"slicing\"\nk = 10\nl = 2\nquasi_identifiers = [\"age\", \"sex\", \"education\"]",
        "method = \"datafly\"\nk = 5\nquasi_identifiers = [\"age\", \"sex\", \"education\"]",
        "constraints = [{ columns = [\"age\", \"sex\"], k = 5 }, { columns = [\"education\"], k = 3 }]\nhierarchies = { age = { intervals = [5, 10, 50] } }",
        "method = \"kaim\"\nk = 5\nquasi_identifiers = [\"age\", \"sex\", \"education\"]\nweights = { age = 2.0 }",
        "k = 5\nquasi_identifiers = [\"age\", \"sex\", \"education\"]\nalpha = 0.8\nranges = \"bounds\"\nhierarchies = { education = { query = \"SELECT * FROM sample_hierarchy(column => 'education')\" } }",
    ];
    for kind in kinds {
        let directory = tempdir().unwrap();
        let options = format!(
            "{kind}\nsensitive = [\"occupation\"]\nkeep = [\"zip\"]\nidentifiers = [\"person_id\"]\n"
        );
        let options: &'static str = options.leak();
        let draft = Draft { anonymize: options, ..Draft::new("out") };
        let outcome = draft.run(directory.path()).await;
        assert!(outcome.is_ok(), "{kind}: {}", outcome.unwrap_err());
    }
}

#[tokio::test]
async fn directories_tell_columns_with_any_value() {
    let directory = tempdir().unwrap();
    let draft = Draft {
        query: "SELECT age, sex, education, zip, occupation, person_id,
                  CASE WHEN age < 30 THEN NULL WHEN age < 50 THEN 'a/b = *' ELSE '' END AS area
                FROM sample_census(rows => 2000, seed => 3)",
        anonymize: r#"
            k = 10
            quasi_identifiers = ["age", "sex", "education"]
            sensitive = ["occupation"]
            identifiers = ["person_id"]
            keep = ["zip", "area"]
        "#,
        output: "path = \"out\"\npartition_by = [\"area\", \"sex\"]".to_owned(),
        checks: "",
    };
    let context = SessionContext::new();
    for format in ["parquet", "csv", "json"] {
        let draft =
            Draft { output: format!("{}\nformat = \"{format}\"", draft.output), ..draft.clone() };
        let manifest = draft.run(directory.path()).await.unwrap().manifest;
        let output = directory.path().join("out");
        let name = format!("as_{format}");
        register_release(&context, output.to_str().unwrap(), &manifest.tables[0], &name)
            .await
            .unwrap();
        let query = format!(
            "SELECT count(*) FILTER (WHERE area IS NULL) > 100 AND count(*) FILTER (WHERE area = 'a/b = *') > 100
               AND count(*) FILTER (WHERE area = '') > 100 AND count(DISTINCT sex) <= 3 AND count(*) = 2000 FROM {name}"
        );
        let batches = context.sql(&query).await.unwrap().collect().await.unwrap();
        let holds =
            datafusion::arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        assert!(holds.contains("true"), "{format}: {holds}");
    }
}

#[tokio::test]
async fn broken_inputs_stop_the_job_before_the_output_is_touched() {
    let directory = tempdir().unwrap();
    std::fs::write(directory.path().join("bad.parquet"), "no parquet").unwrap();
    for (path, reason) in
        [("bad.parquet", "input 'lake'"), ("nowhere/", "there is no .parquet file")]
    {
        let text = format!(
            "[input.lake]\npath = \"{path}\"\n[anonymize]\nk = 5\nquasi_identifiers = [\"age\"]\n[output]\npath = \"out\""
        );
        let job = anonymize_release::Job::from_toml(&text, directory.path()).unwrap();
        let error = run(&job, &SessionContext::new(), RunOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert!(!directory.path().join("out").exists());
    }
}

#[tokio::test]
async fn the_same_seed_gives_the_same_release_and_another_one_another() {
    let directory = tempdir().unwrap();
    let job = |seed: &'static str| {
        Draft {
        anonymize: format!(
            "k = 10\nquasi_identifiers = [\"age\", \"sex\", \"education\"]\nsensitive = [\"occupation\"]\n\
             identifiers = [\"person_id\"]\nkeep = [\"zip\"]\nseed = {seed}"
        )
        .leak(),
        query: CENSUS,
        ..Draft::new("out")
    }
    };
    std::fs::write(directory.path().join("seed.txt"), "a night of the tests\n").unwrap();
    let mut sums = Vec::new();
    for seed in ["\"a night of the tests\"", "{ file = \"seed.txt\" }", "\"a day of the tests\""] {
        let manifest = job(seed).run(directory.path()).await.unwrap().manifest;
        sums.push(
            manifest.tables[0].files.iter().map(|file| file.sha256.clone()).collect::<Vec<_>>(),
        );
    }
    assert_eq!(sums[0], sums[1]);
    assert_ne!(sums[0], sums[2]);
}

#[tokio::test]
async fn a_job_publishes_what_the_same_query_would() {
    let directory = tempdir().unwrap();
    let draft = Draft::new("out");
    let manifest = draft.run(directory.path()).await.unwrap().manifest;
    let context = host();
    datafusion_anonymize::register_all(&context).unwrap();
    let output = directory.path().join("out");
    register_release(&context, output.to_str().unwrap(), &manifest.tables[0], "released")
        .await
        .unwrap();
    let query = format!(
        "SELECT * FROM anonymize(({CENSUS}), k => 10, quasi_identifiers => ['age', 'sex', 'education'],
           sensitive => ['occupation'], identifiers => ['person_id'], keep => ['zip'], seed => 'a secret of the tests')"
    );
    let asked = context.sql(&query).await.unwrap().collect().await.unwrap();
    let read = context.sql("SELECT * FROM released").await.unwrap().collect().await.unwrap();
    let shown = |batches: &[_]| {
        datafusion::arrow::util::pretty::pretty_format_batches(batches).unwrap().to_string()
    };
    assert_eq!(shown(&asked), shown(&read));
}
