//! Promises of both methods on random tables, and an attacker who knows how they work.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::hierarchy::{LabelTable, Levels, Tree, intervals};
use crate::model::{Cancel, RowKeys, SensitiveColumn};

const ATTRIBUTES: usize = 5;

/// Quasi-identifiers: numbers with intervals, two trees, a line and a set; the sensitive one is a tree.
fn axes() -> (Vec<Axis>, Axis) {
    let tree = |levels: &Levels, values| Axis::tree(Tree::new(levels, values, false).0, false);
    let labels = |text: &str, values: usize| {
        let table = LabelTable::parse(text).unwrap_or_else(|_| unreachable!());
        tree(&table.levels_over(&(0..values).collect::<Vec<usize>>()), values)
    };
    let numbers: Vec<i128> = (0..8).collect();
    let steps = intervals(&numbers, &[2, 4], &|value| value.to_string()).unwrap_or_default();
    let quasi_identifiers = vec![
        tree(&steps, 8),
        labels("a;x;*\nb;x;*\nc;y;*\nd;y;*\n", 4),
        labels("m;*\nf;*\n", 2),
        Axis::line(&[1.0, 2.0, 5.0, 9.0, 10.0], false),
        Axis::set(3, false),
    ];
    (quasi_identifiers, labels("1;x;*\n2;x;*\n3;x;*\n4;y;*\n5;y;*\n6;y;*\n", 6))
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
    suppressed: usize,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    k: u32,
    l: u32,
    variant: Variant,
    has_kept: bool,
    rare_below: f64,
    is_asg: bool,
    columns: Option<usize>,
    block_rows: usize,
}

fn release(table: &[[u32; ATTRIBUTES + 1]], asked: Asked, order: &[usize]) -> Result<Release> {
    let shuffled: Vec<[u32; ATTRIBUTES + 1]> = order.iter().map(|at| table[*at]).collect();
    let mut rows = RowTable::from_codes(&shuffled).unwrap_or_else(|| unreachable!());
    let (axes, sensitive) = axes();
    let column = SensitiveColumn {
        name: "s".into(),
        codes: shuffled.iter().map(|row| row[ATTRIBUTES]).collect(),
        cardinality: 6,
        ordered: false,
    };
    let model = match asked.variant {
        Variant::Best => Model::Share { column: 0, alpha: 1.0 / f64::from(asked.l) },
        Variant::Paper => Model::Distinct { column: 0, at_least: asked.l, unit: false },
    };
    let requirement = Requirement { k: asked.k, models: vec![model] };
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
        l: asked.l,
        variant: asked.variant,
        rare_below: asked.rare_below,
        has_kept: asked.has_kept,
        seed: &seed,
    };
    let asg = AsgOptions {
        min_support: 0.1,
        min_confidence: 0.7,
        max_columns: 3,
        min_columns: 2,
        weights: &[],
        block_rows: asked.block_rows,
        work: u64::MAX,
    };
    let sliced = match asked.is_asg {
        true => asg_ls(&mut rows, &job, &options, &asg)?,
        false => slicing(&mut rows, &job, &options, asked.columns)?,
    };
    let at = |at: usize| {
        with_rows!(&rows, rows => {
            let mut codes = [0; ATTRIBUTES + 1];
            codes.iter_mut().zip(&rows[at].codes).for_each(|(to, code)| *to = code.get());
            let whose = |id: u32| order[id as usize] as u32;
            (codes, whose(rows[at].id), sliced.kept.get(at).map(|from| whose(rows[*from as usize].id)))
        })
    };
    Ok(Release {
        original: table.to_vec(),
        buckets: sliced.buckets.ranges().map(|range| range.map(at).collect()).collect(),
        covered: sliced.covered,
        suppressed: sliced.suppressed,
    })
}

impl Release {
    /// A bucket's persons: the rows whose sensitive values it publishes.
    fn persons(&self, bucket: usize) -> Vec<&[u32; ATTRIBUTES + 1]> {
        self.buckets[bucket].iter().map(|(_, id, _)| &self.original[*id as usize]).collect()
    }

    fn check(&self, asked: Asked) {
        let mut seen = vec![false; self.original.len()];
        for (number, bucket) in self.buckets.iter().enumerate() {
            let persons = self.persons(number);
            assert!(bucket.len() >= asked.k as usize);
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
            assert!(values.len() >= asked.l as usize);
            if asked.variant == Variant::Best {
                assert!(asked.l as usize * most < bucket.len());
            }
            for (codes, id, kept) in bucket {
                assert!(!std::mem::replace(&mut seen[*id as usize], true), "a row twice");
                assert_eq!(codes[ATTRIBUTES], self.original[*id as usize][ATTRIBUTES]);
                assert_eq!(kept.is_some(), asked.has_kept);
                assert_ne!(*kept, Some(*id), "kept values beside their own sensitive value");
            }
        }
        assert_eq!(seen.iter().filter(|seen| !**seen).count(), self.suppressed);
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

fn asked() -> impl Strategy<Value = Asked> {
    let sizes = (2..12u32, 2..4u32, any::<bool>(), any::<bool>());
    let form = (prop_oneof![Just(0.0), Just(0.05), Just(0.3)], any::<bool>());
    let rest = (prop::option::of(2..7usize), prop_oneof![Just(64usize), Just(100_000)]);
    (sizes, form, rest).prop_map(|((k, l, distinct, has_kept), (rare_below, is_asg), rest)| Asked {
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
    fn every_promise_is_kept_whatever_the_order(asked in asked(), rows in 20..600usize, seed: u64) {
        let table = table(rows, seed);
        let in_order: Vec<usize> = (0..rows).collect();
        let mut shuffled = in_order.clone();
        shuffled.sort_by_key(|at| (*at as u64).wrapping_mul(seed | 1).rotate_left(17));
        let one = release(&table, asked, &in_order);
        let other = release(&table, asked, &shuffled);
        match (one, other) {
            (Ok(one), Ok(other)) => {
                one.check(asked);
                other.check(asked);
                prop_assert_eq!(one.visible(), other.visible());
            }
            (Err(Error::Unsatisfiable { .. }), Err(Error::Unsatisfiable { .. })) => {}
            (one, other) => panic!("{:?} {:?}", one.err(), other.err()),
        }
    }
}

/// What the attacker sees of a bucket: the parts of every column in the order of the published rows, and
/// knows of its persons: the parts of every column, everything but the sensitive values.
struct Attack {
    /// By column beside the sensitive attribute's, by published row.
    seen: Vec<Vec<Vec<u32>>>,
    /// By column, by person.
    known: Vec<Vec<Vec<u32>>>,
    /// By published row, and by person, what stands beside the sensitive attribute.
    beside: (Vec<Vec<u32>>, Vec<Vec<u32>>),
    /// By published row.
    sensitive: Vec<u32>,
}

impl Attack {
    fn new(original: &[Row<u8, 8>], published: &[Row<u8, 8>], columns: &columns::Columns) -> Self {
        let parts = |rows: &[Row<u8, 8>], column: u64| -> Vec<Vec<u32>> {
            let part =
                |row: &Row<u8, 8>| check::bits(column).map(|at| row.codes[at].get()).collect();
            rows.iter().map(part).collect()
        };
        let of = |rows: &[Row<u8, 8>]| {
            columns.others.iter().map(|column| parts(rows, *column)).collect()
        };
        let beside = |rows| parts(rows, columns.with_sensitive);
        Self {
            seen: of(published),
            known: of(original),
            beside: (beside(published), beside(original)),
            sensitive: published.iter().map(|row| row.codes[ATTRIBUTES].get()).collect(),
        }
    }

    /// The largest chance of any sensitive value to be any person's own. Every bucket that could have
    /// been permuted into this one is counted, with every way to permute it.
    fn chance(&self) -> f64 {
        let rows = self.sensitive.len();
        let mut ways = vec![vec![0u64; rows]; rows];
        self.each_pairing(&mut Vec::new(), &mut ways);
        let of_person = |ways: &Vec<u64>| {
            let mut values: BTreeMap<u32, u64> = BTreeMap::new();
            for (row, ways) in ways.iter().enumerate() {
                *values.entry(self.sensitive[row]).or_default() += ways;
            }
            let all: u64 = values.values().sum();
            values.into_values().max().unwrap_or(0) as f64 / all as f64
        };
        ways.iter().map(of_person).fold(0.0, f64::max)
    }

    /// Gives every person one of the sensitive rows, in all ways.
    fn each_pairing(&self, pairing: &mut Vec<usize>, ways: &mut [Vec<u64>]) {
        let (person, rows) = (pairing.len(), self.sensitive.len());
        if person == rows {
            let count = self.placings(0, &mut vec![pairing.clone()], &mut Vec::new());
            pairing.iter().enumerate().for_each(|(person, row)| ways[person][*row] += count);
            return;
        }
        for row in 0..rows {
            if !pairing.contains(&row) && self.beside.0[row] == self.beside.1[person] {
                pairing.push(row);
                self.each_pairing(pairing, ways);
                pairing.pop();
            }
        }
    }

    /// How many ways there are to put the persons' parts of all columns where they are seen, none where
    /// the person's part of another column is.
    fn placings(
        &self,
        column: usize,
        taken: &mut Vec<Vec<usize>>,
        placing: &mut Vec<usize>,
    ) -> u64 {
        if column == self.seen.len() {
            return 1;
        }
        let (person, rows) = (placing.len(), self.sensitive.len());
        if person == rows {
            taken.push(std::mem::take(placing));
            let count = self.placings(column + 1, taken, &mut Vec::new());
            *placing = taken.pop().unwrap_or_default();
            return count;
        }
        let mut count = 0;
        for row in 0..rows {
            let is_free = !placing.contains(&row) && taken.iter().all(|other| other[person] != row);
            if is_free && self.seen[column][row] == self.known[column][person] {
                placing.push(row);
                count += self.placings(column, taken, placing);
                placing.pop();
            }
        }
        count
    }
}

/// A bucket of so many rows: codes below `values`, so that parts are equal now and then.
fn bucket(
    rows: usize,
    values: u32,
    sensitive: &[u8],
    draw: &mut impl FnMut(u32) -> u32,
) -> Vec<Row<u8, 8>> {
    let row = |id: usize| {
        let mut codes = [0u8; 8];
        codes[..ATTRIBUTES].iter_mut().for_each(|code| *code = draw(values) as u8);
        codes[ATTRIBUTES] = sensitive[id % sensitive.len()];
        Row { codes, id: id as u32 }
    };
    (0..rows).map(row).collect()
}

/// The largest chances over many buckets, and how many buckets there were.
fn attack(variant: Variant, l: u32) -> Result<(f64, usize)> {
    let mut state = 42u64;
    let mut draw = |end: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(end)) as u32
    };
    let (axes, sensitive) = axes();
    let (requirement, keys) = (Requirement::k(2), RowKeys::default());
    let (seed, cancel) = (Seed::from_bytes(b"attack"), Cancel::default());
    let job = Job {
        axes: &axes,
        requirement: &requirement,
        sensitive: &[],
        keys: &keys,
        cancel: &cancel,
    };
    let options = Options {
        sensitive: &sensitive,
        positions: &[],
        l,
        variant,
        rare_below: 0.0,
        has_kept: false,
        seed: &seed,
    };
    let (mut worst, mut buckets) = (0.0f64, 0);
    for number in 0..600 {
        // All ways are counted one by one: larger buckets have two columns only.
        let others = 1 + draw(3) as usize;
        let rows = 3 + draw(if others == 1 { 5 } else { 3 }) as usize;
        let different = 1 + draw(rows as u32) as usize;
        let values: Vec<u8> = (0..rows).map(|at| (at % different) as u8).collect();
        let rows = bucket(rows, 2 + draw(3), &values, &mut draw);
        // Every attribute goes to the sensitive one or to one of up to three other columns.
        let mut wanted = columns::Columns { with_sensitive: 0, others: vec![0; others] };
        for at in 0..ATTRIBUTES {
            match draw(4) {
                0 => wanted.with_sensitive |= 1 << at,
                _ => {
                    let column = draw(wanted.others.len() as u32) as usize;
                    wanted.others[column] |= 1 << at;
                }
            }
        }
        wanted.others.retain(|column| *column != 0);
        let finisher = Finisher::new(&rows, &job, &options);
        let columns = finisher.sound(&rows, wanted);
        let count = 1 + columns.others.len();
        if !check::is_diverse(&rows, ATTRIBUTES, columns.with_sensitive, &options, count) {
            continue;
        }
        let (published, _) = finisher.permuted(&rows, &columns, number)?;
        worst = worst.max(Attack::new(&rows, &published, &columns).chance());
        buckets += 1;
    }
    Ok((worst, buckets))
}

#[test]
fn nobody_names_a_sensitive_value_with_more_than_the_chance_asked_for() -> Result<()> {
    for l in 2..=4 {
        let (worst, buckets) = attack(Variant::Best, l)?;
        assert!(worst <= 1.0 / f64::from(l) + 1e-9, "{worst} where l = {l}");
        assert!(buckets > 30, "{buckets} buckets were attacked where l = {l}");
    }
    Ok(())
}

#[test]
fn different_values_alone_give_more_away() -> Result<()> {
    let (worst, _) = attack(Variant::Paper, 2)?;
    assert!(worst > 0.75, "{worst}");
    Ok(())
}

#[test]
fn rows_that_go_together_stay_together() -> Result<()> {
    // Attribute 1 follows the first: with associations they share a column, so the pair is kept.
    let rows = table(2_000, 3);
    let asked = Asked {
        k: 8,
        l: 2,
        variant: Variant::Best,
        has_kept: false,
        rare_below: 0.0,
        is_asg: true,
        columns: None,
        block_rows: 100_000,
    };
    let release = release(&rows, asked, &(0..2_000).collect::<Vec<usize>>())?;
    let follows = |codes: &[u32; ATTRIBUTES + 1]| codes[1] == codes[0] / 2;
    let before = rows.iter().filter(|row| follows(row)).count();
    let after = release.buckets.iter().flatten().filter(|(codes, ..)| follows(codes)).count();
    assert!(after as f64 > 0.9 * before as f64, "{after} of {before}");
    Ok(())
}
