//! The requirement on classes, built from the options of a query.

use std::sync::Arc;

use datafusion::common::{Result, exec_err};

use crate::columnar::{ListedLevels, ModelledValues};
use crate::engine::options::Spec;
use crate::error::Error;
use crate::method::Variant;
use crate::model::{Grades, Model, Requirement};

/// Refuses rows whose privacy unit is NULL: each could belong to anybody in its class.
pub(super) fn check_persons(spec: &Spec, nobody: u64) -> Result<()> {
    match &spec.privacy_unit {
        Some(unit) if nobody > 0 => exec_err!(
            "privacy_unit '{}' is NULL in {nobody} rows, which cannot be counted as persons: filter them \
             out or give each an id",
            unit.name
        ),
        _ => Ok(()),
    }
}

/// What the requirement on classes is built from.
pub(super) struct RequirementBuilder<'a> {
    pub(super) spec: &'a Spec,
    /// Levels of the sensitive values, where alpha is graded.
    pub(super) levels: Option<&'a ListedLevels>,
    /// By modelled column, how often each code occurs in the whole table, if the rows are a part of it.
    pub(super) populations: &'a [Option<Arc<[u64]>>],
}

impl RequirementBuilder<'_> {
    /// The requirement over sensitive columns with these values, in the order of the layout; the privacy
    /// unit is left to the caller.
    pub(super) fn build(&self, modelled: &[&ModelledValues]) -> Result<Requirement> {
        let models = &self.spec.models;
        let mut required = Vec::new();
        for (column, values) in modelled.iter().enumerate() {
            let population = self.populations.get(column).cloned().flatten();
            required.extend(models.l.map(|l| Model::Distinct { column, at_least: l, unit: false }));
            required.extend(models.entropy_l.map(|l| Model::Entropy { column, l }));
            required.extend(models.t.map(|t| Model::Closeness { column, t, population }));
            required.extend(models.alpha.map(|alpha| Model::Share { column, alpha }));
            required.extend(self.graded(column, values)?);
        }
        let is_chance = self.spec.slicing.is_some() && self.spec.variant == Variant::Best;
        if let (true, Some(l)) = (is_chance, models.l) {
            // The share that a value may have at most; the method keeps a little less.
            required.push(Model::Share { column: 0, alpha: 1.0 / f64::from(l) });
        }
        Ok(Requirement { k: self.spec.k, models: required })
    }

    fn graded(&self, column: usize, values: &ModelledValues) -> Result<Option<Model>> {
        let (Some(grading), Some(listed)) = (&self.spec.grading, self.levels) else {
            return Ok(None);
        };
        let levels = listed.of(values)?;
        let grades = Grades::new(levels, grading.shares(listed), grading.scope);
        let in_column = |error: Error| match error {
            Error::Invalid(message) => {
                Error::invalid(format!("option 'sensitivity', column '{}': {message}", values.name))
            }
            other => other,
        };
        let grades = Arc::new(grades.map_err(in_column)?);
        Ok(Some(Model::Graded { column, grades }))
    }
}
