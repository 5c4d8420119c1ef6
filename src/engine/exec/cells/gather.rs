//! All parts of a release together.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, AsArray, LargeBinaryArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::common::{Result, assert_eq_or_internal_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{BaselineMetrics, MetricBuilder, RecordOutput};
use futures::{StreamExt, stream};

use super::summary::Summary;
use super::{CellExec, CellStep, as_stream};
use crate::columnar::live_batch;
use crate::engine::exec::form::check_suppressed_rows;
use crate::engine::exec::metrics::{UNIT_SHARE, share};

/// The state of the output stream.
struct Gathering {
    input: SendableRecordBatchStream,
    exec: CellExec,
    baseline: BaselineMetrics,
    schema: SchemaRef,
    /// Sums over the partitions; `None` when they were complete and checked.
    summary: Option<Summary>,
    class_ids: Vec<usize>,
    /// The class that came last: its name in the input and its number in the output.
    class: Option<(u64, u64)>,
    received: u64,
    /// Rows that all partitions together have promised in their summaries.
    promised: u64,
    wanted: usize,
}

pub(super) fn run(
    exec: CellExec,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    assert_eq_or_internal_err!(partition, 0, "CellGatherExec has one partition");
    let CellStep::Gather { schema, class_ids, fetch } = exec.step.clone() else {
        return internal_err!("a step of a release in cells is another one");
    };
    let gathering = Gathering {
        input: exec.children[0].execute(0, context)?,
        baseline: BaselineMetrics::new(&exec.metrics, 0),
        exec,
        schema: Arc::clone(&schema),
        summary: Some(Summary::default()),
        class_ids,
        class: None,
        received: 0,
        promised: 0,
        wanted: fetch.unwrap_or(usize::MAX),
    };
    let batches = stream::try_unfold(gathering, |mut gathering| async move {
        Ok(gathering.next().await?.map(|batch| (batch, gathering)))
    });
    Ok(as_stream(schema, batches))
}

impl Gathering {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.wanted > 0 {
            let Some(batch) = self.input.next().await.transpose()? else {
                self.close_summary()?;
                let (received, promised) = (self.received, self.promised);
                assert_eq_or_internal_err!(
                    received,
                    promised,
                    "rows of a release were lost on their way"
                );
                return Ok(None);
            };
            if let Some(batch) = self.take_in(&batch)? {
                self.wanted -= batch.num_rows();
                return Ok(Some(batch.record_output(&self.baseline)));
            }
        }
        Ok(None)
    }

    /// Summaries come first; rows are passed on when all summaries were checked.
    fn take_in(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let published = self.schema.fields().len();
        let classes = batch.column(published).as_primitive::<UInt64Type>();
        // They are the rows without a class.
        let first = classes.null_count();
        let summaries: &LargeBinaryArray = batch.column(published + 2).as_binary();
        for row in 0..first {
            let Some(all) = &mut self.summary else {
                return internal_err!("a part of the release came behind the others");
            };
            all.add(&Summary::of_bytes(summaries.value(row))?)?;
        }
        if batch.num_rows() == first {
            return Ok(None);
        }
        self.close_summary()?;
        let rows = batch.num_rows() - first;
        self.received += rows as u64;
        let numbers = self.number(&classes.values()[first..])?;
        let all = rows;
        let rows = rows.min(self.wanted);
        let mut columns = batch.slice(first, rows).columns()[..published].to_vec();
        for (column, field) in columns.iter_mut().zip(self.schema.fields()) {
            if column.data_type() != field.data_type() {
                *column = cast(column, field.data_type())?;
            }
        }
        for at in &self.class_ids {
            columns[*at] = Arc::new(UInt64Array::from(numbers[..rows].to_vec()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        Ok(Some(if rows < all { live_batch(&batch)? } else { batch }))
    }

    /// Numbers classes as they come.
    fn number(&mut self, names: &[u64]) -> Result<Vec<u64>> {
        let mut numbers = Vec::with_capacity(names.len());
        for name in names {
            let number = match self.class {
                Some((last, number)) if last == *name => number,
                Some((last, number)) if last < *name => number + 1,
                None => 0,
                Some(_) => return internal_err!("the classes of a release came out of order"),
            };
            self.class = Some((*name, number));
            numbers.push(number);
        }
        Ok(numbers)
    }

    /// Checks the sums over all partitions, once.
    fn close_summary(&mut self) -> Result<()> {
        let Some(all) = self.summary.take() else { return Ok(()) };
        all.check_complete()?;
        self.promised = all.published;
        check_suppressed_rows(&self.exec.spec, all.rows, all.suppressed)?;
        let set = &self.exec.metrics;
        let gauge = |name: &'static str, value: u64| {
            MetricBuilder::new(set).gauge(name, 0).set(value as usize);
        };
        gauge("cells", all.cells);
        gauge("suppressed_rows", all.suppressed);
        gauge("classes", all.classes);
        gauge("largest_class", all.largest_class);
        share(set, "loss").set(all.lost / all.rows.max(1) as f64);
        if self.exec.spec.privacy_unit.is_some() {
            share(set, UNIT_SHARE).set(all.unit_share);
        }
        Ok(())
    }
}
