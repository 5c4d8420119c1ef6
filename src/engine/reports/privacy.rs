//! From counts of published groups to the risk of a release.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::{ExecutionPlan, collect};

use super::PrivacySpec;
use super::classes::{self, Classes};
use super::slices::{intact_measures, undivided_measure};
use crate::columnar::{ListedLevels, ModelledValues};
use crate::engine::hierarchies::resolve_levels;
use crate::engine::options::Grading;
use crate::engine::plan::split_unit;
use crate::measure::{ColumnRisk, Distribution, Measure, RankLevels, Risk, ValueCount};

/// Reads the groups and measures them. Behind the published groups stand, where there are two
/// tables, how they agree, and the levels of sensitivity, where a table lists them.
pub(super) async fn measure(
    spec: &PrivacySpec,
    inputs: &[Arc<dyn ExecutionPlan>],
    context: &Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<Vec<Measure>> {
    let Some((published, others)) = inputs.split_first() else {
        return internal_err!("a report lost its input");
    };
    let (agreement, others) = others.split_at(usize::from(spec.two_tables).min(others.len()));
    let (has_divided, has_original) =
        spec.buckets.map_or((false, false), |buckets| (buckets.divided, buckets.original));
    let bucket_inputs = usize::from(has_divided) + usize::from(has_original);
    let (bucket_inputs, tables) = others.split_at(bucket_inputs.min(others.len()));
    let levels = match &spec.grading {
        Some(grading) => Some((grading, resolve_levels(grading, tables, context).await?)),
        None => None,
    };
    let sensitive = split_unit(&spec.classes.sensitive, spec.counts_persons).0.len();
    let mut meter = Meter {
        risk: Risk::new(spec.targets, sensitive),
        whole: Vec::new(),
        grading: levels,
        chances: vec![Some(0.0); sensitive],
        persons: spec.counts_persons.then(PersonsFound::default),
    };
    let groups = published.execute(0, Arc::clone(context))?;
    classes::read(&spec.classes, groups, memory, &mut meter).await?;
    match agreement {
        [] if spec.buckets.is_some() => {
            // A row is assembled from several persons, so 1 / (rows of its bucket) is not its risk.
            let mut measures = meter.risk.measures_by_class_alone();
            let target = spec.targets.l.map(|l| 1.0 / f64::from(l));
            let largest = |(column, chance): (usize, &Option<f64>)| {
                let holds = chance.zip(target).is_some_and(|(chance, most)| chance <= most + 1e-9);
                Measure::of_table("naming_chance", *chance).of_column(column).against(target, holds)
            };
            measures.extend(meter.chances.iter().enumerate().map(largest));
            measures.extend(meter.persons.iter().flat_map(|found| found.measures(spec)));
            let mut bucket_inputs = bucket_inputs.iter();
            if let (true, Some(plan)) = (has_divided, bucket_inputs.next()) {
                measures.push(undivided_measure(plan, context).await?);
            }
            if let (true, Some(plan)) = (has_original, bucket_inputs.next()) {
                measures.extend(intact_measures(plan, context).await?);
            }
            Ok(measures)
        }
        [] => {
            let mut measures = meter.risk.measures();
            measures.extend(meter.persons.iter().flat_map(|found| found.measures(spec)));
            Ok(measures)
        }
        [agreement, ..] => {
            let mut measures = meter.risk.measures_by_class_alone();
            measures.extend(agreement_measures(agreement, context).await?);
            Ok(measures)
        }
    }
}

struct Meter<'a> {
    risk: Risk,
    whole: Vec<Distribution>,
    grading: Option<(&'a Grading, ListedLevels)>,
    /// By sensitive column, the largest chance to name a value of someone whose bucket is known and who
    /// is known not to have the value that is published beside: `None` if a bucket has one row.
    chances: Vec<Option<f64>>,
    persons: Option<PersonsFound>,
}

/// The fewest persons of a class, and the largest share of a class that one person holds.
#[derive(Default)]
struct PersonsFound {
    fewest: Option<u64>,
    largest_share: Option<f64>,
}

impl PersonsFound {
    fn add(&mut self, rows: u64, persons: &[ValueCount]) {
        let found = persons.len() as u64;
        self.fewest = Some(self.fewest.map_or(found, |fewest| fewest.min(found)));
        let most = persons.iter().map(|(_, rows)| *rows).max().unwrap_or(0);
        let share = most as f64 / rows.max(1) as f64;
        self.largest_share = Some(self.largest_share.map_or(share, |largest| largest.max(share)));
    }

    fn measures(&self, spec: &PrivacySpec) -> [Measure; 2] {
        let (k, most) = (spec.targets.k.map(f64::from), spec.unit_share);
        let fewest = self.fewest.map(|fewest| fewest as f64);
        let enough = fewest.zip(k).is_some_and(|(fewest, k)| fewest >= k);
        let within = self.largest_share.zip(most).is_some_and(|(share, most)| share <= most + 1e-9);
        [
            Measure::of_table("persons", fewest).against(k, enough),
            Measure::of_table("unit_share", self.largest_share).against(most, within),
        ]
    }
}

impl Classes for Meter<'_> {
    fn table(&mut self, whole: Vec<Distribution>, values: Vec<ModelledValues>) -> Result<()> {
        let sensitive = self.chances.len();
        if let (Some((grading, listed)), [whole], [values]) =
            (&self.grading, &whole[..sensitive], &values[..sensitive])
        {
            self.risk.grade(rank_levels(grading, listed, whole, values)?);
        }
        self.whole = whole;
        Ok(())
    }

    fn class(&mut self, rows: u64, values: &[Vec<ValueCount>]) {
        let (values, units) = values.split_at(self.chances.len().min(values.len()));
        if let (Some(persons), [units, ..]) = (&mut self.persons, units) {
            persons.add(rows, units);
        }
        for (chance, values) in self.chances.iter_mut().zip(values) {
            let most = values.iter().map(|(_, rows)| *rows).max().unwrap_or(0);
            *chance = match rows {
                0 | 1 => None,
                rows => chance.map(|chance| chance.max(most as f64 / (rows - 1) as f64)),
            };
        }
        let risks = values.iter().zip(&self.whole);
        let risks = risks.map(|(class, whole)| ColumnRisk::of_class(class, whole));
        self.risk.add_class(rows, risks, values.first().map(Vec::as_slice));
    }
}

/// The level of every rank that occurs. Errors if a value has none, or a level no share.
pub(super) fn rank_levels(
    grading: &Grading,
    listed: &ListedLevels,
    whole: &Distribution,
    values: &ModelledValues,
) -> Result<RankLevels> {
    let level_of = listed.of(values)?;
    let alphas = grading.shares(listed);
    Ok(RankLevels::new(level_of, alphas, grading.scope, whole)?)
}

/// How two tables agree: rows of the one without sensitive values, and classes whose rows differ.
async fn agreement_measures(
    agreement: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Vec<Measure>> {
    let (mut rows, mut differing) = (0, 0);
    for batch in collect(Arc::clone(agreement), Arc::clone(context)).await? {
        let sum = |column: usize| {
            batch.column(column).as_primitive::<Int64Type>().iter().flatten().sum::<i64>()
        };
        rows += sum(0);
        differing += sum(1);
    }
    let rows_measure = Measure::of_table("rows_quasi_identifiers", Some(rows as f64));
    let differing_measure = Measure::of_table("classes_that_differ", Some(differing as f64));
    Ok(vec![rows_measure, differing_measure.against(Some(0.0), differing == 0 && rows > 0)])
}
