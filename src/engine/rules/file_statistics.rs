//! Scans that read what is in their files, whatever the statistics of those files say.
//!
//! DataFusion takes a column of a file for constant, and does not read it, if the file's smallest and largest value
//! are equal. Up to 55.2 it computes these from the row groups that have statistics: a row group without any (long
//! strings, NaN, writers that leave them out) is read as if it held the values of the others. Aggregates are answered,
//! and files skipped, by the same figures.
//!
//! So the inputs of our operators are planned without file statistics, and in sessions that
//! [`ignore_file_statistics`] all queries are. Pruning of row groups and pages stays: it judges
//! each by its own statistics, and reads those that have none. It is switched off for predicates that bounds cannot
//! answer: bounds leave out NaN, which is larger than all numbers, and a missing count of NULLs is taken for 0.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, IsNullExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;

use crate::engine::exec::is_release;
use crate::engine::reports::ReportExec;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The same plan over files of which only the number of rows and bytes is known.
pub(in crate::engine) fn without_file_statistics(
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rule = |plan: Arc<dyn ExecutionPlan>| {
        let scan = plan.downcast_ref::<DataSourceExec>();
        let files = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>());
        Ok(match (scan, files) {
            (Some(scan), Some(files)) => {
                let scan = scan.clone().with_data_source(Arc::new(with_row_counts_only(files)));
                Transformed::yes(Arc::new(scan) as _)
            }
            _ => Transformed::no(plan),
        })
    };
    // The operators above have cached what they derived from the statistics, so they are rebuilt too.
    plan.transform_up(rule).data()
}

fn with_row_counts_only(files: &FileScanConfig) -> FileScanConfig {
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

/// Removes the statistics of all files from plans, before any other rule uses them: by default from those that hold an
/// operator of this crate.
///
/// [`AnonymizeExtensionPlanner`](super::AnonymizeExtensionPlanner) does this for what is below an operator. Scalar
/// subqueries of an input are not below it but at the top of the plan, and need this rule.
#[derive(Debug, Default)]
pub struct IgnoreFileStatistics {
    in_every_plan: bool,
}

impl PhysicalOptimizerRule for IgnoreFileStatistics {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self.in_every_plan || holds_our_operators(&plan) {
            true => without_file_statistics(plan),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "IgnoreFileStatistics"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn holds_our_operators(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_release(plan)
        || plan.is::<ReportExec>()
        || plan.children().into_iter().any(holds_our_operators)
}

/// Lets every query of a session read what is in its files, those without an operator of this crate too, whatever the
/// session's `collect_statistics` says.
pub fn ignore_file_statistics(context: &SessionContext) {
    let state = context.state_ref();
    let mut state = state.write();
    let rules = ignoring_file_statistics(state.physical_optimizers());
    // They are not used, and cost a look at every file.
    state.config_mut().options_mut().execution.collect_statistics = false;
    let session_id = state.session_id().to_owned();
    *state = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(session_id)
        .with_physical_optimizer_rules(rules)
        .build();
}

/// The rules of a session, with ours around them, so that every query reads what is in its files.
pub(in crate::engine) fn ignoring_file_statistics(rules: &[Rule]) -> Vec<Rule> {
    let first = Arc::new(IgnoreFileStatistics { in_every_plan: true }) as Rule;
    let last = Arc::new(SoundPruning) as Rule;
    std::iter::once(first).chain(rules.iter().cloned()).chain([last]).collect()
}

/// [`with_sound_pruning`] as a rule, for plans without an operator of this crate.
#[derive(Debug)]
struct SoundPruning;

impl PhysicalOptimizerRule for SoundPruning {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        with_sound_pruning(plan)
    }

    fn name(&self) -> &str {
        "SoundPruning"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The same plan, in which no row group is skipped because of a predicate that its statistics cannot answer.
pub(in crate::engine) fn with_sound_pruning(
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let read_all = |plan: Arc<dyn ExecutionPlan>| {
        let scan = plan.downcast_ref::<DataSourceExec>();
        let parquet = scan.and_then(|scan| scan.downcast_to_file_source::<ParquetSource>());
        let Some((scan, (files, source))) = scan.zip(parquet) else {
            return Ok(Transformed::no(plan));
        };
        let schema = source.table_schema().table_schema();
        if !source.filter().is_some_and(|predicate| asks_more_than_bounds(&predicate, schema)) {
            return Ok(Transformed::no(plan));
        }
        let mut options = source.table_parquet_options().clone();
        options.global.pruning = false;
        options.global.enable_page_index = false;
        let source = source.clone().with_table_parquet_options(options);
        let files =
            FileScanConfigBuilder::from(files.clone()).with_source(Arc::new(source)).build();
        Ok(Transformed::yes(Arc::new(scan.clone().with_data_source(Arc::new(files))) as _))
    };
    plan.transform_up(read_all).data()
}

/// Whether a predicate is about NULLs, about numbers that may be NaN, or only known while the query runs.
fn asks_more_than_bounds(predicate: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let is_float =
        |column: &Column| column.data_type(schema).is_ok_and(|data_type| data_type.is_floating());
    predicate.is::<IsNullExpr>()
        || predicate.is::<DynamicFilterPhysicalExpr>()
        || predicate.downcast_ref::<Column>().is_some_and(is_float)
        || predicate.children().into_iter().any(|child| asks_more_than_bounds(child, schema))
}
