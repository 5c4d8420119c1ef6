//! What is left of a table after it was anonymized, from counts of what was published.

use super::Measure;

/// Sizes of the published classes, beside the rows there were.
#[derive(Debug, Clone)]
pub struct Utility {
    /// Rows of the original.
    rows_original: u64,
    /// The k that classes are compared with, the smallest class if none was given.
    k: Option<u32>,
    /// Whether the rows of each class's majority are known.
    has_majorities: bool,
    rows: u64,
    classes: u64,
    smallest: u64,
    /// Sum of the squared class sizes.
    squares: f64,
    /// Rows outside the majority of their class.
    minorities: u64,
}

impl Utility {
    /// A release of which nothing has been seen.
    pub fn new(rows_original: u64, k: Option<u32>, has_majorities: bool) -> Self {
        Self {
            rows_original,
            k,
            has_majorities,
            rows: 0,
            classes: 0,
            smallest: u64::MAX,
            squares: 0.0,
            minorities: 0,
        }
    }

    /// Takes in a class: its rows, and how many of them hold its most frequent class label.
    pub fn add_class(&mut self, rows: u64, majority: u64) {
        self.rows += rows;
        self.classes += 1;
        self.smallest = self.smallest.min(rows);
        self.squares += rows as f64 * rows as f64;
        self.minorities += rows - majority.min(rows);
    }

    /// Rows published so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The report. `lost` is the loss of each quasi-identifier summed over the published cells,
    /// `None` where it cannot be told; a suppressed row loses 1 in each of them.
    pub fn measures(&self, lost: &[Option<f64>]) -> Vec<Measure> {
        let (rows_original, suppressed) =
            (self.rows_original as f64, self.rows_original.saturating_sub(self.rows) as f64);
        let table = |name, value: f64| Measure::of_table(name, Some(value));
        let mut measures = vec![
            table("rows_original", rows_original),
            table("rows_published", self.rows as f64),
            table("suppressed_rows", suppressed),
            table("classes", self.classes as f64),
            table("dm", self.squares + rows_original * suppressed),
        ];
        if self.has_majorities {
            measures.push(table("cm", self.minorities as f64 + suppressed));
        }
        let k = self.k.map_or(self.smallest as f64, f64::from);
        let average = (self.classes > 0).then(|| self.rows as f64 / (self.classes as f64 * k));
        measures.push(Measure::of_table("c_avg", average));
        let share = |lost: &Option<f64>| {
            lost.filter(|_| self.rows_original > 0).map(|lost| (lost + suppressed) / rows_original)
        };
        let shares: Vec<Option<f64>> = lost.iter().map(share).collect();
        let total: Option<f64> = shares.iter().copied().sum();
        let columns = shares.len().max(1) as f64;
        measures.extend(
            shares
                .into_iter()
                .enumerate()
                .map(|(column, share)| Measure::of_table("ncp", share).of_column(column)),
        );
        measures.push(Measure::of_table("ncp", total.map(|total| total / columns)));
        measures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(measures: &[Measure], name: &str, column: Option<usize>) -> Option<f64> {
        crate::measure::found(measures, name, column)?.value
    }

    /// Classes of 3 and 2 rows from 6; the first has a minority of 1.
    fn release(k: Option<u32>) -> Utility {
        let mut utility = Utility::new(6, k, true);
        utility.add_class(3, 2);
        utility.add_class(2, 2);
        utility
    }

    #[test]
    fn a_suppressed_row_counts_in_every_measure() {
        let measures = release(None).measures(&[Some(0.5), Some(2.0)]);
        assert_eq!(found(&measures, "suppressed_rows", None), Some(1.0));
        assert_eq!(found(&measures, "dm", None), Some(9.0 + 4.0 + 6.0));
        assert_eq!(found(&measures, "cm", None), Some(1.0 + 1.0));
        assert_eq!(found(&measures, "ncp", Some(0)), Some(1.5 / 6.0));
        assert_eq!(found(&measures, "ncp", Some(1)), Some(3.0 / 6.0));
        assert_eq!(found(&measures, "ncp", None), Some(0.375));
    }

    #[test]
    fn the_average_class_is_compared_with_k() {
        assert_eq!(found(&release(Some(5)).measures(&[]), "c_avg", None), Some(0.5));
        assert_eq!(found(&release(None).measures(&[]), "c_avg", None), Some(1.25));
    }

    #[test]
    fn a_column_whose_loss_cannot_be_told_leaves_no_total() {
        let measures = release(None).measures(&[Some(0.5), None]);
        assert_eq!(found(&measures, "ncp", Some(0)), Some(0.25));
        assert_eq!(found(&measures, "ncp", Some(1)), None);
        assert_eq!(found(&measures, "ncp", None), None);
    }

    #[test]
    fn a_release_without_rows_has_lost_everything() {
        let measures = Utility::new(4, None, false).measures(&[Some(0.0)]);
        assert_eq!(found(&measures, "dm", None), Some(16.0));
        assert_eq!(found(&measures, "ncp", None), Some(1.0));
        assert_eq!(found(&measures, "c_avg", None), None);
        assert!(measures.iter().all(|measure| measure.name != "cm"));
        let measures = Utility::new(0, None, false).measures(&[Some(0.0)]);
        assert_eq!(found(&measures, "ncp", None), None);
    }
}
