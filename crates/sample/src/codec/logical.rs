//! Tables as bytes.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, internal_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{
    AggregateUDF, Extension, HigherOrderUDF, LogicalPlan, ScalarUDF, WindowUDF,
};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use serde::{Deserialize, Serialize};

use super::{decode, encode};
use crate::hierarchy::HierarchyTable;
use crate::table::{CensusOptions, CensusTable};

/// Knows the tables of this crate; the codec behind it knows the rest.
#[derive(Debug)]
pub struct SampleLogicalCodec {
    inner: Arc<dyn LogicalExtensionCodec>,
}

impl SampleLogicalCodec {
    /// In front of another codec.
    pub fn new(inner: Arc<dyn LogicalExtensionCodec>) -> Self {
        Self { inner }
    }
}

#[derive(Serialize, Deserialize)]
enum WireTable {
    Census(CensusOptions),
    /// Of this column.
    Hierarchy(String),
}

impl LogicalExtensionCodec for SampleLogicalCodec {
    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match decode(buf)? {
            Some(WireTable::Census(options)) => {
                Ok(Arc::new(CensusTable::in_one_partition(options)))
            }
            Some(WireTable::Hierarchy(column)) => match HierarchyTable::new(&column)? {
                Some(table) => Ok(Arc::new(table)),
                None => internal_err!("there is no sample hierarchy of that column"),
            },
            None => self.inner.try_decode_table_provider(buf, table, schema, context),
        }
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        node: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some(census) = node.downcast_ref::<CensusTable>() {
            return encode(&WireTable::Census(census.options()), buf);
        }
        if let Some(hierarchy) = node.downcast_ref::<HierarchyTable>() {
            return encode(&WireTable::Hierarchy(hierarchy.column().to_owned()), buf);
        }
        self.inner.try_encode_table_provider(table, node, buf)
    }

    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[LogicalPlan],
        context: &TaskContext,
    ) -> Result<Extension> {
        self.inner.try_decode(buf, inputs, context)
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode(node, buf)
    }

    fn try_decode_file_format(
        &self,
        buf: &[u8],
        context: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.inner.try_decode_file_format(buf, context)
    }

    fn try_encode_file_format(
        &self,
        buf: &mut Vec<u8>,
        node: Arc<dyn FileFormatFactory>,
    ) -> Result<()> {
        self.inner.try_encode_file_format(buf, node)
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.inner.try_decode_udf(name, buf)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udf(node, buf)
    }

    fn try_decode_higher_order_function(
        &self,
        name: &str,
        buf: &[u8],
    ) -> Result<Arc<HigherOrderUDF>> {
        self.inner.try_decode_higher_order_function(name, buf)
    }

    fn try_encode_higher_order_function(
        &self,
        node: &HigherOrderUDF,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        self.inner.try_encode_higher_order_function(node, buf)
    }

    fn try_decode_udaf(&self, name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        self.inner.try_decode_udaf(name, buf)
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udaf(node, buf)
    }

    fn try_decode_udwf(&self, name: &str, buf: &[u8]) -> Result<Arc<WindowUDF>> {
        self.inner.try_decode_udwf(name, buf)
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udwf(node, buf)
    }
}
