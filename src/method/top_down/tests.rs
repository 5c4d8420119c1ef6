//! The promises of `top_down` on worked and random tables.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::error::Error;
use crate::hierarchy::LabelTable;
use crate::measure::loss;
use crate::model::{
    AlphaScope, Cancel, Grades, Model, Requirement, RowKeys, SensitiveColumn, check_classes,
};

/// Row numbers of each class, smallest first, and the loss of the release.
fn run<const D: usize>(
    codes: &[[u32; D]],
    axes: &[Axis],
    requirement: &Requirement,
    sensitive: &[SensitiveColumn],
) -> Result<(Vec<Vec<u32>>, f64)> {
    let values = sensitive.iter().flat_map(|column| &column.codes);
    let keys = RowKeys { ties: values.map(|c| u64::from(*c)).collect(), kept: Vec::new().into() };
    let cancel = Cancel::default();
    let job = Job { axes, requirement, sensitive, keys: &keys, cancel: &cancel };
    let mut rows = RowTable::from_codes(codes).ok_or_else(|| Error::bug("too wide"))?;
    let classes = top_down(&mut rows, &job)?;
    let id_at = |at: usize| rows.id_at(at);
    check_classes(&id_at, codes.len(), &classes, requirement, sensitive)?;
    let ids = |range: std::ops::Range<usize>| {
        let mut ids: Vec<u32> = range.map(id_at).collect();
        ids.sort_unstable();
        ids
    };
    let axes: Vec<&Axis> = axes.iter().collect();
    Ok((classes.ranges().map(ids).collect(), loss(&rows, &classes, &axes)))
}

#[test]
fn the_example_of_the_module_is_worked_correctly() {
    let axes = [Axis::line(&[20.0, 21.0, 22.0, 23.0, 24.0, 60.0], false)];
    let codes = [[0], [1], [2], [3], [4], [5]];
    let outcome = run(&codes, &axes, &Requirement::k(2), &[]);
    let classes = outcome.map(|outcome| outcome.0);
    assert_eq!(classes, Ok(vec![vec![0, 1], vec![2, 3], vec![4, 5]]));
}

fn letters() -> Axis {
    let table = LabelTable::parse("a;x;*\nb;x;*\nc;x;*\nd;y;*\ne;y;*\nf;z;*\n");
    let levels = table.map(|table| table.levels_over(&[0, 1, 2, 3, 4, 5])).unwrap_or_default();
    Axis::tree(Tree::new(&levels, 6, false).0, false)
}

#[test]
fn a_hierarchy_is_walked_down_child_by_child() {
    // Under x: a twice, b twice; under y: d once, e once; f twice is its own child.
    let codes = [[0], [0], [1], [1], [3], [4], [5], [5]];
    let outcome = run(&codes, &[letters()], &Requirement::k(2), &[]);
    let classes = outcome.map(|outcome| outcome.0);
    assert_eq!(classes, Ok(vec![vec![4, 5], vec![6, 7], vec![0, 1], vec![2, 3]]));
}

#[test]
fn rows_that_stay_behind_are_one_group_of_the_parent() {
    // One d and one f: neither child holds, together they stay behind.
    let codes = [[0], [0], [0], [3], [5]];
    let outcome = run(&codes, &[letters()], &Requirement::k(2), &[]);
    assert_eq!(outcome.map(|outcome| outcome.0), Ok(vec![vec![0, 1, 2], vec![3, 4]]));
}

#[test]
fn missing_values_part_from_all_others() {
    let axes = [Axis::line(&[1.0, 2.0, 9.0], true)];
    let codes = [[0], [0], [1], [2], [3], [3]];
    let outcome = run(&codes, &axes, &Requirement::k(2), &[]);
    assert_eq!(outcome.map(|outcome| outcome.0), Ok(vec![vec![0, 1], vec![2, 3], vec![4, 5]]));
}

#[test]
fn tables_that_cannot_hold_the_requirement_are_errors() {
    let axes = [Axis::set(2, false)];
    let column = SensitiveColumn {
        name: "s".into(),
        codes: vec![0; 4].into(),
        cardinality: 1,
        ordered: false,
    };
    let requirement = Requirement { k: 2, models: vec![Model::Share { column: 0, alpha: 0.5 }] };
    let outcome = run(&[[0], [1], [0], [1]], &axes, &requirement, &[column]);
    assert!(matches!(outcome, Err(Error::Unsatisfiable { .. })));
    let outcome = run(&[[0]], &axes, &Requirement::k(2), &[]);
    assert_eq!(outcome, Err(Error::TooFewRows { rows: 1, k: 2 }));
}

fn table() -> impl Strategy<Value = Vec<([u32; 3], u32)>> {
    prop::collection::vec(((0u32..30, 0u32..6, 0u32..4), 0u32..5), 1..250).prop_map(|rows| {
        let row = |((a, b, c), value): ((u32, u32, u32), u32)| {
            // Squares leave gaps and a long tail; half of the values are one.
            ([a * a / 30, b, c], if value > 2 { 4 } else { value })
        };
        rows.into_iter().map(row).collect()
    })
}

fn axes() -> Vec<Axis> {
    let squares: Vec<f64> = (1..30).map(|n| f64::from(n * n)).collect();
    vec![Axis::line(&squares, true), letters(), Axis::set(4, false)]
}

fn requirement(k: u32, which: usize) -> Requirement {
    let graded = |alphas: [f64; 2], scope| {
        let grades = Grades::new(vec![1, 1, 1, 2, 2], alphas.to_vec(), scope);
        let grades = Arc::new(grades.unwrap_or_else(|_| unreachable!()));
        Model::Graded { column: 0, grades }
    };
    let models = match which {
        0 => vec![],
        1 => vec![Model::Share { column: 0, alpha: 0.6 }],
        2 => vec![Model::Distinct { column: 0, at_least: 3, unit: false }],
        3 => vec![graded([0.4, 0.6], AlphaScope::Value)],
        _ => vec![graded([0.7, 0.6], AlphaScope::Level)],
    };
    Requirement { k, models }
}

fn split(rows: &[([u32; 3], u32)]) -> (Vec<[u32; 3]>, SensitiveColumn) {
    let (codes, values): (Vec<[u32; 3]>, Vec<u32>) = rows.iter().copied().unzip();
    let name = "s".into();
    (codes, SensitiveColumn { name, codes: values.into(), cardinality: 5, ordered: false })
}

proptest! {
    // `run` verifies the classes by the second code path.
    #[test]
    fn every_class_holds_and_loss_is_not_above_the_top(
        rows in table(),
        k in 2u32..12,
        which in 0usize..5,
    ) {
        let (codes, column) = split(&rows);
        let one_class = |axes: &[Axis]| {
            let table = RowTable::from_codes(&codes)?;
            let classes = Classes::from_sizes(&[codes.len() as u32]).ok()?;
            Some(loss(&table, &classes, &axes.iter().collect::<Vec<_>>()))
        };
        match run(&codes, &axes(), &requirement(k, which), &[column]) {
            Ok((_, loss)) => prop_assert!(Some(loss) <= one_class(&axes()).map(|top| top + 1e-9)),
            Err(Error::TooFewRows { .. } | Error::Unsatisfiable { .. }) => {}
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }

    #[test]
    fn neither_order_nor_numbers_of_rows_matter(
        rows in table(),
        k in 2u32..12,
        which in 0usize..5,
        shift in 0usize..250,
    ) {
        let n = rows.len();
        let classes_of = |rows: &[([u32; 3], u32)]| {
            let (codes, column) = split(rows);
            let outcome = run(&codes, &axes(), &requirement(k, which), &[column]);
            outcome.map(|(classes, _)| {
                let content = |class: &Vec<u32>| {
                    let mut class: Vec<_> = class.iter().map(|id| rows[*id as usize]).collect();
                    class.sort_unstable();
                    class
                };
                classes.iter().map(content).collect::<Vec<_>>()
            })
        };
        let shuffled: Vec<_> = (0..n).rev().map(|row| rows[(row + shift) % n]).collect();
        prop_assert_eq!(classes_of(&rows), classes_of(&shuffled));
    }
}
