//! What is checked of a night before anything of it leaves.

use datafusion::common::{Result, exec_err};
use rayon::prelude::*;

use super::arrangement::{Arrangement, Published, Rows, check_classes, is_of};
use super::night::{Night, Tonight};
use crate::columnar::LastRows;
use crate::engine::options::Newcomers;
use crate::error::Error;
use crate::model::series::{Attendance, Fate, Groups};
use crate::model::{Model, Purpose, Requirement, check_placement};

impl Night<'_> {
    pub(super) fn check_one_row_each(&self, again: usize) -> Result<()> {
        match &self.release.spec.privacy_unit {
            Some(unit) if again > 0 => exec_err!(
                "privacy_unit '{}': {again} rows are not the only one of their person, and a series needs one row for \
                 each: aggregate the input to a row per person, or keep one of them",
                unit.name
            ),
            _ => Ok(()),
        }
    }

    /// A key that is written in another way makes everybody a newcomer. Second cohorts of the same persons are what
    /// plain releases are: they can be compared with the first ones.
    pub(super) fn check_keys(&self, attendance: &Attendance, newcomers: usize) -> Result<()> {
        let spec = &self.release.spec;
        let is_grouped = self.series.newcomers == Newcomers::Group && newcomers >= spec.k as usize;
        let is_nobody_here = attendance.present.iter().all(|present| *present == 0);
        match &spec.privacy_unit {
            Some(unit) if is_grouped && is_nobody_here && !self.members().is_empty() => {
                Err(Error::invalid(format!(
                    "option 'series': none of the {} members is here tonight, and {newcomers} newcomers would be put \
                     into cohorts: did privacy_unit '{}' change its type or its meaning? Give every person the key of \
                     the first night, or everybody would be published in two cohorts, which can be compared. If \
                     these are other people, begin a new series with empty tables; with newcomers => 'wait' they are \
                     left for another night",
                    self.members().len(),
                    unit.name
                ))
                .into())
            }
            _ => Ok(()),
        }
    }

    /// What is published again meets the requirement of tonight: one that was tightened would else be said of cohorts
    /// that do not meet it. Models that compare with the whole table (`t`) are left out, because what is repeated is of
    /// the table of another night. Returns what was asked of them.
    pub(super) fn check_repeated(
        &self,
        fates: &[Fate],
        last: &LastRows,
        last_rows: &Groups,
        mut of_last: Requirement,
    ) -> Result<Requirement> {
        of_last.models.retain(|model| !matches!(model, Model::Closeness { .. }));
        let repeats: Vec<bool> =
            fates.iter().map(|fate| matches!(fate, Fate::Kept | Fate::Held)).collect();
        let holds = last_rows.which_hold(&repeats, &of_last, &last.modelled);
        let failing = repeats.iter().zip(holds).filter(|(repeats, holds)| **repeats && !holds);
        match failing.count() {
            0 => Ok(of_last),
            failing => {
                let mut models: Vec<String> = of_last.models.iter().map(Model::to_string).collect();
                models.sort_unstable();
                models.dedup();
                Err(Error::invalid(format!(
                    "option 'series': {failing} cohorts repeat values of 'last' that do not meet {}: the series was \
                     begun with a weaker requirement; write that one, or begin a new series with empty tables, which \
                     can be compared with this one",
                    models.join(", ")
                ))
                .into())
            }
        }
    }

    /// Without any cohort in its last release a series has ended.
    pub(super) fn check_not_the_last_night(
        &self,
        of: &Arrangement,
        was_published: &[bool],
    ) -> Result<()> {
        let before = was_published.iter().filter(|published| **published).count();
        if before == 0 || !of.published.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "option 'leavers': all {before} cohorts of 'last' would be left out for good, because somebody of each is \
             gone, and nothing would be published: check the input; leavers => 'hold' repeats them, and a new series \
             with empty tables, which can be compared with this one, begins anew"
        ))
        .into())
    }

    /// Every row is in one class or not published, classes that publish tonight's values meet the requirement, and the
    /// persons of a class are those of its cohort.
    pub(super) fn verify(&self, tonight: &Tonight, arrangement: &Arrangement) -> Result<()> {
        let Tonight { table, requirement, .. } = tonight;
        let is_checked = |of: &Published| match of.rows {
            Rows::Live(_) => !self.keeps_values(),
            Rows::New(_) => true,
            Rows::Kept(_) | Rows::Repeated(_) => false,
        };
        let classes: Vec<&Published> =
            arrangement.published.iter().filter(|of| is_checked(of)).collect();
        let rows_of = |of: &Published| arrangement.tonight_rows(of);
        check_classes(table.rows.len(), &classes, &rows_of, &|placement| {
            check_placement(placement, requirement, &table.modelled)
        })?;
        let seed = self.release.spec.secret.seed(Purpose::SeriesCohorts);
        let wrong = arrangement.published.par_iter().filter(|of| {
            !matches!(of.rows, Rows::Repeated(_))
                && !is_of(of.id, arrangement.tonight_rows(of), &table.persons, seed)
        });
        match wrong.count() {
            0 => Ok(()),
            wrong => {
                Err(Error::bug(format!("{wrong} classes are not the cohort of their id")).into())
            }
        }
    }
}

/// The same of the wanted classes that publish values of the last release.
pub(super) fn verify_last(
    last: &LastRows,
    arrangement: &Arrangement,
    requirement: &Requirement,
    is_wanted: impl Fn(&Published) -> bool,
) -> Result<()> {
    let classes: Vec<&Published> =
        arrangement.published.iter().filter(|of| is_wanted(of)).collect();
    let rows_of = |of: &Published| match of.rows {
        Rows::Live(cohort) | Rows::Kept(cohort) | Rows::Repeated(cohort) => {
            arrangement.last.rows(cohort)
        }
        Rows::New(_) => &[],
    };
    check_classes(last.cohort_of.len(), &classes, &rows_of, &|placement| {
        check_placement(placement, requirement, &last.modelled)
    })
}
