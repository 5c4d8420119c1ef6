//! From counts of published groups to the risk of a release.

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;

use super::PrivacySpec;
use super::grouping::{Groups, first_phase, set_numbers};
use crate::columnar::{Ranks, Runs};
use crate::engine::execution_error;
use crate::measure::{ColumnRisk, Distribution, Measure, Risk, ValueCount};

/// Reads the groups and measures them.
pub(super) async fn measure(
    spec: &PrivacySpec,
    mut published: SendableRecordBatchStream,
    memory: &MemoryReservation,
) -> Result<Vec<Measure>> {
    let schema = published.schema();
    let ranks = (spec.sensitive.iter().enumerate()).map(|(column, sensitive)| {
        let field = schema.field(value_column(spec, column));
        Ranks::new(&sensitive.name, field.data_type())
    });
    let mut meter = Meter::new(spec, ranks.collect());
    while let Some(batch) = published.next().await {
        meter.add(&batch?)?;
        memory.try_resize(meter.memory())?;
    }
    meter.finish()
}

/// Positions in the grouped input: phase, class keys, set, sensitive values, rows.
fn set_column(spec: &PrivacySpec) -> usize {
    1 + spec.class_keys
}

fn value_column(spec: &PrivacySpec, sensitive: usize) -> usize {
    set_column(spec) + 1 + sensitive
}

/// Takes in groups in their order: first the values of every sensitive column over the whole table,
/// ascending, then class by class. Only the distinct values and the current class are held.
struct Meter<'a> {
    spec: &'a PrivacySpec,
    risk: Risk,
    /// Values as ranks, per sensitive column.
    ranks: Vec<Ranks>,
    /// Rows of the whole table by rank, per sensitive column, up to the first class.
    counts: Vec<Vec<u64>>,
    /// The same as distributions, from the first class on.
    whole: Vec<Distribution>,
    runs: Runs,
    /// Values of the current class, per sensitive column; empty between classes.
    class: Vec<Vec<ValueCount>>,
}

impl<'a> Meter<'a> {
    fn new(spec: &'a PrivacySpec, ranks: Vec<Ranks>) -> Self {
        let columns = ranks.len();
        Self {
            spec,
            risk: Risk::new(spec.targets, columns),
            ranks,
            counts: vec![Vec::new(); columns],
            whole: Vec::new(),
            runs: Runs::default(),
            class: vec![Vec::new(); columns],
        }
    }

    fn memory(&self) -> usize {
        let counts: usize = self.counts.iter().map(Vec::capacity).sum();
        let ranks: usize = self.ranks.iter().map(Ranks::memory).sum();
        let whole: usize = self.whole.iter().map(Distribution::memory).sum();
        ranks + whole + counts * size_of::<u64>()
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.spec.sensitive.is_empty() {
            let classes = Groups::of_set(batch, set_column(self.spec), 0, [])?;
            for rows in classes.rows {
                self.risk.add_class(rows.unsigned_abs(), []);
            }
            return Ok(());
        }
        let (of_table, rows) = (first_phase(batch), batch.num_rows());
        if of_table > 0 {
            self.add_table(&batch.slice(0, of_table))?;
        }
        if of_table < rows {
            self.describe_table();
            self.add_classes(&batch.slice(of_table, rows - of_table))?;
        }
        Ok(())
    }

    fn add_table(&mut self, batch: &RecordBatch) -> Result<()> {
        for column in 0..self.ranks.len() {
            let (ranks, rows) = self.ranked(batch, column, column)?;
            let counts = &mut self.counts[column];
            for (rank, rows) in ranks.into_iter().zip(rows) {
                let rank = rank as usize;
                counts.resize(counts.len().max(rank + 1), 0);
                counts[rank] += rows.unsigned_abs();
            }
        }
        Ok(())
    }

    /// Ranks and rows of the groups of one set, which holds values of one sensitive column.
    fn ranked(
        &mut self,
        batch: &RecordBatch,
        column: usize,
        set: usize,
    ) -> Result<(Vec<u32>, Vec<i64>)> {
        let values = [value_column(self.spec, column)];
        let groups = Groups::of_set(batch, set_column(self.spec), set as u32, values)?;
        let ranks = groups.columns.first().map(|values| self.ranks[column].of(values));
        Ok((ranks.transpose().map_err(execution_error)?.unwrap_or_default(), groups.rows))
    }

    fn add_classes(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = self.ranks.len();
        let mut values = Vec::with_capacity(columns);
        for column in 0..columns {
            let (ranks, rows) = self.ranked(batch, column, columns + column)?;
            values.push(ranks.into_iter().zip(rows));
        }
        let keys = &batch.columns()[1..set_column(self.spec)];
        let (continues, runs) = self.runs.next(keys).map_err(execution_error)?;
        let sets = set_numbers(batch, set_column(self.spec));
        for (number, run) in runs.into_iter().enumerate() {
            if number > 0 || !continues {
                self.close_class();
            }
            for row in run {
                let column = sets.value(row) as usize % columns;
                let Some((rank, rows)) = values[column].next() else {
                    return exec_err!("privacy_report: a group has no sensitive value");
                };
                add_value(&mut self.class[column], rank, rows.unsigned_abs());
            }
        }
        Ok(())
    }

    fn describe_table(&mut self) {
        if self.whole.is_empty() {
            let counts = std::mem::take(&mut self.counts).into_iter();
            self.whole = (counts.zip(&self.spec.sensitive))
                .map(|(counts, sensitive)| Distribution::new(counts, sensitive.is_ordered))
                .collect();
        }
    }

    fn close_class(&mut self) {
        let Some(first) = self.class.first().filter(|values| !values.is_empty()) else { return };
        let rows = first.iter().map(|(_, rows)| rows).sum();
        let risks = self.class.iter().zip(&self.whole);
        let risks = risks.map(|(class, whole)| ColumnRisk::of_class(class, whole));
        self.risk.add_class(rows, risks);
        self.class.iter_mut().for_each(Vec::clear);
    }

    fn finish(mut self) -> Result<Vec<Measure>> {
        self.close_class();
        Ok(self.risk.measures())
    }
}

/// Adds a value that is not below the last one. Equal ranks may come twice: to a grouping both
/// zeros of a floating-point column are two values.
fn add_value(class: &mut Vec<ValueCount>, rank: u32, rows: u64) {
    match class.last_mut() {
        Some((last, counted)) if *last == rank => *counted += rows,
        _ => class.push((rank, rows)),
    }
}
