//! Distances, computed by hand.

use super::*;

/// Values a, b under x and c, d under y; a occurs four times, b and c twice, d and missing once.
fn tree() -> Axis {
    Axis::of_labels("a;x;*\nb;x;*\nc;y;*\nd;y;*\n", true)
}

const COUNTS: [u64; 5] = [1, 4, 2, 2, 1];

fn part_of(count: f64) -> f64 {
    -(count / 9.0) * (count / 9.0).ln()
}

fn close(cost: u64, expected: f64) -> bool {
    (cost as f64 / UNIT - expected).abs() < 1e-6
}

const PRINTED: Distance =
    Distance { metric: Metric::Entropy(Constant::OfValue), charges_missing: true };
const OURS: Distance =
    Distance { metric: Metric::Entropy(Constant::HalfOfColumn), charges_missing: false };

fn column<'a>(axis: &'a Axis, distance: Distance, counts: &[u64]) -> Column<'a> {
    Column::new(0, axis, distance, 1.0, counts)
}

/// The cost of a code for a group of rows with these codes.
fn cost(column: &Column, group: &[u32], code: u32) -> u64 {
    column.distance(&column.center(group.iter().copied()), code)
}

/// The loss of what is published, of which a missing cell has none.
const LOSS: Distance = Distance { metric: Metric::Ncp, charges_missing: false };

#[test]
fn printed_distances_follow_the_formula_of_the_paper() {
    let axis = tree();
    let column = column(&axis, PRINTED, &COUNTS);
    let (a, b, c, d) = (part_of(4.0), part_of(2.0), part_of(2.0), part_of(1.0));
    let (x, top) = (a + b, a + b + c + d);
    assert_eq!(cost(&column, &[1], 1), 0, "a leaf has no information to lose");
    assert!(close(cost(&column, &[1], 2), x / b + x / a));
    assert!(close(cost(&column, &[1, 1, 1], 4), top / d + 3.0 * top / a));
    assert!(close(cost(&column, &[1, 1, 1], 0), 1.0 + 3.0 * top / a), "missing is the top");
    let mut from_x = column.part(1);
    assert!(column.join(&mut from_x, 2));
    assert!(!column.join(&mut from_x, 1), "x stays x");
    assert!(close(cost(&column, &[1, 2], 1), x / a + 2.0));
    assert!(close(cost(&column, &[1, 2], 3), top / c + 2.0 * top / x));
    assert!(close(cost(&column, &[0, 0], 0), 1.0 + 2.0));
    assert!(close(cost(&column, &[0, 0], 1), top / a + 2.0));
}

#[test]
fn all_values_of_a_column_have_one_constant_and_missing_cells_are_not_charged() {
    let axis = tree();
    let column = column(&axis, OURS, &COUNTS);
    let x = part_of(4.0) + part_of(2.0);
    let top = x + part_of(2.0) + part_of(1.0);
    let constant = top / 2.0;
    assert_eq!(cost(&column, &[1], 1), 0);
    assert!(close(cost(&column, &[1], 2), 2.0 * x / constant));
    assert!(close(cost(&column, &[1, 1, 1], 4), 2.0 + 3.0 * 2.0));
    assert!(close(cost(&column, &[1, 2], 1), x / constant + 2.0 * x / (x + constant)));
    assert!(close(cost(&column, &[1, 1, 1], 0), 3.0 * 2.0), "three rows get `*`");
    assert_eq!(cost(&column, &[0, 0], 0), 0, "missing stays missing");
    assert!(close(cost(&column, &[0, 0], 1), 2.0), "one row gets `*`");
    assert!(close(cost(&column, &[0, 0, 1], 1), 2.0 + top / (top + constant)));
    assert!(close(cost(&column, &[0, 0, 1], 0), top / (top + constant)));
}

#[test]
fn numbers_join_to_intervals_and_texts_to_sets() {
    let line = Axis::line(&[10.0, 20.0, 50.0], false);
    let set = Axis::set(3, false);
    let counts = [1, 2, 1];
    let (one, two) = (0.25 * 4f64.ln(), 0.5 * 2f64.ln());
    for (axis, ends) in [(&line, one + two + one), (&set, one + one)] {
        let column = column(axis, PRINTED, &counts);
        assert!(close(cost(&column, &[0], 2), 2.0 * ends / one));
    }
    let ncp = |axis, code| {
        // (s + 1)·NCP(after) − s·NCP(before)
        cost(&column(axis, LOSS, &counts), &[0, 1], code)
    };
    assert!(close(ncp(&line, 2), 3.0 * 1.0 - 2.0 * 0.25));
    assert!(close(ncp(&set, 2), 3.0 * 1.0 - 2.0 * 0.5));
    assert!(close(ncp(&set, 0), 0.5), "the row itself loses what the group has lost");
}

#[test]
fn a_column_of_one_value_costs_only_where_that_value_is_hidden() {
    let axis = Axis::line(&[7.0], true);
    let printed = column(&axis, PRINTED, &[2, 3]);
    assert_eq!(cost(&printed, &[0, 0, 0, 0], 1), 0, "nothing over nothing");
    let column = column(&axis, OURS, &[2, 3]);
    assert_eq!((cost(&column, &[1, 1], 1), cost(&column, &[0], 0)), (0, 0));
    assert!(close(cost(&column, &[1, 1], 0), 2.0 * 2.0));
}
