//! A sink around another one that publishes its files when all of them are complete.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::plan_err;
use datafusion::datasource::file_format::csv::CsvSink;
use datafusion::datasource::file_format::json::JsonSink;
use datafusion::datasource::file_format::parquet::ParquetSink;
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use super::{Staging, Target};

/// Writes what another sink writes, to files that are not visible before the last one is closed.
#[derive(Debug)]
struct StagedSink {
    /// Kept for its sink, which can only be borrowed from it. Its input is empty.
    write: DataSinkExec,
    target: Option<Target>,
}

/// The same write, staged. One that is staged already stays as it is.
pub(super) fn staged(write: &DataSinkExec) -> Result<Arc<dyn ExecutionPlan>> {
    let sink = write.sink();
    if sink.is::<StagedSink>() {
        return Ok(Arc::new(write.clone()));
    }
    // It appends to a file or a pipe that somebody may be reading. DataFusion keeps its type private, so only its Debug
    // output identifies it.
    if format!("{sink:?}").starts_with("StreamWrite") {
        return plan_err!(
            "a release cannot be written to an unbounded table, which would keep a part of it if something fails: write \
             COPY (SELECT … FROM anonymize(…)) TO 'directory/' STORED AS CSV"
        );
    }
    let target = target(sink);
    if let Some(target) = &target {
        target.check()?;
    }
    let nothing = Arc::new(EmptyExec::new(write.input().schema()));
    let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let inner = Arc::new(write.clone()).replace_children(vec![nothing], keep)?;
    let Some(inner) = inner.downcast_ref::<DataSinkExec>().cloned() else {
        return Ok(Arc::new(write.clone()));
    };
    let order = write.sort_order().clone();
    let sink = StagedSink { write: inner, target };
    Ok(Arc::new(DataSinkExec::new(Arc::clone(write.input()), Arc::new(sink), order)))
}

/// The write itself, for those who stage several together.
pub(super) fn unstaged(write: &DataSinkExec) -> &DataSinkExec {
    write.sink().downcast_ref::<StagedSink>().map_or(write, |staged| &staged.write)
}

/// Where a sink of DataFusion writes to. `None` for its Arrow sink and for sinks of hosts, which do not say: their
/// place becomes known with the first file.
pub(super) fn target(sink: &dyn DataSink) -> Option<Target> {
    let config: &FileSinkConfig = if let Some(sink) = sink.downcast_ref::<ParquetSink>() {
        sink.config()
    } else if let Some(sink) = sink.downcast_ref::<CsvSink>() {
        sink.config()
    } else {
        sink.downcast_ref::<JsonSink>()?.config()
    };
    Target::of(config)
}

impl DisplayAs for StagedSink {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                f.write_str("StagedSink(")?;
                self.write.sink().fmt_as(kind, f)?;
                f.write_str(")")
            }
            DisplayFormatType::TreeRender => self.write.sink().fmt_as(kind, f),
        }
    }
}

#[async_trait]
impl DataSink for StagedSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.write.sink().metrics()
    }

    fn schema(&self) -> &SchemaRef {
        self.write.sink().schema()
    }

    async fn write_all(
        &self,
        rows: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let staging = Staging::begin(self.target.as_ref(), context).await?;
        match staging.write(self.write.sink(), rows).await {
            Ok(rows) => {
                Staging::publish(vec![staging], true).await?;
                Ok(rows)
            }
            Err(error) => {
                staging.discard().await;
                Err(error)
            }
        }
    }
}
