//! `sample_census`: census-like microdata of any size, made up on the spot.
//!
//! Demonstrations, tests and benchmarks of anonymization need person-level data that nobody has to
//! download and that harms nobody. The rows resemble a census where it matters to anonymization: a few
//! values are common and many are rare, and columns depend on each other (marital status on age,
//! occupation on schooling, pay on all of it), so that a release can lose or keep something.
//!
//! Every row is a function of the seed and its number. From this follows the rest: a sample of ten rows
//! is the beginning of a sample of a million; partitions, batch sizes and projections change nothing;
//! memory does not grow.
//!
//! * `categories`, `countries`, `places`, `work`: what the society looks like
//! * `model`: the same as tables that can be drawn from; `random`: the draws
//! * `persons`: which rows belong to one person
//! * `generate`: rows as arrays; `exec`: arrays as a scan
//! * `hierarchy`: how the values generalize

mod categories;
mod column;
mod countries;
mod exec;
mod generate;
mod hierarchy;
mod model;
mod persons;
mod places;
mod random;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use self::column::Column;
pub(crate) use self::exec::CensusExec;
#[cfg(feature = "codec")]
pub(crate) use self::exec::CensusScan;

#[cfg(test)]
use self::hierarchy::sample_hierarchy;
pub(crate) use self::hierarchy::{HierarchyTable, hierarchy_columns};

/// The arguments of `sample_census`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "codec", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct CensusOptions {
    /// Number of rows.
    pub rows: u64,
    /// Selects the sample.
    pub seed: u64,
    /// Share of missing cells in every column but `person_id`, from 0 to 1.
    pub missing: f64,
}

/// A table of made-up persons.
pub(crate) fn sample_census(options: CensusOptions) -> Arc<dyn TableProvider> {
    Arc::new(CensusTable { options })
}

/// The arguments of a table that `sample_census` made.
#[cfg(feature = "codec")]
pub(crate) fn options(table: &dyn TableProvider) -> Option<CensusOptions> {
    table.downcast_ref::<CensusTable>().map(|table| table.options)
}

#[derive(Debug)]
struct CensusTable {
    options: CensusOptions,
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
        let scan = CensusExec::new(options, columns, schema, partitions as usize);
        Ok(Arc::new(scan))
    }
}
