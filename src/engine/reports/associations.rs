//! What a release keeps of the associations between columns.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, Result, plan_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use futures::StreamExt;

use super::BothTables;
use super::grouping::converted;
use super::plan::{mistake, type_of};
use crate::columnar::{LabelledCells, LabelsAbove, OriginalCells, PublishedForm, grouped_type};
use crate::engine::hierarchies::resolve;
use crate::engine::operator::running;
use crate::engine::options::QuasiIdentifier;
use crate::engine::options::{Options, find_column};
use crate::engine::redact_values;
use crate::measure::{LabelledColumn, Measure, RuleLimits, association_retention};

/// Associations of a utility report.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct AssociationsSpec {
    /// The columns that are compared, with their hierarchies.
    pub(super) columns: Vec<QuasiIdentifier>,
    /// What counts as a rule.
    pub(super) limits: RuleLimits,
}

/// What counts as a rule, if associations are asked for.
pub(super) fn rule_limits(options: &Options) -> crate::Result<Option<RuleLimits>> {
    if !options.asks_for_associations() {
        return Ok(None);
    }
    Ok(Some(RuleLimits {
        min_support: options.checked_min_support()?,
        min_confidence: options.checked_min_confidence()?,
        max_columns: options.checked_max_columns()?,
    }))
}

/// The compared columns of both tables, row by row.
pub(super) fn compared_rows(
    spec: &AssociationsSpec,
    original: &LogicalPlan,
    published: &LogicalPlan,
) -> Result<Vec<LogicalPlan>> {
    let wrong = mistake("utility_report, the published table");
    let mut of_original = Vec::new();
    let mut of_published = Vec::new();
    for (number, compared) in spec.columns.iter().enumerate() {
        let name = &compared.column.name;
        let found = find_column(published.schema(), "quasi_identifiers", name).map_err(&wrong)?;
        let data_type = type_of(published.schema(), &found)?;
        let of = type_of(original.schema(), &compared.column)?;
        let is_mean = !data_type.is_nested()
            && PublishedForm::of(of, data_type, name)
                .is_ok_and(|form| form == PublishedForm::Means)
            && grouped_type(of) != grouped_type(data_type);
        if data_type.is_nested() || is_mean {
            return plan_err!(
                "utility_report: associations are between labels, and column '{name}' is published as \
                 {data_type}; publish it with ranges => 'label'"
            );
        }
        let key = |column: &Column, data_type: &DataType, prefix: &str| {
            let plain = grouped_type(data_type);
            converted(Expr::Column(column.clone()), data_type, plain)
                .alias(format!("__{prefix}_{number}"))
        };
        of_original.push(key(&compared.column, of, "original"));
        of_published.push(key(&found, data_type, "published"));
    }
    let project = |plan: &LogicalPlan, columns: Vec<Expr>| {
        LogicalPlanBuilder::from(plan.clone()).project(columns)?.build()
    };
    Ok(vec![project(original, of_original)?, project(published, of_published)?])
}

/// Reads both tables, whose columns are those of the report, and compares their rules.
pub(super) async fn measure(
    spec: &AssociationsSpec,
    inputs: &BothTables<'_>,
    context: &Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<Vec<Measure>> {
    let hierarchies = resolve(&spec.columns, inputs.lookups, context).await?;
    let held = memory.size();
    let schema = inputs.original.schema();
    let types = schema.fields().iter().map(|field| field.data_type().clone());
    let names = spec.columns.iter().map(|qi| qi.column.name.as_str());
    let mut cells: Vec<OriginalCells> =
        names.clone().zip(types.clone()).map(|(name, of)| OriginalCells::new(name, &of)).collect();
    let mut batches = inputs.original.execute(0, Arc::clone(context))?;
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(redact_values)?;
        for (cells, column) in cells.iter_mut().zip(batch.columns()) {
            cells.add(column)?;
        }
        memory.try_resize(held + cells.iter().map(OriginalCells::memory).sum::<usize>())?;
    }
    let mut originals = Vec::with_capacity(cells.len());
    let mut above = Vec::with_capacity(cells.len());
    for ((cells, of), hierarchy) in cells.into_iter().zip(types).zip(&hierarchies) {
        let (cells, labels_above) = cells.finish(&of, hierarchy.as_ref())?;
        originals.push(labelled(cells, &labels_above));
        above.push(labels_above);
    }
    let held = memory.size();
    let mut cells: Vec<LabelledCells> = names.clone().map(|_| LabelledCells::default()).collect();
    let mut batches = inputs.published.execute(0, Arc::clone(context))?;
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(redact_values)?;
        for ((cells, column), name) in cells.iter_mut().zip(batch.columns()).zip(names.clone()) {
            cells.add(name, column)?;
        }
        memory.try_resize(held + cells.iter().map(LabelledCells::memory).sum::<usize>())?;
    }
    let published: Vec<LabelledColumn> =
        cells.into_iter().zip(&above).map(|(cells, above)| labelled(cells, above)).collect();
    let limits = spec.limits;
    // Bitmaps of the frequent labels, of which there are few.
    let rows = |table: &[LabelledColumn]| table.first().map_or(0, |column| column.cells.len());
    memory.try_grow(2 * spec.columns.len() * (rows(&originals) + rows(&published)))?;
    running(move || Ok(association_retention(&originals, &published, limits)?)).await
}

/// Every label with those above it.
fn labelled(cells: LabelledCells, above: &LabelsAbove) -> LabelledColumn {
    let with_those_above = |label: Option<String>| match label {
        None => Vec::new(),
        Some(label) => {
            let above = above.get(&label).cloned().unwrap_or_default();
            std::iter::once(label).chain(above).collect()
        }
    };
    let LabelledCells { labels, cells, .. } = cells;
    LabelledColumn { labels: labels.into_iter().map(with_those_above).collect(), cells }
}
