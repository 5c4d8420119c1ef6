//! Specialization from the top (method `top_down`).
//!
//! **Guarantee.** Every class has at least k rows and satisfies every model of the requirement; every
//! row is in a class. Loss is never above that of one class for the whole table.
//!
//! **Steps.** All rows start as one group at the top of every quasi-identifier.
//!
//! 1. On each quasi-identifier, part the group under the children of its lowest common node. Numbers
//!    and dates without a hierarchy are parted at the middle of their range, strings without one at
//!    the middle of their values, and missing values from all others.
//! 2. The parts that satisfy the requirement are specialized. The rows of the others stay behind,
//!    as one group of the parent. If they do not satisfy the requirement, they take the nearest rows
//!    of the largest part: as many as k asks for, and twice as many again while the shares need it.
//! 3. Choose the quasi-identifier that specializes most rows, then the one that gains most, then the
//!    first declared; if the rows that stay behind cannot be made valid, the next one.
//! 4. Go on with every part and with the rows that stayed behind, until nothing can be specialized.
//!
//! Worked for one column of ages, k = 2: the range 20 to 60 is parted at 40; 60 alone would not
//! hold and takes 24, its nearest. Then 20 to 23 is parted at 21.5.
//!
//! | Age | first | second | published |
//! | --- | --- | --- | --- |
//! | 20 | 20–23 | 20–21 | 20–21 |
//! | 21 | 20–23 | 20–21 | 20–21 |
//! | 22 | 20–23 | 22–23 | 22–23 |
//! | 23 | 20–23 | 22–23 | 22–23 |
//! | 24 | stays behind | | 24–60 |
//! | 60 | stays behind | | 24–60 |
//!
//! **Cost.** O(n log n) per quasi-identifier and step of specialization.
//!
//! **Departures.** As printed ([`Variant::Paper`]), rows that stayed behind are published as they are, and of
//! quasi-identifiers that specialize equally many rows the one with the fewest branches is chosen. Going on with those rows
//! and looking at the gain takes NCP from 0.1143 to 0.0361 at k = 5 and from 0.1843 to 0.0724 at k = 10 (Adult, 30 162 rows,
//! eight quasi-identifiers).
//!
//! In both versions a class is published by the lowest node over its rows, which may be below the
//! node it stayed behind at. The source moves some rows back until the parent holds; here the
//! nearest ones of one part go, found by selection. Its heuristics for one attribute at a time are
//! used for every requirement, not only for k and α.
//!
//! **Source.** Wong, Li, Fu and Wang, "(α,k)-anonymity: an enhanced k-anonymity model for
//! privacy-preserving data publishing", 2006, which is a baseline of the (αᵢ,k) paper (see [`alpha_k`](super::alpha_k)).

mod method;

use std::cmp::Reverse;

pub(super) use self::method::TOP_DOWN;
use super::branches::Branches;
use super::{Job, Variant};
use crate::error::Result;
use crate::hierarchy::Shape;
use crate::model::{Classes, Code, GlobalShares, Row, RowTable, Tally, map_parts, with_rows};

/// Groups of at least this many rows hand their parts to other threads.
const PARALLEL_ROWS: usize = 16_384;

/// Puts the rows into classes and leaves them in class order.
///
/// Works on the current rayon pool.
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::Axis;
/// use datafusion_anonymize::pure::method::{Job, Variant, top_down::top_down};
/// use datafusion_anonymize::pure::model::{Cancel, Requirement, RowKeys, RowTable};
///
/// let mut rows = RowTable::from_codes(&[[0], [1], [2], [3], [4], [5]]).unwrap();
/// let job = Job {
///     axes: &[Axis::line(&[20., 21., 22., 23., 24., 60.], false)],
///     requirement: &Requirement::k(2),
///     sensitive: &[],
///     keys: &RowKeys::default(),
///     cancel: &Cancel::default(),
/// };
/// assert_eq!(top_down(&mut rows, &job, Variant::Best)?.len(), 3);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn top_down(rows: &mut RowTable, job: &Job, variant: Variant) -> Result<Classes> {
    let global = GlobalShares::new(job.requirement, job.sensitive);
    let branches: Vec<Branches> = job.axes.iter().map(Branches::new).collect();
    let context = Context { job, variant, global: &global, branches: &branches };
    let mut sizes = Vec::new();
    with_rows!(rows, rows => {
        let mut worker = Worker::new(&context);
        worker.tally.check_whole_table(rows.iter().map(|row| row.id))?;
        worker.divide(Group { rows, is_open: true }, &mut sizes)?;
    });
    Classes::from_sizes(&sizes)
}

/// How a group would be parted on one axis: the first code of every part.
enum Parting<'a> {
    Children(&'a [u32]),
    Halves([u32; 2]),
}

impl Parting<'_> {
    /// The part a code falls into.
    fn part(&self, code: u32) -> usize {
        let starts = match self {
            Parting::Children(starts) => *starts,
            Parting::Halves(starts) => starts.as_slice(),
        };
        starts.partition_point(|start| *start <= code).saturating_sub(1)
    }
}

#[derive(Debug)]
struct Context<'a> {
    job: &'a Job<'a>,
    variant: Variant,
    global: &'a GlobalShares,
    branches: &'a [Branches],
}

impl<'a> Context<'a> {
    fn k(&self) -> usize {
        self.job.requirement.k as usize
    }

    /// How rows with codes from `low` to `high`, which differ, are parted.
    fn parting(&self, axis: usize, low: u32, high: u32) -> Parting<'a> {
        let column = &self.job.axes[axis];
        let second = match &column.shape {
            Shape::Tree(tree) => {
                return Parting::Children(self.branches[axis].under(tree, low, high));
            }
            _ if column.missing && low == 0 => 1,
            Shape::Line(positions) => {
                let middle = (positions[low as usize] + positions[high as usize]) / 2.0;
                let above = &positions[low as usize + 1..=high as usize];
                let second = low + 1 + above.partition_point(|at| *at <= middle) as u32;
                second.min(high)
            }
            Shape::Set => low + (high - low).div_ceil(2),
        };
        Parting::Halves([low, second])
    }
}

/// Rows that stand together.
struct Group<'r, C, const W: usize> {
    rows: &'r mut [Row<C, W>],
    /// Whether they may be specialized.
    is_open: bool,
}

/// A specialization that was made.
struct Specialized {
    /// How long the stretches are, those of the parts first.
    lengths: Vec<usize>,
    /// Whether the last stretch is that of the rows that stayed behind.
    has_rest: bool,
}

/// A specialization that could be made.
#[derive(Debug)]
struct Candidate {
    axis: usize,
    low: u32,
    high: u32,
    /// The parts that satisfy the requirement, by code, with their sizes.
    parts: Vec<(usize, usize)>,
    /// Whether the rows of the other parts satisfy it too, or there are none.
    rest_holds: bool,
    specialized: usize,
    /// Loss that goes away per row, in millionths: whole numbers, so that rounding breaks no tie.
    gain: i64,
}

/// One thread's part of the work: the shared context and buffers of its own.
struct Worker<'a> {
    context: &'a Context<'a>,
    tally: Tally<'a>,
    /// Code on one axis and number of every row of a group.
    labels: Vec<(u32, u32)>,
}

impl<'a> Worker<'a> {
    fn new(context: &'a Context<'a>) -> Self {
        let job = context.job;
        let tally = Tally::new(job.requirement, job.sensitive, context.global);
        Self { context, tally, labels: Vec::new() }
    }

    /// Specializes a group as far as it goes and appends the sizes of its classes in order.
    fn divide<C: Code, const W: usize>(
        &mut self,
        group: Group<C, W>,
        sizes: &mut Vec<u32>,
    ) -> Result<()> {
        let mut groups = vec![group];
        while let Some(Group { mut rows, is_open }) = groups.pop() {
            self.context.job.cancel.check()?;
            let count = rows.len();
            let specialized = if is_open { self.specialize(rows) } else { None };
            let Some(Specialized { lengths, has_rest }) = specialized else {
                sizes.push(count as u32);
                continue;
            };
            // As printed, rows that stayed behind are a class.
            let closed = has_rest && self.context.variant == Variant::Paper;
            let last = lengths.len() - 1;
            let mut parts = Vec::with_capacity(lengths.len());
            for (at, length) in lengths.into_iter().enumerate() {
                let (part, behind) = rows.split_at_mut(length);
                parts.push(Group { rows: part, is_open: at < last || !closed });
                rows = behind;
            }
            if count < PARALLEL_ROWS {
                groups.extend(parts.into_iter().rev());
            } else {
                self.divide_on_threads(parts, sizes)?;
            }
        }
        Ok(())
    }

    fn divide_on_threads<C: Code, const W: usize>(
        &self,
        parts: Vec<Group<C, W>>,
        sizes: &mut Vec<u32>,
    ) -> Result<()> {
        let context = self.context;
        let divided = map_parts(parts, &|part| -> Result<Vec<u32>> {
            let mut sizes = Vec::new();
            Worker::new(context).divide(part, &mut sizes)?;
            Ok(sizes)
        });
        for part in divided {
            sizes.append(&mut part?);
        }
        Ok(())
    }

    /// Makes the best specialization there is.
    fn specialize<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
    ) -> Option<Specialized> {
        if rows.len() < 2 * self.context.k() {
            return None;
        }
        let axes = 0..self.context.job.axes.len();
        let mut candidates: Vec<Candidate> =
            axes.filter_map(|axis| self.survey(rows, axis)).collect();
        sort_best_first(&mut candidates, self.context.variant);
        candidates.iter().find_map(|candidate| self.apply(rows, candidate))
    }

    /// What parting the rows on an axis would give, if it can be done.
    fn survey<C: Code, const W: usize>(
        &mut self,
        rows: &[Row<C, W>],
        axis: usize,
    ) -> Option<Candidate> {
        self.labels.clear();
        self.labels.extend(rows.iter().map(|row| (row.codes[axis].get(), row.id)));
        self.survey_labels(axis)
    }

    /// The same from the codes and row numbers.
    fn survey_labels(&mut self, axis: usize) -> Option<Candidate> {
        let mut labels = std::mem::take(&mut self.labels);
        labels.sort_unstable_by_key(|label| label.0);
        let candidate = self.weigh(&labels, axis);
        self.labels = labels;
        candidate
    }

    /// The same from labels that are sorted by code.
    fn weigh(&mut self, labels: &[(u32, u32)], axis: usize) -> Option<Candidate> {
        let (low, high) = (labels.first()?.0, labels.last()?.0);
        if low == high {
            return None;
        }
        let parting = self.context.parting(axis, low, high);
        let part = |label: &(u32, u32)| parting.part(label.0);
        let (mut valid, mut rest) = (Vec::new(), Vec::new());
        for run in labels.chunk_by(|a, b| part(a) == part(b)) {
            if self.holds(run.len(), run.iter().map(|label| label.1)) {
                valid.push(run);
            } else {
                rest.push(run);
            }
        }
        let behind: usize = rest.iter().map(|run| run.len()).sum();
        let rest_holds =
            behind == 0 || self.holds(behind, rest.iter().copied().flatten().map(|label| label.1));
        let borrowed = if rest_holds { 0 } else { self.shortage(behind) };
        if valid.iter().map(|run| run.len()).max()? < self.context.k() + borrowed {
            return None;
        }
        let loss = |rows: usize, from: &(u32, u32), to: &(u32, u32)| {
            rows as f64 * self.context.job.axes[axis].loss(from.0, to.0)
        };
        let mut lost: f64 =
            valid.iter().map(|run| loss(run.len(), &run[0], &run[run.len() - 1])).sum();
        if let (Some(first), Some(last)) = (rest.first(), rest.last()) {
            lost += loss(behind, &first[0], &last[last.len() - 1]);
        }
        let before = loss(labels.len(), &labels[0], &labels[labels.len() - 1]);
        Some(Candidate {
            axis,
            low,
            high,
            parts: valid.iter().map(|run| (part(&run[0]), run.len())).collect(),
            rest_holds,
            specialized: labels.len() - behind - borrowed,
            gain: ((before - lost) / labels.len() as f64 * 1e6).round() as i64,
        })
    }

    /// Rows that a group which does not hold must get at least.
    fn shortage(&self, rows: usize) -> usize {
        self.context.k().saturating_sub(rows).max(1)
    }

    fn holds(&mut self, rows: usize, ids: impl Iterator<Item = u32>) -> bool {
        if self.context.job.requirement.models.is_empty() {
            return rows >= self.context.k();
        }
        self.tally.holds_for(ids)
    }

    /// Brings the rows of each part together, the largest last and behind it those that stay. `None` if the rows that
    /// stay cannot be made valid.
    fn apply<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        candidate: &Candidate,
    ) -> Option<Specialized> {
        let axis = candidate.axis;
        // Of equally large parts the last by code.
        let (largest, _) = candidate.parts.iter().enumerate().max_by_key(|(_, part)| part.1)?;
        let parting = self.context.parting(axis, candidate.low, candidate.high);
        let count = candidate.parts.len();
        // In place: a group may be the whole table.
        rows.sort_unstable_by_key(|row| {
            let part = parting.part(row.codes[axis].get());
            match candidate.parts.binary_search_by_key(&part, |part| part.0) {
                Ok(at) if at == largest => count,
                Ok(at) => at,
                Err(_) => count + 1,
            }
        });
        let sizes = candidate.parts.iter().enumerate().filter(|(at, _)| *at != largest);
        let mut lengths: Vec<usize> = sizes.map(|(_, part)| part.1).collect();
        let before: usize = lengths.iter().sum();
        let mut large = candidate.parts[largest].1;
        let has_rest = before + large < rows.len();
        if !candidate.rest_holds {
            large -= self.borrow(&mut rows[before..], large, axis)?;
        }
        lengths.push(large);
        if has_rest {
            lengths.push(rows.len() - before - large);
        }
        Some(Specialized { lengths, has_rest })
    }

    /// How many rows at the end of the first `large` rows make the rows behind them valid. The
    /// nearest ones on the axis are brought there.
    fn borrow<C: Code, const W: usize>(
        &mut self,
        rows: &mut [Row<C, W>],
        large: usize,
        axis: usize,
    ) -> Option<usize> {
        let highest = |rows: &[Row<C, W>]| rows.iter().map(|row| row.codes[axis]).max();
        let from_above = highest(&rows[large..]) > highest(&rows[..large]);
        let keys = self.context.job.keys;
        let mut borrowed = self.shortage(rows.len() - large);
        while large >= self.context.k() + borrowed {
            let keep = large - borrowed;
            rows[..large].select_nth_unstable_by(keep, |a, b| {
                let near = a.codes[axis].cmp(&b.codes[axis]);
                let near = if from_above { near } else { near.reverse() };
                near.then_with(|| a.canonical_order(b, keys))
            });
            let (kept, rest) = rows.split_at(keep);
            let ids = |rows: &'_ [Row<C, W>]| rows.iter().map(|row| row.id).collect::<Vec<_>>();
            if self.holds(kept.len(), ids(kept).into_iter())
                && self.holds(rest.len(), ids(rest).into_iter())
            {
                return Some(borrowed);
            }
            borrowed *= 2;
        }
        None
    }
}

/// A stable sort: the first declared axis wins ties. As printed, the fewest branches count where ours looks at the gain.
fn sort_best_first(candidates: &mut [Candidate], variant: Variant) {
    candidates.sort_by_key(|candidate| {
        let then = match variant {
            Variant::Best => Reverse(candidate.gain),
            Variant::Paper => Reverse(-(candidate.parts.len() as i64)),
        };
        (Reverse(candidate.specialized), then)
    });
}

#[cfg(test)]
mod tests;
