//! A reader of the manifest looks for the range of a column whose smallest and largest values are hidden.
//!
//! A cell that lost `ncp` of a range R lost `(ncp · R + 1) / (R + 1)` by `iloss`, which counts values instead of steps.
//! Both are told as means over the N cells of a column, of which g are generalized, as everybody can count:
//!
//! ```text
//! R = (g / N − iloss) / (iloss − ncp)
//! ```

use anonymize_release::manifest::Manifest;
use anonymize_release::{RunOptions, run};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Float64Type;
use datafusion::prelude::SessionContext;
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

/// The ranges that fit figures of which three digits are known.
fn ranges(generalized: f64, ncp: f64, iloss: f64) -> (f64, f64) {
    let half = |value: f64| 10f64.powf(value.abs().log10().floor() - 2.0) / 2.0;
    let ends = [(-1.0, 1.0), (1.0, -1.0)].map(|(one, other)| {
        let (ncp, iloss) = (ncp + one * half(ncp), iloss + other * half(iloss));
        // A loss by values is never less than one by steps.
        if iloss > ncp { range(generalized, ncp, iloss) } else { f64::INFINITY }
    });
    (ends[0], ends[1])
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
        [("age", "5, 10, 20", 5.0), ("salary", "1000, 10000, 50000", 10_000.0)]
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
        let found = range(generalized, exact("ncp").await, exact("iloss").await);
        assert!((found - truth).abs() < 0.01, "the attack does not work: {found} for {truth}");
        let (ncp, iloss) = (measure(&manifest, "ncp", column), measure(&manifest, "iloss", column));
        let (low, high) = ranges(generalized, ncp, iloss);
        println!("{column}: range {truth}, by all digits {found}, by the manifest {low} to {high}");
        assert!(
            (low.min(high)..=low.max(high)).contains(&truth),
            "the rounding is not what it seems"
        );
        assert!((high - low).abs() >= fewest, "{column}: {low} to {high}");
        checked += 1;
    }
    assert_eq!(checked, 2);
    let text = manifest.to_json().unwrap();
    let longest =
        text.split(|c: char| !c.is_ascii_digit() && c != '.').filter(|word| word.contains('.'));
    let longest = longest.map(|word| word.trim_matches(['0', '.']).len()).max().unwrap();
    assert!(longest <= 4, "a figure of {longest} characters");
}
