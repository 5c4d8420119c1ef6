//! The attacker who looks for the people behind `*`: everybody's quasi-identifiers are known, so the method
//! can be run again under other seeds, and whoever is suppressed every time is among the rows of `*`.

use std::collections::{BTreeSet, HashMap};

use datafusion::prelude::SessionContext;
use datafusion_anonymize::Family;

use crate::attacks::{rows, session};

fn methods() -> impl Iterator<Item = &'static str> {
    let all = datafusion_anonymize::methods();
    all.filter(|method| method.family() == Family::Constraints).map(|method| method.name())
}

const K: usize = 10;
const COLUMNS: [&str; 4] = ["age", "sex", "education", "zip"];
const TABLES: usize = 10;

/// Columns, by their positions, that one recipient can link by, and k. `age` links the first two.
const LINKED: [(&[usize], usize); 3] = [(&[0, 1], K), (&[0, 2], 8), (&[3], 5)];
/// The same, each apart from the others.
const APART: [(&[usize], usize); 3] = [(&[0, 1], K), (&[2], 8), (&[3], 5)];

fn constraints(method: &str) -> &'static [(&'static [usize], usize)] {
    match method {
        "classfly" => &LINKED[..1],
        // With constraints that share a column, whole columns climb until nothing is left to suppress.
        "datafly" => &APART,
        _ => &LINKED,
    }
}

/// Makes a small table, of another size for every number, in which rows have a number of their own: a
/// person of the census may own several.
async fn make_table(context: &SessionContext, table: usize) {
    let sql = format!(
        "CREATE TABLE people_{table} AS SELECT row_number() OVER () AS id, age, sex, education, zip, occupation
         FROM sample_census(rows => {}, seed => {table})",
        200 + 20 * (table % 20)
    );
    context.sql(&sql).await.unwrap().collect().await.unwrap();
}

/// A release of a small table: the number of every row, and what is published of it.
async fn release(
    context: &SessionContext,
    (method, table): (&str, usize),
    (variant, seed): (&str, &str),
) -> Vec<(String, Vec<String>)> {
    let constraints = constraints(method);
    let used = |column: &usize| constraints.iter().any(|(columns, _)| columns.contains(column));
    let columns: Vec<&str> = (0..4).filter(used).map(|column| COLUMNS[column]).collect();
    let written = constraints.iter().map(|(columns, k)| {
        let names: Vec<&str> = columns.iter().map(|column| COLUMNS[*column]).collect();
        format!("{{columns: ['{}'], k: {k}}}", names.join("', '"))
    });
    let zip = if columns.contains(&"zip") { ", zip: prefixes(3, 2)" } else { "" };
    let hierarchies = format!("hierarchies => {{age: intervals(2, 4, 8, 16, 32){zip}}}");
    let columns = columns.join(", ");
    let sql = format!(
        "SELECT id, {columns} FROM anonymize((SELECT id, {columns}, occupation FROM people_{table}),
           method => '{method}', constraints => [{}], keep => ['id'], sensitive => ['occupation'], {hierarchies},
           suppression_limit => 1, variant => '{variant}', seed => '{seed}')",
        written.collect::<Vec<String>>().join(", ")
    );
    let text = |cell: Option<String>| cell.unwrap_or_else(|| "NULL".to_owned());
    let published = rows(context, &sql).await.unwrap().into_iter().map(|row| {
        let mut cells = row.into_iter().map(text);
        (cells.next().unwrap(), cells.collect())
    });
    published.collect()
}

/// The people whose age and sex are suppressed.
fn starred(release: &[(String, Vec<String>)]) -> BTreeSet<&str> {
    let is_starred = |cells: &[String]| cells[..2].iter().all(|cell| cell == "*");
    release.iter().filter(|(_, cells)| is_starred(cells)).map(|(id, _)| id.as_str()).collect()
}

/// The best chance, over some tables, to find the row of a person who is known to be among the stars, and
/// the tables that have such people.
async fn best_chance(method: &str, variant: &str) -> (f64, usize) {
    let context = session();
    let (mut best, mut tables) = (0.0f64, 0);
    for table in 0..TABLES {
        make_table(&context, table).await;
        let published =
            release(&context, (method, table), (variant, "the secret of the release")).await;
        let mut known: Option<BTreeSet<String>> = None;
        for guess in ["one guess", "another guess", "a third guess"] {
            let again = release(&context, (method, table), (variant, guess)).await;
            let found: BTreeSet<String> = starred(&again).into_iter().map(str::to_owned).collect();
            known = Some(known.map_or(found.clone(), |known| &known & &found));
        }
        let stars = starred(&published);
        let known = known.unwrap();
        let right = known.iter().filter(|id| stars.contains(id.as_str())).count();
        // Whoever is suppressed under every guess is mostly suppressed under the secret seed too.
        assert!(right * 2 >= known.len(), "{method}: {right} of {}", known.len());
        if right > 0 {
            tables += 1;
            best = best.max(1.0 / stars.len() as f64);
        }
    }
    (best, tables)
}

#[tokio::test]
async fn who_is_suppressed_is_known_and_hides_among_k() {
    let mut controls = 0;
    for method in methods() {
        let (chance, tables) = best_chance(method, "best").await;
        let (control, of) = best_chance(method, "paper").await;
        println!(
            "{method}: somebody is known to be suppressed in {tables} of {TABLES} tables, found with {chance:.3}; \
             as printed in {of}, {control:.3}"
        );
        assert!(tables > 0 && chance <= 1.0 / K as f64, "{method}: {chance} in {tables}");
        controls += usize::from(control > 1.0 / K as f64);
    }
    assert_eq!(controls, methods().count(), "the attack works on few rows of *");
}

#[tokio::test]
async fn every_published_tuple_occurs_k_times() {
    for method in methods() {
        let context = session();
        let mut with_stars = 0;
        for table in 100..100 + 3 * TABLES {
            make_table(&context, table).await;
            let published =
                release(&context, (method, table), ("best", "the secret of the release")).await;
            for (columns, k) in constraints(method) {
                let mut tuples: HashMap<Vec<&str>, usize> = HashMap::new();
                for (_, cells) in &published {
                    let tuple = columns.iter().map(|column| cells[*column].as_str()).collect();
                    *tuples.entry(tuple).or_default() += 1;
                }
                let least = tuples.values().min().unwrap();
                assert!(least >= k, "{method}, table {table}: {least} rows of {columns:?}");
            }
            with_stars += usize::from(!starred(&published).is_empty());
        }
        println!("{method}: {with_stars} of {} releases have suppressed rows", 3 * TABLES);
        assert!(with_stars > 2, "{method}: {with_stars}");
    }
}
