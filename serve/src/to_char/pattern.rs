//! Patterns of Postgres' `to_char` for dates and times.

use std::fmt::{self, Write};

use chrono::{DateTime, Datelike, FixedOffset, Timelike};

/// The days before the first of January of the year 1, counted as astronomers do.
const JULIAN: i64 = 1_721_425;

/// A pattern, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Field { field: Field, letters: Letters, trimmed: bool, ordinal: Option<bool> },
}

/// In which letters a name is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    Upper,
    Capital,
    Lower,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
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

/// All of them; of those that begin alike the longest comes first.
const FIELDS: [(&str, Field); 53] = [
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

impl Pattern {
    /// Takes a pattern apart, or says what is wrong with it.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), pattern);
        while let Some(sign) = rest.chars().next() {
            if sign == '"' {
                rest = quoted(&rest[1..], &mut parts);
                continue;
            }
            let (trimmed, after) = after_prefix(rest);
            let Some((name, field)) = field_at(after) else {
                if sign == '%' {
                    return Err("to_char takes Postgres' patterns, such as YYYY-MM-DD HH24:MI: write those, or date_format \
                        for patterns such as %Y-%m-%d"
                        .to_owned());
                }
                literal(sign, &mut parts);
                rest = &rest[sign.len_utf8()..];
                continue;
            };
            if field == Field::Impossible {
                return Err(format!(
                    "to_char does not know the pattern {name} here; write texts that are no pattern in quotes: '\"{name}\"'"
                ));
            }
            let written = &after[..name.len()];
            rest = &after[name.len()..];
            let ordinal = rest.get(..2).filter(|next| next.eq_ignore_ascii_case("th"));
            rest = ordinal.map_or(rest, |next| &rest[next.len()..]);
            let ordinal = ordinal.map(|next| next.starts_with('T'));
            parts.push(Part::Field { field, letters: letters(written), trimmed, ordinal });
        }
        Ok(Self(parts))
    }

    /// Appends the time as the pattern says.
    pub fn write(&self, time: &DateTime<FixedOffset>, text: &mut String) -> fmt::Result {
        for part in &self.0 {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Field { field, letters, trimmed, ordinal } => {
                    let start = text.len();
                    write_field(*field, *letters, *trimmed, time, text)?;
                    if let Some(upper) = ordinal {
                        let suffix = ordinal_suffix(&text[start..]);
                        text.push_str(&if *upper {
                            suffix.to_uppercase()
                        } else {
                            suffix.to_owned()
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

/// The text of a quotation, whose first quote is gone; what follows it.
fn quoted<'a>(rest: &'a str, parts: &mut Vec<Part>) -> &'a str {
    let mut signs = rest.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return &rest[at + 1..],
            '\\' => {
                if let Some((_, next)) = signs.next() {
                    literal(next, parts);
                }
            }
            other => literal(other, parts),
        }
    }
    ""
}

fn literal(sign: char, parts: &mut Vec<Part>) {
    if let Some(Part::Literal(text)) = parts.last_mut() {
        text.push(sign);
    } else {
        parts.push(Part::Literal(sign.to_string()));
    }
}

/// Whether `FM` says that numbers have no zeros and names no blanks around them, and what follows it.
fn after_prefix(rest: &str) -> (bool, &str) {
    match rest.get(..2) {
        Some(prefix) if prefix.eq_ignore_ascii_case("fm") => (true, &rest[2..]),
        _ => (false, rest),
    }
}

fn field_at(rest: &str) -> Option<(&'static str, Field)> {
    let begins = |name: &str| {
        rest.get(..name.len()).is_some_and(|written| written.eq_ignore_ascii_case(name))
    };
    FIELDS.into_iter().find(|(name, _)| begins(name))
}

fn letters(written: &str) -> Letters {
    let mut signs = written.chars().filter(char::is_ascii_alphabetic);
    match (signs.next(), signs.next()) {
        (Some('A'..='Z'), Some('a'..='z')) => Letters::Capital,
        (Some('A'..='Z'), _) => Letters::Upper,
        _ => Letters::Lower,
    }
}

fn ordinal_suffix(number: &str) -> &'static str {
    match number.as_bytes() {
        [.., b'1', b'0'..=b'9'] => "th",
        [.., b'1'] => "st",
        [.., b'2'] => "nd",
        [.., b'3'] => "rd",
        _ => "th",
    }
}

fn write_field(
    field: Field,
    letters: Letters,
    trimmed: bool,
    time: &DateTime<FixedOffset>,
    text: &mut String,
) -> fmt::Result {
    let week = time.iso_week();
    let micros = time.nanosecond() / 1_000 % 1_000_000;
    let minutes_off = time.offset().local_minus_utc() / 60;
    let day = i64::from(time.day0());
    let (number, width) = match field {
        Field::MonthName => return name(MONTHS[time.month0() as usize], 9, letters, trimmed, text),
        Field::MonthShort => {
            return name(&MONTHS[time.month0() as usize][..3], 3, letters, trimmed, text);
        }
        Field::DayName => return name(weekday(time), 9, letters, trimmed, text),
        Field::DayShort => return name(&weekday(time)[..3], 3, letters, trimmed, text),
        Field::HalfDay => {
            return name(
                if time.hour() < 12 { "AM" } else { "PM" },
                2,
                halves(letters),
                trimmed,
                text,
            );
        }
        Field::HalfDayWithPoints => {
            let half = if time.hour() < 12 { "A.M." } else { "P.M." };
            return name(half, 4, halves(letters), trimmed, text);
        }
        Field::YearWithComma => {
            let year = time.year();
            return write!(text, "{},{:03}", year / 1_000, year % 1_000);
        }
        Field::Offset => {
            write!(text, "{:+03}", minutes_off / 60)?;
            return match minutes_off % 60 {
                0 => Ok(()),
                minutes => write!(text, ":{:02}", minutes.abs()),
            };
        }
        Field::OffsetHours => return write!(text, "{:+03}", minutes_off / 60),
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
        Field::OffsetMinutes => (i64::from(minutes_off.abs() % 60), 2),
        // No pattern is made of it.
        Field::Impossible => return Err(fmt::Error),
    };
    let width = if trimmed { 0 } else { width as usize };
    write!(text, "{number:0width$}")
}

fn last_digits(year: i32, digits: u32) -> i64 {
    // There is no year 0: the one before the year 1 is called 1 as well.
    let year = if year > 0 { year } else { 1 - year };
    // Four digits are the whole year, however many it has.
    if digits == 4 { i64::from(year) } else { i64::from(year).rem_euclid(10_i64.pow(digits)) }
}

fn weekday(time: &DateTime<FixedOffset>) -> &'static str {
    DAYS[time.weekday().num_days_from_sunday() as usize]
}

/// There is no capital form of the halves of a day.
fn halves(letters: Letters) -> Letters {
    if letters == Letters::Capital { Letters::Upper } else { letters }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(pattern: &str, time: &str) -> String {
        let time = DateTime::parse_from_rfc3339(time).unwrap();
        let mut text = String::new();
        Pattern::parse(pattern).unwrap().write(&time, &mut text).unwrap();
        text
    }

    /// What Postgres answers to `to_char(timestamp '…', '…')`.
    #[test]
    fn patterns_mean_what_they_mean_in_postgres() {
        let time = "2024-03-05T16:07:09.012345+00:00";
        for (pattern, expected) in [
            ("YYYY-MM-DD", "2024-03-05"),
            ("yyyy-mm-dd hh24:mi:ss", "2024-03-05 16:07:09"),
            ("YYYY-MM-DD\"T\"HH24:MI:SS.MS", "2024-03-05T16:07:09.012"),
            ("HH12:MI AM, HH am, P.M.", "04:07 PM, 04 pm, P.M."),
            ("FMHH24:FMMI SS.US FF1 FF4", "16:7 09.012345 0 0123"),
            ("Month|FMMonth|MONTH|month", "March    |March|MARCH    |march    "),
            ("Mon MON mon", "Mar MAR mar"),
            ("Day|FMDay|DY dy Dy", "Tuesday  |Tuesday|TUE tue Tue"),
            ("\"Q\"Q YYYY", "Q1 2024"),
            ("D ID DDD IDDD J", "3 2 065 065 2460375"),
            ("WW W IW IYYY IY", "10 1 10 2024 24"),
            ("Y,YYY YYY YY Y CC", "2,024 024 24 4 21"),
            ("DDth FMDDth Mon", "05th 5th Mar"),
            ("SSSS OF TZH:TZM", "58029 +00 +00:00"),
            ("\"a \\\"b\\\"\" - é", "a \"b\" - é"),
            ("", ""),
        ] {
            assert_eq!(shown(pattern, time), expected, "{pattern}");
        }
        assert_eq!(shown("IYYY-IW-ID CC", "2000-01-02T00:00:00Z"), "1999-52-7 20");
        assert_eq!(
            shown("HH12 A.M. TZH:TZM OF", "2001-12-31T00:00:00-03:30"),
            "12 A.M. -03:30 -03:30"
        );
        assert_eq!(shown("FMDDth FMDDTH", "2001-12-21T00:00:00Z"), "21st 21ST");
        assert_eq!(shown("FMDDth", "2001-12-12T00:00:00Z"), "12th");
    }

    #[test]
    fn what_would_be_shown_wrongly_is_refused() {
        for (pattern, expected) in [
            ("%Y-%m-%d", "date_format"),
            ("YYYY BC", "'\"BC\"'"),
            ("TMMonth", "TM"),
            ("HH24:MI TZ", "TZ"),
        ] {
            let refused = Pattern::parse(pattern).unwrap_err();
            assert!(refused.contains(expected), "{pattern}: {refused}");
        }
        assert!(Pattern::parse("\"%\" YYYY").is_ok());
    }
}
