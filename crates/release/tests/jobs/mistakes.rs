//! Job files with mistakes: every message names what is wrong and what to write.

use std::path::Path;

use anonymize_release::{Error, Job};

use crate::Draft;

fn mistake(text: &str) -> String {
    match Job::from_toml(text, Path::new("/")) {
        Err(Error::Job(message)) => message,
        other => panic!("expected a mistake, found {other:?}"),
    }
}

const GOOD: &str = r#"
[input.lake]
path = "lake/"
[anonymize]
k = 10
quasi_identifiers = ["age"]
[output]
path = "out"
"#;

#[test]
fn unknown_keys_are_named_with_those_that_are_known() {
    let message = mistake(&GOOD.replace("k = 10", "kk = 10"));
    assert!(message.contains("line 5: unknown field `kk`"), "{message}");
    assert!(message.contains("`quasi_identifiers`"), "{message}");
    let message = mistake(&format!("{GOOD}\n[checks]\nmax_los = 0.3"));
    assert!(
        message.contains("unknown field `max_los`") && message.contains("`max_loss`"),
        "{message}"
    );
    let message = mistake(&format!("{GOOD}\n[anonymize.hierarchies]\nage = {{ steps = [5] }}"));
    assert!(
        message.contains("unknown variant `steps`") && message.contains("`intervals`"),
        "{message}"
    );
}

#[test]
fn the_line_of_a_seed_is_never_repeated() {
    for seed in
        ["seed = \"hush", "seed = hush", "seed = [\"hush\"]", "seed = { env = \"A\", hush = 1 }"]
    {
        let message = mistake(&GOOD.replace("k = 10", &format!("k = 10\n{seed}")));
        assert!(!message.contains("hush"), "{message}");
        assert!(message.contains("line"), "{message}");
    }
    let job = GOOD.replace("k = 10", "k = 10\nseed = \"hush\"");
    let shown = format!("{:?}", Job::from_toml(&job, Path::new("/")).unwrap());
    assert!(!shown.contains("hush"), "{shown}");
}

#[test]
fn mistakes_say_what_to_write() {
    let with = |section: &str| format!("{GOOD}\n{section}");
    let cases = [
        (GOOD.replace("path = \"lake/\"", "path = \"\""), "input 'lake': path is empty"),
        (
            with("[input.more]\npath = \"more/\""),
            "several inputs (lake, more): say which rows to release with query",
        ),
        (
            GOOD.replace("[input.lake]\npath = \"lake/\"", ""),
            "there is no input: write [input.patients]",
        ),
        (with("[checks]\nmax_loss = 3"), "checks: max_loss must be between 0 and 1"),
        (GOOD.replace("path = \"out\"", "path = \"o*t\""), "is a pattern of names"),
        (
            GOOD.replace("k = 10", "k = 10\nmethod = \"magic\""),
            "line 6: option 'method': 'magic' is not known; use 'layered'",
        ),
        (
            GOOD.replace("k = 10", "k = 10\nranges = \"MEAN\"") + "[checks]\nmax_loss = 0.5",
            "means do not tell what they lost",
        ),
        (
            GOOD.replace(
                "k = 10",
                "k = 10\nmethod = \"alpha_k\"\nalpha = 0.5\nvariant = \"paper\"",
            ),
            "is for experiments",
        ),
        (
            GOOD.replace("k = 10", "k = 10\nmethod = \"slicing\"\nbucket_id = false"),
            "write bucket_id = true",
        ),
        (GOOD.replace("k = 10", "k = 10\nsensitivity = \"levels\""), "write [input.levels]"),
        (GOOD.replace("k = 10", "k = \"ten\""), "invalid type"),
        (GOOD.replace("[\"age\"]", "\"age\""), "expected a list, as in"),
        (GOOD.replace("[output]\npath = \"out\"", ""), "write [output] and path"),
        (GOOD.replace("path = \"out\"", ""), "path is missing"),
        (GOOD.replace("path = \"out\"", "path = \"lake/out\""), "are in one another"),
        (GOOD.replace("path = \"out\"", "path = \"file:///lake/out\""), "are in one another"),
        (
            GOOD.replace("path = \"lake/\"", "path = \"lake/\"\ndelimiter = \";\""),
            "write format = \"csv\"",
        ),
    ];
    for (text, expected) in cases {
        let message = mistake(&text);
        assert!(message.contains(expected), "{message}\nshould say: {expected}");
    }
}

#[tokio::test]
async fn mistakes_that_the_data_shows_are_found_before_the_output_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        (Draft { query: "SELECT * FROM nowhere", ..Draft::new("out") }, "nowhere"),
        (Draft { query: "CREATE TABLE t AS SELECT 1 AS age", ..Draft::new("out") }, "DDL"),
        (
            Draft { anonymize: "k = 10\nquasi_identifiers = [\"age\"]", ..Draft::new("out") },
            "occupation",
        ),
        (
            Draft { anonymize: "k = 10\nquasi_identifiers = [\"agee\"]", ..Draft::new("out") },
            "agee",
        ),
        (
            Draft {
                output: "path = \"out\"\npartition_by = [\"person_id\"]".to_owned(),
                ..Draft::new("out")
            },
            "partition_by names 'person_id', which is not published",
        ),
        (
            Draft {
                query: "SELECT age, sex AS \"Straße\" FROM sample_census(rows => 100)",
                anonymize: "k = 10\nquasi_identifiers = [\"age\"]\nkeep = [\"Straße\"]",
                output: "path = \"out\"\npartition_by = [\"Straße\"]".to_owned(),
                checks: "",
            },
            "partition_by cannot take 'Straße'",
        ),
    ];
    for (draft, expected) in cases {
        let error = draft.run(directory.path()).await.unwrap_err();
        assert!(matches!(error, Error::Job(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let draft = Draft {
        anonymize: "k = 10\nquasi_identifiers = [\"age\"]\nseed = { env = \"NO_SUCH_SEED\" }",
        query: "SELECT age FROM sample_census(rows => 100)",
        ..Draft::new("out")
    };
    let error = draft.run(directory.path()).await.unwrap_err().to_string();
    assert!(error.contains("the environment has no variable 'NO_SUCH_SEED'"), "{error}");
    assert!(!directory.path().join("out").exists());
}

#[cfg(unix)]
#[test]
fn a_link_into_the_input_is_no_place_for_the_output() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("lake")).unwrap();
    std::os::unix::fs::symlink("lake", directory.path().join("link")).unwrap();
    let text = GOOD.replace("path = \"out\"", "path = \"link/out\"");
    let error = Job::from_toml(&text, directory.path()).unwrap_err().to_string();
    assert!(error.contains("are in one another"), "{error}");
}
