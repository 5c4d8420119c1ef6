//! Tables as Markdown.

use std::fmt::Display;

/// The narrowest column.
const WIDTH: usize = 7;

/// A table that is printed row by row, because some rows take minutes.
pub struct Table {
    widths: Vec<usize>,
}

impl Table {
    pub fn start(title: impl Display, heads: &[&str]) -> Self {
        println!("{title}\n");
        let table = Self { widths: heads.iter().map(|head| head.len().max(WIDTH)).collect() };
        table.print(heads.iter().map(|head| (*head).to_owned()));
        table.print(table.widths.iter().map(|width| "-".repeat(*width)));
        table
    }

    pub fn row(&self, first: impl Display, cells: impl IntoIterator<Item = String>) {
        self.print([first.to_string()].into_iter().chain(cells));
    }

    pub fn end(self) {
        println!();
    }

    fn print(&self, cells: impl Iterator<Item = String>) {
        let cells = self.widths.iter().zip(cells).map(|(width, cell)| format!(" {cell:>width$} |"));
        println!("|{}", cells.collect::<String>());
    }
}

/// A measure with four decimals.
pub fn number(value: f64) -> String {
    match value.is_nan() {
        true => "none".to_owned(),
        false => format!("{value:.4}"),
    }
}
