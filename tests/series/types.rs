//! Values of every type come back from the last release as they were published.

use datafusion::arrow::compute::concat_batches;
use tempfile::TempDir;

use super::*;

const CENSUS: &str = "SELECT row_number() OVER () AS person_id, age, salary_class, zip, birth_date, arrow_cast(occupation, 'Dictionary(UInt8, \
                      Utf8)') AS occupation, hours_per_week * 1.5 AS hours, education FROM sample_census(rows => 400, \
                      seed => 5, missing => 0.05)";

async fn read(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
    context.sql(sql).await?.collect().await
}

fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows: Vec<String> =
        texts(batches, "NULL").into_iter().map(|row| row.join(" | ")).collect();
    rows.sort_unstable();
    rows
}

/// A night on which everybody has left publishes the last release again, from memory and from files.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_repeated_is_what_was_published() -> Result<()> {
    for ranges in ["label", "bounds", "mean"] {
        let directory = TempDir::new()?;
        let context = session(SessionConfig::new().with_target_partitions(2));
        let release = |input: &str, last: &str, output: &str| {
            format!(
                "SELECT * FROM anonymize(({input}), k => 4, quasi_identifiers => ['age', 'zip', 'birth_date', 'hours'], \
                 sensitive => ['occupation', 'salary_class'], keep => ['education'], privacy_unit => 'person_id', \
                 hierarchies => {{zip: prefixes(3, 2)}}, ranges => '{ranges}', {SEED}, publish => '{output}', series \
                 => {{members: (SELECT * FROM members), last: {last}}})"
            )
        };
        read(&context, "CREATE TABLE members (person BYTEA, cohort BIGINT)").await?;
        read(&context, "CREATE TABLE none (cohort BIGINT)").await?;
        read(&context, &format!("CREATE TABLE census AS {CENSUS}")).await?;
        let census = "SELECT * FROM census";
        let first = read(&context, &release(census, "none", "release")).await?;
        let members = read(&context, &release(census, "none", "members")).await?;
        assert_eq!(members.iter().map(RecordBatch::num_rows).sum::<usize>(), 400);
        put(&context, "members", members[0].schema(), members);
        put(&context, "first", first[0].schema(), first.clone());
        let path = directory.path().join("first.parquet");
        let copy = format!("COPY first TO '{}' STORED AS PARQUET", path.display());
        read(&context, "SET anonymize.allow_short_seeds = true").await?;
        read(&context, &copy).await?;
        let nobody = "SELECT * FROM census WHERE person_id < 0";
        let file =
            format!("CREATE EXTERNAL TABLE file STORED AS PARQUET LOCATION '{}'", path.display());
        read(&context, &file).await?;
        for last in ["first", "file"] {
            let second = read(&context, &release(nobody, last, "release")).await?;
            assert_eq!(second[0].schema().fields(), first[0].schema().fields());
            let (one, other) = (
                concat_batches(&first[0].schema(), &first)?,
                concat_batches(&second[0].schema(), &second)?,
            );
            assert_eq!(rows(&[one]), rows(&[other]), "{ranges}, {last}");
        }
    }
    Ok(())
}

/// A key is one person whether its column is of numbers or of text.
#[tokio::test(flavor = "multi_thread")]
async fn keys_may_change_their_type() -> Result<()> {
    let mut series = Series::new("");
    let first = series.night(&persons(0..40)).await?;
    for data_type in [
        "Utf8View",
        "Int8",
        "Int16",
        "Int32",
        "UInt8",
        "UInt16",
        "UInt32",
        "UInt64",
        "Decimal128(20, 0)",
        "Decimal128(20, 3)",
        "Decimal64(6, 1)",
        "Dictionary(Int32, Utf8)",
        "Dictionary(Int8, Int64)",
        "LargeUtf8",
    ] {
        let keyed =
            format!("((SELECT * EXCEPT (id), arrow_cast(id, '{data_type}') AS id FROM tonight),");
        let sql = series.sql("").replace("(tonight,", &keyed);
        assert_eq!(cohorts(&read(&series.context, &sql).await?), first, "{data_type}");
    }
    Ok(())
}
