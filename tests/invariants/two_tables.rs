//! Releases in two tables: sizes, shares, conservation, agreement, and nothing that links them.

use std::collections::{BTreeMap, HashMap};

use datafusion::prelude::SessionContext;
use proptest::prelude::*;

use crate::invariants::people::{Person, batch, dealt, people, people_and_order};
use crate::invariants::promises::cases;
use crate::invariants::release::{check_same, rows, session};
use crate::invariants::wait;

/// Levels of `d0`, `d1`, `d2`, `d3` and of the missing value.
const LEVELS: &str =
    "(SELECT * FROM (VALUES ('d0', 1), ('d1', 1), ('d2', 2), ('d3', 3), (NULL, 3)))";

fn level(disease: &str) -> usize {
    match disease {
        "d0" | "d1" => 1,
        "d2" => 2,
        _ => 3,
    }
}

fn call(k: usize, more: &str, publish: &str) -> String {
    format!(
        "anonymize((SELECT age, town, zip, id, disease FROM people), method => 'alpha_k', k => {k},
           quasi_identifiers => ['age', 'town', 'zip'], keep => ['id'], sensitive => ['disease'],
           suppression_limit => 1, seed => 'a secret', publish => '{publish}'{more})"
    )
}

/// Classes of a table: how often each text occurs in each of them.
type Classes = BTreeMap<u64, HashMap<String, usize>>;

/// The classes of one column of one of the tables.
fn classes(context: &SessionContext, call: &str, column: &str) -> Result<Classes, String> {
    let sql = format!("SELECT class_id, {column} FROM {call}");
    let rows = wait(rows(context, &sql)).map_err(|error| error.strip_backtrace())?;
    let mut classes = Classes::new();
    for row in rows {
        let (class, value) = row.split_once(" | ").unwrap();
        let class = classes.entry(class.parse().unwrap()).or_default();
        *class.entry(value.to_owned()).or_default() += 1;
    }
    Ok(classes)
}

fn size(class: &HashMap<String, usize>) -> usize {
    class.values().sum()
}

/// Whether every value, or every level, keeps its share.
fn keeps_shares(class: &HashMap<String, usize>, alphas: &[f64], by_level: bool) -> bool {
    let rows = size(class) as f64;
    let mut counts: HashMap<String, (usize, usize)> = HashMap::new();
    for (value, count) in class {
        let level = if alphas.len() == 1 { 1 } else { level(value) };
        let bin = if by_level { level.to_string() } else { value.clone() };
        counts.entry(bin).or_insert((level, 0)).1 += count;
    }
    counts.values().all(|(level, count)| *count as f64 / rows <= alphas[level - 1] + 1e-9)
}

fn check(people: &[Person], k: usize, more: &str, alphas: &[f64], by_level: bool) {
    let context = session(vec![vec![batch(people)]], 2, 8192);
    let sensitive = classes(&context, &call(k, more, "sensitive"), "disease");
    let ids = classes(&context, &call(k, more, "quasi_identifiers"), "id");
    let (sensitive, ids) = match (sensitive, ids) {
        (Ok(sensitive), Ok(ids)) => (sensitive, ids),
        (Err(one), Err(other)) => {
            assert_eq!(one, other);
            let known = ["no class of the table's rows", "cannot form a class"];
            assert!(known.iter().any(|message| one.contains(message)), "{one}");
            return;
        }
        (one, other) => panic!("the tables disagree: {:?}, {:?}", one.err(), other.err()),
    };
    let sizes = |classes: &Classes| -> Vec<(u64, usize)> {
        classes.iter().map(|(class, values)| (*class, size(values))).collect()
    };
    assert_eq!(sizes(&sensitive), sizes(&ids), "the tables disagree on the classes");
    for (class, values) in &sensitive {
        assert!(size(values) >= k, "a class below k");
        assert!(keeps_shares(values, alphas, by_level), "a share above alpha");
        // The class of the one table holds the people of the other.
        let mut diseases: HashMap<String, usize> = HashMap::new();
        for id in ids[class].keys() {
            let person = &people[id.parse::<usize>().unwrap()];
            let disease = person.disease.map_or("NULL".to_owned(), |d| format!("d{d}"));
            *diseases.entry(disease).or_default() += 1;
        }
        assert_eq!(&diseases, values);
    }
    let published: Vec<&String> = ids.values().flat_map(HashMap::keys).collect();
    assert!(ids.values().flat_map(HashMap::values).all(|count| *count == 1), "a row twice");
    assert!(published.len() <= people.len());
    // No suppressed row would fit into a class as it is.
    for (id, person) in people.iter().enumerate() {
        if published.contains(&&id.to_string()) {
            continue;
        }
        let disease = person.disease.map_or("NULL".to_owned(), |d| format!("d{d}"));
        for values in sensitive.values() {
            let mut joined = values.clone();
            *joined.entry(disease.clone()).or_default() += 1;
            assert!(!keeps_shares(&joined, alphas, by_level), "a row is suppressed that fits");
        }
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn classes_keep_k_and_their_shares_and_the_tables_agree(people in people(), k in 2usize..6) {
        check(&people, k, ", alpha => 0.5", &[0.5], false);
        check(&people, k, ", alpha => 0.34", &[0.34], false);
        check(&people, k, ", alpha => 0.5, variant => 'paper'", &[0.5], false);
        let graded = format!(", alpha => [0.3, 0.5, 0.7], sensitivity => {LEVELS}");
        check(&people, k, &graded, &[0.3, 0.5, 0.7], false);
        let by_level = format!("{graded}, alpha_scope => 'level'");
        check(&people, k, &by_level, &[0.3, 0.5, 0.7], true);
    }

    #[test]
    fn both_tables_depend_neither_on_order_nor_on_threads(
        (people, order) in people_and_order(),
        partitions in 1usize..5, rows_per_batch in 1usize..40, threads in 1usize..5,
    ) {
        let table = batch(&people);
        let one = session(vec![vec![table.clone()]], 1, 8192);
        let other = session(dealt(&table, &order, partitions, rows_per_batch), threads, 17);
        let tables = ["quasi_identifiers", "sensitive"];
        for (publish, variant) in tables.into_iter().flat_map(|t| [(t, "best"), (t, "paper")]) {
            let more = format!(", alpha => 0.5, variant => '{variant}'");
            let sql = format!("SELECT * FROM {}", call(3, &more, publish));
            check_same(&one, &other, &sql);
        }
    }
}

/// The value that follows from an age. In every ten ages each value occurs once, and sorting by the one
/// does not sort by the other.
fn linked_disease(age: u16) -> u16 {
    (7 * (age % 10) + 3 * (age / 10)) % 10
}

/// Ages 0 to 999, each with the value that follows from it.
fn linked() -> Vec<Person> {
    let person = |age: u16| {
        let mut cells = [Some(0); 9];
        cells[0] = Some(age);
        Person { cells, disease: Some(linked_disease(age)), note: 0 }
    };
    (0..1000).map(person).collect()
}

/// Of the rows of a class, how often the n-th row of the one table belongs to the n-th of the other,
/// if each is read through an expression that hides what the other rows could be sorted by.
#[test]
fn positions_of_the_tables_tell_nothing_about_each_other() {
    let people = linked();
    let context = session(vec![vec![batch(&people)]], 2, 8192);
    let mut hits = 0;
    for seed in 0..6 {
        let read = |column: &str, publish: &str| {
            let call = call(10, ", alpha => 0.1", publish).replace("'a secret'", &seed.to_string());
            wait(rows(&context, &format!("SELECT {column} FROM {call}"))).unwrap()
        };
        for (age, disease) in [
            ("age", "disease"),
            ("concat(age, '')", "concat(disease, '')"),
            ("concat(age, '')", "disease"),
            ("age", "concat(disease, '')"),
        ] {
            let (ages, diseases) = (read(age, "quasi_identifiers"), read(disease, "sensitive"));
            assert_eq!((ages.len(), diseases.len()), (1000, 1000));
            let belongs = |(age, disease): (&String, &String)| {
                // Ages are written five lower.
                let age = (age.parse::<i32>().unwrap() + 5) as u16;
                disease[1..].parse::<u16>().unwrap() == linked_disease(age)
            };
            hits += ages.iter().zip(&diseases).filter(|pair| belongs(*pair)).count();
        }
    }
    // Every class holds the ten values once: by chance one row in ten fits, 2400 of 24 000.
    assert!((2000..2800).contains(&hits), "{hits} of 24000 rows fit their positions");
}

/// In a class with one rare value, which place in the order of the quasi-identifiers its row has: with
/// rows taken in that order it is always the same one.
fn places_of_the_rare_value(more: &str) -> Vec<usize> {
    let mut people = linked();
    for (at, person) in people.iter_mut().enumerate() {
        person.disease = Some(if at % 50 == 7 { 0 } else { 1 + at as u16 % 3 });
    }
    let context = session(vec![vec![batch(&people)]], 2, 8192);
    let more = format!(", alpha => 0.4{more}");
    let ids = classes(&context, &call(5, &more, "quasi_identifiers"), "id").unwrap();
    let mut places = vec![0; 5];
    for class in ids.values() {
        let mut ids: Vec<usize> = class.keys().map(|id| id.parse().unwrap()).collect();
        ids.sort_unstable();
        let rare: Vec<usize> =
            (0..ids.len()).filter(|at| people[ids[*at]].disease == Some(0)).collect();
        if let [place] = rare[..] {
            places[place.min(4)] += 1;
        }
    }
    places
}

#[test]
fn mixed_classes_do_not_tell_who_has_the_rare_value() {
    // Twenty rows with the rare value, each in a class of its own.
    let mixed = places_of_the_rare_value("");
    assert_eq!(mixed.iter().sum::<usize>(), 20, "{mixed:?}");
    assert!(mixed.iter().all(|rows| *rows <= 12), "{mixed:?}");
}

/// Class numbers do not follow the quasi-identifiers: a method that numbers classes as it makes them
/// would.
#[test]
fn class_numbers_do_not_follow_the_rows() {
    let people = linked();
    let context = session(vec![vec![batch(&people)]], 2, 8192);
    let ids = classes(&context, &call(10, ", alpha => 0.1", "quasi_identifiers"), "id").unwrap();
    let smallest: Vec<usize> = (ids.values())
        .map(|ids| ids.keys().map(|id| id.parse::<usize>().unwrap()).min().unwrap())
        .collect();
    let rising = smallest.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((25..75).contains(&rising), "{rising} of 99 classes follow the one before");
}
