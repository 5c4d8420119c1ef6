//! Tables at the edge of what a release can be made of.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::Int8Type;
use datafusion::datasource::MemTable;
use datafusion_anonymize::{Family, MethodOption, MethodRef, methods};

use crate::faults::{count, failure, unlimited};

#[tokio::test]
async fn nan_and_infinity_are_refused_where_they_would_be_ordered() {
    let context = unlimited();
    for data_type in ["Float16", "Float32", "Float64"] {
        for (value, message) in [
            ("NaN", "holds NaN"),
            ("Infinity", "holds an infinite number"),
            ("-Infinity", "holds an infinite number"),
        ] {
            let input = format!(
                "SELECT arrow_cast(CASE WHEN value = 3 THEN '{value}'::DOUBLE ELSE value END, '{data_type}') AS a FROM generate_series(1, 9)"
            );
            let sql =
                format!("SELECT * FROM anonymize(({input}), k => 2, quasi_identifiers => ['a'])");
            let error = failure(&context, &sql).await;
            assert!(
                error.starts_with("Execution error: column 'a'") && error.contains(message),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn nan_is_published_where_it_is_only_carried() {
    let context = unlimited();
    let input = "SELECT value AS a, 'NaN'::DOUBLE AS s, '-Infinity'::DOUBLE AS n FROM generate_series(1, 9)";
    let sql = format!(
        "SELECT count(*) FROM anonymize(({input}), k => 2, quasi_identifiers => ['a'], sensitive => ['s'], keep => ['n'])
         WHERE isnan(s) AND n < 0"
    );
    assert_eq!(count(&context, &sql).await.unwrap(), 9);
}

/// The methods that make classes by distance.
fn clusterings() -> impl Iterator<Item = MethodRef> {
    let classes = methods().filter(|method| method.family() == Family::Classes);
    classes.filter(|method| method.takes(MethodOption::Weights))
}

#[tokio::test]
async fn empty_and_tiny_tables_are_refused() {
    let context = unlimited();
    for (rows, batches) in [(0, "WHERE false"), (0, "WHERE value > 5"), (1, "WHERE value = 1")] {
        for method in methods().filter(|method| method.family() == Family::Classes) {
            let input = format!("SELECT value AS a, 'x' AS s FROM generate_series(1, 5) {batches}");
            let sql = format!(
                "SELECT * FROM anonymize(({input}), k => 2, quasi_identifiers => ['a'], sensitive => ['s'], method => '{method}')"
            );
            let expected = format!(
                "Execution error: {rows} rows cannot form a class of k = 2: lower k, or anonymize a larger input"
            );
            assert_eq!(failure(&context, &sql).await, expected);
        }
    }
}

#[tokio::test]
async fn no_rows_are_refused_by_every_method_with_every_kind_of_hierarchy() {
    let context = unlimited();
    let hierarchies = [
        "{a: intervals(5, 10), t: prefixes(2), d: date_steps('year'), b: (SELECT true, '*')}",
        "{a: intervals(5), t: (SELECT 'x', 'y', '*'), d: date_steps('month', 'year'), b: (SELECT true, 'all')}",
    ];
    let input = "SELECT value AS a, 'x' AS t, DATE '2020-02-02' AS d, true AS b, 's' AS s \
                 FROM generate_series(1, 5) WHERE value > 9";
    let roles = "quasi_identifiers => ['a', 't', 'd', 'b'], sensitive => ['s']";
    let mut calls = Vec::new();
    for (method, hierarchies) in methods().flat_map(|method| hierarchies.map(|h| (method, h))) {
        let needed = match method.family() {
            Family::Classes | Family::Constraints => format!("hierarchies => {hierarchies}"),
            Family::Slices => format!("l => 2, hierarchies => {hierarchies}"),
            Family::TwoTables => "alpha => 0.5, publish => 'sensitive'".to_owned(),
        };
        calls.push(format!("k => 2, method => '{method}', {roles}, {needed}"));
    }
    for call in &calls {
        let sql = format!("SELECT * FROM anonymize(({input}), {call})");
        let message = failure(&context, &sql).await;
        assert!(message.starts_with("Execution error: 0 rows cannot form"), "{call}: {message}");
    }
}

#[tokio::test]
async fn no_column_at_all_can_be_selected() {
    let context = unlimited();
    let call = "anonymize((SELECT value AS a FROM generate_series(1, 5000)), k => 2, quasi_identifiers => ['a'])";
    assert_eq!(count(&context, &format!("SELECT count(*) FROM {call}")).await.unwrap(), 5000);
    assert_eq!(count(&context, &format!("SELECT sum(1) FROM {call}")).await.unwrap(), 5000);
    let limited = format!("SELECT count(*) FROM (SELECT 1 FROM {call} LIMIT 4999)");
    assert_eq!(count(&context, &limited).await.unwrap(), 4999);
}

fn wide(columns: usize) -> String {
    let names: Vec<String> = (0..columns).map(|column| format!("'q{column}'")).collect();
    let values: Vec<String> =
        (0..columns).map(|column| format!("value % {} AS q{column}", column % 7 + 2)).collect();
    format!(
        "SELECT count(DISTINCT class_id) FROM anonymize((SELECT {} FROM generate_series(1, 300)), k => 5,
           method => 'rounded', quasi_identifiers => [{}], class_id => true)",
        values.join(", "),
        names.join(", ")
    )
}

#[tokio::test]
async fn sixty_four_quasi_identifiers_are_the_most() {
    let context = unlimited();
    for columns in [1, 2, 31, 32, 33, 63, 64] {
        assert_eq!(count(&context, &wide(columns)).await.unwrap(), 60, "{columns} columns");
    }
    assert_eq!(
        failure(&context, &wide(65)).await,
        "Error during planning: option 'quasi_identifiers': 65 columns are more than the 64 one release can have"
    );
}

#[tokio::test]
async fn very_long_strings_are_values_like_others() {
    let context = unlimited();
    let input = "SELECT repeat('x', 1000000) || (value % 4) AS q, repeat('y', 500000) AS s FROM generate_series(1, 16)";
    let roles = "k => 4, quasi_identifiers => ['q'], sensitive => ['s'], class_id => true";
    let sql =
        |what: &str, more: &str| format!("SELECT {what} FROM anonymize(({input}), {roles}{more})");
    assert_eq!(count(&context, &sql("count(DISTINCT q)", "")).await.unwrap(), 4);
    assert_eq!(
        count(&context, &sql("CAST(max(length(q)) AS BIGINT)", ", method => 'mondrian'"))
            .await
            .unwrap(),
        1_000_001
    );
    assert_eq!(
        count(
            &context,
            &sql("CAST(max(length(q)) AS BIGINT)", ", hierarchies => {q: prefixes(1000000, 5)}")
        )
        .await
        .unwrap(),
        1_000_001
    );
    assert_eq!(
        count(&context, &sql("CAST(sum(length(s)) AS BIGINT)", "")).await.unwrap(),
        8_000_000
    );
}

#[tokio::test]
async fn two_hundred_thousand_distinct_strings_form_classes() {
    let context = unlimited();
    let input = "SELECT 'person ' || value AS q, value % 10 AS s FROM generate_series(1, 200000)";
    for (method, classes) in [("rounded", 200_000 / 97), ("mondrian", 2048)] {
        let sql = format!(
            "SELECT count(*) FROM (SELECT class_id FROM anonymize(({input}), k => 97, quasi_identifiers => ['q'],
               sensitive => ['s'], method => '{method}', class_id => true) GROUP BY class_id HAVING count(*) >= 97)"
        );
        assert_eq!(count(&context, &sql).await.unwrap(), classes, "{method}");
    }
}

/// The distance between the extremes of a float column is infinite.
#[tokio::test]
async fn numbers_as_far_apart_as_floats_go_form_classes() {
    let context = unlimited();
    let input = "SELECT CASE value % 3 WHEN 0 THEN -1.7e308 WHEN 1 THEN 1.7e308 ELSE value * 1e300 END AS a, value % 7 AS b FROM generate_series(1, 90)";
    for method in methods().filter(|method| method.takes(MethodOption::Split)) {
        for split in ["least_loss", "widest"] {
            let sql = format!(
                "SELECT count(*) FROM (SELECT class_id FROM anonymize(({input}), k => 5, quasi_identifiers => ['a', 'b'],
                   method => '{method}', split => '{split}', class_id => true) GROUP BY class_id HAVING count(*) >= 5)"
            );
            let classes = count(&context, &sql).await.unwrap();
            assert!(classes > 1, "{method} {split}: {classes}");
        }
    }
    for method in clusterings() {
        let sql = format!(
            "SELECT count(*) FROM (SELECT class_id FROM anonymize(({input}), k => 5, quasi_identifiers => ['a', 'b'],
               method => '{method}', class_id => true) GROUP BY class_id HAVING count(*) >= 5)"
        );
        let classes = count(&context, &sql).await.unwrap();
        assert!(classes > 1, "{method}: {classes}");
    }
}

/// Sets of many values, a table of equal rows, and blocks smaller than a class can be.
#[tokio::test]
async fn extreme_tables_are_clustered() {
    let context = unlimited();
    for method in clusterings() {
        for (input, classes) in [
            ("SELECT 'person ' || value AS q, value % 3 AS r FROM generate_series(1, 2000)", 40),
            ("SELECT 'same' AS q, 1 AS r FROM generate_series(1, 2000)", 40),
            ("SELECT CAST(NULL AS VARCHAR) AS q, value AS r FROM generate_series(1, 2000)", 40),
        ] {
            // A column that is missing everywhere leaves such a method nothing.
            if method.drops_incomplete_rows() && input.contains("NULL") {
                continue;
            }
            for more in ["", ", block_rows => 1"] {
                let sql = format!(
                    "SELECT count(*) FROM (SELECT class_id FROM anonymize(({input}), k => 50, quasi_identifiers => ['q', 'r'],
                       method => '{method}', class_id => true{more}) GROUP BY class_id HAVING count(*) >= 50)"
                );
                let found = count(&context, &sql).await.unwrap();
                // Merging and dissolving groups makes some classes larger.
                let all = match method.name() {
                    "bottom_up" => 21..=classes,
                    "kaim" => 30..=classes,
                    _ => classes..=classes,
                };
                assert!(all.contains(&found), "{method}{more}: {found} classes of {input}");
            }
        }
    }
}

#[tokio::test]
async fn clusterings_take_sixty_four_quasi_identifiers_and_reports_measure_them() {
    let context = unlimited();
    for method in clusterings() {
        let release = wide(64).replace("'rounded'", &format!("'{method}'"));
        let classes = count(&context, &release).await.unwrap();
        assert!((30..=60).contains(&classes), "{method}: {classes}");
    }
    let report = |columns: usize| {
        let release = wide(columns);
        let at = |text: &str| release.find(text).unwrap();
        let roles = &release[at("quasi_identifiers")..at(", class_id")];
        let original = &release[at("(SELECT")..at(", k =>")];
        format!(
            "SELECT count(*) FROM utility_report({original}, {}, {roles}) WHERE measure = 'rmr' AND value = 0",
            &release[at("anonymize")..]
        )
    };
    for columns in [1, 2, 63] {
        let lines = count(&context, &report(columns)).await.unwrap();
        assert_eq!(lines, columns as i64 + 1);
    }
    assert_eq!(
        failure(&context, &report(64)).await,
        "Error during planning: a report can look at 63 columns at once and these are 64: list fewer columns (bounds count twice)"
    );
}

/// Each batch brings a dictionary of its own; together they have more values than a key can number.
#[tokio::test]
async fn dictionaries_with_small_keys_are_read_as_their_values() {
    let context = unlimited();
    let batch = |number: usize| {
        let texts: Vec<String> = (0..100).map(|row| format!("v{}", number * 100 + row)).collect();
        let coded: DictionaryArray<Int8Type> =
            texts.iter().map(|text| Some(text.as_str())).collect();
        let id: Int64Array = (0..100).map(|row| Some((number * 100 + row) as i64)).collect();
        let columns: [(&str, ArrayRef); 2] = [("coded", Arc::new(coded)), ("id", Arc::new(id))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let batches: Vec<RecordBatch> = (0..10).map(batch).collect();
    let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    context.register_table("coded", Arc::new(table)).unwrap();
    let sql = "SELECT count(DISTINCT coded) FROM anonymize(coded, k => 10, method => 'rounded', quasi_identifiers => ['coded'], sensitive => ['id'])";
    assert_eq!(count(&context, sql).await.unwrap(), 100);
}
