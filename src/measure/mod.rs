//! Measures of a release: from its classes or published nodes, or from counts of what was published.

mod graded;
mod incomplete;
mod loss;
mod precision;
mod reconstruction;
mod retention;
mod risk;
mod sensitivity;
mod utility;

pub use graded::RankLevels;
pub use incomplete::{ColumnLoss, IncompleteLoss, Span, incomplete_loss, incomplete_measures};
pub use loss::{cover_loss, loss};
pub use precision::{node_loss, precision};
pub use reconstruction::{reconstruction_by_boxes, reconstruction_by_classes};
pub use retention::{LabelledColumn, RuleLimits, association_retention};
pub use risk::{ColumnRisk, Distribution, Risk, Targets, ValueCount};
pub use sensitivity::{LevelWeights, SensitivityDistance, sensitivity_distance};
pub use utility::Utility;

use std::borrow::Cow;

/// One line of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// What was measured.
    pub name: Cow<'static, str>,
    /// Index of the column that was measured, `None` for the whole table.
    pub column: Option<usize>,
    /// What was found, `None` where nothing can be said.
    pub value: Option<f64>,
    /// What was asked for.
    pub target: Option<f64>,
    /// Whether the value meets the target, `None` without a target.
    pub holds: Option<bool>,
}

impl Measure {
    /// A measure of the whole table, without a target.
    pub fn of_table(name: impl Into<Cow<'static, str>>, value: Option<f64>) -> Self {
        Self { name: name.into(), column: None, value, target: None, holds: None }
    }

    /// The same measure of one column.
    pub fn of_column(self, column: usize) -> Self {
        Self { column: Some(column), ..self }
    }

    /// The same measure against a target. A value that is not known does not meet it: an empty
    /// release must not pass for a safe one.
    pub fn against(self, target: Option<f64>, holds: bool) -> Self {
        let holds = target.map(|_| holds && self.value.is_some());
        Self { target, holds, ..self }
    }
}
