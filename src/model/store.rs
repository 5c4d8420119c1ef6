//! Large columns of plain numbers: on the heap, or in a temporary file that reads like memory.
//!
//! Methods work on slices and do not know the difference. A table that does not fit into the memory it
//! may use stands in a file, whose pages the operating system brings in and writes back as they are
//! used: recursive methods go through ever smaller stretches of it, which stay resident.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::Row;

/// Numbers without padding or invalid bit patterns, which may be read from any bytes of their size.
///
/// # Safety
///
/// Every sequence of `size_of::<Self>()` bytes must be a valid value, and every value must consist of
/// initialized bytes only.
#[allow(unsafe_code)]
pub unsafe trait Plain: Copy + Send + Sync + 'static {
    /// The value whose bytes are all zero.
    const ZERO: Self;
}

macro_rules! impl_plain {
    ($($int:ty),*) => {$(
        // SAFETY: integers have neither padding nor invalid values.
        #[allow(unsafe_code)]
        unsafe impl Plain for $int {
            const ZERO: Self = 0;
        }
    )*};
}
impl_plain!(u8, u16, u32, u64, u128);

// SAFETY: integers of one type, side by side.
#[allow(unsafe_code)]
unsafe impl Plain for super::series::Member {
    const ZERO: Self = [0; 3];
}

macro_rules! impl_plain_row {
    ($($int:ty),*) => {$(
        // SAFETY: an array of integers followed by a 32-bit integer, in this order; the widths of a
        // row table are multiples of 8, so that there is no gap between the two.
        #[allow(unsafe_code)]
        unsafe impl<const W: usize> Plain for Row<$int, W> {
            const ZERO: Self = {
                assert!(size_of::<Self>() == W * size_of::<$int>() + 4, "a row has no padding");
                Self { codes: [0; W], id: 0 }
            };
        }
    )*};
}
impl_plain_row!(u8, u16, u32);

/// A temporary file that takes a column: as large as the column, all zeros, and nobody else's.
#[cfg(feature = "engine")]
pub(crate) struct ScratchFile {
    /// The open file.
    pub(crate) file: std::fs::File,
    /// Deletes the file when it is dropped.
    pub(crate) owner: Box<dyn Send + Sync>,
}

/// A column of plain numbers. Its length never changes.
pub struct Store<T>(Place<T>);

enum Place<T> {
    Heap(Vec<T>),
    #[cfg(feature = "engine")]
    Mapped(mapped::Mapped<T>),
}

impl<T: Plain> Store<T> {
    /// As many zeros, on the heap.
    pub fn zeroed(len: usize) -> Self {
        Self(Place::Heap(vec![T::ZERO; len]))
    }

    /// As many zeros, in the file if there is one.
    #[cfg(feature = "engine")]
    pub(crate) fn zeroed_in(len: usize, scratch: Option<ScratchFile>) -> std::io::Result<Self> {
        match scratch {
            Some(scratch) if len > 0 => Ok(Self(Place::Mapped(mapped::Mapped::new(scratch, len)?))),
            _ => Ok(Self::zeroed(len)),
        }
    }
}

impl<T> Deref for Store<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Place::Heap(values) => values,
            #[cfg(feature = "engine")]
            Place::Mapped(mapped) => mapped.values(),
        }
    }
}

impl<T> DerefMut for Store<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Place::Heap(values) => values,
            #[cfg(feature = "engine")]
            Place::Mapped(mapped) => mapped.values_mut(),
        }
    }
}

impl<T> From<Vec<T>> for Store<T> {
    fn from(values: Vec<T>) -> Self {
        Self(Place::Heap(values))
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self(Place::Heap(Vec::new()))
    }
}

impl<T> FromIterator<T> for Store<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(Place::Heap(values.into_iter().collect()))
    }
}

impl<'a, T> IntoIterator for &'a Store<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The length only: the numbers stand for values of rows.
impl<T> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.len())
    }
}

#[cfg(feature = "engine")]
mod mapped {
    #![allow(unsafe_code)]

    use std::io;
    use std::marker::PhantomData;

    use memmap2::{MmapMut, MmapOptions};

    use super::{Plain, ScratchFile};

    /// A file as a slice of plain numbers.
    pub(super) struct Mapped<T> {
        // Before the owner: the file is unmapped first and deleted then.
        map: MmapMut,
        len: usize,
        _owner: Box<dyn Send + Sync>,
        _values: PhantomData<T>,
    }

    impl<T: Plain> Mapped<T> {
        pub(super) fn new(scratch: ScratchFile, len: usize) -> io::Result<Self> {
            let bytes = len.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::InvalidInput)?;
            // Beyond the end of the file a mapping cannot be read.
            if scratch.file.metadata()?.len() < bytes as u64 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // SAFETY: the file is a temporary one of this query; nobody else writes or shortens it.
            let map = unsafe { MmapOptions::new().len(bytes).map_mut(&scratch.file)? };
            Ok(Self { map, len, _owner: scratch.owner, _values: PhantomData })
        }
    }

    impl<T> Mapped<T> {
        pub(super) fn values(&self) -> &[T] {
            // SAFETY: made by `new` only, so that `T` is plain and the map has `len` of them; maps start
            // at a page, which suits every alignment of a number.
            unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.len) }
        }

        pub(super) fn values_mut(&mut self) -> &mut [T] {
            // SAFETY: as above, and the map is borrowed mutably.
            unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), self.len) }
        }
    }
}

#[cfg(all(test, feature = "engine"))]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_column_in_a_file_reads_like_one_in_memory() -> io::Result<()> {
        let file = tempfile::tempfile()?;
        file.set_len(3 * 12)?;
        let scratch = ScratchFile { file, owner: Box::new(()) };
        let mut rows: Store<Row<u8, 8>> = Store::zeroed_in(3, Some(scratch))?;
        assert!(rows.iter().all(|row| row.codes == [0; 8] && row.id == 0));
        rows[1].codes[7] = 9;
        rows[2].id = 7;
        rows.swap(0, 2);
        assert_eq!((rows[0].id, rows[1].codes[7], rows[2].id), (7, 9, 0));
        Ok(())
    }

    #[test]
    fn a_file_that_is_too_short_is_refused() -> io::Result<()> {
        let file = tempfile::tempfile()?;
        file.set_len(23)?;
        let scratch = ScratchFile { file, owner: Box::new(()) };
        assert!(Store::<u64>::zeroed_in(3, Some(scratch)).is_err());
        Ok(())
    }
}
