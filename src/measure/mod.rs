//! Measures of a release: from its classes or published nodes, or from counts of what was published.

mod assignment;
mod graded;
mod histories;
mod incomplete;
mod loss;
mod precision;
mod retention;
mod risk;
mod sensitivity;
mod subtraction;
mod utility;

pub use graded::RankLevels;
pub use histories::{ClassSets, Crowds, Histories, UNPUBLISHED};
pub use incomplete::{IncompleteColumn, IncompleteRows, incomplete_measures};
pub use loss::{cover_loss, loss, lost_by};
pub use precision::{node_loss, precision, release_precision};
pub use retention::{LabelledColumn, RuleLimits, association_retention};
pub use risk::{ColumnRisk, Distribution, Risk, Targets, ValueCount};
pub use sensitivity::LevelWeights;
pub use subtraction::{ClassValues, ReleaseClasses, subtraction_memory, told_by_subtraction};
pub use utility::Utility;

use std::borrow::Cow;

/// Measures that count rows, classes or values of the published table: whoever has it can count them, too.
const COUNTS: [&str; 15] = [
    "rows",
    "rows_original",
    "rows_published",
    "rows_quasi_identifiers",
    "suppressed_rows",
    "classes",
    "classes_that_differ",
    "largest_class",
    "groups",
    "violating_classes",
    "violating_groups",
    "violating_rows",
    "k",
    "l",
    "dm",
];

/// What is stored or served of a measure: counts of what is published as they are, all others with
/// [`round_to_three_digits`].
///
/// ```
/// use datafusion_anonymize::round_measure;
/// assert_eq!(round_measure("rows", 45_222.0), 45_222.0);
/// assert_eq!(round_measure("ncp", 0.123_456_789), 0.123);
/// ```
pub fn round_measure(measure: &str, value: f64) -> f64 {
    if COUNTS.contains(&measure) { value } else { round_to_three_digits(value) }
}

/// A figure rounded to three significant digits. Exact losses reveal more than how much was lost: `ncp` and `iloss`
/// are two equations whose solution is the range of a column that the release may hide.
pub fn round_to_three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// One line of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// What was measured.
    pub name: Cow<'static, str>,
    /// Index of the column that was measured, `None` for the whole table.
    pub column: Option<usize>,
    /// What was found, `None` where nothing can be said.
    pub value: Option<f64>,
    /// What was asked for.
    pub target: Option<f64>,
    /// Whether the value meets the target, `None` without a target.
    pub holds: Option<bool>,
}

impl Measure {
    /// A measure of the whole table, without a target.
    pub fn of_table(name: impl Into<Cow<'static, str>>, value: Option<f64>) -> Self {
        Self { name: name.into(), column: None, value, target: None, holds: None }
    }

    /// The same measure of one column.
    pub fn of_column(self, column: usize) -> Self {
        Self { column: Some(column), ..self }
    }

    /// A measure of the whole table whose target is 0.
    pub fn none_expected(name: &'static str, value: Option<f64>) -> Self {
        Self::of_table(name, value).against(Some(0.0), value == Some(0.0))
    }

    /// The same measure against a target. A value that is not known does not meet it: an empty
    /// release must not pass for a safe one.
    pub fn against(self, target: Option<f64>, holds: bool) -> Self {
        let holds = target.map(|_| holds && self.value.is_some());
        Self { target, holds, ..self }
    }
}

/// The measure of this name of a column, or of the table.
#[cfg(test)]
fn found<'m>(measures: &'m [Measure], name: &str, column: Option<usize>) -> Option<&'m Measure> {
    measures.iter().find(|measure| measure.name == name && measure.column == column)
}

#[cfg(test)]
mod tests {
    use super::round_to_three_digits;

    #[test]
    fn three_digits_are_left() {
        let cases = [
            (0.0, 0.0),
            (1.0, 1.0),
            (0.123_456, 0.123),
            (0.000_123_56, 0.000_124),
            (87_654.3, 87_700.0),
            (-0.055_55, -0.0556),
        ];
        for (value, told) in cases {
            assert_eq!(round_to_three_digits(value), told);
        }
        assert!(round_to_three_digits(f64::NAN).is_nan());
        assert_eq!(round_to_three_digits(f64::INFINITY), f64::INFINITY);
    }
}
