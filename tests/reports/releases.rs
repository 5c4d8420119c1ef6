//! Releases of `anonymize`: directly, from memory and from files, against the operator's own loss.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_anonymize::engine::AnonymizeExec;
use datafusion_anonymize::register_all;

use super::{report, run, session};

/// Executes a release and returns its rows with the loss that the operator measured.
async fn release(context: &SessionContext, sql: &str) -> Result<(Vec<RecordBatch>, f64)> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    let loss = loss_of(&plan).unwrap_or_else(|| panic!("no release in the plan"));
    Ok((batches, loss))
}

fn loss_of(plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
    match plan.downcast_ref::<AnonymizeExec>() {
        Some(exec) => exec.loss(),
        None => plan.children().into_iter().find_map(loss_of),
    }
}

const CENSUS: &str = "age, sex, education, native_country, zip, birth_date, hours_per_week, \
                      occupation, salary_class";

const HIERARCHIES: &str = "{age: intervals(5, 10, 20), zip: prefixes(4, 3, 2), \
     education: (SELECT * FROM sample_hierarchy(column => 'education')), \
     birth_date: date_steps('month', 'year', 'decade')}";

async fn round_trip(missing: f64, hierarchies: &str, options: &str) -> Result<()> {
    let context = SessionContext::new();
    register_all(&context)?;
    run(
        &context,
        &format!(
            "CREATE TABLE census AS SELECT {CENSUS} FROM sample_census(rows => 3000, seed => 7, missing => {missing})"
        ),
    )
    .await;
    let roles = "quasi_identifiers => ['age', 'sex', 'education', 'native_country', 'zip', 'birth_date', 'hours_per_week']";
    let sql = format!(
        "SELECT * FROM anonymize(census, k => 7, {roles}, sensitive => ['occupation'], \
         keep => ['salary_class'], hierarchies => {hierarchies}, seed => 1 {options})"
    );
    let (batches, loss) = release(&context, &sql).await?;
    let schema = batches[0].schema();
    context.register_table("published", Arc::new(MemTable::try_new(schema, vec![batches])?))?;
    let privacy =
        format!("privacy_report(published, {roles}, sensitive => ['occupation'], k => 7)");
    let privacy = report(&context, &privacy).await?;
    privacy.check("rows", None, 3000.0);
    privacy.check_holds("k", None, Some(true));
    privacy.check_holds("violating_classes", None, Some(true));
    let utility = format!(
        "utility_report(census, published, {roles}, hierarchies => {hierarchies}, class => 'salary_class', k => 7)"
    );
    let utility = report(&context, &utility).await?;
    let ncp = utility.value("ncp", None).unwrap();
    assert!((ncp - loss).abs() < 1e-9, "{ncp} is not the operator's {loss}: {options}");
    assert!(loss > 0.01, "{loss}");
    assert_eq!(utility.value("classes", None), privacy.value("classes", None));
    Ok(())
}

#[tokio::test]
async fn the_loss_read_from_labels_is_the_operators_own() -> Result<()> {
    for options in
        ["", ", method => 'mondrian'", ", method => 'mondrian_relaxed', split => 'widest'"]
    {
        round_trip(0.0, HIERARCHIES, options).await?;
        round_trip(0.03, HIERARCHIES, options).await?;
    }
    round_trip(0.0, "{zip: prefixes(3)}", "").await?;
    round_trip(0.03, "{zip: prefixes(3)}", "").await
}

#[tokio::test]
async fn the_loss_read_from_bounds_is_the_operators_own() -> Result<()> {
    round_trip(0.0, HIERARCHIES, ", ranges => 'bounds'").await?;
    round_trip(0.0, "{zip: prefixes(3)}", ", ranges => 'bounds'").await
}

#[tokio::test]
async fn reports_read_releases_directly_and_from_files() -> Result<()> {
    let context = session();
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let census =
        "(SELECT age, zip, birth_date, occupation FROM sample_census(rows => 400, seed => 3))";
    let anonymize = format!(
        "anonymize({census}, k => 5, quasi_identifiers => ['age', 'zip', 'birth_date'], \
         sensitive => ['occupation'], hierarchies => {{zip: prefixes(3, 2)}}, seed => 1)"
    );
    for format in ["PARQUET", "CSV"] {
        let file = path(&format!("release.{}", format.to_lowercase()));
        run(&context, &format!("COPY (SELECT * FROM {anonymize}) TO '{file}' STORED AS {format}"))
            .await;
        run(
            &context,
            &format!(
                "CREATE EXTERNAL TABLE {format}_release STORED AS {format} LOCATION '{file}'{}",
                if format == "CSV" { " OPTIONS ('format.has_header' 'true')" } else { "" }
            ),
        )
        .await;
    }
    let inputs = [
        anonymize.clone(),
        format!("(SELECT * FROM {anonymize})"),
        "parquet_release".into(),
        "csv_release".into(),
    ];
    let mut privacy = Vec::new();
    let mut utility = Vec::new();
    for input in inputs {
        let call = format!(
            "privacy_report({input}, quasi_identifiers => ['age', 'zip', 'birth_date'], sensitive => ['occupation'], k => 5)"
        );
        privacy.push(report(&context, &call).await?.0);
        let call = format!(
            "utility_report({census}, {input}, quasi_identifiers => ['age', 'zip', 'birth_date'], \
             hierarchies => {{zip: prefixes(3, 2)}})"
        );
        utility.push(report(&context, &call).await?);
    }
    assert!(privacy.windows(2).all(|pair| pair[0] == pair[1]), "{privacy:?}");
    let ncp = utility[0].value("ncp", None).unwrap();
    assert!(ncp > 0.0);
    utility.iter().for_each(|report| report.check("ncp", None, ncp));
    Ok(())
}
