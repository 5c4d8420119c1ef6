//! Somebody is forgotten: a random number takes the place of the hash in the state.
//!
//! The cohort can never be whole again, so it is held for ever (or left out, if the series withdraws such cohorts).

use datafusion::common::{ScalarValue, TableReference};
use datafusion::logical_expr::when;
use datafusion::prelude::{Expr, SessionContext, col, ident, lit};
use datafusion_anonymize::person_in_series;

use super::folder::Folder;
use super::members;
use super::state::{Segment, State};
use super::status::folder;
use super::tonight::{read_current, settle};
use crate::checksum::sha256;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::manifest::Manifest;
use crate::place::{Found, Lock, Place, Unpublished, new_release};
use crate::session;
use crate::sql::ORIGINAL;

/// A segment in the session of somebody who forgets.
const SEGMENT: &str = "__segment";

/// What became of somebody who is forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// Whether the cohort is left out from the next release on.
    pub is_withdrawn: bool,
    /// What somebody should look at.
    pub notes: Vec<String>,
}

/// Cohorts of persons who were forgotten, which the next release leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawn {
    /// How many more there are now.
    pub cohorts: usize,
    /// What somebody should look at.
    pub notes: Vec<String>,
}

/// What becomes of a state.
enum Change {
    Forget { person: [u8; 16], withdraw: bool },
    WithdrawForgotten,
}

/// Takes a person out of the state of a series, and the cohort out of the next release if it shall be withdrawn.
///
/// The current release and its copies are not touched: it is replaced when the job runs again.
pub async fn forget(
    job: &Job,
    host: &SessionContext,
    key: &str,
    withdraw: bool,
) -> Result<Forgotten> {
    let (context, job) = open(job, host).await?;
    let person = person(&job, &context, key).await?;
    let changed = change(&job, &context, Change::Forget { person, withdraw }).await?;
    Ok(Forgotten { is_withdrawn: withdraw, notes: changed.notes })
}

/// Leaves the cohorts of all who were forgotten out of the next release, and of all that come after it.
///
/// The current release and its copies are not touched: it is replaced when the job runs again.
pub async fn withdraw_forgotten(job: &Job, host: &SessionContext) -> Result<Withdrawn> {
    let (context, job) = open(job, host).await?;
    change(&job, &context, Change::WithdrawForgotten).await
}

async fn open(job: &Job, host: &SessionContext) -> Result<(SessionContext, Job)> {
    job.check()?;
    let (context, mut job) = session::open(job, host).await?;
    job.reveal_seed()?;
    Ok((context, job))
}

async fn change(job: &Job, context: &SessionContext, change: Change) -> Result<Withdrawn> {
    let folder = folder(job, context)?;
    let run = new_release()?;
    let place = Place::new(&context.runtime_env(), &job.locate(&job.output.path))?;
    let lock = place.lock(&run).await?;
    let forgetting = Forgetting { job, context, place: &place, lock: &lock, folder, run };
    let changed = forgetting.run(change).await;
    lock.release().await;
    changed
}

/// The hash of a person by the key, as the rows write it. An error while there are rows of that person: who is forgotten and
/// still there is a newcomer the next night, beside the old row in the old cohort.
async fn person(job: &Job, context: &SessionContext, key: &str) -> Result<[u8; 16]> {
    let failed = |error| Error::query("looking for the person", error);
    let Some(unit) = &job.anonymize.privacy_unit else {
        return Err(Error::job(
            "series: privacy_unit is missing; write privacy_unit = \"person_id\" in [anonymize]",
        ));
    };
    let rows = context.table(TableReference::bare(ORIGINAL)).await.map_err(failed)?;
    let field = rows.schema().as_arrow().field_with_name(unit).map_err(|_| {
        Error::job(format!("privacy_unit names '{unit}', and the rows have no such column"))
    })?;
    let key = ScalarValue::Utf8(Some(key.to_owned())).cast_to(field.data_type()).map_err(|_| {
        Error::job(format!(
            "the key is no {} as column '{unit}' holds them: write it as the rows do",
            field.data_type()
        ))
    })?;
    let hash = person_in_series(job.series_secret()?, &key).map_err(failed)?;
    let same = rows.filter(ident(unit).eq(lit(key))).map_err(failed)?;
    match same.count().await.map_err(failed)? {
        0 => Ok(hash),
        _ => Err(Error::Failed(
            "the person is still among the rows that the job reads, and would be a newcomer the next night: remove those \
             rows, or leave them out with query, then forget the person"
                .to_owned(),
        )),
    }
}

/// A state that is about to lose somebody.
struct Forgetting<'a> {
    job: &'a Job,
    context: &'a SessionContext,
    place: &'a Place,
    lock: &'a Lock,
    folder: Folder,
    run: String,
}

impl Forgetting<'_> {
    async fn run(&self, change: Change) -> Result<Withdrawn> {
        let Self { job, place, folder, run, .. } = self;
        let found = place.find().await?;
        let current = found.manifest.as_ref();
        let current = current.and_then(|manifest| Some((manifest, manifest.series.as_ref()?)));
        let Some((manifest, facts)) = current else {
            return Err(Error::Failed(format!(
                "there is no release of a series at '{}' yet, so nobody is remembered",
                job.output.path
            )));
        };
        let mut state = read_current(folder, job, facts).await?;
        state.check_continues(job)?;
        members::verify(folder, &state.segments).await?;
        let before = state.withdrawn.len();
        match change {
            Change::Forget { person, withdraw } => {
                let cohort = self.forget(&mut state, person).await?;
                state.lose(cohort, withdraw);
            }
            Change::WithdrawForgotten => state.withdraw_forgotten()?,
        }
        state.version += 1;
        let published = self.publish(&found, &state, manifest).await;
        if let Err(Unpublished { error, is_uncertain }) = published {
            if !is_uncertain {
                // What stays is a stray that the next run removes.
                let _ = folder.remove(&State::file(run)).await;
                let _ = folder.remove(&State::segment(run)).await;
            }
            return Err(error);
        }
        let settled = settle(folder, &state, &State::file(run)).await;
        let notes = settled.err().map(|error| {
            format!(
                "the old files could not be removed, and the next run of the job does that: {error}"
            )
        });
        let cohorts = state.withdrawn.len() - before;
        Ok(Withdrawn { cohorts, notes: notes.into_iter().collect() })
    }

    /// Takes a person out of the segments, and returns the cohort.
    async fn forget(&self, state: &mut State, person: [u8; 16]) -> Result<i64> {
        let Some((at, cohort)) = self.find(&state.segments, person).await? else {
            return Err(Error::Failed(
                "nobody with this key has a cohort, so there is nothing to forget; persons who wait are not remembered, and \
                 of those who were forgotten `anonymize series withdraw` leaves out the cohorts"
                    .to_owned(),
            ));
        };
        state.segments[at] = self.rewrite(&state.segments[at], person).await?;
        Ok(cohort)
    }

    async fn publish(
        &self,
        found: &Found,
        state: &State,
        manifest: &Manifest,
    ) -> Result<(), Unpublished> {
        let text = state.to_json()?;
        let file = State::file(&self.run);
        self.folder.write(&file, &text).await?;
        let mut manifest = manifest.clone();
        if let Some(facts) = &mut manifest.series {
            (facts.state, facts.state_sha256) = (file, sha256(text.as_bytes()));
        }
        self.place.point_to(self.lock, found, &manifest, &self.run).await
    }

    /// The segment that holds a person, and the cohort.
    async fn find(&self, segments: &[Segment], person: [u8; 16]) -> Result<Option<(usize, i64)>> {
        let failed = |error| Error::query("looking for the person", error);
        for (at, segment) in segments.iter().enumerate() {
            self.register(segment)?;
            let rows = self.context.table(TableReference::bare(SEGMENT)).await.map_err(failed)?;
            let rows = rows.filter(col("person").eq(hash(person))).map_err(failed)?;
            let batches = rows.collect().await.map_err(failed)?;
            if let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) {
                let cohort = ScalarValue::try_from_array(batch.column(1), 0).map_err(failed)?;
                let ScalarValue::Int64(Some(cohort)) = cohort else { continue };
                return Ok(Some((at, cohort)));
            }
        }
        Ok(None)
    }

    /// The segment with a random number in the place of the person.
    async fn rewrite(&self, segment: &Segment, person: [u8; 16]) -> Result<Segment> {
        let failed = |error| Error::query("writing the state of the series", error);
        let mut random = [0u8; 16];
        getrandom::fill(&mut random)
            .map_err(|_| Error::Failed("the operating system gave no randomness".to_owned()))?;
        self.register(segment)?;
        let rows = self.context.table(TableReference::bare(SEGMENT)).await.map_err(failed)?;
        let replaced = when(col("person").eq(hash(person)), hash(random)).otherwise(col("person"));
        let replaced = replaced.map_err(failed)?.alias("person");
        // In the order of hashes, so that its place tells nothing.
        let rows = rows
            .select([replaced, col("cohort")])
            .and_then(|rows| rows.sort_by(vec![col("person")]))
            .map_err(failed)?;
        let written = members::write(&self.folder, &State::segment(&self.run), rows).await?;
        match written.filter(|written| written.rows == segment.rows) {
            Some(written) => Ok(written),
            None => Err(Error::Failed(
                "the state of the series: a segment was not written whole; run the command again"
                    .to_owned(),
            )),
        }
    }

    fn register(&self, segment: &Segment) -> Result<()> {
        let removed = self.context.deregister_table(TableReference::bare(SEGMENT));
        removed.map_err(|error| Error::query("the state of the series", error))?;
        members::register(self.context, SEGMENT, &self.folder, std::slice::from_ref(segment))
    }
}

fn hash(person: [u8; 16]) -> Expr {
    lit(ScalarValue::FixedSizeBinary(16, Some(person.to_vec())))
}
