//! The secret of a session.

use datafusion::error::Result;
use datafusion::prelude::SessionConfig;

use crate::model::Secret;

/// The secret of queries that name none, drawn once so that queries of a session agree.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct SessionSecret {
    pub(in crate::engine) secret: Secret,
    /// Whether somebody named it; others are gone with the session.
    pub(in crate::engine) is_named: bool,
}

impl SessionSecret {
    pub(in crate::engine) fn of(config: &SessionConfig) -> Result<Self> {
        match config.get_extension::<Self>() {
            Some(secret) => Ok(*secret),
            None => Self::drawn(),
        }
    }

    /// A secret that nobody knows.
    pub(in crate::engine) fn drawn() -> Result<Self> {
        Ok(Self { secret: Secret::random()?, is_named: false })
    }
}
