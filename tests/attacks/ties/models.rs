//! What an order by value costs: it puts rows of one value into one class, which models then forbid.

use std::collections::BTreeMap;

use datafusion::prelude::{CsvReadOptions, SessionContext};
use datafusion_anonymize::pure::hierarchy::Axis;
use datafusion_anonymize::pure::model::{Model, Requirement, RowKeys, SensitiveColumn, Store};

use super::{Direct, K, Table, by_value, mixed};
use crate::adult;
use crate::attacks::{rows, session};

/// Quasi-identifiers and the sensitive value of every person, in codes.
type People<const D: usize> = (Vec<[u32; D]>, Vec<u32>);

/// Codes of the columns of a query, the sensitive one last: ranks of their texts.
async fn people<const D: usize>(context: &SessionContext, sql: &str) -> People<D> {
    let mut texts = rows(context, sql).await.unwrap();
    // Random ties are drawn by position, and a scan gives rows in any order.
    texts.sort_unstable();
    let codes_of = |at: usize| -> Vec<u32> {
        let mut codes: BTreeMap<&Option<String>, u32> = BTreeMap::new();
        texts.iter().for_each(|row| {
            codes.insert(&row[at], 0);
        });
        codes.values_mut().zip(0..).for_each(|(code, rank)| *code = rank);
        texts.iter().map(|row| codes[&row[at]]).collect()
    };
    let columns: Vec<Vec<u32>> = (0..=D).map(codes_of).collect();
    let tuple = |row: usize| std::array::from_fn(|at| columns[at][row]);
    ((0..texts.len()).map(tuple).collect(), columns[D].clone())
}

/// Classes under a model, by how ties are broken; means over some draws.
#[derive(Debug)]
struct Counts {
    by_value: f64,
    ours: f64,
    random: f64,
    /// The standard error of the difference of the two means.
    error: f64,
}

fn count<const D: usize>(
    (codes, values): &People<D>,
    axes: &[Axis],
    (method, model): (Direct, &Model),
    draws: u64,
) -> Counts {
    let requirement = Requirement { k: K, models: vec![model.clone()] };
    let cardinality = values.iter().max().map_or(0, |largest| largest + 1);
    let sensitive = [SensitiveColumn {
        name: "occupation".to_owned(),
        codes: values.iter().copied().collect(),
        cardinality,
        ordered: false,
    }];
    let table = Table { codes, axes, requirement: &requirement, sensitive: &sensitive };
    let values: Vec<u64> = values.iter().map(|value| u64::from(*value)).collect();
    let random = |draw: u64| RowKeys {
        ties: (0..values.len() as u64).map(|row| mixed(row << 8 | draw)).collect(),
        kept: Store::default(),
    };
    let classes = |keys: &RowKeys| {
        let largest = table.classes(method, keys).into_iter().max();
        largest.map_or(0.0, |class| class as f64 + 1.0)
    };
    let all = |keys: &dyn Fn(u64) -> RowKeys| -> Vec<f64> {
        (0..draws).map(|draw| classes(&keys(draw))).collect()
    };
    let ours = all(&|draw| table.keys(&values, &draw.to_string()));
    let random = all(&random);
    let mean = |counts: &[f64]| counts.iter().sum::<f64>() / draws as f64;
    let spread = |counts: &[f64]| {
        counts.iter().map(|count| (count - mean(counts)).powi(2)).sum::<f64>() / (draws - 1) as f64
    };
    Counts {
        by_value: classes(&by_value(&values)),
        ours: mean(&ours),
        random: mean(&random),
        error: ((spread(&ours) + spread(&random)) / draws as f64).sqrt(),
    }
}

/// A single draw moves the number of classes by some percent in a small table, and by one in Adult.
fn compare<const D: usize>(name: &str, people: &People<D>, draws: u64) {
    let models = [
        ("l => 3", Model::Distinct { column: 0, at_least: 3, unit: false }),
        ("alpha => 0.4", Model::Share { column: 0, alpha: 0.4 }),
    ];
    // The first is a number, the others are texts without a hierarchy.
    let codes = |at: usize| people.0.iter().map(|row| row[at]).max().unwrap_or(0) + 1;
    let numbers: Vec<f64> = (0..codes(0)).map(f64::from).collect();
    let texts = (1..D).map(|at| Axis::set(codes(at) as usize, false));
    let axes: Vec<Axis> = std::iter::once(Axis::line(&numbers, false)).chain(texts).collect();
    for method in [Direct::Rounded, Direct::Layered] {
        for (option, model) in &models {
            let counts = count(people, &axes, (method, model), draws);
            println!("{name}, {method:?}, {option}: {counts:?}");
            let least = (counts.random - 3.0 * counts.error).min(0.99 * counts.random);
            assert!(counts.ours >= least, "{method:?} {option}: {counts:?}");
            // The control: an order that is made of values is found out.
            assert!(counts.by_value < 0.98 * counts.random, "{method:?} {option}: {counts:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_keep_the_classes_of_random_ties() {
    // Few tuples of many rows.
    let sql =
        "SELECT age / 10 AS age, sex, race, occupation FROM sample_census(rows => 6000, seed => 3)";
    compare("sample_census", &people::<3>(&session(), sql).await, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn models_keep_the_classes_of_random_ties_on_adult() {
    let Some(directory) = adult("models_keep_the_classes_of_random_ties_on_adult") else { return };
    let context = session();
    let options = CsvReadOptions::new().delimiter(b';');
    let file = directory.join("adult.csv").display().to_string();
    context.register_csv("adult", file, options).await.unwrap();
    let sql = r#"SELECT age, sex, race, "marital-status", education, "native-country", workclass, "salary-class",
        occupation FROM adult"#;
    let people = people::<8>(&context, sql).await;
    assert_eq!(people.0.len(), 30_162);
    compare("adult", &people, 12);
}
