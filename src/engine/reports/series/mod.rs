//! `series_report`: what releases that follow each other tell together.
//!
//! | measure | what it says | target |
//! | --- | --- | --- |
//! | `releases` | releases that were looked at | |
//! | `cohorts` | cohorts in any of them | |
//! | `smallest_cohort` | rows of the smallest cohort, or class, of any release | k |
//! | `cohorts_resized` | cohorts whose rows were more or fewer in another release | 0 |
//! | `divided_cohorts` | cohorts whose rows differ in a quasi-identifier | 0 |
//! | `held_cohorts_changed` | cohorts that are marked `held` and do not repeat the rows of the release before | 0 |
//! | `l`, `alpha` | the fewest different values, and the largest share of one, in any cohort of any release | l, alpha |
//! | `persons` | persons of the register who are published at some time | |
//! | `crowd_min` | the smallest crowd: persons who look the same in every release | k |
//! | `crowd_below_k`, `alone` | shares of persons whose crowd is below k, and who look like nobody else | 0 |
//! | `differenced` | persons whose value is told by one release minus another | 0 |
//! | `unplaced` | share of the register's rows that are in no class of their release | |
//!
//! What is not obvious about them:
//!
//! - Releases with a column `cohort` are a series. In all others a class is a `class_id`, or else a combination of
//!   published quasi-identifiers; they have no cohorts whose size could be compared, so `cohorts_resized` does not hold.
//! - A register without a column `class` finds the classes that could hold a person by the published ranges, sets
//!   and labels. Where these overlap, everybody is put into one class of every release, so that no class has more persons
//!   than rows and who was together stays together. Crowds are then those of one explanation of the releases. What a
//!   subtraction tells is counted for classes alone whose members are certain.
//! - Nobody changes cohort in a series. A person can be in a cohort only if their values fit it in every release in
//!   which it was made anew. One that repeats its rows says nothing about the night: members may have left or changed.
//! - Whether a cohort repeats its rows is seen from the release before, so no release may be left out. Where `held` is
//!   published it says who may have left.
//! - Persons who are never published are no part of the shares.
//!
//! 1. [`plan`] checks the arguments and projects the inputs: every release sorted by class, the register by person;
//! 2. [`releases`] reads the releases one after the other, [`fits`] indexes the boxes of their classes;
//! 3. [`register`] reads the persons; their histories are compared in [`crate::measure`].

mod fits;
mod plan;
mod register;
mod releases;

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::ExecutionPlan;

pub use plan::plan_series_report;
use register::Persons;
use releases::Releases;

use super::PublishedSpec;
use super::utility::read_originals;
use crate::columnar::Covers;
use crate::engine::hierarchies::resolve;
use crate::engine::operator::running;
use crate::engine::options::QuasiIdentifier;
use crate::measure::{Measure, Targets, subtraction_memory, told_by_subtraction};

/// `series_report`, checked.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct SeriesReportSpec {
    /// What the releases are asked to keep: k, l and alpha.
    pub(super) targets: Targets,
    /// The published quasi-identifiers.
    quasi_identifiers: Vec<String>,
    /// The sensitive columns.
    pub(super) sensitive: Vec<String>,
    /// Whether classes are cohorts, which are the same in every release.
    cohorts: bool,
    releases: Vec<ReleaseSpec>,
    register: Option<RegisterSpec>,
}

/// How a register tells the class of a person.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
enum RegisterSpec {
    /// It names the class.
    Classes,
    /// The class is one that these values of the person fit.
    Fits(Vec<QuasiIdentifier>),
}

/// The columns of a release, in this order: class, quasi-identifiers, sensitive ones, all others, `held`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
struct ReleaseSpec {
    /// Columns that tell classes apart: a number, or all quasi-identifiers.
    class_keys: usize,
    /// Whether that is a number.
    is_numbered: bool,
    /// How every quasi-identifier was published, and where it is.
    cells: Vec<PublishedSpec>,
    /// Where the sensitive columns start.
    sensitive: usize,
    /// Where the columns end that a repeated row repeats.
    repeated_until: usize,
    /// Where `held` is.
    held: Option<usize>,
}

impl SeriesReportSpec {
    /// By how many leading columns each input must be sorted.
    pub(super) fn sorted_columns(&self) -> Vec<usize> {
        let releases = self.releases.iter().map(|release| release.class_keys);
        let register: &[usize] = match self.register {
            None => &[],
            Some(RegisterSpec::Classes) => &[2],
            Some(RegisterSpec::Fits(_)) => &[0, 2],
        };
        releases.chain(register.iter().copied()).collect()
    }
}

impl fmt::Display for SeriesReportSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Targets { k, l, alpha, .. } = self.targets;
        write!(f, "releases={}", self.releases.len())?;
        let numbers = [("k", k.map(f64::from)), ("l", l.map(f64::from)), ("alpha", alpha)];
        for (name, value) in numbers {
            if let Some(value) = value {
                write!(f, ", {name}={value}")?;
            }
        }
        if !self.quasi_identifiers.is_empty() {
            write!(f, ", quasi_identifiers=[{}]", self.quasi_identifiers.join(", "))?;
        }
        if !self.sensitive.is_empty() {
            write!(f, ", sensitive=[{}]", self.sensitive.join(", "))?;
        }
        f.write_str(if self.cohorts { ", cohorts" } else { "" })?;
        match &self.register {
            None => Ok(()),
            Some(RegisterSpec::Classes) => f.write_str(", register=classes"),
            Some(RegisterSpec::Fits(_)) => f.write_str(", register=quasi_identifiers"),
        }
    }
}

/// Reads the releases in their order, then the register.
pub(super) async fn measure(
    spec: &SeriesReportSpec,
    inputs: &[Arc<dyn ExecutionPlan>],
    context: &Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<Vec<Measure>> {
    let (tables, others) = inputs.split_at(spec.releases.len().min(inputs.len()));
    let (covers, register) = match (&spec.register, others) {
        (None, _) => (Vec::new(), None),
        (Some(RegisterSpec::Classes), [register, ..]) => (Vec::new(), Some(register)),
        (Some(RegisterSpec::Fits(quasi_identifiers)), [known, register, lookups @ ..]) => {
            let hierarchies = resolve(quasi_identifiers, lookups, context).await?;
            let (originals, _) = read_originals(quasi_identifiers, known, context, memory).await?;
            let pairs = originals.into_iter().zip(&hierarchies);
            let covers = pairs.map(|(known, hierarchy)| known.into_covers(hierarchy.as_ref()));
            (covers.collect::<crate::Result<Vec<Covers>>>()?, Some(register))
        }
        _ => return internal_err!("a report lost one of its inputs"),
    };
    let mut releases = Releases::new(spec, covers);
    for table in tables {
        releases.read(table.execute(0, Arc::clone(context))?, memory).await?;
    }
    let mut measures = releases.measures();
    if let Some(register) = register {
        measures.extend(persons(spec, releases, register, context, memory).await?);
    }
    Ok(measures)
}

/// What the releases tell of the persons of a register.
async fn persons(
    spec: &SeriesReportSpec,
    mut releases: Releases<'_>,
    register: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<Vec<Measure>> {
    releases.index(memory)?;
    let mut persons = Persons::new(spec, &mut releases);
    persons.read(register.execute(0, Arc::clone(context))?, memory).await?;
    let (histories, unplaced) = persons.finish();
    let classes = releases.into_classes();
    memory.try_grow(histories.crowd_memory() + subtraction_memory(&histories, &classes))?;
    let k = spec.targets.k;
    let overlap = !spec.cohorts && matches!(spec.register, Some(RegisterSpec::Fits(_)));
    if overlap {
        memory.try_grow(histories.assignment_memory())?;
    }
    let work = move || {
        let told = told_by_subtraction(&histories, &classes);
        let histories = if overlap { histories.assigned(&classes) } else { histories };
        Ok((histories.crowds(k.map(u64::from)), told))
    };
    let (crowds, told) = running(work).await?;
    let share = |of: u64| (crowds.persons > 0).then(|| of as f64 / crowds.persons as f64);
    let smallest = crowds.smallest.map(|smallest| smallest as f64);
    let least = k.map(f64::from);
    let large_enough = smallest.zip(least).is_some_and(|(smallest, least)| smallest >= least);
    let below_k = match k {
        Some(_) => Measure::none_expected("crowd_below_k", share(crowds.below_k)),
        None => Measure::of_table("crowd_below_k", None),
    };
    let mut measures = vec![
        Measure::of_table("persons", Some(crowds.persons as f64)),
        Measure::of_table("crowd_min", smallest).against(least, large_enough),
        below_k,
        Measure::none_expected("alone", share(crowds.alone)),
        Measure::of_table("unplaced", unplaced),
    ];
    let differenced = told.iter().enumerate().map(|(column, persons)| {
        let found = (crowds.persons > 0).then_some(*persons as f64);
        Measure::none_expected("differenced", found).of_column(column)
    });
    measures.extend(differenced);
    Ok(measures)
}
