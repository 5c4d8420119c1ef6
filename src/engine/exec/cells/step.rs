//! What the operators of a release in cells are, and the columns that rows carry between them.

use std::sync::Arc;

use datafusion::arrow::compute::{SortOptions, can_cast_types};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;

use crate::columnar::{Layout, page_schema};
use crate::engine::plan::Binding;

/// The cell of a row.
pub(super) const CELL: &str = "__anonymize_cell";
/// The key of the hash exchange, equal for all rows of a cell.
pub(super) const CELL_KEY: &str = "__anonymize_cell_key";
/// A header of the whole table or of a cell, in a row of its own.
pub(super) const CELL_HEADER: &str = "__anonymize_cell_header";
/// The cell number of headers of the whole table; cells never reach it.
pub(super) const WHOLE_TABLE: u32 = u32::MAX;
/// The class of a published row, a unique number without meaning; NULL in summaries.
pub(super) const CLASS: &str = "__anonymize_class";
/// The position of a published row in its cell.
pub(super) const PLACE: &str = "__anonymize_place";
/// The summary of a partition.
pub(super) const SUMMARY: &str = "__anonymize_summary";

/// Positions of the columns that cells are made from, in the input of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct CellColumns {
    /// The quasi-identifiers, and behind them the sensitive column where a method treats it like one.
    pub quasi_identifiers: Vec<usize>,
    /// The columns that models look at, the privacy unit among them.
    pub modelled: Vec<usize>,
}

impl CellColumns {
    pub(super) fn layout(&self, schema: SchemaRef) -> Layout {
        Layout {
            schema,
            quasi_identifiers: self.quasi_identifiers.clone(),
            modelled: self.modelled.clone(),
            keyed: Vec::new(),
            kept: Vec::new(),
            payload: Vec::new(),
            person: None,
        }
    }
}

/// What one operator of a release in cells does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum CellStep {
    /// Values of the quasi-identifiers and a sample, from the input.
    Sketch(CellColumns),
    /// All values and the cut tree, from sketches and hierarchy tables.
    Survey {
        /// Where the columns are that the sketches are about.
        columns: CellColumns,
        /// The input of the sketches.
        #[cfg_attr(feature = "cluster", serde(with = "crate::engine::wire::schema"))]
        input_schema: SchemaRef,
    },
    /// Counts by leaf of the cut tree, from the survey and the input.
    Count(CellColumns),
    /// Cells of one or more leaves, from counts.
    Arrange {
        /// Where the columns are that were counted.
        columns: CellColumns,
        /// The input of the counts.
        #[cfg_attr(feature = "cluster", serde(with = "crate::engine::wire::schema"))]
        input_schema: SchemaRef,
        /// Partitions that rows are exchanged to.
        partitions: usize,
    },
    /// The cell of every row, from the arrangement and the input.
    Assign(CellColumns),
    /// Verified classes, from rows with their cells and hierarchy tables.
    Release {
        /// Roles of the input's columns.
        binding: Binding,
        /// The input as it was before rows had cells.
        #[cfg_attr(feature = "cluster", serde(with = "crate::engine::wire::schema"))]
        input_schema: SchemaRef,
        /// What is published.
        #[cfg_attr(feature = "cluster", serde(with = "crate::engine::wire::schema"))]
        schema: SchemaRef,
        /// Columns of the full output that are wanted, all if `None`.
        projection: Option<Vec<usize>>,
        /// Columns of the output that may show in the order of a class's rows.
        order_by: Vec<usize>,
    },
    /// The release, from verified classes.
    Gather {
        /// What is published.
        #[cfg_attr(feature = "cluster", serde(with = "crate::engine::wire::schema"))]
        schema: SchemaRef,
        /// Which of these columns are numbers of classes.
        class_ids: Vec<usize>,
        /// The most rows that are wanted.
        fetch: Option<usize>,
    },
}

impl CellStep {
    pub(super) fn schema(&self, children: &[Arc<dyn ExecutionPlan>]) -> Result<SchemaRef> {
        let with = |fields: &Schema, more: [Field; 3]| {
            // Headers and summaries have nothing in the other columns.
            let nullable = fields.fields().iter().map(|field| field.as_ref().clone());
            let nullable = nullable.map(|field| field.with_nullable(true));
            Arc::new(Schema::new(nullable.chain(more).collect::<Vec<Field>>()))
        };
        Ok(match self {
            Self::Sketch(_) | Self::Survey { .. } | Self::Count(_) | Self::Arrange { .. } => {
                page_schema()
            }
            Self::Assign(_) => {
                let Some(input) = children.get(1) else {
                    return internal_err!("a step of a release in cells has no input");
                };
                let cell = Field::new(CELL, DataType::UInt32, false);
                let key = Field::new(CELL_KEY, DataType::UInt32, false);
                let header = Field::new(CELL_HEADER, DataType::LargeBinary, true);
                with(&input.schema(), [cell, key, header])
            }
            Self::Release { schema, .. } => {
                let sorted = schema.fields().iter().map(|field| {
                    field.as_ref().clone().with_data_type(sorted_as(field.data_type()))
                });
                let schema = Schema::new(sorted.collect::<Vec<Field>>());
                let class = Field::new(CLASS, DataType::UInt64, true);
                let place = Field::new(PLACE, DataType::UInt32, false);
                let summary = Field::new(SUMMARY, DataType::LargeBinary, true);
                with(&schema, [class, place, summary])
            }
            Self::Gather { schema, .. } => Arc::clone(schema),
        })
    }

    /// The child whose partitions are worked on.
    pub(super) fn main_child(&self) -> usize {
        match self {
            Self::Count(_) | Self::Assign(_) => 1,
            Self::Sketch(_)
            | Self::Survey { .. }
            | Self::Arrange { .. }
            | Self::Release { .. }
            | Self::Gather { .. } => 0,
        }
    }
}

/// What a column of this type is sorted as: a sorted batch of dictionaries or views refers to the values of all
/// batches that it was made from, and takes them along to wherever it is sent. Dictionaries of small keys stay:
/// the values of a batch might have no room when they are put back.
pub(super) fn sorted_as(data_type: &DataType) -> DataType {
    use DataType::{
        BinaryView, Dictionary, Int32, Int64, LargeBinary, LargeUtf8, UInt32, UInt64, Utf8View,
    };
    let plain = match data_type {
        Dictionary(key, values) if matches!(**key, Int32 | UInt32 | Int64 | UInt64) => {
            sorted_as(values)
        }
        Utf8View => LargeUtf8,
        BinaryView => LargeBinary,
        other => other.clone(),
    };
    match can_cast_types(&plain, data_type) {
        true => plain,
        false => data_type.clone(),
    }
}

/// Summaries, then classes in an order that says nothing.
pub(super) fn class_order(schema: &SchemaRef) -> Result<LexOrdering> {
    order_by(&[CLASS], schema)
}

/// The same, with the rows of each class in order. A class is in one partition, so sorted partitions are merged by
/// class alone, which is a number.
pub(super) fn row_order(schema: &SchemaRef) -> Result<LexOrdering> {
    order_by(&[CLASS, PLACE], schema)
}

fn order_by(columns: &[&str], schema: &SchemaRef) -> Result<LexOrdering> {
    let by = |name: &&str| -> Result<PhysicalSortExpr> {
        let column = Column::new_with_schema(name, schema)?;
        Ok(PhysicalSortExpr::new(Arc::new(column), SortOptions::new(false, true)))
    };
    match LexOrdering::new(columns.iter().map(by).collect::<Result<Vec<_>>>()?) {
        Some(order) => Ok(order),
        None => internal_err!("classes have no order"),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, ArrayRef, StringArray};
    use datafusion::arrow::compute::cast;

    use super::*;

    #[test]
    fn what_is_sorted_refers_to_no_other_rows_and_comes_back_as_it_was() -> Result<()> {
        let dictionary =
            |key: DataType, values: DataType| DataType::Dictionary(Box::new(key), Box::new(values));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("a")]));
        for (data_type, sorted) in [
            (DataType::Utf8, DataType::Utf8),
            (DataType::Utf8View, DataType::LargeUtf8),
            (DataType::BinaryView, DataType::LargeBinary),
            (dictionary(DataType::Int32, DataType::Utf8), DataType::Utf8),
            (dictionary(DataType::UInt64, DataType::Utf8View), DataType::LargeUtf8),
            (
                dictionary(DataType::Int8, DataType::Utf8),
                dictionary(DataType::Int8, DataType::Utf8),
            ),
        ] {
            assert_eq!(sorted_as(&data_type), sorted);
            let before = cast(&texts, &data_type)?;
            let after = cast(&cast(&before, &sorted)?, &data_type)?;
            assert_eq!(before.to_data(), after.to_data(), "{data_type}");
        }
        Ok(())
    }
}
