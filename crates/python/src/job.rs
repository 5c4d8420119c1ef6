//! Release jobs, and the page about a release.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anonymize_release::report::{Source, report};
use anonymize_release::{Job, Observer, Phase, RunOptions, rows_read, rows_to_read, run_until};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use pyo3::prelude::*;

use crate::failure::Failure;
use crate::runtime::{Nobody, Watch, wait, wait_for_end};

/// What became of a run: the manifest as JSON, and what somebody should look at.
pub type Summary = (String, Vec<String>);

/// Runs a job file with the limits and object stores of a session.
pub fn run_job(
    py: Python<'_>,
    host: &SessionContext,
    path: &Path,
    options: &RunOptions,
    progress: Option<Py<PyAny>>,
) -> Result<Summary, Failure> {
    let job = Job::read(path)?;
    let seen = Arc::new(Seen::default());
    let observer = Arc::clone(&seen) as Arc<dyn Observer>;
    let mut teller = Teller { callback: progress, seen, told: None };
    let outcome = wait_for_end(py, &mut teller, |stop| async {
        // Without somebody who could stop it the run goes on.
        let stopped = async {
            if stop.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Ok(run_until(&job, host, RunOptions { observer, ..options.clone() }, stopped).await?)
    })?;
    let mut notes = outcome.notes;
    if job.anonymize.seed.is_none() {
        notes.push(
            "no seed, so every run groups ties in another way; who compares two releases of the same rows learns more \
             than from one. Write seed = { env = \"…\" }"
                .to_owned(),
        );
    }
    Ok((outcome.manifest.to_json()?, notes))
}

/// Makes the page about a release.
pub fn page(py: Python<'_>, host: &SessionContext, source: &Source) -> Result<String, Failure> {
    wait(py, &mut Nobody, || async { Ok(report(source, host).await?) })
}

/// What a run has told of itself.
#[derive(Default)]
struct Seen {
    phase: Mutex<Option<Phase>>,
    plan: Mutex<Option<Arc<dyn ExecutionPlan>>>,
}

impl Observer for Seen {
    fn phase(&self, phase: Phase) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Some(phase);
    }

    fn running(&self, plan: &Arc<dyn ExecutionPlan>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(plan));
    }
}

/// A callback that is told the phase, how many rows were read in it, and of how many.
struct Teller {
    callback: Option<Py<PyAny>>,
    seen: Arc<Seen>,
    told: Option<(String, usize)>,
}

impl Watch for Teller {
    fn look(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(callback) = &self.callback else { return Ok(()) };
        let phase = *self.seen.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(phase) = phase else { return Ok(()) };
        let plan = self.seen.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let read = plan.as_ref().map_or(0, |plan| rows_read(plan.as_ref()));
        let rows = plan.and_then(|plan| rows_to_read(plan.as_ref()));
        let news = Some((phase.to_string(), read));
        if self.told != news {
            self.told = news;
            callback.call1(py, (phase.to_string(), read, rows))?;
        }
        Ok(())
    }
}
