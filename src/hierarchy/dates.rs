//! Calendar steps over dates and timestamps: `date_steps('month', 'year', 'decade')`, then `*`.

use std::fmt;
use std::str::FromStr;

use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, TimeDelta, Timelike};

use super::{Level, Levels};
use crate::error::{Error, Result};

/// A point in time, in the time zone of its column.
pub type Instant = NaiveDateTime;

/// A unit of the calendar, from fine to coarse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum DateStep {
    /// `2020-03-05T13`
    Hour,
    /// `2020-03-05`
    Day,
    /// `2020-03`
    Month,
    /// `2020-Q1`
    Quarter,
    /// `2020`
    Year,
    /// `[2020-2029]`
    Decade,
    /// `[2000-2099]`
    Century,
}

const NAMES: [(&str, DateStep); 7] = [
    ("hour", DateStep::Hour),
    ("day", DateStep::Day),
    ("month", DateStep::Month),
    ("quarter", DateStep::Quarter),
    ("year", DateStep::Year),
    ("decade", DateStep::Decade),
    ("century", DateStep::Century),
];

impl FromStr for DateStep {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|(_, step)| *step).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            Error::invalid(format!("date_steps(): '{name}' is no step: use {}", names.join(", ")))
        })
    }
}

impl fmt::Display for DateStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, step)| step == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl DateStep {
    /// The label of the unit that holds this instant. Units of one step never share a label.
    fn label(self, at: &Instant) -> String {
        let (year, month) = (at.year(), at.month());
        let span = |years: i32| {
            let first = year.div_euclid(years) * years;
            format!("[{first}-{}]", first + years - 1)
        };
        match self {
            Self::Hour => at.format("%Y-%m-%dT%H").to_string(),
            Self::Day => at.format("%Y-%m-%d").to_string(),
            Self::Month => format!("{year:04}-{month:02}"),
            Self::Quarter => format!("{year:04}-Q{}", at.month0() / 3 + 1),
            Self::Year => format!("{year:04}"),
            Self::Decade => span(10),
            Self::Century => span(100),
        }
    }

    /// First and last instant of the unit that holds this instant, `None` outside the calendar.
    fn ends(self, at: &Instant) -> Option<(Instant, Instant)> {
        let month_start = |year: i32, month0: u32| {
            NaiveDate::from_ymd_opt(year, month0 + 1, 1)?.and_hms_opt(0, 0, 0)
        };
        let months = |months: u32| {
            let month0 = at.month0() / months * months;
            let first = month_start(at.year(), month0)?;
            Some((first, first.checked_add_months(Months::new(months))?))
        };
        let years = |years: i32| {
            let year = at.year().div_euclid(years) * years;
            Some((month_start(year, 0)?, month_start(year.checked_add(years)?, 0)?))
        };
        let midnight = at.date().and_hms_opt(0, 0, 0)?;
        let (first, next) = match self {
            Self::Hour => {
                let first = midnight + TimeDelta::hours(i64::from(at.hour()));
                (first, first.checked_add_signed(TimeDelta::hours(1))?)
            }
            Self::Day => (midnight, midnight.checked_add_signed(TimeDelta::days(1))?),
            Self::Month => months(1)?,
            Self::Quarter => months(3)?,
            Self::Year => years(1)?,
            Self::Decade => years(10)?,
            Self::Century => years(100)?,
        };
        Some((first, next.checked_sub_signed(TimeDelta::nanoseconds(1))?))
    }

    /// Length in hours, for the loss; calendar units are taken at their mean length.
    fn hours(self) -> f64 {
        match self {
            Self::Hour => 1.0,
            Self::Day => 24.0,
            Self::Month => 730.5,
            Self::Quarter => 2191.5,
            Self::Year => 8766.0,
            Self::Decade => 87_660.0,
            Self::Century => 876_600.0,
        }
    }
}

/// Levels of calendar units over sorted instants.
pub fn date_steps(values: &[Instant], steps: &[DateStep]) -> Result<Levels> {
    if steps.is_empty() {
        return Err(Error::invalid(
            "date_steps() needs at least one step: write date_steps('month', 'year')",
        ));
    }
    if let Some(pair) = steps.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(Error::invalid(format!(
            "date_steps(): '{}' is not coarser than '{}': write the steps from fine to coarse, as in \
             date_steps('month', 'year', 'decade')",
            pair[1], pair[0]
        )));
    }
    let hours = |at: &Instant| at.and_utc().timestamp() as f64 / 3600.0;
    let domain = match (values.first(), values.last()) {
        (Some(min), Some(max)) => hours(max) - hours(min),
        _ => 0.0,
    };
    let level = |step: &DateStep| {
        let loss = if domain > 0.0 { (step.hours() / domain).min(1.0) } else { 0.0 };
        let keys = values.iter().map(|at| Ok::<_, Error>(step.label(at)));
        let level = Level::from_keys(keys, |label: &String| Ok((label.clone(), loss)))?;
        Ok(Level { bounds: ends_of_nodes(&level, values, *step), ..level })
    };
    Ok(Levels(steps.iter().map(level).collect::<Result<_>>()?))
}

/// The ends of every node, written as ISO instants; none if one is outside the calendar.
fn ends_of_nodes(level: &Level, values: &[Instant], step: DateStep) -> Vec<(String, String)> {
    let mut ends = vec![None; level.labels.len()];
    for (node, at) in level.node_of.iter().zip(values) {
        let ends = &mut ends[*node as usize];
        if ends.is_none() {
            *ends = step.ends(at);
        }
    }
    let written = |ends: Option<(Instant, Instant)>| {
        let (first, last) = ends?;
        let write = |at: Instant| at.format("%Y-%m-%dT%H:%M:%S%.f").to_string();
        Some((write(first), write(last)))
    };
    ends.into_iter().map(written).collect::<Option<Vec<_>>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Instant {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap_or_default()
    }

    #[test]
    fn every_step_has_its_label() {
        let instant = at("1987-08-25 13:45");
        let labels: Vec<String> = NAMES.iter().map(|(_, step)| step.label(&instant)).collect();
        let expected = [
            "1987-08-25T13",
            "1987-08-25",
            "1987-08",
            "1987-Q3",
            "1987",
            "[1980-1989]",
            "[1900-1999]",
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn every_unit_has_its_ends() {
        let instant = at("1987-08-25 13:45");
        let ends = |step: DateStep| {
            let (first, last) = step.ends(&instant).unwrap_or_default();
            assert!(first <= instant && instant <= last);
            (first.to_string(), last.date().to_string())
        };
        assert_eq!(ends(DateStep::Hour).0, "1987-08-25 13:00:00");
        assert_eq!(ends(DateStep::Quarter), ("1987-07-01 00:00:00".into(), "1987-09-30".into()));
        assert_eq!(ends(DateStep::Decade), ("1980-01-01 00:00:00".into(), "1989-12-31".into()));
        assert!(NAMES.iter().all(|(_, step)| step.ends(&NaiveDateTime::MAX).is_none()));
        assert!(date_steps(&[NaiveDateTime::MAX], &[DateStep::Year]).is_ok());
    }

    #[test]
    fn steps_go_from_fine_to_coarse() {
        let fails = |steps: &[DateStep]| date_steps(&[at("2000-01-01 00:00")], steps).is_err();
        assert!(fails(&[]));
        assert!(fails(&[DateStep::Year, DateStep::Month]));
        assert!(!fails(&[DateStep::Month, DateStep::Year]));
        assert!("fortnight".parse::<DateStep>().is_err());
    }
}
