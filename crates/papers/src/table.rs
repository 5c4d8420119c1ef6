//! Numbers and tables as text.

/// A table as Markdown, columns under each other.
pub fn markdown(heads: &[&str], rows: &[Vec<String>]) -> String {
    let heads = heads.iter().map(|head| (*head).to_owned()).collect::<Vec<_>>();
    let width = |column: usize| {
        let cells = [&heads].into_iter().chain(rows).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default().max(3)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = widths.iter().zip(row).map(|(width, cell)| format!(" {cell:<width$} |"));
        format!("|{}\n", cells.collect::<String>())
    };
    let ruler = widths.iter().map(|width| "-".repeat(*width)).collect();
    [&heads, &ruler].into_iter().chain(rows).map(line).collect()
}

/// A number as short as it can be read: four decimals for shares, none for large numbers.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "none".to_owned(),
        size if size >= 10_000.0 => thousands(value),
        size if value.fract() == 0.0 || size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.4}"),
    }
}

/// Three digits at a time, with a space that does not break the line.
fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    if value < 0.0 { format!("-{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [f64::NAN, 0.0, 0.12345, -1.5, 12.34, 1234.5, 30162.0, -1234567.0].map(number);
        let expected = ["none", "0", "0.1235", "-1.5000", "12.3", "1234", "30\u{202f}162"];
        assert_eq!(shown[..7], expected);
        assert_eq!(shown[7], "-1\u{202f}234\u{202f}567");
    }

    #[test]
    fn columns_stand_under_each_other() {
        let rows = vec![vec!["2".to_owned(), "half".to_owned()]];
        assert_eq!(
            markdown(&["k", "loss"], &rows),
            "| k   | loss |\n| --- | ---- |\n| 2   | half |\n"
        );
    }
}
