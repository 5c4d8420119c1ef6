//! Information loss that counts rows left out: ILoss, ILossRate, VMR and RMR.
//!
//! A measure that looks at the published rows alone praises a method for dropping the difficult ones.
//! Here every cell of the input counts:
//!
//! ```text
//! ILoss of a cell   0                                    published as it was (missing as missing too)
//!                   (max − min + 1)/(QImax − QImin + 1)  a number published as min…max
//!                   leaves(v*)/leaves(top)               a value published as v*
//!                   1                                    in a suppressed row
//! ILossRate         sum over all cells / (rows · columns)
//! VMR, RMR          share of the cells that are missing, of the rows that miss one
//! ```
//!
//! Worked on six rows that miss some ages, classes of two, ages 20…40 with a span of 21:
//!
//! | age | published | ILoss |
//! | --- | --- | --- |
//! | 20 | [20-24] | 5/21 |
//! | 24 | [20-24] | 5/21 |
//! | missing | missing | 0 |
//! | missing | missing | 0 |
//! | 40 | `*` | 1 |
//! | missing | `*` | 0 |
//!
//! **Source.** Gong, Yang and Luo, "Data anonymization approach for incomplete microdata", Journal of
//! Software 24(12), 2013 (paper P5), definitions 1, 2, 6 and 7.

use rayon::prelude::*;

use super::Measure;
use crate::hierarchy::{Axis, Shape};
use crate::model::{Classes, Code, Row, RowTable, with_rows};

/// A quasi-identifier to be measured.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// How its values generalize.
    pub axis: &'a Axis,
    /// How many values it could take: the leaves of its hierarchy, max − min + 1 for numbers (with
    /// or without a hierarchy of intervals), the distinct values for a set.
    pub values: f64,
}

/// What one quasi-identifier lost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ColumnLoss {
    /// ILoss summed over all rows, suppressed ones included.
    pub loss: f64,
    /// Rows in which the column is missing.
    pub missing: u64,
}

/// What a table that may have holes lost by its release.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IncompleteLoss {
    /// Rows of the input, suppressed ones included.
    pub rows: u64,
    /// Rows that miss at least one quasi-identifier.
    pub incomplete_rows: u64,
    /// Rows that are not published.
    pub suppressed_rows: u64,
    /// Every quasi-identifier, in the order of the codes.
    pub columns: Vec<ColumnLoss>,
}

impl IncompleteLoss {
    /// ILoss summed over all cells.
    pub fn loss(&self) -> f64 {
        self.columns.iter().map(|column| column.loss).sum()
    }

    /// ILossRate: the share of all information that is lost, from 0 to 1.
    pub fn rate(&self) -> f64 {
        self.loss() / self.cells()
    }

    /// ILossRate of one quasi-identifier.
    pub fn column_rate(&self, column: usize) -> f64 {
        self.columns[column].loss / self.rows.max(1) as f64
    }

    /// VMR, the value missing rate: the share of the cells that are missing.
    pub fn value_missing_rate(&self) -> f64 {
        self.columns.iter().map(|column| column.missing).sum::<u64>() as f64 / self.cells()
    }

    /// RMR, the record missing rate: the share of the rows that miss a cell.
    pub fn record_missing_rate(&self) -> f64 {
        self.incomplete_rows as f64 / self.rows.max(1) as f64
    }

    fn cells(&self) -> f64 {
        (self.rows as f64 * self.columns.len() as f64).max(1.0)
    }
}

/// Measures a release. Rows must be in class order; those behind the last class are suppressed.
pub fn incomplete_loss(rows: &RowTable, classes: &Classes, spans: &[Span]) -> IncompleteLoss {
    with_rows!(rows, rows => measure(rows, classes, spans))
}

/// The lines of a report, each of every column and of the table. A column is what it lost, suppressed
/// rows included, if that can be told, and the rows in which it is missing.
pub fn incomplete_measures(
    rows: u64,
    incomplete_rows: u64,
    columns: &[(Option<f64>, u64)],
) -> Vec<Measure> {
    let share = |count: f64, of: f64| (of > 0.0).then(|| count / of);
    let lost: Option<f64> = columns.iter().map(|(lost, _)| *lost).sum();
    let missing = columns.iter().map(|(_, missing)| *missing).sum::<u64>() as f64;
    let (rows, cells) = (rows as f64, rows as f64 * columns.len() as f64);
    type OfColumn<'a> = &'a dyn Fn(Option<f64>, f64) -> Option<f64>;
    let lines: [(&'static str, OfColumn, Option<f64>); 4] = [
        ("iloss", &|lost, _| lost, lost),
        ("iloss_rate", &|lost, _| share(lost?, rows), lost.and_then(|lost| share(lost, cells))),
        ("vmr", &|_, missing| share(missing, rows), share(missing, cells)),
        ("rmr", &|_, missing| share(missing, rows), share(incomplete_rows as f64, rows)),
    ];
    let mut measures = Vec::with_capacity(lines.len() * (columns.len() + 1));
    for (name, of_column, of_table) in lines {
        measures.extend(columns.iter().enumerate().map(|(column, (lost, missing))| {
            Measure::of_table(name, of_column(*lost, *missing as f64)).of_column(column)
        }));
        measures.push(Measure::of_table(name, of_table));
    }
    measures
}

fn measure<C: Code, const W: usize>(
    rows: &[Row<C, W>],
    classes: &Classes,
    spans: &[Span],
) -> IncompleteLoss {
    // Summed per thousand classes and then in order, so that the figure does not depend on threads.
    const BLOCK: usize = 1024;
    let blocks: Vec<Vec<f64>> = (0..classes.len().div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let mut sums = vec![0.0; spans.len()];
            for class in block * BLOCK..((block + 1) * BLOCK).min(classes.len()) {
                let rows = &rows[classes.range(class)];
                for (index, span) in spans.iter().enumerate() {
                    sums[index] += class_loss(rows, index, span);
                }
            }
            sums
        })
        .collect();
    let suppressed = rows.len() - classes.rows();
    let is_missing =
        |row: &Row<C, W>, index: usize| spans[index].axis.missing && row.codes[index].get() == 0;
    let column = |index: usize| ColumnLoss {
        loss: suppressed as f64 + blocks.iter().map(|sums| sums[index]).sum::<f64>(),
        missing: rows.iter().filter(|row| is_missing(row, index)).count() as u64,
    };
    let incomplete = |row: &&Row<C, W>| (0..spans.len()).any(|index| is_missing(row, index));
    IncompleteLoss {
        rows: rows.len() as u64,
        incomplete_rows: rows.iter().filter(incomplete).count() as u64,
        suppressed_rows: suppressed as u64,
        columns: (0..spans.len()).map(column).collect(),
    }
}

/// ILoss of one class in one column, summed over its rows.
fn class_loss<C: Code, const W: usize>(rows: &[Row<C, W>], index: usize, span: &Span) -> f64 {
    let codes = || rows.iter().map(|row| row.codes[index].get());
    let (low, high) = (codes().min().unwrap_or(0), codes().max().unwrap_or(0));
    if low == high {
        return 0.0;
    }
    if span.axis.missing && low == 0 {
        // Published as the top, which is what the missing cells were.
        return codes().filter(|code| *code != 0).count() as f64;
    }
    // NCP counts steps between values, ILoss the values.
    let steps = match &span.axis.shape {
        Shape::Set => {
            let mut codes: Vec<u32> = codes().collect();
            codes.sort_unstable();
            codes.dedup();
            (codes.len() - 1) as f64
        }
        Shape::Line(_) | Shape::Tree(_) => span.axis.loss(low, high) * (span.values - 1.0),
    };
    rows.len() as f64 * ((steps + 1.0) / span.values).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_rows_of_the_module_lose_what_they_say() {
        // Ages 20, 24 | missing ×2 | 40, missing | and a suppressed row of age 30.
        let axis = Axis::line(&[20.0, 24.0, 30.0, 40.0], true);
        let rows = RowTable::from_codes(&[[1], [2], [0], [0], [4], [0], [3]]);
        let classes = Classes::from_sizes(&[2, 2, 2]);
        let spans = [Span { axis: &axis, values: 21.0 }];
        let loss = rows
            .zip(classes.ok())
            .map(|(rows, classes)| incomplete_loss(&rows, &classes, &spans))
            .unwrap_or_default();
        assert!((loss.loss() - (10.0 / 21.0 + 1.0 + 1.0)).abs() < 1e-12);
        assert!((loss.rate() - loss.loss() / 7.0).abs() < 1e-12);
        assert_eq!(loss.rate(), loss.column_rate(0));
        assert_eq!((loss.suppressed_rows, loss.incomplete_rows), (1, 3));
        assert_eq!(loss.value_missing_rate(), 3.0 / 7.0);
        assert_eq!(loss.record_missing_rate(), 3.0 / 7.0);
    }

    #[test]
    fn a_report_has_every_measure_of_columns_and_table() {
        let found = |columns: &[(Option<f64>, u64)], rows, name, column| {
            let measures = incomplete_measures(rows, 3, columns);
            let is_it = |measure: &&Measure| measure.name == name && measure.column == column;
            measures.iter().find(is_it).and_then(|measure| measure.value)
        };
        let columns = [(Some(2.0), 1), (Some(4.0), 3)];
        let of = |name, column| found(&columns, 8, name, column);
        assert_eq!(of("iloss", Some(1)), Some(4.0));
        assert_eq!(of("iloss", None), Some(6.0));
        assert_eq!(of("iloss_rate", Some(0)), Some(0.25));
        assert_eq!(of("iloss_rate", None), Some(0.375));
        assert_eq!(of("vmr", Some(1)), Some(0.375));
        assert_eq!(of("vmr", None), Some(0.25));
        assert_eq!(of("rmr", Some(0)), Some(0.125));
        assert_eq!(of("rmr", None), Some(0.375));
        let untold = [(None, 1), (Some(4.0), 3)];
        assert_eq!(found(&untold, 8, "iloss_rate", Some(1)), Some(0.5));
        assert_eq!(found(&untold, 8, "iloss_rate", None), None);
        assert_eq!(found(&columns, 0, "vmr", None), None, "nothing can be said of no rows");
    }

    #[test]
    fn a_set_loses_by_the_values_it_lists() {
        let axis = Axis::set(4, false);
        let rows = RowTable::from_codes(&[[0], [3], [0], [2], [2]]);
        let classes = Classes::from_sizes(&[3, 2]);
        let spans = [Span { axis: &axis, values: 4.0 }];
        let loss = rows
            .zip(classes.ok())
            .map(|(rows, classes)| incomplete_loss(&rows, &classes, &spans).loss());
        assert_eq!(loss, Some(3.0 * 2.0 / 4.0));
    }
}
