//! Plans that read samples as bytes, for engines that run a plan on several machines.
//!
//! [`SampleLogicalCodec`] and [`SamplePhysicalCodec`] stand in front of another codec: they know the tables and the
//! scan of this crate by the first bytes and leave everything else to the codec behind them.
//!
//! ```text
//! "sample"  version  contents (postcard)
//! 6 bytes   1 byte
//! ```

mod logical;
mod physical;
#[cfg(test)]
mod tests;

pub use logical::SampleLogicalCodec;
pub use physical::SamplePhysicalCodec;

use datafusion::common::{Result, exec_err, internal_datafusion_err, plan_err};
use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: &[u8; 6] = b"sample";

/// Counts every change of the contents.
const VERSION: u8 = 1;

/// Appends what a table or a scan needs to be made again.
fn encode<T: Serialize>(contents: &T, buf: &mut Vec<u8>) -> Result<()> {
    buf.extend_from_slice(MAGIC);
    buf.push(VERSION);
    let bytes = postcard::to_stdvec(contents)
        .map_err(|_| internal_datafusion_err!("a sample cannot be written as bytes"))?;
    buf.extend_from_slice(&bytes);
    Ok(())
}

/// The contents of bytes that are ours, `None` if they are not.
fn decode<T: DeserializeOwned>(buf: &[u8]) -> Result<Option<T>> {
    let Some(rest) = buf.strip_prefix(MAGIC) else { return Ok(None) };
    let [VERSION, contents @ ..] = rest else {
        return plan_err!(
            "a sample came in a format that this program does not read: run the same version of the client, \
             the scheduler and the executors"
        );
    };
    match postcard::take_from_bytes(contents) {
        Ok((decoded, [])) => Ok(Some(decoded)),
        _ => exec_err!("a sample came in bytes that cannot be read"),
    }
}
