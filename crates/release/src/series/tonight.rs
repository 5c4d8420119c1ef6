//! A night of a series, from the state that the pointer names to the one that the next pointer names.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::TableReference;
use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::{SessionContext, col, lit};
use datafusion_anonymize::Newcomers;

use super::figures::Figures;
use super::folder::Folder;
use super::state::{CLAIM, Claim, NEW_SERIES_COST, Night, Segment, State};
use super::{members, once};
use crate::checksum::sha256;
use crate::current::{check_files, register_release};
use crate::error::{Error, Result};
use crate::job::{Job, Series};
use crate::manifest::{self, Manifest};
use crate::place::is_release;
use crate::sql::{LAST, MEMBERS, NEWCOMERS};

/// The last release as it was written, with cohorts that somebody had withdrawn.
const LAST_RELEASE: &str = "__last_release";

/// What a night begins with.
pub(crate) struct Begin<'a> {
    /// The name of the run and of its release.
    pub(crate) release: &'a str,
    /// What the pointer of the output says.
    pub(crate) found: Option<&'a Manifest>,
    /// Whether another series starts, whatever was before.
    pub(crate) new_series: bool,
    /// Where a trial writes, a URL with a slash at its end, instead of to the state.
    pub(crate) scratch: Option<&'a str>,
}

/// A series with tonight's release.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    state: State,
    /// The file of the state.
    text: String,
    /// What the manifest tells.
    pub(crate) facts: manifest::Series,
}

/// A night that is about to be added to a series.
#[derive(Debug)]
pub(crate) struct Tonight {
    folder: Folder,
    /// Where a trial writes.
    scratch: Option<Folder>,
    section: Series,
    run: String,
    claim: Option<Claim>,
    /// The series as it was, without nights if it is new.
    pub(super) before: State,
    /// The files that the pointer needs, unless they cannot be told.
    needed: Option<Vec<String>>,
}

impl Tonight {
    /// Reads and verifies what the pointer names, and makes it known to the session as [`MEMBERS`] and [`LAST`].
    pub(crate) async fn open(
        job: &Job,
        context: &SessionContext,
        begin: Begin<'_>,
    ) -> Result<Self> {
        let section = job.series()?.clone();
        let Begin { release, found, new_series, scratch } = begin;
        let folder = Folder::new(&context.runtime_env(), &job.locate(&section.state))?;
        let claim = read_claim(&folder, job).await?;
        let current = found.and_then(|found| Some((found, found.series.as_ref()?)));
        let (before, needed) = match (found, current) {
            (Some(_), None) if !new_series => return Err(holds_plain_releases(job)),
            (_, Some((manifest, facts))) if !new_series => {
                let state = read(&folder, claim.as_ref(), facts).await?;
                state.check_continues(job)?;
                members::verify(&folder, &state.segments).await?;
                check_files(context, &job.locate(&job.output.path), manifest).await?;
                let needed = Some(state.files(&facts.state));
                (state, needed)
            }
            (_, current) => {
                check_unpublished(job, claim.as_ref(), current.map(|(_, facts)| facts))?;
                // Without a pointer nothing in the folder was ever published; otherwise the old series needs its files
                // until the new one is.
                let mut first = State::first(job, release)?;
                first.replaces = claim.as_ref().and_then(Claim::series).map(str::to_owned);
                (first, found.is_none().then(Vec::new))
            }
        };
        let run = release.to_owned();
        let scratch = scratch.map(|url| Folder::new(&context.runtime_env(), url)).transpose()?;
        let tonight = Self { folder, scratch, section, run, claim, before, needed };
        tonight.register(job, context, found).await?;
        Ok(tonight)
    }

    /// The number of this night, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.before.nights.len() as u64 + 1
    }

    /// What somebody should know of the first night of a series that nobody asked to begin anew: it may not be the first.
    pub(crate) fn note(&self) -> Option<String> {
        let Self { before, section, .. } = self;
        before.nights.is_empty().then(|| {
            format!(
                "a series begins: there was no release at the output and nothing in the state '{}'. If both held a series \
                 before, bring them back: releases of the two can be compared",
                section.state
            )
        })
    }

    /// What becomes of newcomers tonight.
    pub(crate) fn newcomers(&self) -> Newcomers {
        match self.section.groups_newcomers(self.number()) {
            true => Newcomers::Group,
            false => Newcomers::Wait,
        }
    }

    async fn register(
        &self,
        job: &Job,
        context: &SessionContext,
        found: Option<&Manifest>,
    ) -> Result<()> {
        let failed = |error| Error::query("the last release", error);
        for name in [MEMBERS, LAST] {
            context.deregister_table(TableReference::bare(name)).map_err(failed)?;
        }
        members::register(context, MEMBERS, &self.folder, &self.before.segments)?;
        let table = found.and_then(|found| found.tables.first());
        let Some(table) = table.filter(|_| !self.before.nights.is_empty()) else {
            return register_nothing(context, LAST);
        };
        register_release(context, &job.locate(&job.output.path), table, LAST_RELEASE).await?;
        let mut last = context.table(TableReference::bare(LAST_RELEASE)).await.map_err(failed)?;
        if !self.before.withdrawn.is_empty() {
            let withdrawn = self.before.withdrawn.iter().map(|cohort| lit(*cohort)).collect();
            last = last.filter(col("cohort").in_list(withdrawn, true)).map_err(failed)?;
        }
        context.register_table(TableReference::bare(LAST), last.into_view()).map_err(failed)?;
        Ok(())
    }

    /// Claims the folder and removes what no pointer needs. Whoever calls holds the lock; `knows_strays` unless it was
    /// taken from a run that may still be about to publish.
    pub(crate) async fn tidy(&self, knows_strays: bool) -> Result<()> {
        self.folder.prepare(|name| is_ours(name) || is_claim(name))?;
        if self.claim.is_none() {
            let claim = Claim::new(&self.before.job, None).to_json()?;
            self.folder.write(CLAIM, &claim).await?;
        }
        match &self.needed {
            Some(needed) if knows_strays => remove_strays(&self.folder, needed).await,
            _ => Ok(()),
        }
    }

    /// Writes the persons of tonight's new cohorts, and makes them known to the session as [`NEWCOMERS`].
    pub(crate) async fn write_newcomers(
        &self,
        context: &SessionContext,
        rows: SendableRecordBatchStream,
    ) -> Result<Option<Segment>> {
        let failed = |error| Error::query("writing the state of the series", error);
        let rows = once::frame(context, rows).map_err(failed)?;
        let folder = self.scratch.as_ref().unwrap_or(&self.folder);
        let segment = members::write(folder, &State::segment(&self.run), rows).await?;
        members::register(context, NEWCOMERS, folder, segment.as_slice())?;
        Ok(segment)
    }

    /// The series with this night.
    pub(crate) fn record(&self, figures: &Figures, segment: Option<Segment>) -> Result<Recorded> {
        let mut state = self.before.clone();
        state.release.clone_from(&self.run);
        state.version += 1;
        state.segments.extend(segment);
        let counted = figures.counted;
        state.nights.push(Night {
            release: self.run.clone(),
            cohorts: figures.cohorts_ever,
            live: figures.live(),
            held: counted.cohorts_held,
            persons: figures.persons,
            waiting: counted.persons_waiting,
        });
        let text = state.to_json()?;
        let facts = manifest::Series {
            id: state.series.clone(),
            night: self.number(),
            state: State::file(&self.run),
            state_sha256: sha256(text.as_bytes()),
            leavers: self.section.leavers,
            changes: self.section.changes,
            cohorts: figures.cohorts,
            cohorts_held: counted.cohorts_held,
            rows_held: counted.rows_held,
            persons_waiting: counted.persons_waiting,
        };
        Ok(Recorded { state, text, facts })
    }

    /// Writes the state that the pointer is going to name.
    pub(crate) async fn save(&self, recorded: &Recorded) -> Result<()> {
        self.folder.write(&recorded.facts.state, &recorded.text).await
    }

    /// Removes what this run has written, which no pointer names.
    pub(crate) async fn discard(&self) -> Result<()> {
        self.folder.remove(&State::file(&self.run)).await?;
        self.folder.remove(&State::segment(&self.run)).await
    }

    /// What remains to do when the pointer names the state.
    pub(crate) async fn published(&self, recorded: &Recorded) -> Result<()> {
        settle(&self.folder, &recorded.state, &recorded.facts.state).await
    }
}

/// Says that a state is published, and removes those before it.
pub(super) async fn settle(folder: &Folder, state: &State, file: &str) -> Result<()> {
    folder.write(CLAIM, &Claim::new(&state.job, Some(state)).to_json()?).await?;
    remove_strays(folder, &state.files(file)).await
}

async fn remove_strays(folder: &Folder, needed: &[String]) -> Result<()> {
    for name in folder.names().await? {
        if is_ours(&name) && !needed.contains(&name) {
            folder.remove(&name).await?;
        }
    }
    Ok(())
}

/// Whether a name is one that a run gives: nothing else is ever removed.
fn is_ours(name: &str) -> bool {
    // A file that a writer had not finished ends in # and a number.
    let unfinished = name.rsplit_once('#').map_or(name, |(finished, _)| finished);
    let state = unfinished.trim_start_matches('.').trim_end_matches(".new");
    let run = |start: &str, end: &str| state.strip_prefix(start)?.strip_suffix(end);
    run("series-", ".json").or_else(|| run("members-", ".parquet")).is_some_and(is_release)
}

/// Whether a name is that of the claim, finished or not.
fn is_claim(name: &str) -> bool {
    name.trim_start_matches('.').trim_end_matches(".new") == CLAIM
}

impl State {
    /// The files that a pointer to this state needs.
    pub(super) fn files(&self, own: &str) -> Vec<String> {
        let segments = self.segments.iter().map(|segment| segment.file.clone());
        segments.chain([own.to_owned()]).collect()
    }
}

fn register_nothing(context: &SessionContext, name: &str) -> Result<()> {
    let cohort = Field::new("cohort", DataType::Int64, false);
    let table = Arc::new(EmptyTable::new(Arc::new(Schema::new(vec![cohort]))));
    let registered = context.register_table(TableReference::bare(name), table);
    registered.map(drop).map_err(|error| Error::query("the series", error))
}

/// The tables of a series that has not begun, to plan a release before anything is read.
pub(crate) fn register_empty(context: &SessionContext) -> Result<()> {
    let members = Arc::new(EmptyTable::new(members::schema()));
    let registered = context.register_table(TableReference::bare(MEMBERS), members);
    registered.map_err(|error| Error::query("the series", error))?;
    register_nothing(context, LAST)
}

async fn read_claim(folder: &Folder, job: &Job) -> Result<Option<Claim>> {
    let Some(bytes) = folder.read(CLAIM).await? else { return Ok(None) };
    let claim = Claim::from_json(&bytes, &folder.url(CLAIM))?;
    match claim.job == job.name {
        true => Ok(Some(claim)),
        false => Err(Error::job(format!(
            "series: '{}' holds the state of the job '{}': give '{}' a folder of its own",
            folder.shown(),
            claim.job,
            job.name
        ))),
    }
}

/// The state that a pointer names, as it was written.
pub(super) async fn read_current(
    folder: &Folder,
    job: &Job,
    facts: &manifest::Series,
) -> Result<State> {
    let claim = read_claim(folder, job).await?;
    read(folder, claim.as_ref(), facts).await
}

async fn read(folder: &Folder, claim: Option<&Claim>, facts: &manifest::Series) -> Result<State> {
    let place = folder.shown();
    let Some(bytes) = folder.read(&facts.state).await? else {
        return Err(unusable(place, &format!("'{}' is missing", facts.state)));
    };
    if sha256(&bytes) != facts.state_sha256 {
        return Err(unusable(place, &format!("'{}' is not what was written", facts.state)));
    }
    let state = State::from_json(&bytes, &folder.url(&facts.state))?;
    let Some(published) = claim.and_then(|claim| claim.published.as_ref()) else {
        return Ok(state);
    };
    // A run that ended right after its first release is published has not said so.
    let is_first = state.replaces.as_ref() == Some(&published.series);
    let is_known = published.series == state.series && published.version <= state.version;
    match is_known || is_first {
        true => Ok(state),
        false => Err(Error::Failed(format!(
            "the release at the output is older than the state of the series at '{place}', as if it was brought back from \
             somewhere: those who came meanwhile would get other cohorts. Bring back the last release, or start another \
             series in another folder with --new-series, but {NEW_SERIES_COST}"
        ))),
    }
}

fn unusable(place: &str, why: &str) -> Error {
    Error::Failed(format!(
        "the state of the series at '{place}' does not belong to the current release: {why}. Without it everybody would be \
         taken for a newcomer and releases could be compared. Bring the folder back as it was after the last run; if that \
         is not possible, --new-series starts another series, but {NEW_SERIES_COST}"
    ))
}

fn holds_plain_releases(job: &Job) -> Error {
    Error::job(format!(
        "the output '{}' holds plain releases, and the first release of a series can be compared with the last of them. \
         Give the series an output of its own, or start it here with --new-series, but {NEW_SERIES_COST}",
        job.output.path
    ))
}

/// Another series may only start in a folder whose series, if there is one, is that of the pointer.
fn check_unpublished(
    job: &Job,
    claim: Option<&Claim>,
    current: Option<&manifest::Series>,
) -> Result<()> {
    let published = claim.and_then(|claim| claim.published.as_ref());
    let foreign =
        published.filter(|published| current.is_none_or(|current| current.id != published.series));
    match (foreign, &job.series) {
        (Some(published), Some(section)) => Err(Error::job(format!(
            "series: '{}' holds the state of series {}, and the output '{}' no release of it. If its releases are lost, \
             bring the last one back; if the job shall begin another series, name another folder",
            section.state, published.series, job.output.path
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_runs_are_strays() {
        for name in [
            "series-20261116T020000Z-0000000a.json",
            ".series-20261116T020000Z-0000000a.json.new",
            "members-20261116T020000Z-0000000a.parquet",
            "members-20261116T020000Z-0000000a.parquet#1",
        ] {
            assert!(is_ours(name), "{name}");
        }
        for name in [
            "state.json",
            "series-1.json",
            "members.parquet",
            "series-20261116T020000Z-0000000a.txt",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
