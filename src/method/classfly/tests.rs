//! The worked tables of the Classfly+ paper and the promises of its methods on random tables.

#![allow(clippy::unwrap_used)]

mod adult;
mod best;
mod datafly;
mod join;
mod random;

use std::sync::LazyLock;

use super::*;
use crate::hierarchy::{Levels, intervals, prefixes};
use crate::measure::precision;

const SEARCHES: [Search; 3] = [Search::Complete, Search::Partial, Search::Naive];

fn constraint(columns: &[usize], k: u32) -> Constraint {
    Constraint { columns: columns.to_vec(), k }
}

static KEYS: LazyLock<RowKeys> = LazyLock::new(RowKeys::default);
static CANCEL: LazyLock<Cancel> = LazyLock::new(Cancel::default);

/// What is asked for; as printed, there may be few suppressed rows.
fn job<'a>(trees: &'a [&'a Tree], constraints: &'a [Constraint], variant: Variant) -> Job<'a> {
    let seed = Seed::from_bytes(b"a secret");
    let (keys, cancel) = (&*KEYS, &*CANCEL);
    Job { trees, constraints, variant, drop_suppressed: false, keys, seed, cancel }
}

/// Runs a method and looks at the outcome with the checker.
fn run<const D: usize>(
    codes: &[[u32; D]],
    trees: &[Tree],
    constraints: &[Constraint],
    variant: Variant,
    method: impl Fn(&RowTable, &Job) -> Result<Recoding>,
) -> Result<Recoding> {
    let rows = RowTable::from_codes(codes).ok_or_else(|| Error::bug("too wide"))?;
    let trees: Vec<&Tree> = trees.iter().collect();
    let job = job(&trees, constraints, variant);
    let recoding = method(&rows, &job)?;
    check_constraints(&rows, &job, &recoding)?;
    Ok(recoding)
}

fn solve<const D: usize>(
    codes: &[[u32; D]],
    trees: &[Tree],
    constraints: &[Constraint],
    search: Search,
) -> Result<Recoding> {
    run(codes, trees, constraints, Variant::Best, |rows, job| classfly(rows, job, search))
}

fn solve_as_printed<const D: usize>(
    codes: &[[u32; D]],
    trees: &[Tree],
    constraints: &[Constraint],
    search: Search,
) -> Result<Recoding> {
    run(codes, trees, constraints, Variant::Paper, |rows, job| classfly(rows, job, search))
}

/// A tree over values in the order of their codes; none of the sources used here reorders them.
fn tree(levels: &Levels, values: usize) -> Tree {
    let (tree, order) = Tree::new(levels, values, false);
    assert!(order.iter().copied().eq(0..values as u32));
    tree
}

/// What a column publishes: labels above the values, the values themselves below.
fn labels(nodes: &[u32], tree: &Tree, values: &[&str]) -> Vec<String> {
    let label = |node: &u32| tree.label(*node).unwrap_or_else(|| values[*node as usize]).to_owned();
    nodes.iter().map(label).collect()
}

mod figure_1 {
    use super::*;

    pub(super) const RACES: [&str; 2] = ["Black", "White"];
    pub(super) const BIRTHS: [&str; 2] = ["6/20/66", "8/25/65"];
    pub(super) const ZIPS: [&str; 4] = ["02135", "02136", "02137", "02138"];

    /// t1..t9 of (Race, Birth, ZIP).
    pub(super) const ROWS: [[u32; 3]; 9] = [
        [1, 1, 3],
        [1, 1, 3],
        [1, 1, 0],
        [1, 1, 0],
        [0, 0, 2],
        [0, 0, 2],
        [0, 0, 2],
        [0, 0, 1],
        [1, 0, 1],
    ];

    pub(super) fn trees() -> Vec<Tree> {
        let zips = prefixes(&ZIPS, &[4, 3, 2, 1]).unwrap_or_default();
        vec![tree(&Levels::default(), 2), tree(&Levels::default(), 2), tree(&zips, 4)]
    }

    pub(super) fn constraints() -> [Constraint; 2] {
        [constraint(&[0, 1], 3), constraint(&[1, 2], 2)]
    }
}

#[test]
fn figure_2_of_the_paper_complete_and_partial_freeze_seven_rows_unchanged() {
    use figure_1::*;
    for search in [Search::Complete, Search::Partial] {
        let recoding = solve_as_printed(&ROWS, &trees(), &constraints(), search).unwrap();
        let zips = labels(&recoding.nodes[2], &trees()[2], &ZIPS);
        let expected = ["02138", "02138", "02135", "02135", "02137", "02137", "02137", "*", "*"];
        assert_eq!(zips, expected, "{search:?}");
        let races = labels(&recoding.nodes[0], &trees()[0], &RACES);
        assert_eq!(races[..7], ["White", "White", "White", "White", "Black", "Black", "Black"]);
        assert_eq!(races[7..], ["*", "*"]);
        let births = labels(&recoding.nodes[1], &trees()[1], &BIRTHS);
        assert_eq!(births[3..5], ["8/25/65", "6/20/66"]);
        assert_eq!(births[7..], ["*", "*"]);
        assert_eq!(recoding.components[0].suppressed, [7, 8]);
    }
}

#[test]
fn figure_2_of_the_paper_naive_generalizes_the_zip_of_four_rows() {
    use figure_1::*;
    let recoding = solve_as_printed(&ROWS, &trees(), &constraints(), Search::Naive).unwrap();
    let zips = labels(&recoding.nodes[2], &trees()[2], &ZIPS);
    let expected = ["0213*", "0213*", "0213*", "0213*", "02137", "02137", "02137", "*", "*"];
    assert_eq!(zips, expected);
    let births = labels(&recoding.nodes[1], &trees()[1], &BIRTHS);
    assert_eq!(births[..4], ["8/25/65"; 4]);
    assert_eq!(recoding.components[0].suppressed, [7, 8]);
}

// Figure 1 of the paper, sub-table ⟨{Sex, Work_Hrs}, 2⟩. The figure shows t7–t9 at [40-45), although (f, 44)
// already occurs three times; by the paper's own rule they are frozen at 44.
#[test]
fn figure_1_of_the_paper_working_hours_that_already_agree_stay() {
    let hours = ["30", "32", "35", "37", "42", "44"];
    let values: Vec<i128> = hours.iter().filter_map(|hour| hour.parse().ok()).collect();
    let levels = intervals(&values, &[5], &|value| value.to_string()).unwrap();
    let trees = [tree(&Levels::default(), 2), tree(&levels, 6)];
    let codes = [[1, 0], [1, 1], [0, 2], [0, 3], [1, 4], [1, 5], [0, 5], [0, 5], [0, 5]];
    for search in SEARCHES {
        let recoding = solve(&codes, &trees, &[constraint(&[0, 1], 2)], search).unwrap();
        let published = labels(&recoding.nodes[1], &trees[1], &hours);
        let intervals = ["[30-34]", "[30-34]", "[35-39]", "[35-39]", "[40-44]", "[40-44]"];
        assert_eq!(published[..6], intervals);
        assert_eq!(published[6..], ["44", "44", "44"]);
        assert!(recoding.components[0].suppressed.is_empty());
    }
}

#[test]
fn independent_parts_suppress_their_own_columns_only() {
    let flat = || tree(&Levels::default(), 3);
    let trees = [flat(), flat(), flat()];
    // Row 4 is alone in column 0, row 0 in column 2; column 1 is in no constraint.
    let codes = [[0, 0, 1], [0, 1, 0], [0, 2, 0], [0, 1, 0], [2, 0, 0]];
    let constraints = [constraint(&[0], 2), constraint(&[2], 3)];
    let recoding = solve_as_printed(&codes, &trees, &constraints, Search::Complete).unwrap();
    assert_eq!(recoding.nodes, [vec![0, 0, 0, 0, 3], vec![0, 1, 2, 1, 0], vec![3, 0, 0, 0, 0]]);
    let suppressed: Vec<_> = recoding.components.iter().map(|c| c.suppressed.clone()).collect();
    assert_eq!(suppressed, [vec![4], vec![0]]);
}

#[test]
fn a_missing_value_climbs_directly_to_the_top() {
    let tree = Tree::of_labels("a;x;*\nb;x;*\nc;y;*\nd;y;*\n", true);
    // One missing value, and one of each: the pairs meet under x and y, one level up.
    let codes = [[0], [1], [2], [3], [4]];
    let (trees, constraints) = (std::slice::from_ref(&tree), [constraint(&[0], 2)]);
    let recoding = solve_as_printed(&codes, trees, &constraints, Search::Complete);
    let (top, nodes) = (tree.nodes() - 1, recoding.unwrap().nodes);
    assert_eq!(nodes[0], [top, 5, 5, 6, 6]);
    // Two missing values are a group of their own.
    let codes = [[0], [0], [1], [2]];
    let recoding = solve(&codes, &[tree], &[constraint(&[0], 2)], Search::Complete);
    assert_eq!(recoding.unwrap().nodes[0], [0, 0, 5, 5]);
}

#[test]
fn columns_that_are_as_good_are_generalized_as_declared() {
    let flat = || tree(&Levels::default(), 2);
    let codes = [[0, 0], [0, 1], [1, 0], [1, 1]];
    let (trees, constraints) = ([flat(), flat()], [constraint(&[1, 0], 2)]);
    for solve in [solve::<2>, solve_as_printed::<2>] {
        let recoding = solve(&codes, &trees, &constraints, Search::Complete);
        assert_eq!(recoding.unwrap().nodes, [vec![2, 2, 2, 2], vec![0, 1, 0, 1]]);
    }
}

#[test]
fn precision_is_that_of_the_levels_climbed() {
    use figure_1::*;
    let trees = trees();
    let trees: Vec<&Tree> = trees.iter().collect();
    let of = |search| {
        let recoding = solve_as_printed(&ROWS, &figure_1::trees(), &constraints(), search);
        precision(&recoding.unwrap().nodes, &trees)
    };
    assert!((of(Search::Complete) - (1.0 - 6.0 / 27.0)).abs() < 1e-12);
    // Four rows climb one of five levels of the ZIP beside the two suppressed rows.
    assert!((of(Search::Naive) - (1.0 - (6.0 + 4.0 / 5.0) / 27.0)).abs() < 1e-12);
}

#[test]
fn fewer_rows_than_a_k_are_an_error() {
    let flat = [tree(&Levels::default(), 2)];
    let outcome = solve(&[[0], [1]], &flat, &[constraint(&[0], 3)], Search::Complete);
    assert_eq!(outcome, Err(Error::TooFewRows { rows: 2, k: 3 }));
}

/// The published tuple of every row, by its number in the input.
fn tuples(rows: &RowTable, published: &PublishedClasses) -> Vec<(u32, Vec<u32>)> {
    let mut tuples = Vec::new();
    for class in 0..published.classes.len() {
        let tuple: Vec<u32> = published.nodes.iter().map(|nodes| nodes[class]).collect();
        tuples.extend(published.classes.range(class).map(|at| (rows.id_at(at), tuple.clone())));
    }
    tuples.sort_unstable();
    tuples
}

#[test]
fn rows_that_publish_the_same_become_classes_in_the_order_of_the_trees() {
    let (rows, trees) = (&figure_1::ROWS, figure_1::trees());
    let constraints = figure_1::constraints();
    let recoding = solve_as_printed(rows, &trees, &constraints, Search::Naive).unwrap();
    let trees: Vec<&Tree> = trees.iter().collect();
    let job = job(&trees, &constraints, Variant::Paper);
    let mut table = RowTable::from_codes(rows).unwrap();
    let published = into_classes(recoding.clone(), &mut table, &job).unwrap();
    let sizes: Vec<usize> = published.classes.ranges().map(|range| range.len()).collect();
    // Stars first, then Black, then White with 0213*.
    assert_eq!(sizes, [2, 3, 4]);
    let of_row = |row: usize| recoding.nodes.iter().map(|nodes| nodes[row]).collect::<Vec<u32>>();
    let expected: Vec<(u32, Vec<u32>)> = (0..9).map(|row| (row as u32, of_row(row))).collect();
    assert_eq!(tuples(&table, &published), expected);

    let mut table = RowTable::from_codes(rows).unwrap();
    let job = Job { drop_suppressed: true, ..job };
    let published = into_classes(recoding, &mut table, &job).unwrap();
    assert_eq!(tuples(&table, &published), expected[..7]);
    let dropped: Vec<u32> = (7..9).map(|at| table.id_at(at)).collect();
    assert_eq!(dropped, [7, 8]);
}

#[test]
fn only_rows_suppressed_in_every_part_are_dropped() {
    let component = |suppressed: &[u32]| Component {
        columns: vec![0],
        max_k: 3,
        suppressed: suppressed.to_vec(),
        joined: 0,
        suppress_limit: 2,
        climbs: 0,
    };
    let recoding = |components: Vec<Component>| Recoding { nodes: vec![vec![0; 10]], components };
    let both = recoding(vec![component(&[1, 4, 7]), component(&[4, 7, 8])]);
    assert_eq!(both.suppressed_everywhere(), [4, 7]);
    assert_eq!(both.suppressed_share(), 0.3);
    assert!(recoding(vec![component(&[1]), component(&[])]).suppressed_everywhere().is_empty());
    assert!(recoding(vec![]).suppressed_everywhere().is_empty());
}

#[test]
fn a_cancelled_run_stops() {
    let flat = tree(&Levels::default(), 2);
    let cancel = Cancel::default();
    cancel.cancel();
    let constraints = [constraint(&[0], 2)];
    let trees = [&flat];
    let job = Job { cancel: &cancel, ..job(&trees, &constraints, Variant::Best) };
    let rows = RowTable::from_codes(&[[0], [1]]).unwrap();
    assert_eq!(classfly(&rows, &job, Search::Complete), Err(Error::Cancelled));
    assert_eq!(datafly(&rows, &job, None), Err(Error::Cancelled));
}

#[test]
fn codes_beyond_a_tree_are_our_bug_and_no_panic() {
    let flat = [tree(&Levels::default(), 2)];
    let outcome = solve(&[[0], [2]], &flat, &[constraint(&[0], 2)], Search::Complete);
    assert!(matches!(outcome, Err(Error::Bug(_))));
}

// Neither the keys of the method nor those of the checker fit 64 bits here.
#[test]
fn projections_on_many_columns_are_grouped_and_checked() {
    let trees: Vec<Tree> = (0..48).map(|_| tree(&Levels::default(), 2)).collect();
    let mut codes: Vec<[u32; 48]> =
        (0..12).map(|row| std::array::from_fn(|column| (row / 2) >> (column % 3) & 1)).collect();
    let all = [constraint(&(0..48).collect::<Vec<_>>(), 2)];
    let unchanged = solve(&codes, &trees, &all, Search::Complete).unwrap();
    assert_eq!(unchanged.components[0].climbs, 0);
    assert!(unchanged.nodes.iter().flatten().all(|node| *node < 2));
    // The rows of the first pair now differ in the last column, so that is the one they climb.
    codes[1][47] ^= 1;
    let recoding = solve(&codes, &trees, &all, Search::Complete).unwrap();
    assert_eq!(recoding.nodes[47][..2], [2, 2]);
    assert_eq!(recoding.nodes[..47], unchanged.nodes[..47]);
    let rows = RowTable::from_codes(&codes).unwrap();
    let trees: Vec<&Tree> = trees.iter().collect();
    let job = job(&trees, &all, Variant::Best);
    let broken = Recoding { components: recoding.components, nodes: unchanged.nodes };
    assert!(check_constraints(&rows, &job, &broken).is_err());
}

// 32 of these columns fill a key of 64 bits; the rows differ in later ones.
#[test]
fn classes_of_many_columns_are_in_the_order_of_all_of_them() {
    let trees: Vec<Tree> = (0..40).map(|_| tree(&Levels::default(), 2)).collect();
    let codes: Vec<[u32; 40]> = (0..256u32)
        .map(|row| std::array::from_fn(|at| if at < 33 { 0 } else { (37 * row) >> (at - 33) & 1 }))
        .collect();
    let all = [constraint(&(0..40).collect::<Vec<_>>(), 2)];
    let recoding = solve(&codes, &trees, &all, Search::Complete).unwrap();
    let mut rows = RowTable::from_codes(&codes).unwrap();
    let trees: Vec<&Tree> = trees.iter().collect();
    let job = job(&trees, &all, Variant::Best);
    let published = into_classes(recoding, &mut rows, &job).unwrap();
    let tuple = |class: usize| published.nodes.iter().map(|nodes| nodes[class]).collect::<Vec<_>>();
    let tuples: Vec<Vec<u32>> = (0..published.classes.len()).map(tuple).collect();
    assert_eq!(tuples.len(), 128);
    assert!(tuples.is_sorted());
    assert!((0..128).all(|class| published.classes.range(class).len() == 2));
}

#[test]
fn every_broken_promise_is_found() {
    use figure_1::*;
    let rows = RowTable::from_codes(&ROWS).unwrap();
    let trees = trees();
    let trees: Vec<&Tree> = trees.iter().collect();
    let constraints = constraints();
    let job = job(&trees, &constraints, Variant::Paper);
    let sound = classfly(&rows, &job, Search::Complete).unwrap();
    let fails = |change: &dyn Fn(&mut Recoding)| {
        let mut recoding = sound.clone();
        change(&mut recoding);
        matches!(check_constraints(&rows, &job, &recoding), Err(Error::Bug(_)))
    };
    assert!(!fails(&|_| ()));
    assert!(fails(&|r| r.nodes[2][0] = 0), "another value");
    assert!(fails(&|r| r.nodes[2][0] = 99), "no node at all");
    assert!(fails(&|r| r.nodes[2][0] = trees[2].parent(3)), "a group below k");
    assert!(fails(&|r| r.nodes[2][7] = 1), "a suppressed row that shows a value");
    assert!(fails(&|r| r.components[0].suppressed = vec![8]), "rows that are not suppressed");
    assert!(fails(&|r| r.components[0].suppress_limit = 1), "too many suppressed rows");
    assert!(fails(&|r| r.components.clear()), "a constraint in no component");
    assert!(fails(&|r| r.components[0].columns = vec![0, 1]), "a constraint in two components");
    assert!(fails(&|r| r.nodes[0].truncate(3)), "rows left out");
}

/// Whether the rows satisfy all constraints by themselves, counted pair by pair.
fn satisfies(rows: &[[u32; 4]], constraints: &[Constraint]) -> bool {
    rows.iter().all(|row| {
        constraints.iter().all(|Constraint { columns, k }| {
            let equal = |other: &&[u32; 4]| columns.iter().all(|c| other[*c] == row[*c]);
            rows.iter().filter(equal).count() >= *k as usize
        })
    })
}

/// The largest satisfying subset by counting again after every single pass.
fn largest_by_recounting(codes: &[[u32; 2]], k: u32) -> Vec<u32> {
    let mut kept: Vec<u32> = (0..codes.len() as u32).collect();
    loop {
        let count = |column: usize, value: u32| {
            kept.iter().filter(|row| codes[**row as usize][column] == value).count()
        };
        let holds = |row: &u32| {
            let codes = codes[*row as usize];
            (0..2).all(|column| count(column, codes[column]) >= k as usize)
        };
        let next: Vec<u32> = kept.iter().copied().filter(holds).collect();
        if next.len() == kept.len() {
            return kept;
        }
        kept = next;
    }
}

fn first_subset(codes: &[[u32; 2]], k: u32) -> Vec<u32> {
    let values = codes.iter().flatten().max().map_or(0, |max| max + 1);
    let flat = tree(&Levels::default(), values as usize);
    let listed = vec![constraint(&[0], k), constraint(&[1], k)];
    let part = plan::Part { columns: vec![0, 1], constraints: listed.clone() };
    let columns: Vec<Vec<u32>> = (0..2).map(|c| codes.iter().map(|row| row[c]).collect()).collect();
    let trees = [&flat, &flat];
    let job = job(&trees, &listed, Variant::Paper);
    let mut table = SubTable::new(&part, &listed, &columns, &job).unwrap();
    let subset = table.largest_subset(Search::Complete).unwrap();
    table.rows_of(&subset)
}

#[test]
fn rows_that_fall_one_after_the_other_take_no_pass_each() {
    // Every row shares one value with the row before it and one with the row after it; the first
    // row has no row before it. A pass over all rows for each would take minutes.
    let mut chain: Vec<[u32; 2]> = (0..200_000u32).map(|row| [row / 2, row.div_ceil(2)]).collect();
    assert!(first_subset(&chain, 2).is_empty());
    // A closed chain stays whole.
    chain.truncate(1000);
    chain[0][1] = 500;
    assert_eq!(first_subset(&chain, 2).len(), 1000);
}
