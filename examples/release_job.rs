//! A release job in Rust: anonymize, write, read back, check, and only then say "done".
//!
//! ```sh
//! cargo run --example release_job
//! ```

use datafusion::common::{Result, exec_err};
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use datafusion_anonymize::register_all;
use datafusion_anonymize::{Anonymize, Hierarchy, Models};

#[tokio::main]
async fn main() -> Result<()> {
    let context = SessionContext::new();
    register_all(&context)?;
    anonymize_sample::register(&context)?;
    let census = context
        .sql("SELECT age, education, zip, occupation, person_id FROM sample_census(rows => 20000)")
        .await?;

    let release = Anonymize::new(10)
        .quasi_identifiers(["age", "education", "zip"])
        .sensitive(["occupation"])
        .identifiers(["person_id"])
        .models(Models { l: Some(3), ..Models::default() })
        .hierarchy("zip", Hierarchy::prefixes([3, 2]))
        .seed("from the secret store")
        .apply(census)?;

    let directory = tempfile::tempdir()?;
    let path = directory.path().join("release.parquet").display().to_string();
    release.write_parquet(&path, DataFrameWriteOptions::new(), None).await?;

    // The check looks at the file alone.
    context.register_parquet("release", &path, ParquetReadOptions::default()).await?;
    let report = context
        .sql(
            "SELECT measure, column_name, value, target, holds
             FROM privacy_report(release, quasi_identifiers => ['age', 'education', 'zip'],
                                 sensitive => ['occupation'], k => 10, l => 3)",
        )
        .await?;
    report.clone().show().await?;
    let failing = report.filter(datafusion::prelude::col("holds").is_false())?.count().await?;
    if failing > 0 {
        return exec_err!("{failing} checks do not hold: the release is not published");
    }
    println!("The release holds.");
    Ok(())
}
