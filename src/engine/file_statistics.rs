//! Scans that read what is in their files, whatever the statistics of those files say.
//!
//! DataFusion takes a column of a file for constant, and does not read it, when the smallest and the largest
//! value of the file are the same. Up to 55.2 it puts these together from the row groups that have statistics:
//! a row group without any (long strings, NaN, writers that leave them out) is read as if it held the values of
//! the others. Aggregates are answered from the same figures, and files are skipped by them.
//!
//! So what our operators read is planned without them. Pruning of row groups and pages stays: it looks at each
//! of them alone, and one without statistics is read.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, Statistics};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SessionState;
use datafusion::physical_plan::ExecutionPlan;

/// The same plan over files of which the number of rows is known and nothing else.
pub(super) fn without_file_statistics(
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let forget = |plan: Arc<dyn ExecutionPlan>| {
        let scan = plan.downcast_ref::<DataSourceExec>();
        let files = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>());
        Ok(match (scan, files) {
            (Some(scan), Some(files)) => {
                let scan = scan.clone().with_data_source(Arc::new(forgetting(files)));
                Transformed::yes(Arc::new(scan) as _)
            }
            _ => Transformed::no(plan),
        })
    };
    // What stands above was planned with the statistics, so all of it is made anew.
    plan.transform_up(forget).data()
}

fn forgetting(files: &FileScanConfig) -> FileScanConfig {
    let rows_only = |statistics: &Statistics| {
        let mut rows = statistics.clone();
        rows.column_statistics.iter_mut().for_each(|column| *column = Default::default());
        rows
    };
    let groups = files.file_groups.iter().map(|group| {
        let of_group = group.file_statistics(None).map(rows_only);
        let of_files = group.iter().cloned().map(|mut file| {
            file.statistics = file.statistics.as_deref().map(rows_only).map(Arc::new);
            file
        });
        let group = FileGroup::new(of_files.collect());
        match of_group {
            Some(rows) => group.with_statistics(Arc::new(rows)),
            None => group,
        }
    });
    FileScanConfigBuilder::from(files.clone())
        .with_file_groups(groups.collect())
        .with_statistics(rows_only(&files.statistics()))
        .build()
}

/// A session that plans without the statistics of files: scalar subqueries of an input stand beside the operator
/// that reads it, where [`without_file_statistics`] does not see them.
pub(super) fn blind_to_file_statistics(session: &dyn Session) -> Option<Cow<'_, SessionState>> {
    let state = session.as_any().downcast_ref::<SessionState>()?;
    if !state.config().collect_statistics() {
        return Some(Cow::Borrowed(state));
    }
    let mut state = state.clone();
    state.config_mut().options_mut().execution.collect_statistics = false;
    Some(Cow::Owned(state))
}
