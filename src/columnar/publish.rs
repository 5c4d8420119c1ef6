//! Classes as record batches.

mod order;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array, new_null_array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::error::ArrowError;

use super::cohorts::Cohorts;
use super::column_groups::ColumnGroups;
use super::kernel_failed;
use super::live::live_values;
use super::payload::{Gathered, PayloadOf};
use super::qi_column::{ClassCells, QiPublisher, Ranges};
use super::values::with_missing;
use super::{CodedTable, Domain};
use crate::error::{Error, Result};
use crate::model::{Classes, RowKeys, RowTable, Seed};

/// Where a published column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputColumn {
    /// A generalized quasi-identifier, by its position among them.
    QuasiIdentifier(usize),
    /// A quasi-identifier as it is, by its position among them. It must have no hierarchy: then its
    /// codes are in the order of its values.
    ExactQuasiIdentifier(usize),
    /// A quasi-identifier whose values change from row to row of a class, by its position among them.
    SlicedQuasiIdentifier(usize),
    /// A column published as it is, by its position in the payload.
    Payload(usize),
    /// The same in a column that was permuted apart from all others.
    PayloadApart(usize),
    /// The number of the class.
    ClassId,
    /// Which columns of the class were permuted together.
    ColumnGroups,
    /// The cohort, in a series.
    Cohort,
    /// Whether somebody of the cohort is gone, in a series.
    Held,
    /// The pseudonym of a new member, which is never in a release.
    Person,
}

impl OutputColumn {
    /// Whether rows of one class may differ in it.
    pub fn differs_in_class(&self) -> bool {
        match self {
            Self::ExactQuasiIdentifier(_)
            | Self::SlicedQuasiIdentifier(_)
            | Self::Payload(_)
            | Self::PayloadApart(_) => true,
            Self::QuasiIdentifier(_)
            | Self::ClassId
            | Self::ColumnGroups
            | Self::Cohort
            | Self::Held
            | Self::Person => false,
        }
    }
}

/// What the quasi-identifiers of a class are published as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cells {
    /// What covers the values of the class's rows most closely.
    Covering,
    /// By column, the node of each class. Every quasi-identifier has a tree.
    Nodes(Vec<Vec<u32>>),
    /// The code of every row, which other rows of its class had, or what covers the class.
    Sliced {
        /// By class, the quasi-identifiers that publish what covers it, a bit for each.
        covered: Vec<u64>,
        /// By position, that of the row of the class whose kept columns are published; empty if there are
        /// none.
        kept: Vec<u32>,
        /// What says which columns of a class were permuted together.
        groups: ColumnGroups,
    },
}

impl Cells {
    /// Whether a class publishes one value for all rows in a quasi-identifier.
    fn covers(&self, class: usize, column: usize) -> bool {
        match self {
            Self::Covering | Self::Nodes(_) => true,
            Self::Sliced { covered, .. } => covered[class] >> column & 1 == 1,
        }
    }
}

/// A verified release, not yet in any form.
#[derive(Debug)]
pub struct ReleaseTable {
    rows: RowTable,
    classes: Classes,
    cells: Cells,
    domains: Arc<[Domain]>,
    keys: RowKeys,
    cohorts: Option<Cohorts>,
}

impl ReleaseTable {
    /// These classes of the table, whose rows are in class order.
    pub fn new(table: CodedTable, classes: Classes, cells: Cells) -> Self {
        let CodedTable { rows, domains, keys, .. } = table;
        Self { rows, classes, cells, domains, keys, cohorts: None }
    }

    /// A release that is one of a series: the rows of the table are in the order of its cohorts, and classes that
    /// repeat the last release have its rows.
    pub fn of_series(table: CodedTable, classes: Classes, cohorts: Cohorts) -> Self {
        Self { cohorts: Some(cohorts), ..Self::new(table, classes, Cells::Covering) }
    }

    /// The rows in class order, suppressed ones behind them.
    pub fn rows(&self) -> &RowTable {
        &self.rows
    }

    /// Number of rows that are in classes.
    #[cfg(feature = "cells")]
    pub fn published(&self) -> usize {
        self.classes.rows()
    }

    /// Consecutive classes of about `rows` rows each, together all of them.
    pub fn batches(&self, rows: usize) -> Vec<Range<usize>> {
        let mut batches = Vec::new();
        let (mut start, mut in_batch) = (0, 0);
        for (class, range) in self.classes.ranges().enumerate() {
            if in_batch > 0 && in_batch + range.len() > rows {
                batches.push(start..class);
                (start, in_batch) = (class, 0);
            }
            in_batch += range.len();
        }
        if in_batch > 0 {
            batches.push(start..self.classes.len());
        }
        batches
    }

    /// The positions of the rows of some consecutive classes.
    pub fn positions(&self, classes: &Range<usize>) -> Range<usize> {
        if classes.is_empty() {
            return 0..0;
        }
        self.classes.range(classes.start).start..self.classes.range(classes.end - 1).end
    }
}

/// A finished release, ready to be written out class by class.
///
/// Rows leave grouped by class, and inside a class sorted by columns that the reader sees, equal rows
/// by a keyed hash: the order of the output says nothing that the values do not say.
#[derive(Debug)]
pub struct Publisher {
    table: Arc<ReleaseTable>,
    form: ReleaseForm,
    quasi_identifiers: Vec<QiPublisher>,
    /// By published column, the value of each code of an exact quasi-identifier.
    exact: Vec<Option<ArrayRef>>,
}

/// What a release looks like.
#[derive(Debug, Clone)]
pub struct ReleaseForm {
    /// The published columns.
    pub columns: Vec<OutputColumn>,
    /// Published columns by which the rows of a class are ordered.
    pub order_by: Vec<OutputColumn>,
    /// What orders rows that these columns do not tell apart.
    pub ties: TieKeys,
    /// How generalized numbers are published.
    pub ranges: Ranges,
    /// Schema of the published columns.
    pub schema: SchemaRef,
}

/// Keyed hashes that order rows of a class.
#[derive(Debug, Clone, Copy)]
pub enum TieKeys {
    /// Of the whole row, as [`RowKeys`] has them.
    WholeRow,
    /// Of the quasi-identifiers, then of the kept columns: the order of a table without sensitive
    /// values must not depend on them.
    QuasiIdentifiersAndKept(Seed),
}

impl Publisher {
    /// Publishes the release in a form.
    pub fn new(table: Arc<ReleaseTable>, form: ReleaseForm) -> Result<Self> {
        let quasi_identifiers = table
            .domains
            .iter()
            .map(|domain| QiPublisher::new(domain, form.ranges))
            .collect::<Result<_>>()?;
        let exact = form.columns.iter().zip(form.schema.fields());
        let exact = exact.map(|(column, field)| match column {
            OutputColumn::ExactQuasiIdentifier(index) => {
                by_code(&table.domains[*index], field.data_type()).map(Some)
            }
            _ => Ok(None),
        });
        let exact = exact.collect::<Result<_>>()?;
        Ok(Self { table, form, quasi_identifiers, exact })
    }

    /// The rows of consecutive classes, in batches of at most twice `rows` rows.
    pub fn batch(
        &self,
        classes: Range<usize>,
        rows: usize,
        payload: PayloadOf,
    ) -> Result<Vec<RecordBatch>> {
        let positions = self.table.positions(&classes).len();
        let columns = self.columns(classes, payload)?;
        let rows = if positions <= 2 * rows { positions } else { rows };
        let mut batches = Vec::new();
        for start in (0..positions).step_by(rows.max(1)) {
            let part = start..(start + rows).min(positions);
            self.add_batches(&columns, positions, part, &mut batches)?;
        }
        Ok(batches)
    }

    /// Some rows as a batch, or as several where a dictionary's keys cannot tell their values apart.
    fn add_batches(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        part: Range<usize>,
        batches: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        let indices = UInt32Array::from_iter_values(part.start as u32..part.end as u32);
        let typed = |(column, field): (&ArrayRef, &FieldRef)| {
            // Parts are copied: a slice would keep, and report, the whole.
            let column = match part.len() == rows {
                true => Arc::clone(column),
                false => take(column, &indices, None)?,
            };
            match column.data_type() == field.data_type() {
                true => Ok(column),
                false => cast(&column, field.data_type()),
            }
        };
        let columns_of_part = columns.iter().zip(self.form.schema.fields()).map(typed);
        match columns_of_part.collect::<std::result::Result<Vec<ArrayRef>, ArrowError>>() {
            Ok(columns) => {
                let options = RecordBatchOptions::new().with_row_count(Some(part.len()));
                let schema = Arc::clone(&self.form.schema);
                let batch = RecordBatch::try_new_with_options(schema, columns, &options);
                batches.push(batch.map_err(kernel_failed("any"))?);
                Ok(())
            }
            Err(ArrowError::DictionaryKeyOverflowError) if part.len() > 1 => {
                let middle = part.start + part.len() / 2;
                self.add_batches(columns, rows, part.start..middle, batches)?;
                self.add_batches(columns, rows, middle..part.end, batches)
            }
            Err(error) => Err(kernel_failed("sensitive or kept")(error)),
        }
    }

    /// The published columns of some classes. Dictionaries with small keys are still plain values.
    fn columns(&self, classes: Range<usize>, payload: PayloadOf) -> Result<Vec<ArrayRef>> {
        let rows = &self.table.rows;
        let positions = self.table.positions(&classes);
        // Another form of the same release may need the other columns.
        let used = |column: usize| {
            let forms = [OutputColumn::Payload(column), OutputColumn::PayloadApart(column)];
            forms.iter().any(|form| self.form.columns.contains(form))
        };
        let ids = rows.ids(positions.clone());
        let mut payload = payload.gather(positions.clone(), &ids, used)?;
        self.part(&mut payload, &positions)?;
        let order = self.order(&ids, &classes, &payload)?;
        // The class of every row, relative to the first.
        let sizes = classes.clone().map(|class| self.table.classes.range(class).len());
        let class_of: UInt32Array =
            sizes.enumerate().flat_map(|(at, size)| std::iter::repeat_n(at as u32, size)).collect();
        let missing = || Error::bug("a published column was not gathered");
        let column = |(at, column): (usize, &OutputColumn)| match column {
            OutputColumn::Payload(index) | OutputColumn::PayloadApart(index) => {
                let values = payload[*index].as_ref().ok_or_else(missing)?.ordered(&order)?;
                match (&self.table.cohorts, values.data_type()) {
                    // Dictionaries are made anew: which of them a value came from must not show.
                    (Some(_), DataType::Dictionary(_, plain)) => {
                        let plain =
                            cast(&values, plain).map_err(kernel_failed("sensitive or kept"))?;
                        live_values(&plain)
                    }
                    _ => live_values(&values),
                }
            }
            OutputColumn::ExactQuasiIdentifier(index) => {
                let codes = rows.codes(positions.clone(), *index);
                let code = |at: &u32| codes[*at as usize];
                let codes = UInt32Array::from_iter_values(order.values().iter().map(code));
                let field = self.form.schema.field(at);
                let values = self.exact[at].as_ref().ok_or_else(missing)?;
                let values = take(values, &codes, None).map_err(kernel_failed(field.name()))?;
                live_values(&values)
            }
            OutputColumn::ClassId => {
                let first = classes.start as u64;
                let ids = class_of.values().iter().map(|class| first + u64::from(*class));
                Ok(Arc::new(ids.collect::<UInt64Array>()) as ArrayRef)
            }
            OutputColumn::ColumnGroups => {
                let Cells::Sliced { groups, .. } = &self.table.cells else {
                    return Err(Error::bug(
                        "a release that is not sliced has no groups of columns",
                    ));
                };
                take(&groups.publish(classes.clone()), &class_of, None)
                    .map_err(kernel_failed("column_groups"))
            }
            OutputColumn::SlicedQuasiIdentifier(index) => {
                let values = self.per_row(&classes, *index)?;
                let name = &self.table.domains[*index].name;
                live_values(&take(&values, &order, None).map_err(kernel_failed(name))?)
            }
            OutputColumn::Cohort | OutputColumn::Held => {
                let cohorts = self.table.cohorts.as_ref().ok_or_else(missing)?;
                let per_class = match column {
                    OutputColumn::Cohort => cohorts.ids(classes.clone()),
                    _ => cohorts.held(classes.clone()),
                };
                take(&per_class, &class_of, None).map_err(kernel_failed("cohort"))
            }
            OutputColumn::Person => Err(missing()),
            OutputColumn::QuasiIdentifier(index) => {
                let per_class = self.per_class(classes.clone(), *index)?;
                take(&per_class, &class_of, None)
                    .map_err(kernel_failed(&self.table.domains[*index].name))
            }
        };
        self.form.columns.iter().enumerate().map(column).collect()
    }

    fn per_class(&self, classes: Range<usize>, column: usize) -> Result<ArrayRef> {
        if let Cells::Nodes(nodes) = &self.table.cells {
            return self.quasi_identifiers[column]
                .publish_nodes(&self.table.domains[column], &nodes[column][classes]);
        }
        let ranges = |classes: &mut dyn Iterator<Item = usize>| {
            classes.map(|class| self.table.classes.range(class)).collect()
        };
        let Some(cohorts) = &self.table.cohorts else {
            return self.covering(ranges(&mut { classes }), column);
        };
        let mut own = classes.clone().filter(|class| cohorts.is_own(class));
        let own = self.covering(ranges(&mut own), column)?;
        cohorts.mixed(classes, column, &own)
    }

    /// What covers the rows of each range in a quasi-identifier most closely.
    fn covering(&self, ranges: Vec<Range<usize>>, column: usize) -> Result<ArrayRef> {
        let rows = &self.table.rows;
        let codes_of = |range: Range<usize>| {
            move |codes: &mut Vec<u32>| rows.append_codes(range.clone(), column, codes)
        };
        let closures: Vec<_> = ranges.iter().cloned().map(codes_of).collect();
        let cells = ranges.into_iter().zip(&closures).map(|(range, codes)| {
            let (low, high) = rows.extent(range, column);
            ClassCells { low, high, codes }
        });
        self.quasi_identifiers[column].publish(&self.table.domains[column], cells)
    }

    /// A sliced quasi-identifier of the rows of some classes, in their own order.
    fn per_row(&self, classes: &Range<usize>, column: usize) -> Result<ArrayRef> {
        // The rows of every different cell, and the cell of every row: what covers a class is found once.
        let (mut cell_rows, mut cell_of): (Vec<Range<usize>>, Vec<u32>) = (Vec::new(), Vec::new());
        for class in classes.clone() {
            let range = self.table.classes.range(class);
            let first = cell_rows.len() as u32;
            if self.table.cells.covers(class, column) {
                cell_of.extend(std::iter::repeat_n(first, range.len()));
                cell_rows.push(range);
            } else {
                cell_of.extend(first..first + range.len() as u32);
                cell_rows.extend(range.map(|at| at..at + 1));
            }
        }
        let cells = self.covering(cell_rows, column)?;
        let name = &self.table.domains[column].name;
        take(&cells, &UInt32Array::from(cell_of), None).map_err(kernel_failed(name))
    }

    /// Columns that were permuted apart, from the rows of the same classes that they come from.
    fn part(&self, payload: &mut [Option<Gathered>], positions: &Range<usize>) -> Result<()> {
        let Cells::Sliced { kept, .. } = &self.table.cells else { return Ok(()) };
        let of_batch = || kept[positions.clone()].iter();
        for (column, values) in payload.iter_mut().enumerate() {
            if self.form.columns.contains(&OutputColumn::PayloadApart(column)) {
                let from = of_batch().map(|from| from - positions.start as u32);
                let from = UInt32Array::from_iter_values(from);
                let parted = values.as_ref().map(|values| values.ordered(&from)).transpose()?;
                *values = parted.map(Gathered::Values);
            }
        }
        Ok(())
    }
}

/// The value of every code in a column's own type, or without its dictionary: the values of all rows
/// may be more than its keys can tell apart.
fn by_code(domain: &Domain, data_type: &DataType) -> Result<ArrayRef> {
    let values = with_missing(&domain.values, domain.axis.missing, &domain.name)?;
    let plain: &DataType = match data_type {
        DataType::Dictionary(_, plain) => plain,
        plain => plain,
    };
    match plain {
        // Such a column is read as text, which does not cast back.
        DataType::Null => Ok(new_null_array(plain, values.len())),
        _ => cast(&values, plain).map_err(kernel_failed(&domain.name)),
    }
}
