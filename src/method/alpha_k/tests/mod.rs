//! What `alpha_k` promises: on worked tables, and on random ones.

mod adult;
mod paper;
mod weak_keys;

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::method::testing::Table;
use crate::model::{AlphaScope, Requirement};

/// Row numbers of each class, smallest first, and of the suppressed rows.
type Outcome = Result<(Vec<Vec<u32>>, Vec<u32>)>;

struct Input<'a> {
    codes: &'a [[u32; 2]],
    values: &'a [u32],
    cardinality: u32,
    key: Option<MixingKey>,
}

impl<'a> Input<'a> {
    /// For the best version, under some seed.
    fn new(codes: &'a [[u32; 2]], values: &'a [u32]) -> Self {
        let cardinality = values.iter().max().map_or(0, |value| value + 1);
        Self { codes, values, cardinality, key: Some(MixingKey::new(Seed::from_bytes(b"s"))) }
    }

    /// Classes in the order they were made.
    fn run(&self, k: u32, model: Model) -> Outcome {
        let column = SensitiveColumn {
            name: "Disease".into(),
            codes: self.values.to_vec().into(),
            cardinality: self.cardinality,
            ordered: false,
        };
        let table = Table {
            requirement: Requirement { k, models: vec![model] },
            sensitive: vec![column],
            ..Table::new(Vec::new(), self.codes.to_vec(), k)
        };
        let release = table.form(|rows, job| {
            let Grouping { classes, suppressed } = alpha_k_by(rows, job, self.key)?;
            Ok((classes, suppressed))
        })?;
        Ok((release.classes, release.suppressed))
    }

    /// The values of each class, sorted, and of the suppressed rows.
    fn compositions(&self, k: u32, model: Model) -> Outcome {
        let values = |ids: &Vec<u32>| {
            let mut values: Vec<u32> = ids.iter().map(|id| self.values[*id as usize]).collect();
            values.sort_unstable();
            values
        };
        let (classes, suppressed) = self.run(k, model)?;
        Ok((classes.iter().map(values).collect(), values(&suppressed)))
    }
}

/// Different quasi-identifiers for as many rows.
fn distinct(rows: usize) -> Vec<[u32; 2]> {
    (0..rows as u32).map(|row| [row, 0]).collect()
}

/// As many rows of each value as is said.
fn counted(counts: &[usize]) -> Vec<u32> {
    let of_value = |(value, count): (usize, &usize)| vec![value as u32; *count];
    counts.iter().enumerate().flat_map(of_value).collect()
}

/// What becomes of a table with these counts.
fn of_counts(counts: &[usize], k: u32, model: Model) -> Outcome {
    let values = counted(counts);
    Input::new(&distinct(values.len()), &values).compositions(k, model)
}

fn share(alpha: f64) -> Model {
    Model::Share { column: 0, alpha }
}

/// Disease of rows 1 to 12 of table 1: HIV, Cancer, Heart, Flu, Viral, Fever are codes 0 to 5.
const TABLE_1: [u32; 12] = [5, 3, 4, 3, 5, 4, 0, 1, 1, 5, 0, 2];
const AGES: [u32; 12] = [23, 25, 30, 31, 36, 39, 42, 45, 52, 53, 61, 64];
const TABLE_1_LEVELS: [u32; 6] = [1, 1, 3, 4, 4, 5];

fn graded(level_of: &[u32], alphas: &[f64], scope: AlphaScope) -> Model {
    let grades = Grades::new(level_of.to_vec(), alphas.to_vec(), scope);
    Model::Graded { column: 0, grades: Arc::new(grades.unwrap_or_else(|_| unreachable!())) }
}

/// The occupations in 10 000 complete rows of Adult: the level that the paper gives them, and their rows.
const OCCUPATIONS: [(u32, usize); 14] = [
    (1, 227),
    (1, 4),
    (2, 1332),
    (2, 1361),
    (2, 1268),
    (3, 304),
    (3, 1293),
    (3, 633),
    (3, 503),
    (4, 57),
    (4, 308),
    (4, 448),
    (4, 1182),
    (5, 1080),
];

/// The alphas of the paper for them.
fn occupations() -> Model {
    let level_of = OCCUPATIONS.map(|(level, _)| level);
    graded(&level_of, &[0.2, 0.3, 0.35, 0.4, 0.5], AlphaScope::Value)
}

#[test]
fn table_1_of_the_paper_gives_the_levels_of_its_table_8() {
    let codes: Vec<[u32; 2]> = AGES.iter().map(|age| [*age, 0]).collect();
    let model = graded(&TABLE_1_LEVELS, &[0.34, 0.35, 0.4, 0.45, 0.5], AlphaScope::Value);
    let (classes, suppressed) =
        Input::new(&codes, &TABLE_1).compositions(3, model).unwrap_or_default();
    // The example of the module.
    assert_eq!(classes, [[0, 3, 5], [1, 4, 5], [0, 3, 5], [1, 2, 4]]);
    assert_eq!(suppressed, [0u32; 0]);
}

#[test]
fn table_1_of_the_paper_keeps_an_alpha_that_its_table_8_breaks() {
    // `run` verifies the shares; a class with a level-1 value now has at least four rows.
    let model = graded(&TABLE_1_LEVELS, &[0.3, 0.35, 0.4, 0.45, 0.5], AlphaScope::Value);
    let (classes, suppressed) =
        Input::new(&distinct(12), &TABLE_1).run(3, model).unwrap_or_default();
    assert!(classes.iter().all(|class| class.len() >= 4));
    assert_eq!((classes.len(), suppressed.len()), (3, 0));
}

#[test]
fn a_class_has_the_size_at_which_every_share_fits() {
    // 40 % in a class of three would be 1 of 3; in a class of five it is 2 of 5.
    let (classes, suppressed) = of_counts(&[400, 400, 200], 3, share(0.45)).unwrap_or_default();
    assert_eq!(classes, vec![vec![0, 0, 1, 1, 2]; 200]);
    assert_eq!(suppressed, [0u32; 0]);
    // Three values at 0.34 each: four rows cannot be shared out, six can.
    let (classes, suppressed) = of_counts(&[4, 4, 4], 4, share(0.34)).unwrap_or_default();
    assert_eq!(classes, vec![vec![0, 0, 1, 1, 2, 2]; 2]);
    assert_eq!(suppressed, [0u32; 0]);
}

#[test]
fn a_value_that_is_too_frequent_is_trimmed_and_no_other_loses_a_row() {
    // 409 of 909 is at most 0.45, 410 of 910 is not.
    let (classes, suppressed) = of_counts(&[500, 300, 200], 3, share(0.45)).unwrap_or_default();
    assert_eq!(suppressed, vec![0; 91]);
    assert_eq!(classes.iter().map(Vec::len).sum::<usize>(), 909);
    assert!(classes.iter().all(|class| class.len() <= 20), "45 % comes out even in twenty rows");
    // The same for a level.
    let model = graded(&[1, 1, 2], &[0.45, 1.0], AlphaScope::Level);
    let (_, suppressed) = of_counts(&[300, 200, 500], 3, model).unwrap_or_default();
    assert_eq!(suppressed.len(), 91);
    assert!(suppressed.iter().all(|value| *value < 2));
}

#[test]
fn an_alpha_that_comes_out_even_nowhere_costs_little() {
    let (classes, suppressed) = of_counts(&[500, 300, 200], 3, share(0.4567)).unwrap_or_default();
    assert!(classes.iter().all(|class| class.len() <= 103));
    // The most that could be published is 920.
    assert!(suppressed.len() <= 85, "{}", suppressed.len());
}

#[test]
fn a_value_that_fits_nowhere_does_not_stop_the_others() {
    // The value of level 1 would need a class of 100 rows.
    let model = graded(&[1, 2, 3], &[0.01, 0.5, 0.5], AlphaScope::Value);
    let outcome = of_counts(&[1, 2, 2], 2, model);
    assert_eq!(outcome, Ok((vec![vec![1, 2]; 2], vec![0])));
}

#[test]
fn rows_that_are_too_few_for_a_class_stay_with_the_last() {
    let (classes, suppressed) = of_counts(&[3, 3, 3, 2], 4, share(0.5)).unwrap_or_default();
    assert_eq!(classes.iter().map(Vec::len).collect::<Vec<_>>(), [4, 7]);
    assert_eq!(suppressed, [0u32; 0]);
}

#[test]
fn many_levels_and_values_stand_in_proportion() {
    // A tenth, a fifth, three tenths and four tenths, one value each, in classes of ten.
    let model = graded(&[1, 2, 3, 4], &[0.5; 4], AlphaScope::Value);
    let (classes, _) = of_counts(&[100, 200, 300, 400], 10, model).unwrap_or_default();
    assert_eq!(classes, vec![vec![0, 1, 1, 2, 2, 2, 3, 3, 3, 3]; 100]);
    // The same without levels.
    let (classes, _) = of_counts(&[100, 200, 300, 400], 10, share(0.5)).unwrap_or_default();
    assert_eq!(classes, vec![vec![0, 1, 1, 2, 2, 2, 3, 3, 3, 3]; 100]);
}

#[test]
fn the_seed_decides_who_of_a_value_is_where() {
    let values: Vec<u32> = (0..300).map(|row| row * row % 4).collect();
    let codes = distinct(300);
    let classes = |seed: &[u8]| {
        let key = Some(MixingKey::new(Seed::from_bytes(seed)));
        Input { key, ..Input::new(&codes, &values) }.run(3, share(0.6)).unwrap_or_default()
    };
    assert_eq!(classes(b"s").0.len(), 75);
    assert_eq!(classes(b"s"), classes(b"s"));
    assert_ne!(classes(b"s"), classes(b"t"));
}

#[test]
fn nothing_to_publish_is_an_error_without_values() {
    let codes = [[0, 0]; 4];
    let input = Input::new(&codes, &[0; 4]);
    let outcome = input.run(2, share(0.5));
    let requirement = "k = 2 and alpha = 0.5 on column 'Disease'".to_owned();
    assert_eq!(outcome, Err(Error::NoClass { requirement }));
    let outcome = input.run(5, share(0.5));
    assert_eq!(outcome, Err(Error::TooFewRows { rows: 4, k: 5 }));
}

#[test]
fn models_it_cannot_honour_are_refused() {
    let input = Input::new(&[[0, 0]; 4], &[0, 1, 0, 1]);
    let outcome = input.run(2, Model::Distinct { column: 0, at_least: 2, unit: false });
    assert!(matches!(outcome, Err(Error::Invalid(_))));
}

/// Seven values in three levels, of uneven frequency.
const LEVEL_OF: [u32; 7] = [1, 1, 2, 2, 3, 3, 3];

fn table() -> impl Strategy<Value = (Vec<[u32; 2]>, Vec<u32>)> {
    let row = (0u32..4, 0u32..6, 0u32..28).prop_map(|(a, b, draw)| {
        let value = (0..7).find(|value| draw < (value + 1) * (value + 2) / 2).unwrap_or(6);
        ([a, b], value)
    });
    prop::collection::vec(row, 1..300).prop_map(|rows| rows.into_iter().unzip())
}

fn model_of(alphas: [f64; 3], scope: usize) -> Model {
    match scope {
        0 => graded(&LEVEL_OF, &alphas, AlphaScope::Value),
        1 => graded(&LEVEL_OF, &alphas, AlphaScope::Level),
        _ => Model::Share { column: 0, alpha: alphas[2] },
    }
}

fn accepts(model: &Model, class: &[u32], value: u32) -> bool {
    let rows = class.len() as f64 + 1.0;
    let share = |same: &dyn Fn(u32) -> bool| {
        (class.iter().filter(|other| same(**other)).count() as f64 + 1.0) / rows
    };
    match model {
        Model::Graded { grades, .. } => {
            let level = grades.level(value);
            let same = |other: u32| match grades.scope() {
                AlphaScope::Value => other == value,
                AlphaScope::Level => grades.level(other) == level,
            };
            share(&same) <= grades.alpha(level)
        }
        Model::Share { alpha, .. } => share(&|other| other == value) <= *alpha,
        _ => false,
    }
}

proptest! {
    // `run` verifies that every class has k rows and keeps its shares, and that every row is in one
    // class or suppressed, by the second code path.
    #[test]
    fn every_promise_holds_and_no_suppressed_row_would_fit(
        (codes, values) in table(),
        k in 2u32..8,
        scope in 0usize..3,
        alphas in prop::array::uniform3(0.1f64..0.8),
        best in any::<bool>(),
    ) {
        let model = model_of(alphas, scope);
        let mut input = Input { cardinality: 7, ..Input::new(&codes, &values) };
        input.key = input.key.filter(|_| best);
        match input.run(k, model.clone()) {
            Ok((classes, suppressed)) => for row in suppressed {
                let value = values[row as usize];
                for class in &classes {
                    let class: Vec<u32> = class.iter().map(|id| values[*id as usize]).collect();
                    prop_assert!(!accepts(&model, &class, value));
                }
            },
            Err(Error::TooFewRows { .. } | Error::NoClass { .. }) => {}
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }

    #[test]
    fn neither_order_nor_numbers_of_rows_matter(
        (codes, values) in table(),
        k in 2u32..8,
        scope in 0usize..3,
        alphas in prop::array::uniform3(0.1f64..0.8),
        shift in 0usize..300,
        best in any::<bool>(),
    ) {
        let n = codes.len();
        let classes_from = |order: &[usize]| {
            let codes: Vec<[u32; 2]> = order.iter().map(|row| codes[*row]).collect();
            let values: Vec<u32> = order.iter().map(|row| values[*row]).collect();
            let mut input = Input { cardinality: 7, ..Input::new(&codes, &values) };
            input.key = input.key.filter(|_| best);
            let content = |ids: &[u32]| {
                let row = |id: &u32| (codes[*id as usize], values[*id as usize]);
                let mut rows: Vec<([u32; 2], u32)> = ids.iter().map(row).collect();
                rows.sort_unstable();
                rows
            };
            input.run(k, model_of(alphas, scope)).map(|(classes, suppressed)| {
                let classes: Vec<_> = classes.iter().map(|class| content(class)).collect();
                (classes, content(&suppressed))
            })
        };
        let order: Vec<usize> = (0..n).collect();
        let shuffled: Vec<usize> = (0..n).rev().map(|row| (row + shift) % n).collect();
        prop_assert_eq!(classes_from(&order), classes_from(&shuffled));
    }

    /// Places depend on counts alone, those of rows left over included: other quasi-identifiers, in another
    /// order and under another seed, give the same classes of values one after the other.
    #[test]
    fn tables_with_equal_counts_have_equal_compositions(
        (codes, values) in table(),
        (others, draw) in (prop::collection::vec((0u32..3, 0u32..3), 300), any::<u64>()),
        k in 2u32..8,
        scope in 0usize..3,
        alphas in prop::array::uniform3(0.1f64..0.8),
    ) {
        let one = Input { cardinality: 7, ..Input::new(&codes, &values) };
        let codes: Vec<[u32; 2]> = others.iter().take(values.len()).map(|(a, b)| [*a, *b]).collect();
        let mut shuffled = values.clone();
        shuffled.sort_by_key(|value| draw.rotate_left(*value));
        let key = Some(MixingKey::new(Seed::from_bytes(&draw.to_le_bytes())));
        let other = Input { cardinality: 7, key, ..Input::new(&codes, &shuffled) };
        let model = model_of(alphas, scope);
        prop_assert_eq!(one.compositions(k, model.clone()), other.compositions(k, model));
    }
}
