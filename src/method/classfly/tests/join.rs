//! Rows that join the suppressed ones.

use std::collections::HashMap;

use super::random::{WIDTHS, random_trees};
use super::*;

#[test]
fn figure_2_needs_a_whole_group_where_no_row_can_be_spared() {
    use figure_1::*;
    type Method = fn(&RowTable, &Job) -> Result<Recoding>;
    let methods: [Method; 3] = [
        |rows, job| classfly(rows, job, Search::Complete),
        |rows, job| classfly(rows, job, Search::Partial),
        |rows, job| datafly(rows, job, None),
    ];
    for method in methods {
        let recoding = run(&ROWS, &trees(), &constraints(), Variant::Best, method).unwrap();
        let zips = labels(&recoding.nodes[2], &trees()[2], &ZIPS);
        assert_eq!(zips, ["02138", "02138", "02135", "02135", "*", "*", "*", "*", "*"]);
        let Component { suppressed, joined, .. } = &recoding.components[0];
        assert_eq!((suppressed.as_slice(), *joined), (&[4, 5, 6, 7, 8][..], 3));
    }
}

#[test]
fn figure_2_naive_spares_one_of_four_equal_rows_by_the_seed() {
    use figure_1::*;
    let (rows, trees, constraints) = (RowTable::from_codes(&ROWS).unwrap(), trees(), constraints());
    let trees: Vec<&Tree> = trees.iter().collect();
    let mut joined = [0; 9];
    for seed in 0..400u32 {
        let seed = Seed::from_bytes(&seed.to_le_bytes());
        let keys = RowKeys { ties: (0..9).collect::<Vec<u64>>().into(), ..RowKeys::default() };
        let job = Job { seed, keys: &keys, ..job(&trees, &constraints, Variant::Best) };
        let recoding = classfly(&rows, &job, Search::Naive).unwrap();
        check_constraints(&rows, &job, &recoding).unwrap();
        let suppressed = &recoding.components[0].suppressed;
        assert_eq!((suppressed.len(), &suppressed[1..]), (3, &[7, 8][..]));
        joined[suppressed[0] as usize] += 1;
    }
    assert!(joined[..4].iter().all(|times| (70..130).contains(times)), "{joined:?}");
}

#[test]
fn the_rows_that_lose_least_join_first() {
    let tree = Tree::of_labels("a;x;*\nb;x;*\nc;y;*\nd;y;*\ne;y;*\n", false);
    // Three rows stay a, three become y, and b is left. Both groups can spare a row; one of y has lost
    // half of its value already.
    let codes = [[0], [0], [0], [1], [2], [3], [4]];
    let trees = std::slice::from_ref(&tree);
    let recoding = solve(&codes, trees, &[constraint(&[0], 2)], Search::Complete).unwrap();
    let labels = labels(&recoding.nodes[0], &tree, &["a", "b", "c", "d", "e"]);
    assert_eq!(labels[..4], ["a", "a", "a", "*"]);
    assert_eq!(labels[4..].iter().filter(|label| *label == "y").count(), 2);
    assert_eq!(recoding.components[0].joined, 1);
}

/// Row 4 is alone in column 0, row 0 in column 2.
const APART: [[u32; 3]; 5] = [[0, 0, 1], [0, 1, 0], [0, 2, 0], [0, 1, 0], [2, 0, 0]];

#[test]
fn a_row_suppressed_in_one_part_is_joined_there_only() {
    let flat = || tree(&Levels::default(), 3);
    let trees = [flat(), flat(), flat()];
    let constraints = [constraint(&[0], 2), constraint(&[2], 3)];
    let recoding = solve(&APART, &trees, &constraints, Search::Complete).unwrap();
    let [of_first, of_third] = &recoding.components[..] else { unreachable!() };
    // Of four equal rows one joins, and three stay.
    assert_eq!((of_first.suppressed.len(), of_first.joined), (2, 1));
    assert!(of_first.suppressed.contains(&4));
    // Four equal rows could spare one of the two that are missing, so all of them go.
    assert_eq!((of_third.suppressed.len(), of_third.joined), (5, 4));
    assert_eq!(recoding.nodes[1], [0, 1, 2, 1, 0]);
}

#[test]
fn dropped_rows_need_no_company_and_are_none() {
    let flat = || tree(&Levels::default(), 3);
    let trees = [flat(), flat(), flat()];
    let trees: Vec<&Tree> = trees.iter().collect();
    let rows = RowTable::from_codes(&APART).unwrap();
    let one = [constraint(&[0], 2)];
    let job_of_one = Job { drop_suppressed: true, ..job(&trees, &one, Variant::Best) };
    let recoding = classfly(&rows, &job_of_one, Search::Complete).unwrap();
    check_constraints(&rows, &job_of_one, &recoding).unwrap();
    assert_eq!(recoding.components[0].suppressed, [4]);
    // A row dropped is suppressed in both parts; of the others there are enough.
    let two = [constraint(&[0], 2), constraint(&[2], 3)];
    let job_of_two = Job { drop_suppressed: true, ..job(&trees, &two, Variant::Best) };
    let recoding = classfly(&rows, &job_of_two, Search::Complete).unwrap();
    check_constraints(&rows, &job_of_two, &recoding).unwrap();
    assert_eq!(recoding.suppressed_everywhere(), recoding.components[0].suppressed);
    assert_eq!(recoding.components[1].suppressed.len(), 5);
}

#[test]
fn few_rows_of_stars_are_found_by_the_check() {
    use figure_1::*;
    let (rows, trees, constraints) = (RowTable::from_codes(&ROWS).unwrap(), trees(), constraints());
    let trees: Vec<&Tree> = trees.iter().collect();
    let printed = job(&trees, &constraints, Variant::Paper);
    let recoding = classfly(&rows, &printed, Search::Complete).unwrap();
    assert_eq!(check_constraints(&rows, &printed, &recoding), Ok(()));
    let best = job(&trees, &constraints, Variant::Best);
    assert!(matches!(check_constraints(&rows, &best, &recoding), Err(Error::Bug(_))));
    // Dropped, they are nothing that is published.
    let dropping = Job { drop_suppressed: true, ..best };
    assert_eq!(check_constraints(&rows, &dropping, &recoding), Ok(()));
}

/// The smallest number of published rows that share their values in the columns of a constraint, over
/// its k: 1 or more if the constraint holds.
fn smallest_over_k(recoding: &Recoding, constraint: &Constraint, dropped: &[u32]) -> f64 {
    let mut groups: HashMap<Vec<u32>, u32> = HashMap::new();
    let rows = (0..recoding.nodes[0].len()).filter(|row| !dropped.contains(&(*row as u32)));
    for row in rows {
        let tuple = constraint.columns.iter().map(|column| recoding.nodes[*column][row]).collect();
        *groups.entry(tuple).or_default() += 1;
    }
    groups.values().min().map_or(f64::INFINITY, |least| f64::from(*least) / f64::from(constraint.k))
}

/// Numbers that are as good as random.
pub(super) fn drawn(seed: &mut u64, below: u32) -> u32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*seed >> 33) % u64::from(below)) as u32
}

#[test]
fn every_published_tuple_occurs_k_times_stars_included() {
    let trees = random_trees();
    let trees: Vec<&Tree> = trees.iter().collect();
    let (mut with_stars, mut joined, mut whole) = (0, 0, 0);
    for case in 0..400u64 {
        let mut seed = case;
        let rows = 8 + drawn(&mut seed, 60);
        let mut row = || WIDTHS.map(|width| drawn(&mut seed, width).min(drawn(&mut seed, width)));
        let codes: Vec<[u32; 4]> = (0..rows).map(|_| row()).collect();
        let mut constraints: Vec<Constraint> = Vec::new();
        for set in [1 + drawn(&mut seed, 15), 1 + drawn(&mut seed, 15), 1 + drawn(&mut seed, 15)] {
            let columns = (0..4).filter(|column| set >> column & 1 == 1).collect();
            let constraint = Constraint { columns, k: 2 + drawn(&mut seed, 5) };
            if !constraints.contains(&constraint) {
                constraints.push(constraint);
            }
        }
        let rows = RowTable::from_codes(&codes).unwrap();
        for (method, drop_suppressed) in (0..4).flat_map(|m| [(m, false), (m, true)]) {
            let best = job(&trees, &constraints, Variant::Best);
            let job = Job { drop_suppressed, ..best };
            let recoding = match method {
                3 => datafly(&rows, &job, Some(drawn(&mut seed, 9) as usize)),
                search => classfly(&rows, &job, SEARCHES[search]),
            };
            let recoding = recoding.unwrap();
            check_constraints(&rows, &job, &recoding).unwrap();
            let dropped = recoding.dropped(&job);
            for constraint in &constraints {
                let smallest = smallest_over_k(&recoding, constraint, &dropped);
                assert!(
                    smallest >= 1.0,
                    "case {case}, method {method}, dropping {drop_suppressed}"
                );
            }
            let has_stars = |component: &&Component| component.suppressed.len() > dropped.len();
            with_stars += recoding.components.iter().filter(has_stars).count();
            joined += recoding.components.iter().filter(|component| component.joined > 0).count();
            let all = |component: &&Component| component.suppressed.len() == codes.len();
            whole += recoding.components.iter().filter(all).count();
        }
    }
    println!("{with_stars} parts with stars, {joined} with rows that joined, {whole} whole");
    assert!(with_stars > 500 && joined > 500, "{with_stars} {joined}");
    assert!(whole < with_stars / 4, "{whole} of {with_stars}");
}
