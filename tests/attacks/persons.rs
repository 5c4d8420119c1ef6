//! The attacker who knows that a person owns many rows: inside the person's class, a row drawn at random is
//! theirs with the share that they hold.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use datafusion::error::Result;
use datafusion_anonymize::MethodOption;

use crate::attacks::{rows, session};

/// All methods that count persons.
fn methods() -> impl Iterator<Item = &'static str> {
    let all = datafusion_anonymize::methods();
    all.filter(|method| method.takes(MethodOption::PrivacyUnit)).map(|method| method.name())
}

const K: usize = 5;

/// Person by class of every row.
type Released = BTreeMap<String, Vec<String>>;

async fn release(method: &str, table: &str, more: &str) -> Result<Released> {
    let sql = format!(
        "SELECT class_id, who FROM anonymize(({table}), k => {K}, method => '{method}', privacy_unit => 'person',
           quasi_identifiers => ['age', 'zip'], sensitive => ['disease'], keep => ['who'], class_id => true,
           hierarchies => {{age: intervals(5, 10, 50), zip: prefixes(2, 1)}}, seed => 'the secret of the release'{more})"
    );
    let mut classes = Released::new();
    for row in rows(&session(), &sql).await? {
        let mut cells = row.into_iter().map(Option::unwrap);
        classes.entry(cells.next().unwrap()).or_default().push(cells.next().unwrap());
    }
    Ok(classes)
}

/// The largest share of a class that one person holds, and the fewest persons of a class.
fn largest_share(classes: &Released) -> (f64, usize) {
    let (mut largest, mut fewest) = (0.0f64, usize::MAX);
    for class in classes.values() {
        let mut of: HashMap<&str, usize> = HashMap::new();
        class.iter().for_each(|who| *of.entry(who).or_default() += 1);
        let most = of.values().max().copied().unwrap_or(0);
        largest = largest.max(most as f64 / class.len() as f64);
        fewest = fewest.min(of.len());
    }
    (largest, fewest)
}

/// 600 rows, of which one person has 160 of one age and zip.
const ONE_OWNS_MANY: &str = "SELECT person, person AS who, age, zip, disease FROM (
    SELECT CASE WHEN i < 160 THEN 0 ELSE i END AS person, CASE WHEN i < 160 THEN 78 ELSE 20 + i * 7 % 60 END AS age,
      CASE WHEN i < 160 THEN '123' ELSE CAST(100 + i * 13 % 90 AS VARCHAR) END AS zip, 'd' || (i % 7) AS disease
    FROM (SELECT unnest(range(0, 600)) AS i))";

#[tokio::test]
async fn one_person_holds_no_more_than_the_share_of_a_class() {
    let (mut controls, mut most) = (0, 0.0f64);
    for method in methods() {
        let (without, _) = largest_share(&release(method, ONE_OWNS_MANY, "").await.unwrap());
        let bounded = release(method, ONE_OWNS_MANY, ", unit_share => 0.5").await.unwrap();
        let (with, fewest) = largest_share(&bounded);
        println!(
            "{method}: one person holds {without:.3} of a class, with unit_share => 0.5 {with:.3}; {} classes",
            bounded.len()
        );
        assert!(with <= 0.5 && fewest >= K, "{method}: {with} of {fewest} persons");
        assert!(bounded.len() > 1, "{method}");
        controls += usize::from(without > 0.6);
        most = most.max(without);
    }
    assert!(controls >= 4 && most > 0.9, "{controls} methods without a bound, at most {most}");
}

/// A table of some persons with up to `most` rows each, few or many of them alike.
fn random_table(seed: usize, persons: usize, most: usize) -> String {
    let number = |salt: usize, below: usize| {
        format!(
            "abs((i * 7919 + {seed} * 104729 + {salt} * 1299709) * 2654435761 % 1000003) % {below}"
        )
    };
    let ages = [3, 20, 60][seed % 3];
    format!(
        "SELECT person, person AS who, age, zip, disease FROM (
           SELECT i % {persons} AS person, 20 + {} AS age, CAST(100 + {} AS VARCHAR) AS zip, 'd' || ({}) AS disease,
             i / {persons} AS row, 1 + i % {persons} * 31 % {most} AS owned FROM (SELECT unnest(range(0, {})) AS i))
         WHERE row < owned",
        number(1, ages),
        number(2, 40),
        number(3, 5),
        persons * most
    )
}

#[tokio::test]
async fn every_method_keeps_every_share() {
    let (mut released, mut refused) = (0, 0);
    for seed in 0..8 {
        let table = random_table(seed, 60 + 25 * seed, 1 + 3 * (seed % 4));
        let share = [0.1, 0.2, 0.35, 0.5][seed % 4];
        for method in methods() {
            // A method may refuse a table that cannot keep the share, and must not publish more than it.
            match release(method, &table, &format!(", unit_share => {share}")).await {
                Ok(classes) => {
                    let (largest, fewest) = largest_share(&classes);
                    assert!(largest <= share + 1e-9, "{method}, table {seed}: {largest} > {share}");
                    assert!(fewest >= K, "{method}, table {seed}: {fewest}");
                    released += classes.len();
                }
                Err(error) => {
                    let error = error.strip_backtrace();
                    assert!(error.contains("unit_share"), "{method}, table {seed}: {error}");
                    refused += 1;
                }
            }
        }
    }
    println!("{released} classes, {refused} refused");
    assert!(released > 300 && refused < 8, "{released} {refused}");
}

/// Every one of 200 persons has three rows, all of one age and zip; there are four such pairs.
const THREE_EACH: &str = "SELECT person, person AS who, 20 + 10 * (person % 2) AS age,
      CASE WHEN person % 4 < 2 THEN '123' ELSE '145' END AS zip, 'd' || (i % 6) AS disease
    FROM (SELECT i, i % 200 AS person FROM (SELECT unnest(range(0, 600)) AS i))";

#[tokio::test]
async fn rows_of_a_person_with_equal_quasi_identifiers_stay_together() {
    for method in methods() {
        let classes = release(method, THREE_EACH, "").await.unwrap();
        let mut classes_of: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for (class, persons) in &classes {
            persons.iter().for_each(|who| {
                classes_of.entry(who).or_default().insert(class);
            });
        }
        assert_eq!(classes_of.len(), 200);
        let split = classes_of.values().filter(|classes| classes.len() > 1).count();
        println!("{method}: {split} of 200 persons in several of {} classes", classes.len());
        // At most one person is split at every border between two classes.
        assert!(split < classes.len(), "{method}: {split} with {} classes", classes.len());
    }
}

#[tokio::test]
async fn the_largest_share_is_told_in_explain_analyze() {
    for (setting, split) in [("", true), ("SET anonymize.cells = 2", false)] {
        let context = session();
        if !setting.is_empty() {
            context.sql(setting).await.unwrap().collect().await.unwrap();
        }
        let sql = format!(
            "EXPLAIN ANALYZE SELECT * FROM anonymize(({ONE_OWNS_MANY}), k => {K}, method => 'rounded',
               privacy_unit => 'person', quasi_identifiers => ['age', 'zip'], sensitive => ['disease'],
               keep => ['who'], unit_share => 0.5, seed => 'the secret of the release')"
        );
        let text = rows(&context, &sql).await.unwrap();
        let text: String = text.into_iter().flatten().flatten().collect();
        let told = |name: &str| {
            let behind = text.split(&format!(" {name}=")).nth(1)?;
            let number: String =
                behind.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            number.parse::<f64>().ok()
        };
        let share = told("unit_share").filter(|share| *share <= 0.5);
        assert!(share.is_some_and(|share| share > 0.3), "{text}");
        assert_eq!(told("split_persons").is_some(), split, "{text}");
    }
}
