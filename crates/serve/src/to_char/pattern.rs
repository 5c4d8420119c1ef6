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
            // Outside of quotes a backslash means something only there.
            if let Some(after) = rest.strip_prefix("\\\"") {
                literal('"', &mut parts);
                rest = after;
                continue;
            }
            let (trimmed, after) = after_prefix(rest)?;
            let Some((name, field)) = field_at(after) else {
                if sign == '%' {
                    return Err("to_char takes Postgres' patterns, such as YYYY-MM-DD HH24:MI: write those, or date_format \
                        for patterns such as %Y-%m-%d"
                        .to_owned());
                }
                if trimmed {
                    return Err("to_char takes FM only in front of a field: write FMDD, or \"FM\" in quotes for the text"
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
            if trimmed && field.is_offset() {
                return Err(format!("to_char does not take FM in front of {name}: write {name}"));
            }
            let (written, following) = after.split_at(name.len());
            let letters =
                letters(written, field.is_name()).ok_or_else(|| mixed(written, field.is_name()))?;
            let (ordinal, following) = after_ordinal(name, field, following)?;
            rest = following;
            parts.push(Part::Field { field, letters, trimmed, ordinal });
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
            '\\' => literal(signs.next().map_or(sign, |(_, next)| next), parts),
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
fn after_prefix(rest: &str) -> Result<(bool, &str), String> {
    match rest.split_at_checked(2) {
        Some(("FM" | "fm", after)) => Ok((true, after)),
        Some((prefix, _)) if prefix.eq_ignore_ascii_case("fm") => Err(mixed(prefix, false)),
        _ => Ok((false, rest)),
    }
}

/// Whether `TH` makes a field an ordinal, in upper letters or not, and what follows it.
fn after_ordinal<'a>(
    name: &str,
    field: Field,
    rest: &'a str,
) -> Result<(Option<bool>, &'a str), String> {
    match rest.split_at_checked(2) {
        Some((suffix, _)) if !suffix.eq_ignore_ascii_case("th") => Ok((None, rest)),
        Some((suffix, _)) if !field.is_number() => Err(format!(
            "to_char takes {suffix} only behind a number, such as DD{suffix}, and not behind {name}; write texts in quotes: '\"{suffix}\"'"
        )),
        Some(("TH", after)) => Ok((Some(true), after)),
        Some(("th", after)) => Ok((Some(false), after)),
        Some((suffix, _)) => Err(mixed(suffix, false)),
        None => Ok((None, rest)),
    }
}

/// Postgres takes such a word apart in ways that nobody means.
fn mixed(written: &str, may_be_capital: bool) -> String {
    let (upper, lower) = (written.to_ascii_uppercase(), written.to_ascii_lowercase());
    let capital =
        if may_be_capital { format!(", {}{}", &upper[..1], &lower[1..]) } else { String::new() };
    format!(
        "to_char does not know the pattern {written}: write {upper}{capital} or {lower}, or the text in quotes: '\"{written}\"'"
    )
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
            ("\"\"", ""),
            ("\\\"YYYY\\\" \\ \"\\", "\"2024\" \\ \\"),
            ("fmdd ddTH a.m. MONTH Monday", "5 05TH p.m. MARCH     Martuesday  "),
        ] {
            assert_eq!(shown(pattern, time), expected, "{pattern}");
        }
        assert_eq!(shown("IYYY-IW-ID CC", "2000-01-02T00:00:00Z"), "1999-52-7 20");
        assert_eq!(
            shown("HH12 A.M. TZH:TZM OF", "2001-12-31T00:00:00-03:30"),
            "12 A.M. -03:30 -03:30"
        );
        for (zone, expected) in
            [("-00:30", "-00:30 -00:30"), ("+00:30", "+00:30 +00:30"), ("-05:00", "-05:00 -05")]
        {
            let time = format!("2001-12-31T00:00:00{zone}");
            assert_eq!(shown("TZH:TZM OF", &time), expected);
        }
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
            ("YYYY A.D.", "'\"A.D.\"'"),
            ("YYYY b.c.", "'\"B.C.\"'"),
            ("FXYYYY", "FX"),
            ("Mm", "write MM or mm"),
            ("Hh24", "HH24 or hh24"),
            ("Am", "AM or am"),
            ("P.m.", "P.M. or p.m."),
            ("Yyyy", "YYYY or yyyy"),
            ("mONTH", "MONTH, Month or month"),
            ("DaY", "DAY, Day or day"),
            ("Fmdd", "FM or fm"),
            ("DDTh", "TH or th"),
            ("FM-DD", "in front of a field"),
            ("FM", "in front of a field"),
            ("FM\"a\"DD", "in front of a field"),
            ("Monthth", "behind a number"),
            ("TZMTH", "behind a number"),
            ("amth", "behind a number"),
            ("FMOF", "write OF"),
            ("FMTZH", "write TZH"),
            ("fmtzm", "write TZM"),
        ] {
            let refused = Pattern::parse(pattern).unwrap_err();
            assert!(refused.contains(expected), "{pattern}: {refused}");
        }
        assert!(Pattern::parse("\"%\" YYYY").is_ok());
    }
}
