//! Where the default departs from the paper: frozen rows count, and the column that gains most climbs.

use super::join::drawn;
use super::random::{WIDTHS, random_trees};
use super::*;
use crate::measure::node_loss;

#[test]
fn frozen_rows_count_for_those_that_publish_the_same_projection() {
    let flat = |values| tree(&Levels::default(), values);
    let trees = [flat(2), flat(1), flat(5)];
    // Three rows of each value in column 0 are frozen as they are. Two more of each differ in column 2, which
    // climbs. Then they are too few for the first constraint without the frozen ones.
    let mut codes = vec![[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]];
    codes.extend([[0, 0, 1], [0, 0, 2], [1, 0, 3], [1, 0, 4]]);
    let constraints = [constraint(&[0, 1], 3), constraint(&[1, 2], 2)];
    let values = [0, 0, 0, 1, 1, 1, 0, 0, 1, 1];
    for search in [Search::Complete, Search::Partial] {
        let best = solve(&codes, &trees, &constraints, search).unwrap();
        assert_eq!((&best.nodes[0][..], &best.nodes[2][6..]), (&values[..], &[5; 4][..]));
        let printed = solve_as_printed(&codes, &trees, &constraints, search).unwrap();
        assert_eq!(printed.nodes[0][6..], [2; 4]);
    }
}

#[test]
fn the_column_climbs_on_which_most_rows_freeze_for_the_loss() {
    let number = |value: i128| value.to_string();
    let pairs = intervals(&[0, 1, 2, 3], &[2], &number).unwrap();
    let trees = [tree(&Levels::default(), 6), tree(&pairs, 4)];
    // Every value of column 0 occurs twice, with 0 and 1 or with 2 and 3 in column 1.
    let codes: Vec<[u32; 2]> = (0..12).map(|row| [row / 2, row / 2 % 2 * 2 + row % 2]).collect();
    let constraints = [constraint(&[0, 1], 2)];
    let best = solve(&codes, &trees, &constraints, Search::Complete).unwrap();
    assert!(best.nodes[0].iter().all(|node| *node < 6) && best.components[0].climbs == 1);
    // As printed the column with more values climbs.
    let printed = solve_as_printed(&codes, &trees, &constraints, Search::Complete).unwrap();
    assert!(printed.nodes[0].iter().all(|node| *node == 6));
}

#[test]
fn less_is_lost_than_by_the_rules_of_the_paper() {
    let trees = random_trees();
    let trees: Vec<&Tree> = trees.iter().collect();
    let (mut best, mut printed, mut climbing) = ([0.0; 2], [0.0; 2], 0);
    for case in 0..100u64 {
        let mut seed = case;
        let mut row = || WIDTHS.map(|width| drawn(&mut seed, width).min(drawn(&mut seed, width)));
        let codes: Vec<[u32; 4]> = (0..600).map(|_| row()).collect();
        let rows = RowTable::from_codes(&codes).unwrap();
        let several = [constraint(&[0, 1, 2], 9), constraint(&[2, 3], 12), constraint(&[1, 3], 15)];
        for (at, constraints) in
            [&several[..], &[constraint(&[0, 1, 2, 3], 5)]].into_iter().enumerate()
        {
            let lost = |variant| {
                let job = job(&trees, constraints, variant);
                let recoding = classfly(&rows, &job, Search::Complete).unwrap();
                (node_loss(&recoding.nodes, &trees), recoding.components[0].climbs)
            };
            let ((lost_best, climbs), (lost_printed, _)) =
                (lost(Variant::Best), lost(Variant::Paper));
            best[at] += lost_best;
            printed[at] += lost_printed;
            climbing += usize::from(climbs > 0);
        }
    }
    let ratios = [best[0] / printed[0], best[1] / printed[1]];
    println!("of the paper's loss: {ratios:.3?}; {climbing} of 200 climb");
    assert!(climbing > 150 && ratios.iter().all(|ratio| *ratio < 0.9), "{climbing} {ratios:?}");
}
