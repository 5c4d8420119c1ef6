//! The worked table of the KAIM paper and the sizes of groups on random tables with holes.

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::greedy::starts;
use super::*;
use crate::hierarchy::{Axis, Tree, float_intervals};
use crate::method::testing::{Release, Table, mixed_axes};
use crate::model::RowKeys;

mod as_printed;

const METHODS: [Clustering; 3] = [Clustering::Kaim, Clustering::KMember, Clustering::BottomUp];

fn run<const D: usize>(
    table: &Table<D>,
    method: Clustering,
    seed: u32,
    block_rows: usize,
) -> Result<Release> {
    run_as(Variant::Best, table, method, seed, block_rows)
}

fn run_as<const D: usize>(
    variant: Variant,
    table: &Table<D>,
    method: Clustering,
    seed: u32,
    block_rows: usize,
) -> Result<Release> {
    let seed = Seed::from_bytes(&seed.to_le_bytes());
    let split = Split::LeastLoss;
    let options = Options { variant, weights: &[], seed: &seed, block_rows, split };
    table.form(|rows, job| {
        let classes = cluster(rows, job, method, &options)?;
        let suppressed = rows.len() - classes.rows();
        Ok((classes, suppressed))
    })
}

/// Table 1 of the paper; missing is code 0 in every column.
fn patients() -> Table<3> {
    let tree = |values: &[f64], step: f64| {
        let levels = float_intervals(values, &[step.to_string()]).unwrap_or_default();
        Axis::tree(Tree::new(&levels, values.len(), true).0, true)
    };
    let ages = [26.0, 28.0, 32.0, 36.0, 39.0, 41.0, 48.0];
    let zips = [12e3, 14e3, 18e3, 19e3, 21e3, 22e3, 24e3];
    let axes = vec![tree(&ages, 10.0), Axis::of_labels("M;*\nF;*\n", true), tree(&zips, 5000.0)];
    let codes = vec![
        [0, 1, 1],
        [0, 1, 2],
        [1, 2, 3],
        [2, 1, 4],
        [3, 1, 0],
        [5, 1, 7],
        [6, 0, 0],
        [4, 2, 6],
        [7, 2, 0],
        [0, 2, 5],
    ];
    Table::new(axes, codes, 2)
}

/// ILossRate of the paper (see `measure/incomplete.rs`), computed from codes: a cell loses the share of its column's
/// values that it could be, a cell that was missing nothing, a suppressed row everything.
fn patient_loss_rate(table: &Table<3>, release: &Release) -> f64 {
    let mut lost = 3.0 * release.suppressed.len() as f64;
    for class in &release.classes {
        for (at, (axis, values)) in table.axes.iter().zip([23.0, 2.0, 12_001.0]).enumerate() {
            let codes = || class.iter().map(|id| table.codes[*id as usize][at]);
            let (low, high) = (codes().min().unwrap_or(0), codes().max().unwrap_or(0));
            lost += match low {
                _ if low == high => 0.0,
                0 => codes().filter(|code| *code > 0).count() as f64,
                _ => {
                    let share = (axis.loss(low, high) * (values - 1.0) + 1.0) / values;
                    class.len() as f64 * share.min(1.0)
                }
            };
        }
    }
    lost / (3 * table.codes.len()) as f64
}

/// The pairs of the paper's table 3.
const PAIRS: [[u32; 2]; 5] = [[0, 1], [2, 3], [4, 5], [6, 8], [7, 9]];

#[test]
fn table_1_of_the_paper_gives_the_pairs_of_table_3() -> Result<()> {
    let table = patients();
    for variant in [Variant::Best, Variant::Paper] {
        for seed in 0..200 {
            let mut release = run_as(variant, &table, Clustering::Kaim, seed, usize::MAX)?;
            release.classes.sort_unstable();
            assert_eq!(release.classes, PAIRS, "{variant:?}, seed {seed}");
            assert_eq!((patient_loss_rate(&table, &release) * 1e4).round(), 3457.0);
        }
    }
    Ok(())
}

/// The distance of the paper with half the column's entropy for c, and nothing else of ours.
#[test]
fn the_constant_of_the_column_alone_gives_the_pairs_too() -> Result<()> {
    let table = patients();
    let of_column =
        Distance { metric: Metric::Entropy(Constant::HalfOfColumn), charges_missing: true };
    for seed in 0..200 {
        let mut classes = grown(&table, of_column, Start::Random, seed)?;
        classes.sort_unstable();
        assert_eq!(classes, PAIRS, "seed {seed}");
    }
    Ok(())
}

#[test]
fn groups_start_at_the_rows_that_miss_fewest_cells() {
    let rows = RowTable::from_codes(&[[0, 0], [0, 1], [1, 0], [1, 2], [2, 1]]);
    let Some(rows) = rows else { unreachable!("few columns") };
    let axes = [Axis::set(2, true), Axis::set(2, true)];
    let distance = Clustering::Kaim.distance(Variant::Best);
    let column = |index: usize| Column::new(index, &axes[index], distance, 1.0, &[2, 2, 1]);
    let columns = [column(0), column(1)];
    let tuples = Tuples::new(&rows, 0..5, &columns, &RowKeys::default());
    for seed in 0..20u32 {
        let seed = Seed::from_bytes(&seed.to_le_bytes());
        let mut order = starts(&seed, 0, &columns, &tuples);
        order.reverse();
        let missing = |tuple: &u32| tuples.codes.iter().filter(|c| c[*tuple as usize] == 0).count();
        let missing: Vec<usize> = order.iter().map(missing).collect();
        assert_eq!(missing, [0, 0, 1, 1, 2]);
    }
}

#[test]
fn k_member_drops_the_rows_with_holes_and_counts_them() -> Result<()> {
    let mut table = patients();
    let release = run(&table, Clustering::KMember, 7, usize::MAX)?;
    assert_eq!(release.suppressed, [0, 1, 4, 6, 8, 9]);
    assert_eq!(release.sizes().iter().sum::<usize>(), 4);
    assert!(patient_loss_rate(&table, &release) > 0.6, "six of ten rows are lost whole");
    table.requirement.k = 5;
    let outcome = run(&table, Clustering::KMember, 0, usize::MAX);
    assert_eq!(outcome, Err(Error::TooFewRows { rows: 4, k: 5 }), "four rows are complete");
    Ok(())
}

#[test]
fn bottom_up_halves_a_group_on_the_column_that_split_names() -> Result<()> {
    // All four rows end up in one group, in which both columns are equally wide.
    let axes =
        vec![Axis::line(&[0.0, 1.0, 2.0, 10.0], false), Axis::line(&[0.0, 1.0, 6.0, 10.0], false)];
    let table = Table::new(axes, vec![[0, 0], [1, 2], [2, 1], [3, 3]], 2);
    let classes = |split| {
        let seed = Seed::from_bytes(b"any");
        let options = Options {
            variant: Variant::Best,
            weights: &[],
            seed: &seed,
            block_rows: usize::MAX,
            split,
        };
        let form = |rows: &mut RowTable, job: &Job| {
            Ok((cluster(rows, job, Clustering::BottomUp, &options)?, 0))
        };
        table.form(form).map(|release| release.classes)
    };
    assert_eq!(classes(Split::LeastLoss)?, [[0, 2], [1, 3]]);
    assert_eq!(classes(Split::Widest)?, [[0, 1], [2, 3]]);
    Ok(())
}

#[test]
fn weights_are_checked() {
    assert_eq!(weights(&[], 2), Ok(vec![1.0, 1.0]));
    assert_eq!(weights(&[2.0, 1.0], 2), Ok(vec![1.0, 0.5]));
    for wrong in [&[1.0][..], &[0.0, 0.0], &[1.0, -1.0], &[1.0, f64::NAN], &[f64::INFINITY, 1.0]] {
        assert!(matches!(weights(wrong, 2), Err(Error::Invalid(_))), "{wrong:?}");
    }
}

/// Rows of which up to 60 % of the cells are missing.
fn rows_with_holes() -> impl Strategy<Value = Vec<[u32; 3]>> {
    (0u32..61).prop_flat_map(|holes| {
        let cell = move |codes: u32| {
            (0u32..100, 1..=codes).prop_map(move |(hole, code)| if hole < holes { 0 } else { code })
        };
        prop::collection::vec((cell(30), cell(8), cell(5)), 1..160)
            .prop_map(|rows| rows.into_iter().map(|(a, b, c)| [a, b, c]).collect())
    })
}

/// The groups of `kaim` before they are refined, in one block.
fn grown(table: &Table<3>, distance: Distance, start: Start, seed: u32) -> Result<Vec<Vec<u32>>> {
    let (rows, job) = (table.rows()?, table.job());
    let columns = columns(&job, distance, &[1.0; 3], &Counts::new(&rows, &job));
    let rules = Rules {
        columns: &columns,
        start,
        k: table.requirement.k,
        models: &[],
        sensitive: &[],
        seed: &Seed::from_bytes(&seed.to_le_bytes()),
        cancel: &table.cancel,
        block: 0,
        takes_shortcuts: true,
    };
    let tuples = Tuples::new(&rows, 0..rows.len(), &columns, &table.keys);
    let Grown::Groups(groups) = Growth::new(rules, &tuples, Vec::new()).run(false)? else {
        return Err(Error::bug("a block that cannot be cut was too large"));
    };
    let ids = |group: &Group| {
        let mut ids: Vec<u32> = group.rows.iter().map(|at| tuples.ids[*at as usize]).collect();
        ids.sort_unstable();
        ids
    };
    Ok(groups.iter().map(ids).collect())
}

/// What the rows of all classes lose; missing cells lose nothing.
fn lost(table: &Table<3>, classes: &[Vec<u32>]) -> Result<f64> {
    let (rows, job) = (table.rows()?, table.job());
    let distance = Distance { metric: Metric::Ncp, charges_missing: false };
    let columns = columns(&job, distance, &[1.0; 3], &Counts::new(&rows, &job));
    let mut lost = 0.0;
    for column in &columns {
        for class in classes {
            let codes = class.iter().map(|id| table.codes[*id as usize][column.index]);
            lost += column.loss(&column.center(codes));
        }
    }
    Ok(lost)
}

#[test]
fn refinement_only_ever_lowers_the_loss() -> Result<()> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut gains = 0;
    for case in 0..60 {
        let codes = rows_with_holes().new_tree(&mut runner).map(|tree| tree.current());
        let codes = codes.map_err(|_| Error::bug("no table"))?;
        let k = 2 + case % 5;
        if codes.len() < k as usize {
            continue;
        }
        let table = Table::new(mixed_axes(), codes, k);
        let distance = Clustering::Kaim.distance(Variant::Best);
        let plain = lost(&table, &grown(&table, distance, Start::Complete, case)?)?;
        let refined = lost(&table, &run(&table, Clustering::Kaim, case, usize::MAX)?.classes)?;
        assert!(refined <= plain + 1e-3, "{refined} after {plain}");
        gains += usize::from(refined < plain - 1e-3);
    }
    assert!(gains > 20, "{gains} tables gained");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn groups_have_the_promised_sizes(
        codes in rows_with_holes(), k in 2u32..12, method in 0usize..3, block in 1usize..300, paper: bool,
    ) {
        let table = Table::new(mixed_axes(), codes, k);
        let method = METHODS[method];
        let variant = if paper { Variant::Paper } else { Variant::Best };
        let holes = table.codes.iter().filter(|row| row.contains(&0)).count();
        let dropped = if method == Clustering::KMember { holes } else { 0 };
        let rows = table.codes.len() - dropped;
        match run_as(variant, &table, method, 3, block) {
            Err(error) => {
                prop_assert!(rows < k as usize);
                prop_assert_eq!(error, Error::TooFewRows { rows, k });
            }
            Ok(release) => {
                prop_assert_eq!(release.suppressed.len(), dropped);
                let sizes = release.sizes();
                let refines = method == Clustering::Kaim && !paper;
                if method == Clustering::BottomUp || refines {
                    prop_assert!(sizes.iter().all(|size| *size < 2 * k as usize));
                } else if block >= table.codes.len() {
                    prop_assert_eq!(sizes.len(), rows / k as usize);
                }
            }
        }
    }
}
