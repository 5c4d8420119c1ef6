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
//! Software 24(12), 2013, definitions 1, 2, 6 and 7.

use super::Measure;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_every_measure_of_columns_and_table() {
        let found = |columns: &[(Option<f64>, u64)], rows, name, column| {
            let measures = incomplete_measures(rows, 3, columns);
            crate::measure::found(&measures, name, column).and_then(|measure| measure.value)
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
}
