//! Sensitive values, class by class.

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;

use super::grouping::{Groups, Set, first_phase, set_numbers};
use crate::columnar::{ModelledValues, Ranks, Runs};
use crate::measure::{Distribution, ValueCount};

/// How a published table is grouped into classes and their sensitive values.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct ClassesSpec {
    /// Columns by which the input is grouped into classes; bounds have two.
    pub(super) class_keys: usize,
    /// The sensitive columns.
    pub(super) sensitive: Vec<SensitiveSpec>,
}

/// A sensitive column of a report.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct SensitiveSpec {
    pub(super) name: String,
    /// Whether nearer values are more alike.
    pub(super) is_ordered: bool,
}

impl ClassesSpec {
    /// First every sensitive column by itself, the whole table; then with the classes.
    pub(super) fn sets(&self) -> Vec<Set> {
        let class = || 0..self.class_keys;
        let sensitive = self.sensitive.len();
        if sensitive == 0 {
            return vec![Set { phase: 1, keys: class().collect() }];
        }
        let value = |column: usize| self.class_keys + column;
        let of_table = (0..sensitive).map(|column| Set { phase: 0, keys: vec![value(column)] });
        let of_classes = (0..sensitive)
            .map(|column| Set { phase: 1, keys: class().chain([value(column)]).collect() });
        of_table.chain(of_classes).collect()
    }

    /// The names of the sensitive columns.
    pub(super) fn names(&self) -> Vec<&str> {
        self.sensitive.iter().map(|column| column.name.as_str()).collect()
    }

    /// By how many leading columns the grouped input must be sorted: a class at a time, values in
    /// order.
    pub(super) fn sorted_columns(&self) -> usize {
        if self.sensitive.is_empty() { 0 } else { self.value_column(self.sensitive.len()) }
    }

    /// Positions in the grouped input: phase, class keys, set, sensitive values, rows.
    fn set_column(&self) -> usize {
        1 + self.class_keys
    }

    fn value_column(&self, sensitive: usize) -> usize {
        self.set_column() + 1 + sensitive
    }
}

/// What a report does with the classes.
pub(super) trait Classes {
    /// The whole table, per sensitive column: its distribution over ranks, and the value of each
    /// rank. Called once, before the first class.
    fn table(&mut self, whole: Vec<Distribution>, values: Vec<ModelledValues>) -> Result<()>;

    /// A class: its rows, and the rows of every value by rank, per sensitive column.
    fn class(&mut self, rows: u64, values: &[Vec<ValueCount>]);
}

/// Reads the groups of a published table.
pub(super) async fn read(
    spec: &ClassesSpec,
    mut published: SendableRecordBatchStream,
    memory: &MemoryReservation,
    classes: &mut impl Classes,
) -> Result<()> {
    let schema = published.schema();
    let ranks = (spec.sensitive.iter().enumerate()).map(|(column, sensitive)| {
        let field = schema.field(spec.value_column(column));
        Ranks::new(&sensitive.name, field.data_type())
    });
    let mut reader = Reader::new(spec, ranks.collect(), classes);
    while let Some(batch) = published.next().await {
        reader.add(&batch?)?;
        memory.try_resize(reader.memory())?;
    }
    reader.close_class();
    Ok(())
}

/// Takes in groups in their order: first the values of every sensitive column over the whole table,
/// ascending, then class by class. Only the distinct values and the current class are held.
struct Reader<'a, C> {
    spec: &'a ClassesSpec,
    classes: &'a mut C,
    /// Values as ranks, per sensitive column.
    ranks: Vec<Ranks>,
    /// Rows of the whole table by rank, per sensitive column, up to the first class.
    counts: Vec<Vec<u64>>,
    is_described: bool,
    runs: Runs,
    /// Values of the current class, per sensitive column; empty between classes.
    class: Vec<Vec<ValueCount>>,
}

impl<'a, C: Classes> Reader<'a, C> {
    fn new(spec: &'a ClassesSpec, ranks: Vec<Ranks>, classes: &'a mut C) -> Self {
        let columns = ranks.len();
        Self {
            spec,
            classes,
            ranks,
            counts: vec![Vec::new(); columns],
            is_described: false,
            runs: Runs::default(),
            class: vec![Vec::new(); columns],
        }
    }

    /// The values, and what a distribution over them takes.
    fn memory(&self) -> usize {
        let counts: usize = self.counts.iter().map(Vec::capacity).sum();
        let ranks: usize = self.ranks.iter().map(Ranks::memory).sum();
        ranks + 4 * counts * size_of::<u64>()
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.spec.sensitive.is_empty() {
            let classes = Groups::of_set(batch, self.spec.set_column(), 0, [])?;
            for rows in classes.rows {
                self.classes.class(rows.unsigned_abs(), &[]);
            }
            return Ok(());
        }
        let (of_table, rows) = (first_phase(batch), batch.num_rows());
        if of_table > 0 {
            self.add_table(&batch.slice(0, of_table))?;
        }
        if of_table < rows {
            self.describe_table()?;
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
        let values = [self.spec.value_column(column)];
        let groups = Groups::of_set(batch, self.spec.set_column(), set as u32, values)?;
        let ranks = groups.columns.first().map(|values| self.ranks[column].of(values));
        Ok((ranks.transpose()?.unwrap_or_default(), groups.rows))
    }

    fn add_classes(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = self.ranks.len();
        let mut values = Vec::with_capacity(columns);
        for column in 0..columns {
            let (ranks, rows) = self.ranked(batch, column, columns + column)?;
            values.push(ranks.into_iter().zip(rows));
        }
        let keys = &batch.columns()[1..self.spec.set_column()];
        let (continues, runs) = self.runs.next(keys)?;
        let sets = set_numbers(batch, self.spec.set_column());
        for (number, run) in runs.into_iter().enumerate() {
            if number > 0 || !continues {
                self.close_class();
            }
            for row in run {
                let column = sets.value(row) as usize % columns;
                let Some((rank, rows)) = values[column].next() else {
                    return exec_err!("a report found a group without a sensitive value");
                };
                add_value(&mut self.class[column], rank, rows.unsigned_abs());
            }
        }
        Ok(())
    }

    fn describe_table(&mut self) -> Result<()> {
        if self.is_described {
            return Ok(());
        }
        self.is_described = true;
        let mut values = Vec::with_capacity(self.ranks.len());
        for (ranks, sensitive) in self.ranks.iter().zip(&self.spec.sensitive) {
            values.push(ModelledValues {
                name: sensitive.name.clone(),
                values: ranks.values()?,
                missing: true,
            });
        }
        let whole = (self.counts.iter().zip(&self.spec.sensitive))
            .map(|(counts, sensitive)| Distribution::new(counts.clone(), sensitive.is_ordered))
            .collect();
        self.classes.table(whole, values)
    }

    fn close_class(&mut self) {
        let Some(first) = self.class.first().filter(|values| !values.is_empty()) else { return };
        let rows = first.iter().map(|(_, rows)| rows).sum();
        self.classes.class(rows, &self.class);
        self.class.iter_mut().for_each(Vec::clear);
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
