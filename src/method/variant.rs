//! Which version of a method runs.

/// The best version of a method that we know, or the one that its paper prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "codec", derive(serde::Serialize, serde::Deserialize))]
pub enum Variant {
    /// The best version; each method's documentation lists where it departs from its paper.
    #[default]
    Best,
    /// Exactly as printed, for comparisons and for repeating experiments. It may disclose what the best version
    /// protects.
    Paper,
}
