//! One view of the codes for code that need not know the shape of the rows.
//!
//! Whatever is generic over the shape is compiled once per shape. That pays for loops over all rows and all columns;
//! everything else reads a column, a row number or a comparison from here.

use std::cmp::Ordering;
use std::ops::Range;

use super::{Code, Row, RowKeys, RowTable, Seed, with_rows};

impl RowTable {
    /// How many codes a row has room for.
    pub fn width(&self) -> usize {
        fn width<C, const W: usize>(_rows: &[Row<C, W>]) -> usize {
            W
        }
        with_rows!(self, rows => width(rows))
    }

    /// Bytes of a row, also of a table that has none.
    pub fn bytes_of_row(&self) -> usize {
        fn bytes<C, const W: usize>(_rows: &[Row<C, W>]) -> usize {
            size_of::<Row<C, W>>()
        }
        with_rows!(self, rows => bytes(rows))
    }

    /// The numbers of the rows at some positions.
    pub fn ids(&self, positions: Range<usize>) -> Vec<u32> {
        with_rows!(self, rows => rows[positions].iter().map(|row| row.id).collect())
    }

    /// Copies the first codes of a row, as many as fit into `codes`, and returns the number of the row.
    pub(crate) fn read(&self, position: usize, codes: &mut [u32]) -> u32 {
        with_rows!(self, rows => {
            let row = &rows[position];
            codes.iter_mut().zip(&row.codes).for_each(|(to, code)| *to = code.get());
            row.id
        })
    }

    /// Overwrites the first codes of a row and its number. The codes must fit the shape.
    pub(crate) fn write(&mut self, position: usize, codes: &[u32], id: u32) {
        with_rows!(self, rows => {
            let row = &mut rows[position];
            row.codes.iter_mut().zip(codes).for_each(|(to, code)| *to = Code::from_u32(*code));
            row.id = id;
        });
    }

    /// How many rows have each code of a column, whose codes are below `codes`.
    pub(crate) fn counts(&self, positions: Range<usize>, column: usize, codes: u32) -> Vec<u32> {
        let mut counts = vec![0u32; codes as usize];
        with_rows!(self, rows => {
            rows[positions].iter().for_each(|row| counts[row.codes[column].get() as usize] += 1);
        });
        counts
    }

    /// The code of the row at a position.
    #[inline]
    pub fn code(&self, position: usize, column: usize) -> u32 {
        with_rows!(self, rows => rows[position].codes[column].get())
    }

    /// Appends the codes of a column at some positions.
    pub fn append_codes(&self, positions: Range<usize>, column: usize, codes: &mut Vec<u32>) {
        with_rows!(self, rows => {
            codes.extend(rows[positions].iter().map(|row| row.codes[column].get()));
        });
    }

    /// The codes of a column at some positions.
    pub fn codes(&self, positions: Range<usize>, column: usize) -> Vec<u32> {
        let mut codes = Vec::with_capacity(positions.len());
        self.append_codes(positions, column, &mut codes);
        codes
    }

    /// The smallest and the largest code of a column at some positions.
    pub fn extent(&self, positions: Range<usize>, column: usize) -> (u32, u32) {
        with_rows!(self, rows => {
            let codes = rows[positions].iter().map(|row| row.codes[column].get());
            codes.fold((u32::MAX, 0), |(low, high), code| (low.min(code), high.max(code)))
        })
    }

    /// The canonical order of the rows at two positions.
    pub fn canonical_order(&self, a: u32, b: u32, keys: &RowKeys) -> Ordering {
        with_rows!(self, rows => rows[a as usize].canonical_order(&rows[b as usize], keys))
    }

    /// Calls `each` with the position of every row and a number that orders rows as their first codes do.
    pub fn for_each_leading(&self, each: &mut dyn FnMut(u32, u64)) {
        with_rows!(self, rows => {
            rows.iter().zip(0..).for_each(|(row, at)| each(at, row.leading()));
        });
    }

    /// A keyed hash of the quasi-identifiers of the row at a position.
    pub fn quasi_identifier_hash(&self, position: usize, seed: Seed) -> u64 {
        with_rows!(self, rows => rows[position].quasi_identifier_hash(seed))
    }
}

impl<C: Code, const W: usize> Row<C, W> {
    /// As many of the first codes as fit into one number, the first in the highest bits.
    #[inline]
    pub(crate) fn leading(&self) -> u64 {
        let codes = self.codes.iter().take(size_of::<u64>() / size_of::<C>());
        codes.fold(0, |leading, code| {
            leading << (u8::BITS as usize * size_of::<C>()) | u64::from(code.get())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_codes_order_rows_like_their_codes() {
        fn check<C: Code, const W: usize>(codes: &[[u32; W]]) {
            let row = |codes: &[u32; W]| Row { codes: codes.map(C::from_u32), id: 0 };
            for a in codes.iter().map(row) {
                for b in codes.iter().map(row) {
                    let leading = a.leading().cmp(&b.leading());
                    assert!(leading.is_eq() || leading == a.codes.cmp(&b.codes));
                }
            }
        }
        let codes =
            [[0; 8], [0, 0, 1, 0, 0, 0, 0, 9], [1; 8], [1, 0, 200, 0, 0, 0, 0, 0], [255; 8]];
        check::<u8, 8>(&codes);
        check::<u16, 8>(&codes);
        check::<u32, 8>(&codes);
    }

    #[test]
    fn columns_read_the_same_from_every_shape() {
        for wide in [0, 300, 70_000] {
            let table = RowTable::from_codes(&[[3, 1], [2, wide], [5, 0]]);
            let read = table.map(|rows| {
                assert_eq!((rows.code(1, 1), rows.ids(1..3)), (wide, vec![1, 2]));
                (rows.codes(0..3, 0), rows.extent(0..2, 0))
            });
            assert_eq!(read, Some((vec![3, 2, 5], (2, 3))));
        }
    }
}
