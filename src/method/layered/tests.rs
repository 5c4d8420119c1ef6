//! The worked table of layered freezing, and what it promises beyond every method.

use proptest::prelude::*;

use super::*;
use crate::hierarchy::Axis;
use crate::method::Variant;
use crate::method::partition::{self, partition};
use crate::method::testing::Table;
use crate::model::{Model, Placement, RowKeys, check_placement};

/// A line, a hierarchy of 27 leaves in threes and nines, and a set; code 0 of the line is missing.
fn axes() -> Vec<Axis> {
    let values: Vec<f64> = (0..40).map(f64::from).collect();
    let leaf = |at: usize| format!("{at};third {};ninth {};*\n", at / 3, at / 9);
    let tree = Axis::of_labels(&(0..27).map(leaf).collect::<String>(), false);
    vec![Axis::line(&values, true), tree, Axis::set(20, false)]
}

fn plain(suppress: bool) -> Options {
    Options { split: Split::LeastLoss, suppress }
}

fn formed(rows: &mut RowTable, job: &Job, options: &Options) -> Result<(Classes, usize)> {
    layered(rows, job, options).map(|Layered { classes, suppressed }| (classes, suppressed))
}

fn table() -> impl Strategy<Value = Vec<[u32; 3]>> {
    let skewed = (0u32..41, 0u32..27, 0u32..20, 0u32..3).prop_map(|(a, b, c, few)| match few {
        0 => [a, b, c],
        1 => [a % 4, b % 5, c % 2],
        _ => [1 + a % 2, 3, c % 2],
    });
    proptest::collection::vec(skewed, 2..400)
}

/// Rows that have nothing to do with each other.
fn scattered(rows: u32) -> Vec<[u32; 3]> {
    let row = |at: u32| [drawn(at) % 41, (drawn(at) >> 8) % 27, (drawn(at) >> 16) % 20];
    (0..rows).map(row).collect()
}

fn drawn(at: u32) -> u32 {
    at.wrapping_mul(2_654_435_761) >> 7
}

#[test]
fn the_worked_table_freezes_equal_ages_first() -> Result<()> {
    let ages = Axis::line(&[21., 30., 31., 50., 58., 90.], false);
    let table = Table::new(vec![ages], vec![[0], [0], [1], [2], [3], [4], [5]], 2);
    for suppress in [false, true] {
        let release = table.form(|rows, job| formed(rows, job, &plain(suppress)))?;
        assert_eq!(release.classes[..2], [vec![0, 1], vec![2, 3]]);
        assert_eq!(release.classes[2], if suppress { vec![5, 6] } else { vec![4, 5, 6] });
    }
    Ok(())
}

#[test]
fn several_blocks_make_one_release() -> Result<()> {
    let table = Table::new(axes(), scattered(2_077), 7);
    for suppress in [false, true] {
        let RowTable::Byte8(mut rows) = table.rows()? else { unreachable!() };
        let Layered { classes, suppressed } =
            layered_rows(&mut rows, &table.job(), &plain(suppress), 700)?;
        let placement =
            Placement { id_at: &|at| rows[at].id, rows: rows.len(), classes: &classes, suppressed };
        assert_eq!(check_placement(&placement, &table.requirement, &[]), Ok(()));
        assert!(classes.ranges().all(|class| class.len() < 14));
        // At most three blocks with fewer than k rows each, and none that is not asked for.
        assert_eq!(suppressed > 0, suppress);
        assert!(suppressed < 3 * 7, "{suppressed}");
    }
    Ok(())
}

#[test]
fn models_cost_no_more_than_plain_cuts() -> Result<()> {
    // One row in sixteen has the rare value, and no class may have more than one in ten of it.
    let values: Vec<u32> = (0..3_000).map(|at| u32::from(drawn(at) >> 20 & 15 == 0)).collect();
    for model in [
        Model::Closeness { column: 0, t: 0.04, population: None },
        Model::Distinct { column: 0, at_least: 2, unit: false },
    ] {
        let table = Table::new(axes(), scattered(3_000), 5).sensitive(&values, model);
        let table = Table { keys: RowKeys::default(), ..table };
        let layered = table.form(|rows, job| formed(rows, job, &plain(false)))?.loss;
        let cuts = partition::Options {
            cut: Cut::Rounded,
            split: Split::LeastLoss,
            variant: Variant::Best,
        };
        let rounded = table.form(|rows, job| Ok((partition(rows, job, cuts)?, 0)))?;
        assert!(layered <= rounded.loss, "{layered} {}", rounded.loss);
    }
    Ok(())
}

proptest! {
    #[test]
    fn classes_end_between_k_and_twice_k(codes in table(), k in 2u32..12, widest: bool, suppress: bool) {
        prop_assume!(codes.len() >= k as usize);
        let split = if widest { Split::Widest } else { Split::LeastLoss };
        let table = Table::new(axes(), codes, k);
        let release = table.form(|rows, job| formed(rows, job, &Options { split, suppress }))?;
        prop_assert!(suppress || release.suppressed.is_empty());
        prop_assert!(release.suppressed.len() < k as usize);
        prop_assert!(release.sizes().iter().all(|size| *size < 2 * k as usize));
    }

    /// Without refinement a mistake in the layers could hide behind it, and the other way round: the
    /// loss must never be above that of one class for all.
    #[test]
    fn refinement_never_adds_loss(codes in table(), k in 2u32..10) {
        prop_assume!(codes.len() >= k as usize);
        let table = Table::new(axes(), codes, k);
        let job = table.job();
        let global = GlobalShares::new(job.requirement, &[]);
        let losses = Losses::new(job.axes);
        let effort = effort(&job);
        let context =
            Context { job: &job, losses, global: &global, split: Split::LeastLoss, effort };
        let RowTable::Byte8(mut rows) = table.rows()? else { unreachable!() };
        rows.sort_unstable_by(|a, b| a.canonical_order(b, job.keys));
        let mut cutter = Cutter::new(&context);
        let (mut classes, left) = Layers::new(&mut cutter, &rows).run(2 * k as usize)?;
        leftovers::place(&mut cutter, &mut classes, left)?;
        let total = |classes: &[Class<u8, 8>]| classes.iter().map(Class::total).sum::<f64>();
        let before = total(&classes);
        let refined = refine(classes, &context, 1.0)?;
        prop_assert!(total(&refined) <= before + 1e-6);
        for class in &refined {
            prop_assert_eq!(class.bounds, crate::method::bounds::Bounds::of(&class.rows));
            prop_assert_eq!(class.loss, context.losses.of(&class.bounds));
        }
    }
}
