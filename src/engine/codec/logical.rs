//! Logical nodes as bytes.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, internal_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, Extension, HigherOrderUDF, LogicalPlan, ScalarUDF, WindowUDF,
};
use datafusion_proto::bytes::Serializeable;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use serde::{Deserialize, Serialize};

use super::{Kind, decode, encode, split_header, unknown};
use crate::engine::options::Spec;
use crate::engine::plan::AnonymizeNode;
use crate::engine::reports::{Report, ReportNode};

/// Knows the logical nodes of this crate; the codec behind it knows the rest.
#[derive(Debug)]
pub struct AnonymizeLogicalCodec {
    inner: Arc<dyn LogicalExtensionCodec>,
    tables: Arc<dyn LogicalExtensionCodec>,
}

impl AnonymizeLogicalCodec {
    /// In front of another codec.
    pub fn new(inner: Arc<dyn LogicalExtensionCodec>) -> Self {
        Self { tables: Arc::clone(&inner), inner }
    }

    /// Gives tables to a codec of the host's own: that of an engine may know none, as Ballista's does.
    pub fn with_tables(self, tables: Arc<dyn LogicalExtensionCodec>) -> Self {
        Self { tables, ..self }
    }
}

/// Predicates in DataFusion's own format.
type Filters = Vec<Vec<u8>>;

#[derive(Serialize, Deserialize)]
struct WireAnonymize {
    spec: Spec,
    filters: Filters,
}

#[derive(Serialize, Deserialize)]
struct WireReport {
    report: Report,
    filters: Filters,
}

fn encode_filters(filters: &[Expr]) -> Result<Filters> {
    filters.iter().map(|filter| Ok(filter.to_bytes()?.to_vec())).collect()
}

fn decode_filters(filters: &Filters, context: &TaskContext) -> Result<Vec<Expr>> {
    filters.iter().map(|filter| Expr::from_bytes_with_ctx(filter, context)).collect()
}

impl LogicalExtensionCodec for AnonymizeLogicalCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[LogicalPlan],
        context: &TaskContext,
    ) -> Result<Extension> {
        let Some((kind, contents)) = split_header(buf)? else {
            return self.inner.try_decode(buf, inputs, context);
        };
        if kind == Kind::Anonymize as u8 {
            let WireAnonymize { spec, filters } = decode(contents)?;
            let Some((input, tables)) = inputs.split_first() else {
                return internal_err!("anonymize needs an input");
            };
            let filters = decode_filters(&filters, context)?;
            let node =
                AnonymizeNode::try_new(Arc::new(spec), input.clone(), tables.to_vec(), filters)?;
            return Ok(Extension { node: Arc::new(node) });
        }
        if kind == Kind::Report as u8 {
            let WireReport { report, filters } = decode(contents)?;
            let filters = decode_filters(&filters, context)?;
            let node = ReportNode::try_new(Arc::new(report), inputs.to_vec(), filters)?;
            return Ok(Extension { node: Arc::new(node) });
        }
        unknown(kind)
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        if let Some(node) = node.node.as_any().downcast_ref::<AnonymizeNode>() {
            let filters = encode_filters(&node.filters)?;
            let contents = WireAnonymize { spec: Spec::clone(&node.spec), filters };
            return encode(Kind::Anonymize, &contents, buf);
        }
        if let Some(node) = node.node.as_any().downcast_ref::<ReportNode>() {
            let filters = encode_filters(&node.filters)?;
            let contents = WireReport { report: Report::clone(&node.report), filters };
            return encode(Kind::Report, &contents, buf);
        }
        self.inner.try_encode(node, buf)
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        self.tables.try_decode_table_provider(buf, table, schema, context)
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        node: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        self.tables.try_encode_table_provider(table, node, buf)
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
