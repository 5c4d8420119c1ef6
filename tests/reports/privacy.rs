//! Risks against tables whose measures were computed by hand.

use datafusion::error::Result;

use super::{PATIENTS, report, run, session};

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
