//! The worked table of paper P4 and the promises of `alpha_k` on random tables.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::{AlphaScope, Cancel, Placement, Requirement, RowKeys, check_placement};

/// Row numbers of each class, smallest first, and of the suppressed rows.
type Outcome = Result<(Vec<Vec<u32>>, Vec<u32>)>;

struct Input<'a> {
    codes: &'a [[u32; 2]],
    values: &'a [u32],
    cardinality: u32,
    keys: &'a [u64],
}

fn run(input: &Input, k: u32, model: Model) -> Outcome {
    let column = SensitiveColumn {
        name: "Disease".into(),
        codes: input.values.to_vec().into(),
        cardinality: input.cardinality,
        ordered: false,
    };
    let requirement = Requirement { k, models: vec![model] };
    let keys = RowKeys { ties: input.keys.to_vec().into(), kept: Vec::new().into() };
    let job = Job {
        axes: &[],
        requirement: &requirement,
        sensitive: std::slice::from_ref(&column),
        keys: &keys,
        cancel: &Cancel::default(),
    };
    let mut rows = RowTable::from_codes(input.codes).ok_or_else(|| Error::bug("too wide"))?;
    let Grouping { classes, suppressed } = alpha_k(&mut rows, &job, None)?;
    let id_at = |at: usize| rows.id_at(at);
    let placement = Placement { id_at: &id_at, rows: rows.len(), classes: &classes, suppressed };
    check_placement(&placement, &requirement, std::slice::from_ref(&column))?;
    let ids = |range: std::ops::Range<usize>| {
        let mut ids: Vec<u32> = range.map(|at| rows.id_at(at)).collect();
        ids.sort_unstable();
        ids
    };
    Ok((classes.ranges().map(ids).collect(), ids(classes.rows()..rows.len())))
}

/// Disease of rows 1 to 12 of table 1: HIV, Cancer, Heart, Flu, Viral, Fever are codes 0 to 5.
const TABLE_1: [u32; 12] = [5, 3, 4, 3, 5, 4, 0, 1, 1, 5, 0, 2];
const AGES: [u32; 12] = [23, 25, 30, 31, 36, 39, 42, 45, 52, 53, 61, 64];

fn graded(level_of: &[u32], alphas: &[f64], scope: AlphaScope) -> Model {
    let grades = Grades::new(level_of.to_vec(), alphas.to_vec(), scope);
    Model::Graded { column: 0, grades: Arc::new(grades.unwrap_or_else(|_| unreachable!())) }
}

fn table_1(from: usize, alphas: &[f64]) -> Outcome {
    let codes: Vec<[u32; 2]> = AGES[from..].iter().map(|age| [*age, 0]).collect();
    let model = graded(&[1, 1, 3, 4, 4, 5], alphas, AlphaScope::Value);
    let input = Input { codes: &codes, values: &TABLE_1[from..], cardinality: 6, keys: &[] };
    let (classes, suppressed) = run(&input, 3, model)?;
    let number = |ids: &[u32]| ids.iter().map(|id| id + 1 + from as u32).collect::<Vec<u32>>();
    Ok((classes.iter().map(|class| number(class)).collect(), number(&suppressed)))
}

#[test]
fn p4_table_1_gives_the_classes_of_its_table_8() {
    let outcome = table_1(0, &[0.34, 0.35, 0.4, 0.45, 0.5]);
    let classes = vec![vec![1, 2, 7], vec![3, 5, 8], vec![4, 9, 10], vec![6, 11, 12]];
    assert_eq!(outcome, Ok((classes, vec![])));
}

#[test]
fn p4_table_1_keeps_an_alpha_that_its_table_8_breaks() {
    // `run` verifies the shares; a class with a level-1 value now has at least four rows.
    let outcome = table_1(0, &[0.3, 0.35, 0.4, 0.45, 0.5]);
    let (classes, suppressed) = outcome.unwrap_or_default();
    assert!(classes.iter().all(|class| class.len() >= 4));
    assert_eq!(classes.iter().map(Vec::len).sum::<usize>() + suppressed.len(), 12);
    assert_eq!(suppressed, Vec::<u32>::new());
}

#[test]
fn mixed_rows_keep_to_the_places_of_their_value() {
    let codes: Vec<[u32; 2]> = (0..300).map(|row| [row, 0]).collect();
    let values: Vec<u32> = (0..300).map(|row| row * row % 4).collect();
    let column = SensitiveColumn {
        name: "s".into(),
        codes: values.clone().into(),
        cardinality: 4,
        ordered: false,
    };
    let model = Model::Share { column: 0, alpha: 0.6 };
    let requirement = Requirement { k: 3, models: vec![model] };
    let classes = |mix: Option<&[u8]>| -> Result<Vec<Vec<u32>>> {
        let job = Job {
            axes: &[],
            requirement: &requirement,
            sensitive: std::slice::from_ref(&column),
            keys: &RowKeys::default(),
            cancel: &Cancel::default(),
        };
        let mut rows = RowTable::from_codes(&codes).ok_or_else(|| Error::bug("too wide"))?;
        let grouping = alpha_k(&mut rows, &job, mix.map(Seed::from_bytes))?;
        let ids = |range: std::ops::Range<usize>| range.map(|at| rows.id_at(at)).collect();
        Ok(grouping.classes.ranges().map(ids).collect())
    };
    let of_values = |classes: &[Vec<u32>]| -> Vec<Vec<u32>> {
        let of_class = |ids: &Vec<u32>| ids.iter().map(|id| values[*id as usize]).collect();
        classes.iter().map(of_class).collect()
    };
    let plain = classes(None).unwrap_or_default();
    let mixed = classes(Some(b"s")).unwrap_or_default();
    assert!(!plain.is_empty());
    assert_eq!(of_values(&plain), of_values(&mixed), "classes keep their values");
    assert_ne!(plain, mixed);
    assert_eq!(mixed, classes(Some(b"s")).unwrap_or_default());
    assert_ne!(mixed, classes(Some(b"t")).unwrap_or_default());
}

#[test]
fn the_example_of_the_module_is_worked_correctly() {
    let outcome = table_1(6, &[0.34, 0.35, 0.4, 0.45, 0.5]);
    assert_eq!(outcome, Ok((vec![vec![7, 8, 10, 12]], vec![9, 11])));
}

#[test]
fn with_one_level_every_value_gives_in_turn() {
    // Four values with 4, 3, 2 and 1 rows, α = 1/2, k = 2: the two largest groups, again and again.
    let values = [0, 0, 0, 0, 1, 1, 1, 2, 2, 3];
    let codes: Vec<[u32; 2]> = (0..10).map(|row| [row, 0]).collect();
    let input = Input { codes: &codes, values: &values, cardinality: 4, keys: &[] };
    let outcome = run(&input, 2, Model::Share { column: 0, alpha: 0.5 });
    let classes = vec![vec![0, 4], vec![1, 5], vec![2, 7], vec![3, 6], vec![8, 9]];
    assert_eq!(outcome, Ok((classes, vec![])));
}

#[test]
fn a_class_grows_to_the_size_at_which_its_shares_come_out_even() {
    // Three values at 0.34 each: four rows cannot be shared out, six can.
    let values: Vec<u32> = (0..12).map(|row| row % 3).collect();
    let codes = [[0, 0]; 12];
    let input = Input { codes: &codes, values: &values, cardinality: 3, keys: &[] };
    let outcome = run(&input, 4, Model::Share { column: 0, alpha: 0.34 });
    let sizes = outcome.map(|(classes, left)| (classes.iter().map(Vec::len).collect(), left.len()));
    assert_eq!(sizes, Ok((vec![6, 6], 0)));
}

#[test]
fn a_value_that_fits_nowhere_does_not_stop_the_others() {
    // The value of level 1 would need a class of 100 rows.
    let values = [0, 1, 2, 1, 2];
    let codes = [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]];
    let input = Input { codes: &codes, values: &values, cardinality: 3, keys: &[] };
    let model = graded(&[1, 2, 3], &[0.01, 0.5, 0.5], AlphaScope::Value);
    assert_eq!(run(&input, 2, model), Ok((vec![vec![1, 2], vec![3, 4]], vec![0])));
}

#[test]
fn leftovers_prefer_classes_far_from_their_level() {
    // One value per level. Level 4 is too rare for classes of two; its row joins levels 1 and 2
    // rather than 1 and 3, although that class was made first.
    let values = [0, 0, 1, 2, 3];
    let codes: Vec<[u32; 2]> = (0..5).map(|row| [row, 0]).collect();
    let input = Input { codes: &codes, values: &values, cardinality: 4, keys: &[] };
    let model = graded(&[1, 2, 3, 4], &[0.5, 0.5, 0.5, 0.34], AlphaScope::Value);
    assert_eq!(run(&input, 2, model), Ok((vec![vec![0, 3], vec![1, 2, 4]], vec![])));
}

#[test]
fn nothing_to_publish_is_an_error_without_values() {
    let codes = [[0, 0]; 4];
    let input = Input { codes: &codes, values: &[0; 4], cardinality: 1, keys: &[] };
    let outcome = run(&input, 2, Model::Share { column: 0, alpha: 0.5 });
    let requirement = "k = 2 and alpha = 0.5 on column 'Disease'".to_owned();
    assert_eq!(outcome, Err(Error::NoClass { requirement }));
    let outcome = run(&input, 5, Model::Share { column: 0, alpha: 0.5 });
    assert_eq!(outcome, Err(Error::TooFewRows { rows: 4, k: 5 }));
}

#[test]
fn models_it_cannot_honour_are_refused() {
    let input = Input { codes: &[[0, 0]; 4], values: &[0, 1, 0, 1], cardinality: 2, keys: &[] };
    let outcome = run(&input, 2, Model::Distinct { column: 0, at_least: 2, unit: false });
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
    ) {
        let model = model_of(alphas, scope);
        let input = Input { codes: &codes, values: &values, cardinality: 7, keys: &[] };
        match run(&input, k, model.clone()) {
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
    ) {
        let n = codes.len();
        // A key that depends on the row's content only, as a keyed hash would.
        let key = |value: u32| u64::from(value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let classes_from = |order: &[usize]| {
            let codes: Vec<[u32; 2]> = order.iter().map(|row| codes[*row]).collect();
            let values: Vec<u32> = order.iter().map(|row| values[*row]).collect();
            let keys: Vec<u64> = values.iter().map(|value| key(*value)).collect();
            let input = Input { codes: &codes, values: &values, cardinality: 7, keys: &keys };
            let content = |ids: &[u32]| {
                let row = |id: &u32| (codes[*id as usize], values[*id as usize]);
                let mut rows: Vec<([u32; 2], u32)> = ids.iter().map(row).collect();
                rows.sort_unstable();
                rows
            };
            run(&input, k, model_of(alphas, scope)).map(|(classes, suppressed)| {
                let classes: Vec<_> = classes.iter().map(|class| content(class)).collect();
                (classes, content(&suppressed))
            })
        };
        let order: Vec<usize> = (0..n).collect();
        let shuffled: Vec<usize> = (0..n).rev().map(|row| (row + shift) % n).collect();
        prop_assert_eq!(classes_from(&order), classes_from(&shuffled));
    }
}
