//! Recursive cutting: rounded partition (`rounded`) and Mondrian (`mondrian`, `mondrian_relaxed`).
//!
//! **Guarantee.** Every class has at least k rows and satisfies every model of the requirement. For
//! plain k, `rounded` makes exactly ⌊n/k⌋ classes of at most `k + ⌈β / 2^⌊log2 α⌋⌉` rows, where
//! n = αk + β; from n ≥ 2k² on that is k + 1, and exactly k if k divides n.
//!
//! **Steps.** A group of n ≥ 2k rows is cut in two on one quasi-identifier, until groups are smaller:
//!
//! 1. find the smallest and largest code of every quasi-identifier in the group;
//! 2. choose the quasi-identifier ([`Split`]): the one whose cut loses least, or the widest;
//! 3. find the cut with one counter per value: `rounded` takes ⌈α/2⌉·k + ⌈β/2⌉ rows to the left,
//!    `mondrian_relaxed` ⌈n/2⌉, `mondrian` the values up to the median (a value never straddles);
//! 4. move the rows. Rows equal to the cut value are told apart by the other quasi-identifiers, so
//!    that both boxes stay tight, and rows equal in all of them by their keyed hash;
//! 5. a cut that leaves a side without the requirement is not made: the next one is tried. Where the share of
//!    one person is bounded, cuts at a quarter, an eighth and so on follow, because somebody who owns many rows soon
//!    makes a cut in the middle impossible;
//! 6. with [`Split::LeastLoss`], unless cuts are strict, rows change places between neighbouring
//!    classes where both then lose less. Sizes stay as they are.
//!
//! Worked on table 1 of the rounded-partition paper, k = 2: six rows (α = 3, β = 0) are cut 4 | 2 on Zip, then the
//! four 2 | 2 on Zip again. The total loss, 14/3 cells, is that of the paper's own table 2.
//!
//! | Age | Zip | class | published |
//! | --- | --- | --- | --- |
//! | 20 | 101 | 1 | [20-50] 101 |
//! | 50 | 101 | 1 | [20-50] 101 |
//! | 30 | 102 | 2 | [30-40] 102 |
//! | 40 | 102 | 2 | [30-40] 102 |
//! | 20 | 103 | 3 | [20-50] 103 |
//! | 50 | 103 | 3 | [20-50] 103 |
//!
//! **Cost.** O(n·d) per level of the recursion and log2(n/k) levels, with d quasi-identifiers; rows
//! are moved, never sorted.
//!
//! **Departures.** The paper leaves the quasi-identifier and the choice among equal rows free; both
//! are decided above. Models beside k make larger classes possible.
//!
//! **Source.** "Rounded partition function for k-anonymity" (the rounded-partition paper); LeFevre, DeWitt and
//! Ramakrishnan, "Mondrian multidimensional k-anonymity", 2006.

mod arrange;
mod exchange;
mod method;
mod survey;

pub(super) use self::method::{MONDRIAN, MONDRIAN_RELAXED, ROUNDED};
pub use super::Job;
use super::bounds::Bounds;
use crate::error::Result;
use crate::model::{Classes, Code, GlobalShares, Model, Row, RowTable, Tally, join, with_rows};
use survey::{CutPoint, loss, sort_best_first, wide_axes};

/// Where a group is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub enum Cut {
    /// Whole multiples of k to both sides, the rest in halves (method `rounded`).
    Rounded,
    /// At the median, without parting equal values (method `mondrian`).
    Strict,
    /// In halves (method `mondrian_relaxed`).
    Relaxed,
}

/// Which quasi-identifier a group is cut on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
#[cfg_attr(feature = "codec", derive(serde::Serialize, serde::Deserialize))]
pub enum Split {
    /// The one whose cut leaves the least loss in the two halves.
    LeastLoss,
    /// The one that loses most in the group.
    Widest,
}

/// Groups of at least this many rows are worth handing to another thread.
const PARALLEL_ROWS: usize = 16_384;

/// In groups of at most this many rows every cut is tried out and the loss of both halves measured.
/// Above, the other columns hardly tighten, and counting the column of the cut is enough.
const TRIAL_ROWS: usize = 512;

/// Tables with more classes, or with more rows, are cut with less care and exchange no rows.
const MOST_CLASSES: usize = 50_000;
const MOST_ROWS: usize = 1_000_000;

/// Cuts the rows into classes and leaves them in class order.
///
/// Works on the current rayon pool.
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::Axis;
/// use datafusion_anonymize::pure::method::partition::{Cut, Job, Split, partition};
/// use datafusion_anonymize::pure::model::{Cancel, Requirement, RowKeys, RowTable};
///
/// // Table 1 of the paper: Age in {20, 30, 40, 50}, Zip in {101, 102, 103}.
/// let codes = [[0, 0], [0, 2], [1, 1], [2, 1], [3, 0], [3, 2]];
/// let mut rows = RowTable::from_codes(&codes).unwrap();
/// let axes = [Axis::line(&[20., 30., 40., 50.], false), Axis::line(&[101., 102., 103.], false)];
/// let job = Job {
///     axes: &axes,
///     requirement: &Requirement::k(2),
///     sensitive: &[],
///     keys: &RowKeys::default(),
///     cancel: &Cancel::default(),
/// };
/// let classes = partition(&mut rows, &job, Cut::Rounded, Split::Widest)?;
/// assert_eq!(classes.len(), 3);
/// assert_eq!(classes.largest(), 2);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn partition(rows: &mut RowTable, job: &Job, cut: Cut, split: Split) -> Result<Classes> {
    let sizes = with_rows!(rows, rows => {
        let sizes = partition_rows(rows, job, cut, split)?;
        let global = GlobalShares::new(job.requirement, job.sensitive);
        let context = Context::new(job, cut, split, &global, rows.len());
        exchange::exchange(rows, &sizes, &context)?;
        sizes
    });
    Classes::from_sizes(&sizes)
}

/// The same on a part of a table, without exchange: returns the sizes of the classes.
pub(crate) fn partition_rows<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    job: &Job,
    cut: Cut,
    split: Split,
) -> Result<Vec<u32>> {
    let global = GlobalShares::new(job.requirement, job.sensitive);
    let context = Context::new(job, cut, split, &global, rows.len());
    let mut sizes = Vec::new();
    let mut worker = Worker::new(&context);
    worker.tally.check_whole_table(rows.iter().map(|row| row.id))?;
    worker.divide(rows, &mut sizes)?;
    Ok(sizes)
}

#[derive(Debug)]
struct Context<'a> {
    job: &'a Job<'a>,
    cut: Cut,
    split: Split,
    global: &'a GlobalShares,
    /// Whether the table is so large that time counts more than the last bit of loss.
    is_large: bool,
    /// Whether there is a bound on what one person owns of a class.
    bounds_persons: bool,
}

impl<'a> Context<'a> {
    fn new(
        job: &'a Job<'a>,
        cut: Cut,
        split: Split,
        global: &'a GlobalShares,
        rows: usize,
    ) -> Self {
        let is_large =
            rows > MOST_ROWS || rows / (job.requirement.k as usize).max(1) > MOST_CLASSES;
        let is_bound = |model: &Model| matches!(model, Model::UnitShare { .. });
        let bounds_persons = job.requirement.models.iter().any(is_bound);
        Self { job, cut, split, global, is_large, bounds_persons }
    }

    fn k(&self) -> usize {
        self.job.requirement.k as usize
    }

    /// Rows that go left when a group of `n ≥ 2k` is cut; for strict cuts the middle to aim at.
    fn left_quota(&self, n: usize) -> usize {
        match self.cut {
            Cut::Rounded => {
                let (alpha, beta) = (n / self.k(), n % self.k());
                alpha.div_ceil(2) * self.k() + beta.div_ceil(2)
            }
            Cut::Strict | Cut::Relaxed => n.div_ceil(2),
        }
    }

    /// Rows that may go left, in the order in which they are tried.
    ///
    /// Only the bound on one person's rows leads away from the middle. If sensitive values did, every cut would
    /// reveal more about them.
    fn left_quotas(&self, n: usize) -> Vec<usize> {
        let mut quotas = vec![self.left_quota(n)];
        if self.bounds_persons {
            let smaller = (2..usize::BITS).map(|halvings| n >> halvings);
            let whole =
                smaller.take_while(|rows| *rows >= self.k()).map(|rows| rows - rows % self.k());
            quotas.extend(whole.flat_map(|rows| [n - rows, rows]));
        }
        quotas
    }
}

/// One thread's part of the work: the shared context and buffers of its own.
struct Worker<'a> {
    context: &'a Context<'a>,
    tally: Tally<'a>,
    counts: Vec<u32>,
    values: Vec<u32>,
    candidates: Vec<CutPoint>,
}

impl<'a> Worker<'a> {
    fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            tally: Tally::new(context.job.requirement, context.job.sensitive, context.global),
            counts: Vec::new(),
            values: Vec::new(),
            candidates: Vec::new(),
        }
    }

    /// Cuts a group as far as it goes and appends the sizes of its classes, from left to right.
    fn divide<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        sizes: &mut Vec<u32>,
    ) -> Result<()> {
        self.context.job.cancel.check()?;
        let n = rows.len();
        if n < 2 * self.context.k() {
            sizes.push(n as u32);
            return Ok(());
        }
        let bounds = Bounds::of(rows);
        if bounds.is_one_tuple() {
            self.divide_equal_rows(rows, sizes);
            return Ok(());
        }
        let Some(left) = self.cut(rows, &bounds) else {
            sizes.push(n as u32);
            return Ok(());
        };
        let (left, right) = rows.split_at_mut(left);
        if n < PARALLEL_ROWS {
            self.divide(left, sizes)?;
            return self.divide(right, sizes);
        }
        let context = self.context;
        let mut right_sizes = Vec::new();
        let mut divided = [Ok(()), Ok(())];
        let [left_done, right_done] = &mut divided;
        join(&mut || *left_done = self.divide(left, sizes), &mut || {
            *right_done = Worker::new(context).divide(right, &mut right_sizes)
        });
        divided.into_iter().collect::<Result<()>>()?;
        sizes.append(&mut right_sizes);
        Ok(())
    }

    /// Makes the best cut that is allowed and returns how many rows are left of it.
    fn cut<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        bounds: &Bounds<C, W>,
    ) -> Option<usize> {
        let wide = wide_axes(bounds, self.context.job.axes);
        self.context.left_quotas(rows.len()).into_iter().find_map(|target| {
            match self.context.split {
                Split::LeastLoss => {
                    self.survey(rows, &wide, target);
                    if rows.len() <= TRIAL_ROWS {
                        self.try_cuts(rows);
                    }
                    self.make_first_allowed(rows)
                }
                // The counters of one axis are enough as long as its cut is allowed.
                Split::Widest => wide.iter().find_map(|axis| {
                    self.survey(rows, &[*axis], target);
                    self.make_first_allowed(rows)
                }),
            }
        })
    }

    /// Ranks the candidates by the loss of both halves over all axes.
    ///
    /// Rows at the value of a cut may go left or right; who goes where is known when the cut is made. In a
    /// large table that would cost more than everything else, and they are counted on both sides.
    fn try_cuts<C: Code, const W: usize>(&mut self, rows: &mut [Row<C, W>]) {
        let axes = self.context.job.axes;
        let mut candidates = std::mem::take(&mut self.candidates);
        for cut in &mut candidates {
            let halves = match self.context.is_large {
                true => {
                    let (up_to, from) = (C::from_u32(cut.left_high), C::from_u32(cut.right_low));
                    Bounds::of_sides(rows, cut.axis, up_to, from)
                }
                false => {
                    self.arrange(rows, cut.axis, cut.value, cut.left);
                    let (left, right) = rows.split_at(cut.left);
                    [Bounds::of(left), Bounds::of(right)]
                }
            };
            let [left, right] = halves;
            cut.gain = -loss(&left, axes, cut.left) - loss(&right, axes, rows.len() - cut.left);
        }
        sort_best_first(&mut candidates);
        self.candidates = candidates;
    }

    fn make_first_allowed<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
    ) -> Option<usize> {
        let candidates = std::mem::take(&mut self.candidates);
        let allowed = candidates.iter().find(|cut| {
            self.arrange(rows, cut.axis, cut.value, cut.left);
            self.allows(rows, cut.left)
        });
        let left = allowed.map(|cut| cut.left);
        self.candidates = candidates;
        left
    }

    /// Whether both sides of a cut satisfy the requirement.
    fn allows<C: Code, const W: usize>(&mut self, rows: &[Row<C, W>], left: usize) -> bool {
        let (left, right) = rows.split_at(left);
        self.holds(left.len(), left.iter().map(|row| row.id))
            && self.holds(right.len(), right.iter().map(|row| row.id))
    }

    fn holds(&mut self, rows: usize, ids: impl Iterator<Item = u32>) -> bool {
        match self.context.job.requirement.models.is_empty() {
            true => rows >= self.context.k(),
            false => self.tally.holds_for(ids),
        }
    }

    /// Rows that no quasi-identifier tells apart: one sort by key serves all further cuts.
    fn divide_equal_rows<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        sizes: &mut Vec<u32>,
    ) {
        if self.context.cut == Cut::Strict {
            sizes.push(rows.len() as u32);
            return;
        }
        self.take_ids(rows);
        self.sort_ids();
        let ids = std::mem::take(&mut self.values);
        // They differ in nothing else.
        rows.iter_mut().zip(&ids).for_each(|(row, id)| row.id = *id);
        self.divide_sorted_rows(&ids, sizes);
        self.values = ids;
    }

    /// The same for the numbers of such rows, in order.
    fn divide_sorted_rows(&mut self, ids: &[u32], sizes: &mut Vec<u32>) {
        let n = ids.len();
        let quotas = match n < 2 * self.context.k() {
            true => Vec::new(),
            false => self.context.left_quotas(n),
        };
        let is_allowed = |left: &usize| {
            let (left, right) = ids.split_at(*left);
            self.holds(left.len(), left.iter().copied())
                && self.holds(right.len(), right.iter().copied())
        };
        let Some(left) = quotas.into_iter().find(is_allowed) else {
            sizes.push(n as u32);
            return;
        };
        self.divide_sorted_rows(&ids[..left], sizes);
        self.divide_sorted_rows(&ids[left..], sizes);
    }
}

#[cfg(test)]
mod tests;
