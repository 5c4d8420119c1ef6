//! A release that is one of a series: persons stay in their cohorts, see [`crate::model::series`].
//!
//! ```text
//!  members          input               last
//!     │               │                   │
//!  verify cohorts   read, encode          │        the state, in memory or in a file
//!     └───────┬───────┘                   │
//!        who is here?                     │        by the hash of each person
//!        ├ newcomers ─► method            │        new cohorts, or they wait
//!        └ cohorts: all here?
//!             no ─► rows of the last release ◄┤    read once, verified, kept where they are needed
//!             yes ─► tonight's rows           │
//!              └ requirement fails: values of ┘    in tonight's ranges
//!        verify, emit in the order of ids
//! ```
//!
//! Rows of the last release that are published again are numbered behind tonight's and wait, spill and leave like them:
//! neither their place, nor the batch they are in, nor a dictionary tells them from others.

mod arrangement;
mod checks;
mod last;
mod members;
mod newcomers;
mod night;
mod person;

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, stream};

pub use self::person::person_in_series;

use self::members::Incoming;
use self::night::Night;
use super::emit::BatchStream;
use super::memory::{Emitting, ReleaseMemory};
use super::pipeline::{
    CancelOnDrop, Release, Resolved, Source, guarded, projected_form, thread_pool,
};
use super::{AnonymizeExec, full_schema};
use crate::columnar::{Coding, MemberColumns, OutputColumn, Reader, ReleaseForm};
use crate::engine::mark_redacted;
use crate::engine::operator::running;
use crate::engine::options::{SeriesOutput, SeriesSpec, Spec};
use crate::engine::plan::Binding;
use crate::model::series::Member;

/// A verified night whose rows may leave.
pub(super) struct Prepared {
    release: Release,
    memory: Arc<ReleaseMemory<Emitting>>,
    members: Arc<Vec<Member>>,
}

/// Everything up to the first row.
pub(super) async fn prepare(release: Release, source: &Source) -> Result<Prepared> {
    form_night(release, source).await.map_err(|error| match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => error.context(
            "a night of a series needs more memory than its pool has left: raise the limit, as in SET \
             datafusion.runtime.memory_limit = '8G', or let fewer queries run beside it",
        ),
        _ => error,
    })
}

async fn form_night(release: Release, source: &Source) -> Result<Prepared> {
    let Some(series) = release.spec.series.clone() else {
        return internal_err!("a release without a series");
    };
    let resolved = Resolved::read(&release.spec, &source.tables, &release.context).await?;
    let incoming = Incoming::read(&release, &source.tables[series.members]).await?;
    let more = source.tables[series.last].output_partitioning().partition_count();
    let (readers, memory) = release.read(&source.input, more).await?;
    let handle = tokio::runtime::Handle::current();
    let source = source.clone();
    running(move || {
        let memory = memory.arrange(handle.clone());
        let form = || {
            check_nobody(&release.spec, &readers)?;
            let timer = release.metrics.partition_time.timer();
            let state = incoming.into_state(&release, &memory, &handle)?;
            timer.done();
            let timer = release.metrics.encode_time.timer();
            let coding =
                Coding::new(&release.layout, &readers, &resolved.hierarchies, &release.cancel);
            drop(readers);
            timer.done();
            let night = Night {
                release: &release,
                source: &source,
                series: &series,
                resolved: &resolved,
                state: &state,
                handle: &handle,
            };
            let verified = night.form(coding?, memory)?;
            drop(state);
            verified.ready(&release)
        };
        let (memory, members) = thread_pool(release.threads)?.install(form)?;
        Ok(Prepared { release, memory, members: Arc::new(members) })
    })
    .await
}

/// Somebody without a key could not be found again.
fn check_nobody(spec: &Spec, readers: &[Reader]) -> Result<()> {
    let nobody: usize = readers.iter().map(Reader::nobody).sum();
    match &spec.privacy_unit {
        Some(unit) if nobody > 0 => exec_err!(
            "privacy_unit '{}' is NULL in {nobody} rows, whose persons cannot be found again on another night: filter \
             them out or give each an id",
            unit.name
        ),
        _ => Ok(()),
    }
}

impl Prepared {
    /// The batches of one of the two tables.
    pub(super) fn stream(&self, output: SeriesOutput, form: ReleaseForm) -> Result<BatchStream> {
        match output {
            SeriesOutput::Release => self.release.emission().stream(&self.memory, form),
            SeriesOutput::Members => Ok(self.members(form)),
        }
    }

    /// The members of the new cohorts.
    fn members(&self, form: ReleaseForm) -> BatchStream {
        let rows = self.release.context.session_config().batch_size().max(1);
        let wanted = self.release.fetch.unwrap_or(usize::MAX).min(self.members.len());
        let (members, memory) = (Arc::clone(&self.members), Arc::clone(&self.memory));
        let baseline = self.release.metrics.baseline.clone();
        let starts = (0..wanted).step_by(rows);
        let batches = stream::iter(starts).map(move |start| {
            // The stream holds the memory of the night.
            let _memory = &memory;
            let part = &members[start..(start + rows).min(wanted)];
            Ok(member_batch(part, &form)?.record_output(&baseline))
        });
        batches.boxed()
    }
}

fn member_batch(members: &[Member], form: &ReleaseForm) -> Result<RecordBatch> {
    let columns = MemberColumns::of(members)?;
    let column = |column: &OutputColumn| -> Result<ArrayRef> {
        match column {
            OutputColumn::Person => Ok(Arc::clone(&columns.persons)),
            OutputColumn::Cohort => Ok(Arc::clone(&columns.cohorts)),
            _ => internal_err!("members have no such column"),
        }
    };
    let arrays = form.columns.iter().map(column).collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(members.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(&form.schema), arrays, &options)?)
}

/// The release and the members of its new cohorts, from one computation.
pub(super) async fn run_both(
    exec: &AnonymizeExec,
    context: Arc<TaskContext>,
) -> Result<[SendableRecordBatchStream; 2]> {
    let mut payload = Vec::new();
    let every: Vec<usize> = (0..exec.schema().fields().len()).collect();
    let mut release_form = projected_form(&exec.spec, &exec.binding, None, &every, &mut payload);
    release_form.schema = exec.schema();
    let (spec, binding) = of_members(&exec.spec, &exec.binding);
    let mut member_form = projected_form(&spec, &binding, None, &[], &mut Vec::new());
    member_form.schema = full_schema(&spec, &binding, &exec.input.schema())?;
    let (release, source) = Release::new(exec, context, payload, 1)?;
    let guard = Arc::new(CancelOnDrop(release.cancel.clone()));
    // Whoever takes the tables shows the error, which quotes no value.
    let prepared = prepare(release, &source).await.map_err(mark_redacted)?;
    let stream = |output, form: ReleaseForm| {
        let schema: SchemaRef = Arc::clone(&form.schema);
        let batches = guarded(prepared.stream(output, form)?, Arc::clone(&guard));
        let stream = RecordBatchStreamAdapter::new(schema, batches);
        Ok::<SendableRecordBatchStream, DataFusionError>(Box::pin(stream))
    };
    Ok([stream(SeriesOutput::Release, release_form)?, stream(SeriesOutput::Members, member_form)?])
}

/// The same request for the members.
fn of_members(spec: &Spec, binding: &Binding) -> (Spec, Binding) {
    let output = SeriesOutput::Members;
    let (mut spec, mut binding) = (spec.clone(), binding.clone());
    spec.series = spec.series.map(|series| SeriesSpec { output, ..series });
    if let Some(series) = &mut binding.series {
        series.output = output;
    }
    (spec, binding)
}
