//! Comparisons between the lines of a plot.

use crate::claim::{Check, Found};
use crate::plot::LinePlot;
use crate::table::number;
use crate::variant::method_of;

/// Which values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
}

impl Better {
    /// Whether one value is at least as good as another. Not if one is missing.
    pub fn holds(self, one: f64, other: f64) -> bool {
        match self {
            Better::Lower => one <= other,
            Better::Higher => one >= other,
        }
    }
}

/// Which way a line goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Up,
    Down,
}

impl LinePlot {
    /// The points of a line, or why there are none.
    pub fn line(&self, name: &str) -> Result<&[(f64, f64)], String> {
        let line = self.lines.iter().find(|line| line.name == name);
        match line.map(|line| &line.points) {
            Some(Ok(points)) => Ok(points),
            Some(Err(reason)) => Err(reason.clone()),
            None => Err(format!("{name} was not measured")),
        }
    }

    /// The values of a line and of another at every place of the axis.
    pub fn pairs(&self, one: &str, other: &str) -> Result<Vec<(f64, f64, f64)>, String> {
        let (one, other) = (self.line(one)?, self.line(other)?);
        Ok(one.iter().zip(other).map(|(one, other)| (one.0, one.1, other.1)).collect())
    }

    /// How checks call a place of the axis.
    pub fn at(&self, place: f64) -> String {
        let at = format!("{} = {place}", self.axis);
        match self.setting.is_empty() {
            true => at,
            false => format!("{}, {at}", self.setting),
        }
    }

    /// Whether a line is at least as good as all others, at every place.
    pub fn best(&self, name: &str, others: &[String], better: Better) -> Found {
        let others = others.iter().map(|other| Ok((other, self.line(other)?)));
        let others = others.collect::<Result<Vec<_>, String>>()?;
        let check = |(index, (place, value)): (usize, &(f64, f64))| {
            let rivals = others.iter().map(|(name, points)| (*name, points[index].1));
            let rival = rivals.reduce(|one, other| match better.holds(one.1, other.1) {
                true => one,
                false => other,
            });
            let (rival, least) = rival?;
            let found =
                format!("{} against {} ({})", number(*value), number(least), method_of(rival));
            Some(Check { at: self.at(*place), found, holds: better.holds(*value, least) })
        };
        Ok(self.line(name)?.iter().enumerate().filter_map(check).collect())
    }

    /// Whether a line divided by another lies in a range, at every place.
    pub fn ratio_within(&self, one: &str, other: &str, range: [f64; 2]) -> Found {
        let check = |(place, one, other): (f64, f64, f64)| {
            // Two equal values are in proportion even if both are 0.
            let ratio = if one == other { 1.0 } else { one / other };
            Check {
                at: self.at(place),
                found: ratio_of(one, other),
                holds: (range[0]..=range[1]).contains(&ratio),
            }
        };
        Ok(self.pairs(one, other)?.into_iter().map(check).collect())
    }

    /// Whether a line goes one way, at no step back by more than this share of its value.
    pub fn goes(&self, name: &str, way: Way, tolerance: f64) -> Result<Check, String> {
        let points = self.line(name)?;
        let forward = |from: f64, to: f64| match way {
            Way::Up => to >= from * (1.0 - tolerance),
            Way::Down => to <= from * (1.0 + tolerance),
        };
        let (first, last) = match points {
            [first, .., last] => (first.1, last.1),
            _ => return Err(format!("{name} has too few points")),
        };
        let on_the_whole = match way {
            Way::Up => last > first,
            Way::Down => last < first,
        };
        let steps = points.windows(2).filter(|step| forward(step[0].1, step[1].1)).count();
        let found = format!(
            "{} → {}, {steps} of {} steps {}",
            number(first),
            number(last),
            points.len() - 1,
            match way {
                Way::Up => "up",
                Way::Down => "down",
            }
        );
        let at = match self.setting.is_empty() {
            true => method_of(name).to_owned(),
            false => format!("{}, {}", self.setting, method_of(name)),
        };
        Ok(Check { at, found, holds: on_the_whole && steps + 1 == points.len() })
    }
}

/// Two values and their ratio, if there is one.
pub fn ratio_of(one: f64, other: f64) -> String {
    match other == 0.0 {
        true => format!("{} against 0", number(one)),
        false => format!("{} / {} = {:.3}", number(one), number(other), one / other),
    }
}

/// One check after the other, unless one of them could not be made.
pub fn all(found: impl IntoIterator<Item = Found>) -> Found {
    let found = found.into_iter().collect::<Result<Vec<_>, String>>()?;
    Ok(found.into_iter().flatten().collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::line::Line;
    use crate::plot::Start;

    fn plot(lines: &[(&str, &[f64])]) -> LinePlot {
        let line = |(name, values): &(&str, &[f64])| Line {
            name: (*name).to_owned(),
            points: Ok((1..).map(f64::from).zip(values.iter().copied()).collect()),
        };
        LinePlot {
            title: String::new(),
            setting: String::new(),
            axis: "k".to_owned(),
            y_label: String::new(),
            start: Start::Zero,
            lines: lines.iter().map(line).collect(),
        }
    }

    fn holds(found: &Found) -> Vec<bool> {
        found.as_ref().unwrap().iter().map(|check| check.holds).collect()
    }

    #[test]
    fn a_line_is_compared_with_the_best_of_the_others() {
        let plot = plot(&[("a", &[1.0, 3.0]), ("b", &[2.0, 2.0]), ("c", &[3.0, 1.0])]);
        let others = ["b".to_owned(), "c".to_owned()];
        let lower = plot.best("a", &others, Better::Lower);
        assert_eq!(holds(&lower), [true, false]);
        assert_eq!(lower.unwrap()[1].found, "3 against 1 (c)");
        assert_eq!(holds(&plot.best("a", &others, Better::Higher)), [false, true]);
    }

    #[test]
    fn a_ratio_of_two_equal_values_is_one_even_of_nothing() {
        let plot = plot(&[("a", &[0.0, 1.0]), ("b", &[0.0, 4.0])]);
        assert_eq!(holds(&plot.ratio_within("a", "b", [0.9, 1.1])), [true, false]);
        assert_eq!(holds(&plot.ratio_within("a", "b", [0.1, 0.5])), [false, true]);
    }

    #[test]
    fn a_line_that_turns_back_does_not_go_one_way() {
        let plot = plot(&[("a", &[1.0, 2.0, 1.9, 3.0]), ("flat", &[1.0, 1.0])]);
        assert!(!plot.goes("a", Way::Up, 0.0).unwrap().holds);
        assert!(plot.goes("a", Way::Up, 0.1).unwrap().holds);
        assert!(!plot.goes("a", Way::Down, 0.1).unwrap().holds);
        assert!(!plot.goes("flat", Way::Up, 0.1).unwrap().holds);
    }

    #[test]
    fn a_missing_number_holds_nothing() {
        let plot = plot(&[("a", &[f64::NAN]), ("b", &[1.0])]);
        assert_eq!(holds(&plot.best("a", &["b".to_owned()], Better::Lower)), [false]);
        assert_eq!(holds(&plot.best("b", &["a".to_owned()], Better::Lower)), [false]);
    }
}
