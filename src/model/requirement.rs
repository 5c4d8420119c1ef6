//! What every class of a release must satisfy.

use std::fmt;
use std::sync::Arc;

use super::{Grades, Store};

/// A sensitive column (or the privacy unit) as the models see it: one code per row number.
#[derive(Debug)]
pub struct SensitiveColumn {
    /// The column's name, for messages.
    pub name: String,
    /// The value of each row, by row number.
    pub codes: Store<u32>,
    /// Number of different codes.
    pub cardinality: u32,
    /// Whether codes are ranks of numbers or dates, so that nearer codes are more alike.
    pub ordered: bool,
}

#[cfg(test)]
impl SensitiveColumn {
    /// A column `s` of these values by row number, for tests.
    pub(crate) fn of_values(values: &[u32], ordered: bool) -> Self {
        let cardinality = values.iter().max().map_or(0, |max| max + 1);
        Self { name: "s".to_owned(), codes: values.to_vec().into(), cardinality, ordered }
    }
}

/// One condition on the values of a sensitive column inside a class.
#[derive(Debug, Clone, PartialEq)]
pub enum Model {
    /// At least this many different values. Counting persons is this model on the privacy unit.
    Distinct {
        /// Index of the sensitive column.
        column: usize,
        /// The number of different values asked for.
        at_least: u32,
        /// Whether the column is the privacy unit.
        unit: bool,
    },
    /// Entropy of the values of at least ln(l) (entropy l-diversity).
    Entropy {
        /// Index of the sensitive column.
        column: usize,
        /// The l whose logarithm is the bound.
        l: f64,
    },
    /// Distribution within `t` of the whole table's (t-closeness, earth mover's distance: over ranks
    /// for numbers and dates, half the summed differences for everything else).
    Closeness {
        /// Index of the sensitive column.
        column: usize,
        /// The largest distance.
        t: f64,
        /// How often each code occurs in the whole table, where the rows at hand are a part of it; `None`
        /// if they are the whole table.
        population: Option<Arc<[u64]>>,
    },
    /// No value holds more than this share of the class.
    Share {
        /// Index of the sensitive column.
        column: usize,
        /// The largest share.
        alpha: f64,
    },
    /// No person holds more than this share of the class.
    UnitShare {
        /// Index of the privacy unit.
        column: usize,
        /// The largest share.
        at_most: f64,
    },
    /// No value, or no level of sensitivity, holds more than the share of its level.
    Graded {
        /// Index of the sensitive column.
        column: usize,
        /// The level of every value and the share of every level.
        grades: Arc<Grades>,
    },
}

impl Model {
    /// Index of the sensitive column the model looks at.
    pub fn column(&self) -> usize {
        match self {
            Self::Distinct { column, .. }
            | Self::Entropy { column, .. }
            | Self::Closeness { column, .. }
            | Self::Share { column, .. }
            | Self::UnitShare { column, .. }
            | Self::Graded { column, .. } => *column,
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Distinct { at_least, unit: true, .. } => {
                write!(f, "k = {at_least} distinct privacy units")
            }
            Self::Distinct { at_least, .. } => write!(f, "l = {at_least}"),
            Self::Entropy { l, .. } => write!(f, "entropy_l = {l}"),
            Self::Closeness { t, .. } => write!(f, "t = {t}"),
            Self::Share { alpha, .. } => write!(f, "alpha = {alpha}"),
            Self::UnitShare { at_most, .. } => write!(f, "unit_share = {at_most}"),
            Self::Graded { grades, .. } => write!(f, "{grades}"),
        }
    }
}

/// The privacy requirement: a class has at least k rows and satisfies every model.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    /// The smallest class.
    pub k: u32,
    /// Conditions on the sensitive columns.
    pub models: Vec<Model>,
}

impl Requirement {
    /// Plain k-anonymity.
    pub fn k(k: u32) -> Self {
        Self { k, models: Vec::new() }
    }
}

/// Slack for comparing shares and entropies: a bound met exactly must not fail by rounding.
pub(super) const ROUNDING: f64 = 1e-9;
