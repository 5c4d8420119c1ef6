//! The worked table of the KAIM paper and the sizes of groups on random tables with holes.

use proptest::prelude::*;

use super::*;
use crate::hierarchy::{Axis, Tree, float_intervals};
use crate::method::testing::{Release, Table, mixed_axes};

const METHODS: [Clustering; 3] = [Clustering::Kaim, Clustering::KMember, Clustering::BottomUp];

fn run<const D: usize>(
    table: &Table<D>,
    method: Clustering,
    seed: u32,
    block_rows: usize,
) -> Result<Release> {
    let seed = Seed::from_bytes(&seed.to_le_bytes());
    let options = Options { weights: &[], seed: &seed, block_rows };
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

#[test]
fn table_1_of_the_paper_gives_the_pairs_of_table_3() -> Result<()> {
    let table = patients();
    for seed in 0..50 {
        let mut release = run(&table, Clustering::Kaim, seed, usize::MAX)?;
        release.classes.sort_unstable();
        assert_eq!(release.classes, [[0, 1], [2, 3], [4, 5], [6, 8], [7, 9]], "seed {seed}");
        assert_eq!((patient_loss_rate(&table, &release) * 1e4).round(), 3457.0);
    }
    Ok(())
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn groups_have_the_promised_sizes(
        codes in rows_with_holes(), k in 2u32..12, method in 0usize..3, block in 1usize..300,
    ) {
        let table = Table::new(mixed_axes(), codes, k);
        let method = METHODS[method];
        let holes = table.codes.iter().filter(|row| row.contains(&0)).count();
        let dropped = if method == Clustering::KMember { holes } else { 0 };
        let rows = table.codes.len() - dropped;
        match run(&table, method, 3, block) {
            Err(error) => {
                prop_assert!(rows < k as usize);
                prop_assert_eq!(error, Error::TooFewRows { rows, k });
            }
            Ok(release) => {
                prop_assert_eq!(release.suppressed.len(), dropped);
                let sizes = release.sizes();
                if method == Clustering::BottomUp {
                    prop_assert!(sizes.iter().all(|size| *size < 2 * k as usize));
                } else if block >= table.codes.len() {
                    prop_assert_eq!(sizes.len(), rows / k as usize);
                }
            }
        }
    }
}
