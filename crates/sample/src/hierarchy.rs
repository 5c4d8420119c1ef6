//! Ready-made hierarchies for the string columns.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::column::Column;
use super::model::categories;

/// The most general value.
const TOP: &str = "*";

/// The columns that have a hierarchy: those with few, named values, but for the salary class, which is
/// the value to protect. (Zip codes generalize by their leading digits and need no table.)
pub(crate) fn hierarchy_columns() -> Vec<&'static str> {
    Column::ALL
        .into_iter()
        .filter(|column| *column != Column::SalaryClass && categories(*column).is_some())
        .map(Column::name)
        .collect()
}

/// The hierarchy of a column: one row per value the generator can emit, columns `leaf`, `level1`, …,
/// the last of which is `*`. `None` if the column has no hierarchy.
pub(crate) fn sample_hierarchy(column: &str) -> Option<RecordBatch> {
    if !hierarchy_columns().contains(&column) {
        return None;
    }
    let categories = categories(Column::named(column)?)?;
    let groups = categories.first()?.groups.len();
    let mut fields = vec![Field::new("leaf", DataType::Utf8View, false)];
    let mut levels = vec![strings(categories.iter().map(|category| category.label))];
    for group in 0..groups {
        levels.push(strings(categories.iter().map(|category| category.groups[group])));
    }
    levels.push(strings(categories.iter().map(|_| TOP)));
    for level in 1..levels.len() {
        let name = format!("level{level}");
        fields.push(Field::new(name, DataType::Utf8View, false));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), levels).ok()
}

fn strings(values: impl Iterator<Item = &'static str>) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(values))
}

/// The hierarchy of a column as a table. It knows which it is, so that any machine can make it.
#[derive(Debug)]
pub(crate) struct HierarchyTable {
    #[cfg_attr(not(feature = "codec"), expect(dead_code, reason = "only its bytes tell it"))]
    column: String,
    rows: MemTable,
}

impl HierarchyTable {
    /// `None` if the column has no hierarchy.
    pub(crate) fn new(column: &str) -> Result<Option<Self>> {
        let Some(batch) = sample_hierarchy(column) else { return Ok(None) };
        let rows = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        Ok(Some(Self { column: column.to_owned(), rows }))
    }

    /// The column.
    #[cfg(feature = "codec")]
    pub(crate) fn column(&self) -> &str {
        &self.column
    }
}

#[async_trait]
impl TableProvider for HierarchyTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.rows.scan(state, projection, filters, limit).await
    }
}
