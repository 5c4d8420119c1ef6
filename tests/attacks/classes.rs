//! The attacker who links: everybody's quasi-identifiers are known, and the published rows that could be a
//! person's are looked up.

use datafusion_anonymize::{Family, MethodRef};

use crate::attacks::{rows, session};

/// All methods that publish one table of generalized rows.
fn methods() -> impl Iterator<Item = MethodRef> {
    let generalizes =
        |method: &MethodRef| matches!(method.family(), Family::Classes | Family::Constraints);
    datafusion_anonymize::methods().filter(generalizes)
}

const K: usize = 5;
const PEOPLE: &str = "SELECT 18 + i * i * 7 % 71 AS age, CAST(1000 + i * 769 % 613 AS VARCHAR) AS zip,
    CASE WHEN i % 3 = 0 THEN 'M' ELSE 'F' END AS sex, i % 11 AS disease FROM (SELECT unnest(range(0, 1200)) AS i)";
const HIERARCHIES: &str =
    "hierarchies => {age: intervals(2, 4, 8, 16, 32), zip: prefixes(3, 2, 1)},";

/// Whether a published cell may be this value's.
pub(crate) fn covers(cell: &str, value: &str) -> bool {
    let inside = |open, close| cell.strip_prefix(open).and_then(|cell| cell.strip_suffix(close));
    if let Some((low, high)) = inside('[', ']').and_then(|range| range.split_once('-')) {
        let number = |text: &str| text.parse::<i64>().unwrap();
        return (number(low)..=number(high)).contains(&number(value));
    }
    if let Some(set) = inside('{', '}') {
        return set.split(", ").any(|member| member == value);
    }
    match cell.split_once('*') {
        Some((prefix, _)) => value.starts_with(prefix),
        None => cell == value,
    }
}

/// The fewest published rows that could be one person's, and the fewest persons that a published row could be.
async fn fewest(published: &str) -> (usize, usize) {
    let context = session();
    let register = rows(&context, &format!("SELECT age, zip, sex FROM ({PEOPLE})")).await.unwrap();
    let release = rows(&context, &format!("SELECT age, zip, sex FROM {published}")).await.unwrap();
    assert_eq!((register.len(), release.len()), (1200, 1200), "{published}");
    let (mut rows_of, mut persons_of) = (vec![0; register.len()], vec![0; release.len()]);
    for (person, values) in register.iter().enumerate() {
        for (row, cells) in release.iter().enumerate() {
            let mut pairs = cells.iter().flatten().zip(values.iter().flatten());
            if pairs.all(|(cell, value)| covers(cell, value)) {
                rows_of[person] += 1;
                persons_of[row] += 1;
            }
        }
    }
    (rows_of.into_iter().min().unwrap(), persons_of.into_iter().min().unwrap())
}

#[tokio::test]
async fn linking_never_beats_one_in_k() {
    for method in methods() {
        for hierarchies in [HIERARCHIES, ""] {
            // Values climb hierarchies: without one there is nothing between them and `*`.
            if hierarchies.is_empty() && method.needs_hierarchies() {
                continue;
            }
            let (rows, persons) = fewest(&format!(
                "anonymize(({PEOPLE}), k => {K}, method => '{method}', quasi_identifiers => ['age', 'zip', 'sex'],
                   {hierarchies} sensitive => ['disease'], seed => 'the secret of this attack')"
            ))
            .await;
            println!(
                "{method}: nobody is one of fewer than {rows} rows, no row one of fewer than {persons} persons"
            );
            assert!(rows >= K && persons >= K, "{method}: {rows} rows, {persons} persons");
        }
    }
    // The control: who is looked up among the people themselves is found.
    assert_eq!(fewest(&format!("({PEOPLE})")).await, (1, 1));
}
