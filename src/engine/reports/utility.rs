//! From counts of original and published groups to what is left of a table.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{Result, exec_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;

use super::grouping::Groups;
use super::{BothTables, UtilitySpec, sensitivity};
use crate::columnar::{Originals, PublishedColumn, Runs};
use crate::engine::hierarchies::{resolve, resolve_levels};
use crate::engine::options::QuasiIdentifier;
use crate::measure::{
    IncompleteColumn, IncompleteRows, Measure, Utility, incomplete_measures, release_precision,
};

/// The inputs of the operator.
pub(super) struct Tables<'a> {
    /// The groups of both tables.
    pub(super) groups: BothTables<'a>,
    /// The sensitive values by class, where levels of sensitivity are given.
    pub(super) by_class: Option<&'a Arc<dyn ExecutionPlan>>,
    /// The rows of both tables, where associations are asked for.
    pub(super) rows: Option<BothTables<'a>>,
}

/// Reads the distinct values of the original, then the published groups against them.
pub(super) async fn measure(
    spec: &UtilitySpec,
    tables: &Tables<'_>,
    context: &Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<Vec<Measure>> {
    let hierarchies = resolve(&spec.quasi_identifiers, tables.groups.lookups, context).await?;
    let (originals, incomplete_rows) =
        read_originals(&spec.quasi_identifiers, tables.groups.original, context, memory).await?;
    let rows_original = originals.first().map_or(0, Originals::rows);
    let mut columns = Vec::with_capacity(originals.len());
    for ((originals, hierarchy), published) in
        originals.into_iter().zip(&hierarchies).zip(&spec.published)
    {
        let losses = originals.into_losses(hierarchy.as_ref())?;
        memory.try_grow(losses.memory())?;
        columns.push(PublishedColumn::new(losses, published.form));
    }
    let mut meter = Meter {
        spec,
        utility: Utility::new(rows_original, spec.k, spec.class.is_some()),
        columns,
        runs: Runs::default(),
        open: None,
        reconstruction: Some(0.0),
    };
    let mut batches = tables.groups.published.execute(0, Arc::clone(context))?;
    while let Some(batch) = batches.next().await {
        meter.add(&batch?)?;
    }
    let mut measures = meter.finish(rows_original, incomplete_rows)?;
    if let (Some(graded), Some(by_class)) = (&spec.graded, tables.by_class) {
        let levels = resolve_levels(&graded.grading, tables.groups.lookups, context).await?;
        let grading = Some((&graded.grading, levels));
        let found = sensitivity::read(&graded.classes, by_class, grading, context, memory).await?;
        measures.extend(found.distances(spec.quasi_identifiers.len()));
    }
    if let (Some(associations), Some(rows)) = (&spec.associations, &tables.rows) {
        let found = super::associations::measure(associations, rows, context, memory);
        measures.extend(found.await?);
    }
    Ok(measures)
}

/// The distinct values of every quasi-identifier, and how many rows miss one.
pub(super) async fn read_originals(
    quasi_identifiers: &[QuasiIdentifier],
    original: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<(Vec<Originals>, u64)> {
    let schema = original.schema();
    let mut originals: Vec<Originals> = (quasi_identifiers.iter().enumerate())
        .map(|(key, qi)| Originals::new(&qi.column.name, schema.field(1 + key).data_type()))
        .collect();
    let set_column = 1 + originals.len();
    let mut incomplete_rows = 0;
    let mut batches = original.execute(0, Arc::clone(context))?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        incomplete_rows += Groups::incomplete_rows(&batch, set_column, 0)?;
        for (key, originals) in originals.iter_mut().enumerate() {
            let groups = Groups::of_set(&batch, set_column, key as u32, [1 + key])?;
            for values in &groups.columns {
                originals.add(values, &groups.rows)?;
            }
        }
        memory.try_resize(originals.iter().map(Originals::memory).sum())?;
    }
    Ok((originals, incomplete_rows))
}

/// Takes in the published groups: classes, which are set 0, and the values of every column.
struct Meter<'a> {
    spec: &'a UtilitySpec,
    utility: Utility,
    columns: Vec<PublishedColumn>,
    runs: Runs,
    /// Rows of the current class and of its most frequent class label.
    open: Option<(u64, u64)>,
    /// Rows times their distance to what their classes say, `None` where that is not told.
    reconstruction: Option<f64>,
}

impl Meter<'_> {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let class_keys = self.spec.class_keys();
        let set_column = 1 + class_keys;
        let classes = Groups::of_set(batch, set_column, 0, 1..set_column)?;
        self.add_boxes(&classes)?;
        if self.spec.class.is_some() {
            self.add_labelled_classes(&classes.columns, &classes.rows)?;
        } else {
            for rows in &classes.rows {
                self.utility.add_class(rows.unsigned_abs(), rows.unsigned_abs());
            }
        }
        // A single quasi-identifier is its own class where there are no class labels.
        let is_own_class = self.columns.len() == 1 && self.spec.class.is_none();
        for (number, column) in self.columns.iter_mut().enumerate() {
            let keys = self.spec.published[number].keys.clone();
            let set = if is_own_class { 0 } else { 1 + number as u32 };
            let groups = Groups::of_set(batch, set_column, set, keys.map(|key| 1 + key))?;
            column.add(&groups.columns, &groups.rows)?;
        }
        Ok(())
    }

    /// A row is anywhere among the values that its cells stand for.
    fn add_boxes(&mut self, classes: &Groups) -> Result<()> {
        let mut points = vec![1.0f64; classes.rows.len()];
        for (column, published) in self.columns.iter().zip(&self.spec.published) {
            let cells = &classes.columns[published.keys.clone()];
            match column.points(cells)? {
                Some(of_column) => {
                    points.iter_mut().zip(of_column).for_each(|(points, more)| *points *= more);
                }
                None => self.reconstruction = None,
            }
        }
        let distances = points.iter().zip(&classes.rows);
        let distances = distances.map(|(points, rows)| *rows as f64 * (1.0 - 1.0 / points));
        let sum: f64 = distances.sum();
        self.reconstruction = self.reconstruction.map(|distance| distance + sum);
        Ok(())
    }

    /// Classes whose groups are neighbours, one group for each class label.
    fn add_labelled_classes(&mut self, keys: &[ArrayRef], rows: &[i64]) -> Result<()> {
        let (continues, runs) = self.runs.next(keys)?;
        for (number, run) in runs.into_iter().enumerate() {
            if number > 0 || !continues {
                self.close_class();
            }
            for rows in &rows[run] {
                let rows = rows.unsigned_abs();
                let (all, majority) = self.open.unwrap_or((0, 0));
                self.open = Some((all + rows, majority.max(rows)));
            }
        }
        Ok(())
    }

    fn close_class(&mut self) {
        if let Some((rows, majority)) = self.open.take() {
            self.utility.add_class(rows, majority);
        }
    }

    fn finish(mut self, rows_original: u64, incomplete_rows: u64) -> Result<Vec<Measure>> {
        self.close_class();
        let rows = self.utility.rows();
        if rows > rows_original {
            return exec_err!(
                "utility_report: the published table has {rows} rows and the original has \
                 {rows_original}: name the original first, as in utility_report(original, published, …)"
            );
        }
        let lost =
            self.columns.iter().map(PublishedColumn::lost).collect::<crate::Result<Vec<_>>>();
        let mut measures = self.utility.measures(&lost?);
        let suppressed = rows_original - rows;
        let climbed: Vec<_> = self.columns.iter().map(PublishedColumn::climbed).collect();
        let precision = release_precision(rows_original, suppressed, &climbed);
        // The methods that take constraints make hierarchies where none are named.
        let is_told = precision.is_some() && self.columns.iter().any(PublishedColumn::has_nodes);
        if is_told || self.columns.iter().any(PublishedColumn::has_hierarchy) {
            measures.push(Measure::of_table("prec", precision));
        }
        // A suppressed row is nowhere, at distance 1.
        let distance = self.reconstruction.filter(|_| rows_original > 0);
        let distance = distance.map(|sum| (sum + suppressed as f64) / rows_original as f64);
        measures.push(Measure::of_table("reconstruction_distance", distance));
        let incomplete = |column: &PublishedColumn| IncompleteColumn {
            generalization: column.incomplete_lost(suppressed),
            missing: column.missing(),
        };
        let incomplete: Vec<IncompleteColumn> = self.columns.iter().map(incomplete).collect();
        let rows = IncompleteRows { all: rows_original, incomplete: incomplete_rows, suppressed };
        measures.extend(incomplete_measures(rows, &incomplete));
        Ok(measures)
    }
}
