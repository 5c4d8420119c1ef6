//! Columns that are published unchanged: how they are held until their rows are emitted, and how they are gathered then.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{concat, interleave, take};
use rayon::prelude::*;

use super::kernel_failed;
use super::payload_code::{Form, PayloadArray, PayloadCoders, RankedValues};
use crate::error::{Error, Result};

/// One chunk of the published columns.
#[derive(Debug)]
pub struct PayloadChunk {
    /// The reader that took it in.
    pub reader: usize,
    /// Number of rows.
    pub rows: usize,
    /// Its columns.
    pub columns: Vec<PayloadArray>,
}

/// The published columns of all rows in memory.
#[derive(Debug)]
pub struct Payload {
    columns: Vec<Column>,
    /// Number of the first row of every chunk, and the number of all rows at the end.
    starts: Vec<u32>,
    /// The chunk of every `1 << STRIDE_BITS`-th row, from which the right one is a few steps away.
    hints: Vec<u32>,
}

#[derive(Debug)]
enum Column {
    /// Arrays of the chunks in which they were read.
    Chunks(Vec<ArrayRef>),
    /// One array of all rows.
    Flat(ArrayRef),
    /// Ranks of all rows, and the value of every rank.
    Ranks(Ranks, ArrayRef),
}

#[derive(Debug)]
enum Ranks {
    Byte(Vec<u8>),
    Short(Vec<u16>),
    Wide(Vec<u32>),
}

const STRIDE_BITS: u32 = 11;

impl Payload {
    /// All rows, from chunks and the coders of the readers they came from. Works on the current rayon
    /// pool.
    pub fn new(chunks: Vec<PayloadChunk>, coders: &[PayloadCoders]) -> Result<Self> {
        let layout = Self::of_chunks(chunks.iter().map(|chunk| chunk.rows));
        let origin: Vec<(usize, usize)> =
            chunks.iter().map(|chunk| (chunk.reader, chunk.rows)).collect();
        let mut columns: Vec<Vec<PayloadArray>> = Vec::new();
        for chunk in chunks {
            columns.resize_with(chunk.columns.len(), Vec::new);
            columns.iter_mut().zip(chunk.columns).for_each(|(column, array)| column.push(array));
        }
        let column = |(at, arrays): (usize, Vec<PayloadArray>)| {
            let ranked = RankedValues::new(coders, at)?;
            Column::new(arrays, &origin, ranked)
        };
        let columns = columns.into_par_iter().enumerate().map(column).collect::<Result<_>>()?;
        Ok(Self { columns, ..layout })
    }

    /// Rows that were read back, with `columns` columns.
    pub fn of_arrays(columns: usize, chunks: Vec<(usize, Vec<ArrayRef>)>) -> Self {
        let layout = Self::of_chunks(chunks.iter().map(|(rows, _)| *rows));
        let mut arrays = vec![Vec::with_capacity(chunks.len()); columns];
        for (_, chunk) in chunks {
            arrays.iter_mut().zip(chunk).for_each(|(column, array)| column.push(array));
        }
        Self { columns: arrays.into_iter().map(Column::Chunks).collect(), ..layout }
    }

    fn of_chunks(chunks: impl Iterator<Item = usize>) -> Self {
        let mut starts = vec![0u32];
        let mut hints = Vec::new();
        for (index, rows) in chunks.enumerate() {
            let end = starts[index] + rows as u32;
            while hints.len() << STRIDE_BITS < end as usize {
                hints.push(index as u32);
            }
            starts.push(end);
        }
        Self { columns: Vec::new(), starts, hints }
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

impl Column {
    fn new(
        arrays: Vec<PayloadArray>,
        origin: &[(usize, usize)],
        ranked: Option<RankedValues>,
    ) -> Result<Self> {
        let is_coded = |array: &PayloadArray| matches!(array.0, Form::Coded(_));
        match ranked {
            Some(ranked) if arrays.iter().all(is_coded) => {
                let ranks = Ranks::new(&arrays, origin, &ranked);
                Ok(Self::Ranks(ranks, ranked.values))
            }
            ranked => {
                let plain = |(array, (reader, _)): (PayloadArray, &(usize, usize))| match (
                    array.0, &ranked,
                ) {
                    (Form::Plain(array), _) => Ok(array),
                    (Form::Coded(numbers), Some(ranked)) => {
                        let mut ranks = Vec::new();
                        let of_reader = &ranked.ranks[*reader];
                        numbers.for_each(|_, number| ranks.push(of_reader[number as usize]));
                        take(&ranked.values, &UInt32Array::from(ranks), None)
                            .map_err(kernel_failed("sensitive or kept"))
                    }
                    (Form::Coded(_), None) => Err(Error::bug("a column has no values")),
                };
                let plain = arrays.into_iter().zip(origin).map(plain);
                let plain = plain.collect::<Result<Vec<ArrayRef>>>()?;
                // Numbers are cheaper to copy once than to find in chunks row by row.
                if plain.first().is_some_and(|array| array.data_type().is_primitive()) {
                    let chunks: Vec<&dyn Array> = plain.iter().map(AsRef::as_ref).collect();
                    let flat = concat(&chunks).map_err(kernel_failed("sensitive or kept"))?;
                    return Ok(Self::Flat(flat));
                }
                Ok(Self::Chunks(plain))
            }
        }
    }
}

impl Ranks {
    fn new(arrays: &[PayloadArray], origin: &[(usize, usize)], ranked: &RankedValues) -> Self {
        macro_rules! flat {
            ($variant:ident, $int:ty) => {{
                let mut all: Vec<$int> = vec![0; origin.iter().map(|(_, rows)| rows).sum()];
                let (mut rest, mut parts) = (&mut all[..], Vec::new());
                for (array, (reader, rows)) in arrays.iter().zip(origin) {
                    let (part, others) = rest.split_at_mut(*rows);
                    parts.push((array, &ranked.ranks[*reader], part));
                    rest = others;
                }
                parts.into_par_iter().for_each(|(array, ranks, part)| {
                    if let Form::Coded(numbers) = &array.0 {
                        numbers.for_each(|at, number| part[at] = ranks[number as usize] as $int);
                    }
                });
                Self::$variant(all)
            }};
        }
        match ranked.values.len() {
            ..=0x100 => flat!(Byte, u8),
            0x101..=0x1_0000 => flat!(Short, u16),
            _ => flat!(Wide, u32),
        }
    }

    fn gather(&self, ids: &[u32]) -> Vec<u32> {
        match self {
            Self::Byte(ranks) => ids.iter().map(|id| u32::from(ranks[*id as usize])).collect(),
            Self::Short(ranks) => ids.iter().map(|id| u32::from(ranks[*id as usize])).collect(),
            Self::Wide(ranks) => ids.iter().map(|id| ranks[*id as usize]).collect(),
        }
    }
}

/// A published column of some rows.
#[derive(Debug)]
pub enum Gathered {
    /// Its values.
    Values(ArrayRef),
    /// Ranks of its values, by which they are compared, and the value of every rank.
    Ranks(Vec<u32>, ArrayRef),
}

impl Gathered {
    /// The values in another order.
    pub(super) fn ordered(&self, order: &UInt32Array) -> Result<ArrayRef> {
        let failed = kernel_failed("published");
        match self {
            Self::Values(values) => take(values, order, None).map_err(failed),
            Self::Ranks(ranks, values) => {
                let ranks = order.values().iter().map(|at| ranks[*at as usize]);
                take(values, &UInt32Array::from_iter_values(ranks), None).map_err(failed)
            }
        }
    }

    /// The values as they are.
    pub fn into_values(self) -> Result<ArrayRef> {
        match self {
            Self::Values(values) => Ok(values),
            Self::Ranks(ranks, values) => {
                take(&values, &UInt32Array::from(ranks), None).map_err(kernel_failed("published"))
            }
        }
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
        let column = |column: usize| arrays.iter().map(|run| Arc::clone(&run[column])).collect();
        Ok(Self { columns: (0..columns).map(column).collect(), start, from })
    }
}

/// Where the published columns of emitted rows are gathered from.
#[derive(Debug, Clone, Copy)]
pub enum PayloadOf<'a> {
    /// All rows are in memory.
    Held(&'a Payload),
    /// Only the rows that are emitted next are, read back from disk.
    Loaded(&'a LoadedPayload),
}

impl PayloadOf<'_> {
    /// The columns that `used` asks for, of the rows at some positions, which have these numbers.
    pub fn gather(
        &self,
        positions: Range<usize>,
        ids: &[u32],
        used: impl Fn(usize) -> bool,
    ) -> Result<Vec<Option<Gathered>>> {
        match self {
            Self::Held(payload) => {
                let mut located: Option<Vec<(usize, usize)>> = None;
                let gather = |(at, column): (usize, &Column)| {
                    if !used(at) {
                        return Ok(None);
                    }
                    match column {
                        Column::Ranks(ranks, values) => {
                            Ok(Some(Gathered::Ranks(ranks.gather(ids), Arc::clone(values))))
                        }
                        Column::Flat(values) => {
                            let rows = UInt32Array::from(ids.to_vec());
                            let values = take(values, &rows, None);
                            values
                                .map(|values| Some(Gathered::Values(values)))
                                .map_err(kernel_failed("sensitive or kept"))
                        }
                        Column::Chunks(chunks) => {
                            let from = located.get_or_insert_with(|| {
                                ids.iter().map(|id| payload.locate(*id)).collect()
                            });
                            interleaved(chunks, from).map(Some)
                        }
                    }
                };
                payload.columns.iter().enumerate().map(gather).collect()
            }
            Self::Loaded(loaded) => {
                let from = positions.start - loaded.start..positions.end - loaded.start;
                let from = &loaded.from[from];
                let gather = |(at, chunks): (usize, &Vec<ArrayRef>)| {
                    used(at).then(|| interleaved(chunks, from)).transpose()
                };
                loaded.columns.iter().enumerate().map(gather).collect()
            }
        }
    }
}

fn interleaved(chunks: &[ArrayRef], from: &[(usize, usize)]) -> Result<Gathered> {
    let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
    let values = interleave(&chunks, from).map_err(kernel_failed("sensitive or kept"))?;
    Ok(Gathered::Values(values))
}
