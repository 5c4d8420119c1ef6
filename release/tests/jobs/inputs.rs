//! What a job can read, and reports of what it made.

use std::fs;
use std::path::Path;

use anonymize_release::report::{Source, options_of, report};
use anonymize_release::{Job, Outcome, RunOptions, run};
use datafusion::prelude::SessionContext;
use tempfile::tempdir;

use crate::Draft;

async fn release(directory: &Path, text: &str) -> Outcome {
    let job = Job::from_toml(text, directory).unwrap();
    run(&job, &SessionContext::new(), RunOptions::default()).await.unwrap()
}

#[tokio::test]
async fn csv_files_directories_and_tables_of_levels_are_inputs() {
    let directory = tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for year in [2025, 2026] {
        let rows: String = (0..40)
            .map(|i| format!("{};0{};{}\n", 20 + i % 10, 2130 + i % 4, ["Flu", "HIV"][i % 2]))
            .collect();
        write(&format!("lake/year={year}/a.csv"), &format!("age;zip;disease\n{rows}"));
    }
    write("levels.csv", "value,level\nHIV,1\nFlu,2\n");
    write("zip.csv", "02130;Boston;*\n02131;Boston;*\n02132;Cambridge;*\n02133;Cambridge;*\n");
    let outcome = release(
        directory.path(),
        r#"
        query = "SELECT age, lpad(arrow_cast(zip, 'Utf8'), 5, '0') AS zip, disease, year FROM lake"
        [input.lake]
        path = "lake/"
        format = "csv"
        delimiter = ";"
        partitions = ["year"]
        [input.levels]
        path = "levels.csv"
        [anonymize]
        k = 4
        alpha = [0.6, 0.9]
        sensitivity = "levels"
        quasi_identifiers = ["age", "zip"]
        sensitive = ["disease"]
        keep = ["year"]
        hierarchies = { zip = { file = "zip.csv" } }
        [output]
        path = "out"
        partition_by = ["year"]
        "#,
    )
    .await;
    assert_eq!(outcome.manifest.counts.rows_published, 80);
    let text = outcome.manifest.to_json().unwrap();
    assert!(
        !text.contains("HIV") && !text.contains("Boston") && !text.contains("zip.csv"),
        "{text}"
    );
    let years =
        |year: &str| outcome.manifest.tables[0].files.iter().any(|file| file.path.contains(year));
    assert!(years("year=2025/") && years("year=2026/"));
    let told = options_of(&outcome.manifest).unwrap_err().to_string();
    assert!(told.contains("--job"), "{told}");
}

#[tokio::test]
async fn a_column_that_appears_overnight_stops_the_job() {
    let directory = tempdir().unwrap();
    Draft::new("out").run(directory.path()).await.unwrap();
    let grown = Draft {
        query: "SELECT *, 'a@b.c' AS email FROM (SELECT age, sex, education, zip, occupation, person_id FROM sample_census(rows => 100))",
        ..Draft::new("out")
    };
    let error = grown.run(directory.path()).await.unwrap_err().to_string();
    assert!(error.contains("email") && !error.contains("a@b.c"), "{error}");
}

#[tokio::test]
async fn an_empty_input_is_not_a_release() {
    let directory = tempdir().unwrap();
    let empty = Draft {
        query: "SELECT age, sex, education, zip, occupation, person_id FROM sample_census(rows => 100) WHERE age < 0",
        ..Draft::new("out")
    };
    let error = empty.run(directory.path()).await.unwrap_err();
    assert!(!directory.path().join("out/manifest.json").exists(), "{error}");
}

/// Every kind of release has a page of its own words.
#[tokio::test]
async fn every_kind_of_release_has_a_page() {
    let columns =
        "quasi_identifiers = [\"age\", \"sex\", \"education\"]\nsensitive = [\"occupation\"]\n";
    let rest = "keep = [\"zip\"]\nidentifiers = [\"person_id\"]\n";
    let kinds = [
        ("k = 10\nl = 2\n", rest, "look alike in everything somebody could know"),
        (
            "k = 10\nprivacy_unit = \"person_id\"\n",
            "keep = [\"zip\"]\n",
            "persons were counted when the groups were made",
        ),
        ("k = 10\nranges = \"bounds\"\n", rest, "Information lost by column"),
        ("k = 10\nranges = \"mean\"\n", rest, "cannot be told from the published values"),
        ("method = \"asg_ls\"\nk = 10\nl = 3\n", rest, "A published record is not a person here"),
        (
            "constraints = [{ columns = [\"age\", \"sex\"], k = 5 }, { columns = [\"education\"], k = 3 }]\n",
            rest,
            "a requirement for each combination of columns",
        ),
        (
            "method = \"alpha_k\"\nk = 5\nalpha = 0.4\nmix = true\nsuppression_limit = 0.1\n",
            "identifiers = [\"person_id\", \"zip\"]\n",
            "what is lost is the connection between the two",
        ),
    ];
    for (options, rest, expected) in kinds {
        let directory = tempdir().unwrap();
        let text: &'static str = format!("{options}{columns}{rest}").leak();
        let draft = Draft { anonymize: text, ..Draft::new("out") };
        draft.run(directory.path()).await.unwrap();
        let job = draft.job(directory.path()).unwrap();
        let source = Source { job, published: None, threshold: None, title: None };
        let html = report(&source, &SessionContext::new()).await.unwrap();
        assert!(html.contains(expected), "{options}\n{html}");
        assert!(html.contains("In order."), "{options}");
        assert!(
            html.contains("Records by occupation") && html.contains("Records by age"),
            "{options}"
        );
    }
}
