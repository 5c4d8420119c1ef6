//! Layered freezing (`layered`): the least loss.
//!
//! **Guarantee.** Every class has at least k rows and satisfies every model of the requirement. For
//! plain k classes end below 2k rows. Every row is published, or a few are counted as suppressed where
//! that is asked for: they stand behind the last class.
//!
//! **Steps.**
//!
//! 1. Group the rows by their tuples. Groups that could be a class are *frozen*: their rows are never
//!    generalized further than the group. A frozen group is cut as long as both sides could be
//!    classes, each time where the two sides lose least.
//! 2. The open rest climbs one rung on one quasi-identifier: the next level of its hierarchy, or
//!    aligned intervals of twice the width. It is the one on which most rows would freeze (and a share
//!    of the open rows) for the loss it adds. Again from 1, until fewer than 2k rows are open (k, if the rest is to be
//!    suppressed).
//! 3. A group that has most of k rows borrows the others from classes that have more than k and lie
//!    under the same nodes: what those can spare without loss is what the rare rows lack.
//! 4. The rows that are left join the classes where they cost least, or are suppressed.
//! 5. Classes are refined, the worst first, as long as the total falls: rows beyond k go to classes that
//!    hold them anyway and lose less; two neighbours are joined and cut anew; the rows at one edge of a
//!    class move to classes where they cost less, and rows that fit in take their place; a class is
//!    dissolved into others.
//! 6. Where models are asked for beside k, and in small tables, plain cuts are refined too, and the better of the two is kept.
//!
//! Worked for one column of ages, k = 2: 21 is frozen as it is; 30 and 31 share an interval of the first
//! rung. Fewer than 2k rows are left; each joins the class where it costs least, and what grew to 2k
//! rows is cut. (With suppression 58 and 90 share an interval of the next rung, and 50 is left out.)
//!
//! | Age | frozen on | published |
//! | --- | --- | --- |
//! | 21 | the value | 21 |
//! | 21 | the value | 21 |
//! | 30 | intervals | 30–31 |
//! | 31 | intervals | 30–31 |
//! | 50 | | 50–90 |
//! | 58 | | 50–90 |
//! | 90 | | 50–90 |
//!
//! A missing cell loses nothing, neither on a rung nor in a class that publishes `*` because others have a value. On the full Adult census
//! (k = 5, eight quasi-identifiers) that lowers ILossRate by 1 % where 10 % of the cells are missing and by 7 % at 30 %, and
//! changes little below 5 %.
//!
//! **Cost.** Tables are cut into blocks of [`BLOCK_ROWS`] rows by the rounded partition, which are worked
//! on in parallel. In a block, each rung costs the open tuples once per quasi-identifier that could be chosen; refinement
//! compares a class with the others of its neighbourhood of bounded size, and has a budget of looks for each cell of the
//! block, which neighbourhoods share by their losses. So the cost grows with the rows, whatever k and the values are. With
//! models layers and plain cuts share that budget. Bench `grid`, k = 10, 200 000 rows of eight quasi-identifiers, all with few
//! values or two of them with many (zip codes and dates of birth with hierarchies), in microseconds of CPU per row:
//!
//! | looks at a cell | few values | loss | many values | loss |
//! | --- | --- | --- | --- | --- |
//! | 0 | 1.0 | 0.1302 | 0.9 | 0.1547 |
//! | 20 | 2.5 | 0.1251 | 2.6 | 0.1511 |
//! | 40 | 3.5 | 0.1246 | 3.6 | 0.1508 |
//! | 80 | 6.0 | 0.1238 | 6.0 | 0.1506 |
//! | as much as it takes | 13.0 | 0.1234 | 11.0 | 0.1505 |
//!
//! **Source.** None: the freezing of [`classfly`](super::classfly) joined with the cuts of
//! [`partition`](super::partition). In no paper that we know.

mod freeze;
mod ladder;
mod leftovers;
mod method;
mod sketch;

use std::ops::Range;

use self::freeze::{Frozen, Layers};
pub(super) use self::method::LAYERED;
use super::bounds::Losses;
use super::partition::{Cut, Split, partition_rows};
use super::refine::{Class, Context, Cutter, Effort, arrange, refine};
use super::{Job, blocks};
use crate::error::{Error, Result};
use crate::model::{Classes, Code, GlobalShares, Row, RowTable, Tally, map_parts, with_rows};

/// Rows of a block.
pub const BLOCK_ROWS: usize = 65_536;

/// Refinement compares a class with the others of a neighbourhood of 20k classes, within these bounds: the
/// larger the classes, the fewer there are, and the less it costs beside the rest of the work.
const NEIGHBOURHOOD: Range<usize> = 256..1024;
/// Up to so many rows of a block plain cuts are refined too. Where there are few classes, it matters most where each of them begins,
/// and layers say nothing about that.
const SMALL: usize = 4096;
/// How many cells it may look at for each cell of the table.
const LOOKS: f64 = 40.0;

/// What is spent on each of two ways in a large block before the better one is refined further.
const FIRST_SHARE: f64 = 0.25;

/// How the method may work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How the place of a cut is chosen.
    pub split: Split,
    /// Whether rows that no layer freezes are left out.
    pub suppress: bool,
}

/// Classes, and how many rows behind them are not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layered {
    /// The classes, over the first positions.
    pub classes: Classes,
    /// Rows behind the last class.
    pub suppressed: usize,
}

/// Puts the rows into classes and leaves them in class order, suppressed rows last.
///
/// Works on the current rayon pool. The outcome does not depend on the order of the rows or the
/// number of threads.
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::Axis;
/// use datafusion_anonymize::pure::method::Job;
/// use datafusion_anonymize::pure::method::layered::{Options, layered};
/// use datafusion_anonymize::Split;
/// use datafusion_anonymize::pure::model::{Cancel, Requirement, RowKeys, RowTable};
///
/// let ages = [21., 30., 31., 50., 58., 90.];
/// let mut rows = RowTable::from_codes(&[[0], [0], [1], [2], [3], [4], [5]]).unwrap();
/// let job = Job {
///     axes: &[Axis::line(&ages, false)],
///     requirement: &Requirement::k(2),
///     sensitive: &[],
///     keys: &RowKeys::default(),
///     cancel: &Cancel::default(),
/// };
/// let options = Options { split: Split::LeastLoss, suppress: false };
/// let outcome = layered(&mut rows, &job, &options)?;
/// let sizes: Vec<usize> = outcome.classes.ranges().map(|class| class.len()).collect();
/// assert_eq!(sizes, [2, 2, 3]);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn layered(rows: &mut RowTable, job: &Job, options: &Options) -> Result<Layered> {
    with_rows!(rows, rows => layered_rows(rows, job, options, BLOCK_ROWS))
}

/// Bytes that the method takes beside the rows, roughly, on as many threads.
pub fn work_bytes(row_bytes: usize, rows: usize, k: usize, threads: usize) -> usize {
    let in_work = rows.min(threads.saturating_mul(BLOCK_ROWS.max(blocks::least(k))));
    // The rows in classes, once more while some change hands and in plain cuts beside the layers; tuples,
    // counters, what climbing does to every code, and the cells of every class.
    in_work * (4 * row_bytes + 208)
}

fn layered_rows<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    job: &Job,
    options: &Options,
    block_rows: usize,
) -> Result<Layered> {
    let global = GlobalShares::new(job.requirement, job.sensitive);
    Tally::new(job.requirement, job.sensitive, &global)
        .check_whole_table(rows.iter().map(|row| row.id))?;
    let effort = effort(job);
    let losses = Losses::new(job.axes);
    let context = Context { job, losses, global: &global, split: options.split, effort };
    let blocks = blocks::cut(rows, job, &global, block_rows)?;
    let done =
        map_parts(blocks::slices(rows, &blocks), &|block| work(block, &context, options.suppress));
    let mut sizes = Vec::new();
    let mut ends = Vec::with_capacity(blocks.len());
    for block in done {
        let block = block?;
        ends.push(block.iter().map(|size| *size as usize).sum::<usize>());
        sizes.extend(block);
    }
    let suppressed = suppressed_last(rows, &blocks, &ends);
    if sizes.is_empty() {
        // Every block holds the requirement as a whole, so each has a class.
        return Err(Error::bug("layers froze no class"));
    }
    Ok(Layered { classes: Classes::from_sizes(&sizes)?, suppressed })
}

fn effort(job: &Job) -> Effort {
    let classes = 20 * job.requirement.k as usize;
    Effort { looks: LOOKS, neighbourhood: classes.clamp(NEIGHBOURHOOD.start, NEIGHBOURHOOD.end) }
}

/// Forms the classes of one block and leaves its rows in their order; returns their sizes. Rows behind
/// them are suppressed.
fn work<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    context: &Context,
    suppress: bool,
) -> Result<Vec<u32>> {
    let mut cutter = Cutter::new(context);
    cutter.sort_canonically(rows);
    // A few rows are better off in the classes there are; before any is left out, all are asked.
    let enough = if suppress { context.k() } else { 2 * context.k() };
    let (mut classes, left) = Layers::new(&mut cutter, rows).run(enough)?;
    let suppressed = match suppress && !classes.is_empty() {
        true => left,
        false => {
            leftovers::place(&mut cutter, &mut classes, left)?;
            Vec::new()
        }
    };
    let is_small = rows.len() <= SMALL && !suppress;
    let (classes, suppressed) = match is_small || !context.job.requirement.models.is_empty() {
        true => better_of_two(rows, context, classes, suppressed)?,
        false => (refine(classes, context, 1.0)?, suppressed),
    };
    let count = classes.iter().map(|class| class.rows.len()).sum::<usize>() + suppressed.len();
    if count != rows.len() {
        return Err(Error::bug("layers lost or doubled a row"));
    }
    let (published, behind) = rows.split_at_mut(count - suppressed.len());
    behind.copy_from_slice(&suppressed);
    Ok(arrange(published, classes))
}

/// Refines the classes that layers made, and plain cuts, and goes on with those that lose less: layers freeze what has k rows, and
/// where models ask for more than that, plain cuts can be better.
fn better_of_two<C: Code, const W: usize>(
    rows: &[Row<C, W>],
    context: &Context,
    classes: Vec<Class<C, W>>,
    suppressed: Vec<Row<C, W>>,
) -> Result<Frozen<C, W>> {
    // All of it costs little in a small block, and a class more or less is a large part of it.
    let first = if rows.len() <= SMALL { 1.0 } else { FIRST_SHARE };
    let classes = refine(classes, context, first)?;
    let cut = refine(cut_only(rows, context)?, context, first)?;
    let lost = |classes: &[Class<C, W>]| classes.iter().map(Class::total).sum::<f64>();
    let left_out = (suppressed.len() * context.losses.axes().len()) as f64;
    let (classes, suppressed) = match lost(&cut) < lost(&classes) + left_out {
        true => (cut, Vec::new()),
        false => (classes, suppressed),
    };
    match rows.len() <= SMALL {
        true => Ok((classes, suppressed)),
        false => Ok((refine(classes, context, 1.0 - 2.0 * FIRST_SHARE)?, suppressed)),
    }
}

/// The classes of the rounded partition.
fn cut_only<C: Code, const W: usize>(
    rows: &[Row<C, W>],
    context: &Context,
) -> Result<Vec<Class<C, W>>> {
    let mut rows = rows.to_vec();
    let sizes = partition_rows(&mut rows, context.job, Cut::Rounded, context.split, true)?;
    let mut rest = &rows[..];
    let class = |size: &u32| {
        let (rows, others) = rest.split_at(*size as usize);
        rest = others;
        Class::new(rows.to_vec(), &context.losses)
    };
    Ok(sizes.iter().map(class).collect())
}

/// Brings the suppressed rows of all blocks behind the classes of all blocks and counts them. `ends`
/// says where in each block the classes end.
fn suppressed_last<T: Copy>(rows: &mut [T], blocks: &[u32], ends: &[usize]) -> usize {
    let mut suppressed = Vec::new();
    let (mut from, mut to) = (0, 0);
    for (block, end) in blocks.iter().zip(ends) {
        let block = *block as usize;
        suppressed.extend_from_slice(&rows[from + end..from + block]);
        rows.copy_within(from..from + end, to);
        from += block;
        to += end;
    }
    rows[to..].copy_from_slice(&suppressed);
    suppressed.len()
}

#[cfg(test)]
mod tests;
