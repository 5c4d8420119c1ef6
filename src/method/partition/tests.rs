//! The worked tables of the rounded-partition paper and how large the classes of the partition methods are.

use proptest::prelude::*;

use super::*;
use crate::hierarchy::Axis;
use crate::method::testing::{Release, Table};

const SPLITS: [Split; 2] = [Split::LeastLoss, Split::Widest];

fn run(codes: &[[u32; 3]], k: u32, cut: Cut, split: Split) -> Result<Release> {
    let largest = codes.iter().flatten().max().copied().unwrap_or(0);
    let values: Vec<f64> = (0..=largest).map(f64::from).collect();
    let table = Table::new(vec![Axis::line(&values, false); 3], codes.to_vec(), k);
    table.form(|rows, job| Ok((partition(rows, job, cut, split)?, 0)))
}

#[test]
fn table_1_of_the_paper_gives_three_classes_of_two() -> Result<()> {
    let codes = [[0, 0, 0], [0, 2, 0], [1, 1, 0], [2, 1, 0], [3, 0, 0], [3, 2, 0]];
    for split in SPLITS {
        let release = run(&codes, 2, Cut::Rounded, split)?;
        assert_eq!(release.classes, [[0, 1], [2, 3], [4, 5]], "{split:?}");
    }
    // Halving makes only two classes, of three rows each.
    assert_eq!(run(&codes, 2, Cut::Relaxed, Split::Widest)?.sizes(), [3, 3]);
    Ok(())
}

#[test]
fn figure_4_of_the_paper_is_cut_five_to_two() -> Result<()> {
    // Counters {0, 3, 1, 0, 1, 2} with k = 2: α = 3, β = 1.
    let codes = [1, 1, 1, 2, 4, 5, 5].map(|value| [value, 0, 0]);
    let release = run(&codes, 2, Cut::Rounded, Split::Widest)?;
    assert_eq!(release.classes.last(), Some(&vec![5, 6]));
    Ok(())
}

#[test]
fn strict_cuts_never_part_equal_values() -> Result<()> {
    let codes: Vec<[u32; 3]> = (0..40).map(|i| [u32::from(i >= 9), 0, 0]).collect();
    assert_eq!(run(&codes, 5, Cut::Strict, Split::Widest)?.sizes(), [9, 31]);
    Ok(())
}

fn table() -> impl Strategy<Value = Vec<[u32; 3]>> {
    // From all-equal columns through heavy ties to columns of nearly unique values.
    (1u32..4, 1u32..9, 1u32..1000).prop_flat_map(|(a, b, c)| {
        prop::collection::vec((0..a, 0..b, 0..c).prop_map(|(a, b, c)| [a, b, c]), 1..400)
    })
}

proptest! {
    #[test]
    fn theorems_1_and_2_of_the_paper_hold(codes in table(), k in 2u32..30, widest: bool) {
        let (n, size) = (codes.len(), k as usize);
        prop_assume!(n >= size);
        let sizes = run(&codes, k, Cut::Rounded, SPLITS[usize::from(widest)])?.sizes();
        let (alpha, beta) = (n / size, n % size);
        prop_assert_eq!(sizes.len(), alpha);
        let bound = size + beta.div_ceil(1 << alpha.ilog2());
        prop_assert!(sizes.iter().all(|rows| (size..=bound).contains(rows)));
    }

    #[test]
    fn corollary_2_of_the_paper_holds(k in 2u32..12, extra in 0usize..200) {
        let n = 2 * (k * k) as usize + extra;
        let codes: Vec<[u32; 3]> = (0..n as u32).map(|i| [i, i * 7 % 13, 0]).collect();
        let sizes = run(&codes, k, Cut::Rounded, Split::Widest)?.sizes();
        let largest = k as usize + usize::from(!n.is_multiple_of(k as usize));
        prop_assert!(sizes.iter().all(|size| (k as usize..=largest).contains(size)));
    }

    #[test]
    fn relaxed_classes_are_below_2k(codes in table(), k in 2u32..30, widest: bool) {
        prop_assume!(codes.len() >= k as usize);
        let sizes = run(&codes, k, Cut::Relaxed, SPLITS[usize::from(widest)])?.sizes();
        prop_assert!(sizes.iter().all(|size| *size < 2 * k as usize));
    }

    #[test]
    fn strict_classes_never_share_a_tuple(codes in table(), k in 2u32..30) {
        prop_assume!(codes.len() >= k as usize);
        let release = run(&codes, k, Cut::Strict, Split::LeastLoss)?;
        let mut class_of = std::collections::HashMap::new();
        for (index, class) in release.classes.iter().enumerate() {
            for id in class {
                let known = *class_of.entry(codes[*id as usize]).or_insert(index);
                prop_assert_eq!(known, index);
            }
        }
    }
}
