//! The phases of a release, from the first input batch to the last output batch.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::try_join_all;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::emit::Emission;
use super::form::{ClassBuilder, Part, VerifiedClasses};
use super::memory::{Arranging, Emitting, OutputShape, Reading, ReleaseMemory};
use super::metrics::ReleaseMetrics;
use super::requirement::check_persons;
use super::{AnonymizeExec, ReleaseShape, full_schema, series};
use crate::columnar::{
    Cells, Chunk, Coding, Layout, ListedLevels, OutputColumn, Reader, ReleaseForm, ReleaseTable,
    ResolvedHierarchy, TieKeys,
};
use crate::engine::hierarchies::{resolve, resolve_levels};
use crate::engine::operator::running;
use crate::engine::options::{Publish, Spec};
use crate::engine::plan::{Binding, split_unit, with_unit};
use crate::engine::{join_error, mark_redacted, redact_values};
use crate::model::{Cancel, Classes, Purpose, ties};

/// Everything one execution needs, apart from the plan it came from.
pub(super) struct Release {
    pub(super) spec: Arc<Spec>,
    pub(super) layout: Arc<Layout>,
    pub(super) fetch: Option<usize>,
    pub(super) metrics: ReleaseMetrics,
    pub(super) context: Arc<TaskContext>,
    /// Threads that a computation may use.
    pub(super) threads: usize,
    /// Streams that read the release at the same time.
    pub(super) streams: usize,
    /// Set when the stream is dropped, and checked by the threads of a computation.
    pub(super) cancel: Cancel,
}

/// Where the rows of a release come from.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) input: Arc<dyn ExecutionPlan>,
    /// Tables that options name, in the order in which the spec refers to them.
    pub(super) tables: Vec<Arc<dyn ExecutionPlan>>,
    pub(super) binding: Binding,
}

/// Hierarchies and levels of sensitivity, read from their files and tables.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) hierarchies: Vec<Option<ResolvedHierarchy>>,
    pub(super) levels: Option<ListedLevels>,
}

impl Resolved {
    /// Reads them; `tables` are plans of one partition.
    pub(super) async fn read(
        spec: &Spec,
        tables: &[Arc<dyn ExecutionPlan>],
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let mut quasi_identifiers = spec.quasi_identifiers.clone();
        quasi_identifiers.extend(spec.linked_sensitive());
        let hierarchies = resolve(&quasi_identifiers, tables, context).await?;
        let levels = match &spec.grading {
            Some(grading) => Some(resolve_levels(grading, tables, context).await?),
            None => None,
        };
        Ok(Self { hierarchies, levels })
    }
}

/// Stops the work when the last stream over a release is dropped.
pub(super) struct CancelOnDrop(pub(super) Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

pub(super) fn run(
    exec: &AnonymizeExec,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = exec.schema();
    let mut payload = Vec::new();
    let ReleaseShape { projection, order_by, .. } = &exec.shape;
    let projection = projection.as_deref();
    let mut form = projected_form(&exec.spec, &exec.binding, projection, order_by, &mut payload);
    form.schema = Arc::clone(&schema);
    let (release, source) = Release::new(exec, context, payload, 1)?;
    let guard = Arc::new(CancelOnDrop(release.cancel.clone()));
    let output = exec.spec.series.as_ref().map(|series| series.output);
    let batches = async move {
        match output {
            None => {
                let (release, memory) = release.prepare(&source).await?;
                release.emission().stream(&memory, form)
            }
            Some(output) => series::prepare(release, &source).await?.stream(output, form),
        }
    };
    let batches = stream::once(batches).try_flatten();
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, guarded(batches, guard))))
}

/// Both tables of a release from one computation: quasi-identifiers, then sensitive values.
pub(super) async fn run_both(
    exec: &AnonymizeExec,
    context: Arc<TaskContext>,
) -> Result<[SendableRecordBatchStream; 2]> {
    let mut payload = Vec::new();
    let tables = [Publish::QuasiIdentifiers, Publish::Sensitive];
    let forms = tables.map(|publish| {
        let spec = Spec { publish: Some(publish), ..Spec::clone(&exec.spec) };
        let binding = Binding { publish: Some(publish), ..exec.binding.clone() };
        let columns = binding.output(spec.class_id);
        let mut form = form(&spec, &binding, &columns, &mut payload);
        // Whoever reads the table sees all its columns.
        let visible = form.columns.iter().filter(|column| column.differs_in_class());
        form.order_by = visible.copied().collect();
        form.schema = full_schema(&spec, &binding, &exec.input.schema())?;
        Ok(form)
    });
    let (release, source) = Release::new(exec, context, payload, 2)?;
    let guard = Arc::new(CancelOnDrop(release.cancel.clone()));
    // Whoever takes the tables shows the error, which quotes no value.
    let (release, memory) = release.prepare(&source).await.map_err(mark_redacted)?;
    let [quasi_identifiers, sensitive] = forms.map(|form: Result<ReleaseForm>| {
        let form = form?;
        let schema = Arc::clone(&form.schema);
        let batches = release.emission().stream(&memory, form)?;
        let batches = guarded(batches, Arc::clone(&guard));
        let stream = RecordBatchStreamAdapter::new(schema, batches);
        Ok::<SendableRecordBatchStream, DataFusionError>(Box::pin(stream))
    });
    Ok([quasi_identifiers?, sensitive?])
}

/// The same batches; dropping the last stream cancels the work.
pub(super) fn guarded(
    batches: impl Stream<Item = Result<RecordBatch>>,
    guard: Arc<CancelOnDrop>,
) -> impl Stream<Item = Result<RecordBatch>> {
    batches.map(move |batch| {
        let _alive = &guard;
        batch.map_err(mark_redacted)
    })
}

/// How the wanted columns of a release are published, the rows of a class in the order of some of them. Payload that
/// it needs is added to `payload`.
pub(super) fn projected_form(
    spec: &Spec,
    binding: &Binding,
    projection: Option<&[usize]>,
    order_by: &[usize],
    payload: &mut Vec<usize>,
) -> ReleaseForm {
    let columns = binding.output(spec.class_id);
    let columns: Vec<OutputColumn> = match projection {
        Some(projection) => projection.iter().map(|column| columns[*column]).collect(),
        None => columns,
    };
    let mut form = form(spec, binding, &columns, payload);
    let visible = order_by.iter().filter_map(|column| form.columns.get(*column));
    form.order_by = visible.filter(|column| column.differs_in_class()).copied().collect();
    form
}

/// How a table of these columns is published. Payload that it needs is added to `payload`.
fn form(
    spec: &Spec,
    binding: &Binding,
    columns: &[OutputColumn],
    payload: &mut Vec<usize>,
) -> ReleaseForm {
    let full_payload = binding.payload();
    let column = |column: &OutputColumn| match column {
        OutputColumn::Payload(index) => {
            payload.push(full_payload[*index]);
            OutputColumn::Payload(payload.len() - 1)
        }
        OutputColumn::PayloadApart(index) => {
            payload.push(full_payload[*index]);
            OutputColumn::PayloadApart(payload.len() - 1)
        }
        other => *other,
    };
    ReleaseForm {
        columns: columns.iter().map(column).collect(),
        order_by: Vec::new(),
        // A table without sensitive values must not be ordered by them.
        ties: match spec.publish {
            Some(Publish::QuasiIdentifiers) => {
                TieKeys::QuasiIdentifiersAndKept(spec.secret.seed(Purpose::RowOrder))
            }
            Some(Publish::Sensitive) | None => TieKeys::WholeRow,
        },
        ranges: spec.ranges,
        schema: Arc::new(Schema::empty()),
    }
}

impl Release {
    /// Reads the columns that the method needs and those that leave.
    pub(super) fn new(
        exec: &AnonymizeExec,
        context: Arc<TaskContext>,
        payload: Vec<usize>,
        streams: usize,
    ) -> Result<(Self, Source)> {
        if exec.input_partitions() == 0 {
            return exec_err!("anonymize needs an input with at least one partition");
        }
        let layout = layout(&exec.spec, &exec.binding, exec.input.schema(), payload);
        let release = Self {
            spec: Arc::clone(&exec.spec),
            layout: Arc::new(layout),
            fetch: exec.shape.fetch,
            metrics: ReleaseMetrics::new(&exec.metrics),
            threads: context.session_config().target_partitions().max(1),
            streams,
            context,
            cancel: Cancel::default(),
        };
        let source = Source {
            input: Arc::clone(&exec.input),
            tables: exec.tables.clone(),
            binding: exec.binding.clone(),
        };
        Ok((release, source))
    }

    pub(super) fn emission(&self) -> Emission {
        Emission {
            batch_rows: self.context.session_config().batch_size(),
            fetch: self.fetch,
            metrics: self.metrics.clone(),
            cancel: self.cancel.clone(),
        }
    }

    /// Everything up to the first row: read, encode, partition, verify.
    async fn prepare(self, source: &Source) -> Result<(Self, Arc<ReleaseMemory<Emitting>>)> {
        let resolved = Resolved::read(&self.spec, &source.tables, &self.context).await?;
        let (readers, memory) = self.read(&source.input, 0).await?;
        let handle = tokio::runtime::Handle::current();
        running(move || {
            let memory = memory.arrange(handle);
            let form = || {
                self.check_privacy_unit(&readers)?;
                let timer = self.metrics.encode_time.timer();
                let coding =
                    Coding::new(&self.layout, &readers, &resolved.hierarchies, &self.cancel);
                drop(readers);
                timer.done();
                let coding = coding?;
                self.form_classes(coding, &resolved, memory, None)
            };
            let memory = thread_pool(self.threads)?.install(form)?;
            Ok((self, memory))
        })
        .await
    }

    /// Memory for the rows of so many partitions.
    pub(super) fn memory(&self, partitions: usize) -> ReleaseMemory<Reading> {
        ReleaseMemory::new(&self.layout, partitions, &self.context, &self.metrics, &self.cancel)
    }

    /// Reads every partition of the input in a task of its own, into memory that has room for some more.
    pub(super) async fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        more: usize,
    ) -> Result<(Vec<Reader>, ReleaseMemory<Reading>)> {
        use datafusion::physical_plan::ExecutionPlanProperties;
        let partitions = input.output_partitioning().partition_count();
        let memory = Arc::new(self.memory(partitions + more));
        let tasks: Vec<SpawnedTask<Result<Reader>>> = (0..partitions)
            .map(|partition| {
                let input = input.execute(partition, Arc::clone(&self.context))?;
                let reader = Reader::new(&self.layout, self.spec.secret)?;
                let (memory, metrics) = (Arc::clone(&memory), self.metrics.clone());
                let to = move |chunks, bytes| memory.add(partition, chunks, bytes);
                Ok(SpawnedTask::spawn(read_partition(input, reader, to, metrics)))
            })
            .collect::<Result<_>>()?;
        // All at once: the error of one partition must not wait for the end of another.
        let tasks = tasks.into_iter().map(|task| async { task.join().await.map_err(join_error)? });
        let readers = try_join_all(tasks).await?;
        let Some(memory) = Arc::into_inner(memory) else {
            return internal_err!("a task still reads after it has ended");
        };
        Ok((readers, memory))
    }

    /// Forms and verifies the classes of a table, or of a part of one. Works on the current rayon pool.
    pub(super) fn form_classes(
        &self,
        coding: Coding,
        resolved: &Resolved,
        memory: ReleaseMemory<Arranging>,
        part: Option<&Part>,
    ) -> Result<Arc<ReleaseMemory<Emitting>>> {
        let rows = memory.rows();
        self.metrics.input_rows.add(rows);
        if u32::try_from(rows).is_err() {
            return exec_err!(
                "{rows} rows are more than one operator takes (4294967295): anonymize the table in \
                 parts, for example by year"
            );
        }
        let builder = ClassBuilder {
            spec: &self.spec,
            levels: resolved.levels.as_ref(),
            part,
            metrics: &self.metrics,
            cancel: &self.cancel,
        };
        if let Some(part) = part {
            part.check(&coding)?;
        }
        let row_bytes = coding.row_bytes()?;
        let work_on = |threads| builder.work_bytes(coding.axes(), rows, row_bytes, threads);
        let threads = memory.threads_that_fit(self.threads, &work_on);
        let work = work_on(threads);
        // Ties are broken before the method starts, in the same memory.
        let ties = if self.layout.has_ties() { ties::work_bytes(rows) } else { 0 };
        let persons = if self.spec.counted_unit().is_some() { 8 * rows } else { 0 };
        memory.reserve_method(work.max(ties).max(persons))?;
        let timer = self.metrics.encode_time.timer();
        let ties = self.spec.secret.seed(Purpose::Ties);
        let mut table = memory.fill_table(&self.layout, coding, ties)?;
        if let (_, Some(unit)) = split_unit(&table.modelled, self.spec.counted_unit().is_some()) {
            let seed = self.spec.secret.seed(Purpose::Persons);
            table.keys.keep_persons_together(&table.rows, &unit.codes, seed)?;
        }
        timer.done();
        let mut build = || builder.build(&mut table);
        let VerifiedClasses { classes, cells } = match threads < self.threads {
            true => thread_pool(threads)?.install(build)?,
            false => build()?,
        };
        // Of what the method allocated, only the classes stay.
        memory.shrink_method(class_bytes(&classes, &cells))?;
        let table = Arc::new(ReleaseTable::new(table, classes, cells));
        let shape = OutputShape {
            batch_rows: self.context.session_config().batch_size(),
            threads: self.threads,
            streams: self.streams,
            quasi_identifiers: self.layout.quasi_identifiers.len(),
        };
        memory.prepare(table, &shape)
    }

    /// A row without a person could belong to any of the others in its class.
    pub(super) fn check_privacy_unit(&self, readers: &[Reader]) -> Result<()> {
        let columns = split_unit(&self.layout.modelled, self.spec.counted_unit().is_some());
        let (sensitive, Some(_)) = columns else { return Ok(()) };
        let nobody: usize = readers.iter().map(|reader| reader.missing(sensitive.len())).sum();
        check_persons(&self.spec, nobody as u64)
    }
}

/// Which columns of an input a release reads, and for what.
pub(super) fn layout(
    spec: &Spec,
    binding: &Binding,
    schema: SchemaRef,
    payload: Vec<usize>,
) -> Layout {
    let protected: &[usize] = if spec.has_models() { &binding.sensitive } else { &[] };
    let linked = if binding.sliced { binding.sensitive.first() } else { None };
    Layout {
        schema,
        quasi_identifiers: binding.quasi_identifiers.iter().chain(linked).copied().collect(),
        modelled: with_unit(
            protected.to_vec(),
            binding.privacy_unit.filter(|_| spec.counted_unit().is_some()),
        ),
        keyed: binding.sensitive.iter().chain(&binding.privacy_unit).copied().collect(),
        kept: binding.keep.clone(),
        payload,
        person: if spec.series.is_some() { binding.privacy_unit } else { None },
    }
}

/// Threads for one computation.
pub(super) fn thread_pool(threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|_| exec_datafusion_err!("anonymize could not start {threads} threads"))
}

fn class_bytes(classes: &Classes, cells: &Cells) -> usize {
    let (columns, rows) = match cells {
        Cells::Covering => (0, 0),
        Cells::Nodes(nodes) => (nodes.len(), 0),
        Cells::Sliced { covered, kept, groups } => {
            let kept = size_of_val(&covered[..]) + size_of_val(&kept[..]);
            (0, kept + groups.bytes())
        }
    };
    classes.len() * size_of::<u32>() * (1 + columns) + rows
}

async fn read_partition(
    mut input: SendableRecordBatchStream,
    mut reader: Reader,
    to: impl Fn(Vec<Chunk>, usize) -> Result<()>,
    metrics: ReleaseMetrics,
) -> Result<Reader> {
    loop {
        let waiting = metrics.read_time.timer();
        let batch = input.next().await;
        waiting.done();
        let Some(batch) = batch else { break };
        let batch = batch.map_err(redact_values)?;
        let timer = metrics.encode_time.timer();
        let chunks = reader.push(batch)?;
        timer.done();
        to(chunks, reader.memory())?;
    }
    let chunks = reader.finish()?;
    to(chunks, reader.memory())?;
    Ok(reader)
}
