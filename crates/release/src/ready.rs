//! Whether a job can run: what is found without computing a release.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion_anonymize::{Newcomers, check_may_be_written};

use crate::error::{Error, Result};
use crate::job::Job;
use crate::manifest::Manifest;
use crate::place::{Place, new_release};
use crate::series::{Begin, Tonight, register_empty};
use crate::session;
use crate::write::plan;

/// Looks up the inputs of a job and plans its release, without reading rows: the columns that it would publish.
pub async fn plan_release(job: &Job, host: &SessionContext) -> Result<SchemaRef> {
    job.check()?;
    let Prepared { planned, .. } = prepare(job, host).await?;
    let schema = Arc::clone(planned.schema().inner());
    let physical = planned.create_physical_plan().await;
    physical.map_err(|error| Error::planning("anonymize", error))?;
    Ok(schema)
}

/// Whether a job that has released goes on from there: the output is its own, and the state of its series is whole and of
/// the same seed and options. Rows are read to compare checksums, and nothing is written.
pub async fn check_goes_on(job: &Job, host: &SessionContext) -> Result<()> {
    job.check()?;
    let Prepared { job, context, .. } = prepare(job, host).await?;
    let place = Place::new(&context.runtime_env(), &job.locate(&job.output.path))?;
    let found = place.find().await?.manifest;
    check_found(&job, found.as_ref())?;
    if job.series.is_some() {
        let release = &new_release()?;
        let begin = Begin { release, found: found.as_ref(), new_series: false, scratch: None };
        Tonight::open(&job, &context, begin).await?;
    }
    Ok(())
}

/// A job that can run.
pub(crate) struct Prepared {
    /// The job with its columns as the rows spell them, and its seed.
    pub(crate) job: Job,
    pub(crate) context: SessionContext,
    pub(crate) planned: DataFrame,
}

/// Looks up the inputs of a job and plans its release.
pub(crate) async fn prepare(job: &Job, host: &SessionContext) -> Result<Prepared> {
    let (context, mut job) = session::open(job, host).await?;
    job.reveal_seed()?;
    if job.series.is_some() {
        register_empty(&context)?;
    }
    let planned = plan(&job, &context, Newcomers::Group).await?;
    let checked = check_may_be_written(planned.logical_plan(), context.copied_config().options());
    checked.map_err(|error| Error::planning("[anonymize]", error))?;
    Ok(Prepared { job, context, planned })
}

/// Whether the releases at the output are those of the job, and a series goes on as one.
pub(crate) fn check_found(job: &Job, found: Option<&Manifest>) -> Result<()> {
    let Some(last) = found else { return Ok(()) };
    let Job { name, output, .. } = job;
    if last.name != *name {
        return Err(Error::job(format!(
            "the output '{}' holds the releases of the job '{}': give '{name}' an output of its own, or, if it is the same \
             job, its name",
            output.path, last.name
        )));
    }
    if last.series.is_some() && job.series.is_none() {
        return Err(Error::job(format!(
            "the output '{}' holds a series, and a plain release could be compared with its last one: write [series] \
             with its state again, or give the job an output of its own",
            output.path
        )));
    }
    Ok(())
}
