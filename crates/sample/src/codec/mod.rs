//! Plans that read samples as bytes, for engines that run a plan on several machines: one byte for the version, then
//! the contents by postcard.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{
    Result, TableReference, exec_err, internal_datafusion_err, internal_err, not_impl_err, plan_err,
};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exec::{CensusExec, CensusScan};
use crate::hierarchy::HierarchyTable;
use crate::table::{CensusOptions, CensusTable};

/// Counts every change of the contents.
const VERSION: u8 = 1;

/// Knows the tables of this crate and their scan, and refuses everything else, so that it can be one of several codecs.
///
/// A table that was decoded is scanned in one partition: engines that give every task a part of a scan do not know how
/// to divide this one.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampleCodec;

#[derive(Serialize, Deserialize)]
enum WireTable {
    Census(CensusOptions),
    /// Of this column.
    Hierarchy(String),
}

impl LogicalExtensionCodec for SampleCodec {
    fn try_decode(&self, _: &[u8], _: &[LogicalPlan], _: &TaskContext) -> Result<Extension> {
        not_impl_err!("samples have no logical nodes of their own")
    }

    fn try_encode(&self, node: &Extension, _: &mut Vec<u8>) -> Result<()> {
        not_impl_err!("{} is not a table of samples", node.node.name())
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        _table: &TableReference,
        _schema: SchemaRef,
        _context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match decode(buf)? {
            WireTable::Census(options) => Ok(Arc::new(CensusTable::in_one_partition(options))),
            WireTable::Hierarchy(column) => match HierarchyTable::new(&column)? {
                Some(table) => Ok(Arc::new(table)),
                None => internal_err!("there is no sample hierarchy of that column"),
            },
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
        not_impl_err!("table '{table}' cannot be sent to other machines")
    }
}

impl PhysicalExtensionCodec for SampleCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _context: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan: CensusScan = decode(buf)?;
        Ok(Arc::new(CensusExec::of_scan(&scan)?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node.downcast_ref::<CensusExec>() {
            Some(exec) => encode(&exec.scan(), buf),
            None => not_impl_err!("{} cannot be sent to other machines", node.name()),
        }
    }
}

/// Appends what a table or a scan needs to be made again.
fn encode<T: Serialize>(contents: &T, buf: &mut Vec<u8>) -> Result<()> {
    let bytes = postcard::to_stdvec(contents)
        .map_err(|_| internal_datafusion_err!("a sample cannot be written as bytes"))?;
    buf.push(VERSION);
    buf.extend_from_slice(&bytes);
    Ok(())
}

fn decode<T: DeserializeOwned>(buf: &[u8]) -> Result<T> {
    let [VERSION, contents @ ..] = buf else {
        return plan_err!(
            "a sample came in a format that this program does not read: run the same version of the client, \
             anonymize-scheduler and anonymize-executor"
        );
    };
    match postcard::take_from_bytes(contents) {
        Ok((decoded, [])) => Ok(decoded),
        _ => exec_err!("a sample came in bytes that cannot be read"),
    }
}
