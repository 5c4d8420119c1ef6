//! What a method sees of one quasi-identifier.

use super::Tree;

/// A column as a line of codes with a loss for every stretch of it.
///
/// Codes are ranks in the column's order. If some values are missing, code 0 stands for them, and
/// any stretch that joins it with a value is worth nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Number of codes, the missing one included.
    pub codes: u32,
    /// Whether code 0 means missing.
    pub missing: bool,
    /// How values generalize.
    pub shape: Shape,
}

/// A class with more different strings than this publishes `*` instead of the set of them: such a
/// label tells nobody anything and can be larger than the table.
pub const MAX_SET_VALUES: usize = 256;

/// How the values of a column generalize.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Numbers and dates: from the smallest to the largest. Holds each code's position in 0…1.
    Line(Vec<f64>),
    /// A hierarchy: to the lowest common ancestor.
    Tree(Tree),
    /// Strings without a hierarchy: to the set of the values.
    Set,
}

impl Axis {
    /// An axis of numbers, given in code order.
    pub fn line(values: &[f64], missing: bool) -> Self {
        let (min, max) = match (values.first(), values.last()) {
            (Some(min), Some(max)) => (*min, *max),
            _ => (0.0, 0.0),
        };
        let width = max - min;
        let position = |value: &f64| if width > 0.0 { (value - min) / width } else { 0.0 };
        let first = missing.then_some(0.0);
        let positions: Vec<f64> = first.into_iter().chain(values.iter().map(position)).collect();
        Self { codes: positions.len() as u32, missing, shape: Shape::Line(positions) }
    }

    /// An axis over a hierarchy.
    pub fn tree(tree: Tree, missing: bool) -> Self {
        Self { codes: tree.codes(), missing, shape: Shape::Tree(tree) }
    }

    /// An axis of values that only form sets.
    pub fn set(values: usize, missing: bool) -> Self {
        Self { codes: values as u32 + u32::from(missing), missing, shape: Shape::Set }
    }

    /// Share of the column's information (NCP) that is lost when codes `low` to `high` become one:
    /// 0 for a single value, 1 for everything.
    #[inline]
    pub fn loss(&self, low: u32, high: u32) -> f64 {
        if low == high {
            return 0.0;
        }
        if self.missing && low == 0 {
            return 1.0;
        }
        match &self.shape {
            Shape::Line(positions) => positions[high as usize] - positions[low as usize],
            Shape::Tree(tree) => tree.loss(tree.ancestor(low, high)),
            Shape::Set => {
                let values = self.codes - u32::from(self.missing);
                f64::from(high - low) / f64::from(values.saturating_sub(1).max(1))
            }
        }
    }
}

#[cfg(test)]
impl Axis {
    /// An axis over all leaves of a table of labels, for tests.
    pub(crate) fn of_labels(table: &str, missing: bool) -> Self {
        Self::tree(Tree::of_labels(table, missing), missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_loses_its_share_of_the_width() {
        let axis = Axis::line(&[20.0, 30.0, 60.0], false);
        assert_eq!(axis.loss(0, 1), 0.25);
        assert_eq!(axis.loss(0, 2), 1.0);
        assert_eq!(axis.loss(1, 1), 0.0);
    }

    #[test]
    fn missing_joined_with_a_value_loses_everything() {
        for axis in [Axis::line(&[20.0, 30.0, 60.0], true), Axis::set(3, true)] {
            assert_eq!(axis.loss(0, 1), 1.0);
            assert_eq!(axis.loss(0, 0), 0.0);
            assert!(axis.loss(1, 2) < 1.0);
        }
    }
}
