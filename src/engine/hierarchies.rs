//! Reading the hierarchies and levels that files and tables hold.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::TaskContext;
use datafusion::object_store::ObjectStoreExt;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;

use crate::columnar::{ListedLevels, ResolvedHierarchy};
use crate::engine::options::{
    Grading, HierarchySource, LevelSource, QuasiIdentifier, checked_levels,
};
use crate::engine::redact_values;
use crate::hierarchy::LabelTable;

/// The hierarchy of each quasi-identifier, its labels at hand. `tables` are the plans that the
/// sources refer to, of one partition each.
pub(in crate::engine) async fn resolve(
    quasi_identifiers: &[QuasiIdentifier],
    tables: &[Arc<dyn ExecutionPlan>],
    context: &Arc<TaskContext>,
) -> Result<Vec<Option<ResolvedHierarchy>>> {
    let mut resolved = Vec::with_capacity(quasi_identifiers.len());
    for quasi_identifier in quasi_identifiers {
        let name = &quasi_identifier.column.name;
        resolved.push(match &quasi_identifier.hierarchy {
            None => None,
            Some(HierarchySource::Intervals(steps)) => {
                Some(ResolvedHierarchy::Intervals(steps.clone()))
            }
            Some(HierarchySource::Prefixes(kept)) => {
                Some(ResolvedHierarchy::Prefixes(kept.clone()))
            }
            Some(HierarchySource::Dates(steps)) => Some(ResolvedHierarchy::Dates(steps.clone())),
            Some(HierarchySource::Automatic(automatic)) => {
                Some(ResolvedHierarchy::Automatic(automatic.clone()))
            }
            Some(HierarchySource::File(path)) => {
                Some(labels(read_file(path, name, context).await?, name)?)
            }
            Some(HierarchySource::Table(number)) => {
                let Some(table) = tables.get(*number) else {
                    return exec_err!("a hierarchy table is missing from the plan");
                };
                Some(labels(read_table(table, context).await?, name)?)
            }
        });
    }
    Ok(resolved)
}

/// The level of every listed sensitive value.
pub(in crate::engine) async fn resolve_levels(
    grading: &Grading,
    tables: &[Arc<dyn ExecutionPlan>],
    context: &Arc<TaskContext>,
) -> Result<ListedLevels> {
    let number = match &grading.levels {
        LevelSource::Listed(levels) => return Ok(levels.clone()),
        LevelSource::Table(number) => *number,
    };
    let Some(table) = tables.get(number) else {
        return exec_err!("the table of sensitivity levels is missing from the plan");
    };
    let mut listed = Vec::new();
    let mut batches = table.execute(0, Arc::clone(context))?;
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(redact_values)?;
        let (values, levels) = (batch.column(0), batch.column(1));
        let (values, levels) = (values.as_string::<i32>(), levels.as_string::<i32>());
        let text = |value: Option<&str>| value.map(str::to_owned);
        let level = |level: Option<&str>| level.and_then(|level| level.parse::<i64>().ok());
        listed.extend(values.iter().zip(levels).map(|(v, l)| (text(v), level(l))));
    }
    Ok(checked_levels(listed.into_iter())?)
}

async fn read_file(
    path: &str,
    column: &str,
    context: &TaskContext,
) -> Result<Vec<(usize, Vec<String>)>> {
    let unreadable = |why: &dyn std::fmt::Display| {
        exec_datafusion_err!("hierarchy of column '{column}': cannot read the file '{path}': {why}")
    };
    let url = ListingTableUrl::parse(path).map_err(|error| unreadable(&error.strip_backtrace()))?;
    let unknown_store = |_| unreadable(&"no object store is registered for this location");
    let store = context.runtime_env().object_store(&url).map_err(unknown_store)?;
    let file = store.get(url.prefix()).await.map_err(|error| unreadable(&error))?;
    let bytes = file.bytes().await.map_err(|error| unreadable(&error))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| unreadable(&"it is not UTF-8 text"))?;
    LabelTable::read_rows(text).map_err(|error| unreadable(&error))
}

async fn read_table(
    table: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Vec<(usize, Vec<String>)>> {
    let mut rows = Vec::new();
    let mut batches = table.execute(0, Arc::clone(context))?;
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(redact_values)?;
        for row in 0..batch.num_rows() {
            // Columns of the node's own projection: always Utf8. NULL is an empty label, and what
            // lies under it is arbitrary, for example the value of a NULLIF.
            let label = |column: &ArrayRef| match column.is_null(row) {
                true => String::new(),
                false => column.as_string::<i32>().value(row).to_owned(),
            };
            rows.push(batch.columns().iter().map(label).collect::<Vec<String>>());
        }
    }
    // A relation has no order, and the one in which its partitions arrive must not decide the order
    // of the leaves.
    rows.sort_unstable();
    Ok(rows.into_iter().enumerate().map(|(at, row)| (at + 1, row)).collect())
}

fn labels(rows: Vec<(usize, Vec<String>)>, column: &str) -> Result<ResolvedHierarchy> {
    let table = LabelTable::from_rows(rows);
    let table =
        table.map_err(|error| exec_datafusion_err!("hierarchy of column '{column}': {error}"))?;
    Ok(ResolvedHierarchy::Labels(Arc::new(table)))
}
