//! The whole input in codes.

use arrow::array::ArrayRef;
use rayon::prelude::*;

use super::domain::{Domain, Remap, ResolvedHierarchy, plain_codes};
use super::intern::Interner;
use super::kind::Kind;
use super::levels::ModelledValues;
use super::read::{Chunk, Layout, Reader};
use crate::error::{Error, Result};
use crate::model::{Cancel, Code, Row, RowKeys, RowTable, SensitiveColumn, with_rows};

/// Everything a method works from, and the payload beside it.
#[derive(Debug)]
pub struct CodedTable {
    /// The rows in codes, in no particular order.
    pub rows: RowTable,
    /// The quasi-identifiers' values.
    pub domains: Vec<Domain>,
    /// The columns that models look at.
    pub modelled: Vec<SensitiveColumn>,
    /// Their values.
    pub modelled_values: Vec<ModelledValues>,
    /// Tells rows of equal quasi-identifiers apart.
    pub keys: RowKeys,
    /// The published columns, in the chunks in which they were read.
    pub payload: Payload,
}

/// Columns that are published as they are, and where each row stands in them.
#[derive(Debug)]
pub struct Payload {
    /// Per column, its array in every chunk.
    pub columns: Vec<Vec<ArrayRef>>,
    /// Number of the first row of every chunk, and the number of all rows at the end.
    starts: Vec<u32>,
    /// The chunk of every `1 << STRIDE_BITS`-th row, from which the right one is a few steps away.
    hints: Vec<u32>,
}

const STRIDE_BITS: u32 = 11;

impl Payload {
    fn new(columns: usize, chunks: &mut [Chunk]) -> Self {
        let mut starts = vec![0u32];
        let mut hints = Vec::new();
        let mut arrays = vec![Vec::with_capacity(chunks.len()); columns];
        for (index, chunk) in chunks.iter_mut().enumerate() {
            let end = starts[index] + chunk.rows as u32;
            while hints.len() << STRIDE_BITS < end as usize {
                hints.push(index as u32);
            }
            starts.push(end);
            for (column, array) in arrays.iter_mut().zip(chunk.payload.drain(..)) {
                column.push(array);
            }
        }
        Self { columns: arrays, starts, hints }
    }

    /// The chunk of a row and its place in it.
    #[inline]
    pub fn locate(&self, id: u32) -> (usize, usize) {
        let mut chunk = self.hints[(id >> STRIDE_BITS) as usize] as usize;
        while self.starts[chunk + 1] <= id {
            chunk += 1;
        }
        (chunk, (id - self.starts[chunk]) as usize)
    }
}

impl CodedTable {
    /// Puts together what the readers took in. Works on the current rayon pool.
    pub fn new(
        layout: &Layout,
        readers: Vec<Reader>,
        hierarchies: &[Option<ResolvedHierarchy>],
        cancel: &Cancel,
    ) -> Result<Self> {
        let field = |column: &usize| layout.schema.field(*column);
        let interners =
            |at: usize| -> Vec<&Interner> { readers.iter().map(|r| &r.interners[at]).collect() };
        let described: Vec<(Domain, Vec<Remap>)> = (layout.quasi_identifiers.par_iter())
            .zip(hierarchies)
            .enumerate()
            .map(|(at, (column, hierarchy))| {
                cancel.check()?;
                let described = (field(column).name().as_str(), field(column).data_type());
                Domain::new(described, &interners(at), hierarchy.as_ref())
            })
            .collect::<Result<_>>()?;
        let (domains, mut remaps): (Vec<Domain>, Vec<Vec<Remap>>) = described.into_iter().unzip();
        let mut modelled_values = Vec::new();
        for (at, column) in layout.modelled.iter().enumerate() {
            cancel.check()?;
            let (values, remap) =
                plain_codes(field(column).name(), &interners(domains.len() + at))?;
            modelled_values.push(values);
            remaps.push(remap);
        }
        let (mut chunks, readers_of) = in_order(readers)?;
        let coded = Coded { chunks: &chunks, readers_of: &readers_of, remaps: &remaps, cancel };
        let rows = coded.rows(&domains)?;
        let modelled = (layout.modelled.iter().zip(&modelled_values).enumerate())
            .map(|(at, (column, values))| {
                let field = field(column);
                let kind = Kind::of(field.data_type(), field.name());
                SensitiveColumn {
                    name: field.name().clone(),
                    codes: coded.column(domains.len() + at),
                    cardinality: values.values.len() as u32 + u32::from(values.missing),
                    ordered: kind.is_ok_and(Kind::has_ranges),
                }
            })
            .collect();
        let keys = RowKeys {
            sensitive: chunks.iter().flat_map(|chunk| &chunk.keyed_hashes).copied().collect(),
            kept: chunks.iter().flat_map(|chunk| &chunk.kept_hashes).copied().collect(),
        };
        let payload = Payload::new(layout.payload.len(), &mut chunks);
        Ok(Self { rows, domains, modelled, modelled_values, keys, payload })
    }
}

/// All chunks in one list, each with the reader whose numbers it holds.
fn in_order(readers: Vec<Reader>) -> Result<(Vec<Chunk>, Vec<usize>)> {
    let mut chunks = Vec::new();
    let mut readers_of = Vec::new();
    for (index, reader) in readers.into_iter().enumerate() {
        readers_of.extend(std::iter::repeat_n(index, reader.chunks.len()));
        chunks.extend(reader.chunks);
    }
    let rows: usize = chunks.iter().map(|chunk: &Chunk| chunk.rows).sum();
    if u32::try_from(rows).is_err() {
        return Err(Error::invalid(format!(
            "{rows} rows are more than one operator takes (4294967295): anonymize the table in \
             parts, for example by year"
        )));
    }
    Ok((chunks, readers_of))
}

/// Chunks of provisional numbers and their translations.
struct Coded<'a> {
    chunks: &'a [Chunk],
    readers_of: &'a [usize],
    /// Per column (quasi-identifiers, then modelled), per reader.
    remaps: &'a [Vec<Remap>],
    cancel: &'a Cancel,
}

impl Coded<'_> {
    fn rows(&self, domains: &[Domain]) -> Result<RowTable> {
        let total = self.chunks.iter().map(|chunk| chunk.rows).sum();
        let codes = domains.iter().map(|domain| domain.axis.codes).max().unwrap_or(0);
        let mut table = RowTable::zeroed(total, domains.len(), codes).ok_or_else(|| {
            Error::invalid(format!(
                "{} quasi-identifiers are more than one release can have ({})",
                domains.len(),
                crate::model::MAX_QUASI_IDENTIFIERS
            ))
        })?;
        with_rows!(&mut table, rows => self.fill(rows, domains.len()))?;
        Ok(table)
    }

    fn fill<C: Code, const W: usize>(&self, rows: &mut [Row<C, W>], columns: usize) -> Result<()> {
        let mut rest = rows;
        let mut parts = Vec::with_capacity(self.chunks.len());
        let mut start = 0u32;
        for (chunk, reader) in self.chunks.iter().zip(self.readers_of) {
            let (part, others) = rest.split_at_mut(chunk.rows);
            parts.push((start, part, chunk, *reader));
            start += chunk.rows as u32;
            rest = others;
        }
        parts.into_par_iter().try_for_each(|(start, part, chunk, reader)| {
            self.cancel.check()?;
            for (at, row) in part.iter_mut().enumerate() {
                row.id = start + at as u32;
            }
            for column in 0..columns {
                let remap = &self.remaps[column][reader];
                chunk.numbers[column].for_each(|at, number| {
                    part[at].codes[column] = C::from_u32(remap[number as usize]);
                });
            }
            Ok(())
        })
    }

    fn column(&self, column: usize) -> Vec<u32> {
        let mut codes = Vec::new();
        for (chunk, reader) in self.chunks.iter().zip(self.readers_of) {
            let remap = &self.remaps[column][*reader];
            chunk.numbers[column].for_each(|_, number| codes.push(remap[number as usize]));
        }
        codes
    }
}
