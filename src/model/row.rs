//! Rows as small integers, one after the other.
//!
//! Every quasi-identifier is encoded once to a code: its value's rank in the order of its column.
//! A row keeps its codes side by side and, behind them, the number of the row in the payload. All
//! methods work on a slice of such rows and move whole rows, so that a group is always contiguous
//! and deep recursion stays in the cache.

use std::cmp::Ordering;

#[cfg(feature = "engine")]
use super::store::ScratchFile;
use super::{RowKeys, Store};
#[cfg(feature = "engine")]
use crate::error::{Error, Result};

/// The most quasi-identifiers one release can have.
pub const MAX_QUASI_IDENTIFIERS: usize = 64;

/// An integer wide enough for the largest domain of a table.
pub trait Code: Copy + Ord + Default + Send + Sync + std::fmt::Debug + 'static {
    /// The code as the methods compute with it.
    fn get(self) -> u32;
    /// Narrows a code that is known to fit.
    fn from_u32(code: u32) -> Self;
    /// The largest code.
    const MAX: Self;
    /// Eight codes of one byte each as one word; `None` for rows of any other shape.
    #[inline(always)]
    fn word<const W: usize>(_codes: &[Self; W]) -> Option<u64> {
        None
    }
}

macro_rules! impl_code {
    ($($int:ty $({ $($word:tt)* })?),*) => {$(
        impl Code for $int {
            #[inline(always)]
            fn get(self) -> u32 {
                self as u32
            }
            #[inline(always)]
            fn from_u32(code: u32) -> Self {
                code as $int
            }
            const MAX: Self = <$int>::MAX;
            $($($word)*)?
        }
    )*};
}
impl_code!(
    u8 {
        #[inline(always)]
        fn word<const W: usize>(codes: &[Self; W]) -> Option<u64> {
            <[u8; 8]>::try_from(&codes[..]).ok().map(u64::from_le_bytes)
        }
    },
    u16,
    u32
);

/// One row: `W` codes, of which a table uses the first ones, and the row's number in the payload.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Row<C, const W: usize> {
    /// Codes of the quasi-identifiers as declared; unused places hold 0.
    pub codes: [C; W],
    /// Number of the row in the payload.
    pub id: u32,
}

impl<C: Code, const W: usize> Row<C, W> {
    /// The order of rows that does not depend on where they stood in the input: quasi-identifiers
    /// as declared, then the row key.
    #[inline]
    pub fn canonical_order(&self, other: &Self, keys: &RowKeys) -> Ordering {
        self.codes.cmp(&other.codes).then_with(|| keys.compare(self.id, other.id))
    }
}

#[cfg(feature = "engine")]
fn copy_rows<C: Code, const W: usize>(
    from: &[Row<C, W>],
    into: &mut [Row<C, W>],
    rows: &mut dyn Iterator<Item = (Option<u32>, u32)>,
) -> Result<()> {
    let none = Row { codes: [C::default(); W], id: 0 };
    let mut places = into.iter_mut();
    for (position, id) in rows {
        let row = position.map_or(Some(&none), |position| from.get(position as usize));
        match (row, places.next()) {
            (Some(row), Some(place)) => *place = Row { codes: row.codes, id },
            _ => return Err(Error::bug("a row was copied that is not there")),
        }
    }
    Ok(())
}

/// Defines [`RowTable`] and `with_rows!`, which has an arm for every shape. `$dollar` is a dollar sign for the latter: a
/// macro cannot write the parameters of another in any other way.
macro_rules! row_table {
    ($dollar:tt $($variant:ident($code:ty, $width:literal)),* $(,)?) => {
        /// The rows of a table in the narrowest of a few fixed shapes.
        ///
        /// Fixed widths let the compiler keep a row in vector registers; the methods enter their
        /// monomorphic code once per call.
        #[derive(Debug)]
        pub enum RowTable {
            $(#[doc = concat!("Up to ", stringify!($width), " codes of `", stringify!($code), "`.")]
            $variant(Store<Row<$code, $width>>),)*
        }

        impl RowTable {
            /// Room for rows of `columns` codes below `cardinality`, all zero.
            ///
            /// `None` if there are more columns than [`MAX_QUASI_IDENTIFIERS`].
            pub fn zeroed(rows: usize, columns: usize, cardinality: u32) -> Option<Self> {
                $(if columns <= $width && cardinality.saturating_sub(1) <= <$code>::MAX.get() {
                    return Some(Self::$variant(Store::zeroed(rows)));
                })*
                None
            }

            /// The same in a file, if there is one.
            #[cfg(feature = "engine")]
            pub(crate) fn zeroed_in(
                rows: usize,
                columns: usize,
                cardinality: u32,
                scratch: Option<ScratchFile>,
            ) -> Option<std::io::Result<Self>> {
                $(if columns <= $width && cardinality.saturating_sub(1) <= <$code>::MAX.get() {
                    return Some(Store::zeroed_in(rows, scratch).map(Self::$variant));
                })*
                None
            }

            /// As many zero rows in the shape of this table, in a file if there is one.
            #[cfg(feature = "engine")]
            pub(crate) fn zeroed_like_in(
                &self,
                rows: usize,
                scratch: Option<ScratchFile>,
            ) -> std::io::Result<Self> {
                match self {
                    $(Self::$variant(_) => Store::zeroed_in(rows, scratch).map(Self::$variant),)*
                }
            }

            /// Copies rows of this table, given by position, to the first places of another one in the same shape.
            /// Each gets a new number. A row without a position has no codes.
            #[cfg(feature = "engine")]
            pub(crate) fn copy_rows(
                &self,
                into: &mut Self,
                rows: &mut dyn Iterator<Item = (Option<u32>, u32)>,
            ) -> Result<()> {
                match (self, into) {
                    $((Self::$variant(from), Self::$variant(into)) => copy_rows(from, into, rows),)*
                    _ => Err(Error::bug("rows were copied to a table of another shape")),
                }
            }

            /// As many zero rows in the shape of this table.
            pub(crate) fn zeroed_like(&self, rows: usize) -> Self {
                match self {
                    $(Self::$variant(_) => Self::$variant(Store::zeroed(rows)),)*
                }
            }

            /// Bytes of one row in the shape [`RowTable::zeroed`] would choose.
            pub fn row_bytes(columns: usize, cardinality: u32) -> Option<usize> {
                $(if columns <= $width && cardinality.saturating_sub(1) <= <$code>::MAX.get() {
                    return Some(size_of::<Row<$code, $width>>());
                })*
                None
            }
        }

        /// Runs `$body` with `$rows` bound to the vector of rows, whatever its shape.
        macro_rules! with_rows {
            ($dollar table:expr, $dollar rows:ident => $dollar body:expr) => {
                match $dollar table {
                    $($crate::model::RowTable::$variant($dollar rows) => $dollar body,)*
                }
            };
        }
        pub(crate) use with_rows;
    };
}

// Narrow shapes first: the first that fits is taken. Hot loops are compiled once per shape, so a shape must earn its
// build time. Compared with a shape for every code width and every power of two of columns, rows take at most twice
// the bytes up to 16 columns, and four times beyond.
row_table!($
    Byte8(u8, 8),
    Short8(u16, 8),
    Short16(u16, 16),
    Word8(u32, 8),
    Word16(u32, 16),
    Short64(u16, 64),
    Word64(u32, 64),
);

impl RowTable {
    /// Rows of codes as they stand, numbered in order; for tests and small tables.
    ///
    /// `None` if a row has more columns than [`MAX_QUASI_IDENTIFIERS`].
    pub fn from_codes<const D: usize>(codes: &[[u32; D]]) -> Option<Self> {
        let largest = codes.iter().flatten().max().copied().unwrap_or(0);
        let mut table = Self::zeroed(codes.len(), D, largest.saturating_add(1))?;
        with_rows!(&mut table, rows => for (id, (row, codes)) in rows.iter_mut().zip(codes).enumerate() {
            row.id = id as u32;
            for (place, code) in row.codes.iter_mut().zip(codes) {
                *place = Code::from_u32(*code);
            }
        });
        Some(table)
    }

    /// Number of the row at a position.
    pub fn id_at(&self, position: usize) -> u32 {
        with_rows!(self, rows => rows[position].id)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        with_rows!(self, rows => rows.len())
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_shape_is_chosen() {
        assert_eq!(RowTable::row_bytes(8, 256), Some(12));
        assert_eq!(RowTable::row_bytes(8, 257), Some(20));
        assert_eq!(RowTable::row_bytes(9, 65_536), Some(36));
        assert_eq!(RowTable::row_bytes(8, 65_537), Some(36));
        assert_eq!(RowTable::row_bytes(17, 256), Some(132));
        assert_eq!(RowTable::row_bytes(65, 2), None);
    }

    #[test]
    fn a_zeroed_table_has_the_rows_asked_for() {
        let table = RowTable::zeroed(3, 2, 10).map(|table| table.len());
        assert_eq!(table, Some(3));
    }
    #[test]
    fn rows_read_the_same_in_every_shape() -> crate::Result<()> {
        // Wider codes and more columns; the first codes of the rows are the same.
        let shapes = [(2, 4), (9, 4), (2, 300), (9, 300), (2, 70_000), (9, 70_000), (17, 4)];
        for (columns, cardinality) in
            shapes.into_iter().chain([(17, 70_000), (33, 4), (33, 70_000)])
        {
            let Some(mut table) = RowTable::zeroed(3, columns, cardinality) else {
                return Err(crate::Error::bug("too wide"));
            };
            for (position, codes) in [[3, 1], [2, 0], [3, 2]].iter().enumerate() {
                table.write(position, codes, position as u32 + 7);
            }
            let mut codes = [9; 2];
            assert_eq!((table.read(1, &mut codes), codes), (8, [2, 0]));
            assert_eq!(table.codes(0..3, 0), [3, 2, 3]);
            assert_eq!(table.counts(1..3, 1, 3), [1, 0, 1]);
            let copy = table.zeroed_like(1);
            assert_eq!((copy.len(), copy.bytes() * 3), (1, table.bytes()));
        }
        Ok(())
    }
}
