//! A reader of the manifest looks for the range of a column whose smallest and largest values are hidden.
//!
//! A cell that lost `ncp` of a range R lost `(ncp · R + 1) / (R + 1)` by `iloss`, which counts values instead of steps.
//! `ncp` and `iloss_rate` are told as means over the N cells of a column, of which g are generalized, as everybody can
//! count, and `iloss` as the sum:
//!
//! ```text
//! R = (g / N − iloss_rate) / (iloss_rate − ncp)
//! ```

use anonymize_release::manifest::Manifest;
use anonymize_release::{RunOptions, run};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Float64Type;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::round_to_three_digits;
use tempfile::tempdir;

use crate::Draft;

const PEOPLE: &str = "SELECT 17 + value * 31 % 74 AS age, value * 7919 % 87654 AS salary, 'd' || (value % 7) AS disease
  FROM generate_series(0, 1999)";

const OPTIONS: &str = r#"
k = 10
quasi_identifiers = ["age", "salary"]
sensitive = ["disease"]
seed = "the secret of this attack"
hierarchies = { age = { intervals = [5, 10, 20] }, salary = { intervals = [1000, 10000, 50000] } }
"#;

/// The range that solves both equations.
fn range(generalized: f64, ncp: f64, iloss: f64) -> f64 {
    (generalized - iloss) / (iloss - ncp)
}

/// The smallest and the largest value of which three digits are told.
fn ends(told: f64) -> (f64, f64) {
    let half = 10f64.powf(told.abs().log10().floor() - 2.0) / 2.0;
    (told - half, told + half)
}

/// The ranges that fit figures of which three digits are told.
fn ranges(generalized: f64, ncp: (f64, f64), iloss: (f64, f64)) -> (f64, f64) {
    // A loss by values is never less than one by steps.
    let of = |ncp, iloss| if iloss > ncp { range(generalized, ncp, iloss) } else { f64::INFINITY };
    (of(ncp.0, iloss.1), of(ncp.1, iloss.0))
}

fn measure(manifest: &Manifest, name: &str, column: &str) -> f64 {
    let is_it = |m: &&anonymize_release::manifest::Measure| {
        m.measure == name && m.column.as_deref() == Some(column)
    };
    manifest.measures.iter().find(is_it).unwrap().value.unwrap()
}

async fn number(context: &SessionContext, sql: &str) -> f64 {
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    batches[0].column(0).as_primitive::<Float64Type>().value(0)
}

#[tokio::test]
async fn a_manifest_does_not_give_the_range_of_a_column() {
    let directory = tempdir().unwrap();
    let draft = Draft { query: PEOPLE, anonymize: OPTIONS, ..Draft::new("out") };
    let job = draft.job(directory.path()).unwrap();
    let manifest = run(&job, &SessionContext::new(), RunOptions::default()).await.unwrap().manifest;
    let context = SessionContext::new();
    datafusion_anonymize::register_all(&context).unwrap();
    let table = directory.path().join("out").join(&manifest.tables[0].location);
    let table = format!("{}/", table.display());
    context.register_parquet("published", &table, Default::default()).await.unwrap();
    let mut checked = 0;
    for (column, steps, fewest) in
        [("age", "5, 10, 20", 1.0), ("salary", "1000, 10000, 50000", 10_000.0)]
    {
        let generalized = number(
            &context,
            &format!("SELECT avg(CASE WHEN {column} LIKE '[%' OR {column} = '*' THEN 1.0 ELSE 0.0 END) FROM published"),
        )
        .await;
        let truth = number(
            &context,
            &format!("SELECT arrow_cast(max({column}) - min({column}), 'Float64') FROM ({PEOPLE})"),
        )
        .await;
        // The control: the owner's report, which has all digits.
        let exact = async |name: &str| {
            let report = format!(
                "SELECT value FROM utility_report(({PEOPLE}), published, quasi_identifiers => ['{column}'],
                   hierarchies => {{{column}: intervals({steps})}})
                 WHERE measure = '{name}' AND column_name = '{column}'"
            );
            number(&context, &report).await
        };
        let found = range(generalized, exact("ncp").await, exact("iloss_rate").await);
        assert!((found - truth).abs() < 0.01, "the attack does not work: {found} for {truth}");
        let rows = manifest.counts.rows_published as f64;
        let ncp = ends(measure(&manifest, "ncp", column));
        let by_rate = ends(measure(&manifest, "iloss_rate", column));
        let by_sum = ends(measure(&manifest, "iloss", column));
        let iloss = (by_rate.0.max(by_sum.0 / rows), by_rate.1.min(by_sum.1 / rows));
        let (low, high) = ranges(generalized, ncp, iloss);
        println!("{column}: range {truth}, by all digits {found}, by the manifest {low} to {high}");
        assert!((low..=high).contains(&truth), "the rounding is not what it seems");
        assert!(high - low >= fewest, "{column}: {low} to {high}");
        checked += 1;
    }
    assert_eq!(checked, 2);
    let text = manifest.to_json().unwrap();
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let figures: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
    let figures: Vec<f64> = figures.into_iter().filter(|figure| figure.fract() != 0.0).collect();
    assert!(figures.len() > 10);
    for figure in figures {
        assert_eq!(figure, round_to_three_digits(figure));
    }
}
