//! New cohorts, made of persons who are in none.

use std::sync::Arc;

use datafusion::common::Result;
use rayon::prelude::*;

use crate::columnar::CodedTable;
use crate::engine::exec::form::ClassBuilder;
use crate::engine::exec::memory::{Arranging, ReleaseMemory};
use crate::error::Error;
use crate::hierarchy::Axis;
use crate::method::Job;
use crate::model::series::{Groups, Members, cohort_id};
use crate::model::{Model, Purpose, Requirement, RowKeys, SensitiveColumn, Store};

/// The cohorts that were made tonight.
#[derive(Default)]
pub(super) struct NewCohorts {
    /// Their rows.
    pub(super) rows: Groups,
    /// Their ids.
    pub(super) ids: Vec<u64>,
}

/// Groups newcomers among themselves: the method sees their rows alone.
pub(super) struct CohortBuilder<'a> {
    pub(super) builder: &'a ClassBuilder<'a>,
    pub(super) memory: &'a ReleaseMemory<Arranging>,
    /// Tonight's rows, each at the position of its number.
    pub(super) table: &'a CodedTable,
    /// Their numbers, in an order that depends on nothing but the persons.
    pub(super) rows: &'a [u32],
    pub(super) threads: usize,
}

impl CohortBuilder<'_> {
    /// The cohorts of those who fit together; the others wait.
    pub(super) fn group(&self, requirement: &Requirement, members: &Members) -> Result<NewCohorts> {
        if self.rows.len() < requirement.k as usize {
            return Ok(NewCohorts::default());
        }
        let (table, count) = (self.table, self.rows.len());
        let row_bytes = table.rows.bytes_of_row();
        let axes: Vec<Axis> = table.domains.iter().map(|domain| domain.axis.clone()).collect();
        let work = self.builder.work_bytes(axes.iter(), count, row_bytes, self.threads);
        let beside = table.modelled.len() * size_of::<u32>() + 2 * size_of::<u64>();
        // Where a newcomer's row is, and the members of the new cohorts.
        self.memory.reserve_method(work + count * (beside + size_of::<u32>() + 24))?;
        let file = self.memory.place(count * row_bytes, "codes")?;
        let mut rows = table.rows.zeroed_like_in(count, file)?;
        let positions = self.rows.iter().map(|row| Some(*row));
        table.rows.copy_rows(&mut rows, &mut positions.zip(0..))?;
        let sensitive: Vec<SensitiveColumn> =
            table.modelled.iter().map(|column| self.of_newcomers(column)).collect();
        let keys =
            RowKeys { ties: self.gather(&table.keys.ties), kept: self.gather(&table.keys.kept) };
        let job = Job {
            axes: &axes,
            requirement: &among_all(requirement, &table.modelled),
            sensitive: &sensitive,
            keys: &keys,
            cancel: self.builder.cancel,
        };
        let Some(classes) = self.builder.newcomers(&mut rows, &job)? else {
            return Ok(NewCohorts::default());
        };
        let in_classes = rows.ids(0..classes.rows());
        let in_classes = in_classes.into_iter().map(|at| self.rows[at as usize]).collect();
        self.named(Groups::of_runs(in_classes, classes.ranges()), members)
    }

    fn gather<T: Copy>(&self, values: &[T]) -> Store<T>
    where
        Store<T>: FromIterator<T>,
    {
        if values.is_empty() {
            return std::iter::empty().collect();
        }
        self.rows.iter().map(|row| values[*row as usize]).collect()
    }

    fn of_newcomers(&self, column: &SensitiveColumn) -> SensitiveColumn {
        SensitiveColumn {
            name: column.name.clone(),
            codes: self.gather(&column.codes),
            cardinality: column.cardinality,
            ordered: column.ordered,
        }
    }

    fn named(&self, rows: Groups, members: &Members) -> Result<NewCohorts> {
        let seed = self.builder.spec.secret.seed(Purpose::SeriesCohorts);
        let id = |cohort: usize| {
            let persons = rows.rows(cohort).iter().map(|row| self.table.persons[*row as usize]);
            cohort_id(&mut persons.collect::<Vec<u128>>(), seed)
        };
        let ids: Vec<u64> = (0..rows.len()).into_par_iter().map(id).collect();
        let mut sorted = ids.clone();
        sorted.par_sort_unstable();
        let is_taken = |id: &u64| members.cohort(*id).is_some();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) || sorted.iter().any(is_taken) {
            return Err(Error::invalid(
                "option 'series': a new cohort has the id of another one, by a chance of one in 2^63 for every pair: \
                 leave the newcomers of tonight to the next night with newcomers => 'wait'",
            )
            .into());
        }
        Ok(NewCohorts { rows, ids })
    }
}

/// The same requirement for a part of the rows: models that compare with the whole table compare with all of them.
fn among_all(requirement: &Requirement, sensitive: &[SensitiveColumn]) -> Requirement {
    let model = |model: &Model| match model {
        Model::Closeness { column, t, population: None } => {
            let of = &sensitive[*column];
            let mut counts = vec![0u64; of.cardinality as usize];
            of.codes.iter().for_each(|code| counts[*code as usize] += 1);
            Model::Closeness { column: *column, t: *t, population: Some(Arc::from(counts)) }
        }
        other => other.clone(),
    };
    Requirement { k: requirement.k, models: requirement.models.iter().map(model).collect() }
}
