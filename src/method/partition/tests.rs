//! The worked tables of the rounded-partition paper and how large the classes of the partition methods are.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::hierarchy::Axis;
use crate::method::testing::{Release, Table};

const SPLITS: [Split; 2] = [Split::LeastLoss, Split::Widest];
const VARIANTS: [Variant; 2] = [Variant::Best, Variant::Paper];

fn run(codes: &[[u32; 3]], k: u32, cut: Cut, split: Split, variant: Variant) -> Result<Release> {
    let largest = codes.iter().flatten().max().copied().unwrap_or(0);
    let values: Vec<f64> = (0..=largest).map(f64::from).collect();
    let table = Table::new(vec![Axis::line(&values, false); 3], codes.to_vec(), k);
    table.form(|rows, job| Ok((partition(rows, job, Options { cut, split, variant })?, 0)))
}

/// Table 1 of the paper: ages 20 to 50 and zips 101 to 103.
const TABLE_1: [[u32; 2]; 6] = [[0, 0], [0, 2], [1, 1], [2, 1], [3, 0], [3, 2]];

fn table_1() -> Table<2> {
    let axes =
        vec![Axis::line(&[20., 30., 40., 50.], false), Axis::line(&[101., 102., 103.], false)];
    Table::new(axes, TABLE_1.to_vec(), 2)
}

fn cut_table_1(table: &Table<2>, cut: Cut, split: Split, variant: Variant) -> Result<Release> {
    table.form(|rows, job| Ok((partition(rows, job, Options { cut, split, variant })?, 0)))
}

#[test]
fn table_1_of_the_paper_gives_three_classes_of_two() -> Result<()> {
    let table = table_1();
    for (split, variant) in SPLITS.into_iter().flat_map(|split| VARIANTS.map(|of| (split, of))) {
        let release = cut_table_1(&table, Cut::Rounded, split, variant)?;
        assert_eq!(release.sizes(), [2, 2, 2], "{split:?}, {variant:?}");
    }
    // Zip is cut twice. The loss of 14/3 cells is that of the paper's own table 2.
    let release = cut_table_1(&table, Cut::Rounded, Split::LeastLoss, Variant::Best)?;
    assert_eq!(release.classes, [[0, 4], [2, 3], [1, 5]]);
    assert!((12.0 * release.loss - 14.0 / 3.0).abs() < 1e-9);
    // Halving makes only two classes, of three rows each.
    let release = cut_table_1(&table, Cut::Relaxed, Split::Widest, Variant::Paper)?;
    assert_eq!(release.sizes(), [3, 3]);
    Ok(())
}

#[test]
fn as_printed_table_1_of_the_paper_has_the_labels_of_table_2() -> Result<()> {
    // With a hierarchy of its nodes Age is as wide as Zip wherever it has more than one of them, and the first
    // declared is cut.
    let ages = Axis::of_labels("20;20;*\n30;[30~40];*\n40;[30~40];*\n50;50;*\n", false);
    let mut table = table_1();
    table.axes[0] = ages;
    let release = cut_table_1(&table, Cut::Rounded, Split::Widest, Variant::Paper)?;
    let (ages, zips) = (["20", "30", "40", "50"], ["101", "102", "103"]);
    let label = |names: &[&str], column: usize, class: &[u32]| {
        let codes = || class.iter().map(|id| TABLE_1[*id as usize][column] as usize);
        let (low, high) = (codes().min().unwrap_or(0), codes().max().unwrap_or(0));
        match low == high {
            true => names[low].to_owned(),
            false => format!("[{}~{}]", names[low], names[high]),
        }
    };
    let mut published = vec![String::new(); 6];
    for class in &release.classes {
        let label = format!("{} {}", label(&ages, 0, class), label(&zips, 1, class));
        class.iter().for_each(|id| published[*id as usize].clone_from(&label));
    }
    let table_2 = ["20 [101~103]", "[30~40] 102", "50 [101~103]"];
    assert_eq!(published, table_2.map(|label| [label; 2]).concat());
    assert!((12.0 * release.loss - 14.0 / 3.0).abs() < 1e-9);
    Ok(())
}

#[test]
fn figure_4_of_the_paper_is_cut_five_to_two() -> Result<()> {
    // Counters {0, 3, 1, 0, 1, 2} with k = 2: α = 3, β = 1. Five go left whichever way the remainder is shared.
    let codes = [1, 1, 1, 2, 4, 5, 5].map(|value| [value, 0, 0]);
    for variant in VARIANTS {
        assert_eq!(quota::rounded(7, 2, variant), 5);
        let release = run(&codes, 2, Cut::Rounded, Split::Widest, variant)?;
        assert_eq!(release.classes.last(), Some(&vec![5, 6]), "{variant:?}");
    }
    Ok(())
}

/// The classes that cutting makes of n rows.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sizes {
    classes: usize,
    smallest: usize,
    largest: usize,
}

/// For every n up to a number of rows, the classes of a rounded partition: those of both sides of the first cut.
fn sizes_up_to(rows: usize, k: usize, variant: Variant) -> Vec<Sizes> {
    let mut sizes: Vec<Sizes> = Vec::with_capacity(rows + 1);
    for n in 0..=rows {
        let of = match n < 2 * k {
            true => Sizes { classes: 1, smallest: n, largest: n },
            false => {
                let left = quota::rounded(n, k, variant);
                let (one, other) = (sizes[left], sizes[n - left]);
                Sizes {
                    classes: one.classes + other.classes,
                    smallest: one.smallest.min(other.smallest),
                    largest: one.largest.max(other.largest),
                }
            }
        };
        sizes.push(of);
    }
    sizes
}

/// The largest class that each version promises.
fn bound(n: usize, k: usize, variant: Variant) -> usize {
    let (alpha, beta) = (n / k, n % k);
    match variant {
        Variant::Best => k + beta.div_ceil(alpha),
        Variant::Paper => k + beta.div_ceil(1 << alpha.ilog2()),
    }
}

#[test]
fn every_remainder_is_shared_as_promised() {
    let (mut cases, mut beaten) = (0, 0);
    for k in 2..=40 {
        let [best, paper] = VARIANTS.map(|variant| sizes_up_to(2 * k * k, k, variant));
        for n in k..2 * k * k {
            let (best, paper) = (best[n], paper[n]);
            for of in [best, paper] {
                assert_eq!(of.classes, n / k, "n = {n}, k = {k}");
                assert!(of.smallest >= k, "n = {n}, k = {k}: {of:?}");
                assert!(of.largest == k || n % k != 0, "n = {n}, k = {k}: {of:?}");
            }
            assert_eq!(best.largest, bound(n, k, Variant::Best), "n = {n}, k = {k}");
            assert!(best.largest <= k + 1 || n < k * (k - 1), "n = {n}, k = {k}");
            assert!(paper.largest <= bound(n, k, Variant::Paper), "n = {n}, k = {k}");
            assert!(paper.largest >= best.largest, "n = {n}, k = {k}");
            cases += 1;
            beaten += usize::from(paper.largest > best.largest);
        }
    }
    assert_eq!((cases, beaten), (43_459, 2_494));
    let largest = VARIANTS.map(|variant| sizes_up_to(27, 7, variant)[27].largest);
    assert_eq!(largest, [9, 10], "27 rows, k = 7");
}

#[test]
fn from_2k2_rows_on_no_class_has_more_than_one_row_too_many() {
    for k in 2..=40 {
        for variant in VARIANTS {
            let sizes = sizes_up_to(8 * k * k, k, variant);
            for (n, of) in sizes.iter().enumerate().skip(2 * k * k) {
                let expected =
                    Sizes { classes: n / k, smallest: k, largest: k + usize::from(n % k != 0) };
                assert_eq!(*of, expected, "n = {n}, k = {k}, {variant:?}");
            }
        }
    }
}

#[test]
fn strict_cuts_never_part_equal_values() -> Result<()> {
    let codes: Vec<[u32; 3]> = (0..40).map(|i| [u32::from(i >= 9), 0, 0]).collect();
    assert_eq!(run(&codes, 5, Cut::Strict, Split::Widest, Variant::Best)?.sizes(), [9, 31]);
    Ok(())
}

fn table() -> impl Strategy<Value = Vec<[u32; 3]>> {
    // From all-equal columns through heavy ties to columns of nearly unique values.
    (1u32..4, 1u32..9, prop_oneof![1u32..4, 1u32..1000]).prop_flat_map(|(a, b, c)| {
        prop::collection::vec((0..a, 0..b, 0..c).prop_map(|(a, b, c)| [a, b, c]), 1..400)
    })
}

fn drawn<S: Strategy>(strategy: &S, runner: &mut TestRunner) -> S::Value {
    strategy.new_tree(runner).unwrap_or_else(|_| unreachable!()).current()
}

#[test]
fn theorems_1_and_2_of_the_paper_hold_on_random_tables() -> Result<()> {
    let mut runner = TestRunner::deterministic();
    let (mut cases, mut with_ties, mut with_remainder) = (0, 0, 0);
    while cases < 400 {
        let codes = drawn(&table(), &mut runner);
        let k = drawn(&(2u32..30), &mut runner);
        let (n, size) = (codes.len(), k as usize);
        if n < size {
            continue;
        }
        let mut tuples = codes.clone();
        tuples.sort_unstable();
        tuples.dedup();
        for (split, variant) in SPLITS.into_iter().flat_map(|split| VARIANTS.map(|of| (split, of)))
        {
            let sizes = run(&codes, k, Cut::Rounded, split, variant)?.sizes();
            assert_eq!(sizes.len(), n / size, "n = {n}, k = {k}, {split:?}, {variant:?}");
            assert!(sizes.iter().all(|rows| *rows >= size), "n = {n}, k = {k}: {sizes:?}");
            let expected = sizes_up_to(n, size, variant)[n].largest;
            assert_eq!(sizes.iter().max(), Some(&expected), "n = {n}, k = {k}: {sizes:?}");
            assert!(expected <= bound(n, size, variant), "n = {n}, k = {k}: {sizes:?}");
        }
        cases += 1;
        with_ties += usize::from(2 * tuples.len() < n);
        with_remainder += usize::from(!n.is_multiple_of(size) && n >= 2 * size);
    }
    assert!(with_ties > 50 && with_remainder > 200, "{with_ties}, {with_remainder}");
    Ok(())
}

const NODES: Options =
    Options { cut: Cut::Rounded, split: Split::LeastLoss, variant: Variant::Best };

/// A hierarchy of 27 leaves in threes and nines.
fn tree(missing: bool) -> Axis {
    let leaf = |at: usize| format!("{at};third {};ninth {};*\n", at / 3, at / 9);
    Axis::of_labels(&(0..27).map(leaf).collect::<String>(), missing)
}

#[test]
fn cuts_at_nodes_leave_one_class_across_them() -> Result<()> {
    // Five, four and three rows under the nodes. With k = 2 they keep four, four and two.
    let codes = [0, 1, 2, 3, 4, 9, 10, 11, 12, 18, 19, 26].map(|code| [code]).to_vec();
    let table = Table::new(vec![tree(false)], codes, 2);
    let release = table.form(|rows, job| Ok((partition(rows, job, NODES)?, 0)))?;
    assert_eq!(release.sizes(), [2; 6]);
    let node = |id: &u32| table.codes[*id as usize][0] / 9;
    let across = release.classes.iter().filter(|class| node(&class[0]) != node(&class[1]));
    assert_eq!(across.count(), 1);
    Ok(())
}

/// Rows of three columns, without any order.
fn scattered(n: usize, k: usize) -> Vec<[u32; 3]> {
    let mut state = (n * 41 + k) as u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 33) % below) as u32
    };
    (0..n).map(|_| [next(27), next(28), next(5)]).collect()
}

/// The largest class of each version with and without hierarchies is what it promises.
fn check_partitions(n: usize, k: usize) -> Result<()> {
    let flat = || vec![Axis::line(&(0..28).map(f64::from).collect::<Vec<f64>>(), false); 3];
    let trees = || vec![tree(false), tree(true), Axis::line(&[0., 1., 2., 5., 9.], false)];
    for (axes, variant) in VARIANTS.into_iter().flat_map(|of| [(flat(), of), (trees(), of)]) {
        let has_trees = axes[0] != flat()[0];
        let split = if variant == Variant::Best { Split::LeastLoss } else { Split::Widest };
        let options = Options { cut: Cut::Rounded, split, variant };
        let table = Table::new(axes, scattered(n, k), k as u32);
        let sizes = table.form(|rows, job| Ok((partition(rows, job, options)?, 0)))?.sizes();
        let case = format!("n = {n}, k = {k}, {variant:?}, trees: {has_trees}");
        assert_eq!(sizes.len(), n / k, "{case}");
        assert_eq!(sizes.iter().sum::<usize>(), n, "{case}");
        assert!(
            sizes.iter().all(|rows| (k..=bound(n, k, variant)).contains(rows)),
            "{case}: {sizes:?}"
        );
        // Cuts at nodes share the remainder as the nodes ask for, within the bound.
        if !has_trees || variant == Variant::Paper {
            let expected = sizes_up_to(n, k, variant)[n].largest;
            assert_eq!(sizes.iter().max(), Some(&expected), "{case}: {sizes:?}");
        }
    }
    Ok(())
}

#[test]
fn partitions_of_every_size_up_to_2k2_keep_the_bounds() -> Result<()> {
    let mut cases = 0;
    for k in 2..=12 {
        for n in k..2 * k * k {
            check_partitions(n, k)?;
            cases += 1;
        }
    }
    assert_eq!(cases, 1_221);
    Ok(())
}

#[test]
fn partitions_with_larger_k_keep_the_bounds() -> Result<()> {
    let mut cases = 0;
    for k in [13, 16, 19, 23, 29, 34, 40] {
        // From one table to the next the remainder grows by one.
        for n in (k..2 * k * k).step_by(4 * k + 1) {
            check_partitions(n, k)?;
            cases += 1;
        }
    }
    assert_eq!(cases, 89);
    Ok(())
}

#[test]
fn cuts_at_nodes_do_not_look_at_the_order_of_the_rows() -> Result<()> {
    let mut runner = TestRunner::deterministic();
    for _ in 0..50 {
        let codes = drawn(&table_of_nodes(), &mut runner);
        let reversed: Vec<[u32; 3]> = codes.iter().rev().copied().collect();
        let axes = || vec![tree(false), tree(true), Axis::line(&[0., 1., 2., 5., 9.], false)];
        let content = |codes: Vec<[u32; 3]>| -> Result<_> {
            let table = Table::new(axes(), codes, 3);
            let release = table.form(|rows, job| Ok((partition(rows, job, NODES)?, 0)))?;
            Ok(table.content(&release))
        };
        if codes.len() >= 3 {
            assert_eq!(content(codes)?, content(reversed)?);
        }
    }
    Ok(())
}

fn table_of_nodes() -> impl Strategy<Value = Vec<[u32; 3]>> {
    (1u32..28, 1u32..29, 1u32..6).prop_flat_map(|(a, b, c)| {
        prop::collection::vec((0..a, 0..b, 0..c).prop_map(|(a, b, c)| [a, b, c]), 1..500)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cuts_at_nodes_make_as_many_and_as_small_classes(codes in table_of_nodes(), k in 2u32..40) {
        let (n, size) = (codes.len(), k as usize);
        prop_assume!(n >= size);
        let axes = vec![tree(false), tree(true), Axis::line(&[0., 1., 2., 5., 9.], false)];
        let release =
            Table::new(axes, codes, k).form(|rows, job| Ok((partition(rows, job, NODES)?, 0)))?;
        let sizes = release.sizes();
        prop_assert_eq!(sizes.len(), n / size);
        let largest = bound(n, size, Variant::Best);
        prop_assert!(sizes.iter().all(|rows| (size..=largest).contains(rows)), "{:?}", sizes);
    }
}

proptest! {
    #[test]
    fn relaxed_classes_are_below_2k(
        codes in table(), k in 2u32..30, widest: bool, paper: bool,
    ) {
        prop_assume!(codes.len() >= k as usize);
        let sizes = run(&codes, k, Cut::Relaxed, SPLITS[usize::from(widest)], VARIANTS[usize::from(paper)])?.sizes();
        prop_assert!(sizes.iter().all(|size| *size < 2 * k as usize));
    }

    #[test]
    fn strict_classes_never_share_a_tuple(codes in table(), k in 2u32..30, paper: bool) {
        prop_assume!(codes.len() >= k as usize);
        let release = run(&codes, k, Cut::Strict, Split::LeastLoss, VARIANTS[usize::from(paper)])?;
        let mut class_of = std::collections::HashMap::new();
        for (index, class) in release.classes.iter().enumerate() {
            for id in class {
                let known = *class_of.entry(codes[*id as usize]).or_insert(index);
                prop_assert_eq!(known, index);
            }
        }
    }
}
