//! The worked table of paper P5 and the promises of the clusterings on random tables with holes.

use proptest::prelude::*;

use super::*;
use crate::hierarchy::{Axis, LabelTable, Tree, float_intervals};
use crate::measure::{IncompleteLoss, Span, incomplete_loss};
use crate::model::{Cancel, Model, RowKeys, SensitiveColumn, check_classes};

const METHODS: [Clustering; 4] = [
    Clustering::Kaim(Scale::Column),
    Clustering::Kaim(Scale::Value),
    Clustering::KMember,
    Clustering::BottomUp,
];

struct Table<const D: usize> {
    axes: Vec<Axis>,
    codes: Vec<[u32; D]>,
    requirement: Requirement,
    sensitive: Vec<SensitiveColumn>,
    keys: RowKeys,
    block_rows: usize,
}

impl<const D: usize> Table<D> {
    fn new(axes: Vec<Axis>, codes: Vec<[u32; D]>, k: u32) -> Self {
        let requirement = Requirement::k(k);
        let keys = RowKeys::default();
        Self { axes, codes, requirement, sensitive: Vec::new(), keys, block_rows: usize::MAX }
    }

    /// With distinct l-diversity on these values.
    fn diverse(mut self, l: u32, values: Vec<u32>) -> Self {
        self.requirement.models = vec![Model::Distinct { column: 0, at_least: l, unit: false }];
        self.keys.ties = values.iter().map(|value| u64::from(*value)).collect();
        let cardinality = values.iter().max().map_or(0, |max| max + 1);
        let name = "s".to_owned();
        self.sensitive =
            vec![SensitiveColumn { name, codes: values.into(), cardinality, ordered: true }];
        self
    }

    fn run(&self, method: Clustering, seed: u32) -> Result<(RowTable, Classes)> {
        let seed = Seed::from_bytes(&seed.to_le_bytes());
        let job = Job {
            axes: &self.axes,
            requirement: &self.requirement,
            sensitive: &self.sensitive,
            keys: &self.keys,
            cancel: &Cancel::default(),
        };
        let mut rows = RowTable::from_codes(&self.codes).ok_or_else(|| Error::bug("too wide"))?;
        let options = Options { weights: &[], seed: &seed, block_rows: self.block_rows };
        let classes = cluster(&mut rows, &job, method, &options)?;
        if classes.rows() == self.codes.len() {
            let id_at = |at: usize| rows.id_at(at);
            check_classes(&id_at, classes.rows(), &classes, &self.requirement, &self.sensitive)?;
        }
        Ok((rows, classes))
    }

    /// Row numbers of every class, and of the suppressed rows behind them.
    fn classes(&self, method: Clustering, seed: u32) -> Result<(Vec<Vec<u32>>, Vec<u32>)> {
        let (rows, classes) = self.run(method, seed)?;
        let ids = |range: std::ops::Range<usize>| {
            let mut ids: Vec<u32> = range.map(|at| rows.id_at(at)).collect();
            ids.sort_unstable();
            ids
        };
        let suppressed = ids(classes.rows()..rows.len());
        Ok((classes.ranges().map(ids).collect(), suppressed))
    }

    /// The multiset of classes as tuples: what does not depend on row numbers.
    fn tuples(&self, method: Clustering, seed: u32) -> Vec<Vec<[u32; D]>> {
        let (classes, _) = self.classes(method, seed).unwrap_or_default();
        let tuples = |class: &Vec<u32>| {
            let mut tuples: Vec<_> = class.iter().map(|id| self.codes[*id as usize]).collect();
            tuples.sort_unstable();
            tuples
        };
        classes.iter().map(tuples).collect()
    }
}

/// Table 1 of the paper; missing is code 0 in every column.
fn patients() -> Table<3> {
    let tree = |values: &[f64], step: f64| {
        let levels = float_intervals(values, &[step.to_string()]).unwrap_or_default();
        Axis::tree(Tree::new(&levels, values.len(), true).0, true)
    };
    let genders = LabelTable::parse("M;*\nF;*\n").map(|table| table.levels_over(&[0, 1]));
    let ages = [26.0, 28.0, 32.0, 36.0, 39.0, 41.0, 48.0];
    let zips = [12e3, 14e3, 18e3, 19e3, 21e3, 22e3, 24e3];
    let axes = vec![
        tree(&ages, 10.0),
        Axis::tree(Tree::new(&genders.unwrap_or_default(), 2, true).0, true),
        tree(&zips, 5000.0),
    ];
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

fn patient_loss(table: &Table<3>, method: Clustering, seed: u32) -> IncompleteLoss {
    let spans: Vec<Span> = table
        .axes
        .iter()
        .zip([23.0, 2.0, 12_001.0])
        .map(|(axis, values)| Span { axis, values })
        .collect();
    let outcome = table.run(method, seed);
    outcome.map(|(rows, classes)| incomplete_loss(&rows, &classes, &spans)).unwrap_or_default()
}

#[test]
fn p5_table_1_gives_the_pairs_of_table_3() {
    let table = patients();
    for scale in [Scale::Value, Scale::Column] {
        for seed in 0..50 {
            let outcome =
                table.classes(Clustering::Kaim(scale), seed).map(|(mut classes, rest)| {
                    classes.sort_unstable();
                    (classes, rest)
                });
            let pairs = vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 8], vec![7, 9]];
            assert_eq!(outcome, Ok((pairs, vec![])), "{scale:?}, seed {seed}");
            let loss = patient_loss(&table, Clustering::Kaim(scale), seed);
            assert_eq!((loss.rate() * 1e4).round(), 3457.0);
        }
    }
}

#[test]
fn k_member_drops_the_rows_with_holes_and_counts_them() {
    let table = patients();
    let (classes, suppressed) = table.classes(Clustering::KMember, 7).unwrap_or_default();
    assert_eq!(suppressed, [0, 1, 4, 6, 8, 9]);
    assert_eq!(classes.iter().map(Vec::len).sum::<usize>(), 4);
    let loss = patient_loss(&table, Clustering::KMember, 7);
    assert_eq!((loss.suppressed_rows, loss.incomplete_rows, loss.rows), (6, 6, 10));
    assert!(loss.rate() > 0.6, "six of ten rows are lost whole");
}

#[test]
fn fewer_rows_than_k_are_an_error() {
    let mut table = patients();
    table.requirement.k = 5;
    let outcome = table.classes(Clustering::KMember, 0);
    assert_eq!(outcome, Err(Error::TooFewRows { rows: 4, k: 5 }), "four rows are complete");
    table.requirement.k = 11;
    for method in METHODS {
        assert!(matches!(table.classes(method, 0), Err(Error::TooFewRows { .. })), "{method:?}");
    }
}

#[test]
fn a_table_that_cannot_hold_the_models_is_an_error() {
    for method in METHODS {
        let axes = vec![Axis::line(&[0.0, 1.0], false)];
        let table = Table::new(axes, vec![[0], [1], [0], [1]], 2).diverse(2, vec![0; 4]);
        let message = Error::Unsatisfiable { requirement: "l = 2 on column 's'".into() };
        assert_eq!(table.classes(method, 0), Err(message), "{method:?}");
    }
}

#[test]
fn a_cancelled_clustering_stops() {
    let table = patients();
    let (cancel, seed) = (Cancel::default(), Seed::from_bytes(b"1"));
    cancel.cancel();
    let job = Job {
        axes: &table.axes,
        requirement: &table.requirement,
        sensitive: &[],
        keys: &table.keys,
        cancel: &cancel,
    };
    let options = Options { weights: &[], seed: &seed, block_rows: 100 };
    for method in METHODS {
        let outcome = RowTable::from_codes(&table.codes)
            .map(|mut rows| cluster(&mut rows, &job, method, &options));
        assert_eq!(outcome, Some(Err(Error::Cancelled)), "{method:?}");
    }
}

#[test]
fn weights_are_checked() {
    assert_eq!(weights(&[], 2), Ok(vec![1.0, 1.0]));
    assert_eq!(weights(&[2.0, 1.0], 2), Ok(vec![1.0, 0.5]));
    for wrong in [&[1.0][..], &[0.0, 0.0], &[1.0, -1.0], &[1.0, f64::NAN], &[f64::INFINITY, 1.0]] {
        assert!(matches!(weights(wrong, 2), Err(Error::Invalid(_))), "{wrong:?}");
    }
}

/// A number, a hierarchy and a set; code 0 is missing in all.
fn mixed_axes() -> Vec<Axis> {
    let values: Vec<f64> = (0..30).map(|value| f64::from(value * value)).collect();
    let leaf = |leaf: usize| format!("{leaf};{};{};*\n", leaf / 2, leaf / 4);
    let labels = LabelTable::parse(&(0..8).map(leaf).collect::<String>());
    let levels = labels.map(|table| table.levels_over(&[0, 1, 2, 3, 4, 5, 6, 7]));
    vec![
        Axis::line(&values, true),
        Axis::tree(Tree::new(&levels.unwrap_or_default(), 8, true).0, true),
        Axis::set(5, true),
    ]
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
    fn classes_have_k_rows_and_no_row_is_lost(
        codes in rows_with_holes(), k in 2u32..12, method in 0usize..4, block in 1usize..300,
    ) {
        let mut table = Table::new(mixed_axes(), codes, k);
        table.block_rows = block;
        let holes = |row: &[u32; 3]| row.contains(&0);
        let dropped = match METHODS[method] {
            Clustering::KMember => table.codes.iter().filter(|row| holes(row)).count(),
            _ => 0,
        };
        let rows = table.codes.len() - dropped;
        match table.classes(METHODS[method], 3) {
            Err(error) => {
                prop_assert!(rows < k as usize);
                prop_assert_eq!(error, Error::TooFewRows { rows, k });
            }
            Ok((classes, suppressed)) => {
                prop_assert_eq!(suppressed.len(), dropped);
                prop_assert!(classes.iter().all(|class| class.len() >= k as usize));
                let mut ids = [classes.concat(), suppressed].concat();
                ids.sort_unstable();
                prop_assert!(ids.into_iter().eq(0..table.codes.len() as u32));
                if METHODS[method] == Clustering::BottomUp {
                    prop_assert!(classes.iter().all(|class| class.len() < 2 * k as usize));
                } else if block >= table.codes.len() {
                    prop_assert_eq!(classes.len(), rows / k as usize);
                }
            }
        }
    }

    #[test]
    fn neither_order_nor_threads_matter(
        codes in rows_with_holes(), k in 2u32..8, method in 0usize..4, shift in 0usize..300,
    ) {
        prop_assume!(codes.len() >= k as usize);
        let (n, method) = (codes.len(), METHODS[method]);
        let rotated = (0..n).map(|at| codes[(at + shift) % n]).collect();
        let mut table = Table::new(mixed_axes(), codes, k);
        let mut other = Table::new(mixed_axes(), rotated, k);
        (table.block_rows, other.block_rows) = (40, 40);
        let in_pool = |table: &Table<3>, threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.map(|pool| pool.install(|| table.tuples(method, 5))).unwrap_or_default()
        };
        let expected = in_pool(&table, 1);
        prop_assert_eq!(&in_pool(&table, 4), &expected);
        prop_assert_eq!(&in_pool(&other, 4), &expected);
    }

    #[test]
    fn models_hold_for_every_method(
        codes in rows_with_holes(), seed in any::<u64>(), k in 2u32..8, method in 0usize..4,
        which in 0usize..4, block in 1usize..300,
    ) {
        let value = |at: usize| {
            (seed.rotate_left(at as u32 % 64).wrapping_mul(at as u64 + 1) >> 7) as u32 % 5
        };
        let values = (0..codes.len()).map(value).collect();
        let mut table = Table::new(mixed_axes(), codes, k).diverse(3, values);
        table.requirement.models = vec![[
            Model::Distinct { column: 0, at_least: 3, unit: false },
            Model::Entropy { column: 0, l: 2.5 },
            Model::Closeness { column: 0, t: 0.2, population: None },
            Model::Share { column: 0, alpha: 0.45 },
        ][which].clone()];
        table.block_rows = block;
        match table.run(METHODS[method], 9) {
            Ok((rows, classes)) => {
                let global = GlobalShares::new(&table.requirement, &table.sensitive);
                let mut tally = Tally::new(&table.requirement, &table.sensitive, &global);
                for range in classes.ranges() {
                    prop_assert!(tally.holds_for(range.map(|at| rows.id_at(at))));
                }
            }
            Err(Error::TooFewRows { .. } | Error::Unsatisfiable { .. }) => {}
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }
}
