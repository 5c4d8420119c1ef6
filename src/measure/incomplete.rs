//! Information loss that counts rows left out: ILoss, ILossRate, VMR and RMR.
//!
//! A measure that looks at the published rows alone praises a method for dropping the difficult ones.
//! Here every cell of the input counts:
//!
//! ```text
//! ILoss of a cell   0                                    published as it was (missing as missing too)
//!                   (max − min + 1)/(QImax − QImin + 1)  a number published as min…max, where values can be counted
//!                   (max − min)/(QImax − QImin)          a floating-point number published as min…max
//!                   leaves(v*)/leaves(top)               a value published as v*
//!                   1                                    in a suppressed row
//! ILossRate         sum over all cells / (rows · columns)
//! generalization    the part of ILoss in published rows; suppression the part in the others
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

/// What is known of one column.
#[derive(Debug, Clone, Copy)]
pub struct IncompleteColumn {
    /// What its published cells lost, if that can be told.
    pub generalization: Option<f64>,
    /// Rows of the original in which it is missing.
    pub missing: u64,
}

/// Rows of the original.
#[derive(Debug, Clone, Copy)]
pub struct IncompleteRows {
    /// All of them.
    pub all: u64,
    /// Those that miss a quasi-identifier.
    pub incomplete: u64,
    /// Those that were not published.
    pub suppressed: u64,
}

/// The lines of a report, each of every column and of the table.
pub fn incomplete_measures(rows: IncompleteRows, columns: &[IncompleteColumn]) -> Vec<Measure> {
    let share = |count: f64, of: f64| (of > 0.0).then(|| count / of);
    let (all, suppressed) = (rows.all as f64, rows.suppressed as f64);
    let cells = all * columns.len() as f64;
    let suppressed_cells = suppressed * columns.len() as f64;
    let generalization: Option<f64> = columns.iter().map(|column| column.generalization).sum();
    let lost = generalization.map(|lost| lost + suppressed_cells);
    let missing = columns.iter().map(|column| column.missing).sum::<u64>() as f64;
    type OfColumn<'a> = &'a dyn Fn(&IncompleteColumn) -> Option<f64>;
    let lost_of = |column: &IncompleteColumn| Some(column.generalization? + suppressed);
    let missing_of = |column: &IncompleteColumn| share(column.missing as f64, all);
    let lines: [(&'static str, OfColumn, Option<f64>); 6] = [
        ("iloss", &lost_of, lost),
        ("iloss_generalization", &|column| column.generalization, generalization),
        ("iloss_suppression", &|_| Some(suppressed), Some(suppressed_cells)),
        ("iloss_rate", &|column| share(lost_of(column)?, all), lost.and_then(|l| share(l, cells))),
        ("vmr", &missing_of, share(missing, cells)),
        ("rmr", &missing_of, share(rows.incomplete as f64, all)),
    ];
    let mut measures = Vec::with_capacity(lines.len() * (columns.len() + 1));
    for (name, of_column, of_table) in lines {
        let of_columns = columns.iter().map(of_column).enumerate();
        measures.extend(
            of_columns.map(|(column, value)| Measure::of_table(name, value).of_column(column)),
        );
        measures.push(Measure::of_table(name, of_table));
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_every_measure_of_columns_and_table() {
        let found = |columns: &[(Option<f64>, u64)], all, name, column| {
            let rows = IncompleteRows { all, incomplete: 3, suppressed: 1 };
            let column_of = |(generalization, missing): &(Option<f64>, u64)| IncompleteColumn {
                generalization: *generalization,
                missing: *missing,
            };
            let columns: Vec<IncompleteColumn> = columns.iter().map(column_of).collect();
            let measures = incomplete_measures(rows, &columns);
            crate::measure::found(&measures, name, column).and_then(|measure| measure.value)
        };
        let columns = [(Some(1.0), 1), (Some(3.0), 3)];
        let of = |name, column| found(&columns, 8, name, column);
        assert_eq!(of("iloss", Some(1)), Some(4.0), "the suppressed row has lost it");
        assert_eq!(of("iloss", None), Some(6.0));
        assert_eq!(of("iloss_generalization", Some(1)), Some(3.0));
        assert_eq!(of("iloss_generalization", None), Some(4.0));
        assert_eq!(of("iloss_suppression", Some(1)), Some(1.0));
        assert_eq!(of("iloss_suppression", None), Some(2.0));
        assert_eq!(of("iloss_rate", Some(0)), Some(0.25));
        assert_eq!(of("iloss_rate", None), Some(0.375));
        assert_eq!(of("vmr", Some(1)), Some(0.375));
        assert_eq!(of("vmr", None), Some(0.25));
        assert_eq!(of("rmr", Some(0)), Some(0.125));
        assert_eq!(of("rmr", None), Some(0.375));
        let untold = [(None, 1), (Some(3.0), 3)];
        assert_eq!(found(&untold, 8, "iloss_rate", Some(1)), Some(0.5));
        assert_eq!(found(&untold, 8, "iloss_rate", None), None);
        assert_eq!(found(&untold, 8, "iloss_generalization", None), None);
        assert_eq!(found(&untold, 8, "iloss_suppression", None), Some(2.0));
        assert_eq!(found(&columns, 0, "vmr", None), None, "nothing can be said of no rows");
    }
}
