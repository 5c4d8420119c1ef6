//! Reports inside queries, their plans, their memory and their error messages.

use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::{PATIENTS, message, report, run, session};
use crate::with_functions;

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
async fn plans_of_a_series_show_what_was_asked_and_no_values() -> Result<()> {
    let context = session();
    run(&context, PATIENTS).await;
    let sql = "EXPLAIN SELECT * FROM series_report(published, published, quasi_identifiers => ['age'], sensitive => \
               ['disease'], k => 3, l => 2, alpha => 0.5, register => (SELECT cost AS person, 1 AS release, age FROM \
               published))";
    let batches = context.sql(sql).await?.collect().await?;
    let plan = datafusion::arrow::util::pretty::pretty_format_batches(&batches)?.to_string();
    let asked = "SeriesReport: releases=2, k=3, l=2, alpha=0.5, quasi_identifiers=[age], sensitive=[disease], \
                 register=quasi_identifiers";
    assert!(plan.contains(asked), "{plan}");
    Ok(())
}

#[tokio::test]
async fn a_series_asks_for_memory_and_gives_it_back() -> Result<()> {
    let series = |persons: usize, with_class: bool| {
        let release = format!(
            "(SELECT value AS age, value / 5 AS class_id FROM generate_series(1, {persons}))"
        );
        let class = if with_class { "value / 5 AS class" } else { "value AS age" };
        format!(
            "series_report({release}, {release}, quasi_identifiers => ['age'], register => (SELECT value AS person, 1 AS \
             release, {class} FROM generate_series(1, {persons})))"
        )
    };
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(20_000_000, 1.0).build_arc()?;
    let context = with_functions(SessionContext::new_with_config_rt(
        SessionConfig::new().with_target_partitions(1),
        std::sync::Arc::clone(&runtime),
    ));
    report(&context, &series(1_000, true)).await?.check("persons", None, 1_000.0);
    report(&context, &series(1_000, false)).await?.check("persons", None, 1_000.0);
    for with_class in [true, false] {
        let message = message(&context, &series(200_000, with_class)).await;
        assert!(message.contains("Resources exhausted"), "{message}");
    }
    assert_eq!(runtime.memory_pool.reserved(), 0);
    Ok(())
}

#[tokio::test]
async fn memory_is_asked_for() -> Result<()> {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(2_000_000, 1.0).build_arc()?;
    let context = SessionContext::new_with_config_rt(SessionConfig::new(), runtime);
    let context = with_functions(context);
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
        ("privacy_report(published, published, k => 2)", "the input has no column 'class_id'"),
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
        "series_report((SELECT concat(job, '!') AS job FROM original), quasi_identifiers => ['job'], register => (SELECT age AS person, 1 AS release, job FROM original))",
        "series_report((SELECT job FROM original), quasi_identifiers => ['job'], register => (SELECT age AS person, 1 AS release, job FROM original), hierarchies => {job: (SELECT job, 'top' AS top FROM original WHERE age = 1)})",
    ];
    for call in calls {
        let message = message(&context, call).await;
        assert!(!message.contains("marker"), "{message}");
        assert!(message.contains("distinct") || message.contains("have a label"), "{message}");
    }
}
