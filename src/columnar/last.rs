//! Reading the last release of a series.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{BatchCoalescer, filter_record_batch, partition, take};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt32Type};

use super::coded::{ChunkParts, CodedChunk, Numbers};
use super::cohorts::Tuples;
use super::domain::{Remap, plain_codes};
use super::intern::Interner;
use super::kernel_failed;
use super::kind::Kind;
use super::levels::ModelledValues;
use super::read::{Chunk, Layout, Reader};
use super::row_hash::RowHasher;
use crate::error::{Error, Result};
use crate::model::series::{LastCheck, Members};
use crate::model::{Purpose, ScratchFile, Secret, SensitiveColumn, Store};

/// Rows that are kept are put together to batches of so many.
const KEPT_ROWS: usize = 8192;

/// The columns of the last release, by position.
#[derive(Debug)]
pub struct LastLayout {
    /// Schema of the release.
    pub schema: SchemaRef,
    /// The column of cohorts.
    pub cohort: usize,
    /// The quasi-identifiers.
    pub quasi_identifiers: Vec<usize>,
    /// The columns that are published as they are, in the order in which tonight's wait.
    pub payload: Vec<usize>,
    /// The columns that models look at.
    pub modelled: Vec<usize>,
}

impl LastLayout {
    /// The columns of rows that are kept, and behind them the position of the cohort.
    fn kept(&self) -> Layout {
        let columns = self.payload.iter().chain(&self.modelled);
        let mut fields: Vec<Field> =
            columns.map(|column| self.schema.field(*column).clone()).collect();
        let (payload, rest) = (self.payload.len(), self.modelled.len());
        fields =
            fields.into_iter().enumerate().map(|(at, of)| of.with_name(at.to_string())).collect();
        fields.push(Field::new("position", DataType::UInt32, false));
        Layout {
            schema: Arc::new(Schema::new(fields)),
            quasi_identifiers: Vec::new(),
            modelled: (payload..payload + rest).collect(),
            keyed: (0..payload).collect(),
            kept: Vec::new(),
            payload: (0..payload).collect(),
            person: None,
        }
    }

    /// Whether kept rows of a cohort can be told apart.
    pub fn has_ties(&self) -> bool {
        !self.payload.is_empty()
    }

    /// What the chunks of a [`LastReader`] have beside numbers.
    pub fn chunk_parts(&self) -> ChunkParts {
        ChunkParts { keyed: self.has_ties(), kept: false, persons: false }
    }
}

/// Takes in the batches of one partition of the last release: all of it is verified, and rows that may be published
/// again are kept.
#[derive(Debug)]
pub struct LastReader {
    layout: Arc<LastLayout>,
    hasher: RowHasher,
    reader: Reader,
    kept: BatchCoalescer,
    /// Kept rows.
    rows: usize,
    tuples: Tuples,
    members: Arc<Members>,
}

impl LastReader {
    /// A reader without rows.
    pub fn new(layout: &Arc<LastLayout>, secret: Secret, members: &Arc<Members>) -> Result<Self> {
        let types: Vec<DataType> =
            layout.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let seed = secret.seed(Purpose::SeriesRows);
        let hasher = RowHasher::new(&layout.quasi_identifiers, &types, seed)?;
        let kept = Arc::new(layout.kept());
        Ok(Self {
            hasher: hasher.ok_or_else(|| Error::bug("a release has no quasi-identifiers"))?,
            // Batches are put together before they have their numbers, which must stay in their order.
            reader: Reader::new(&kept, secret)?.of_whole_batches(),
            kept: BatchCoalescer::new(Arc::clone(&kept.schema), KEPT_ROWS),
            rows: 0,
            tuples: Tuples::default(),
            members: Arc::clone(members),
            layout: Arc::clone(layout),
        })
    }

    /// Verifies a batch and gives what is to be kept of it, or of some before it: rows of cohorts that `keep` wants.
    pub fn push(
        &mut self,
        batch: &RecordBatch,
        check: &LastCheck,
        keep: &[bool],
    ) -> Result<Vec<Chunk>> {
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let column = |column: &usize| Arc::clone(batch.column(*column));
        let cohorts = column(&self.layout.cohort);
        let qis: Vec<ArrayRef> = self.layout.quasi_identifiers.iter().map(column).collect();
        let by: Vec<ArrayRef> = std::iter::once(&cohorts).chain(&qis).cloned().collect();
        // Rows of a cohort mostly stand side by side, and are looked at together.
        let runs = partition(&by).map_err(kernel_failed("last"))?.ranges();
        let firsts = UInt32Array::from_iter_values(runs.iter().map(|run| run.start as u32));
        let first_qis = qis.iter().map(|of| take(of, &firsts, None).map_err(kernel_failed("last")));
        let first_qis = first_qis.collect::<Result<Vec<ArrayRef>>>()?;
        let tuples = self.hash(&first_qis, batch.num_columns())?;
        let ids = cohorts.as_primitive_opt::<Int64Type>();
        let ids = ids.ok_or_else(|| Error::bug("cohorts came in another type than was planned"))?;
        let mut known = None;
        let (mut wanted, mut position_of) =
            (vec![false; batch.num_rows()], vec![0u32; batch.num_rows()]);
        let mut seen = Vec::new();
        for (at, (run, tuple)) in runs.into_iter().zip(tuples).enumerate() {
            let id = (!ids.is_null(run.start)).then(|| ids.value(run.start));
            let position = match known {
                Some((last, position)) if last == id => position,
                _ => id.and_then(|id| self.members.cohort(u64::try_from(id).ok()?)),
            };
            known = Some((id, position));
            let Some(position) = position else {
                check.add_unknown(run.len());
                continue;
            };
            check.add(position, run.len(), tuple);
            if keep[position as usize] {
                wanted[run.clone()].fill(true);
                position_of[run].fill(position);
                seen.push((at, position));
            }
        }
        if seen.is_empty() {
            return Ok(Vec::new());
        }
        self.tuples.add(&first_qis, &seen)?;
        self.keep(batch, &BooleanArray::from(wanted), position_of)
    }

    /// Takes in what was put aside. Call it after the last batch.
    pub fn finish(&mut self) -> Result<Vec<Chunk>> {
        self.kept.finish_buffered_batch().map_err(kernel_failed("last"))?;
        self.take_in()
    }

    /// Bytes held beside the chunks: what cohorts published, and distinct values.
    pub fn memory(&self) -> usize {
        self.tuples.bytes() + self.reader.memory()
    }

    /// Rows that were kept so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn hash(&self, qis: &[ArrayRef], columns: usize) -> Result<Vec<u64>> {
        // The hasher takes columns by their positions in the release.
        let mut placed: Vec<ArrayRef> = vec![Arc::clone(&qis[0]); columns];
        for (column, values) in self.layout.quasi_identifiers.iter().zip(qis) {
            placed[*column] = Arc::clone(values);
        }
        let mut hashes = Vec::new();
        self.hasher.hash(&placed, &mut hashes)?;
        Ok(hashes)
    }

    fn keep(
        &mut self,
        batch: &RecordBatch,
        wanted: &BooleanArray,
        position_of: Vec<u32>,
    ) -> Result<Vec<Chunk>> {
        let columns = self.layout.payload.iter().chain(&self.layout.modelled);
        let columns = columns.map(|column| Arc::clone(batch.column(*column)));
        let positions: ArrayRef = Arc::new(UInt32Array::from(position_of));
        let columns: Vec<ArrayRef> = columns.chain([positions]).collect();
        let failed = kernel_failed("last");
        let schema = self.kept.schema();
        let slim = RecordBatch::try_new(schema, columns).map_err(&failed)?;
        let slim = filter_record_batch(&slim, wanted).map_err(&failed)?;
        self.kept.push_batch(slim).map_err(&failed)?;
        self.take_in()
    }

    /// Cohorts are one more column of numbers, so that chunks wait and spill like those of the input.
    fn take_in(&mut self) -> Result<Vec<Chunk>> {
        let cohorts = self.members.cohorts().len() as u32;
        let mut chunks = Vec::new();
        while let Some(batch) = self.kept.next_completed_batch() {
            let positions = Arc::clone(batch.column(batch.num_columns() - 1));
            let positions = positions.as_primitive::<UInt32Type>().values();
            for mut chunk in self.reader.push(batch)? {
                if chunk.coded.rows() != positions.len() {
                    return Err(Error::bug("rows of the last release were put into other batches"));
                }
                chunk.coded.numbers.push(Numbers::pack(positions.to_vec(), cohorts));
                self.rows += chunk.coded.rows();
                chunks.push(chunk);
            }
        }
        Ok(chunks)
    }
}

/// The kept rows of the last release, numbered in the order of its partitions.
#[derive(Debug, Default)]
pub struct LastRows {
    /// By row, the position of its cohort.
    pub cohort_of: Store<u32>,
    /// By row, a keyed hash of what is published of it; empty if nothing is.
    pub ties: Store<u64>,
    /// By quasi-identifier, what cohorts published.
    pub tuples: Vec<ArrayRef>,
    /// By cohort, its place in `tuples`.
    pub tuple_of: Vec<Option<u32>>,
    /// The columns that models look at.
    pub modelled: Vec<SensitiveColumn>,
    /// Their values.
    pub modelled_values: Vec<ModelledValues>,
}

/// Temporary files for the columns of [`LastRows`]; what has none is in memory.
#[derive(Default)]
pub(crate) struct LastFiles {
    pub(crate) cohort_of: Option<ScratchFile>,
    pub(crate) ties: Option<ScratchFile>,
    /// By modelled column.
    pub(crate) modelled: Vec<Option<ScratchFile>>,
}

/// [`LastRows`] while they are filled, reader by reader.
#[derive(Debug)]
pub struct LastBuilder {
    rows: LastRows,
    /// By modelled column and reader, the code of every number.
    remaps: Vec<Vec<Remap>>,
    filled: usize,
}

impl LastBuilder {
    /// Room for everything that these readers kept.
    pub(crate) fn new(
        layout: &LastLayout,
        readers: Vec<LastReader>,
        mut files: LastFiles,
    ) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::invalid(format!("a temporary file cannot be read as memory: {}", error.kind()))
        };
        let rows = readers.iter().map(LastReader::rows).sum();
        let (mut modelled, mut modelled_values, mut remaps) = (Vec::new(), Vec::new(), Vec::new());
        files.modelled.resize_with(layout.modelled.len(), || None);
        // Without a reader there is nothing to be numbered.
        let columns = layout.modelled.iter().zip(files.modelled).enumerate();
        for (at, (column, file)) in columns.filter(|_| !readers.is_empty()) {
            let field = layout.schema.field(*column);
            let interners: Vec<&Interner> =
                readers.iter().map(|reader| &reader.reader.interners[at]).collect();
            let (values, of_column) = plain_codes(field.name(), &interners)?;
            modelled.push(SensitiveColumn {
                name: field.name().clone(),
                codes: Store::zeroed_in(rows, file).map_err(failed)?,
                cardinality: values.values.len() as u32 + u32::from(values.missing),
                ordered: Kind::of(field.data_type(), field.name()).is_ok_and(Kind::has_ranges),
            });
            modelled_values.push(values);
            remaps.push(of_column);
        }
        let ties = if layout.has_ties() { rows } else { 0 };
        let tuples = readers.into_iter().map(|reader| reader.tuples).collect();
        let (tuples, tuple_of) = Tuples::together(tuples)?;
        let rows = LastRows {
            cohort_of: Store::zeroed_in(rows, files.cohort_of).map_err(failed)?,
            ties: Store::zeroed_in(ties, files.ties).map_err(failed)?,
            tuples,
            tuple_of,
            modelled,
            modelled_values,
        };
        Ok(Self { rows, remaps, filled: 0 })
    }

    /// Takes in the next chunks of a reader.
    pub fn add(&mut self, reader: usize, chunks: Vec<CodedChunk>) -> Result<()> {
        let LastRows { cohort_of, ties, modelled, .. } = &mut self.rows;
        for chunk in chunks {
            let places = self.filled..self.filled + chunk.rows();
            let (Some(cohorts), Some((of_cohorts, of_models))) =
                (cohort_of.get_mut(places.clone()), chunk.numbers.split_last())
            else {
                return Err(Error::bug("more rows of the last release came back than were kept"));
            };
            of_cohorts.for_each(|at, cohort| cohorts[at] = cohort);
            let columns = of_models.iter().zip(modelled.iter_mut()).zip(&self.remaps);
            for ((numbers, column), remaps) in columns {
                let (codes, remap) = (&mut column.codes[places.clone()], &remaps[reader]);
                numbers.for_each(|at, number| codes[at] = remap[number as usize]);
            }
            if !chunk.keyed_hashes.is_empty() {
                ties[places.clone()].copy_from_slice(&chunk.keyed_hashes);
            }
            self.filled = places.end;
        }
        Ok(())
    }

    /// The rows, all of which must have been added.
    pub fn finish(self) -> Result<LastRows> {
        match self.filled == self.rows.cohort_of.len() {
            true => Ok(self.rows),
            false => Err(Error::bug("fewer rows of the last release came back than were kept")),
        }
    }
}
