//! The checks on a release that is one of a series, and what the operator knows of it.

use std::fmt;
use std::str::FromStr;

use datafusion::logical_expr::LogicalPlan;

use super::Options;
use super::roles::Roles;
use super::spec::{choices, choose};
use crate::error::{Error, Result};
use crate::model::series::{Changes, Leavers};

choices!("leavers", Leavers { "hold" => Hold, "withdraw" => Withdraw });
choices!("changes", Changes { "publish" => Publish, "never" => Never });
choices!("newcomers", Newcomers { "group" => Group, "wait" => Wait });
choices!("publish", SeriesOutput { "release" => Release, "members" => Members });

/// What happens to persons who are in no cohort.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum Newcomers {
    /// They are grouped among themselves, as far as the requirement allows.
    #[default]
    Group,
    /// They wait for a later release.
    Wait,
}

/// Which table of a series a query asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum SeriesOutput {
    /// The release.
    #[default]
    Release,
    /// The members of its new cohorts, to be kept in private.
    Members,
}

/// A release that is one of a series, checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct SeriesSpec {
    /// The members so far, by their position among the operator's tables.
    pub members: usize,
    /// The last release, by its position among the operator's tables.
    pub last: usize,
    /// Why the last release cannot be read; on the first night there is nothing in it to be read.
    pub unreadable: Option<String>,
    /// What happens to a cohort of which somebody is gone.
    pub leavers: Leavers,
    /// Whether changed values are published.
    pub changes: Changes,
    /// What happens to persons who are in no cohort.
    pub newcomers: Newcomers,
    /// Whether it is published of which cohorts somebody is gone.
    pub held: bool,
    /// Which table is wanted.
    pub output: SeriesOutput,
}

/// The column that says which rows are of one cohort.
pub(in crate::engine) const COHORT: &str = "cohort";
/// The column that says of which cohorts somebody is gone.
pub(in crate::engine) const HELD: &str = "held";
/// The column of pseudonyms in the state of a series.
pub(in crate::engine) const PERSON: &str = "person";

impl SeriesSpec {
    /// As in `[leavers=hold, changes=publish]`.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let Self { leavers, changes, newcomers, output, .. } = self;
        let mut entries = vec![("series", format!("[leavers={leavers}, changes={changes}]"))];
        if *newcomers != Newcomers::default() {
            entries.push(("newcomers", newcomers.to_string()));
        }
        if *output != SeriesOutput::default() {
            entries.push(("publish", output.to_string()));
        }
        entries
    }
}

impl Options {
    /// What was asked of a series, its tables put behind the others. `is_seeded` says whether somebody named the
    /// session's seed.
    pub(super) fn checked_series(
        &mut self,
        roles: &Roles,
        is_seeded: bool,
        tables: &mut Vec<LogicalPlan>,
    ) -> Result<Option<SeriesSpec>> {
        let Some(series) = self.series.take() else { return Ok(None) };
        self.check_goes_with_series(is_seeded)?;
        let held = self.held.unwrap_or(false);
        for (column, is_added) in [(COHORT, true), (HELD, held)] {
            if is_added && roles.publishes(column) {
                return Err(Error::invalid(format!(
                    "option 'series': the release has a column '{column}' of its own; rename the one in the input \
                     query"
                )));
            }
        }
        let first = tables.len();
        tables.push(series.members.into_plan()?);
        tables.push(series.last.into_plan()?);
        Ok(Some(SeriesSpec {
            members: first,
            last: first + 1,
            unreadable: None,
            leavers: self.leavers.get()?.unwrap_or_default(),
            changes: self.changes.get()?.unwrap_or_default(),
            newcomers: self.newcomers.get()?.unwrap_or_default(),
            held,
            output: self.publish.as_deref().map(str::parse).transpose()?.unwrap_or_default(),
        }))
    }

    /// Errors if an option is given that only means something in a series.
    pub(super) fn check_no_series(&self) -> Result<()> {
        let is_of_series =
            self.publish.as_deref().is_some_and(|publish| SeriesOutput::from_str(publish).is_ok());
        let given = [
            ("leavers", self.leavers.is_some()),
            ("changes", self.changes.is_some()),
            ("newcomers", self.newcomers.is_some()),
            ("held", self.held.is_some()),
            ("publish", is_of_series),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Error::invalid(format!(
                "option '{option}' is about releases that follow each other: write series => {{members: members, \
                 last: last_release}} too, or leave it out"
            ))),
            None => Ok(()),
        }
    }

    fn check_goes_with_series(&self, is_seeded: bool) -> Result<()> {
        let refused = |message: &str| Err(Error::invalid(format!("option 'series': {message}")));
        if self.privacy_unit.is_none() {
            return refused(
                "persons must be found again on every night: say which column tells them apart, as in \
                 privacy_unit => 'person_id'",
            );
        }
        if self.seed.is_none() && !is_seeded {
            return refused(
                "persons are found again under the seed, and one that is drawn is gone with the session: write \
                 seed => '…', the same on every night (openssl rand -hex 16 prints one)",
            );
        }
        if self.class_id.is_some() {
            return refused(
                "its release has the column 'cohort' in place of class_id: leave class_id out",
            );
        }
        if self.unit_share.is_some() {
            return refused(
                "every person has one row, so nobody holds more than 1/k: leave unit_share out",
            );
        }
        if self.suppression_limit.is_some() {
            return refused(
                "newcomers who fit nowhere wait for a later night: leave suppression_limit out; persons_waiting \
                 in EXPLAIN ANALYZE counts them",
            );
        }
        Ok(())
    }
}
