//! How far two rows are apart.
//!
//! Numbers and dates: |x − y| / range. Everything else: the way between the values through their lowest
//! common ancestor, as a share of the way through the top. A missing cell is at distance 1 from any
//! value. Fixed-point integers, so that sums do not depend on the order in which they are made.

use crate::hierarchy::{Axis, Shape};

/// A distance of 1.
const UNIT: f64 = (1u32 << 20) as f64;

/// The quasi-identifiers as places.
#[derive(Debug)]
pub(super) struct Distance<'a> {
    axes: &'a [Axis],
    positions: &'a [Option<Vec<f64>>],
}

impl<'a> Distance<'a> {
    pub(super) fn new(axes: &'a [Axis], positions: &'a [Option<Vec<f64>>]) -> Self {
        Self { axes, positions }
    }

    pub(super) fn attributes(&self) -> usize {
        self.axes.len()
    }

    pub(super) fn codes(&self, attribute: usize) -> usize {
        self.axes[attribute].codes as usize
    }

    /// Between two codes of an attribute.
    pub(super) fn between(&self, attribute: usize, a: u32, b: u32) -> u32 {
        if a == b {
            return 0;
        }
        let axis = &self.axes[attribute];
        if axis.missing && (a == 0 || b == 0) {
            return UNIT as u32;
        }
        let line = self.positions.get(attribute).and_then(Option::as_ref);
        let share = match (&axis.shape, line) {
            (_, Some(places)) | (Shape::Line(places), None) => {
                (places[a as usize] - places[b as usize]).abs()
            }
            (Shape::Tree(tree), None) => {
                let ancestor = tree.ancestor(a.min(b), a.max(b));
                f64::from(tree.level(ancestor)) / f64::from(tree.height().max(1))
            }
            (Shape::Set, None) => 1.0,
        };
        (share * UNIT) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_by_their_range_and_labels_by_their_ancestor() {
        let tree = Axis::of_labels("a;x;*\nb;x;*\nc;y;*\n", true);
        let axes = [Axis::line(&[10.0, 20.0, 30.0], true), tree, Axis::set(2, false)];
        let distance = Distance::new(&axes, &[]);
        let share = |attribute, a, b| f64::from(distance.between(attribute, a, b)) / UNIT;
        assert_eq!([share(0, 1, 2), share(0, 1, 3), share(0, 0, 1)], [0.5, 1.0, 1.0]);
        assert_eq!([share(1, 1, 2), share(1, 1, 3), share(1, 0, 1)], [0.5, 1.0, 1.0]);
        assert_eq!([share(2, 0, 1), share(2, 1, 1)], [1.0, 0.0]);
        // A number with a hierarchy is still a number.
        let places = [None, Some(vec![0.0, 0.0, 0.25, 1.0])];
        let distance = Distance::new(&axes, &places);
        assert_eq!(f64::from(distance.between(1, 1, 2)) / UNIT, 0.25);
    }
}
