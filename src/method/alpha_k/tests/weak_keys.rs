//! All three parts of the key are needed: each weaker one falls to an attack that the whole one withstands.

use super::*;
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

/// How quasi-identifiers are drawn.
#[derive(Clone, Copy)]
enum Tuples {
    /// About 1 200 tuples, some of a hundred rows and some of one, like age, education and sex.
    Coarse,
    /// 2 500 tuples of about four rows each.
    Fine,
}

/// Quasi-identifiers, and occupations that do not depend on them.
fn people(tuples: Tuples, seed: u8) -> (Vec<[u32; 2]>, Vec<u32>) {
    let mut random = Random(u64::from(seed));
    let mut least =
        |bound, draws| (0..draws).fold(bound, |least, _| random.below(bound).min(least));
    let codes = (0..ROWS).map(|_| match tuples {
        Tuples::Coarse => [least(60, 2), least(32, 3)],
        Tuples::Fine => [least(50, 1), least(50, 1)],
    });
    let codes = codes.collect();
    let mut values = counted(&OCCUPATIONS.map(|(_, rows)| rows));
    for at in (1..values.len()).rev() {
        values.swap(at, random.below(at as u32 + 1) as usize);
    }
    (codes, values)
}

struct Attack<'a> {
    name: &'a str,
    tuples: Tuples,
    /// Rows named for a value.
    rows: &'a dyn Fn(&TwoTables, u32) -> Vec<usize>,
}

impl Attack<'_> {
    /// What it gains from releases under a key, by attacked value.
    fn scores(&self, parts: KeyParts) -> [Score; 3] {
        let mut scores = [Score::default(); 3];
        for seed in 0..SEEDS {
            let (codes, values) = people(self.tuples, seed);
            let key = Some((Seed::from_bytes(&[seed]), parts));
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
    fn needs(&self, weak: KeyParts, (weakest, times_chance): (usize, f64)) {
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

#[test]
fn a_key_of_the_tuple_alone_names_rare_values() {
    let attack = Attack {
        name: "equal tuples",
        tuples: Tuples::Coarse,
        rows: &|tables, value| tables.displaced(value, usize::MAX),
    };
    attack.needs(KeyParts { value: false, number: false }, (0, 3.0));
}

#[test]
fn a_key_without_the_value_names_rare_values_of_tuples_with_few_rows() {
    let attack = Attack {
        name: "equal tuples of at most six rows",
        tuples: Tuples::Fine,
        rows: &|tables, value| tables.displaced(value, 6),
    };
    attack.needs(KeyParts { value: false, number: true }, (0, 1.75));
}

#[test]
fn a_key_without_the_number_names_frequent_values_in_neighbouring_classes() {
    let attack = Attack {
        name: "neighbouring classes",
        tuples: Tuples::Coarse,
        rows: &|tables, value| tables.neighbours(value),
    };
    attack.needs(KeyParts { value: true, number: false }, (2, 1.75));
}
