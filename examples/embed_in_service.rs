//! A service that answers queries over an anonymized view and never shows the table behind it.
//!
//! ```sh
//! cargo run --example embed_in_service
//! ```

use datafusion::common::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_anonymize::register_all;

#[tokio::main]
async fn main() -> Result<()> {
    // The session of one request: the host's own settings, plus our functions.
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register_all(&context)?;
    anonymize_sample::register(&context)?;

    // What the operator of the service writes down once. Clients name the view, not the table.
    context
        .sql(
            "CREATE VIEW patients_released AS
             SELECT * FROM anonymize(
               (SELECT age, sex, zip, occupation FROM sample_census(rows => 20000, seed => 3)),
               k => 20, l => 2,
               quasi_identifiers => ['age', 'sex', 'zip'],
               sensitive => ['occupation'],
               hierarchies => {zip: prefixes(3, 2)})",
        )
        .await?;

    // What a client asks. Filters and aggregates work on the release, never on the raw rows.
    let answer = context
        .sql(
            "SELECT sex, occupation, count(*) AS persons
             FROM patients_released
             GROUP BY sex, occupation
             ORDER BY persons DESC
             LIMIT 5",
        )
        .await?;
    answer.show().await?;

    // How it is done: method, k and roles are shown; data and the seed are not.
    let plan = context.sql("EXPLAIN SELECT sex, occupation FROM patients_released").await?;
    plan.show().await
}
