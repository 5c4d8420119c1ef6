//! Hierarchies of one's own: a table, a file, aligned intervals and masked prefixes, in Rust.
//!
//! ```sh
//! cargo run --example custom_hierarchy
//! ```

use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::register_all;
use datafusion_anonymize::{Anonymize, Hierarchy};

#[tokio::main]
async fn main() -> Result<()> {
    let context = SessionContext::new();
    register_all(&context)?;
    let patients = context
        .sql(
            "SELECT * FROM (VALUES
               (29, '02138', 'Flu', 41.5), (31, '02139', 'HIV', 12.0), (35, '02141', 'Flu', 99.9),
               (44, '02142', 'Ulcer', 15.2), (47, '02138', 'Gastritis', 17.8), (52, '02139', 'Flu', 8.1)
             ) AS t(age, zip, disease, cost)",
        )
        .await?;

    // A file in the layout `leaf;level 1;…;top`, one line per leaf. Labels are names, not ranges.
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("disease.csv");
    std::fs::write(&file, "Flu;Viral;*\nHIV;Viral;*\nUlcer;Stomach;*\nGastritis;Stomach;*\n")?;

    let release = Anonymize::new(2)
        .quasi_identifiers(["age", "zip", "disease"])
        .keep(["cost"])
        .hierarchy("age", Hierarchy::intervals([5, 10, 20]))
        .hierarchy("zip", Hierarchy::prefixes([4, 3]))
        .hierarchy("disease", Hierarchy::file(file.display().to_string()))
        .apply(patients)?;
    release.show().await
}
