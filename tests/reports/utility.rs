//! Every form of publication against losses computed by hand.

use datafusion::error::Result;

use super::{report, run, session};

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
        "reconstruction_distance",
        "iloss",
        "iloss",
        "iloss",
        "iloss_generalization",
        "iloss_generalization",
        "iloss_generalization",
        "iloss_suppression",
        "iloss_suppression",
        "iloss_suppression",
        "iloss_rate",
        "iloss_rate",
        "iloss_rate",
        "vmr",
        "vmr",
        "vmr",
        "rmr",
        "rmr",
        "rmr",
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

    // Boxes of 21 ages by 2 jobs and of 11 ages by 3 jobs; the suppressed row is nowhere.
    let distance = 3.0 * (1.0 - 1.0 / 42.0) + 2.0 * (1.0 - 1.0 / 33.0) + 1.0;
    plain.check("reconstruction_distance", None, distance / 6.0);
    // 51 ages and 3 jobs; the suppressed row loses both.
    let (age_loss, job_loss) = (3.0 * 21.0 / 51.0 + 2.0 * 11.0 / 51.0 + 1.0, 3.0 * 2.0 / 3.0 + 3.0);
    plain.check("iloss", Some("age"), age_loss);
    plain.check("iloss", Some("job"), job_loss);
    plain.check("iloss", None, age_loss + job_loss);
    plain.check("iloss_generalization", Some("job"), job_loss - 1.0);
    plain.check("iloss_generalization", None, age_loss + job_loss - 2.0);
    plain.check("iloss_suppression", Some("age"), 1.0);
    plain.check("iloss_suppression", None, 2.0);
    plain.check("iloss_rate", Some("age"), age_loss / 6.0);
    plain.check("iloss_rate", None, (age_loss + job_loss) / 12.0);
    plain.check("vmr", None, 0.0);
    plain.check("rmr", None, 0.0);

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

/// Six rows of two columns with holes, as the tables of the KAIM paper have them.
#[tokio::test]
async fn missing_cells_are_the_top_for_iloss() -> Result<()> {
    let context = session();
    run(
        &context,
        "CREATE TABLE original AS SELECT * FROM (VALUES
        (20, 'a'), (24, 'a'), (NULL, 'b'), (NULL, 'b'), (40, NULL), (NULL, NULL)) AS t(age, job)",
    )
    .await;
    run(
        &context,
        "CREATE TABLE published AS SELECT * FROM (VALUES
        ('[20-24]', 'a'), ('[20-24]', 'a'), (NULL, 'b'), (NULL, 'b'), ('*', NULL), ('*', NULL)) AS t(age, job)",
    )
    .await;
    let call = |published: &str| {
        format!("utility_report(original, {published}, quasi_identifiers => [age, job])")
    };
    let whole = report(&context, &call("published")).await?;
    // Of the two `*` one was missing before.
    whole.check("iloss", Some("age"), 10.0 / 21.0 + 1.0);
    whole.check("iloss", Some("job"), 0.0);
    whole.check("ncp", Some("age"), (2.0 * 4.0 / 20.0 + 2.0) / 6.0);
    whole.check("iloss_rate", None, (10.0 / 21.0 + 1.0) / 12.0);
    whole.check("vmr", Some("age"), 0.5);
    whole.check("vmr", Some("job"), 2.0 / 6.0);
    whole.check("vmr", None, 5.0 / 12.0);
    whole.check("rmr", Some("job"), 2.0 / 6.0);
    whole.check("rmr", None, 4.0 / 6.0);
    // Every row with a hole is dropped, as k_member does: four rows lose both cells.
    let complete = report(&context, &call("(SELECT * FROM published WHERE age LIKE '[%')")).await?;
    complete.check("iloss", Some("age"), 10.0 / 21.0 + 4.0);
    complete.check("iloss", Some("job"), 4.0);
    complete.check("rmr", None, 4.0 / 6.0);
    // A single quasi-identifier is grouped in another way.
    let single =
        report(&context, "utility_report(original, published, quasi_identifiers => [age])");
    let single = single.await?;
    single.check("iloss", None, 10.0 / 21.0 + 1.0);
    single.check("rmr", None, 0.5);
    single.check("vmr", Some("age"), 0.5);
    Ok(())
}
