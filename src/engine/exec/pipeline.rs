//! The phases of a release, from the first input batch to the last output batch.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::try_join_all;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::form::{Formed, Former};
use super::metrics::ReleaseMetrics;
use super::{AnonymizeExec, full_schema};
use crate::columnar::{
    CodedTable, Layout, ListedLevels, OutputColumn, Publisher, Reader, ReleaseForm, ReleaseTable,
    ResolvedHierarchy, TieKeys,
};
use crate::engine::hierarchies::{resolve, resolve_levels};
use crate::engine::logical::Binding;
use crate::engine::spec::{Publish, Spec};
use crate::engine::{execution_error, without_values};
use crate::model::{Cancel, RowTable};

/// Everything one execution needs, apart from the plan it came from.
struct Release {
    spec: Arc<Spec>,
    layout: Arc<Layout>,
    input: Arc<dyn ExecutionPlan>,
    hierarchies: Vec<Arc<dyn ExecutionPlan>>,
    fetch: Option<usize>,
    metrics: ReleaseMetrics,
    context: Arc<TaskContext>,
    /// Set when the stream is dropped; threads inside a computation ask it.
    cancel: Cancel,
}

/// What files and tables beside the input hold.
struct Resolved {
    hierarchies: Vec<Option<ResolvedHierarchy>>,
    levels: Option<ListedLevels>,
}

/// A verified release, and the memory it holds.
struct Prepared {
    table: Arc<ReleaseTable>,
    /// Given back when the last stream over the table is dropped.
    memory: Arc<[MemoryReservation; 2]>,
}

struct CancelOnDrop(Cancel);

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
    let columns = exec.binding.output(exec.spec.class_id);
    let columns: Vec<OutputColumn> = match &exec.projection {
        Some(projection) => projection.iter().map(|column| columns[*column]).collect(),
        None => columns,
    };
    let mut form = form(&exec.spec, &exec.binding, &columns, &mut payload);
    form.schema = Arc::clone(&schema);
    let visible = exec.order_by.iter().filter_map(|column| form.columns.get(*column));
    form.order_by = visible.filter(|column| column.differs_in_class()).copied().collect();
    let release = Release::new(exec, context, payload)?;
    let guard = Arc::new(CancelOnDrop(release.cancel.clone()));
    let batches = async move {
        let (release, prepared) = release.prepare().await?;
        release.emit(&prepared, form)
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
    let release = Release::new(exec, context, payload)?;
    let guard = Arc::new(CancelOnDrop(release.cancel.clone()));
    let (release, prepared) = release.prepare().await?;
    let [quasi_identifiers, sensitive] = forms.map(|form: Result<ReleaseForm>| {
        let form = form?;
        let schema = Arc::clone(&form.schema);
        let batches = release.emit(&prepared, form)?;
        let batches = guarded(batches, Arc::clone(&guard));
        let stream = RecordBatchStreamAdapter::new(schema, batches);
        Ok::<SendableRecordBatchStream, DataFusionError>(Box::pin(stream))
    });
    Ok([quasi_identifiers?, sensitive?])
}

/// The same batches; the work is cancelled when the last stream that somebody holds is dropped.
fn guarded(
    batches: impl Stream<Item = Result<RecordBatch>>,
    guard: Arc<CancelOnDrop>,
) -> impl Stream<Item = Result<RecordBatch>> {
    batches.inspect(move |_| {
        let _alive = &guard;
    })
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
            Some(Publish::QuasiIdentifiers) => TieKeys::QuasiIdentifiersAndKept(spec.seed),
            Some(Publish::Sensitive) | None => TieKeys::SensitiveAndKept,
        },
        ranges: spec.ranges,
        schema: Arc::new(Schema::empty()),
    }
}

type BatchStream = std::pin::Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

impl Release {
    /// Reads the columns that the method needs and those that leave.
    fn new(exec: &AnonymizeExec, context: Arc<TaskContext>, payload: Vec<usize>) -> Result<Self> {
        if exec.input_partitions() == 0 {
            return exec_err!("anonymize needs an input with at least one partition");
        }
        let binding = &exec.binding;
        let protected: &[usize] = if exec.spec.has_models() { &binding.sensitive } else { &[] };
        let linked = if binding.sliced { binding.sensitive.first() } else { None };
        let layout = Layout {
            schema: exec.input.schema(),
            quasi_identifiers: binding.quasi_identifiers.iter().chain(linked).copied().collect(),
            modelled: protected.iter().chain(&binding.privacy_unit).copied().collect(),
            keyed: binding.sensitive.iter().chain(&binding.privacy_unit).copied().collect(),
            kept: binding.keep.clone(),
            payload,
        };
        Ok(Self {
            spec: Arc::clone(&exec.spec),
            layout: Arc::new(layout),
            input: Arc::clone(&exec.input),
            hierarchies: exec.hierarchies.clone(),
            fetch: exec.fetch,
            metrics: ReleaseMetrics::new(&exec.metrics),
            context,
            cancel: Cancel::default(),
        })
    }

    fn threads(&self) -> usize {
        self.context.session_config().target_partitions().max(1)
    }

    fn reservation(&self, name: &str) -> MemoryReservation {
        MemoryConsumer::new(format!("AnonymizeExec[{name}]")).register(self.context.memory_pool())
    }

    /// Everything up to the first row: read, encode, partition, verify.
    async fn prepare(self) -> Result<(Self, Prepared)> {
        let mut quasi_identifiers = self.spec.quasi_identifiers.clone();
        quasi_identifiers.extend(self.spec.linked_sensitive());
        let hierarchies = resolve(&quasi_identifiers, &self.hierarchies, &self.context).await?;
        let levels = match &self.spec.grading {
            Some(grading) => Some(resolve_levels(grading, &self.hierarchies, &self.context).await?),
            None => None,
        };
        let (readers, payload_memory) = self.read().await?;
        let table_memory = self.reservation("codes");
        let threads = self.threads();
        let work = move || {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|_| exec_datafusion_err!("anonymize could not start {threads} threads"))?;
            let tables = Resolved { hierarchies, levels };
            let table = pool.install(|| self.form_classes(readers, &tables, &table_memory))?;
            Ok::<_, DataFusionError>((self, Arc::new(table), table_memory))
        };
        let task = SpawnedTask::spawn_blocking(work);
        let (release, table, table_memory) = task
            .join()
            .await
            .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        release.metrics.peak_memory.set_max(payload_memory.size() + table_memory.size());
        Ok((release, Prepared { table, memory: Arc::new([payload_memory, table_memory]) }))
    }

    /// Reads every partition of the input in a task of its own.
    async fn read(&self) -> Result<(Vec<Reader>, MemoryReservation)> {
        use datafusion::physical_plan::ExecutionPlanProperties;
        let partitions = self.input.output_partitioning().partition_count();
        let tasks: Vec<SpawnedTask<Result<(Reader, MemoryReservation)>>> = (0..partitions)
            .map(|partition| {
                let input = self.input.execute(partition, Arc::clone(&self.context))?;
                let reader = Reader::new(&self.layout, self.spec.seed).map_err(execution_error)?;
                let memory = self.reservation("payload");
                let metrics = self.metrics.clone();
                Ok(SpawnedTask::spawn(read_partition(input, reader, memory, metrics)))
            })
            .collect::<Result<_>>()?;
        let mut readers = Vec::with_capacity(partitions);
        let memory = self.reservation("payload");
        // All at once: the error of one partition must not wait for the end of another.
        let tasks = tasks.into_iter().map(|task| async {
            let joined = task.join().await;
            joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
        });
        for (reader, own) in try_join_all(tasks).await? {
            let size = own.size();
            drop(own);
            memory.try_grow(size)?;
            readers.push(reader);
        }
        Ok((readers, memory))
    }

    fn form_classes(
        &self,
        readers: Vec<Reader>,
        resolved: &Resolved,
        memory: &MemoryReservation,
    ) -> Result<ReleaseTable> {
        let rows: usize = readers.iter().map(Reader::rows).sum();
        self.metrics.input_rows.add(rows);
        self.check_privacy_unit(&readers)?;
        let former = Former {
            spec: &self.spec,
            modelled: self.layout.modelled.len(),
            levels: resolved.levels.as_ref(),
            metrics: &self.metrics,
            cancel: &self.cancel,
        };
        // Codes of the widest shape, row keys and modelled columns; the true size is not known yet.
        let row_bytes =
            RowTable::row_bytes(self.layout.quasi_identifiers.len(), u32::MAX).unwrap_or(0);
        let row_bytes = row_bytes + 16 + 4 * self.layout.modelled.len() + former.row_bytes();
        memory.try_grow(rows * row_bytes)?;
        let timer = self.metrics.encode_time.timer();
        let mut table = CodedTable::new(&self.layout, readers, &resolved.hierarchies, &self.cancel)
            .map_err(execution_error)?;
        timer.done();
        memory.try_grow(former.work_bytes(&table, self.threads()))?;
        let Formed { classes, cells } = former.form(&mut table)?;
        Ok(ReleaseTable::new(table, classes, cells))
    }

    /// A row without a person could belong to any of the others in its class.
    fn check_privacy_unit(&self, readers: &[Reader]) -> Result<()> {
        let Some(unit) = &self.spec.privacy_unit else { return Ok(()) };
        let modelled = self.layout.modelled.len() - 1;
        let missing: usize = readers.iter().map(|reader| reader.missing(modelled)).sum();
        if missing > 0 {
            return exec_err!(
                "privacy_unit '{}' is NULL in {missing} rows, which cannot be counted as persons: filter \
                 them out or give each an id",
                unit.name
            );
        }
        Ok(())
    }

    /// Output batches in class order, made ahead on as many threads as the session has partitions.
    fn emit(&self, prepared: &Prepared, form: ReleaseForm) -> Result<BatchStream> {
        let publisher =
            Publisher::new(Arc::clone(&prepared.table), form).map_err(execution_error)?;
        let memory = Arc::clone(&prepared.memory);
        let batch_size = self.context.session_config().batch_size();
        let ranges = publisher.batches(batch_size);
        let publisher = Arc::new(publisher);
        let (threads, metrics, cancel) =
            (self.threads(), self.metrics.clone(), self.cancel.clone());
        type Parts = stream::Iter<std::vec::IntoIter<Result<RecordBatch>>>;
        let batches = stream::iter(ranges)
            .map(move |range| {
                let (publisher, cancel) = (Arc::clone(&publisher), cancel.clone());
                let emit_time = metrics.emit_time.clone();
                SpawnedTask::spawn_blocking(move || {
                    let _timer = emit_time.timer();
                    cancel.check()?;
                    publisher.batch(range, batch_size)
                })
            })
            .map(|task| async move {
                let joined = task.join().await;
                let parts =
                    joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
                let parts = parts.map_err(execution_error)?;
                let parts: Vec<Result<RecordBatch>> = parts.into_iter().map(Ok).collect();
                Ok::<Parts, DataFusionError>(stream::iter(parts))
            })
            .buffered(threads);
        let batches = TryStreamExt::try_flatten(batches);
        let baseline = self.metrics.baseline.clone();
        let wanted = self.fetch.unwrap_or(usize::MAX);
        // The state is what is still wanted; the reservations live as long as the stream.
        let limited = stream::try_unfold((batches, wanted, memory), move |state| {
            let baseline = baseline.clone();
            async move {
                let (mut batches, wanted, memory) = state;
                if wanted == 0 {
                    return Ok(None);
                }
                let Some(batch) = batches.try_next().await? else { return Ok(None) };
                let rows = batch.num_rows().min(wanted);
                let batch = batch.slice(0, rows).record_output(&baseline);
                Ok(Some((batch, (batches, wanted - rows, memory))))
            }
        });
        Ok(Box::pin(limited))
    }
}

async fn read_partition(
    mut input: SendableRecordBatchStream,
    mut reader: Reader,
    memory: MemoryReservation,
    metrics: ReleaseMetrics,
) -> Result<(Reader, MemoryReservation)> {
    loop {
        let waiting = metrics.read_time.timer();
        let batch = input.next().await;
        waiting.done();
        let Some(batch) = batch else { break };
        let batch = batch.map_err(without_values)?;
        let timer = metrics.encode_time.timer();
        reader.push(batch).map_err(execution_error)?;
        memory.try_resize(reader.memory())?;
        timer.done();
    }
    reader.finish().map_err(execution_error)?;
    memory.try_resize(reader.memory())?;
    Ok((reader, memory))
}
