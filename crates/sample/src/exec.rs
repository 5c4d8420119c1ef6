//! The scan: each partition generates a contiguous range of the rows.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::Stream;

use super::column::Column;
use super::generate::Generator;
use super::table::CensusOptions;

/// Generates the first `min(rows, fetch)` rows of a sample, split evenly among the partitions.
///
/// A limit shortens the table itself instead of every partition, hence `LIMIT 10` shows the same ten
/// rows whatever the number of partitions.
#[derive(Debug, Clone)]
pub(crate) struct CensusExec {
    options: CensusOptions,
    columns: Vec<Column>,
    fetch: Option<usize>,
    generator: Arc<Generator>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// A scan as it travels to other machines.
#[cfg(feature = "codec")]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct CensusScan {
    options: CensusOptions,
    /// By their positions.
    columns: Vec<usize>,
    partitions: usize,
    fetch: Option<usize>,
}

impl CensusExec {
    /// A scan of `columns` (whose schema is `schema`) in so many partitions.
    pub(super) fn new(
        options: CensusOptions,
        columns: Vec<Column>,
        schema: SchemaRef,
        partitions: usize,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions.max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            options,
            columns: columns.clone(),
            fetch: None,
            generator: Arc::new(Generator::new(options, columns, schema)),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The scan that was written down.
    #[cfg(feature = "codec")]
    pub(crate) fn of_scan(scan: &CensusScan) -> Result<Self> {
        let schema = Arc::new(super::column::schema().project(&scan.columns)?);
        let columns = scan.columns.iter().map(|position| Column::ALL[*position]).collect();
        let exec = Self::new(scan.options, columns, schema, scan.partitions);
        Ok(Self { fetch: scan.fetch, ..exec })
    }

    /// The scan, written down.
    #[cfg(feature = "codec")]
    pub(crate) fn scan(&self) -> CensusScan {
        let position = |column: &Column| Column::ALL.iter().position(|known| known == column);
        CensusScan {
            options: self.options,
            columns: self.columns.iter().filter_map(position).collect(),
            partitions: self.partitions(),
            fetch: self.fetch,
        }
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    fn rows(&self) -> u64 {
        let fetch = self.fetch.map_or(u64::MAX, |fetch| fetch as u64);
        self.options.rows.min(fetch)
    }

    fn range(&self, partition: usize) -> Range<u64> {
        // In 128 bits: rows times partitions may not fit 64.
        let bound = |part: usize| {
            (u128::from(self.rows()) * part as u128 / self.partitions() as u128) as u64
        };
        bound(partition)..bound(partition + 1)
    }
}

impl DisplayAs for CensusExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name()).collect();
        let names = names.join(", ");
        match kind {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let (rows, partitions) = (self.options.rows, self.partitions());
                write!(
                    f,
                    "CensusExec: rows={rows}, partitions={partitions}, projection=[{names}]"
                )?;
                match self.fetch {
                    Some(fetch) => write!(f, ", fetch={fetch}"),
                    None => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => write!(f, "rows={}", self.rows()),
        }
    }
}

impl ExecutionPlan for CensusExec {
    fn name(&self) -> &'static str {
        "CensusExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            Ok(self)
        } else {
            internal_err!("CensusExec has no children to replace")
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition >= self.partitions() {
            return internal_err!(
                "CensusExec has {} partitions, {partition} was asked for",
                self.partitions()
            );
        }
        Ok(Box::pin(cooperative(CensusStream {
            generator: Arc::clone(&self.generator),
            batch_size: context.session_config().batch_size().max(1),
            remaining: self.range(partition),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        })))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = match args.partition() {
            Some(partition) => {
                let range = self.range(partition);
                range.end - range.start
            }
            None => self.rows(),
        };
        Ok(Arc::new(statistics(rows, self.options, &self.columns)))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        // The number of partitions stays: plans above have been built for it.
        let mut limited = self.clone();
        limited.fetch = limit;
        limited.metrics = ExecutionPlanMetricsSet::new();
        Some(Arc::new(limited))
    }
}

/// What is known without generating: the number of rows, and where nothing is missing.
pub(super) fn statistics(rows: u64, options: CensusOptions, columns: &[Column]) -> Statistics {
    // The engine turns counts into `BIGINT`; beyond its range it had better count for itself.
    let num_rows = match i64::try_from(rows) {
        Ok(_) => usize::try_from(rows).map_or(Precision::Absent, Precision::Exact),
        Err(_) => Precision::Absent,
    };
    let column_statistics = columns
        .iter()
        .map(|column| {
            let complete = options.missing == 0.0 || *column == Column::PersonId;
            let mut statistics = ColumnStatistics::new_unknown();
            if complete {
                statistics.null_count = Precision::Exact(0);
            }
            statistics
        })
        .collect();
    Statistics { num_rows, total_byte_size: Precision::Absent, column_statistics }
}

struct CensusStream {
    generator: Arc<Generator>,
    batch_size: usize,
    remaining: Range<u64>,
    metrics: BaselineMetrics,
}

impl CensusStream {
    fn next_batch(&mut self) -> Option<Result<RecordBatch>> {
        let first = self.remaining.start;
        let left = self.remaining.end - first;
        let rows = usize::try_from(left).map_or(self.batch_size, |left| left.min(self.batch_size));
        if rows == 0 {
            return None;
        }
        self.remaining.start += rows as u64;
        let batch = self.generator.batch(first, rows);
        Some(batch.map_err(DataFusionError::from))
    }
}

impl Stream for CensusStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let timer = elapsed.timer();
        let batch = self.next_batch();
        timer.done();
        self.metrics.record_poll(Poll::Ready(batch))
    }
}

impl RecordBatchStream for CensusStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.generator.schema())
    }
}
