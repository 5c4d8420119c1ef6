//! An option that is its line in the list, its line among those that not all methods take, and its use: in every place
//! that takes options.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as FileError, MapDeserializer};

use super::options::{Anonymize, Options, Value};
use super::register_all;

const CENSUS: &str = "SELECT age, zip FROM sample_census(rows => 300, seed => 3)";

fn session() -> Result<SessionContext> {
    let context = SessionContext::new();
    register_all(&context)?;
    anonymize_sample::register(&context)?;
    Ok(context)
}

/// The sizes of the classes of a call with these options.
async fn released(method: &str, options: &str) -> Result<String> {
    let sql = format!(
        "SELECT min(size) FROM (SELECT count(*) AS size FROM anonymize(({CENSUS}), method => '{method}', k => 5, {options},
           class_id => true, quasi_identifiers => ['age', 'zip']) GROUP BY class_id)"
    );
    Ok(pretty_format_batches(&session()?.sql(&sql).await?.collect().await?)?.to_string())
}

async fn refused(method: &str, options: &str) -> String {
    let error = released(method, options).await.err();
    error.map(|error| error.strip_backtrace()).unwrap_or_default()
}

#[tokio::test]
async fn sql_takes_it_with_all_its_messages() -> Result<()> {
    let sizes = released("sorted_runs", "run_rows => 40").await?;
    assert!(sizes.contains("| 40 "), "{sizes}");
    for (method, options, message) in [
        (
            "sorted_runs",
            "run_rows => 'many'",
            "option 'run_rows' must be a whole number, as in run_rows => 10",
        ),
        ("sorted_runs", "run_rows => NULL", "option 'run_rows' is NULL"),
        ("sorted_runs", "run_row => 40", "did you mean 'run_rows'?"),
        ("sorted_runs", "run_rows => 4", "4 is less than k = 5"),
        (
            "rounded",
            "run_rows => 40",
            "option 'run_rows' does not go with method 'rounded': use 'sorted_runs'",
        ),
    ] {
        let refusal = refused(method, options).await;
        assert!(refusal.contains(message), "{options}: {refusal}");
    }
    Ok(())
}

#[tokio::test]
async fn the_builder_has_a_setter() -> Result<()> {
    let census = session()?.sql(CENSUS).await?;
    let request =
        Anonymize::new(5).method("sorted_runs").quasi_identifiers(["age", "zip"]).run_rows(301);
    let failed = request.apply(census)?.collect().await.err();
    let failed = failed.map(|error| error.to_string()).unwrap_or_default();
    assert!(failed.contains("300 rows cannot form a class of k = 301"), "{failed}");
    Ok(())
}

#[test]
fn files_and_manifests_hold_it() -> Result<(), FileError> {
    let entries = |value: i64| MapDeserializer::new([("run_rows", value)].into_iter());
    let options = Options::deserialize(entries(40).into_deserializer())?;
    assert_eq!(options.run_rows, Some(40));
    let told = options.for_manifest();
    assert!(matches!(told.as_slice(), [("run_rows", Value::Constant(_))]), "{told:?}");
    Ok(())
}
