//! The hierarchy of a column that needs one and was given none.

use std::fmt;

use arrow::datatypes::DataType;

use super::kind::{Kind, plain_type};
use crate::hierarchy::DateStep;

/// A hierarchy chosen by the type of the column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum Automatic {
    /// Aligned intervals of 5 and 10, 50 and 100, … of the column's numbers, or of tenths,
    /// hundredths, … where the values lie that close.
    Intervals {
        /// Whether the column has whole numbers only.
        whole: bool,
    },
    /// Calendar units.
    Dates(Vec<DateStep>),
    /// The value, then `*`.
    Top,
}

impl Automatic {
    /// The hierarchy for a type.
    pub fn of(data_type: &DataType, kind: Kind) -> Self {
        match kind {
            Kind::Integer => Self::Intervals { whole: plain_type(data_type).is_integer() },
            Kind::Float => Self::Intervals { whole: false },
            Kind::Instant => {
                let with_time = matches!(plain_type(data_type), DataType::Timestamp(..));
                let mut steps = vec![DateStep::Month, DateStep::Year, DateStep::Decade];
                if with_time {
                    steps.insert(0, DateStep::Day);
                }
                Self::Dates(steps)
            }
            Kind::Span | Kind::Boolean | Kind::Text => Self::Top,
        }
    }
}

impl fmt::Display for Automatic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intervals { whole: true } => f.write_str("intervals(5, 10, 50, 100, …)"),
            Self::Intervals { whole: false } => f.write_str("intervals(…, 0.5, 1, 5, 10, …)"),
            Self::Dates(steps) => {
                let steps: Vec<String> = steps.iter().map(DateStep::to_string).collect();
                write!(f, "date_steps({})", steps.join(", "))
            }
            Self::Top => f.write_str("*"),
        }
    }
}

/// The most steps an automatic hierarchy has: six powers of ten below the values' range.
const MAX_STEPS: usize = 12;

/// Steps of 1 and 5 times a power of ten that part some of these ascending integers and join some:
/// wider than the smallest gap between two of them, not wider than all of them, and too narrow to
/// hold them all. Ascending.
pub(super) fn exact_steps(values: &[i128]) -> Vec<i128> {
    let (Some(min), Some(max)) = (values.first(), values.last()) else { return Vec::new() };
    let gap = values.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).min().unwrap_or(0);
    let powers = std::iter::successors(Some(1i128), |power| power.checked_mul(10));
    let steps = powers.flat_map(|power| [Some(power), power.checked_mul(5)]).flatten();
    let mut steps: Vec<i128> = steps
        .skip_while(|step| *step <= gap)
        .take_while(|step| *step <= max.saturating_sub(*min))
        .take_while(|step| min.div_euclid(*step) != max.div_euclid(*step))
        .collect();
    let surplus = steps.len().saturating_sub(MAX_STEPS);
    steps.drain(..surplus);
    steps
}

/// The same for floating-point numbers, written as decimals.
pub(super) fn float_steps(values: &[f64]) -> Vec<String> {
    let (Some(min), Some(max)) = (values.first(), values.last()) else { return Vec::new() };
    let gap = values.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    // Beyond these powers the ends of an interval have more digits than a number can tell.
    let steps = (-12..=15).flat_map(|power| [(1, power), (5, power)]);
    let size = |(digit, power): &(i32, i32)| f64::from(*digit) * 10f64.powi(*power);
    let mut steps: Vec<(i32, i32)> = steps
        .skip_while(|step| size(step) <= gap)
        .take_while(|step| size(step) <= max - min)
        .take_while(|step| (min / size(step)).floor() != (max / size(step)).floor())
        .collect();
    let surplus = steps.len().saturating_sub(MAX_STEPS);
    steps.drain(..surplus);
    let written = |(digit, power): (i32, i32)| match power {
        0.. => format!("{digit}{}", "0".repeat(power as usize)),
        _ => format!("0.{}{digit}", "0".repeat(power.unsigned_abs() as usize - 1)),
    };
    steps.into_iter().map(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_join_some_values_and_part_others() {
        let ages: Vec<i128> = (17..=90).collect();
        assert_eq!(exact_steps(&ages), [5, 10, 50]);
        // 4 and 6 differ by 2: intervals of 1 would join nothing.
        assert_eq!(exact_steps(&[4, 6, 12]), [5]);
        // Any interval parts negative from other numbers; only those that fit the values help.
        assert_eq!(exact_steps(&[-30, -28, 25]), [5, 10, 50]);
        assert_eq!(exact_steps(&[7]), Vec::<i128>::new());
        assert_eq!(exact_steps(&[]), Vec::<i128>::new());
        assert_eq!(exact_steps(&[i128::MIN, i128::MAX]), Vec::<i128>::new());
    }

    #[test]
    fn wide_ranges_keep_their_coarsest_steps() {
        let values: Vec<i128> = (0..40).map(|power| 1i128 << power).collect();
        let steps = exact_steps(&values);
        assert_eq!(steps.len(), MAX_STEPS);
        assert_eq!(steps.last(), Some(&500_000_000_000));
        assert!(steps.windows(2).all(|pair| pair[1] % pair[0] == 0));
    }

    #[test]
    fn fractions_get_fractional_steps() {
        assert_eq!(float_steps(&[0.0, 0.02, 0.3, 0.9]), ["0.05", "0.1", "0.5"]);
        assert_eq!(float_steps(&[1.5, 12.0, 300.0]), ["50", "100"]);
        assert_eq!(float_steps(&[2.0]), Vec::<String>::new());
        let wide: Vec<f64> = (0..300).map(|power| 2f64.powi(power)).collect();
        assert!(float_steps(&wide).len() <= MAX_STEPS);
    }
}
