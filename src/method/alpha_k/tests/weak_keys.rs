//! All three parts of the key are needed: each weaker one falls to an attack that the whole one withstands.

use super::*;
use crate::method::alpha_k::mix::KeyParts;
use attacker::{Score, TwoTables};

#[path = "../../../../tests/attacks/equal_tuples.rs"]
#[allow(missing_docs, unreachable_pub)]
mod attacker;

const ROWS: u32 = 10_000;
const SEEDS: u8 = 8;

/// A rare occupation, a middle and a frequent one.
const ATTACKED: [u32; 3] = [0, 8, 6];

/// Splitmix.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % u64::from(bound)) as u32
    }
}

type People = (Vec<[u32; 2]>, Vec<u32>);

/// Occupations that depend on nothing.
fn drawn(seed: u8, tuple: impl Fn(&mut Random) -> [u32; 2]) -> People {
    let mut random = Random(u64::from(seed));
    let codes = (0..ROWS).map(|_| tuple(&mut random)).collect();
    let mut values = counted(&OCCUPATIONS.map(|(_, rows)| rows));
    for at in (1..values.len()).rev() {
        values.swap(at, random.below(at as u32 + 1) as usize);
    }
    (codes, values)
}

/// About 1 200 tuples, some of a hundred rows and some of one, like age, education and sex.
fn coarse(seed: u8) -> People {
    let least = |random: &mut Random, bound, draws| {
        (0..draws).fold(bound, |least, _| random.below(bound).min(least))
    };
    drawn(seed, |random| [least(random, 60, 2), least(random, 32, 3)])
}

/// 2 500 tuples of about four rows each.
fn fine(seed: u8) -> People {
    drawn(seed, |random| [random.below(50), random.below(50)])
}

/// In the order of [`OCCUPATIONS`].
const NAMES: [&str; 14] = [
    "Protective-serv",
    "Armed-Forces",
    "Exec-managerial",
    "Prof-specialty",
    "Adm-clerical",
    "Tech-support",
    "Craft-repair",
    "Machine-op-inspct",
    "Transport-moving",
    "Priv-house-serv",
    "Farming-fishing",
    "Handlers-cleaners",
    "Sales",
    "Other-service",
];

/// Every fourth complete row of Adult: age, education and sex with the occupation that goes with them. `None`
/// without the data.
fn adult() -> Option<People> {
    let path = std::path::PathBuf::from(std::env::var_os("ADULT_DIR")?).join("adult_full.csv");
    let mut reader = csv::Reader::from_path(path).ok()?;
    let mut educations: Vec<String> = Vec::new();
    let mut people = People::default();
    for row in reader.records().filter_map(std::result::Result::ok) {
        let value = NAMES.iter().position(|name| *name == &row[6]);
        let (Some(value), Ok(age)) = (value, row[0].parse::<u32>()) else { continue };
        let known = educations.iter().position(|education| *education == row[3]);
        let education = known.unwrap_or_else(|| {
            educations.push(row[3].to_owned());
            educations.len() - 1
        });
        people.0.push([age, 2 * education as u32 + u32::from(&row[9] == "Male")]);
        people.1.push(value as u32);
    }
    let fourth = |at: &usize| at.is_multiple_of(4);
    let rows: Vec<usize> = (0..people.0.len()).filter(fourth).take(ROWS as usize).collect();
    Some(rows.iter().map(|row| (people.0[*row], people.1[*row])).unzip())
}

struct Attack<'a> {
    name: &'a str,
    people: &'a dyn Fn(u8) -> People,
    /// Rows named for a value.
    rows: &'a dyn Fn(&TwoTables, u32) -> Vec<usize>,
}

impl Attack<'_> {
    /// What it gains from releases under a key, by attacked value.
    fn scores(&self, parts: KeyParts) -> [Score; 3] {
        let mut scores = [Score::default(); 3];
        for seed in 0..SEEDS {
            let (codes, values) = (self.people)(seed);
            let key = Some(MixingKey { seed: Seed::from_bytes(&[seed]), parts });
            let input = Input { key, ..Input::new(&codes, &values) };
            let (classes, suppressed) = input.run(5, occupations()).unwrap_or_default();
            assert_eq!((classes.len(), suppressed.len()), (ROWS as usize / 5, 0));
            let mut tables = TwoTables {
                tuple_of: codes.iter().map(|[a, b]| a * 100 + b).collect(),
                class_of: vec![0; codes.len()],
                values: Vec::new(),
            };
            for (number, class) in classes.iter().enumerate() {
                class.iter().for_each(|row| tables.class_of[*row as usize] = number);
                tables.values.push(class.iter().map(|row| values[*row as usize]).collect());
            }
            for (score, value) in scores.iter_mut().zip(ATTACKED) {
                score.add(tables.score(value, &(self.rows)(&tables, value), &values));
            }
        }
        scores
    }

    /// The weak key falls, at the value it is weakest for, and the whole key does not.
    fn needs(&self, weak: KeyParts, weakest: usize, times_chance: f64) {
        let fallen = self.scores(weak);
        println!("{}, weak key: {}; {}; {}", self.name, fallen[0], fallen[1], fallen[2]);
        let score = fallen[weakest];
        assert!(score.named > 1000 && score.ratio() >= times_chance, "{}: {score}", self.name);
        let standing = self.scores(KeyParts::ALL);
        println!("{}, whole key: {}; {}; {}", self.name, standing[0], standing[1], standing[2]);
        for score in standing {
            assert!(score.named > 50 && score.z().abs() <= 4.0, "{}: {score}", self.name);
        }
    }
}

/// Names rows whose tuple also stands in the class with the value before or behind, classes being in the order
/// they were made. That order is not published: this attacker knows more than any reader.
fn neighbours(tables: &TwoTables, value: u32) -> Vec<usize> {
    let (rows, tuples) = (tables.rows_of_classes(), tables.rows_of_tuples());
    let with = tables.classes_with(value);
    let has =
        |class: usize, tuple: u32| rows[class].iter().any(|row| tables.tuple_of[*row] == tuple);
    tables.name(value, |row| {
        let tuple = tables.tuple_of[row];
        let at = with.partition_point(|class| *class < tables.class_of[row]);
        let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
        let beside = beside.filter_map(|at| with.get(at)).filter(|class| has(**class, tuple));
        // A rare tuple in both is no accident.
        let share = tuples[&tuple].len() as f64 / tables.tuple_of.len() as f64;
        beside.count() as f64 * -share.ln()
    })
}

#[test]
fn a_key_of_the_tuple_alone_names_rare_values() {
    let attack = Attack {
        name: "equal tuples",
        people: &coarse,
        rows: &|tables, value| tables.displaced(value, usize::MAX),
    };
    attack.needs(KeyParts { value: false, number: false }, 0, 3.0);
}

#[test]
fn a_key_of_the_tuple_alone_names_rare_values_of_adult() {
    let Some(people) = adult() else {
        println!("SKIPPED, nothing was checked: ADULT_DIR is not set");
        return;
    };
    let displaced = |tables: &TwoTables, value| tables.displaced(value, usize::MAX);
    let attack =
        Attack { name: "equal tuples of Adult", people: &|_| people.clone(), rows: &displaced };
    let [rare, ..] = attack.scores(KeyParts { value: false, number: false });
    let [whole, ..] = attack.scores(KeyParts::ALL);
    println!("equal tuples of Adult, weak key: {rare}; whole key: {whole}");
    assert!(rare.named > 1000 && rare.ratio() >= 3.0, "{rare}");
    // Occupations of Adult do depend on the rest, which any reader of any release can use.
    assert!(whole.ratio() < 1.5, "{whole}");
}

#[test]
fn a_key_without_the_value_names_rare_values_of_tuples_with_few_rows() {
    let attack = Attack {
        name: "equal tuples of at most six rows",
        people: &fine,
        rows: &|tables, value| tables.displaced(value, 6),
    };
    attack.needs(KeyParts { value: false, number: true }, 0, 1.75);
}

#[test]
fn a_key_without_the_number_names_frequent_values_in_neighbouring_classes() {
    let attack = Attack { name: "neighbouring classes", people: &coarse, rows: &neighbours };
    attack.needs(KeyParts { value: true, number: false }, 2, 1.75);
}
