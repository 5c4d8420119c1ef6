//! Promises of both methods on random tables, and an attacker who knows how they work.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::hierarchy::{Tree, intervals};
use crate::model::{Cancel, RowKeys, SensitiveColumn};

mod chance;

const ATTRIBUTES: usize = 5;
const MAX_COLUMNS: usize = 3;

/// Quasi-identifiers: numbers with intervals, two trees, a line and a set; the sensitive one is a tree.
fn axes() -> (Vec<Axis>, Axis) {
    let labels = |text: &str| Axis::of_labels(text, false);
    let numbers: Vec<i128> = (0..8).collect();
    let steps = intervals(&numbers, &[2, 4], &|value| value.to_string()).unwrap_or_default();
    let quasi_identifiers = vec![
        Axis::tree(Tree::new(&steps, 8, false).0, false),
        labels("a;x;*\nb;x;*\nc;y;*\nd;y;*\n"),
        labels("m;*\nf;*\n"),
        Axis::line(&[1.0, 2.0, 5.0, 9.0, 10.0], false),
        Axis::set(3, false),
    ];
    (quasi_identifiers, labels("1;x;*\n2;x;*\n3;x;*\n4;y;*\n5;y;*\n6;y;*\n"))
}

/// Rows of five quasi-identifiers and a sensitive value; attributes 1 and 2 mostly follow the first.
fn table(rows: usize, seed: u64) -> Vec<[u32; ATTRIBUTES + 1]> {
    let mut state = seed | 1;
    let mut next = |end: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(end)) as u32
    };
    let mut row = |_| {
        let number = next(8);
        let follows = next(10) > 0;
        let label = if follows { number / 2 } else { next(4) };
        let sensitive = if next(3) > 0 { (number / 4) * 3 + next(3) } else { next(6) };
        [number, label, u32::from(follows) * (label / 2), next(5), next(3), sensitive]
    };
    (0..rows).map(&mut row).collect()
}

/// Codes, and whose sensitive and kept values stand beside them.
type PublishedRow = ([u32; ATTRIBUTES + 1], u32, Option<u32>);

/// A release with everything that made it.
struct Release {
    original: Vec<[u32; ATTRIBUTES + 1]>,
    /// The published rows of every bucket.
    buckets: Vec<Vec<PublishedRow>>,
    covered: Vec<u64>,
    /// By bucket, the groups of quasi-identifiers that were permuted.
    groups: Vec<Vec<u64>>,
    undivided: u64,
    suppressed: usize,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    k: u32,
    l: u32,
    variant: Variant,
    has_kept: bool,
    rare_below: f64,
    is_asg: bool,
    columns: Option<usize>,
    block_rows: usize,
}

fn release(table: &[[u32; ATTRIBUTES + 1]], case: Case, order: &[usize]) -> Result<Release> {
    let shuffled: Vec<[u32; ATTRIBUTES + 1]> = order.iter().map(|at| table[*at]).collect();
    let mut rows = RowTable::from_codes(&shuffled).unwrap_or_else(|| unreachable!());
    let (axes, sensitive) = axes();
    let column = SensitiveColumn {
        name: "s".into(),
        codes: shuffled.iter().map(|row| row[ATTRIBUTES]).collect(),
        cardinality: 6,
        ordered: false,
    };
    let model = match case.variant {
        Variant::Best => Model::Share { column: 0, alpha: 1.0 / f64::from(case.l) },
        Variant::Paper => Model::Distinct { column: 0, at_least: case.l, unit: false },
    };
    let requirement = Requirement { k: case.k, models: vec![model] };
    // Rows that differ in nothing else are told apart by what they keep.
    let keys = RowKeys {
        ties: column.codes.iter().map(|code| u64::from(*code) * 31).collect(),
        kept: order.iter().map(|at| *at as u64).collect(),
    };
    let job = Job {
        axes: &axes,
        requirement: &requirement,
        sensitive: std::slice::from_ref(&column),
        keys: &keys,
        cancel: &Cancel::default(),
    };
    let seed = Seed::from_bytes(b"slicing");
    let options = Options {
        sensitive: &sensitive,
        positions: &[],
        l: case.l,
        variant: case.variant,
        max_columns: MAX_COLUMNS,
        nodes: true,
        rare_below: case.rare_below,
        has_kept: case.has_kept,
        seed: &seed,
    };
    let asg = AsgOptions {
        min_support: 0.1,
        min_confidence: 0.7,
        min_columns: 2,
        weights: &[],
        block_rows: case.block_rows,
        work: u64::MAX,
    };
    let sliced = match case.is_asg {
        true => asg_ls(&mut rows, &job, &options, &asg)?,
        false => slicing(&mut rows, &job, &options, case.columns)?,
    };
    let at = |at: usize| {
        let mut codes = [0; ATTRIBUTES + 1];
        let id = rows.read(at, &mut codes);
        let whose = |id: u32| order[id as usize] as u32;
        let kept = sliced.kept.get(at).map(|from| whose(rows.id_at(*from as usize)));
        (codes, whose(id), kept)
    };
    Ok(Release {
        original: table.to_vec(),
        buckets: sliced.buckets.ranges().map(|range| range.map(at).collect()).collect(),
        covered: sliced.covered,
        groups: sliced.groups_of.iter().map(|at| sliced.groups[*at as usize].clone()).collect(),
        undivided: sliced.undivided,
        suppressed: sliced.suppressed,
    })
}

impl Release {
    /// A bucket's persons: the rows whose sensitive values it publishes.
    fn persons(&self, bucket: usize) -> Vec<&[u32; ATTRIBUTES + 1]> {
        self.buckets[bucket].iter().map(|(_, id, _)| &self.original[*id as usize]).collect()
    }

    fn check(&self, case: Case) {
        let few = |number: &usize| {
            let persons = self.persons(*number);
            let varies = |at: usize| {
                self.covered[*number] >> at & 1 == 0
                    && persons.iter().any(|person| person[at] != persons[0][at])
            };
            (0..ATTRIBUTES).filter(|at| varies(*at)).count() < 2
        };
        let undivided = (0..self.buckets.len()).filter(few).count();
        assert_eq!(undivided as u64, self.undivided);
        let mut seen = vec![false; self.original.len()];
        for (number, bucket) in self.buckets.iter().enumerate() {
            let persons = self.persons(number);
            assert!(bucket.len() >= case.k as usize);
            for attribute in 0..=ATTRIBUTES {
                let sorted = |mut codes: Vec<u32>| {
                    codes.sort_unstable();
                    codes
                };
                let published = bucket.iter().map(|(codes, ..)| codes[attribute]).collect();
                let original = persons.iter().map(|codes| codes[attribute]).collect();
                assert_eq!(sorted(published), sorted(original), "values of attribute {attribute}");
            }
            let mut values: Vec<u32> = persons.iter().map(|person| person[ATTRIBUTES]).collect();
            values.sort_unstable();
            let most = values.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
            values.dedup();
            assert!(values.len() >= case.l as usize);
            if case.variant == Variant::Best {
                assert!(case.l as usize * most < bucket.len());
                assert!(values[0] < 3 && values[values.len() - 1] >= 3, "values of one node");
                self.check_groups(number, case, most);
            }
            for (codes, id, kept) in bucket {
                assert!(!std::mem::replace(&mut seen[*id as usize], true), "a row twice");
                assert_eq!(codes[ATTRIBUTES], self.original[*id as usize][ATTRIBUTES]);
                assert_eq!(kept.is_some(), case.has_kept);
                assert_ne!(*kept, Some(*id), "kept values beside their own sensitive value");
            }
        }
        assert_eq!(seen.iter().filter(|seen| !**seen).count(), self.suppressed);
    }

    /// In our version enough groups of quasi-identifiers that vary are apart, and no row shows two parts of one person
    /// unless others of the bucket have one of them too.
    fn check_groups(&self, number: usize, case: Case, most: usize) {
        let (persons, groups) = (self.persons(number), &self.groups[number]);
        let varies = |at: &usize| persons.iter().any(|person| person[*at] != persons[0][*at]);
        let varying = (0..ATTRIBUTES).filter(varies).fold(0u64, |bits, at| bits | 1 << at);
        let apart = groups.iter().filter(|group| **group & varying != 0).count();
        assert!(apart >= (varying.count_ones() as usize).min(3), "{groups:?} of {varying:b}");
        assert!(groups.iter().all(|group| (group & varying).count_ones() as usize <= MAX_COLUMNS));
        assert_eq!(groups.iter().fold(0, |all, group| all | group) & varying, varying);
        let columns = 1 + groups.len() + usize::from(case.has_kept);
        assert!(promise::needed_rows(case.l as usize * most, columns) <= persons.len());
        let part = |row: &[u32; ATTRIBUTES + 1], group: u64| -> Vec<u32> {
            promise::bits(group).map(|at| row[at]).collect()
        };
        // The only person of the bucket with a part.
        let owner = |row: &[u32; ATTRIBUTES + 1], group: u64| {
            let own = part(row, group);
            let mut owners = (0..persons.len()).filter(|at| part(persons[*at], group) == own);
            owners.next().filter(|_| owners.next().is_none())
        };
        for (row, (codes, ..)) in self.buckets[number].iter().enumerate() {
            let mut owners: Vec<usize> =
                groups.iter().filter_map(|group| owner(codes, *group)).chain([row]).collect();
            let parts = owners.len();
            owners.sort_unstable();
            owners.dedup();
            assert_eq!(owners.len(), parts, "two parts of one person");
        }
    }

    /// What everybody can see, in no order.
    fn visible(&self) -> Vec<(u64, Vec<[u32; ATTRIBUTES + 1]>)> {
        let visible = |(bucket, covered): (&Vec<_>, &u64)| {
            let mut rows: Vec<[u32; ATTRIBUTES + 1]> =
                bucket.iter().map(|(codes, ..): &PublishedRow| *codes).collect();
            rows.sort_unstable();
            (*covered, rows)
        };
        self.buckets.iter().zip(&self.covered).map(visible).collect()
    }
}

fn case() -> impl Strategy<Value = Case> {
    let sizes = (2..12u32, 2..4u32, any::<bool>(), any::<bool>());
    let form = (prop_oneof![Just(0.0), Just(0.05), Just(0.3)], any::<bool>());
    let rest = (prop::option::of(2..7usize), prop_oneof![Just(64usize), Just(100_000)]);
    (sizes, form, rest).prop_map(|((k, l, distinct, has_kept), (rare_below, is_asg), rest)| Case {
        k,
        l,
        variant: if distinct { Variant::Paper } else { Variant::Best },
        has_kept,
        rare_below,
        is_asg,
        columns: rest.0,
        block_rows: rest.1,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_promise_is_kept_whatever_the_order(case in case(), rows in 20..600usize, seed: u64) {
        let table = table(rows, seed);
        let in_order: Vec<usize> = (0..rows).collect();
        let mut shuffled = in_order.clone();
        shuffled.sort_by_key(|at| (*at as u64).wrapping_mul(seed | 1).rotate_left(17));
        let one = release(&table, case, &in_order);
        let other = release(&table, case, &shuffled);
        match (one, other) {
            (Ok(one), Ok(other)) => {
                one.check(case);
                other.check(case);
                prop_assert_eq!(one.visible(), other.visible());
            }
            (Err(Error::Unsatisfiable { .. }), Err(Error::Unsatisfiable { .. })) => {}
            (one, other) => panic!("{:?} {:?}", one.err(), other.err()),
        }
    }
}

#[test]
fn values_that_go_together_stay_together() -> Result<()> {
    // Attribute 1 follows the first. Where few attributes vary the two may have to be parted, and near rows keep the
    // pair all the same.
    let rows = table(2_000, 3);
    let case = Case {
        k: 8,
        l: 2,
        variant: Variant::Best,
        has_kept: false,
        rare_below: 0.0,
        is_asg: true,
        columns: None,
        block_rows: 100_000,
    };
    let release = release(&rows, case, &(0..2_000).collect::<Vec<usize>>())?;
    let follows = |codes: &[u32; ATTRIBUTES + 1]| codes[1] == codes[0] / 2;
    let before = rows.iter().filter(|row| follows(row)).count();
    let after = release.buckets.iter().flatten().filter(|(codes, ..)| follows(codes)).count();
    // The control: rows paired at random in the whole table.
    let firsts = || rows.iter().map(|row| row[0] / 2);
    let by_chance =
        firsts().map(|half| rows.iter().filter(|row| row[1] == half).count()).sum::<usize>()
            / rows.len();
    assert!(
        5 * after > 4 * before && 2 * by_chance < before,
        "{after} of {before}, {by_chance} by chance"
    );
    Ok(())
}
