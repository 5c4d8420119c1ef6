//! Plans of this crate as bytes, for engines that run a plan on several machines.
//!
//! [`AnonymizeLogicalCodec`] and [`AnonymizePhysicalCodec`] stand in front of an engine's own codecs: they know
//! the nodes of this crate by the first bytes and leave everything else to the codec behind them.
//!
//! ```text
//! "anonymize"  version  kind  contents (postcard)
//!   9 bytes     1 byte  1 byte
//! ```
//!
//! Contents are the checked requests themselves, written by serde: every field of them, so that none can be
//! forgotten. They hold the seed, which every machine needs to break ties in the same way; whoever reads the
//! traffic or the memory of a cluster can read it there, as they can read the rows. It never shows in a plan.
//!
//! Bytes of another version are refused: fields of a request decide what is published, and a guess is no
//! decision.

mod logical;
mod physical;
#[cfg(test)]
mod tests;

pub use logical::AnonymizeLogicalCodec;
pub use physical::AnonymizePhysicalCodec;

use datafusion::common::{Result, exec_err, internal_datafusion_err, plan_err};
use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: &[u8; 9] = b"anonymize";

/// Raised with every change to the contents of a node.
const VERSION: u8 = 6;

/// What bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Anonymize = 1,
    Report = 2,
    Cells = 4,
    RedactErrors = 6,
    CompactBatches = 7,
}

/// Appends a node's contents.
fn encode<T: Serialize>(kind: Kind, contents: &T, buf: &mut Vec<u8>) -> Result<()> {
    buf.extend_from_slice(MAGIC);
    buf.extend_from_slice(&[VERSION, kind as u8]);
    // The error is dropped: it may quote values.
    let bytes = postcard::to_stdvec(contents)
        .map_err(|_| internal_datafusion_err!("a node of anonymize cannot be written as bytes"))?;
    buf.extend_from_slice(&bytes);
    Ok(())
}

/// The kind and the contents of a plan of this crate, `None` for any other bytes.
fn split_header(buf: &[u8]) -> Result<Option<(u8, &[u8])>> {
    let Some(rest) = buf.strip_prefix(MAGIC) else { return Ok(None) };
    match rest {
        [VERSION, kind, contents @ ..] => Ok(Some((*kind, contents))),
        [version, ..] => plan_err!(
            "a plan of anonymize came in format {version}, and this program reads format {VERSION}: run the same \
             version of the client, anonymize-scheduler and anonymize-executor"
        ),
        [] => exec_err!("a plan of anonymize came without its contents"),
    }
}

fn decode<T: DeserializeOwned>(contents: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(contents) {
        Ok((decoded, [])) => Ok(decoded),
        _ => exec_err!("a plan of anonymize came in bytes that cannot be read"),
    }
}

fn unknown<T>(kind: u8) -> Result<T> {
    plan_err!(
        "a plan of anonymize holds a node of kind {kind}, which this program does not know here: run the same \
         version of the client, anonymize-scheduler and anonymize-executor"
    )
}
