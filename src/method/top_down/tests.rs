//! Specialization from the top on worked tables.

use super::*;
use crate::method::testing::Table;

fn classes(axis: Axis, codes: &[u32]) -> Result<Vec<Vec<u32>>> {
    let table = Table::new(vec![axis], codes.iter().map(|code| [*code]).collect(), 2);
    table.form(|rows, job| Ok((top_down(rows, job)?, 0))).map(|release| release.classes)
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
