//! The functions as parts of DataFusion.

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

/// Registers `anonymize` and everything beside it in a session.
pub fn register_all(_context: &SessionContext) -> Result<()> {
    Ok(())
}
