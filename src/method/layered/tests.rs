//! The promises of layered freezing on random tables, and the worked table.

use proptest::prelude::*;

use super::*;
use crate::hierarchy::{Axis, LabelTable, Tree};
use crate::method::partition::partition;
use crate::model::{
    AlphaScope, Cancel, Grades, Model, Placement, Requirement, RowKeys, SensitiveColumn,
    check_placement,
};

const SPLITS: [Split; 2] = [Split::LeastLoss, Split::Widest];

/// A line, a hierarchy of 27 leaves in nines and threes, and a set; code 0 of the line is missing.
fn axes() -> Vec<Axis> {
    let values: Vec<f64> = (0..40).map(f64::from).collect();
    let leaf = |at: usize| format!("{at};third {};ninth {};*\n", at / 3, at / 9);
    let table = LabelTable::parse(&(0..27).map(leaf).collect::<String>());
    let leaves: Vec<usize> = (0..27).collect();
    let levels = table.map(|table| table.levels_over(&leaves)).unwrap_or_default();
    let (tree, _) = Tree::new(&levels, 27, false);
    vec![Axis::line(&values, true), Axis::tree(tree, false), Axis::set(20, false)]
}

/// The row numbers of every class, and the number of suppressed rows. Verifies them on the way.
fn run(
    codes: &[[u32; 3]],
    requirement: &Requirement,
    sensitive: &[SensitiveColumn],
    options: Options,
) -> Result<(Vec<Vec<u32>>, usize)> {
    let axes = axes();
    let of_row = |row: usize| sensitive.iter().map(|column| u64::from(column.codes[row])).sum();
    let keys = RowKeys {
        ties: (0..codes.len()).map(of_row).collect::<Vec<u64>>().into(),
        kept: Vec::new().into(),
    };
    let cancel = Cancel::default();
    let job = Job { axes: &axes, requirement, sensitive, keys: &keys, cancel: &cancel };
    let mut rows = RowTable::from_codes(codes).ok_or_else(|| Error::bug("too wide"))?;
    let Layered { classes, suppressed } = layered(&mut rows, &job, &options)?;
    let placement =
        Placement { id_at: &|at| rows.id_at(at), rows: codes.len(), classes: &classes, suppressed };
    check_placement(&placement, requirement, sensitive)?;
    let ids = |range: std::ops::Range<usize>| {
        let mut ids: Vec<u32> = range.map(|at| rows.id_at(at)).collect();
        ids.sort_unstable();
        ids
    };
    Ok((classes.ranges().map(ids).collect(), suppressed))
}

fn table() -> impl Strategy<Value = Vec<[u32; 3]>> {
    let skewed = (0u32..41, 0u32..27, 0u32..20, 0u32..3).prop_map(|(a, b, c, few)| match few {
        0 => [a, b, c],
        1 => [a % 4, b % 5, c % 2],
        _ => [1 + a % 2, 3, c % 2],
    });
    proptest::collection::vec(skewed, 2..400)
}

fn options(split: usize, suppress: bool) -> Options {
    Options { split: SPLITS[split], suppress }
}

#[test]
fn the_worked_table_freezes_equal_ages_first() {
    let ages = [21., 30., 31., 50., 58., 90.];
    let codes = [[0], [0], [1], [2], [3], [4], [5]];
    let axes = [Axis::line(&ages, false)];
    let (requirement, keys, cancel) = (Requirement::k(2), RowKeys::default(), Cancel::default());
    let job = Job {
        axes: &axes,
        requirement: &requirement,
        sensitive: &[],
        keys: &keys,
        cancel: &cancel,
    };
    for suppress in [false, true] {
        let mut rows = RowTable::from_codes(&codes).unwrap_or_else(|| unreachable!());
        let outcome = layered(&mut rows, &job, &Options { split: Split::LeastLoss, suppress });
        let classes = outcome.map(|outcome| outcome.classes).unwrap_or_default();
        let ids = |range: std::ops::Range<usize>| range.map(|at| rows.id_at(at)).collect();
        let classes: Vec<Vec<u32>> = classes.ranges().map(ids).collect();
        assert_eq!(classes[..2], [vec![0, 1], vec![2, 3]]);
        assert_eq!(classes[2], if suppress { vec![5, 6] } else { vec![4, 5, 6] });
    }
}

#[test]
fn fewer_rows_than_k_are_an_error() {
    let outcome = run(&[[1, 2, 3]; 4], &Requirement::k(5), &[], options(0, true));
    assert_eq!(outcome, Err(Error::TooFewRows { rows: 4, k: 5 }));
}

#[test]
fn work_that_nobody_wants_any_more_stops() {
    let axes = axes();
    let (requirement, keys, cancel) = (Requirement::k(2), RowKeys::default(), Cancel::default());
    let job = Job {
        axes: &axes,
        requirement: &requirement,
        sensitive: &[],
        keys: &keys,
        cancel: &cancel,
    };
    cancel.cancel();
    let mut rows = RowTable::from_codes(&[[1, 2, 3]; 9]).unwrap_or_else(|| unreachable!());
    assert_eq!(layered(&mut rows, &job, &options(0, false)), Err(Error::Cancelled));
}

#[test]
fn several_blocks_make_one_release() {
    let next = |at: u32| at.wrapping_mul(2_654_435_761) >> 7;
    let row = |at: u32| [next(at) % 41, (next(at) >> 8) % 27, (next(at) >> 16) % 20];
    let codes: Vec<[u32; 3]> = (0..2_077).map(row).collect();
    let (axes, keys, cancel) = (axes(), RowKeys::default(), Cancel::default());
    let requirement = Requirement::k(7);
    let job = Job {
        axes: &axes,
        requirement: &requirement,
        sensitive: &[],
        keys: &keys,
        cancel: &cancel,
    };
    for suppress in [false, true] {
        let mut table = RowTable::from_codes(&codes).unwrap_or_else(|| unreachable!());
        let RowTable::Byte8(rows) = &mut table else { unreachable!() };
        let outcome = layered_rows(rows, &job, &options(0, suppress), 700);
        let Layered { classes, suppressed } = outcome.unwrap_or_else(|_| unreachable!());
        let placement =
            Placement { id_at: &|at| rows[at].id, rows: rows.len(), classes: &classes, suppressed };
        assert_eq!(check_placement(&placement, &requirement, &[]), Ok(()));
        assert!(classes.ranges().all(|class| class.len() < 14));
        // At most three blocks with fewer than k rows each, and none that is not asked for.
        assert_eq!(suppressed > 0, suppress);
        assert!(suppressed < 3 * 7, "{suppressed}");
    }
}

#[test]
fn models_cost_no_more_than_plain_cuts() {
    let next = |at: u32| at.wrapping_mul(2_654_435_761) >> 7;
    let row = |at: u32| [next(at) % 41, (next(at) >> 8) % 27, (next(at) >> 16) % 20];
    let codes: Vec<[u32; 3]> = (0..3_000).map(row).collect();
    // One row in sixteen has the rare value, and no class may have more than one in ten of it.
    let values: Vec<u32> = (0..3_000).map(|at| u32::from(next(at) >> 20 & 15 == 0)).collect();
    let column =
        SensitiveColumn { name: "s".into(), codes: values.into(), cardinality: 2, ordered: false };
    let sensitive = [column];
    for model in [
        Model::Closeness { column: 0, t: 0.04, population: None },
        Model::Distinct { column: 0, at_least: 2, unit: false },
    ] {
        let requirement = Requirement { k: 5, models: vec![model] };
        let (axes, keys, cancel) = (axes(), RowKeys::default(), Cancel::default());
        let job = Job {
            axes: &axes,
            requirement: &requirement,
            sensitive: &sensitive,
            keys: &keys,
            cancel: &cancel,
        };
        let axes: Vec<&Axis> = axes.iter().collect();
        let loss = |method: &dyn Fn(&mut RowTable) -> Result<Classes>| {
            let mut rows = RowTable::from_codes(&codes).unwrap_or_else(|| unreachable!());
            let classes = method(&mut rows).unwrap_or_else(|_| unreachable!());
            crate::measure::loss(&rows, &classes, &axes)
        };
        let layered = loss(&|rows| Ok(layered(rows, &job, &options(0, false))?.classes));
        let rounded = loss(&|rows| partition(rows, &job, Cut::Rounded, Split::LeastLoss));
        assert!(layered <= rounded, "{layered} {rounded}");
    }
}

proptest! {
    #[test]
    fn classes_end_between_k_and_twice_k(codes in table(), k in 2u32..12, split in 0usize..2, suppress: bool) {
        prop_assume!(codes.len() >= k as usize);
        let (classes, suppressed) = run(&codes, &Requirement::k(k), &[], options(split, suppress))?;
        prop_assert!(suppress || suppressed == 0);
        prop_assert!(suppressed < k as usize);
        prop_assert!(classes.iter().all(|class| class.len() < 2 * k as usize));
    }

    #[test]
    fn every_model_holds_in_every_class(
        codes in table(), values in proptest::collection::vec(0u32..6, 400), k in 2u32..8,
        which in 0usize..7, split in 0usize..2, suppress: bool,
    ) {
        let unit = which == 6;
        let value = |at: usize| if unit { at as u32 / 3 } else { [0, 1, 2, 3, 4, 4][values[at] as usize] };
        let values: Vec<u32> = (0..codes.len()).map(value).collect();
        let cardinality = if unit { 200 } else { 5 };
        let column = SensitiveColumn { name: "s".into(), codes: values.into(), cardinality, ordered: true };
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
            Model::Distinct { column: 0, at_least: k, unit: true },
        ][which].clone();
        let requirement = Requirement { k, models: vec![model] };
        // `run` verifies the classes by the second code path.
        match run(&codes, &requirement, &[column], options(split, suppress)) {
            Ok((_, suppressed)) => prop_assert!(suppress || suppressed == 0),
            Err(Error::TooFewRows { .. } | Error::Unsatisfiable { .. }) => {}
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }

    #[test]
    fn the_order_of_the_rows_does_not_matter(
        codes in table(), k in 2u32..10, split in 0usize..2, suppress: bool, shift in 0usize..400,
    ) {
        prop_assume!(codes.len() >= k as usize);
        let n = codes.len();
        let rotated: Vec<[u32; 3]> = (0..n).map(|i| codes[(i + shift) % n]).collect();
        let tuples = |codes: &[[u32; 3]]| {
            let outcome = run(codes, &Requirement::k(k), &[], options(split, suppress));
            let (classes, _) = outcome.unwrap_or_default();
            let tuple = |class: &Vec<u32>| {
                let mut tuples: Vec<[u32; 3]> = class.iter().map(|id| codes[*id as usize]).collect();
                tuples.sort_unstable();
                tuples
            };
            classes.iter().map(tuple).collect::<Vec<_>>()
        };
        prop_assert_eq!(tuples(&codes), tuples(&rotated));
    }

    /// Without refinement a mistake in the layers could hide behind it, and the other way round: the
    /// loss must never be above that of one class for all.
    #[test]
    fn refinement_never_adds_loss(codes in table(), k in 2u32..10) {
        prop_assume!(codes.len() >= k as usize);
        let axes = axes();
        let (requirement, keys, cancel) = (Requirement::k(k), RowKeys::default(), Cancel::default());
        let job = Job { axes: &axes, requirement: &requirement, sensitive: &[], keys: &keys, cancel: &cancel };
        let global = GlobalShares::new(&requirement, &[]);
        let losses = Losses::new(&axes);
        let context = Context { job: &job, losses, global: &global, split: Split::LeastLoss, refined: 1.0 };
        let mut table = RowTable::from_codes(&codes).unwrap_or_else(|| unreachable!());
        let RowTable::Byte8(rows) = &mut table else { unreachable!() };
        rows.sort_unstable_by(|a, b| a.canonical_order(b, &keys));
        let mut cutter = Cutter::new(&context);
        let (mut classes, left) = Layers::new(&mut cutter, rows).run(2 * k as usize)?;
        leftovers::place(&mut cutter, &mut classes, left)?;
        let total = |classes: &[Class<u8, 8>]| classes.iter().map(Class::total).sum::<f64>();
        let before = total(&classes);
        let refined = refine::refine(classes, &context)?;
        prop_assert!(total(&refined) <= before + 1e-6);
        for class in &refined {
            prop_assert_eq!(class.bounds, crate::method::bounds::Bounds::of(&class.rows));
            prop_assert_eq!(class.loss, context.losses.of(&class.bounds));
        }
    }
}
