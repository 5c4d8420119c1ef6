//! How far apart in sensitivity the values of a class are, and what two tables give away.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{Result, exec_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::{ExecutionPlan, collect};

use super::classes::{self, Classes, ClassesSpec};
use super::privacy::rank_levels;
use super::{BothTables, TwoTableUtilitySpec};
use crate::columnar::{ListedLevels, ModelledValues};
use crate::engine::hierarchies::resolve_levels;
use crate::engine::options::Grading;
use crate::measure::{Distribution, LevelWeights, Measure, RankLevels, ValueCount};

/// Levels of which a class must have a value to count: the paper's two most sensitive ones.
const MOST_SENSITIVE: usize = 2;

/// The measures of a published table's sensitive values by class.
#[derive(Debug, Default)]
pub(super) struct ClassMeasures {
    levels: Option<RankLevels>,
    rows: u64,
    classes: u64,
    /// Rows times their distance to what the classes say about them.
    reconstruction: f64,
    /// Classes with a value of the most sensitive levels, and their summed distances.
    graded_classes: u64,
    distances: f64,
}

/// Reads the sensitive values of a published table class by class.
pub(super) async fn read(
    spec: &ClassesSpec,
    published: &Arc<dyn ExecutionPlan>,
    grading: Option<(&Grading, ListedLevels)>,
    context: &Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<ClassMeasures> {
    let mut meter = Meter { measures: ClassMeasures::default(), grading };
    let groups = published.execute(0, Arc::clone(context))?;
    classes::read(spec, groups, memory, &mut meter).await?;
    Ok(meter.measures)
}

struct Meter<'a> {
    measures: ClassMeasures,
    grading: Option<(&'a Grading, ListedLevels)>,
}

impl Classes for Meter<'_> {
    fn table(&mut self, whole: Vec<Distribution>, values: Vec<ModelledValues>) -> Result<()> {
        if let (Some((grading, listed)), [whole], [values]) =
            (&self.grading, whole.as_slice(), values.as_slice())
        {
            self.measures.levels = Some(rank_levels(grading, listed, whole, values)?);
        }
        Ok(())
    }

    fn class(&mut self, rows: u64, values: &[Vec<ValueCount>]) {
        let measures = &mut self.measures;
        measures.rows += rows;
        measures.classes += 1;
        let Some(values) = values.first() else { return };
        let squares: f64 = values.iter().map(|(_, count)| (*count as f64).powi(2)).sum();
        measures.reconstruction += rows as f64 - squares / rows.max(1) as f64;
        let Some(levels) = &measures.levels else { return };
        let on_level = levels.rows_on_level(values);
        if on_level.iter().take(MOST_SENSITIVE).any(|rows| *rows > 0) {
            let weights = LevelWeights::even(levels.levels() as u32);
            measures.graded_classes += 1;
            measures.distances += weights.class_distance(&on_level);
        }
    }
}

impl ClassMeasures {
    /// Ds in levels, and divided by one less than the number of levels; nothing without levels.
    pub(super) fn distances(&self, column: usize) -> Vec<Measure> {
        let Some(levels) = &self.levels else { return Vec::new() };
        let mean = (self.graded_classes > 0).then(|| self.distances / self.graded_classes as f64);
        let steps = levels.levels().saturating_sub(1).max(1) as f64;
        let measures = [
            Measure::of_table("sensitivity_distance", mean),
            Measure::of_table("sensitivity_distance_normalized", mean.map(|mean| mean / steps)),
        ];
        measures.map(|measure| measure.of_column(column)).to_vec()
    }
}

/// `utility_report` of two tables. Inputs: the rows of the original, the groups of the table of
/// sensitive values, and the levels of sensitivity, where a table lists them.
pub(super) async fn measure_two_tables(
    spec: &TwoTableUtilitySpec,
    inputs: &BothTables<'_>,
    context: &Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<Vec<Measure>> {
    let mut rows_original = 0;
    for batch in collect(Arc::clone(inputs.original), Arc::clone(context)).await? {
        let rows = batch.column(0).as_primitive::<Int64Type>();
        rows_original += rows.iter().flatten().sum::<i64>().unsigned_abs();
    }
    let grading = match &spec.grading {
        Some(grading) => Some((grading, resolve_levels(grading, inputs.lookups, context).await?)),
        None => None,
    };
    let found = read(&spec.classes, inputs.published, grading, context, memory).await?;
    let Some(suppressed) = rows_original.checked_sub(found.rows) else {
        return exec_err!(
            "utility_report: the table of sensitive values has {} rows and the original has \
             {rows_original}: name the original first, as in utility_report(original, t_qi, t_sa, …)",
            found.rows
        );
    };
    let table = |name: &'static str, value: f64| Measure::of_table(name, Some(value));
    let mut measures = vec![
        table("rows_original", rows_original as f64),
        table("rows_published", found.rows as f64),
        table("suppressed_rows", suppressed as f64),
        table("classes", found.classes as f64),
    ];
    // A suppressed row is nowhere, at distance 1.
    let distance = found.reconstruction + suppressed as f64;
    let distance = (rows_original > 0).then(|| distance / rows_original as f64);
    measures.push(Measure::of_table("reconstruction_distance", distance));
    measures.extend(found.distances(0));
    Ok(measures)
}
