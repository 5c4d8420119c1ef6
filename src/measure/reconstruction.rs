//! Average reconstruction distance: how far what a release says of a row is from the row.
//!
//! Each row is a point of the space of all quasi-identifier and sensitive values. A release gives it
//! a distribution over points, and its distance is the summed square difference to the row's own,
//! which is 1 at the row and 0 elsewhere (paper P4, after Xiao and Tao's Anatomy). In closed form:
//!
//! - two tables: the class has the sensitive value v with share p(v), and the row with value v is at
//!   distance (1 − p(v))² + Σ_{v'≠v} p(v')². The mean over the rows of a class is 1 − Σ p(v)².
//! - generalization: the row is anywhere in a box of L points, at distance
//!   (1 − 1/L)² + (L − 1)/L² = 1 − 1/L.
//! - a suppressed row is nowhere, at distance 1.

use rayon::prelude::*;

use crate::hierarchy::{Axis, Shape};
use crate::model::{Classes, Code, Row, RowTable, SensitiveColumn, with_rows};

/// Mean over all rows if quasi-identifiers are published exact, and sensitive values by class.
///
/// Rows must be in class order; rows behind the classes are suppressed.
pub fn reconstruction_by_classes(
    rows: &RowTable,
    classes: &Classes,
    column: &SensitiveColumn,
) -> f64 {
    let distance = |class: usize| {
        let ids = classes.range(class).map(|at| rows.id_at(at));
        let mut values: Vec<u32> = ids.map(|id| column.codes[id as usize]).collect();
        values.sort_unstable();
        let size = values.len() as f64;
        let square = |run: &[u32]| (run.len() as f64 / size).powi(2);
        size * (1.0 - values.chunk_by(|a, b| a == b).map(square).sum::<f64>())
    };
    mean(rows.len(), classes, distance)
}

/// Mean over all rows if every class is published with its generalized quasi-identifiers.
///
/// A box has as many points as it covers values of each column: those under the published node, from
/// the smallest to the largest, or in the set. Rows must be in class order; rows behind the classes
/// are suppressed.
pub fn reconstruction_by_boxes(rows: &RowTable, classes: &Classes, axes: &[&Axis]) -> f64 {
    with_rows!(rows, rows => {
        let distance = |class: usize| {
            let rows = &rows[classes.range(class)];
            rows.len() as f64 * (1.0 - 1.0 / points(rows, axes))
        };
        mean(rows.len(), classes, distance)
    })
}

/// Mean of the classes' summed distances and 1 for every suppressed row.
fn mean(rows: usize, classes: &Classes, distance: impl Fn(usize) -> f64 + Send + Sync) -> f64 {
    // Collected and then summed in order, so that the figure does not depend on threads.
    let distances: Vec<f64> = (0..classes.len()).into_par_iter().map(distance).collect();
    let suppressed = rows.saturating_sub(classes.rows()) as f64;
    (distances.iter().sum::<f64>() + suppressed) / rows.max(1) as f64
}

/// Points of the box over the rows of a class.
fn points<C: Code, const W: usize>(rows: &[Row<C, W>], axes: &[&Axis]) -> f64 {
    let along = |(index, axis): (usize, &&Axis)| {
        let codes = || rows.iter().map(|row| row.codes[index].get());
        let (Some(low), Some(high)) = (codes().min(), codes().max()) else { return 1.0 };
        let covered = match &axis.shape {
            _ if low == high => 1,
            Shape::Tree(tree) => {
                let (first, last) = tree.range(tree.ancestor(low, high));
                last - first + 1
            }
            // Published as the top.
            _ if axis.missing && low == 0 => axis.codes,
            Shape::Line(_) => high - low + 1,
            Shape::Set => {
                let mut codes: Vec<u32> = codes().collect();
                codes.sort_unstable();
                codes.dedup();
                codes.len() as u32
            }
        };
        f64::from(covered)
    };
    axes.iter().enumerate().map(along).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::{LabelTable, Tree};
    use proptest::prelude::*;

    fn column(codes: Vec<u32>) -> SensitiveColumn {
        SensitiveColumn { name: "s".into(), codes: codes.into(), cardinality: 4, ordered: false }
    }

    fn brute_force(space: usize, own: usize, published: impl Fn(usize) -> f64) -> f64 {
        (0..space).map(|x| (f64::from(u8::from(x == own)) - published(x)).powi(2)).sum()
    }

    proptest! {
        #[test]
        fn two_tables_agree_with_the_sum_over_the_space(
            values in prop::collection::vec(0u32..4, 3..14),
            suppressed in 0usize..3,
        ) {
            let kept = values.len() - suppressed;
            let rows = RowTable::from_codes(&vec![[0u32]; values.len()]);
            let rows = rows.unwrap_or_else(|| unreachable!());
            let classes = Classes::from_sizes(&[kept as u32]).unwrap_or_default();
            let share = |v: usize| {
                values[..kept].iter().filter(|value| **value as usize == v).count() as f64 / kept as f64
            };
            // Quasi-identifiers are exact: only the sensitive dimension of the space matters.
            let published = values[..kept].iter().map(|own| brute_force(4, *own as usize, share));
            let expected = (published.sum::<f64>() + suppressed as f64) / values.len() as f64;
            let found = reconstruction_by_classes(&rows, &classes, &column(values.clone()));
            prop_assert!((found - expected).abs() < 1e-12);
        }

        #[test]
        fn boxes_agree_with_the_sum_over_the_space(
            codes in prop::collection::vec((0u32..5, 0u32..4), 1..12),
        ) {
            let codes: Vec<[u32; 2]> = codes.into_iter().map(|(a, b)| [a, b]).collect();
            let line = Axis::line(&[1.0, 2.0, 4.0, 8.0, 16.0], false);
            let table = LabelTable::parse("a;x;*\nb;x;*\nc;y;*\nd;y;*\n");
            let levels = table.map(|table| table.levels_over(&[0, 1, 2, 3])).unwrap_or_default();
            let (tree, _) = Tree::new(&levels, 4, false);
            let column = |at: usize| codes.iter().map(move |row| row[at]);
            let (low, high) = (column(0).min(), column(0).max());
            let (first, last) =
                tree.range(tree.ancestor(column(1).min().unwrap_or(0), column(1).max().unwrap_or(0)));
            let inside = |x: usize| {
                let (a, b) = (x as u32 % 5, x as u32 / 5);
                Some(a) >= low && Some(a) <= high && b >= first && b <= last
            };
            let volume = (0..20).filter(|x| inside(*x)).count() as f64;
            let published = |x: usize| if inside(x) { 1.0 / volume } else { 0.0 };
            let own = |row: &[u32; 2]| (row[1] * 5 + row[0]) as usize;
            let expected: f64 = codes.iter().map(|row| brute_force(20, own(row), published)).sum();
            let rows = RowTable::from_codes(&codes).unwrap_or_else(|| unreachable!());
            let classes = Classes::from_sizes(&[codes.len() as u32]).unwrap_or_default();
            let found = reconstruction_by_boxes(&rows, &classes, &[&line, &Axis::tree(tree, false)]);
            prop_assert!((found - expected / codes.len() as f64).abs() < 1e-12);
        }
    }

    #[test]
    fn missing_among_values_and_sets_fill_their_boxes() {
        let line = Axis::line(&[1.0, 2.0, 4.0], true);
        let set = Axis::set(9, false);
        let rows = RowTable::from_codes(&[[0u32, 0], [2, 8], [2, 8]]);
        let rows = rows.unwrap_or_else(|| unreachable!());
        let classes = Classes::from_sizes(&[3]).unwrap_or_default();
        // Four points for the missing one among three values, two for the set of two.
        assert_eq!(reconstruction_by_boxes(&rows, &classes, &[&line, &set]), 1.0 - 1.0 / 8.0);
    }
}
