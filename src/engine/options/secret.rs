//! The secret of a session.

use datafusion::error::Result;
use datafusion::prelude::SessionConfig;

use crate::model::Secret;

/// The secret of queries that name none, drawn once so that queries of a session agree.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct SessionSecret(pub(in crate::engine) Secret);

impl SessionSecret {
    pub(in crate::engine) fn of(config: &SessionConfig) -> Result<Secret> {
        match config.get_extension::<Self>() {
            Some(secret) => Ok(secret.0),
            None => Ok(Secret::random()?),
        }
    }
}
