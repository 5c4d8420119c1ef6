//! Patterns of Postgres' `to_char` for dates and times.

use std::fmt;

use chrono::{DateTime, FixedOffset};

use super::field::{Field, Letters, field_at, letters, write_field};

/// A pattern, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Field { field: Field, letters: Letters, trimmed: bool, ordinal: Option<bool> },
}

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
                    write_field(*field, (*letters, *trimmed), time, text)?;
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

fn ordinal_suffix(number: &str) -> &'static str {
    match number.as_bytes() {
        [.., b'1', b'0'..=b'9'] => "th",
        [.., b'1'] => "st",
        [.., b'2'] => "nd",
        [.., b'3'] => "rd",
        _ => "th",
    }
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
