//! Cutting a group into classes below 2k rows, each cut where both sides lose least.
//!
//! Unlike the cuts of `rounded`, a cut here may leave the two sides as uneven as k allows.

use super::around::Around;
use super::{Class, Context};
use crate::method::bounds::{Bounds, Losses, Sorter};
use crate::method::partition::Split;
use crate::model::{Code, Row, Tally};

/// Up to this many rows every position in the order of an axis is tried; above, the values of an axis
/// are counted in bins and only the places between two bins are.
const SORTED_ROWS: usize = 256;
const BINS: usize = 256;
/// Cuts are tried on so many axes, the widest: looking at one costs as much as there are axes.
const MOST_AXES: usize = 12;

/// A cut that could be made.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    axis: usize,
    /// Rows up to this code go left; `None` if the first `left` rows in the order of the axis do.
    up_to: Option<u32>,
    /// Where the rows stand in that order, if it was noted.
    order: Option<usize>,
    left: usize,
    /// Loss of both sides.
    loss: f64,
}

/// The box around a group and the axes on which it is wide.
struct Group<'w, C, const W: usize> {
    bounds: Bounds<C, W>,
    wide: &'w [usize],
}

/// Decides whether rows may be a class, and cuts groups; one per thread.
pub(in crate::method) struct Cutter<'a> {
    pub(in crate::method) context: &'a Context<'a>,
    tally: Tally<'a>,
    sorter: Sorter,
    /// Cells that were looked at.
    looks: usize,
}

/// Cuts that could be made, and the rows in the orders that they were found in, so that a cut which models forbid costs no
/// more than counting.
struct Survey<C, const W: usize> {
    candidates: Vec<Candidate>,
    orders: Vec<Vec<Row<C, W>>>,
}

impl<C, const W: usize> Default for Survey<C, W> {
    fn default() -> Self {
        Self { candidates: Vec::new(), orders: Vec::new() }
    }
}

impl<'a> Cutter<'a> {
    pub(in crate::method) fn new(context: &'a Context<'a>) -> Self {
        let job = context.job;
        let tally = Tally::new(job.requirement, job.sensitive, context.global);
        Self { context, tally, sorter: Sorter::default(), looks: 0 }
    }

    /// How many cells were looked at since this was asked last.
    pub(in crate::method) fn take_looks(&mut self) -> usize {
        std::mem::take(&mut self.looks)
    }

    pub(in crate::method) fn sort_canonically<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
    ) {
        self.sorter.sort_canonically(rows, self.context.job.keys);
    }

    /// Whether these rows could be a class.
    pub(in crate::method) fn holds<C: Code, const W: usize>(&mut self, rows: &[Row<C, W>]) -> bool {
        let models = &self.context.job.requirement.models;
        if models.is_empty() {
            return rows.len() >= self.context.k();
        }
        self.looks += 4 * models.len() * rows.len();
        self.tally.holds_for(rows.iter().map(|row| row.id))
    }

    /// Cuts rows that could be a class as far as it goes, and appends the classes.
    pub(in crate::method) fn divide<C: Code, const W: usize>(
        &mut self,
        rows: Vec<Row<C, W>>,
        classes: &mut Vec<Class<C, W>>,
    ) {
        let mut groups = vec![rows];
        while let Some(mut rows) = groups.pop() {
            // Cancelled work ends at once; whoever asked for it fails at its next step.
            let cut = match self.context.job.cancel.check() {
                Ok(()) => self.cut(&mut rows),
                Err(_) => None,
            };
            match cut {
                None => classes.push(Class::new(rows, &self.context.losses)),
                Some(left) => {
                    groups.push(rows.split_off(left));
                    groups.push(rows);
                }
            }
        }
    }

    /// Makes the best allowed cut: the rows of the left side stand first.
    fn cut<C: Code, const W: usize>(&mut self, rows: &mut [Row<C, W>]) -> Option<usize> {
        let k = self.context.k();
        if rows.len() < 2 * k {
            return None;
        }
        let bounds = Bounds::of(rows);
        if bounds.is_one_tuple() {
            let left = rows.len() / k / 2 * k;
            let allowed = self.holds(&rows[..left]) && self.holds(&rows[left..]);
            return allowed.then_some(left);
        }
        let wide = self.context.losses.wide_axes(&bounds);
        let group = Group { bounds, wide: &wide };
        match self.context.split {
            Split::LeastLoss => {
                let mut survey = Survey::default();
                let widest = wide.iter().take(MOST_AXES);
                widest.for_each(|axis| self.survey(rows, &group, *axis, &mut survey));
                self.make_best(rows, &group, survey)
            }
            Split::Widest => wide.iter().find_map(|axis| {
                let mut survey = Survey::default();
                self.survey(rows, &group, *axis, &mut survey);
                self.make_best(rows, &group, survey)
            }),
        }
    }

    fn make_best<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        group: &Group<'_, C, W>,
        survey: Survey<C, W>,
    ) -> Option<usize> {
        let Survey { mut candidates, orders } = survey;
        // Of equal losses the widest axis.
        sort_least_loss_first(&mut candidates);
        let allowed = candidates.iter().find(|candidate| {
            if let Some(order) = candidate.order {
                let (left, right) = orders[order].split_at(candidate.left);
                return self.holds(left) && self.holds(right);
            }
            match candidate.up_to {
                Some(code) => part_at(rows, candidate.axis, code),
                None => self.sorter.sort_along(rows, &group.bounds, candidate.axis, group.wide),
            }
            let (left, right) = rows.split_at(candidate.left);
            self.holds(left) && self.holds(right)
        });
        let Candidate { left, order, .. } = *allowed?;
        order.iter().for_each(|order| rows.copy_from_slice(&orders[*order]));
        Some(left)
    }

    /// Adds the best cut on an axis and, where models may forbid it, the one nearest to the middle.
    fn survey<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        group: &Group<'_, C, W>,
        axis: usize,
        survey: &mut Survey<C, W>,
    ) {
        self.looks += 2 * (rows.len() + 8);
        let places = match rows.len() <= SORTED_ROWS {
            true => self.places_along(rows, group, axis),
            false => match self.places_between_bins(rows, &group.bounds, axis) {
                places if places.is_empty() => self.places_along(rows, group, axis),
                places => places,
            },
        };
        let mut best = least_loss(&places);
        if self.context.job.requirement.models.is_empty() {
            survey.candidates.extend(best);
            return;
        }
        let mut middle = nearest_to(&places, rows.len() / 2);
        if best.is_some_and(|best| best.up_to.is_none()) {
            let order = Some(survey.orders.len());
            best.iter_mut().chain(&mut middle).for_each(|candidate| candidate.order = order);
            survey.orders.push(rows.to_vec());
        }
        survey.candidates.extend(best.into_iter().chain(middle));
    }

    /// All places in the order of an axis that leave k rows on both sides.
    fn places_along<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        group: &Group<'_, C, W>,
        axis: usize,
    ) -> Vec<Candidate> {
        self.sorter.sort_along(rows, &group.bounds, axis, group.wide);
        let (k, n, losses) = (self.context.k(), rows.len(), &self.context.losses);
        let mut right = vec![0.0; n + 1];
        let mut side = Side::of(&rows[n - k + 1..], losses);
        for at in (k..=n - k).rev() {
            side.add(&rows[at].codes, losses);
            right[at] = side.total(losses);
        }
        let mut side = Side::of(&rows[..k - 1], losses);
        let mut places = Vec::with_capacity(n + 1 - 2 * k);
        for left in k..=n - k {
            side.add(&rows[left - 1].codes, losses);
            let loss = side.total(losses) + right[left];
            places.push(Candidate { axis, up_to: None, order: None, left, loss });
        }
        places
    }

    /// The places between bins of neighbouring codes that leave k rows on both sides.
    fn places_between_bins<C: Code, const W: usize>(
        &self,
        rows: &[Row<C, W>],
        bounds: &Bounds<C, W>,
        axis: usize,
    ) -> Vec<Candidate> {
        let (low, high) = (bounds.low[axis].get(), bounds.high[axis].get());
        let shift = (0..32).find(|shift| ((high - low) >> shift) < BINS as u32).unwrap_or(0);
        let bins = ((high - low) >> shift) as usize + 1;
        let (k, n, losses) = (self.context.k(), rows.len(), &self.context.losses);
        let mut sides = vec![Side::none(); bins];
        for row in rows {
            let bin = ((row.codes[axis].get() - low) >> shift) as usize;
            sides[bin].add(&row.codes, losses);
        }
        let mut right = vec![0.0; bins + 1];
        let mut around = Side::none();
        for (bin, side) in sides.iter().enumerate().rev() {
            around.join(side);
            right[bin] = if around.rows > 0 { around.total(losses) } else { 0.0 };
        }
        let mut places = Vec::new();
        let mut around = Side::none();
        for (bin, side) in sides.iter().enumerate() {
            around.join(side);
            let left = around.rows;
            if side.rows > 0 && left >= k && n - left >= k {
                let loss = around.total(losses) + right[bin + 1];
                let up_to = Some(low + ((bin as u32 + 1) << shift) - 1);
                places.push(Candidate { axis, up_to, order: None, left, loss });
            }
        }
        places
    }
}

/// The rows on one side of a cut, as far as their loss depends on them.
#[derive(Debug, Clone, Copy)]
struct Side<C, const W: usize> {
    rows: usize,
    around: Around<C, W>,
    missing: [u32; W],
}

impl<C: Code, const W: usize> Side<C, W> {
    fn none() -> Self {
        Self { rows: 0, around: Around::new(Bounds::none()), missing: [0; W] }
    }

    fn of(rows: &[Row<C, W>], losses: &Losses) -> Self {
        let around = Around::new(Bounds::of(rows));
        Self { rows: rows.len(), around, missing: losses.missing(rows) }
    }

    #[inline]
    fn add(&mut self, codes: &[C; W], losses: &Losses) {
        self.rows += 1;
        losses.count_missing(&mut self.missing, codes);
        self.around.add(codes);
    }

    fn join(&mut self, other: &Self) {
        self.rows += other.rows;
        self.around.join(&other.around);
        self.missing.iter_mut().zip(&other.missing).for_each(|(sum, more)| *sum += more);
    }

    /// What the rows lose together; there must be one.
    #[inline]
    fn total(&mut self, losses: &Losses) -> f64 {
        let loss = self.around.loss(losses);
        self.rows as f64 * f64::from(loss) - losses.spared(&self.around.bounds, &self.missing)
    }
}

/// Of equal losses the first.
fn least_loss(places: &[Candidate]) -> Option<Candidate> {
    places.iter().copied().min_by(|a, b| a.loss.total_cmp(&b.loss))
}

/// The place with the nearest number of rows on its left, of two the one with fewer. Places are in the order of that number.
fn nearest_to(places: &[Candidate], left: usize) -> Option<Candidate> {
    let above = places.partition_point(|cut| cut.left < left);
    let around = &places[above.saturating_sub(1)..places.len().min(above + 1)];
    around.iter().copied().min_by_key(|cut| cut.left.abs_diff(left))
}

/// Stable: candidates of equal losses keep their order.
fn sort_least_loss_first(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| a.loss.total_cmp(&b.loss));
}

/// Brings the rows up to a code of an axis to the front; both sides keep their order.
fn part_at<C: Code, const W: usize>(rows: &mut [Row<C, W>], axis: usize, up_to: u32) {
    let mut right = Vec::with_capacity(rows.len());
    let mut left = 0;
    for at in 0..rows.len() {
        let row = rows[at];
        if row.codes[axis].get() <= up_to {
            rows[left] = row;
            left += 1;
        } else {
            right.push(row);
        }
    }
    rows[left..].copy_from_slice(&right);
}
