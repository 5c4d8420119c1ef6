//! Releases of `anonymize`: directly, from memory and from files, against the operator's own loss.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_anonymize::AnonymizeExec;

use super::{report, run, session};

/// The rows of a release, and what the operator counted.
struct Release {
    batches: Vec<RecordBatch>,
    loss: f64,
    suppressed_rows: f64,
}

async fn release(context: &SessionContext, sql: &str) -> Result<Release> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    let counted = counted(&plan).unwrap_or_else(|| panic!("no release in the plan"));
    Ok(Release { batches, loss: counted.0, suppressed_rows: counted.1 })
}

fn counted(plan: &Arc<dyn ExecutionPlan>) -> Option<(f64, f64)> {
    match plan.downcast_ref::<AnonymizeExec>() {
        Some(exec) => {
            let suppressed = exec.metrics()?.sum_by_name("suppressed_rows")?;
            Some((exec.loss()?, suppressed.as_usize() as f64))
        }
        None => plan.children().into_iter().find_map(counted),
    }
}

const CENSUS: &str = "age, sex, education, native_country, zip, birth_date, hours_per_week, \
                      occupation, salary_class";

const HIERARCHIES: &str = "{age: intervals(5, 10, 20), zip: prefixes(4, 3, 2), \
     education: (SELECT * FROM sample_hierarchy(column => 'education')), \
     birth_date: date_steps('month', 'year', 'decade')}";

async fn round_trip(missing: f64, hierarchies: &str, options: &str) -> Result<()> {
    let context = crate::session(SessionConfig::new());
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
    let Release { batches, loss, suppressed_rows } = release(&context, &sql).await?;
    let schema = batches[0].schema();
    context.register_table("published", Arc::new(MemTable::try_new(schema, vec![batches])?))?;
    let privacy =
        format!("privacy_report(published, {roles}, sensitive => ['occupation'], k => 7)");
    let privacy = report(&context, &privacy).await?;
    privacy.check("rows", None, 3000.0 - suppressed_rows);
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
    utility.check("suppressed_rows", None, suppressed_rows);
    let drops_rows = options.contains("k_member") && missing > 0.0;
    assert_eq!(suppressed_rows > 0.0, drops_rows, "{options}");
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
async fn the_loss_read_from_clusters_is_the_operators_own() -> Result<()> {
    for options in [
        ", method => 'kaim'",
        ", method => 'k_member', suppression_limit => 0.5",
        ", method => 'bottom_up'",
    ] {
        round_trip(0.0, HIERARCHIES, options).await?;
        round_trip(0.03, HIERARCHIES, options).await?;
        round_trip(0.03, "{zip: prefixes(3)}", options).await?;
    }
    Ok(())
}

/// Row by row, with the original of every row at hand, which the report does not have.
#[tokio::test]
async fn iloss_is_that_of_the_rows_one_by_one() -> Result<()> {
    let context = session();
    run(
        &context,
        "CREATE TABLE census AS SELECT row_number() OVER () AS id, age, hours_per_week
         FROM sample_census(rows => 600, seed => 5, missing => 0.15)",
    )
    .await;
    let quasi_identifiers = ["age", "hours_per_week"];
    for options in ["'kaim'", "'k_member', suppression_limit => 1", "'bottom_up'"] {
        let release = |ranges: &str| {
            format!(
                "anonymize(census, k => 4, quasi_identifiers => ['age', 'hours_per_week'], keep => ['id'], \
                 seed => 1, method => {options}, ranges => '{ranges}')"
            )
        };
        let columns = quasi_identifiers.map(|name| {
            format!(
                "sum(CASE WHEN p.id IS NULL THEN 1.0 WHEN o.{name} IS NULL THEN 0.0 \
                 WHEN p.{name} IS NULL THEN 1.0 WHEN p.{name}['lower'] = p.{name}['upper'] THEN 0.0 \
                 ELSE (p.{name}['upper'] - p.{name}['lower'] + 1) / \
                 (SELECT max({name}) - min({name}) + 1.0 FROM census) END)"
            )
        });
        let sql = format!(
            "SELECT {} FROM census AS o LEFT JOIN {} AS p ON o.id = p.id",
            columns.join(", "),
            release("bounds")
        );
        let lost = context.sql(&sql).await?.collect().await?;
        let lost = |column: usize| {
            let sums = lost[0].column(column);
            let sums = datafusion::arrow::compute::cast(sums, &DataType::Float64).unwrap();
            sums.as_primitive::<Float64Type>().value(0)
        };
        for ranges in ["bounds", "label"] {
            let report = report(
                &context,
                &format!(
                    "utility_report(census, {}, quasi_identifiers => ['age', 'hours_per_week'])",
                    release(ranges)
                ),
            )
            .await?;
            for (column, name) in quasi_identifiers.into_iter().enumerate() {
                let (told, exact) = (report.value("iloss", Some(name)).unwrap(), lost(column));
                assert!((told - exact).abs() < 1e-9, "{options}, {ranges}: {told}, not {exact}");
                assert!(exact > 1.0, "{exact}");
            }
        }
    }
    Ok(())
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
         sensitive => ['occupation'], hierarchies => {{zip: prefixes(3, 2)}}, seed => 'a seed of the tests')"
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

/// Prec of the last execution of a release in the plan.
fn precision(plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
    let below = || plan.children().into_iter().find_map(precision);
    plan.downcast_ref::<AnonymizeExec>().map_or_else(below, AnonymizeExec::precision)
}

/// With hierarchies that are named, and with those that the methods make.
#[tokio::test]
async fn the_precision_read_from_a_release_is_the_operators_own() -> Result<()> {
    let context = crate::session(SessionConfig::new());
    for (table, missing) in [("census", 0.02), ("complete", 0.0)] {
        let sql = format!(
            "CREATE TABLE {table} AS SELECT age, sex, race, zip, hours_per_week, hours_per_week * 0.25 AS share, \
             salary_class FROM sample_census(rows => 2000, seed => 7, missing => {missing})"
        );
        run(&context, &sql).await;
    }
    let columns = "['age', 'sex', 'race', 'zip', 'hours_per_week', 'share']";
    let named = ", hierarchies => {age: intervals(5, 10, 20), zip: prefixes(4, 3), hours_per_week: intervals(8), share: intervals(1.5)}";
    for hierarchies in ["", named] {
        for method in ["classfly_complete", "classfly_naive", "datafly"] {
            for (table, more) in [
                ("census", ""),
                ("census", ", variant => 'paper'"),
                ("census", ", suppress => 'rows'"),
                // Bounds do not tell `*` from missing cells.
                ("complete", ", ranges => 'bounds'"),
            ] {
                let sql = format!(
                    "SELECT * FROM anonymize({table}, method => '{method}', suppression_limit => 0.2, keep => ['salary_class'], \
                     constraints => [{{columns: ['age', 'sex', 'hours_per_week'], k: 5}}, {{columns: ['race', 'zip'], k: 9}}, \
                     {{columns: ['share', 'age'], k: 3}}], seed => 1{hierarchies}{more})"
                );
                let plan = context.sql(&sql).await?.create_physical_plan().await?;
                let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
                let expected = precision(&plan).unwrap();
                context.deregister_table("published")?;
                let published = MemTable::try_new(batches[0].schema(), vec![batches])?;
                context.register_table("published", Arc::new(published))?;
                let sql = format!(
                    "utility_report({table}, published, quasi_identifiers => {columns}{hierarchies})"
                );
                let found = report(&context, &sql).await?.value("prec", None).unwrap();
                let case = format!("{method}{more}{hierarchies}");
                assert!((found - expected).abs() < 1e-9, "{found} is not {expected}: {case}");
                assert!(expected < 0.99, "nothing climbs: {case}");
            }
        }
    }
    Ok(())
}
