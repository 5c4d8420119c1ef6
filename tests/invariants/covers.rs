//! Does a published cell cover an original value? Written from sql.md, without the crate's code.

use chrono::{DateTime, NaiveDate};

use crate::invariants::people::Original;

/// A published cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Missing,
    Label(String),
    Bounds(f64, f64),
    Mean(f64),
}

/// Whether `cell`, published in `column`, covers the original. Means are checked per class instead.
pub fn covers(column: &str, cell: &Cell, original: &Original) -> bool {
    match (cell, &original.written) {
        (Cell::Label(label), _) if label == "*" => true,
        // Bounds and means have no way to say "anything" but NULL; a label has `*`.
        (Cell::Missing, None) => true,
        (Cell::Missing, Some(_)) => false,
        (_, None) => false,
        (Cell::Label(label), Some(written)) => {
            label == written
                || in_set(label, written)
                || in_range(column, label, original.number)
                || under_node(column, label, written)
        }
        (Cell::Bounds(lower, upper), Some(_)) => {
            let number = original.number.unwrap();
            lower - 1e-9 <= number && number <= upper + 1e-9
        }
        (Cell::Mean(_), Some(_)) => true,
    }
}

fn in_set(label: &str, written: &str) -> bool {
    let inner = label.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|inner| inner.split(", ").any(|value| value == written))
}

/// `[low-high]`: ends may hold a `-` themselves, so every place to part them is tried.
fn in_range(column: &str, label: &str, number: Option<f64>) -> bool {
    let inner = label.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let (Some(inner), Some(number)) = (inner, number) else { return false };
    inner.match_indices('-').any(|(at, _)| {
        let low = position(column, &inner[..at]);
        let high = position(column, &inner[at + 1..]);
        matches!((low, high), (Some(low), Some(high)) if low - 1e-9 <= number && number <= high + 1e-9)
    })
}

/// Where a written value stands on the line of its column.
pub fn position(column: &str, written: &str) -> Option<f64> {
    match column {
        "born" => {
            let date = NaiveDate::parse_from_str(written, "%Y-%m-%d").ok()?;
            Some((date - NaiveDate::default()).num_days() as f64)
        }
        "seen" => Some(DateTime::parse_from_rfc3339(written).ok()?.timestamp() as f64),
        _ => written.parse().ok(),
    }
}

/// Nodes of the hierarchies that `release::HIERARCHIES` declares.
fn under_node(column: &str, label: &str, written: &str) -> bool {
    match column {
        // date_steps: 1970, 1970-03 and 1970-03-05 begin a date, [1970-1979] holds its year.
        "born" | "seen" => {
            let years = label.trim_matches(['[', ']']).split_once('-');
            let years = years.and_then(|(low, high)| {
                Some((low.parse::<i32>().ok()?, high.parse::<i32>().ok()?))
            });
            let year: i32 = written[..4].parse().unwrap();
            let in_decade = matches!(years, Some((low, high)) if label.len() == 11 && low <= year && year <= high);
            in_decade || (label.len() < written.len() && written.starts_with(label))
        }
        "zip" => {
            let masked = |(shown, original): (char, char)| shown == original || shown == '*';
            label.len() == written.len() && label.chars().zip(written.chars()).all(masked)
        }
        "grade" => {
            let grade: i64 = written.parse().unwrap();
            label == format!("mod {}", grade % 4)
                || label == (if grade % 2 == 0 { "even" } else { "odd" })
        }
        _ => false,
    }
}

#[test]
fn the_oracle_knows_a_wrong_label() {
    let original = |written: &str, number: f64| Original {
        written: Some(written.to_owned()),
        number: Some(number),
    };
    let label = |label: &str| Cell::Label(label.to_owned());
    assert!(covers("age", &label("[-5--1]"), &original("-3", -3.0)));
    assert!(!covers("age", &label("[-5--4]"), &original("-3", -3.0)));
    assert!(!covers("town", &label("{t001, t003}"), &original("t002", 2.0)));
    assert!(!covers("zip", &label("01**"), &original("0213", 213.0)));
    assert!(covers("born", &label("[1969-10-03-1970-01-01]"), &original("1969-11-12", -50.0)));
    assert!(!covers("born", &label("1970-01"), &original("1969-11-12", -50.0)));
    assert!(!covers("grade", &label("odd"), &original("4", 4.0)));
    assert!(!covers("age", &Cell::Bounds(1.0, 2.0), &original("3", 3.0)));
    assert!(!covers("age", &Cell::Missing, &original("3", 3.0)));
}
