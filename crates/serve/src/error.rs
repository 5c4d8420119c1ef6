//! Why the service does not start, or ends.

/// The outcome of starting and running the service.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the service does not start, or ends. No message holds a password, a seed or a cell.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The policy or the options cannot be followed: nothing was served.
    #[error("{0}")]
    Setup(String),
    /// The service ran and cannot go on.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// A mistake in the policy or the options.
    pub fn setup(message: impl Into<String>) -> Self {
        Self::Setup(message.into())
    }
}
