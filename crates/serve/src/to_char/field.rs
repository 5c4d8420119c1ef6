//! The fields of a date and time that a pattern can name.

use std::fmt::{self, Write};

use chrono::{DateTime, Datelike, FixedOffset, Timelike};

/// The days before the first of January of the year 1, counted as astronomers do.
const JULIAN: i64 = 1_721_425;

/// In which letters a name is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    Upper,
    Capital,
    Lower,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    YearWithComma,
    /// The last digits of the year.
    Year(u32),
    IsoYear(u32),
    Century,
    Quarter,
    Month,
    MonthName,
    MonthShort,
    WeekOfYear,
    WeekOfMonth,
    IsoWeek,
    DayOfYear,
    IsoDayOfYear,
    Day,
    DayName,
    DayShort,
    /// From Sunday, which is 1.
    Weekday,
    IsoWeekday,
    JulianDay,
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    Milliseconds,
    Microseconds,
    /// Tenths of a second and so on, up to microseconds.
    Fraction(u32),
    HalfDay,
    HalfDayWithPoints,
    Offset,
    OffsetHours,
    OffsetMinutes,
    /// Names that differ with the language or the zone, and notations that nobody uses.
    Impossible,
}

impl Field {
    pub fn is_name(self) -> bool {
        matches!(self, Self::MonthName | Self::MonthShort | Self::DayName | Self::DayShort)
    }

    pub fn is_offset(self) -> bool {
        matches!(self, Self::Offset | Self::OffsetHours | Self::OffsetMinutes)
    }

    /// Whether it can be an ordinal, such as 5th.
    pub fn is_number(self) -> bool {
        let is_half = matches!(self, Self::HalfDay | Self::HalfDayWithPoints);
        !self.is_name() && !self.is_offset() && !is_half
    }
}

/// All of them; of those that begin alike the longest comes first.
const FIELDS: [(&str, Field); 56] = [
    ("SSSSS", Field::SecondOfDay),
    ("SSSS", Field::SecondOfDay),
    ("Y,YYY", Field::YearWithComma),
    ("YYYY", Field::Year(4)),
    ("YYY", Field::Year(3)),
    ("YY", Field::Year(2)),
    ("Y", Field::Year(1)),
    ("IYYY", Field::IsoYear(4)),
    ("IYY", Field::IsoYear(3)),
    ("IDDD", Field::IsoDayOfYear),
    ("IY", Field::IsoYear(2)),
    ("IW", Field::IsoWeek),
    ("ID", Field::IsoWeekday),
    ("I", Field::IsoYear(1)),
    ("CC", Field::Century),
    ("Q", Field::Quarter),
    ("MONTH", Field::MonthName),
    ("MON", Field::MonthShort),
    ("MM", Field::Month),
    ("MI", Field::Minute),
    ("MS", Field::Milliseconds),
    ("WW", Field::WeekOfYear),
    ("W", Field::WeekOfMonth),
    ("DAY", Field::DayName),
    ("DDD", Field::DayOfYear),
    ("DD", Field::Day),
    ("DY", Field::DayShort),
    ("D", Field::Weekday),
    ("J", Field::JulianDay),
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("HH", Field::Hour12),
    ("SS", Field::Second),
    ("US", Field::Microseconds),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("AM", Field::HalfDay),
    ("PM", Field::HalfDay),
    ("A.M.", Field::HalfDayWithPoints),
    ("P.M.", Field::HalfDayWithPoints),
    ("OF", Field::Offset),
    ("TZH", Field::OffsetHours),
    ("TZM", Field::OffsetMinutes),
    ("TZ", Field::Impossible),
    ("TM", Field::Impossible),
    ("RM", Field::Impossible),
    ("BC", Field::Impossible),
    ("AD", Field::Impossible),
    ("B.C.", Field::Impossible),
    ("A.D.", Field::Impossible),
    ("FX", Field::Impossible),
    ("SP", Field::Impossible),
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The field whose name a text begins with, in whatever letters.
pub fn field_at(rest: &str) -> Option<(&'static str, Field)> {
    let begins = |name: &str| {
        rest.get(..name.len()).is_some_and(|written| written.eq_ignore_ascii_case(name))
    };
    FIELDS.into_iter().find(|(name, _)| begins(name))
}

/// In which letters a word is written; nothing if it is in a mixture that Postgres does not know.
pub fn letters(written: &str, may_be_capital: bool) -> Option<Letters> {
    let is_lower = |text: &str| !text.contains(|sign: char| sign.is_ascii_uppercase());
    if !written.contains(|sign: char| sign.is_ascii_lowercase()) {
        Some(Letters::Upper)
    } else if is_lower(written) {
        Some(Letters::Lower)
    } else if may_be_capital && written.get(1..).is_some_and(is_lower) {
        Some(Letters::Capital)
    } else {
        None
    }
}

/// Appends a field of a time: a name in these letters, and whether without zeros and blanks.
pub fn write_field(
    field: Field,
    letters: Letters,
    trimmed: bool,
    time: &DateTime<FixedOffset>,
    text: &mut String,
) -> fmt::Result {
    let week = time.iso_week();
    let micros = time.nanosecond() / 1_000 % 1_000_000;
    let seconds_off = time.offset().local_minus_utc();
    // Apart from the hours, which cannot tell that less than an hour is negative.
    let (sign, seconds_off) = (if seconds_off < 0 { '-' } else { '+' }, seconds_off.abs());
    let (hours_off, minutes_off) = (seconds_off / 3_600, seconds_off / 60 % 60);
    let day = i64::from(time.day0());
    let (number, width) = match field {
        Field::MonthName => return name(MONTHS[time.month0() as usize], 9, letters, trimmed, text),
        Field::MonthShort => {
            return name(&MONTHS[time.month0() as usize][..3], 3, letters, trimmed, text);
        }
        Field::DayName => return name(weekday(time), 9, letters, trimmed, text),
        Field::DayShort => return name(&weekday(time)[..3], 3, letters, trimmed, text),
        Field::HalfDay => {
            return name(if time.hour() < 12 { "AM" } else { "PM" }, 2, letters, trimmed, text);
        }
        Field::HalfDayWithPoints => {
            let half = if time.hour() < 12 { "A.M." } else { "P.M." };
            return name(half, 4, letters, trimmed, text);
        }
        Field::YearWithComma => {
            let year = time.year();
            return write!(text, "{},{:03}", year / 1_000, year % 1_000);
        }
        Field::Offset => {
            write!(text, "{sign}{hours_off:02}")?;
            return match seconds_off % 3_600 {
                0 => Ok(()),
                _ => write!(text, ":{minutes_off:02}"),
            };
        }
        Field::OffsetHours => return write!(text, "{sign}{hours_off:02}"),
        Field::Year(digits) => (last_digits(time.year(), digits), digits),
        Field::IsoYear(digits) => (last_digits(week.year(), digits), digits),
        Field::Century => (i64::from((time.year() + 99).div_euclid(100)), 2),
        Field::Quarter => (i64::from(time.month0() / 3 + 1), 1),
        Field::Month => (i64::from(time.month()), 2),
        Field::WeekOfYear => (i64::from(time.ordinal0() / 7 + 1), 2),
        Field::WeekOfMonth => (day / 7 + 1, 1),
        Field::IsoWeek => (i64::from(week.week()), 2),
        Field::DayOfYear => (i64::from(time.ordinal()), 3),
        Field::IsoDayOfYear => {
            let weeks = i64::from(week.week0()) * 7;
            (weeks + i64::from(time.weekday().number_from_monday()), 3)
        }
        Field::Day => (day + 1, 2),
        Field::Weekday => (i64::from(time.weekday().number_from_sunday()), 1),
        Field::IsoWeekday => (i64::from(time.weekday().number_from_monday()), 1),
        Field::JulianDay => (i64::from(time.num_days_from_ce()) + JULIAN, 1),
        Field::Hour24 => (i64::from(time.hour()), 2),
        Field::Hour12 => (i64::from(time.hour12().1), 2),
        Field::Minute => (i64::from(time.minute()), 2),
        Field::Second => (i64::from(time.second()), 2),
        Field::SecondOfDay => (i64::from(time.num_seconds_from_midnight()), 1),
        // Digits after a point have their zeros whatever is said.
        Field::Milliseconds => return write!(text, "{:03}", micros / 1_000),
        Field::Microseconds => return write!(text, "{micros:06}"),
        Field::Fraction(digits) => {
            let cut = micros / 10_u32.pow(6 - digits);
            return write!(text, "{cut:0width$}", width = digits as usize);
        }
        Field::OffsetMinutes => (i64::from(minutes_off), 2),
        // No pattern is made of it.
        Field::Impossible => return Err(fmt::Error),
    };
    let width = if trimmed { 0 } else { width as usize };
    write!(text, "{number:0width$}")
}

fn last_digits(year: i32, digits: u32) -> i64 {
    // Four digits are the whole year, however many it has.
    if digits == 4 { i64::from(year) } else { i64::from(year).rem_euclid(10_i64.pow(digits)) }
}

fn weekday(time: &DateTime<FixedOffset>) -> &'static str {
    DAYS[time.weekday().num_days_from_sunday() as usize]
}

fn name(
    name: &str,
    width: usize,
    letters: Letters,
    trimmed: bool,
    text: &mut String,
) -> fmt::Result {
    let name = match letters {
        Letters::Upper => name.to_ascii_uppercase(),
        Letters::Capital => name.to_owned(),
        Letters::Lower => name.to_ascii_lowercase(),
    };
    let width = if trimmed { 0 } else { width };
    write!(text, "{name:width$}")
}
