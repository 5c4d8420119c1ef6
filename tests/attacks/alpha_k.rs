//! The attacker who reads both tables of `alpha_k` and compares rows of equal quasi-identifiers. That the same
//! attack succeeds against weaker keys is shown where the method can be weakened, in its own tests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray, UInt32Array};
use datafusion::prelude::{CsvReadOptions, SessionContext};

use crate::adult;
use crate::attacks::definetti;
use crate::attacks::equal_tuples::{Score, TwoTables};
use crate::attacks::{rows, session};

const ROWS: usize = 10_000;
const SEEDS: u64 = 8;

/// Occupations as the paper grades them.
const LEVELS: [&[&str]; 5] = [
    &["Protective-serv", "Armed-Forces"],
    &["Exec-managerial", "Prof-specialty", "Adm-clerical"],
    &["Tech-support", "Craft-repair", "Machine-op-inspct", "Transport-moving"],
    &["Priv-house-serv", "Farming-fishing", "Handlers-cleaners", "Sales"],
    &["Other-service"],
];
const GRADED: &str = "alpha => [0.2, 0.3, 0.35, 0.4, 0.5], sensitivity => levels";

/// A rare, a middle and a frequent occupation.
const ATTACKED: [&str; 3] = ["Protective-serv", "Transport-moving", "Craft-repair"];

/// A person: age, education, sex, occupation.
type Person = (i64, String, String, String);

/// Splitmix, so that every run is the same.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

async fn read(context: &SessionContext, sql: &str) -> Vec<Person> {
    let cells = rows(context, sql).await.unwrap();
    let person = |row: Vec<Option<String>>| {
        let [age, education, sex, occupation] = row.try_into().unwrap();
        let age = age.unwrap().parse().unwrap();
        (age, education.unwrap(), sex.unwrap(), occupation.unwrap())
    };
    cells.into_iter().map(person).collect()
}

/// Complete rows of Adult, drawn at random and always the same.
async fn adult_people(test: &str) -> Option<Vec<Person>> {
    let path = adult(test)?.join("adult_full.csv").display().to_string();
    let context = session();
    context.register_csv("adult", path, CsvReadOptions::new()).await.unwrap();
    let sql = "SELECT age, education, sex, occupation FROM adult WHERE age IS NOT NULL AND education IS NOT NULL \
               AND sex IS NOT NULL AND occupation IS NOT NULL ORDER BY age, education, sex, occupation";
    let mut people = read(&context, sql).await;
    Random(1).shuffle(&mut people);
    people.truncate(ROWS);
    assert_eq!(people.len(), ROWS);
    Some(people)
}

/// Shuffles the occupations among the people.
fn with_shuffled_occupations(people: &[Person], seed: u64) -> Vec<Person> {
    let mut occupations: Vec<String> = people.iter().map(|person| person.3.clone()).collect();
    Random(seed).shuffle(&mut occupations);
    let people = people.iter().zip(occupations);
    people.map(|((age, education, sex, _), o)| (*age, education.clone(), sex.clone(), o)).collect()
}

/// A release in two tables, and what the attacker does not have: the number of the person in each row.
struct Release {
    tables: TwoTables,
    persons: Vec<usize>,
}

fn number_of(occupation: &str) -> u32 {
    let mut occupations = LEVELS.iter().flat_map(|level| level.iter());
    occupations.position(|other| *other == occupation).unwrap() as u32
}

async fn release(people: &[Person], how: &str, seed: u64) -> Release {
    let context = session();
    let text = |of: fn(&Person) -> &str| StringArray::from_iter_values(people.iter().map(of));
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(UInt32Array::from_iter_values(0..people.len() as u32)) as _),
        ("age", Arc::new(Int64Array::from_iter_values(people.iter().map(|person| person.0))) as _),
        ("education", Arc::new(text(|person| &person.1)) as _),
        ("sex", Arc::new(text(|person| &person.2)) as _),
        ("occupation", Arc::new(text(|person| &person.3)) as _),
    ]);
    context.register_batch("people", batch.unwrap()).unwrap();
    let graded = LEVELS.iter().zip(1..);
    let graded = graded.flat_map(|(names, level)| names.iter().map(move |name| (name, level)));
    let levels: Vec<String> = graded.map(|(name, level)| format!("('{name}', {level})")).collect();
    rows(&context, &format!("CREATE TABLE levels AS VALUES {}", levels.join(", "))).await.unwrap();
    let table = |columns: &str, publish: &str| {
        format!(
            "SELECT class_id, {columns} FROM anonymize(people, method => 'alpha_k', k => 5, {how}, \
             quasi_identifiers => ['age', 'education', 'sex'], keep => ['id'], sensitive => ['occupation'], \
             suppression_limit => 1, publish => '{publish}', seed => 'a secret that this attacker lacks {seed}')"
        )
    };
    let mut release = Release {
        tables: TwoTables { tuple_of: Vec::new(), class_of: Vec::new(), values: Vec::new() },
        persons: Vec::new(),
    };
    let mut tuples: HashMap<[String; 3], u32> = HashMap::new();
    for row in rows(&context, &table("age, education, sex, id", "quasi_identifiers")).await.unwrap()
    {
        let [class, age, education, sex, id] = row.try_into().unwrap();
        let next = tuples.len() as u32;
        let tuple = [age.unwrap(), education.unwrap(), sex.unwrap()];
        release.tables.tuple_of.push(*tuples.entry(tuple).or_insert(next));
        release.tables.class_of.push(class.unwrap().parse().unwrap());
        release.persons.push(id.unwrap().parse().unwrap());
    }
    for row in rows(&context, &table("occupation", "sensitive")).await.unwrap() {
        let [class, occupation] = row.try_into().unwrap();
        let class: usize = class.unwrap().parse().unwrap();
        let values = &mut release.tables.values;
        values.resize(values.len().max(class + 1), Vec::new());
        values[class].push(number_of(&occupation.unwrap()));
    }
    release
}

impl Release {
    /// The occupation of every row.
    fn truth(&self, people: &[Person]) -> Vec<u32> {
        self.persons.iter().map(|person| number_of(&people[*person].3)).collect()
    }

    /// Rows named by comparing equal tuples.
    fn compared(&self, people: &[Person], occupation: &str) -> Score {
        let value = number_of(occupation);
        let named = self.tables.displaced(value, usize::MAX);
        self.tables.score(value, &named, &self.truth(people))
    }

    /// How often every composition of a class occurs.
    fn compositions(&self) -> BTreeMap<Vec<u32>, usize> {
        let mut compositions = BTreeMap::new();
        for values in &self.tables.values {
            let mut values = values.clone();
            values.sort_unstable();
            *compositions.entry(values).or_default() += 1;
        }
        compositions
    }
}

#[tokio::test]
async fn comparing_equal_tuples_tells_nothing_about_independent_values() {
    let Some(people) = adult_people("equal tuples, shuffled").await else { return };
    let mut scores = [Score::default(); 3];
    for seed in 0..SEEDS {
        let people = with_shuffled_occupations(&people, seed);
        let release = release(&people, GRADED, seed).await;
        for (score, occupation) in scores.iter_mut().zip(ATTACKED) {
            score.add(release.compared(&people, occupation));
        }
    }
    for (score, occupation) in scores.iter().zip(ATTACKED) {
        println!("equal tuples, shuffled occupations, {occupation}: {score}");
        assert!(score.named > 1000 && score.z().abs() <= 4.0, "{occupation}: {score}");
    }
}

#[tokio::test]
async fn comparing_equal_tuples_names_no_more_than_their_correlation_does() {
    let Some(people) = adult_people("equal tuples").await else { return };
    let (mut compared, mut correlated) = (Score::default(), Score::default());
    for seed in 0..SEEDS {
        let release = release(&people, GRADED, seed).await;
        let columns: Vec<[u32; 3]> =
            release.persons.iter().map(|id| numbered(&people[*id])).collect();
        let chances = definetti::learn(&release.tables, &columns);
        let truth = release.truth(&people);
        for occupation in ATTACKED {
            compared.add(release.compared(&people, occupation));
            let value = number_of(occupation);
            let named = release.tables.name(value, |row| chances[row][value as usize]);
            correlated.add(release.tables.score(value, &named, &truth));
        }
    }
    println!("equal tuples: {compared}\ncorrelation alone: {correlated}");
    assert!(correlated.z() > 4.0, "the control learns nothing: {correlated}");
    assert!(compared.named > 10_000 && compared.right <= correlated.right);
}

/// Age, education and sex as numbers.
fn numbered((age, education, sex, _): &Person) -> [u32; 3] {
    let hash =
        |text: &str| text.bytes().fold(0u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
    [*age as u32, hash(education), hash(sex)]
}

#[tokio::test]
async fn tables_with_equal_counts_have_classes_of_equal_values() {
    let census = "SELECT age, education, sex, occupation FROM sample_census(rows => 3000, seed => 3) WHERE age IS NOT \
                  NULL AND education IS NOT NULL AND sex IS NOT NULL AND occupation IS NOT NULL";
    let people = read(&session(), census).await;
    let mut with_suppressed = 0;
    for how in
        [GRADED, "alpha => 0.11", "alpha => [0.02, 0.08, 0.1, 0.1, 0.09], sensitivity => levels"]
    {
        let one = release(&people, how, 1).await;
        // Other people of fewer ages, whose occupations do not follow from them.
        let mut others = with_shuffled_occupations(&people, 5);
        others.iter_mut().for_each(|person| person.0 /= 20);
        let other = release(&others, how, 2).await;
        assert!(one.tables.values.len() > 10);
        assert_eq!(one.compositions(), other.compositions(), "{how}");
        with_suppressed += usize::from(one.persons.len() < people.len());
    }
    assert_eq!(with_suppressed, 2, "rows must be left over in some");
}
