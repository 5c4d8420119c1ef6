//! `privacy_report` and `utility_report` on tables whose measures were computed by hand, and on
//! releases whose loss the operator itself knows.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_anonymize::engine::AnonymizeExec;
use datafusion_anonymize::register_all;

fn session() -> SessionContext {
    // Small batches and several partitions, so that classes straddle batches.
    let config = SessionConfig::new().with_batch_size(7).with_target_partitions(3);
    let context = SessionContext::new_with_config(config);
    register_all(&context).unwrap();
    context
}

/// One line of a report.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    measure: String,
    column: Option<String>,
    value: Option<f64>,
    target: Option<f64>,
    holds: Option<bool>,
}

struct Report(Vec<Line>);

impl Report {
    fn line(&self, measure: &str, column: Option<&str>) -> &Line {
        let is_it = |line: &&Line| line.measure == measure && line.column.as_deref() == column;
        self.0.iter().find(is_it).unwrap_or_else(|| panic!("no line {measure} {column:?}"))
    }

    fn value(&self, measure: &str, column: Option<&str>) -> Option<f64> {
        self.line(measure, column).value
    }

    #[track_caller]
    fn check(&self, measure: &str, column: Option<&str>, expected: f64) {
        let value = self.value(measure, column);
        let near = value.is_some_and(|value| (value - expected).abs() < 1e-12);
        assert!(near, "{measure} {column:?} is {value:?}, not {expected}");
    }

    #[track_caller]
    fn check_holds(&self, measure: &str, column: Option<&str>, holds: Option<bool>) {
        assert_eq!(self.line(measure, column).holds, holds, "{measure} {column:?}");
    }
}

fn lines(batches: &[RecordBatch]) -> Vec<Line> {
    let mut lines = Vec::new();
    for batch in batches {
        let text = |name: &str, row| {
            let column = batch.column_by_name(name).unwrap().as_string::<i32>();
            (!column.is_null(row)).then(|| column.value(row).to_owned())
        };
        let number = |name: &str, row| {
            let column = batch.column_by_name(name)?.as_primitive::<Float64Type>();
            (!column.is_null(row)).then(|| column.value(row))
        };
        let flag = |name: &str, row| {
            let column = batch.column_by_name(name)?.as_boolean();
            (!column.is_null(row)).then(|| column.value(row))
        };
        lines.extend((0..batch.num_rows()).map(|row| Line {
            measure: text("measure", row).unwrap(),
            column: text("column_name", row),
            value: number("value", row),
            target: number("target", row),
            holds: flag("holds", row),
        }));
    }
    lines
}

async fn report(context: &SessionContext, call: &str) -> Result<Report> {
    let batches = context.sql(&format!("SELECT * FROM {call}")).await?.collect().await?;
    Ok(Report(lines(&batches)))
}

async fn run(context: &SessionContext, sql: &str) {
    context.sql(sql).await.unwrap().collect().await.unwrap();
}

async fn message(context: &SessionContext, call: &str) -> String {
    let failed = report(context, call).await.err();
    failed.unwrap_or_else(|| panic!("{call} succeeded")).strip_backtrace()
}

const PATIENTS: &str = "CREATE TABLE published AS SELECT * FROM (VALUES
    ('[20-29]', '021**', 'Flu', 10),
    ('[20-29]', '021**', 'HIV', 20),
    ('[20-29]', '021**', 'Flu', 30),
    ('[30-39]', NULL,    'Flu', 40),
    ('[30-39]', NULL,    NULL,  50)) AS t(age, zip, disease, cost)";

#[tokio::test]
async fn risks_are_those_computed_by_hand() -> Result<()> {
    let context = session();
    run(&context, PATIENTS).await;
    let report = report(
        &context,
        "privacy_report(published, quasi_identifiers => ['age', 'zip'], sensitive => ['disease', 'cost'])",
    )
    .await?;
    let names: Vec<&str> = report.0.iter().map(|line| line.measure.as_str()).collect();
    let of_table = [
        "rows",
        "classes",
        "k",
        "largest_class",
        "average_class",
        "prosecutor_risk_max",
        "prosecutor_risk_average",
        "violating_classes",
        "violating_rows",
    ];
    let of_columns = ["l", "entropy_l", "t", "alpha"].repeat(2);
    assert_eq!(names, [of_table.to_vec(), of_columns].concat());
    report.check("rows", None, 5.0);
    report.check("classes", None, 2.0);
    report.check("k", None, 2.0);
    report.check("largest_class", None, 3.0);
    report.check("average_class", None, 2.5);
    report.check("prosecutor_risk_max", None, 0.5);
    report.check("prosecutor_risk_average", None, 0.4);
    assert_eq!(report.value("violating_rows", None), None);
    // NULL is a value: class 2 holds Flu and NULL, 0.3 more NULL than the table.
    let disease = Some("disease");
    report.check("l", disease, 2.0);
    let entropy = -(2.0 / 3.0f64 * (2.0 / 3.0f64).ln() + 1.0 / 3.0 * (1.0 / 3.0f64).ln());
    report.check("entropy_l", disease, entropy.exp());
    report.check("t", disease, 0.3);
    report.check("alpha", disease, 2.0 / 3.0);
    // Ranks 3 and 4 of five: (0.2 + 0.4 + 0.6 + 0.3) / 4.
    let cost = Some("cost");
    report.check("t", cost, 0.375);
    report.check("entropy_l", cost, 2.0);
    report.check("alpha", cost, 0.5);
    assert!(report.0.iter().all(|line| line.target.is_none() && line.holds.is_none()));
    Ok(())
}

#[tokio::test]
async fn missed_targets_do_not_hold_and_are_counted() -> Result<()> {
    let context = session();
    run(&context, PATIENTS).await;
    let call = |targets: &str| {
        format!(
            "privacy_report(published, quasi_identifiers => ['age', 'zip'], sensitive => ['disease'], {targets})"
        )
    };
    let loose = report(&context, &call("k => 2, l => 2, t => 0.3, alpha => 0.7")).await?;
    assert!(loose.0.iter().all(|line| line.holds != Some(false)), "{:?}", loose.0);
    loose.check_holds("violating_rows", None, Some(true));
    assert_eq!(loose.line("k", None).target, Some(2.0));
    assert_eq!(loose.line("violating_classes", None).target, Some(0.0));
    loose.check_holds("entropy_l", Some("disease"), None);

    let close = report(&context, &call("k => 2, t => 0.25")).await?;
    close.check_holds("t", Some("disease"), Some(false));
    close.check_holds("k", None, Some(true));
    close.check("violating_classes", None, 1.0);
    close.check("violating_rows", None, 2.0);

    let strict = report(&context, &call("k => 3, alpha => 0.6, entropy_l => 1.9")).await?;
    strict.check_holds("k", None, Some(false));
    strict.check_holds("alpha", Some("disease"), Some(false));
    strict.check_holds("entropy_l", Some("disease"), Some(false));
    strict.check("violating_classes", None, 2.0);
    strict.check("violating_rows", None, 5.0);
    strict.check_holds("violating_rows", None, Some(false));
    Ok(())
}

#[tokio::test]
async fn an_empty_release_passes_for_nothing() -> Result<()> {
    let context = session();
    run(&context, PATIENTS).await;
    let empty = "(SELECT * FROM published WHERE cost < 0)";
    let call = format!(
        "privacy_report({empty}, quasi_identifiers => ['age'], sensitive => ['disease'], k => 2, l => 2)"
    );
    let empty_report = report(&context, &call).await?;
    empty_report.check("rows", None, 0.0);
    empty_report.check("classes", None, 0.0);
    for (measure, column) in [("k", None), ("violating_rows", None), ("l", Some("disease"))] {
        assert_eq!(empty_report.value(measure, column), None, "{measure}");
        empty_report.check_holds(measure, column, Some(false));
    }
    let call = format!("privacy_report({empty}, quasi_identifiers => ['age'], k => 2)");
    report(&context, &call).await?.check_holds("k", None, Some(false));
    Ok(())
}

#[tokio::test]
async fn classes_are_equal_tuples_of_any_type() -> Result<()> {
    let context = session();
    run(
        &context,
        "CREATE TABLE published AS SELECT * FROM (VALUES
            ({lower: 1, upper: 5}, 2.5, DATE '2020-01-01', true, arrow_cast('a', 'Dictionary(Int32, Utf8)')),
            ({lower: 1, upper: 5}, 2.5, DATE '2020-01-01', true, arrow_cast('a', 'Dictionary(Int32, Utf8)')),
            ({lower: 1, upper: 6}, 2.5, DATE '2020-01-01', true, arrow_cast('a', 'Dictionary(Int32, Utf8)')),
            (NULL,                 2.5, NULL,              true, arrow_cast('a', 'Dictionary(Int32, Utf8)')),
            (NULL,                 2.5, NULL,              true, arrow_cast('a', 'Dictionary(Int32, Utf8)')))
            AS t(age, mean, day, flag, label)",
    )
    .await;
    for sensitive in ["", ", sensitive => ['label', 'day']"] {
        let call = format!(
            "privacy_report(published, quasi_identifiers => ['age', 'mean', 'flag']{sensitive}, k => 2)"
        );
        let report = report(&context, &call).await?;
        report.check("classes", None, 3.0);
        report.check("k", None, 1.0);
        report.check("violating_classes", None, 1.0);
    }
    Ok(())
}

#[tokio::test]
async fn constant_columns_are_columns_too() -> Result<()> {
    let context = session();
    run(&context, PATIENTS).await;
    let published = "(SELECT '*' AS age, 'x' AS disease, cost FROM published)";
    let call = format!(
        "privacy_report({published}, quasi_identifiers => ['age'], sensitive => ['disease', 'cost'], k => 5)"
    );
    let report = report(&context, &call).await?;
    report.check("classes", None, 1.0);
    report.check("l", Some("disease"), 1.0);
    report.check("t", Some("disease"), 0.0);
    report.check("l", Some("cost"), 5.0);
    report.check_holds("violating_rows", None, Some(true));
    Ok(())
}

/// An original of one column, its publication, and the loss they should have.
struct Publication {
    original: &'static str,
    published: &'static str,
    hierarchies: &'static str,
    ncp: Option<f64>,
}

#[tokio::test]
async fn every_form_of_publication_is_understood() -> Result<()> {
    let context = session();
    run(&context, "CREATE TABLE levels AS SELECT * FROM (VALUES
        ('a', 'x', '*'), ('b', 'x', '*'), ('c', 'y', '*'), ('d', 'y', '*'), ('e', 'y', '*')) AS t(leaf, level1, level2)").await;
    let month = 730.5 / (24.0 * 366.0);
    let cases = [
        // Labels of numbers: 10 of 40 lost twice, nothing once, everything once.
        Publication {
            original: "(20), (30), (45), (60)",
            published: "('[20-30]'), ('[20-30]'), ('45'), ('*')",
            hierarchies: "",
            ncp: Some((0.25 + 0.25 + 0.0 + 1.0) / 4.0),
        },
        Publication {
            original: "(-10), (-5), (-1), (10)",
            published: "('[-10--5]'), ('[-10--5]'), ('[-1-10]'), ('[-1-10]')",
            hierarchies: "",
            ncp: Some((0.25 + 0.25 + 0.55 + 0.55) / 4.0),
        },
        // A suppressed row loses everything, a missing cell that stays missing nothing.
        Publication {
            original: "(20), (30), (NULL), (NULL), (60)",
            published: "('[20-30]'), ('[20-30]'), (NULL), (NULL)",
            hierarchies: "",
            ncp: Some((0.25 + 0.25 + 0.0 + 0.0 + 1.0) / 5.0),
        },
        Publication {
            original: "(20), (30), (45), (60)",
            published: "({lower: 20, upper: 30}), ({lower: 20, upper: 30}), ({lower: 45, upper: 45}), (NULL)",
            hierarchies: "",
            ncp: Some((0.25 + 0.25 + 0.0 + 1.0) / 4.0),
        },
        Publication {
            original: "(20), (30), (NULL), (60)",
            published: "({lower: 20, upper: 30}), ({lower: 20, upper: 30}), (NULL), (NULL)",
            hierarchies: "",
            ncp: Some((0.25 + 0.25 + 0.0 + 1.0) / 4.0),
        },
        Publication {
            original: "(20), (30), (45), (60)",
            published: "(25.0), (25.0), (52.5), (52.5)",
            hierarchies: "",
            ncp: None,
        },
        Publication {
            original: "(20), (30)",
            published: "(20), (30)",
            hierarchies: "",
            ncp: Some(0.0),
        },
        Publication {
            original: "(18), (21), (24), (58)",
            published: "('*'), ('[20-24]'), ('[20-24]'), ('58')",
            hierarchies: "intervals(5, 10)",
            ncp: Some((1.0 + 0.1 + 0.1 + 0.0) / 4.0),
        },
        Publication {
            original: "('02138'), ('02139'), ('02201')",
            published: "('0213*'), ('0213*'), ('02201')",
            hierarchies: "prefixes(4, 2)",
            ncp: Some((0.5 + 0.5 + 0.0) / 3.0),
        },
        // Five leaves, of which the original holds three.
        Publication {
            original: "('a'), ('b'), ('c')",
            published: "('x'), ('x'), ('c')",
            hierarchies: "levels",
            ncp: Some((0.25 + 0.25 + 0.0) / 3.0),
        },
        // 366 days; a month counts as 30.4 of them.
        Publication {
            original: "(DATE '2020-01-01'), (DATE '2020-01-31'), (DATE '2021-01-01')",
            published: "('2020-01'), ('2020-01'), ('2021-01-01')",
            hierarchies: "date_steps('month', 'year')",
            ncp: Some(2.0 * month / 3.0),
        },
        Publication {
            original: "(DATE '2020-01-05'), (DATE '2020-03-05'), (DATE '2020-05-04')",
            published: "('[2020-01-05-2020-03-05]'), ('[2020-01-05-2020-03-05]'), ('2020-05-04')",
            hierarchies: "",
            ncp: Some((0.5 + 0.5 + 0.0) / 3.0),
        },
        Publication {
            original: "('red'), ('green'), ('blue'), ('a, b')",
            published: "('{blue, green}'), ('{blue, green}'), ('{a, b, red}'), ('a, b')",
            hierarchies: "",
            ncp: Some((1.0 + 1.0 + 1.0 + 0.0) / 12.0),
        },
        Publication {
            original: "(true), (false), (true)",
            published: "('*'), ('*'), ('true')",
            hierarchies: "",
            ncp: Some(2.0 / 3.0),
        },
    ];
    for Publication { original, published, hierarchies, ncp } in cases {
        let hierarchies = match hierarchies {
            "" => String::new(),
            hierarchy => format!(", hierarchies => {{v: {hierarchy}}}"),
        };
        let call = format!(
            "utility_report((SELECT * FROM (VALUES {original}) AS t(v)), \
             (SELECT * FROM (VALUES {published}) AS t(v)), quasi_identifiers => ['v']{hierarchies})"
        );
        let report = report(&context, &call).await?;
        match ncp {
            Some(ncp) => {
                report.check("ncp", Some("v"), ncp);
                report.check("ncp", None, ncp);
            }
            None => assert_eq!(report.value("ncp", None), None, "{published}"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn utility_is_that_computed_by_hand() -> Result<()> {
    let context = session();
    run(&context, "CREATE TABLE original AS SELECT * FROM (VALUES
        (20, 'a', 'low'), (30, 'b', 'low'), (40, 'a', 'high'), (50, 'a', 'low'), (60, 'c', NULL), (70, 'c', 'low'))
        AS t(age, job, income)").await;
    run(
        &context,
        "CREATE TABLE published AS SELECT * FROM (VALUES
        ('[20-40]', '{a, b}', 'low'), ('[20-40]', '{a, b}', 'low'), ('[20-40]', '{a, b}', 'high'),
        ('[50-60]', '*', 'low'), ('[50-60]', '*', NULL)) AS t(age, job, income)",
    )
    .await;
    let call = |options: &str| {
        format!("utility_report(original, published, quasi_identifiers => [age, job]{options})")
    };
    let plain = report(&context, &call("")).await?;
    let names: Vec<&str> = plain.0.iter().map(|line| line.measure.as_str()).collect();
    let expected = [
        "rows_original",
        "rows_published",
        "suppressed_rows",
        "classes",
        "dm",
        "c_avg",
        "ncp",
        "ncp",
        "ncp",
    ];
    assert_eq!(names, expected);
    plain.check("rows_original", None, 6.0);
    plain.check("rows_published", None, 5.0);
    plain.check("suppressed_rows", None, 1.0);
    plain.check("classes", None, 2.0);
    plain.check("dm", None, 9.0 + 4.0 + 6.0);
    plain.check("c_avg", None, 5.0 / (2.0 * 2.0));
    let (age, job) = ((3.0 * 0.4 + 2.0 * 0.2 + 1.0) / 6.0, (3.0 * 0.5 + 2.0 + 1.0) / 6.0);
    plain.check("ncp", Some("age"), age);
    plain.check("ncp", Some("job"), job);
    plain.check("ncp", None, (age + job) / 2.0);

    let labelled = report(&context, &call(", class => 'income', k => 5")).await?;
    // One row outside its majority in each class, and the suppressed one.
    labelled.check("cm", None, 1.0 + 1.0 + 1.0);
    labelled.check("c_avg", None, 0.5);
    labelled.check("dm", None, 19.0);
    labelled.check("ncp", Some("age"), age);
    let single = "utility_report(original, published, quasi_identifiers => [age], class => income)";
    let single = report(&context, single).await?;
    single.check("cm", None, 3.0);
    single.check("ncp", Some("age"), age);
    Ok(())
}

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

#[tokio::test]
async fn predicates_judge_the_report_and_not_the_rows() -> Result<()> {
    let context = session();
    run(&context, PATIENTS).await;
    let call = "privacy_report(published, quasi_identifiers => ['age'], k => 3)";
    let filtered = |predicate: &str| format!("(SELECT * FROM {call} WHERE {predicate})");
    assert_eq!(report(&context, &filtered("random() < 0")).await?.0.len(), 0);
    report(&context, &filtered("random() < 2")).await?.check("rows", None, 5.0);
    let failed = report(&context, &filtered("NOT holds")).await?;
    assert_eq!(failed.0.len(), 3);
    let utility = "(SELECT * FROM utility_report(published, published, quasi_identifiers => ['cost']) \
                   WHERE random() < 2 AND measure = 'dm')";
    report(&context, utility).await?.check("dm", None, 5.0);
    let joined = format!("(SELECT a.* FROM {call} AS a JOIN {call} AS b USING (measure) LIMIT 4)");
    assert_eq!(report(&context, &joined).await?.0.len(), 4);
    Ok(())
}

#[tokio::test]
async fn plans_show_what_was_asked_and_no_values() -> Result<()> {
    let context = session();
    run(&context, PATIENTS).await;
    let sql = "EXPLAIN SELECT * FROM privacy_report(published, quasi_identifiers => ['age'], \
               sensitive => ['disease'], k => 3, alpha => 0.5)";
    let batches = context.sql(sql).await?.collect().await?;
    let plan = datafusion::arrow::util::pretty::pretty_format_batches(&batches)?.to_string();
    assert!(
        plan.contains("k=3, alpha=0.5, quasi_identifiers=[age], sensitive=[disease]"),
        "{plan}"
    );
    Ok(())
}

#[tokio::test]
async fn memory_is_asked_for() -> Result<()> {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(2_000_000, 1.0).build_arc()?;
    let context = SessionContext::new_with_config_rt(SessionConfig::new(), runtime);
    register_all(&context)?;
    let original = "(SELECT value AS id FROM generate_series(1, 300000))";
    let call = format!("utility_report({original}, {original}, quasi_identifiers => ['id'])");
    let message = message(&context, &call).await;
    assert!(message.contains("Resources exhausted"), "{message}");
    Ok(())
}

#[tokio::test]
async fn mistakes_are_named_with_a_way_out() {
    let context = session();
    run(&context, PATIENTS).await;
    let cases = [
        ("privacy_report()", "privacy_report takes one input"),
        ("privacy_report(published, published, k => 2)", "privacy_report takes one input"),
        ("privacy_report(published, k => 2)", "option 'quasi_identifiers' is missing"),
        ("privacy_report(nowhere, quasi_identifiers => ['age'])", "there is no table"),
        (
            "privacy_report(published, quasi_identifiers => ['agee'])",
            "privacy_report: option 'quasi_identifiers': the input has no column 'agee'; it has 'age'",
        ),
        (
            "privacy_report(published, quasi_identifiers => ['age', 'age'])",
            "column 'age' is listed twice",
        ),
        (
            "privacy_report(published, quasi_identifiers => ['age'], sensitive => ['age'])",
            "column 'age' has two roles",
        ),
        (
            "privacy_report(published, quasi_identifiers => ['age'], l => 2)",
            "l=2 needs a column to protect: write sensitive",
        ),
        ("privacy_report(published, quasi_identifiers => ['age'], k => 1)", "option 'k': 1 is not"),
        ("privacy_report(published, quasi_identifiers => ['age'], k => 'x')", "a whole number"),
        (
            "privacy_report(published, quasi_identifiers => ['age'], sensitive => ['cost'], t => 2)",
            "option 't': 2 is not between 0 and 1",
        ),
        (
            "privacy_report(published, quasi_identifiers => ['age'], hierarchies => {})",
            "there is no option 'hierarchies'",
        ),
        (
            "privacy_report(published, quasi_identifier => ['age'])",
            "did you mean 'quasi_identifiers'?",
        ),
        ("utility_report(published)", "utility_report takes two inputs"),
        ("utility_report(published, published)", "option 'quasi_identifiers' is missing"),
        (
            "utility_report(published, (SELECT zip FROM published), quasi_identifiers => ['age'])",
            "utility_report, the published table: option 'quasi_identifiers': the input has no column 'age'",
        ),
        (
            "utility_report((SELECT zip FROM published), published, quasi_identifiers => ['age'])",
            "utility_report, the original: option 'quasi_identifiers': the input has no column 'age'",
        ),
        (
            "utility_report(published, published, quasi_identifiers => ['cost'], class => 'income')",
            "option 'class': the input has no column 'income'",
        ),
        (
            "utility_report(published, published, quasi_identifiers => ['cost'], class => 'cost')",
            "column 'cost' is a quasi-identifier",
        ),
        (
            "utility_report(published, published, quasi_identifiers => ['cost'], hierarchies => {age: prefixes(1)})",
            "column 'age' is not a quasi-identifier",
        ),
        (
            "utility_report(published, published, quasi_identifiers => ['cost'], k => 0)",
            "option 'k': 0 is not between 1",
        ),
        (
            "utility_report((SELECT * FROM published LIMIT 2), published, quasi_identifiers => ['cost'])",
            "the published table has 5 rows and the original has 2",
        ),
        (
            "utility_report((SELECT true AS age FROM published), (SELECT 1 AS age FROM published), quasi_identifiers => ['age'])",
            "column 'age' is of type Boolean in the original and of type Int64",
        ),
    ];
    for (call, expected) in cases {
        let message = message(&context, call).await;
        assert!(message.contains(expected), "{call}\n  gave: {message}\n  not: {expected}");
    }
}

#[tokio::test]
async fn no_message_holds_a_cell() {
    let context = session();
    run(
        &context,
        "CREATE TABLE original AS SELECT * FROM (VALUES (1, 'marker'), (2, 'marker2')) AS t(age, job)",
    )
    .await;
    let calls = [
        "utility_report(original, (SELECT 'marker!' AS age, job FROM original), quasi_identifiers => ['age', 'job'])",
        "utility_report(original, (SELECT age, concat(job, '!') AS job FROM original), quasi_identifiers => ['age', 'job'])",
        "utility_report(original, original, quasi_identifiers => ['job'], hierarchies => {job: (SELECT job, 'top' AS top FROM original WHERE age = 1)})",
    ];
    for call in calls {
        let message = message(&context, call).await;
        assert!(!message.contains("marker"), "{message}");
        assert!(message.contains("distinct"), "{message}");
    }
}
