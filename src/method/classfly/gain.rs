//! Which column climbs next: the one on which most rows freeze for the loss that it adds.

use super::Search;
use super::group::Grouping;
use super::subtable::{SubTable, Subset};
use crate::error::Result;
use crate::method::counter::Counter;

/// A column is chosen by the rows that would freeze and this share of the open rows, per loss added:
/// with a smaller share rows freeze sooner, on levels that cost others more.
const OPEN_SHARE: f64 = 0.05;

/// What generalizing one column by a level would do.
struct Climb {
    place: usize,
    /// What the open rows lose by it, in cells.
    loss: f64,
    /// The most rows that could freeze, as far as was looked.
    rows: u64,
    is_counted: bool,
    /// What would be frozen, once that is known.
    outcome: Option<Raised>,
}

/// The sub-table after a climb.
struct Raised {
    /// The groupings that change, by their positions.
    groupings: Vec<(usize, Grouping)>,
    subset: Subset,
}

impl SubTable<'_> {
    /// Climbs the column with the most rows that would freeze, and a share of the open rows, per loss added;
    /// the first declared of several.
    ///
    /// Only what could be the best is looked at closely: at first all open rows could freeze, then those that
    /// no single constraint rejects (about as many, where groups are many), and in the end the largest subset is
    /// found.
    pub(super) fn climb_by_gain(&mut self, search: Search) -> Result<Option<Subset>> {
        self.merge_tuples();
        self.number_keys();
        let open = self.open_rows() as u64;
        let climb = |place: usize| {
            let loss = self.added_loss(place);
            Climb { place, loss, rows: open, is_counted: false, outcome: None }
        };
        let mut climbs: Vec<Climb> = self.places().into_iter().map(climb).collect();
        let gain =
            |climb: &Climb| (climb.rows as f64 + OPEN_SHARE * open as f64) / (climb.loss + 1e-6);
        let mut counter = Counter::default();
        loop {
            self.cancel.check()?;
            let Some(best) = first_best(&climbs, |climb| Some(gain(climb))) else {
                return Ok(None);
            };
            let place = climbs[best].place;
            if let Some(Raised { groupings, subset }) = climbs[best].outcome.take() {
                self.install(place, groupings);
                return Ok(Some(subset));
            }
            if climbs[best].is_counted {
                let raised = self.raised(place, search)?;
                climbs[best].rows = raised.subset.rows;
                climbs[best].outcome = Some(raised);
                // Another one can be chosen no more, so its groupings need not stay in memory.
                let found =
                    first_best(&climbs, |climb| climb.outcome.as_ref().map(|_| gain(climb)));
                let others = (0..).zip(&mut climbs).filter(|(at, _)| Some(*at) != found);
                others.for_each(|(_, climb)| climb.outcome = None);
            } else {
                climbs[best].rows = self.fitting_after(place, &mut counter);
                climbs[best].is_counted = true;
            }
        }
    }

    /// What the open rows lose when a column climbs.
    fn added_loss(&self, place: usize) -> f64 {
        let tree = self.trees[place];
        // Summed by node, so that the order of the rows cannot change the last digit.
        let of_node = |(node, rows): (u32, u64)| match rows {
            0 => 0.0,
            rows => rows as f64 * (tree.loss(tree.parent(node)) - tree.loss(node)),
        };
        (0..).zip(self.rows_by_node(place)).map(of_node).sum()
    }

    /// Open rows that no single constraint rejects after a climb: those of the constraint that rejects most.
    fn fitting_after(&self, place: usize, counter: &mut Counter) -> u64 {
        let tree = self.trees[place];
        let fitting = self.groupings.iter().map(|grouping| grouping.fitting(place, tree, counter));
        fitting.min().unwrap_or(0)
    }

    fn raised(&mut self, place: usize, search: Search) -> Result<Raised> {
        let mut groupings = self.climbed(place);
        self.swap(&mut groupings);
        let subset = self.largest_subset(search);
        self.swap(&mut groupings);
        Ok(Raised { groupings, subset: subset? })
    }
}

/// Where the largest value is, the first one of several.
fn first_best(climbs: &[Climb], value: impl Fn(&Climb) -> Option<f64>) -> Option<usize> {
    let values = climbs.iter().enumerate().filter_map(|(at, climb)| Some((at, value(climb)?)));
    values.rev().max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(at, _)| at)
}
