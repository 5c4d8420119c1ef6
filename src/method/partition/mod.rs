//! Recursive cutting: rounded partition (`rounded`) and Mondrian (`mondrian`, `mondrian_relaxed`).
//!
//! **Guarantee.** Every class has at least k rows and satisfies every model of the requirement. For
//! plain k and n = αk + β rows, `rounded` makes exactly α = ⌊n/k⌋ classes of at most k + ⌈β/α⌉ rows, which no partition
//! into as many classes can beat: k + 1 from n ≥ k(k − 1) on, and exactly k if k divides n. As the paper prints it:
//! k + ⌈β / 2^⌊log2 α⌋⌉, hence k + 1 from n ≥ 2k² on.
//!
//! **Steps.** A group of n ≥ 2k rows is cut in two on one quasi-identifier, until groups are smaller:
//!
//! 1. find the smallest and largest code of every quasi-identifier in the group;
//! 2. choose the quasi-identifier ([`Split`]): the one whose cut loses least, or the widest;
//! 3. find the cut with one counter per value: `rounded` takes a·k + a·q + ⌈r·a/α⌉ rows to the left, where a = ⌈α/2⌉ and
//!    β = qα + r; `mondrian_relaxed` ⌈n/2⌉; `mondrian` the values up to the median or those below it, whichever is
//!    nearer to a half and leaves k rows on both sides (a value never straddles);
//! 4. move the rows. Rows equal to the cut value are told apart by the other quasi-identifiers, so
//!    that both boxes stay tight, and rows equal in all of them by their keyed hash;
//! 5. a cut that leaves a side without the requirement is not made: the next one is tried. Where the share of
//!    one person is bounded, cuts at a quarter, an eighth and so on follow, because somebody who owns many rows soon
//!    makes a cut in the middle impossible;
//! 6. with [`Split::LeastLoss`], unless cuts are strict, rows change places between neighbouring
//!    classes where both then lose less. Sizes stay as they are.
//!
//! Where `rounded` cuts for least loss and a quasi-identifier has a hierarchy, a group can also fall apart at the children
//! of its lowest common node (`nodes.rs`), so that cuts do not straddle nodes. For plain k the β rows are set aside before,
//! and in the end each joins the class where it costs least, at most ⌈β/α⌉ the same (`remainder.rs`): then every part has a
//! multiple of k rows, and what is guaranteed above stays true. Of all cuts that is made which gains most per entropy of the
//! sizes of its parts.
//!
//! Worked on table 1 of the rounded-partition paper, k = 2: six rows (α = 3, β = 0) are cut 4 | 2 on Zip, then the
//! four 2 | 2 on Zip again. The total loss, 14/3 cells, is that of the paper's own table 2, which cuts Age twice.
//!
//! | Age | Zip | class | published | table 2 |
//! | --- | --- | --- | --- | --- |
//! | 20 | 101 | 1 | [20-50] 101 | 20 [101-103] |
//! | 50 | 101 | 1 | [20-50] 101 | 50 [101-103] |
//! | 30 | 102 | 2 | [30-40] 102 | [30-40] 102 |
//! | 40 | 102 | 2 | [30-40] 102 | [30-40] 102 |
//! | 20 | 103 | 3 | [20-50] 103 | 20 [101-103] |
//! | 50 | 103 | 3 | [20-50] 103 | 50 [101-103] |
//!
//! **Cost.** O(n·d) per level of the recursion and about log2(n/k) levels, with d quasi-identifiers; rows
//! are moved, never sorted. Exchange looks at each cell so many times and no more.
//!
//! **Departures.** [`Variant::Paper`] runs the printed versions. Ours differs, and gains:
//!
//! - `rounded` shares the remainder β in proportion to the classes of both sides, where the paper halves it. The largest
//!   class is smaller in 2 494 of the 43 459 cases of 2 ≤ k ≤ 40 and k ≤ n < 2k²: 9 instead of 10 rows for n = 27, k = 7.
//! - A group is cut on the column that loses least. The paper leaves the column free; its experiment, like Mondrian, takes
//!   the widest. And rows change places afterwards, unless cuts are strict. NCP on Adult (30 162 rows, eight
//!   quasi-identifiers):
//!
//!   | | k = 5, as printed | on the best column | and exchange | and at nodes | k = 10, as printed | on the best column | and exchange | and at nodes |
//!   | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//!   | `rounded` | 0.0503 | 0.0470 | 0.0363 | 0.0270 | 0.0834 | 0.0735 | 0.0600 | 0.0459 |
//!   | `mondrian` | 0.0512 | 0.0476 | | | 0.0905 | 0.0772 | | |
//!   | `mondrian_relaxed` | 0.0684 | 0.0598 | 0.0463 | | 0.1057 | 0.0925 | 0.0742 | |
//!
//!   Bench `grid`, 200 000 rows, k = 10, microseconds of CPU per row and loss of `rounded` by how often exchange may look at a
//!   cell (`exchange.rs`):
//!
//!   | looks | 0 | 4 | 8 | 16 | as much as it takes |
//!   | --- | --- | --- | --- | --- | --- |
//!   | few values | 0.35, 0.1360 | 0.60, 0.1347 | 0.80, 0.1338 | 1.25, 0.1324 | 2.40, 0.1303 |
//!   | zip codes and dates with hierarchies | 0.70, 0.1766 | 0.90, 0.1757 | 1.20, 0.1750 | 1.70, 0.1740 | 3.15, 0.1723 |
//!
//!   Without cuts at nodes the second table loses 0.2384.
//!
//! The choice among equal rows is free in the paper, and decided above. Models beside k make larger classes possible.
//!
//! Two remarks on the paper. Its lemma 2 fails for α = 3, where a group with α = 2 is left on layer 1; theorem 2 survives
//! with one more level, because a further cut never makes a remainder larger. And if k divides n, every class has exactly k
//! rows for any n, not only from 2k² on.
//!
//! **Source.** "Rounded partition function for k-anonymity" (the rounded-partition paper); LeFevre, DeWitt and
//! Ramakrishnan, "Mondrian multidimensional k-anonymity", 2006.

mod arrange;
mod exchange;
mod method;
mod nodes;
mod quota;
mod remainder;
mod survey;

pub(super) use self::method::{MONDRIAN, MONDRIAN_RELAXED, ROUNDED};
pub use super::Job;
use super::Variant;
use super::bounds::{Bounds, Losses};
use super::branches::Branches;
use crate::error::Result;
use crate::hierarchy::Shape;
use crate::model::{
    Classes, Code, GlobalShares, Model, Row, RowTable, Tally, join, map_parts, with_rows,
};
use nodes::NodeCut;
use survey::{CutPoint, loss, sort_best_first, wide_axes};

/// Where a group is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub enum Cut {
    /// Whole multiples of k to both sides, and the remainder in proportion (method `rounded`).
    Rounded,
    /// At the median, without parting equal values (method `mondrian`).
    Strict,
    /// In halves (method `mondrian_relaxed`).
    Relaxed,
}

/// Which quasi-identifier a group is cut on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum Split {
    /// The one whose cut leaves the least loss in the two halves.
    LeastLoss,
    /// The one that loses most in the group.
    Widest,
}

/// How groups are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Where a group is cut.
    pub cut: Cut,
    /// Which quasi-identifier it is cut on.
    pub split: Split,
    /// Whether remainders are halved and no rows change places afterwards, as printed.
    pub variant: Variant,
}

/// Groups of at least this many rows are worth handing to another thread.
const PARALLEL_ROWS: usize = 16_384;

/// In groups of at most this many rows every cut is tried out and the loss of both halves measured.
/// Above, the other columns hardly tighten, and counting the column of the cut is enough.
const TRIAL_ROWS: usize = 256;

/// Cuts the rows into classes and leaves them in class order.
///
/// Works on the current rayon pool.
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::Axis;
/// use datafusion_anonymize::pure::method::Variant;
/// use datafusion_anonymize::pure::method::partition::{Cut, Job, Options, Split, partition};
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
/// let options = Options { cut: Cut::Rounded, split: Split::Widest, variant: Variant::Best };
/// let classes = partition(&mut rows, &job, options)?;
/// assert_eq!(classes.len(), 3);
/// assert_eq!(classes.largest(), 2);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn partition(rows: &mut RowTable, job: &Job, options: Options) -> Result<Classes> {
    let global = GlobalShares::new(job.requirement, job.sensitive);
    let context = Context { nodes: nodes(job, options), ..Context::new(job, options, &global) };
    let sizes = with_rows!(rows, rows => {
        let sizes = divide(rows, &context)?;
        exchange::exchange(rows, &sizes, &context)?;
        sizes
    });
    Classes::from_sizes(&sizes)
}

/// Our best cuts of a part of a table, in the middle or also `at_nodes`, without exchange: returns the sizes of the classes.
pub(crate) fn partition_rows<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    job: &Job,
    cut: Cut,
    split: Split,
    at_nodes: bool,
) -> Result<Vec<u32>> {
    let global = GlobalShares::new(job.requirement, job.sensitive);
    let options = Options { cut, split, variant: Variant::Best };
    let nodes = if at_nodes { nodes(job, options) } else { None };
    divide(rows, &Context { nodes, ..Context::new(job, options, &global) })
}

fn divide<C: Code, const W: usize>(rows: &mut [Row<C, W>], context: &Context) -> Result<Vec<u32>> {
    let mut sizes = Vec::new();
    let mut worker = Worker::new(context);
    worker.tally.check_whole_table(rows.iter().map(|row| row.id))?;
    match &context.nodes {
        // Models make classes of other sizes anyway.
        Some(nodes) if context.job.requirement.models.is_empty() => {
            let whole = remainder::set_aside(rows, context);
            worker.divide(&mut rows[..whole], &mut sizes)?;
            remainder::place(rows, &mut sizes, context, &nodes.losses)?;
        }
        _ => worker.divide(rows, &mut sizes)?,
    }
    Ok(sizes)
}

/// What cuts at the nodes of hierarchies look up.
#[derive(Debug)]
struct Nodes<'a> {
    branches: Vec<Branches>,
    losses: Losses<'a>,
}

/// That, if groups are cut at nodes: in our best version of the rounded partition, where there is a hierarchy.
fn nodes<'a>(job: &Job<'a>, options: Options) -> Option<Nodes<'a>> {
    let best = Options { cut: Cut::Rounded, split: Split::LeastLoss, variant: Variant::Best };
    let has_tree = job.axes.iter().any(|axis| matches!(axis.shape, Shape::Tree(_)));
    (options == best && has_tree).then(|| Nodes {
        branches: job.axes.iter().map(Branches::new).collect(),
        losses: Losses::new(job.axes),
    })
}

#[derive(Debug)]
struct Context<'a> {
    job: &'a Job<'a>,
    options: Options,
    global: &'a GlobalShares,
    /// Whether there is a bound on what one person owns of a class.
    bounds_persons: bool,
    /// If groups are also cut at nodes.
    nodes: Option<Nodes<'a>>,
}

impl<'a> Context<'a> {
    fn new(job: &'a Job<'a>, options: Options, global: &'a GlobalShares) -> Self {
        let is_bound = |model: &Model| matches!(model, Model::UnitShare { .. });
        let bounds_persons = job.requirement.models.iter().any(is_bound);
        Self { job, options, global, bounds_persons, nodes: None }
    }

    fn k(&self) -> usize {
        self.job.requirement.k as usize
    }
}

/// One thread's part of the work: the shared context and buffers of its own.
struct Worker<'a> {
    context: &'a Context<'a>,
    tally: Tally<'a>,
    counts: Vec<u32>,
    values: Vec<u32>,
    candidates: Vec<CutPoint>,
    /// The cuts at nodes among them.
    node_cuts: Vec<NodeCut>,
}

/// How many rows every part of a group has.
enum Parts {
    Two(usize),
    Several(Vec<usize>),
}

impl<'a> Worker<'a> {
    fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            tally: Tally::new(context.job.requirement, context.job.sensitive, context.global),
            counts: Vec::new(),
            values: Vec::new(),
            candidates: Vec::new(),
            node_cuts: Vec::new(),
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
        let left = match self.cut(rows, &bounds) {
            Some(Parts::Two(left)) => left,
            Some(Parts::Several(parts)) => return self.divide_parts(rows, &parts, sizes),
            None => {
                sizes.push(n as u32);
                return Ok(());
            }
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

    /// The same for every part of a group.
    fn divide_parts<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        parts: &[usize],
        sizes: &mut Vec<u32>,
    ) -> Result<()> {
        let (context, n) = (self.context, rows.len());
        let mut rest = rows;
        let mut slices = Vec::with_capacity(parts.len());
        for part in parts {
            let (part, behind) = rest.split_at_mut(*part);
            slices.push(part);
            rest = behind;
        }
        if n < PARALLEL_ROWS {
            return slices.into_iter().try_for_each(|part| self.divide(part, sizes));
        }
        let divided = map_parts(slices, &|part| {
            let mut sizes = Vec::new();
            Worker::new(context).divide(part, &mut sizes).map(|()| sizes)
        });
        for part in divided {
            sizes.append(&mut part?);
        }
        Ok(())
    }

    /// Makes the best cut that is allowed.
    fn cut<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        bounds: &Bounds<C, W>,
    ) -> Option<Parts> {
        let wide = wide_axes(bounds, self.context.job.axes);
        self.context.left_quotas(rows.len()).into_iter().find_map(|target| {
            match self.context.options.split {
                Split::LeastLoss => {
                    self.survey(rows, &wide, target);
                    if rows.len() <= TRIAL_ROWS {
                        self.try_cuts(rows, bounds);
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
    /// Rows at the value of a cut may go left or right; who goes where is known when the cut is made.
    fn try_cuts<C: Code, const W: usize>(&mut self, rows: &mut [Row<C, W>], bounds: &Bounds<C, W>) {
        let (axes, n) = (self.context.job.axes, rows.len());
        let before = loss(bounds, axes, n);
        let mut candidates = std::mem::take(&mut self.candidates);
        for cut in &mut candidates {
            if let Some(at) = cut.node_cut {
                cut.gain = self.node_gain(rows, at, before / n as f64);
                continue;
            }
            self.arrange(rows, cut.axis, cut.value, cut.left);
            let (left, right) = rows.split_at(cut.left);
            let (left, right) = (Bounds::of(left), Bounds::of(right));
            let after = loss(&left, axes, cut.left) + loss(&right, axes, n - cut.left);
            cut.gain = self.context.per_entropy(before - after, [cut.left, n - cut.left]);
        }
        sort_best_first(&mut candidates);
        self.candidates = candidates;
    }

    fn make_first_allowed<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
    ) -> Option<Parts> {
        let candidates = std::mem::take(&mut self.candidates);
        let allowed = candidates.iter().find_map(|cut| {
            if let Some(at) = cut.node_cut {
                let parts = self.arrange_nodes(rows, at);
                return self.allows_all(rows, &parts).then_some(Parts::Several(parts));
            }
            self.arrange(rows, cut.axis, cut.value, cut.left);
            self.allows(rows, cut.left).then_some(Parts::Two(cut.left))
        });
        self.candidates = candidates;
        allowed
    }

    /// Whether all parts of a group satisfy the requirement.
    fn allows_all<C: Code, const W: usize>(&mut self, rows: &[Row<C, W>], parts: &[usize]) -> bool {
        let mut rest = rows;
        parts.iter().all(|part| {
            let (part, behind) = rest.split_at(*part);
            rest = behind;
            self.holds(part.len(), part.iter().map(|row| row.id))
        })
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
        if self.context.options.cut == Cut::Strict {
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
