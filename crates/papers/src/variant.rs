//! Everything is measured twice: as the papers print it, and as it is by default.

/// Which version of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// `variant => 'paper'`.
    Paper,
    /// Without an option: the best version.
    Default,
}

/// Ends the names of lines that show a method as its paper prints it.
pub const AS_PRINTED: &str = " (paper)";

/// The method of a line, whichever version it shows.
pub fn method_of(line: &str) -> &str {
    line.strip_suffix(AS_PRINTED).unwrap_or(line)
}

impl Variant {
    pub const BOTH: [Variant; 2] = [Variant::Paper, Variant::Default];

    /// The option with its comma before it.
    pub fn option(self) -> &'static str {
        match self {
            Variant::Paper => ", variant => 'paper'",
            Variant::Default => "",
        }
    }

    /// What plots call a method.
    pub fn name(self, method: &str) -> String {
        match self {
            Variant::Paper => format!("{method}{AS_PRINTED}"),
            Variant::Default => method.to_owned(),
        }
    }
}
