//! Sliced releases: buckets, exact values, diversity, and nothing that puts rows together again.

use std::collections::{BTreeMap, HashMap};

use datafusion_anonymize::Family;
use proptest::prelude::*;

use crate::invariants::covers::{Cell, covers};
use crate::invariants::people::{
    Person, QUASI_IDENTIFIERS, batch, dealt, originals, people, people_and_order,
};
use crate::invariants::promises::cases;
use crate::invariants::release::{
    HIERARCHIES, PAPER, Published, check_same, methods_of, published_by, registered, rows, session,
};
use crate::invariants::wait;

fn methods() -> impl Iterator<Item = &'static str> {
    methods_of(Family::Slices).map(|method| method.name())
}

/// A call whose bucket is named as the class of other releases.
fn call(method: &str, k: usize, l: usize, more: &str) -> String {
    let quoted = QUASI_IDENTIFIERS.map(|name| format!("'{name}'")).join(", ");
    let limit = if registered(method).suppresses() { ", suppression_limit => 1" } else { "" };
    format!(
        "(SELECT *, bucket_id AS class_id FROM anonymize(people, method => '{method}', k => {k}, l => {l},
           quasi_identifiers => [{quoted}], sensitive => ['disease'], keep => ['note', 'id'],
           bucket_id => true, seed => 'a secret'{limit}{more}))"
    )
}

fn buckets(published: Vec<Published>) -> BTreeMap<u64, Vec<Published>> {
    let mut buckets: BTreeMap<u64, Vec<Published>> = BTreeMap::new();
    published.into_iter().for_each(|row| buckets.entry(row.class).or_default().push(row));
    buckets
}

fn disease(person: &Person) -> Option<String> {
    person.disease.map(|disease| format!("d{disease}"))
}

fn counted<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts
}

fn check(people: &[Person], method: &str, k: usize, l: usize, more: &str) {
    // The paper asks for l different values only.
    let is_frequency = !more.contains("'paper'");
    let context = session(vec![vec![batch(people)]], 2, 8192);
    let release = match wait(published_by(&context, &call(method, k, l, more))) {
        Ok(release) => release,
        Err(error) => {
            let known = ["cannot form a class", "does not satisfy l"];
            let error = error.strip_backtrace();
            assert!(known.iter().any(|message| error.contains(message)), "{error}");
            return;
        }
    };
    let originals = originals(people);
    let mut seen = vec![false; people.len()];
    for bucket in buckets(release).into_values() {
        // The kept column `id` is permuted within the bucket: together it names the bucket's people.
        let ids: Vec<usize> = bucket.iter().map(|row| row.id).collect();
        for id in &ids {
            assert!(!std::mem::replace(&mut seen[*id], true), "{method}: a person twice");
        }
        assert!(bucket.len() >= k, "{method}: a bucket below k");
        let diseases = counted(bucket.iter().map(|row| row.disease.clone()));
        assert_eq!(diseases, counted(ids.iter().map(|id| disease(&people[*id]))));
        assert!(diseases.len() >= l, "{method}: fewer than l values");
        let most = diseases.values().max().unwrap();
        if is_frequency {
            assert!(l * most < bucket.len(), "{method}: {most} of {} rows, l = {l}", bucket.len());
        }
        for row in &bucket {
            let own = disease(&people[row.id]);
            assert!(row.disease != own || diseases[&own] > 1, "{method}: a row put together");
            assert_eq!(row.note, i64::from(people[row.id].note), "{method}: kept columns part");
        }
        for (column, name) in QUASI_IDENTIFIERS.iter().enumerate() {
            let cells = || bucket.iter().map(|row| row.cells[column].clone());
            let text = |cell: Cell| match cell {
                Cell::Missing => None,
                Cell::Label(label) => Some(label),
                other => panic!("{other:?}"),
            };
            let own = counted(ids.iter().map(|id| originals[column][*id].written.clone()));
            let is_exact = counted(cells().map(text)) == own;
            let first = &bucket[0].cells[column];
            let is_covered = cells().all(|cell| cell == *first)
                && ids.iter().all(|id| covers(name, first, &originals[column][*id]));
            assert!(is_exact || is_covered, "{method}: column {name} of a bucket");
            assert!(is_exact || !more.is_empty(), "{method}: {name} is generalized");
        }
    }
    if method == "slicing" {
        assert!(seen.into_iter().all(|seen| seen), "slicing suppresses nothing");
    }
}

proptest! {
    #![proptest_config(cases(10))]

    #[test]
    fn buckets_keep_their_values_and_part_their_rows(people in people(), k in 2usize..6) {
        for method in methods() {
            check(&people, method, k, 2, "");
            check(&people, method, k, 2, ", rare_below => 0.1");
            check(&people, method, k, 3, PAPER);
            let more = format!(", rare_below => 0.2, {HIERARCHIES}");
            check(&people, method, k, 2, &more);
        }
    }

    #[test]
    fn a_sliced_release_depends_neither_on_order_nor_on_threads(
        (people, order) in people_and_order(),
        partitions in 1usize..5, rows_per_batch in 1usize..40, threads in 1usize..5,
    ) {
        let table = batch(&people);
        let one = session(vec![vec![table.clone()]], 1, 8192);
        let other = session(dealt(&table, &order, partitions, rows_per_batch), threads, 17);
        for method in methods() {
            for columns in ["*", "age, disease", "bucket_id", "town"] {
                let sql = format!("SELECT {columns} FROM {}", call(method, 3, 2, ", rare_below => 0.1"));
                check_same(&one, &other, &sql);
            }
            check_same(&one, &other, &format!("SELECT * FROM {}", call(method, 3, 2, PAPER)));
        }
    }
}

/// What a bucket says of its columns: every one is in one group, groups are small, enough of those that vary are apart, and
/// nothing that varies stands beside the sensitive column, which comes last.
#[test]
fn buckets_name_their_groups() {
    let columns = ["age", "weight", "town", "zip", "grade", "member"];
    let person = |at: u16| {
        let mut cells = [Some(0); 9];
        let of = [at / 40, at % 7, at % 11 / 9, at % 3, at % 50 / 49, at % 2];
        for (place, cell) in [0, 1, 6, 7, 8, 5].into_iter().zip(of) {
            cells[place] = Some(cell);
        }
        Person { cells, disease: Some(at % 13), note: at % 5 }
    };
    let people: Vec<Person> = (0..1000).map(person).collect();
    let context = session(vec![vec![batch(&people)]], 2, 8192);
    let listed = columns.map(|name| format!("'{name}'")).join(", ");
    let varies = columns.map(|name| format!("count(DISTINCT {name}) > 1")).join(", ");
    for (method, cells) in methods().flat_map(|method| [(method, 0), (method, 2)]) {
        wait(rows(&context, &format!("SET anonymize.cells = {cells}"))).unwrap();
        let sql = format!(
            "SELECT min(column_groups), max(column_groups), {varies} FROM anonymize((SELECT {}, disease, id FROM people),
               method => '{method}', k => 8, l => 3, quasi_identifiers => [{listed}], sensitive => ['disease'],
               keep => ['id'], column_groups => true, bucket_id => true, max_columns => 3, seed => 'a secret of groups')
             GROUP BY bucket_id",
            columns.join(", ")
        );
        let buckets = wait(rows(&context, &sql)).unwrap();
        for bucket in &buckets {
            let fields: Vec<&str> = bucket.split(" | ").collect();
            let varying: Vec<bool> = fields[fields.len() - columns.len()..]
                .iter()
                .map(|field| *field == "true")
                .collect();
            let labels = &fields[..fields.len() - columns.len()];
            let (label, same) = labels.split_at(labels.len() / 2);
            assert_eq!(label, same, "{method}: one bucket, two labels");
            let (sensitive, groups) = label.split_last().unwrap();
            let (kept, groups) = groups.split_last().unwrap();
            assert_eq!(*kept, "id");
            let named = |group: &str| -> Vec<usize> {
                let position = |name| columns.iter().position(|column| *column == name);
                group.split(", ").filter_map(position).collect()
            };
            let is_varying = |at: &usize| varying[*at];
            assert!(sensitive.ends_with("disease") && !named(sensitive).iter().any(is_varying));
            let apart = groups.iter().filter(|group| named(group).iter().any(is_varying)).count();
            let least = varying.iter().filter(|varies| **varies).count().min(3);
            assert!(apart >= least, "{method}: {bucket}");
            assert!(groups.iter().all(|group| named(group).len() <= 3), "{method}: {bucket}");
            let mut all: Vec<usize> = label.iter().flat_map(|group| named(group)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..columns.len()), "{method}: {bucket}");
        }
        assert!(buckets.len() > 20, "{method}: {} buckets", buckets.len());
    }
}

/// The value that follows from a town. Sorting by the one does not sort by the other.
fn linked_disease(town: u16) -> u16 {
    (7 * town + 3) % 10
}

/// A thousand people: whoever knows one of ten values of `town` knows the disease.
fn linked() -> Vec<Person> {
    let person = |at: u16| {
        let mut cells = [Some(0); 9];
        cells[0] = Some(at / 25);
        cells[6] = Some(at % 10);
        Person { cells, disease: Some(linked_disease(at % 10)), note: at % 5 }
    };
    (0..1000).map(person).collect()
}

/// How often the town beside a disease is the one that it follows from, whether both are read together or
/// apart, sorted by what a reader sees or by expressions that hide it.
#[test]
fn neither_rows_nor_positions_put_town_and_disease_together() {
    let context = session(vec![vec![batch(&linked())]], 2, 8192);
    let quasi_identifiers = "'age', 'town'";
    for method in methods() {
        let (mut rows_seen, mut hits) = (0, 0);
        for seed in 0..4 {
            let call = format!(
                "anonymize((SELECT age, town, disease, id FROM people), method => '{method}', k => 10, l => 5,
                   quasi_identifiers => [{quasi_identifiers}], sensitive => ['disease'], keep => ['id'],
                   seed => {seed})"
            );
            let read = |columns: &str| {
                wait(rows(&context, &format!("SELECT {columns} FROM {call}"))).unwrap()
            };
            let together = read("concat(town, '|', disease)");
            let pairs = [
                (read("town"), read("disease")),
                (read("concat(town, '')"), read("concat(disease, '')")),
                (read("town || ''"), read("disease")),
                together
                    .iter()
                    .map(|row| {
                        let (town, disease) = row.split_once('|').unwrap();
                        (town.to_owned(), disease.to_owned())
                    })
                    .unzip(),
            ];
            for (towns, diseases) in pairs {
                rows_seen += towns.len();
                let belongs = |(town, disease): (&String, &String)| {
                    linked_disease(town[1..].parse().unwrap())
                        == disease[1..].parse::<u16>().unwrap()
                };
                hits += towns.iter().zip(&diseases).filter(|pair| belongs(*pair)).count();
            }
        }
        assert_eq!(rows_seen, 16_000, "{method}");
        // l = 5: at most one in five is named right.
        assert!(5 * hits <= rows_seen, "{method}: {hits} of {rows_seen} rows fit");
    }
}

/// Two releases under one seed: who knows the sensitive value of a person in the one must not find the person's
/// value in the other beside the same quasi-identifier.
#[test]
fn releases_under_one_seed_are_permuted_apart() {
    let context = session(vec![vec![batch(&linked())]], 2, 8192);
    for method in methods() {
        let release = |value: &str, first: usize| {
            format!(
                "anonymize((SELECT value AS q, concat('{value}', value) AS s FROM generate_series({first}, {})),
                   method => '{method}', k => 5, l => 2, quasi_identifiers => ['q'], sensitive => ['s'], seed => 's')",
                first + 999
            )
        };
        // Other values of the same persons, the same values of other persons.
        for (other, first) in [("b", 1), ("a", 1001)] {
            let joined = format!(
                "SELECT count(*) FROM {} AS one JOIN {} AS two
                 ON CAST(two.q AS INT) - CAST(one.q AS INT) = {}
                   AND CAST(substr(two.s, 2) AS INT) - CAST(substr(one.s, 2) AS INT) = {}",
                release("a", 1),
                release(other, first),
                first - 1,
                first - 1
            );
            let same: usize = wait(rows(&context, &joined)).unwrap()[0].parse().unwrap();
            // In buckets of five rows one in four by chance.
            assert!((100..400).contains(&same), "{method}: {same} of 1000 rows are permuted alike");
        }
    }
}

/// Buckets are numbered, and leave, in an order that follows nothing.
#[test]
fn bucket_numbers_do_not_follow_the_rows() {
    let context = session(vec![vec![batch(&linked())]], 2, 8192);
    for method in methods() {
        let call = format!(
            "anonymize((SELECT age, note, disease FROM people), method => '{method}', k => 10, l => 3,
               quasi_identifiers => ['age', 'note'], sensitive => ['disease'], bucket_id => true, seed => 3)"
        );
        let sql = format!(
            "SELECT avg(CAST(age AS INT)) FROM {call} GROUP BY bucket_id ORDER BY bucket_id"
        );
        let means: Vec<f64> =
            wait(rows(&context, &sql)).unwrap().iter().map(|mean| mean.parse().unwrap()).collect();
        let rising = means.windows(2).filter(|pair| pair[0] < pair[1]).count();
        let all = means.len() - 1;
        assert!(all > 30, "{method}: {all} buckets");
        assert!((all / 4..=3 * all / 4).contains(&rising), "{method}: {rising} of {all} rise");
    }
}
