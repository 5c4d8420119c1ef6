//! Columns that are published as they are, from where they wait until their rows leave.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::compute::interleave;

use super::kernel_failed;
use crate::error::{Error, Result};

/// The published columns of all rows in memory, in the chunks in which they were read.
#[derive(Debug)]
pub struct Payload {
    /// Per column, its array in every chunk.
    columns: Vec<Vec<ArrayRef>>,
    /// Number of the first row of every chunk, and the number of all rows at the end.
    starts: Vec<u32>,
    /// The chunk of every `1 << STRIDE_BITS`-th row, from which the right one is a few steps away.
    hints: Vec<u32>,
}

const STRIDE_BITS: u32 = 11;

impl Payload {
    /// Chunks of `columns` columns each: their rows and their arrays.
    pub fn new(columns: usize, chunks: impl IntoIterator<Item = (usize, Vec<ArrayRef>)>) -> Self {
        let mut starts = vec![0u32];
        let mut hints = Vec::new();
        let mut arrays = vec![Vec::new(); columns];
        for (index, (rows, chunk)) in chunks.into_iter().enumerate() {
            let end = starts[index] + rows as u32;
            while hints.len() << STRIDE_BITS < end as usize {
                hints.push(index as u32);
            }
            starts.push(end);
            for (column, array) in arrays.iter_mut().zip(chunk) {
                column.push(array);
            }
        }
        Self { columns: arrays, starts, hints }
    }

    /// The chunk of a row and its place in it.
    #[inline]
    fn locate(&self, id: u32) -> (usize, usize) {
        let mut chunk = self.hints[(id >> STRIDE_BITS) as usize] as usize;
        while self.starts[chunk + 1] <= id {
            chunk += 1;
        }
        (chunk, (id - self.starts[chunk]) as usize)
    }
}

/// The published columns of some consecutive rows of a release, as they were read back.
///
/// Spilled rows stand in runs. A run holds the rows of a range of row numbers, in the order in which
/// they leave; so the rows of some positions are the next ones of every run.
#[derive(Debug)]
pub struct LoadedPayload {
    /// Per column, its array in every run.
    columns: Vec<Vec<ArrayRef>>,
    /// Position of the first row.
    start: usize,
    /// Per position, the run and the place in it.
    from: Vec<(usize, usize)>,
}

impl LoadedPayload {
    /// Rows that start at a position and have these numbers; `runs` are the first numbers of the runs
    /// and `arrays` the columns of each.
    pub fn new(
        start: usize,
        ids: impl Iterator<Item = u32>,
        runs: &[u32],
        arrays: &[Vec<ArrayRef>],
    ) -> Result<Self> {
        let mut next = vec![0usize; runs.len()];
        let from: Vec<(usize, usize)> = ids
            .map(|id| {
                let run = runs.partition_point(|first| *first <= id) - 1;
                next[run] += 1;
                (run, next[run] - 1)
            })
            .collect();
        let rows_of = |run: &Vec<ArrayRef>| run.first().map_or(0, |array| array.len());
        if arrays.iter().map(rows_of).ne(next) {
            return Err(Error::bug("spilled rows are not those that leave"));
        }
        let columns = arrays.first().map_or(0, Vec::len);
        let column = |column: usize| arrays.iter().map(|run| run[column].clone()).collect();
        Ok(Self { columns: (0..columns).map(column).collect(), start, from })
    }
}

/// Where the rows that leave take their published columns from.
#[derive(Debug, Clone, Copy)]
pub enum PayloadOf<'a> {
    /// All rows are in memory.
    Held(&'a Payload),
    /// The rows that leave next are.
    Loaded(&'a LoadedPayload),
}

impl PayloadOf<'_> {
    /// The columns that `used` asks for, of the rows at some positions, which have these numbers.
    pub fn gather(
        &self,
        positions: Range<usize>,
        ids: impl Iterator<Item = u32>,
        used: impl Fn(usize) -> bool,
    ) -> Result<Vec<Option<ArrayRef>>> {
        let columns = match self {
            Self::Held(payload) => &payload.columns,
            Self::Loaded(loaded) => &loaded.columns,
        };
        if !(0..columns.len()).any(&used) {
            return Ok(vec![None; columns.len()]);
        }
        let located: Vec<(usize, usize)>;
        let from = match self {
            Self::Held(payload) => {
                located = ids.map(|id| payload.locate(id)).collect();
                &located[..]
            }
            Self::Loaded(loaded) => {
                &loaded.from[positions.start - loaded.start..positions.end - loaded.start]
            }
        };
        let gather = |chunks: &Vec<ArrayRef>| {
            let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
            interleave(&chunks, from).map_err(kernel_failed("sensitive or kept"))
        };
        (0..columns.len())
            .map(|column| used(column).then(|| gather(&columns[column])).transpose())
            .collect()
    }
}
