//! The figures of a night: what the plan counted, and what was counted in the written files.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::error::{Error, Result};

/// How a night went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Persons of tonight who have a cohort since an earlier night.
    pub(crate) persons_known: u64,
    /// Persons of tonight who had none.
    pub(crate) persons_new: u64,
    /// Those among them who get none tonight.
    pub(crate) persons_waiting: u64,
    /// Cohorts that repeat their last rows.
    pub(crate) cohorts_held: u64,
    pub(crate) rows_held: u64,
    /// Cohorts of the written release.
    pub(crate) cohorts_published: u64,
    /// Cohorts that the series ever had.
    pub(crate) cohorts_ever: u64,
}

impl Figures {
    /// What the operators of a plan that has run say.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let figure = |name: &str| {
            counted(plan, name).ok_or_else(|| {
                Error::Failed(format!(
                    "the plan of the release does not tell '{name}': this is a bug"
                ))
            })
        };
        Ok(Self {
            persons_known: figure("persons_known")?,
            persons_new: figure("persons_new")?,
            persons_waiting: figure("persons_waiting")?,
            cohorts_held: figure("cohorts_held")?,
            rows_held: figure("rows_held")?,
            cohorts_published: 0,
            cohorts_ever: 0,
        })
    }

    /// Cohorts that publish what is known tonight, new ones included.
    pub(crate) fn live(&self) -> u64 {
        self.cohorts_published.saturating_sub(self.cohorts_held)
    }

    /// Persons of tonight who have a cohort now.
    pub(crate) fn persons(&self) -> u64 {
        self.persons_known + self.persons_new.saturating_sub(self.persons_waiting)
    }
}

/// A counter by its name, wherever in the plan it is.
fn counted(plan: &Arc<dyn ExecutionPlan>, name: &str) -> Option<u64> {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name));
    let own = own.map(|value| value.as_usize() as u64);
    own.or_else(|| plan.children().into_iter().find_map(|child| counted(child, name)))
}
