//! Measures of a release, from its classes.

mod loss;
mod reconstruction;
mod sensitivity;

pub use loss::loss;
pub use reconstruction::{reconstruction_by_boxes, reconstruction_by_classes};
pub use sensitivity::{LevelWeights, SensitivityDistance, sensitivity_distance};
