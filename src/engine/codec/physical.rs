//! Operators as bytes.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde::{Deserialize, Serialize};

use super::{Kind, decode, encode, split_header, unknown};
use crate::engine::exec::{
    AnonymizeExec, CellExec, CellStep, CompactBatchesExec, RedactErrorsExec, ReleaseShape,
};
use crate::engine::options::Spec;
use crate::engine::plan::Binding;
use crate::engine::reports::{Report, ReportExec};

/// Knows the operators of this crate; the codec behind it knows the rest.
#[derive(Debug)]
pub struct AnonymizePhysicalCodec {
    inner: Arc<dyn PhysicalExtensionCodec>,
}

impl AnonymizePhysicalCodec {
    /// In front of another codec.
    pub fn new(inner: Arc<dyn PhysicalExtensionCodec>) -> Self {
        Self { inner }
    }
}

#[derive(Serialize, Deserialize)]
struct WireAnonymize {
    spec: Spec,
    binding: Binding,
    shape: ReleaseShape,
}

#[derive(Serialize, Deserialize)]
struct WireCells {
    spec: Spec,
    cells: u32,
    step: CellStep,
}

impl PhysicalExtensionCodec for AnonymizePhysicalCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some((kind, contents)) = split_header(buf)? else {
            return self.inner.try_decode(buf, inputs, context, converter);
        };
        if kind == Kind::Anonymize as u8 {
            let WireAnonymize { spec, binding, shape } = decode(contents)?;
            let Some((input, tables)) = inputs.split_first() else {
                return internal_err!("anonymize needs an input");
            };
            let (input, tables) = (Arc::clone(input), tables.to_vec());
            let exec = AnonymizeExec::try_new(Arc::new(spec), binding, input, tables)?;
            return Ok(Arc::new(exec.with_shape(shape)?.on_cluster()));
        }
        if kind == Kind::Cells as u8 {
            let WireCells { spec, cells, step } = decode(contents)?;
            let exec = CellExec::try_new(Arc::new(spec), cells, step, inputs.to_vec())?;
            return Ok(Arc::new(exec.on_cluster()));
        }
        if kind == Kind::Report as u8 {
            let report: Report = decode(contents)?;
            return Ok(Arc::new(ReportExec::new(Arc::new(report), inputs.to_vec())));
        }
        if kind == Kind::RedactErrors as u8 {
            let () = decode(contents)?;
            let [input] = inputs else {
                return internal_err!("RedactErrorsExec needs an input");
            };
            return Ok(Arc::new(RedactErrorsExec::new(Arc::clone(input))));
        }
        if kind == Kind::CompactBatches as u8 {
            let () = decode(contents)?;
            let [input] = inputs else {
                return internal_err!("CompactBatchesExec needs an input");
            };
            return Ok(Arc::new(CompactBatchesExec::new(Arc::clone(input))));
        }
        unknown(kind)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(exec) = node.downcast_ref::<AnonymizeExec>() {
            let contents = WireAnonymize {
                spec: Spec::clone(exec.spec()),
                binding: exec.binding().clone(),
                shape: exec.shape().clone(),
            };
            return encode(Kind::Anonymize, &contents, buf);
        }
        if let Some(exec) = node.downcast_ref::<CellExec>() {
            let (spec, step) = (Spec::clone(exec.spec()), exec.step().clone());
            return encode(Kind::Cells, &WireCells { spec, cells: exec.cells(), step }, buf);
        }
        if let Some(exec) = node.downcast_ref::<ReportExec>() {
            return encode(Kind::Report, exec.report(), buf);
        }
        if node.is::<RedactErrorsExec>() {
            return encode(Kind::RedactErrors, &(), buf);
        }
        if node.is::<CompactBatchesExec>() {
            return encode(Kind::CompactBatches, &(), buf);
        }
        self.inner.try_encode(node, buf, converter)
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

    fn try_decode_expr(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        context: &PhysicalExprDecodeCtx<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.inner.try_decode_expr(buf, inputs, context)
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        buf: &mut Vec<u8>,
        context: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<()> {
        self.inner.try_encode_expr(node, buf, context)
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
