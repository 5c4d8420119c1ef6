//! Errors as Postgres clients know them: a SQLSTATE and a sentence.

use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion_postgres::pgwire::error::{ErrorInfo, PgWireError};

/// Codes of <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
pub mod state {
    pub const PROTOCOL: &str = "08P01";
    pub const NOT_SUPPORTED: &str = "0A000";
    pub const TOO_MANY_CONNECTIONS: &str = "53300";
    pub const BAD_DATETIME_OR_TEXT: &str = "22P02";
    pub const DIVISION_BY_ZERO: &str = "22012";
    pub const OUT_OF_RANGE: &str = "22003";
    pub const FAILED_TRANSACTION: &str = "25P02";
    pub const NO_AUTHORIZATION: &str = "28000";
    pub const WRONG_PASSWORD: &str = "28P01";
    pub const NOT_PERMITTED: &str = "42501";
    pub const SYNTAX: &str = "42601";
    pub const NO_COLUMN: &str = "42703";
    pub const NO_SETTING: &str = "42704";
    pub const NO_FUNCTION: &str = "42883";
    pub const NO_TABLE: &str = "42P01";
    pub const WRONG_QUERY: &str = "42000";
    pub const OUT_OF_MEMORY: &str = "53200";
    pub const TOO_COMPLEX: &str = "54001";
    pub const DISK_FULL: &str = "53100";
    pub const NOT_READY: &str = "55000";
    pub const CANCELLED: &str = "57014";
    pub const SHUTTING_DOWN: &str = "57P01";
    pub const INTERNAL: &str = "XX000";
}

/// An error of a statement: the connection goes on.
pub fn error(code: &str, message: impl Into<String>) -> PgWireError {
    info("ERROR", code, message)
}

/// An error that ends the connection.
pub fn fatal(code: &str, message: impl Into<String>) -> PgWireError {
    info("FATAL", code, message)
}

fn info(severity: &str, code: &str, message: impl Into<String>) -> PgWireError {
    let info = ErrorInfo::new(severity.to_owned(), code.to_owned(), message.into());
    PgWireError::UserError(Box::new(info))
}

/// An error of the engine, which only ever saw releases: it cannot quote a raw cell.
pub fn engine_error(failure: &DataFusionError) -> PgWireError {
    let root = failure.find_root();
    if let DataFusionError::ObjectStore(_)
    | DataFusionError::ParquetError(_)
    | DataFusionError::IoError(_) = root
    {
        // Such an error names files of the server.
        log::error!("a release cannot be read: {root}");
        return error(
            state::INTERNAL,
            "a file of the release cannot be read; the service's log says more",
        );
    }
    let plain = sentence(root);
    error(code(root, &plain), shortened(&plain))
}

/// What an error of the engine says, without the names of its layers.
pub fn sentence(failure: &DataFusionError) -> String {
    let text = failure.find_root().strip_backtrace();
    let plain =
        LAYERS.iter().fold(text.as_str(), |text, layer| text.strip_prefix(layer).unwrap_or(text));
    plain.to_owned()
}

/// Some errors of the engine quote a whole expression.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Characters of a sentence that a client is told.
const LONGEST_MESSAGE: usize = 600;

/// Each layer of the engine puts its own name in front of the sentence; these are told by the code.
const LAYERS: [&str; 9] = [
    "Error during planning: ",
    "Execution error: ",
    "Resources exhausted: ",
    "SQL error: ",
    "Schema error: ",
    "This feature is not implemented: ",
    "Arrow error: ",
    "Cast error: ",
    "Parser error: ",
];

fn code(root: &DataFusionError, text: &str) -> &'static str {
    match root {
        DataFusionError::SQL(..) => state::SYNTAX,
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { .. } => state::NO_COLUMN,
            _ => state::WRONG_QUERY,
        },
        DataFusionError::ResourcesExhausted(_) if text.contains("disk") => state::DISK_FULL,
        DataFusionError::ResourcesExhausted(_) => state::OUT_OF_MEMORY,
        DataFusionError::NotImplemented(_) => state::NOT_SUPPORTED,
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::DivideByZero => state::DIVISION_BY_ZERO,
            ArrowError::ArithmeticOverflow(_) => state::OUT_OF_RANGE,
            ArrowError::CastError(_) | ArrowError::ParseError(_) => state::BAD_DATETIME_OR_TEXT,
            _ => state::INTERNAL,
        },
        DataFusionError::Plan(_) if text.contains("not found") && text.contains("table") => {
            state::NO_TABLE
        }
        DataFusionError::Plan(_) if text.contains("has no release yet") => state::NOT_READY,
        DataFusionError::Plan(_) if text.contains("Invalid function") => state::NO_FUNCTION,
        DataFusionError::Plan(_) if text.contains("not supported: ") => state::NOT_PERMITTED,
        DataFusionError::Plan(_) | DataFusionError::Diagnostic(..) => state::WRONG_QUERY,
        _ => state::INTERNAL,
    }
}

/// An error as a client is told it, whichever layer it comes from.
pub fn for_client(failure: PgWireError) -> PgWireError {
    match failure {
        PgWireError::ApiError(inner) => {
            if let Some(failure) = inner.downcast_ref::<DataFusionError>() {
                return engine_error(failure);
            }
            match inner.downcast_ref::<ParserError>() {
                Some(failure) => error(state::SYNTAX, failure.to_string()),
                None => error(state::INTERNAL, inner.to_string()),
            }
        }
        other => other,
    }
}

/// Whether an error ends the connection.
pub fn is_fatal(failure: &PgWireError) -> bool {
    matches!(failure, PgWireError::UserError(info) if info.is_fatal())
}

/// The code of an error, for the log: the sentence may quote what the client wrote.
pub fn code_of(failure: &PgWireError) -> &str {
    match failure {
        PgWireError::UserError(info) => &info.code,
        _ => state::INTERNAL,
    }
}
