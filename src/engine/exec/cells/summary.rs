//! The summary of the cells of a partition.

use datafusion::common::{Result, internal_err};

/// Counts of one partition, or of several together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Summary {
    /// Rows of the whole table and its cells; 0 in a partition that got none of them.
    pub(super) table_rows: u64,
    pub(super) table_cells: u64,
    pub(super) rows: u64,
    pub(super) cells: u64,
    pub(super) suppressed: u64,
    /// Rows that are published.
    pub(super) published: u64,
    pub(super) classes: u64,
    pub(super) largest_class: u64,
    /// Loss of all rows together.
    pub(super) lost: f64,
    /// The largest share of a class that one person holds.
    pub(super) unit_share: f64,
}

impl Summary {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let numbers = [
            self.table_rows,
            self.table_cells,
            self.rows,
            self.cells,
            self.suppressed,
            self.published,
            self.classes,
            self.largest_class,
            self.lost.to_bits(),
            self.unit_share.to_bits(),
        ];
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Result<Self> {
        let (eights, rest) = bytes.as_chunks::<8>();
        let numbers: Vec<u64> = eights.iter().map(|eight| u64::from_le_bytes(*eight)).collect();
        let (
            [
                table_rows,
                table_cells,
                rows,
                cells,
                suppressed,
                published,
                classes,
                largest_class,
                lost,
                unit_share,
            ],
            true,
        ) = (&numbers[..], rest.is_empty())
        else {
            return internal_err!("the summary of a partition is not one");
        };
        Ok(Self {
            table_rows: *table_rows,
            table_cells: *table_cells,
            rows: *rows,
            cells: *cells,
            suppressed: *suppressed,
            published: *published,
            classes: *classes,
            largest_class: *largest_class,
            lost: f64::from_bits(*lost),
            unit_share: f64::from_bits(*unit_share),
        })
    }

    /// Adds the counts of another partition of the same table.
    pub(super) fn add(&mut self, other: &Self) -> Result<()> {
        let same = |own: u64, other: u64| own == 0 || other == 0 || own == other;
        let own = (self.table_rows, self.table_cells);
        if !same(own.0, other.table_rows) || !same(own.1, other.table_cells) {
            return internal_err!("partitions of different tables came together");
        }
        self.table_rows = self.table_rows.max(other.table_rows);
        self.table_cells = self.table_cells.max(other.table_cells);
        self.rows += other.rows;
        self.cells += other.cells;
        self.suppressed += other.suppressed;
        self.published += other.published;
        self.classes += other.classes;
        self.largest_class = self.largest_class.max(other.largest_class);
        self.lost += other.lost;
        self.unit_share = self.unit_share.max(other.unit_share);
        Ok(())
    }

    /// Errors unless every row and every cell of the table is here.
    pub(super) fn check_complete(&self) -> Result<()> {
        if self.table_cells == 0 || self.cells != self.table_cells || self.rows != self.table_rows {
            return internal_err!(
                "{} of {} rows and {} of {} cells arrived; nothing is released",
                self.rows,
                self.table_rows,
                self.cells,
                self.table_cells
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(rows: u64, cells: u64) -> Summary {
        Summary {
            table_rows: 10,
            table_cells: 3,
            rows,
            cells,
            suppressed: 1,
            published: 6,
            classes: 2,
            largest_class: rows,
            lost: 0.5,
            unit_share: 0.25 * cells as f64,
        }
    }

    #[test]
    fn all_parts_together_are_complete_and_fewer_are_not() -> Result<()> {
        let mut all = Summary::default();
        assert!(all.check_complete().is_err());
        all.add(&Summary::of_bytes(&summary(7, 2).to_bytes())?)?;
        assert!(all.check_complete().is_err());
        all.add(&Summary::default())?;
        all.add(&summary(3, 1))?;
        assert!(all.check_complete().is_ok());
        assert_eq!((all.largest_class, all.suppressed, all.lost), (7, 2, 1.0));
        assert_eq!(all.unit_share, 0.5);
        Ok(())
    }

    #[test]
    fn parts_of_different_tables_do_not_mix() {
        let mut all = summary(7, 2);
        assert!(all.add(&Summary { table_rows: 11, ..summary(3, 1) }).is_err());
        assert!(Summary::of_bytes(&[1, 2, 3]).is_err());
    }
}
