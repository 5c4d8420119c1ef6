//! Numbers and dates on an axis: ranges with round ends, and what published labels cover of them.

use datafusion::arrow::datatypes::DataType;

/// The most ranges of a chart.
pub(super) const RANGES: usize = 12;

/// What the numbers of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Whole,
    Real,
    Year,
}

impl Axis {
    pub(super) fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Dictionary(_, values) => Self::of(values),
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, _) => Some(Self::Year),
            other if other.is_integer() => Some(Self::Whole),
            other if other.is_numeric() => Some(Self::Real),
            _ => None,
        }
    }

    /// The number of a cell, in SQL.
    pub(super) fn number(self, quoted: &str) -> String {
        match self {
            Self::Year => format!("arrow_cast(date_part('year', {quoted}), 'Float64')"),
            _ => format!("arrow_cast({quoted}, 'Float64')"),
        }
    }

    /// The numbers that a published label stands for, both included.
    pub(super) fn read(self, label: &str) -> Option<(f64, f64)> {
        if self == Self::Year {
            let years = label.split(|character: char| !character.is_ascii_digit());
            let mut years =
                years.filter(|digits| digits.len() == 4).filter_map(|digits| digits.parse().ok());
            let first = years.next()?;
            return Some((first, years.next_back().unwrap_or(first)));
        }
        if let Ok(number) = label.parse::<f64>() {
            return number.is_finite().then_some((number, number));
        }
        let inner = label.strip_prefix('[')?.strip_suffix(']')?;
        let parted = |at: usize| {
            let (low, high) = (inner.get(..at)?, inner.get(at + 1..)?);
            Some((low.trim().parse().ok()?, high.trim().parse().ok()?))
        };
        let mut dashes = inner.match_indices('-').map(|(at, _)| at).filter(|at| *at > 0);
        dashes.find_map(parted).filter(|(low, high): &(f64, f64)| low <= high)
    }

    /// Where a value ends: a whole number fills the space up to the next one.
    pub(super) fn end(self, high: f64) -> f64 {
        if self == Self::Real { high } else { high + 1.0 }
    }
}

/// Ranges of one width, the first and the last of them open.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grid {
    pub(super) axis: Axis,
    pub(super) first: f64,
    pub(super) step: f64,
    pub(super) count: usize,
}

impl Grid {
    /// About ten ranges with round ends over most of the values.
    pub(super) fn new(axis: Axis, low: f64, high: f64) -> Self {
        // Values that are nearly the same would ask for steps that no number can take.
        const FINEST: f64 = 1e-9;
        const SMALLEST: f64 = 1e-300;
        let parts = (RANGES - 2) as f64;
        let largest = low.abs().max(high.abs());
        let finest = if largest > SMALLEST { largest * FINEST } else { 1.0 };
        let wanted = (high / parts - low / parts).max(finest).max(SMALLEST);
        let magnitude = 10f64.powf(wanted.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * magnitude);
        let step = steps.into_iter().find(|step| *step >= wanted).unwrap_or(magnitude);
        let step = if axis == Axis::Real { step } else { step.max(1.0) };
        let first = (low / step).floor() * step;
        // Numbers at both ends of what a number can be are further apart than a number can be.
        let count = ((high - first) / step).floor() + 1.0;
        let count = count.clamp(1.0, RANGES as f64) as usize;
        Self { axis, first, step, count }
    }

    pub(super) fn bin(&self, number: f64) -> usize {
        let at = ((number - self.first) / self.step).floor();
        if at <= 0.0 { 0 } else { (at as usize).min(self.count - 1) }
    }

    pub(super) fn edge(&self, bin: usize) -> f64 {
        self.first + bin as f64 * self.step
    }

    /// Adds records evenly over the ranges that their label covers.
    pub(super) fn spread(&self, bins: &mut [f64], low: f64, high: f64, rows: f64) {
        let end = self.axis.end(high);
        let (from, to) = (self.bin(low), self.bin(if end > high { end - 0.5 } else { high }));
        if from == to || end <= low {
            bins[from] += rows;
            return;
        }
        for (bin, records) in bins.iter_mut().enumerate().take(to + 1).skip(from) {
            let begin = if bin == from { low } else { self.edge(bin) };
            let stop = if bin == to { end } else { self.edge(bin + 1) };
            *records += rows * (stop - begin) / (end - low);
        }
    }

    pub(super) fn label(&self, from: usize, to: usize) -> String {
        let (low, end) = (self.edge(from), self.edge(to + 1));
        let number = |value: f64| {
            let digits = (-self.step.log10().floor()).clamp(0.0, 12.0) as usize;
            format!("{value:.digits$}")
        };
        match (from == 0, to + 1 == self.count) {
            (true, true) => "all values".to_owned(),
            (true, false) => format!("under {}", number(end)),
            (false, true) => format!("{} and over", number(low)),
            (false, false) if self.axis == Axis::Real => {
                format!("{} to under {}", number(low), number(end))
            }
            (false, false) if end - 1.0 <= low => number(low),
            (false, false) => format!("{} to {}", number(low), number(end - 1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_ranges_are_read_in_all_their_forms() {
        let cases = [
            (Axis::Whole, "23", Some((23.0, 23.0))),
            (Axis::Whole, "[20-39]", Some((20.0, 39.0))),
            (Axis::Whole, "[-20--5]", Some((-20.0, -5.0))),
            (Axis::Real, "[0.5-1.25]", Some((0.5, 1.25))),
            (Axis::Whole, "*", None),
            (Axis::Whole, "{1, 2}", None),
            (Axis::Year, "1987-08", Some((1987.0, 1987.0))),
            (Axis::Year, "[1980-1989]", Some((1980.0, 1989.0))),
            (Axis::Year, "[1980-01-31-1981-12-01]", Some((1980.0, 1981.0))),
        ];
        for (axis, label, range) in cases {
            assert_eq!(axis.read(label), range, "{label}");
        }
    }

    #[test]
    fn values_that_are_nearly_the_same_have_ranges_that_numbers_can_take() {
        for (low, high) in [
            (0.0, 0.0),
            (2.5, 2.5),
            (1.0, 1.0 + f64::EPSILON),
            (-1e20, -1e20),
            (1e-310, 1e-310),
            (-1e308, 1e308),
        ] {
            let grid = Grid::new(Axis::Real, low, high);
            assert!(grid.step.is_finite() && grid.step > 0.0, "{low} {high} {grid:?}");
            assert!(grid.first.is_finite() && (1..=RANGES).contains(&grid.count), "{grid:?}");
            assert!(grid.first + grid.step > grid.first, "{grid:?}");
        }
    }

    #[test]
    fn spread_records_are_conserved() {
        let grid = Grid::new(Axis::Whole, 18.0, 70.0);
        let mut bins = vec![0.0; grid.count];
        for (low, high) in [(20.0, 39.0), (1.0, 200.0), (33.0, 33.0), (69.0, 70.0), (-5.0, -1.0)] {
            grid.spread(&mut bins, low, high, 30.0);
        }
        assert!((bins.iter().sum::<f64>() - 150.0).abs() < 1e-9, "{bins:?}");
        assert!(bins.iter().all(|rows| *rows >= 0.0), "{bins:?}");
    }
}
