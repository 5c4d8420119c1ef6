//! The figures of a night: what the operator counted, and what was counted in the written files.

use datafusion_anonymize::SeriesFigures;

/// How a night went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    /// What the operator counted.
    pub(crate) counted: SeriesFigures,
    /// Persons of tonight whose cohort is published.
    pub(crate) persons: u64,
    /// Cohorts of the written release.
    pub(crate) cohorts: u64,
    /// Cohorts that the series ever had.
    pub(crate) cohorts_ever: u64,
}

impl Figures {
    /// The figures of a release with so many rows.
    pub(crate) fn new(counted: SeriesFigures, rows: u64, withdraws: bool) -> Self {
        let SeriesFigures { persons_known, persons_gone, persons_new, persons_waiting, .. } =
            counted;
        let persons = match withdraws {
            // Whoever is published is there.
            true => rows,
            false => persons_known - persons_gone + persons_new - persons_waiting,
        };
        Self { counted, persons, cohorts: 0, cohorts_ever: 0 }
    }

    /// Cohorts that publish what is known tonight, new ones included.
    pub(crate) fn live(&self) -> u64 {
        self.cohorts.saturating_sub(self.counted.cohorts_held)
    }
}
