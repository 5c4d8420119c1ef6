//! How a series stands, from its pointer and its state. No rows are read and no seed is needed.

use datafusion::prelude::SessionContext;

use super::folder::Folder;
use super::state::{Night, State};
use super::tonight::read_current;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::manifest::{self, Manifest};
use crate::place::Place;

/// How a series stands.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its current release, as the manifest tells it.
    pub current: manifest::Series,
    /// All nights so far.
    pub nights: Vec<Night>,
    /// Cohorts that somebody had withdrawn by name.
    pub withdrawn_on_request: u64,
    /// The share of live cohorts below which the job stops, if it names one.
    pub min_live: Option<f64>,
}

impl Status {
    /// How many more nights the share of live cohorts stays above a limit, if it goes on falling as it did. None if it
    /// does not fall, or if two nights are too few to tell.
    pub fn nights_left(&self, limit: f64) -> Option<f64> {
        let (first, last) = (self.nights.first()?, self.nights.last()?);
        let nights = self.nights.len().checked_sub(1).filter(|nights| *nights > 0)? as f64;
        let (from, to) = (first.live_share(), last.live_share());
        if to <= limit {
            return Some(0.0);
        }
        // What leaves is a share of what is there, so it falls like a power.
        let rate = (from.ln() - to.ln()) / nights;
        (rate > 0.0 && limit > 0.0).then(|| (to.ln() - limit.ln()) / rate)
    }
}

/// Reads the status of the series of a job.
pub async fn status(job: &Job, host: &SessionContext) -> Result<Status> {
    let place = Place::new(&host.runtime_env(), &job.locate(&job.output.path))?;
    let manifest = place.find().await?.manifest;
    let (state, current) = current_state(job, host, manifest.as_ref()).await?;
    Ok(Status {
        current,
        nights: state.nights,
        withdrawn_on_request: state.withdrawn.len() as u64,
        min_live: job.checks.min_live,
    })
}

/// All nights of a series so far, for whoever may read its state.
pub async fn history(job: &Job, host: &SessionContext, manifest: &Manifest) -> Result<Vec<Night>> {
    let (state, _) = current_state(job, host, Some(manifest)).await?;
    Ok(state.nights)
}

async fn current_state(
    job: &Job,
    host: &SessionContext,
    manifest: Option<&Manifest>,
) -> Result<(State, manifest::Series)> {
    let folder = folder(job, host)?;
    let facts = manifest.and_then(|manifest| manifest.series.clone()).ok_or_else(|| {
        Error::Failed(format!(
            "there is no release of a series at '{}' yet: run the job first",
            job.output.path
        ))
    })?;
    let state = read_current(&folder, job, &facts).await?;
    Ok((state, facts))
}

/// The folder that the job names.
pub(super) fn folder(job: &Job, host: &SessionContext) -> Result<Folder> {
    Folder::new(&host.runtime_env(), &job.locate(&job.series()?.state))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use datafusion_anonymize::{Changes, Leavers};

    fn status(live: &[u64]) -> Status {
        let night = |live: &u64| Night {
            release: "x".to_owned(),
            cohorts: 100,
            live: *live,
            held: 100 - live,
            persons: 1000,
            waiting: 3,
        };
        let current = manifest::Series {
            id: "x".to_owned(),
            night: live.len() as u64,
            state: "series-x.json".to_owned(),
            state_sha256: String::new(),
            leavers: Leavers::Hold,
            changes: Changes::Publish,
            cohorts: 100,
            cohorts_held: 0,
            rows_held: 0,
            persons_waiting: 3,
        };
        Status {
            current,
            nights: live.iter().map(night).collect(),
            withdrawn_on_request: 0,
            min_live: None,
        }
    }

    #[test]
    fn the_decay_tells_when_another_series_is_due() {
        // Half is gone after four nights, so half of that after four more.
        let left = status(&[100, 84, 71, 59, 50]).nights_left(0.25).unwrap();
        assert!((left - 4.0).abs() < 0.01, "{left}");
        assert_eq!(status(&[100, 50]).nights_left(0.5), Some(0.0));
        assert_eq!(status(&[100, 100]).nights_left(0.5), None);
        assert_eq!(status(&[100]).nights_left(0.5), None);
    }
}
