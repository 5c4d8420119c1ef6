//! Specialization from the top on worked tables.

use super::*;
use crate::hierarchy::Axis;
use crate::method::testing::Table;

fn classes(axis: Axis, codes: &[u32]) -> Result<Vec<Vec<u32>>> {
    let table = Table::new(vec![axis], codes.iter().map(|code| [*code]).collect(), 2);
    formed(&table, Variant::Best)
}

fn formed<const D: usize>(table: &Table<D>, variant: Variant) -> Result<Vec<Vec<u32>>> {
    table.form(|rows, job| Ok((top_down(rows, job, variant)?, 0))).map(|release| release.classes)
}

#[test]
fn the_example_of_the_module_is_worked_correctly() {
    let axis = Axis::line(&[20.0, 21.0, 22.0, 23.0, 24.0, 60.0], false);
    let classes = classes(axis, &[0, 1, 2, 3, 4, 5]);
    assert_eq!(classes, Ok(vec![vec![0, 1], vec![2, 3], vec![4, 5]]));
}

fn letters() -> Axis {
    Axis::of_labels("a;x;*\nb;x;*\nc;x;*\nd;y;*\ne;y;*\nf;z;*\n", false)
}

#[test]
fn a_hierarchy_is_walked_down_child_by_child() {
    // Under x: a twice, b twice; under y: d once, e once; f twice is its own child.
    let classes = classes(letters(), &[0, 0, 1, 1, 3, 4, 5, 5]);
    assert_eq!(classes, Ok(vec![vec![4, 5], vec![6, 7], vec![0, 1], vec![2, 3]]));
}

#[test]
fn rows_that_stay_behind_are_one_group_of_the_parent() {
    // One d and one f: neither child holds, together they stay behind.
    let classes = classes(letters(), &[0, 0, 0, 3, 5]);
    assert_eq!(classes, Ok(vec![vec![0, 1, 2], vec![3, 4]]));
}

#[test]
fn missing_values_part_from_all_others() {
    let classes = classes(Axis::line(&[1.0, 2.0, 9.0], true), &[0, 0, 1, 2, 3, 3]);
    assert_eq!(classes, Ok(vec![vec![0, 1], vec![2, 3], vec![4, 5]]));
}

#[test]
fn as_printed_rows_that_stay_behind_are_a_class() -> Result<()> {
    // With k = 3 only a holds in the first column. The others stay behind, and the second column has them all under n,
    // three at p and three at q; of a it has two under each node.
    let first = Axis::of_labels("a;*\nb;*\nc;*\nd;*\n", false);
    let others: String = (1..8).map(|node| format!("m{node};over m{node};*\n")).collect();
    let second = Axis::of_labels(&format!("p;n;*\nq;n;*\n{others}"), false);
    let mut codes: Vec<[u32; 2]> = (0..14).map(|at| [0, 2 + at / 2]).collect();
    codes.extend([[1, 0], [1, 1], [2, 0], [2, 1], [3, 0], [3, 1]]);
    let table = Table::new(vec![first, second], codes, 3);
    let sizes = |variant| -> Result<Vec<usize>> {
        Ok(formed(&table, variant)?.iter().map(Vec::len).collect())
    };
    assert_eq!(sizes(Variant::Best)?, [14, 3, 3]);
    assert_eq!(sizes(Variant::Paper)?, [14, 6]);
    Ok(())
}

#[test]
fn as_printed_the_fewest_branches_come_first() -> Result<()> {
    // Both columns specialize all eight rows.
    let axes =
        vec![Axis::of_labels("a;*\nb;*\nc;*\nd;*\n", false), Axis::of_labels("p;*\nq;*\n", false)];
    let table = Table::new(axes, (0..8).map(|at| [at / 2, at % 2]).collect(), 2);
    assert_eq!(formed(&table, Variant::Best)?, [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(formed(&table, Variant::Paper)?, [[0, 2, 4, 6], [1, 3, 5, 7]]);
    Ok(())
}
