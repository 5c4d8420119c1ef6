//! Sizes, coverage, conservation, and independence of how the input arrives.

use std::collections::{BTreeMap, HashMap};

use datafusion::prelude::SessionContext;
use datafusion_anonymize::MethodOption;
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::invariants::covers::{Cell, covers};
use crate::invariants::people::{
    Original, Person, QUASI_IDENTIFIERS, batch, dealt, originals, people, people_and_order,
};
use crate::invariants::release::{
    PAPER, Published, Request, check_same, methods, published, rows, session, takes,
};
use crate::invariants::wait;
use crate::texts;

/// `PROPTEST_CASES` in the environment asks for more than the usual number.
pub fn cases(usual: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    Config { cases: asked.unwrap_or(usual), failure_persistence: None, ..Config::default() }
}

fn by_class(rows: &[Published]) -> BTreeMap<u64, Vec<&Published>> {
    let mut classes: BTreeMap<u64, Vec<&Published>> = BTreeMap::new();
    rows.iter().for_each(|row| classes.entry(row.class).or_default().push(row));
    classes
}

/// Grouped by what is published, as an outsider does it; and by class, which is stricter.
fn check_sizes(rows: &[Published], request: &Request) {
    let mut tuples: HashMap<String, usize> = HashMap::new();
    rows.iter().for_each(|row| *tuples.entry(format!("{:?}", row.cells)).or_default() += 1);
    assert!(tuples.values().all(|size| *size >= request.k), "a published group below k");
    let classes = by_class(rows);
    for class in classes.values() {
        assert!(class.len() >= request.k, "a class below k");
        assert!(class.iter().all(|row| row.cells == class[0].cells), "a class with two tuples");
    }
    let is_plain = ["", PAPER].contains(&request.more);
    let smallest_possible = ["rounded", "k_member"].contains(&request.method);
    if smallest_possible && is_plain {
        assert_eq!(classes.len(), rows.len() / request.k, "{} makes ⌊n/k⌋ classes", request.method);
    }
    if request.method == "bottom_up" && is_plain {
        assert!(classes.values().all(|class| class.len() < 2 * request.k), "a class is not halved");
    }
}

fn check_coverage(rows: &[Published], originals: &[Vec<Original>], request: &Request) {
    for class in by_class(rows).values() {
        for (column, name) in QUASI_IDENTIFIERS.iter().enumerate() {
            let cell = &class[0].cells[column];
            let values: Vec<&Original> =
                class.iter().map(|row| &originals[column][row.id]).collect();
            let missing = values.iter().filter(|value| value.written.is_none()).count();
            // Bounds and means of a class that has missing cells, or of the top, say nothing.
            if *cell == Cell::Missing && request.ranges != "label" {
                let nested = request.hierarchies && request.ranges == "bounds";
                assert!(
                    missing > 0 || nested,
                    "{name} publishes nothing of a class without missing cells"
                );
                continue;
            }
            let uncovered = values.iter().find(|value| !covers(name, cell, value));
            assert!(
                uncovered.is_none(),
                "{name}: {cell:?} does not cover {uncovered:?} ({request:?})"
            );
            if let Cell::Mean(mean) = cell {
                check_mean(name, *mean, &values);
            }
        }
    }
}

fn check_mean(column: &str, mean: f64, values: &[&Original]) {
    let numbers: Vec<f64> = values.iter().map(|value| value.number.unwrap()).collect();
    let exact = numbers.iter().sum::<f64>() / numbers.len() as f64;
    // A mean date is a whole day; everything else is as exact as a double.
    let slack = if column == "born" { 1.0 } else { 1e-6 };
    assert!((mean - exact).abs() <= slack, "{column}: mean {mean} instead of {exact}");
}

pub fn check_conservation(rows: &[Published], people: &[Person], request: &Request) {
    let mut ids: Vec<usize> = rows.iter().map(|row| row.id).collect();
    ids.sort_unstable();
    let expected = (0..people.len()).filter(|id| request.publishes(&people[*id]));
    assert_eq!(ids, expected.collect::<Vec<_>>(), "rows are neither lost nor doubled");
    for row in rows {
        let person = &people[row.id];
        let disease = person.disease.map(|disease| format!("d{disease}"));
        assert_eq!((&row.disease, row.note), (&disease, i64::from(person.note)));
    }
}

/// Classes leave one after the other; inside a class rows are sorted by what is published as it is.
fn check_order(rows: &[Published]) {
    for pair in rows.windows(2) {
        assert!(pair[0].class <= pair[1].class, "a class is not in one piece");
        if pair[0].class == pair[1].class {
            let key = |row: &Published| (row.disease.clone(), row.note, row.id);
            assert!(key(&pair[0]) < key(&pair[1]), "rows of a class are not sorted");
        }
    }
}

/// The release, `None` where the method drops too many rows to form a class; that must be said.
fn release(
    context: &SessionContext,
    people: &[Person],
    request: &Request,
) -> Option<Vec<Published>> {
    let kept = people.iter().filter(|person| request.publishes(person)).count();
    let outcome = wait(published(context, request));
    if kept >= request.k {
        return Some(outcome.unwrap());
    }
    let message = outcome.unwrap_err().strip_backtrace();
    let said = format!("{kept} of {} rows miss no quasi-identifier", people.len());
    assert!(message.contains(&said), "{message}");
    None
}

fn check_all(people: &[Person], k: usize, hierarchies: bool) {
    let k = k.min(people.len());
    let originals = originals(people);
    let context = session(vec![vec![batch(people)]], 2, 8192);
    for request in Request::all(k, hierarchies) {
        let Some(rows) = release(&context, people, &request) else { continue };
        check_sizes(&rows, &request);
        check_coverage(&rows, &originals, &request);
        check_conservation(&rows, people, &request);
        check_order(&rows);
    }
}

/// Found by chance: a dictionary-encoded column without values has an empty dictionary.
#[test]
fn a_table_of_missing_values_only_is_released() {
    let nobody = Person { cells: [None; 9], disease: None, note: 0 };
    let context = session(vec![vec![batch(&[nobody.clone(), nobody.clone()])]], 2, 8192);
    for hierarchies in [false, true] {
        check_all(&[nobody.clone(), nobody.clone()], 2, hierarchies);
    }
    for roles in ["sensitive => ['town'], t => 1.0", "keep => ['town']"] {
        let sql = format!(
            "SELECT * FROM anonymize((SELECT age, town FROM people), k => 2, \
             quasi_identifiers => ['age'], {roles})"
        );
        assert_eq!(wait(rows(&context, &sql)).unwrap(), ["NULL | NULL", "NULL | NULL"]);
    }
}

fn counts<T: std::hash::Hash + Eq>(values: impl IntoIterator<Item = T>) -> Vec<usize> {
    let mut counts: HashMap<T, usize> = HashMap::new();
    values.into_iter().for_each(|value| *counts.entry(value).or_default() += 1);
    counts.into_values().collect()
}

/// Whether a class whose sensitive values occur that often satisfies the models in `more`.
fn satisfied(counts: &[usize], more: &str) -> bool {
    let rows: usize = counts.iter().sum();
    let shares = || counts.iter().map(|count| *count as f64 / rows as f64);
    let entropy: f64 = -shares().map(|share| share * share.ln()).sum::<f64>();
    let option = |name: &str| {
        let (_, rest) = more.split_once(&format!(", {name} => "))?;
        rest.split(',').next()?.parse::<f64>().ok()
    };
    option("l").is_none_or(|l| counts.len() as f64 >= l)
        && option("alpha").is_none_or(|alpha| shares().all(|share| share <= alpha + 1e-9))
        && option("entropy_l").is_none_or(|l| entropy >= l.ln() - 1e-9)
}

/// Columns of a release, and selections of fewer.
const ALL: [&str; 5] = ["class_id", "age", "town", "zip", "disease"];
const SELECTED: [&[&str]; 4] = [
    &["class_id", "disease"],
    &["class_id", "age", "town", "disease"],
    &["class_id"],
    &["zip", "class_id"],
];

/// Ordered by `id`, so that no column can be dropped from the query.
fn all_columns(context: &SessionContext, request: &Request) -> Vec<Vec<String>> {
    let sql =
        format!("SELECT {} FROM (SELECT * FROM {}) ORDER BY id", ALL.join(", "), request.call());
    let batches = wait(async { context.sql(&sql).await?.collect().await });
    texts(&batches.unwrap(), "NULL")
}

/// Some columns of all, rows sorted.
fn of_all(rows: &[Vec<String>], columns: &[&str]) -> Vec<String> {
    let cells = |row: &Vec<String>| {
        let cell = |name: &&str| row[ALL.iter().position(|other| other == name).unwrap()].as_str();
        columns.iter().map(cell).collect::<Vec<_>>().join(" | ")
    };
    sorted(rows.iter().map(cells).collect())
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(cases(14))]

    #[test]
    fn classes_are_large_enough_and_cover_their_rows(
        people in people(), k in 2usize..7, hierarchies: bool,
    ) {
        check_all(&people, k, hierarchies);
    }

    /// A block holds at least eight classes' worth of rows, so these tables are cut into several.
    #[test]
    fn blocks_keep_the_promises(people in people(), k in 2usize..4, hierarchies: bool) {
        let context = session(vec![vec![batch(&people)]], 2, 8192);
        let originals = originals(&people);
        for method in methods().filter(|method| takes(method, MethodOption::BlockRows)) {
            let more = ", block_rows => 1";
            let k = k.min(people.len());
            let request = Request { method, hierarchies, more, ..Request::new(k) };
            let Some(rows) = release(&context, &people, &request) else { continue };
            check_sizes(&rows, &request);
            check_coverage(&rows, &originals, &request);
            check_conservation(&rows, &people, &request);
        }
    }

    #[test]
    fn models_hold_in_every_class(people in people(), k in 2usize..5) {
        let context = session(vec![vec![batch(&people)]], 2, 8192);
        let all_in_one = |request: &Request| {
            let published = people.iter().filter(|person| request.publishes(person));
            counts(published.map(|person| person.disease))
        };
        for method in methods() {
            for more in [", l => 2", ", alpha => 0.7", ", entropy_l => 1.5", ", l => 2, alpha => 0.8"] {
                let request = Request { method, more, ..Request::new(k.min(people.len())) };
                let kept: usize = all_in_one(&request).iter().sum();
                let rows = match wait(published(&context, &request)) {
                    Ok(rows) => rows,
                    Err(error) => {
                        let withheld = error.strip_backtrace();
                        let reason = match kept < request.k {
                            true => "rows miss no quasi-identifier and cannot form a class",
                            false => "the whole table does not satisfy",
                        };
                        prop_assert!(withheld.contains(reason), "{}", withheld);
                        let all = all_in_one(&request);
                        prop_assert!(kept < request.k || !satisfied(&all, more), "{}", withheld);
                        continue;
                    }
                };
                check_sizes(&rows, &request);
                check_conservation(&rows, &people, &request);
                for class in by_class(&rows).values() {
                    let diseases: Vec<&Option<String>> = class.iter().map(|row| &row.disease).collect();
                    prop_assert!(satisfied(&counts(diseases), more), "{}", more);
                }
            }
        }
    }

    #[test]
    fn shuffled_rebatched_and_repartitioned_input_gives_the_same_release(
        (people, order) in people_and_order(),
        partitions in 1usize..5, rows_per_batch in 1usize..40, threads in 1usize..5,
        batch_size in 1usize..50, hierarchies: bool,
    ) {
        let table = batch(&people);
        let one = session(vec![vec![table.clone()]], 1, 8192);
        let other = session(dealt(&table, &order, partitions, rows_per_batch), threads, batch_size);
        for method in methods() {
            let blocks = [", block_rows => 1", ", block_rows => 1, l => 2"];
            let blocks = if takes(method, MethodOption::BlockRows) { &blocks[..] } else { &[] };
            let paper = if takes(method, MethodOption::Paper) { &[PAPER][..] } else { &[] };
            for more in ["", ", l => 2", ", t => 0.6"].iter().chain(blocks).chain(paper) {
                let k = 3.min(people.len());
                let request = Request { method, hierarchies, more, ..Request::new(k) };
                let sql = format!("SELECT * FROM {}", request.call());
                check_same(&one, &other, &sql);
            }
        }
    }

    #[test]
    fn a_query_of_fewer_columns_sees_the_same_classes(people in people(), k in 2usize..6) {
        let context = session(vec![vec![batch(&people)]], 2, 8192);
        for method in methods() {
            let request = Request { method, ..Request::new(k.min(people.len())) };
            if release(&context, &people, &request).is_none() {
                continue;
            }
            let all = all_columns(&context, &request);
            for columns in SELECTED {
                let few = format!("SELECT {} FROM {}", columns.join(", "), request.call());
                prop_assert_eq!(sorted(wait(rows(&context, &few)).unwrap()), of_all(&all, columns));
            }
        }
    }
}
