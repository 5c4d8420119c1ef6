//! Conditions on the sensitive columns.

use datafusion::logical_expr::LogicalPlan;

use super::{Options, Sensitivity, in_range};
use crate::columnar::ListedLevels;
use crate::engine::options::{Grading, LevelSource, Models};
use crate::error::{Error, Result};
use crate::model::MAX_LEVELS;

impl Options {
    pub(in crate::engine) fn checked_models(&self) -> Result<Models> {
        let l = match self.l {
            Some(l) if l < 2 => {
                return Err(Error::invalid(format!(
                    "option 'l': {l} asks for nothing; write l => 3"
                )));
            }
            Some(l) => Some(u32::try_from(l).map_err(|_| {
                Error::invalid(format!("option 'l': {l} is more than a table can hold"))
            })?),
            None => None,
        };
        let models = Models {
            l,
            entropy_l: in_range("entropy_l", self.entropy_l, 1.0..=1e9)?,
            t: in_range("t", self.t, 0.0..=1.0)?,
            alpha: self.checked_alpha()?,
        };
        if !models.is_empty() && self.sensitive.is_empty() {
            return Err(Error::invalid(format!(
                "{models} needs a column to protect: write sensitive => ['…']"
            )));
        }
        Ok(models)
    }

    /// The share of plain alpha; the shares of levels are checked too, but belong to the grading.
    fn checked_alpha(&self) -> Result<Option<f64>> {
        for alpha in &self.alpha {
            in_range("alpha", Some(*alpha), f64::MIN_POSITIVE..=1.0)?;
        }
        match (&self.sensitivity, self.alpha.as_slice()) {
            (None, []) => Ok(None),
            (None, [alpha]) => Ok(Some(*alpha)),
            (None, alphas) => Err(Error::invalid(format!(
                "option 'alpha' lists {} shares, one per level of sensitivity: say which value has \
                 which level, as in sensitivity => {{HIV: 1, Flu: 4}}",
                alphas.len()
            ))),
            (Some(_), []) => Err(Error::invalid(
                "option 'sensitivity' needs option 'alpha', the largest share of a value by its level: \
                 write alpha => [0.2, 0.5]",
            )),
            (Some(_), _) => Ok(None),
        }
    }

    /// The levels of sensitivity with their shares.
    pub(in crate::engine) fn checked_grading(
        &mut self,
        tables: &mut Vec<LogicalPlan>,
    ) -> Result<Option<Grading>> {
        let scope = self.alpha_scope.get()?;
        let Some(sensitivity) = self.sensitivity.take() else {
            return match scope {
                Some(_) => Err(Error::invalid(
                    "option 'alpha_scope' needs option 'sensitivity': write sensitivity => {HIV: 1, \
                     Flu: 4}",
                )),
                None => Ok(None),
            };
        };
        if self.sensitive.len() != 1 {
            return Err(Error::invalid(format!(
                "option 'sensitivity' grades one sensitive column and {} are listed: write sensitive \
                 => ['…']",
                self.sensitive.len()
            )));
        }
        let levels = match sensitivity {
            Sensitivity::Listed(listed) => LevelSource::Listed(checked_levels(
                listed.into_iter().map(|(value, level)| (Some(value), Some(level))),
            )?),
            Sensitivity::Table(relation) => {
                let plan = relation.into_plan()?;
                let columns = plan.schema().fields().len();
                if columns != 2 {
                    return Err(Error::invalid(format!(
                        "option 'sensitivity': the table has {columns} columns; it needs two, the \
                         value and its level"
                    )));
                }
                tables.push(plan);
                LevelSource::Table(tables.len() - 1)
            }
        };
        Ok(Some(Grading { levels, alphas: self.alpha.clone(), scope: scope.unwrap_or_default() }))
    }
}

/// Values with levels from 1 up; errors count and never show a value.
pub(in crate::engine) fn checked_levels(
    listed: impl Iterator<Item = (Option<String>, Option<i64>)>,
) -> Result<ListedLevels> {
    let (mut levels, mut wrong) = (Vec::new(), 0usize);
    for (value, level) in listed {
        let level = level.and_then(|level| u32::try_from(level).ok());
        match level.filter(|level| (1..=MAX_LEVELS).contains(&(*level as usize))) {
            Some(level) => levels.push((value, level)),
            None => wrong += 1,
        }
    }
    if wrong > 0 {
        return Err(Error::invalid(format!(
            "option 'sensitivity': {wrong} values have a level that is no whole number from 1 (the most \
             sensitive) to {MAX_LEVELS}"
        )));
    }
    Ok(ListedLevels(levels))
}
