//! `[series]`: releases that follow each other, which tell no more together than one of them.

use std::num::NonZeroU64;

use datafusion_anonymize::{Changes, Family, Leavers, MethodOption};
use serde::Deserialize;

use super::{Format, Job};
use crate::error::{Error, Result};

/// What makes the releases of a job a series.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// A directory or an object-store prefix for the state, which nobody but the job may read.
    pub state: String,
    /// What becomes of a cohort of which a member is missing.
    #[serde(default)]
    pub leavers: Leavers,
    /// Whether changed sensitive values are published.
    #[serde(default)]
    pub changes: Changes,
    /// Newcomers are grouped every so many nights and wait in between; every night without it.
    pub newcomers_every: Option<NonZeroU64>,
    /// Whether a column `held` marks cohorts of which a member is missing.
    #[serde(default)]
    pub held: bool,
}

impl Job {
    /// The section, of a job that is a series.
    pub(crate) fn series(&self) -> Result<&Series> {
        self.series
            .as_ref()
            .ok_or_else(|| Error::job("the job is no series; write [series] with state = \"…\""))
    }

    /// Whether cohorts of which a member is missing are left out.
    pub(crate) fn withdraws(&self) -> bool {
        self.series.as_ref().is_some_and(|series| series.leavers == Leavers::Withdraw)
    }
}

impl Series {
    /// Whether the newcomers of this night are grouped. The first night is number 1, and all its persons are new.
    pub(crate) fn groups_newcomers(&self, night: u64) -> bool {
        self.newcomers_every.is_none_or(|every| (night - 1).is_multiple_of(every.get()))
    }

    pub(super) fn check(&self, job: &Job) -> Result<()> {
        self.check_state(job)?;
        let options = &job.anonymize;
        if options.privacy_unit.is_none() {
            return Err(Error::job(
                "series: nobody can be told apart from night to night; write privacy_unit = \"person_id\" in \
                 [anonymize], the column that names a person",
            ));
        }
        if options.seed.is_none() {
            return Err(Error::job(
                "series: without a seed nobody is recognized the next night; write seed = { env = \"NAME\" } in \
                 [anonymize]",
            ));
        }
        let method = job.method()?;
        if method.family() != Family::Classes {
            return Err(Error::job(format!(
                "series: method '{method}' forms no classes that could stay together; choose {}",
                MethodOption::Series.method_names()
            )));
        }
        if options.class_id == Some(true) {
            return Err(Error::job(
                "series: a release of a series publishes its cohorts, so class_id is not needed; leave it out",
            ));
        }
        if options.suppression_limit.is_some() {
            return Err(Error::job(
                "series: newcomers who fit nowhere wait for a later night, and nobody else is left out; leave \
                 suppression_limit out, and limit them with max_suppressed in [checks]",
            ));
        }
        if options.unit_share.is_some() {
            return Err(Error::job(
                "series: everybody has exactly one row, so nobody holds a larger share; leave unit_share out",
            ));
        }
        if job.output.format != Format::Parquet {
            return Err(Error::job(
                "series: rows of cohorts that are held are read from the last release, and only Parquet gives them back \
                 as they were; leave output.format out",
            ));
        }
        Ok(())
    }

    fn check_state(&self, job: &Job) -> Result<()> {
        let Self { state, .. } = self;
        if state.trim_matches('/').is_empty() || state.contains(['*', '?', '[', ']']) {
            return Err(Error::job(
                "series: state must name a directory or a prefix of its own, without *, ?, [ and ]",
            ));
        }
        if job.are_in_one_another(state, &job.output.path) {
            return Err(Error::job(format!(
                "series: the state '{state}' and the output '{}' are in one another: readers of the releases must not \
                 read who is in which cohort; choose a place that nobody else can read",
                job.output.path
            )));
        }
        match job.inputs.iter().find(|(_, input)| job.are_in_one_another(state, &input.path)) {
            None => Ok(()),
            Some((name, _)) => Err(Error::job(format!(
                "series: the state '{state}' and input '{name}' are in one another: choose another place"
            ))),
        }
    }
}
