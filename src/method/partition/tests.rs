//! The worked tables of paper P1 and the promises of the partition methods on random tables.

use proptest::prelude::*;

use super::*;
use crate::error::Error;
use crate::hierarchy::Axis;
use crate::model::{AlphaScope, Cancel, Grades, Model, Requirement, RowKeys, SensitiveColumn};

const CUTS: [Cut; 3] = [Cut::Rounded, Cut::Strict, Cut::Relaxed];
const SPLITS: [Split; 2] = [Split::LeastLoss, Split::Widest];

/// Class sizes and the row numbers of each class, smallest first.
fn run(
    codes: &[[u32; 3]],
    requirement: &Requirement,
    sensitive: &[SensitiveColumn],
    (cut, split): (Cut, Split),
) -> Result<Vec<Vec<u32>>> {
    let values: Vec<f64> =
        (0..=codes.iter().flatten().max().copied().unwrap_or(0)).map(f64::from).collect();
    let axes = vec![Axis::line(&values, false); 3];
    let sensitive_keys: Vec<u64> =
        sensitive.iter().flat_map(|column| &column.codes).map(|c| u64::from(*c)).collect();
    let keys = RowKeys { ties: sensitive_keys.into(), kept: Vec::new().into() };
    let cancel = Cancel::default();
    let job = Job { axes: &axes, requirement, sensitive, keys: &keys, cancel: &cancel };
    let mut rows = RowTable::from_codes(codes).ok_or_else(|| Error::bug("too wide"))?;
    let classes = partition(&mut rows, &job, cut, split)?;
    crate::model::check_classes(
        &|at| rows.id_at(at),
        codes.len(),
        &classes,
        requirement,
        sensitive,
    )?;
    let ids = |range: std::ops::Range<usize>| {
        let mut ids: Vec<u32> = range.map(|at| rows.id_at(at)).collect();
        ids.sort_unstable();
        ids
    };
    Ok(classes.ranges().map(ids).collect())
}

fn sizes(n: usize, k: u32, cut: Cut) -> Vec<usize> {
    let codes: Vec<[u32; 3]> = (0..n as u32).map(|i| [i, i * 7 % 13, 0]).collect();
    let classes = run(&codes, &Requirement::k(k), &[], (cut, Split::Widest));
    classes.unwrap_or_default().iter().map(Vec::len).collect()
}

#[test]
fn p1_table_1_gives_three_classes_of_two() {
    let codes = [[0, 0, 0], [0, 2, 0], [1, 1, 0], [2, 1, 0], [3, 0, 0], [3, 2, 0]];
    for split in SPLITS {
        let classes = run(&codes, &Requirement::k(2), &[], (Cut::Rounded, split));
        assert_eq!(classes, Ok(vec![vec![0, 1], vec![2, 3], vec![4, 5]]), "{split:?}");
    }
    // Halving makes only two classes, of three rows each.
    let halved = run(&codes, &Requirement::k(2), &[], (Cut::Relaxed, Split::Widest));
    assert_eq!(halved.map(|classes| classes.len()), Ok(2));
}

#[test]
fn p1_figure_4_is_cut_five_to_two() {
    // Counters {0, 3, 1, 0, 1, 2} with k = 2: α = 3, β = 1.
    let values = [1, 1, 1, 2, 4, 5, 5];
    let codes = values.map(|value| [value, 0, 0]);
    let classes = run(&codes, &Requirement::k(2), &[], (Cut::Rounded, Split::Widest));
    let last = classes.map(|classes| classes.last().cloned());
    assert_eq!(last, Ok(Some(vec![5, 6])));
}

#[test]
fn strict_cuts_never_part_equal_values() {
    let codes: Vec<[u32; 3]> = (0..40).map(|i| [u32::from(i >= 9), 0, 0]).collect();
    let classes = run(&codes, &Requirement::k(5), &[], (Cut::Strict, Split::Widest));
    assert_eq!(classes.map(|c| c.iter().map(Vec::len).collect::<Vec<_>>()), Ok(vec![9, 31]));
}

#[test]
fn fewer_rows_than_k_are_an_error() {
    for cut in CUTS {
        let outcome = run(&[[1, 2, 3]; 4], &Requirement::k(5), &[], (cut, Split::LeastLoss));
        assert_eq!(outcome, Err(Error::TooFewRows { rows: 4, k: 5 }));
    }
}

#[test]
fn a_table_that_cannot_hold_the_models_is_an_error() {
    let column = SensitiveColumn {
        name: "s".into(),
        codes: vec![0; 8].into(),
        cardinality: 1,
        ordered: false,
    };
    let models = vec![Model::Distinct { column: 0, at_least: 2, unit: false }];
    let outcome = run(
        &[[1, 2, 3]; 8],
        &Requirement { k: 2, models },
        &[column],
        (Cut::Rounded, Split::Widest),
    );
    assert_eq!(outcome, Err(Error::Unsatisfiable { requirement: "l = 2 on column 's'".into() }));
}

#[test]
fn a_cancelled_partition_stops() {
    let cancel = Cancel::default();
    cancel.cancel();
    let axes = vec![Axis::line(&[0.0, 1.0], false)];
    let requirement = Requirement::k(2);
    let keys = RowKeys::default();
    let job = Job {
        axes: &axes,
        requirement: &requirement,
        sensitive: &[],
        keys: &keys,
        cancel: &cancel,
    };
    let table = RowTable::from_codes(&[[0], [1], [0], [1]]);
    let outcome = table.map(|mut rows| partition(&mut rows, &job, Cut::Rounded, Split::Widest));
    assert_eq!(outcome, Some(Err(Error::Cancelled)));
}

fn table() -> impl Strategy<Value = Vec<[u32; 3]>> {
    // From all-equal columns through heavy ties to columns of nearly unique values.
    (1u32..4, 1u32..9, 1u32..1000).prop_flat_map(|(a, b, c)| {
        prop::collection::vec((0..a, 0..b, 0..c).prop_map(|(a, b, c)| [a, b, c]), 1..400)
    })
}

proptest! {
    #[test]
    fn p1_theorems_1_and_2_hold(codes in table(), k in 2u32..30, widest: bool) {
        let split = SPLITS[usize::from(widest)];
        let outcome = run(&codes, &Requirement::k(k), &[], (Cut::Rounded, split));
        let (n, size) = (codes.len(), k as usize);
        if n < size {
            prop_assert_eq!(outcome, Err(Error::TooFewRows { rows: n, k }));
            return Ok(());
        }
        let classes = outcome.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let (alpha, beta) = (n / size, n % size);
        prop_assert_eq!(classes.len(), alpha);
        let bound = size + beta.div_ceil(1 << alpha.ilog2());
        prop_assert!(classes.iter().all(|class| (size..=bound).contains(&class.len())));
    }

    #[test]
    fn p1_corollary_2_holds(k in 2u32..12, extra in 0usize..200) {
        let n = 2 * (k * k) as usize + extra;
        let sizes = sizes(n, k, Cut::Rounded);
        let largest = k as usize + usize::from(!n.is_multiple_of(k as usize));
        prop_assert!(sizes.iter().all(|size| (k as usize..=largest).contains(size)));
    }

    #[test]
    fn relaxed_classes_are_below_2k(codes in table(), k in 2u32..30, widest: bool) {
        prop_assume!(codes.len() >= k as usize);
        let outcome = run(&codes, &Requirement::k(k), &[], (Cut::Relaxed, SPLITS[usize::from(widest)]));
        let classes = outcome.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(classes.iter().all(|class| class.len() < 2 * k as usize));
    }

    #[test]
    fn strict_classes_never_share_a_tuple(codes in table(), k in 2u32..30) {
        prop_assume!(codes.len() >= k as usize);
        let outcome = run(&codes, &Requirement::k(k), &[], (Cut::Strict, Split::LeastLoss));
        let classes = outcome.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let mut class_of = std::collections::HashMap::new();
        for (index, class) in classes.iter().enumerate() {
            for id in class {
                let known = *class_of.entry(codes[*id as usize]).or_insert(index);
                prop_assert_eq!(known, index);
            }
        }
    }

    #[test]
    fn models_hold_for_every_cut(
        codes in table(),
        seed in any::<u64>(),
        k in 2u32..10,
        cut in 0usize..3,
        which in 0usize..7,
    ) {
        let value = |i: usize| (seed.rotate_left(i as u32 % 64).wrapping_mul(i as u64 + 1) >> 7) as u32 % 5;
        let values: Vec<u32> = (0..codes.len()).map(value).collect();
        let column = SensitiveColumn { name: "s".into(), codes: values.into(), cardinality: 5, ordered: true };
        let graded = |alphas: [f64; 2], scope| {
            let grades = Grades::new(vec![1, 1, 2, 2, 2], alphas.to_vec(), scope);
            let grades = grades.unwrap_or_else(|_| unreachable!());
            Model::Graded { column: 0, grades: std::sync::Arc::new(grades) }
        };
        let model = [
            Model::Distinct { column: 0, at_least: 3, unit: false },
            Model::Entropy { column: 0, l: 2.5 },
            Model::Closeness { column: 0, t: 0.2, population: None },
            Model::Share { column: 0, alpha: 0.45 },
            graded([0.35, 0.5], AlphaScope::Value),
            graded([0.55, 0.75], AlphaScope::Level),
            Model::UnitShare { column: 0, at_most: 0.4 },
        ][which].clone();
        let requirement = Requirement { k, models: vec![model] };
        // `run` verifies the classes by the second code path.
        match run(&codes, &requirement, &[column], (CUTS[cut], Split::LeastLoss)) {
            Ok(_) | Err(Error::TooFewRows { .. } | Error::Unsatisfiable { .. }) => {}
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }

    #[test]
    fn the_order_of_the_rows_does_not_matter(codes in table(), k in 2u32..10, cut in 0usize..3, shift in 0usize..400) {
        prop_assume!(codes.len() >= k as usize);
        let n = codes.len();
        let rotated: Vec<[u32; 3]> = (0..n).map(|i| codes[(i + shift) % n]).collect();
        let tuples = |codes: &[[u32; 3]]| {
            let classes = run(codes, &Requirement::k(k), &[], (CUTS[cut], Split::LeastLoss)).unwrap_or_default();
            let tuple = |class: &Vec<u32>| {
                let mut tuples: Vec<[u32; 3]> = class.iter().map(|id| codes[*id as usize]).collect();
                tuples.sort_unstable();
                tuples
            };
            classes.iter().map(tuple).collect::<Vec<_>>()
        };
        prop_assert_eq!(tuples(&codes), tuples(&rotated));
    }
}
