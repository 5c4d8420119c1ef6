//! What a job can read, and reports of what it made.

use std::fs;
use std::path::Path;

use anonymize_release::report::{Source, options_of, report};
use anonymize_release::{Job, Outcome, RunOptions, run};
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::tempdir;

use crate::{Draft, host};

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
            "method = \"alpha_k\"\nk = 5\nalpha = 0.4\nsuppression_limit = 0.1\n",
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
        let html = report(&source, &host()).await.unwrap();
        assert!(html.contains(expected), "{options}\n{html}");
        assert!(html.contains("In order."), "{options}");
        assert!(
            html.contains("Records by occupation") && html.contains("Records by age"),
            "{options}"
        );
    }
}

const CSV: &str = r#"
[input.lake]
path = "lake/"
format = "csv"
[anonymize]
k = 4
quasi_identifiers = ["AGE"]
identifiers = ["name"]
keep = ["zip"]
[checks]
max_column_loss = { Age = 1.0 }
[output]
path = "out"
"#;

fn write(directory: &Path, path: &str, header: &str, row: impl Fn(u32) -> String) {
    let path = directory.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let rows: String = (0..40).map(|i| row(i) + "\n").collect();
    fs::write(path, format!("{header}{rows}")).unwrap();
}

async fn failure(directory: &Path, text: &str) -> String {
    let job = Job::from_toml(text, directory).unwrap();
    let outcome = run(&job, &SessionContext::new(), RunOptions::default()).await;
    outcome.map(|outcome| outcome.manifest.release).unwrap_err().to_string()
}

#[tokio::test]
async fn csv_files_with_columns_in_another_order_are_refused() {
    let directory = tempdir().unwrap();
    let directory = directory.path();
    let row = |i: u32| format!("{},{},Secret{i}", 20 + i % 5, 10000 + i % 3);
    write(directory, "lake/a.csv", "age,zip,name\n", row);
    write(directory, "lake/b.csv", "age,\"zip\",name\r\n", row);
    release(directory, CSV).await;
    let swapped = |i: u32| format!("{},Secret{i},{}", 20 + i % 5, 10000 + i % 3);
    write(directory, "lake/c.csv", "age,name,zip\n", swapped);
    let error = failure(directory, CSV).await;
    assert!(error.contains("file 3 of 3") && error.contains("UNION ALL BY NAME"), "{error}");
    write(directory, "lake/c.csv", "", row);
    let error = failure(directory, CSV).await;
    assert!(error.contains("file 3 of 3") && !error.contains("Secret"), "{error}");
}

#[tokio::test]
async fn codes_keep_their_leading_zeros() {
    let directory = tempdir().unwrap();
    let directory = directory.path();
    // The first such code comes late.
    let row = |i: u32| {
        let zip = if i == 39 { "02139".to_owned() } else { (10000 + i % 3).to_string() };
        format!("{},{zip},n{i}", 20 + i % 5)
    };
    write(directory, "lake/a.csv", "age,zip,name\n", row);
    let types = |outcome: &Outcome| {
        let schema = outcome.manifest.tables[0].schema.iter();
        schema.map(|column| (column.name.clone(), column.r#type.clone())).collect::<Vec<_>>()
    };
    let zip = |outcome: &Outcome| {
        let types = types(outcome);
        types.iter().find(|(name, _)| name == "zip").map(|(_, r#type)| r#type.clone()).unwrap()
    };
    assert!(zip(&release(directory, CSV).await).starts_with("Utf8"));
    let with = |types: &str| {
        CSV.replace("format = \"csv\"", &format!("format = \"csv\"\ntypes = {types}"))
    };
    assert_eq!(zip(&release(directory, &with("{ zip = \"integer\" }")).await), "Int64");
    assert_eq!(zip(&release(directory, &with("{ zip = \"number\" }")).await), "Float64");
    let error = failure(directory, &with("{ zipp = \"text\" }")).await;
    assert!(error.contains("types names 'zipp'") && error.contains("age, zip, name"), "{error}");
}

#[tokio::test]
async fn files_that_would_not_be_read_are_told() {
    let directory = tempdir().unwrap();
    let directory = directory.path();
    let row = |i: u32| format!("{},{},n{i}", 20 + i % 5, 10000 + i % 3);
    write(directory, "lake/a.csv", "age,zip,name\n", row);
    write(directory, "lake/more/b.csv", "age,zip,name\n", row);
    let error = failure(directory, CSV).await;
    assert!(error.contains("1 .csv files are in directories below"), "{error}");
}

#[tokio::test]
async fn a_page_is_not_about_another_job_or_other_rows() {
    let directory = tempdir().unwrap();
    let directory = directory.path();
    let row = |i: u32| format!("{},{},n{i}", 20 + i % 5, 10000 + i % 3);
    write(directory, "lake/a.csv", "age,zip,name\n", row);
    release(directory, CSV).await;
    let page = async |text: &str| {
        let job = Job::from_toml(text, directory).unwrap();
        let source = Source { job, published: None, threshold: None, title: None };
        report(&source, &SessionContext::new()).await
    };
    let html = page(CSV).await.unwrap();
    assert!(html.contains("Records by age"), "{html}");
    let error = page(&CSV.replace("k = 4", "k = 5")).await.unwrap_err().to_string();
    assert!(error.contains("'k' differs"), "{error}");
    write(directory, "lake/b.csv", "age,zip,name\n", row);
    let error = page(CSV).await.unwrap_err().to_string();
    assert!(error.contains("made of 40 rows and the original has 80 now"), "{error}");
}

#[tokio::test]
async fn a_value_of_one_person_is_not_on_the_page_however_often_it_was_recorded() {
    let directory = tempdir().unwrap();
    let draft = Draft {
        query: "SELECT 20 + i % 5 AS age, CASE WHEN i < 60 THEN 'RareDisease' ELSE 'Flu' END AS disease,
                  CASE WHEN i < 60 THEN 0 ELSE i END AS person, 2.5 AS weight
                FROM (SELECT unnest(range(0, 1200)) AS i)",
        anonymize: "k = 5\nquasi_identifiers = [\"age\", \"weight\"]\nsensitive = [\"disease\"]\nprivacy_unit = \"person\"",
        ..Draft::new("out")
    };
    draft.run(directory.path()).await.unwrap();
    let job = draft.job(directory.path()).unwrap();
    let source = Source { job, published: None, threshold: None, title: None };
    let html = report(&source, &SessionContext::new()).await.unwrap();
    assert!(!html.contains("RareDisease") && html.contains("Records by weight"));
}

#[tokio::test]
async fn hierarchies_of_columns_with_any_name_are_queries() {
    let directory = tempdir().unwrap();
    let draft = Draft {
        query: "SELECT CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END AS \"My.Code\" FROM (SELECT unnest(range(0, 60)) AS i)",
        anonymize: "k = 40\nquasi_identifiers = [\"My.Code\"]\nhierarchies = { \"My.Code\" = { query = \"SELECT * FROM (VALUES ('a', '*'), ('b', '*')) AS t(leaf, top)\" } }",
        ..Draft::new("out")
    };
    draft.run(directory.path()).await.unwrap();
}

/// Ten rows of 'a' and 1, and ten of a long string and NaN, of which the file has no statistics.
const PARTIAL_STATISTICS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/faults/partial_statistics.parquet");

#[tokio::test]
async fn row_groups_without_statistics_are_published_as_they_are() {
    let directory = tempdir().unwrap();
    let text = format!(
        r#"
        query = "SELECT * FROM lake"
        [input.lake]
        path = "{PARTIAL_STATISTICS}"
        [anonymize]
        k = 5
        quasi_identifiers = ["age"]
        sensitive = ["disease"]
        keep = ["note", "score"]
        seed = "a secret of enough letters"
        [output]
        path = "out"
        "#
    );
    let outcome = release(directory.path(), &text).await;
    assert_eq!(outcome.manifest.counts.rows_published, 20);
    let table = directory.path().join("out").join(&outcome.manifest.tables[0].location);
    let config = SessionConfig::new().with_collect_statistics(false);
    let context = SessionContext::new_with_config(config);
    let table = format!("{}/", table.display());
    context.register_parquet("published", &table, Default::default()).await.unwrap();
    let rows = context.sql(
        "SELECT * FROM published
         WHERE age = '30' AND note = 'a' AND disease = 'a' AND score = 1
           OR age = '40' AND length(note) = 5000 AND disease = note AND isnan(score)",
    );
    assert_eq!(rows.await.unwrap().count().await.unwrap(), 20);
    let job = Job::from_toml(&text, directory.path()).unwrap();
    let source = Source { job, published: None, threshold: None, title: None };
    report(&source, &SessionContext::new()).await.unwrap();
}
