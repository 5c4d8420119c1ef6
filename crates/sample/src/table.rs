//! `sample_census` as a table.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::column::{self, Column};
use super::exec::{self, CensusExec};

/// The arguments of `sample_census`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "codec", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct CensusOptions {
    /// Number of rows.
    pub(super) rows: u64,
    /// Selects the sample.
    pub(super) seed: u64,
    /// Share of missing cells in every column but `person_id`, from 0 to 1.
    pub(super) missing: f64,
}

/// A table of made-up persons.
#[derive(Debug)]
pub(super) struct CensusTable {
    options: CensusOptions,
    most_partitions: u64,
}

impl CensusTable {
    pub(super) fn new(options: CensusOptions) -> Self {
        Self { options, most_partitions: u64::MAX }
    }

    /// For engines that give every task a part of a scan: they do not know how to share this one out.
    #[cfg(feature = "codec")]
    pub(super) fn in_one_partition(options: CensusOptions) -> Self {
        Self { options, most_partitions: 1 }
    }

    #[cfg(feature = "codec")]
    pub(super) fn options(&self) -> CensusOptions {
        self.options
    }
}

#[async_trait]
impl TableProvider for CensusTable {
    fn schema(&self) -> SchemaRef {
        column::schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(exec::statistics(self.options.rows, self.options, &Column::ALL))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut options = self.options;
        if let Some(limit) = limit {
            options.rows = options.rows.min(limit as u64);
        }
        let (schema, columns) = match projection {
            Some(positions) => {
                // Projecting first turns a position out of range into an error.
                let schema = Arc::new(self.schema().project(positions)?);
                let columns = positions.iter().map(|position| Column::ALL[*position]);
                (schema, columns.collect())
            }
            None => (self.schema(), Column::ALL.to_vec()),
        };
        // A partition with less than a batch to do would cost more than it helps.
        let batches = options.rows.div_ceil(state.config().batch_size().max(1) as u64);
        let partitions = (state.config().target_partitions() as u64).min(batches);
        let partitions = partitions.min(self.most_partitions);
        let scan = CensusExec::new(options, columns, schema, partitions as usize);
        Ok(Arc::new(scan))
    }
}
