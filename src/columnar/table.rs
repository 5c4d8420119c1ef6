//! The whole input in codes.

use std::sync::Arc;

use rayon::prelude::*;

use super::coded::CodedChunk;
use super::domain::{Domain, Remap, ResolvedHierarchy, plain_codes};
use super::intern::Interner;
use super::kind::Kind;
use super::levels::ModelledValues;
use super::read::{Layout, Reader};
use crate::error::{Error, Result};
use crate::hierarchy::Axis;
use crate::model::{
    Cancel, Code, Row, RowKeys, RowTable, ScratchFile, Seed, SensitiveColumn, Store, map_parts,
    with_rows,
};

/// Everything a method works from.
#[derive(Debug)]
pub struct CodedTable {
    /// The rows in codes, in no particular order.
    pub rows: RowTable,
    /// The quasi-identifiers' values, which the parts of a table share.
    pub domains: Arc<[Domain]>,
    /// The columns that models look at.
    pub modelled: Vec<SensitiveColumn>,
    /// Their values.
    pub modelled_values: Vec<ModelledValues>,
    /// Tells rows of equal quasi-identifiers apart.
    pub keys: RowKeys,
    /// Pseudonyms of persons by row number, in a series.
    pub persons: Store<u128>,
}

/// The final codes of all values, once every value was seen.
#[derive(Debug)]
pub struct Coding {
    domains: Arc<[Domain]>,
    modelled_values: Vec<ModelledValues>,
    /// Quasi-identifiers, then modelled columns.
    remaps: Remaps,
}

impl Coding {
    /// Orders the values that the readers numbered. Works on the current rayon pool.
    pub fn new(
        layout: &Layout,
        readers: &[Reader],
        hierarchies: &[Option<ResolvedHierarchy>],
        cancel: &Cancel,
    ) -> Result<Self> {
        let (domains, mut remaps) = domains(layout, readers, hierarchies, cancel)?;
        let all: Vec<&Reader> = readers.iter().collect();
        let modelled_values = modelled_values(layout, &all, &mut remaps, cancel)?;
        Ok(Self { domains, modelled_values, remaps })
    }

    /// The codes of the parts of a table, one reader each. The last reader knows values of the whole table. All
    /// parts share the values of quasi-identifiers, and have their own of the columns that models look at.
    #[cfg(feature = "cells")]
    pub fn of_parts(
        layout: &Layout,
        readers: &[Reader],
        hierarchies: &[Option<ResolvedHierarchy>],
        cancel: &Cancel,
    ) -> Result<Vec<Self>> {
        let (domains, remaps) = domains(layout, readers, hierarchies, cancel)?;
        let mut of_reader: Vec<Vec<Remap>> = vec![Vec::new(); readers.len()];
        for of_column in remaps {
            of_reader.iter_mut().zip(of_column).for_each(|(all, remap)| all.push(remap));
        }
        let Some((known, parts)) = readers.split_last() else { return Ok(Vec::new()) };
        let part = |(part, remaps): (&Reader, Vec<Remap>)| {
            let mut remaps: Remaps = remaps.into_iter().map(|remap| vec![remap]).collect();
            let modelled_values = modelled_values(layout, &[part, known], &mut remaps, cancel)?;
            Ok(Self { domains: Arc::clone(&domains), modelled_values, remaps })
        };
        parts.iter().zip(of_reader).map(part).collect()
    }

    /// What methods will see of every quasi-identifier.
    pub fn axes(&self) -> impl Iterator<Item = &Axis> + Clone {
        self.domains.iter().map(|domain| &domain.axis)
    }

    /// Number of codes of every modelled column.
    pub fn modelled_codes(&self) -> impl Iterator<Item = u32> + '_ {
        self.modelled_values.iter().map(|of| of.values.len() as u32 + u32::from(of.missing))
    }

    fn cardinality(&self) -> u32 {
        self.axes().map(|axis| axis.codes).max().unwrap_or(0)
    }

    /// Bytes of one row of codes.
    pub fn row_bytes(&self) -> Result<usize> {
        let columns = self.domains.len();
        RowTable::row_bytes(columns, self.cardinality()).ok_or_else(|| too_wide(columns))
    }
}

/// Per column, per reader, the translation to final codes.
type Remaps = Vec<Vec<Remap>>;

/// The values of every quasi-identifier, and the translations to their codes.
fn domains(
    layout: &Layout,
    readers: &[Reader],
    hierarchies: &[Option<ResolvedHierarchy>],
    cancel: &Cancel,
) -> Result<(Arc<[Domain]>, Remaps)> {
    let described: Vec<(Domain, Vec<Remap>)> = (layout.quasi_identifiers.par_iter())
        .zip(hierarchies)
        .enumerate()
        .map(|(at, (column, hierarchy))| {
            cancel.check()?;
            let field = layout.schema.field(*column);
            let interners: Vec<&Interner> = readers.iter().map(|r| &r.interners[at]).collect();
            Domain::new(field.name(), field.data_type(), &interners, hierarchy.as_ref())
        })
        .collect::<Result<_>>()?;
    let (domains, remaps): (Vec<Domain>, Remaps) = described.into_iter().unzip();
    Ok((domains.into(), remaps))
}

/// The values of the columns that models look at; their translations go behind those of the quasi-identifiers.
fn modelled_values(
    layout: &Layout,
    readers: &[&Reader],
    remaps: &mut Remaps,
    cancel: &Cancel,
) -> Result<Vec<ModelledValues>> {
    let mut modelled_values = Vec::new();
    for (at, column) in layout.modelled.iter().enumerate() {
        cancel.check()?;
        let at = layout.quasi_identifiers.len() + at;
        let interners: Vec<&Interner> = readers.iter().map(|r| &r.interners[at]).collect();
        let (values, remap) = plain_codes(layout.schema.field(*column).name(), &interners)?;
        modelled_values.push(values);
        remaps.push(remap);
    }
    Ok(modelled_values)
}

fn too_wide(columns: usize) -> Error {
    Error::invalid(format!(
        "{columns} quasi-identifiers are more than one release can have ({})",
        crate::model::MAX_QUASI_IDENTIFIERS
    ))
}

/// Files for the parts of a table that do not fit into memory.
#[derive(Default)]
pub(crate) struct TableFiles {
    pub(crate) rows: Option<ScratchFile>,
    pub(crate) ties: Option<ScratchFile>,
    pub(crate) kept: Option<ScratchFile>,
    pub(crate) modelled: Vec<Option<ScratchFile>>,
    pub(crate) persons: Option<ScratchFile>,
}

/// A table that takes in the chunks of one reader after the other.
#[derive(Debug)]
pub struct TableBuilder {
    table: CodedTable,
    remaps: Remaps,
    filled: usize,
}

impl TableBuilder {
    /// Room for `rows` rows.
    pub(crate) fn new(
        layout: &Layout,
        coding: Coding,
        total: usize,
        mut files: TableFiles,
    ) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::invalid(format!("a temporary file cannot be read as memory: {}", error.kind()))
        };
        let columns = coding.domains.len();
        let rows = RowTable::zeroed_in(total, columns, coding.cardinality(), files.rows)
            .ok_or_else(|| too_wide(columns))?
            .map_err(failed)?;
        let keys =
            |has: bool, file| Store::zeroed_in(if has { total } else { 0 }, file).map_err(failed);
        let keys = RowKeys {
            ties: keys(layout.has_ties(), files.ties)?,
            kept: keys(!layout.kept.is_empty(), files.kept)?,
        };
        let persons = if layout.person.is_some() { total } else { 0 };
        let persons = Store::zeroed_in(persons, files.persons).map_err(failed)?;
        files.modelled.resize_with(layout.modelled.len(), || None);
        let described = layout.modelled.iter().zip(&coding.modelled_values).zip(files.modelled);
        let modelled = described.map(|((column, values), file)| {
            let field = layout.schema.field(*column);
            let kind = Kind::of(field.data_type(), field.name());
            Ok(SensitiveColumn {
                name: field.name().clone(),
                codes: Store::zeroed_in(total, file).map_err(failed)?,
                cardinality: values.values.len() as u32 + u32::from(values.missing),
                ordered: kind.is_ok_and(Kind::has_ranges),
            })
        });
        let modelled = modelled.collect::<Result<_>>()?;
        let Coding { domains, modelled_values, remaps } = coding;
        let table = CodedTable { rows, domains, modelled, modelled_values, keys, persons };
        Ok(Self { table, remaps, filled: 0 })
    }

    /// Writes the codes of the next chunks of a reader. Works on the current rayon pool; a chunk is
    /// let go of when it is written.
    pub fn add(&mut self, reader: usize, chunks: Vec<CodedChunk>, cancel: &Cancel) -> Result<()> {
        let columns = self.table.domains.len();
        let remaps: Vec<&Remap> = self.remaps.iter().map(|column| &column[reader]).collect();
        let start = self.filled;
        self.filled += chunks.iter().map(CodedChunk::rows).sum::<usize>();
        if self.filled > self.table.rows.len() {
            return Err(Error::bug("more rows came back than were read"));
        }
        let CodedTable { rows, modelled, keys, persons, .. } = &mut self.table;
        let beside = Beside {
            ties: keys.ties.get_mut(start..).unwrap_or_default(),
            kept: keys.kept.get_mut(start..).unwrap_or_default(),
            modelled: modelled.iter_mut().map(|column| &mut column.codes[start..]).collect(),
            persons: persons.get_mut(start..).unwrap_or_default(),
        };
        with_rows!(rows, rows => {
            let parts = split(&mut rows[start..], start as u32, beside, chunks);
            let written = map_parts(parts, &|part| {
                cancel.check()?;
                part.write(&remaps, columns);
                Ok(())
            });
            written.into_iter().collect()
        })
    }

    /// The table, which must be full, with the keys of its rows. Works on the current rayon pool.
    pub fn finish(self, ties: Seed, cancel: &Cancel) -> Result<CodedTable> {
        let Self { mut table, filled, .. } = self;
        if filled != table.rows.len() {
            return Err(Error::bug("fewer rows came back than were read"));
        }
        table.keys.break_ties(&table.rows, ties, cancel)?;
        Ok(table)
    }
}

/// Modelled values and keys of the same rows as some codes.
struct Beside<'a> {
    ties: &'a mut [u64],
    kept: &'a mut [u64],
    modelled: Vec<&'a mut [u32]>,
    persons: &'a mut [u128],
}

/// One chunk and the places its rows go to.
struct Part<'a, C, const W: usize> {
    chunk: CodedChunk,
    first: u32,
    rows: &'a mut [Row<C, W>],
    beside: Beside<'a>,
}

fn split<'a, C: Code, const W: usize>(
    mut rows: &'a mut [Row<C, W>],
    mut first: u32,
    mut beside: Beside<'a>,
    chunks: Vec<CodedChunk>,
) -> Vec<Part<'a, C, W>> {
    let mut parts = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let len = chunk.rows();
        let of_chunk = Beside {
            ties: take_front(&mut beside.ties, len),
            kept: take_front(&mut beside.kept, len),
            modelled: beside.modelled.iter_mut().map(|codes| take_front(codes, len)).collect(),
            persons: take_front(&mut beside.persons, len),
        };
        parts.push(Part { chunk, first, rows: take_front(&mut rows, len), beside: of_chunk });
        first += len as u32;
    }
    parts
}

/// The first values; a column that does not exist has none.
fn take_front<'a, T>(values: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    let all = std::mem::take(values);
    let (front, rest) = all.split_at_mut(len.min(all.len()));
    *values = rest;
    front
}

impl<C: Code, const W: usize> Part<'_, C, W> {
    fn write(self, remaps: &[&Remap], columns: usize) {
        let Self { chunk, first, rows, beside } = self;
        for (at, row) in rows.iter_mut().enumerate() {
            row.id = first + at as u32;
        }
        let (of_rows, of_models) = chunk.numbers.split_at(columns);
        for (column, numbers) in of_rows.iter().enumerate() {
            let remap = remaps[column];
            numbers.for_each(|at, number| {
                rows[at].codes[column] = C::from_u32(remap[number as usize]);
            });
        }
        for (at, (numbers, codes)) in of_models.iter().zip(beside.modelled).enumerate() {
            let remap = remaps[columns + at];
            numbers.for_each(|at, number| codes[at] = remap[number as usize]);
        }
        // Without keyed columns all ties start at 0, and rows of one tuple differ by their number alone.
        if !chunk.keyed_hashes.is_empty() {
            beside.ties.copy_from_slice(&chunk.keyed_hashes);
        }
        beside.kept.copy_from_slice(&chunk.kept_hashes);
        beside.persons.copy_from_slice(&chunk.persons);
    }
}

/// Why a table that is read several times must not change.
pub(crate) fn changed_input() -> Error {
    Error::invalid(
        "the input gave other rows when it was read again, and cells are only known for those of the first \
         time: write it to a table first (CREATE TABLE … AS), or SET anonymize.cells = 0; on a cluster, run \
         the query again if an executor has died meanwhile",
    )
}
