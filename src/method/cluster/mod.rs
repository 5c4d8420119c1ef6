//! Grouping rows by distance: `kaim`, `k_member` and `bottom_up`.
//!
//! **Guarantee.** Every class has at least k rows and satisfies every model of the requirement. `kaim`
//! and `bottom_up` publish every row; `k_member` leaves out the rows that miss a quasi-identifier, and
//! they can be counted: they stand behind the last class. For plain k, `kaim` and `bottom_up` make classes below 2k rows;
//! `k_member`, and `kaim` as printed, make ⌊n/k⌋ classes in one block.
//!
//! **Steps of `kaim`** (k-anonymity for incomplete microdata). A class in whose rows a column is missing publishes it as missing; one that
//! also has a value there publishes `*`, which costs that value and nothing for the missing cells:
//!
//! 1. start a group at a random row among the free ones that miss fewest cells (drawn by a keyed hash from the canonical order);
//! 2. add the free row with the smallest distance (`distance.rs`) to the group until it has k rows; with
//!    models, then the nearest row that brings the group closer to the model it lacks;
//! 3. again from 1 until fewer than k rows are free, or none has what a group still lacks;
//! 4. give each row left to its nearest group;
//! 5. refine (`method/refine`), within the block: wherever all lose less together, rows change hands between neighbouring
//!    groups. Publish each group's center: per column the lowest common ancestor, the interval or the set.
//!
//! Worked on the first six rows of the paper's table 1, k = 2: whatever the first row drawn (all ten rows give the pairs of its
//! table 3, ILossRate 0.3457, for 200 of 200 seeds),
//!
//! | Age | Gender | Zip | published |
//! | --- | --- | --- | --- |
//! | missing | M | 12000 | missing, M, [10000-15000] |
//! | missing | M | 14000 | missing, M, [10000-15000] |
//! | 26 | F | 18000 | [20-30], `*`, [15000-20000] |
//! | 28 | M | 19000 | [20-30], `*`, [15000-20000] |
//! | 32 | M | missing | [30-40], M, `*` |
//! | 39 | M | 24000 | [30-40], M, `*` |
//!
//! **`k_member`** is the same with NCP for a distance, on the complete rows only, and starts each
//! group at the row furthest from the last one taken. **`bottom_up`** starts with one group per
//! distinct tuple; round by round each group that is no class yet merges with the group for which
//! the summed NCP grows least, and a group of 2k rows or more is halved.
//!
//! **Cost.** Comparing every free row with every group would be O(n²·d). Equal tuples are collapsed
//! and the rest stand in a trie that is left early wherever the distance is already too large, which
//! is exact: 48 842 rows of eight quasi-identifiers at k = 5 take about a quarter of a second in both
//! (bench `clustering`). Refinement has a budget of looks at each cell (`refined.rs`); `bottom_up` compares every group with all
//! groups of its block. A block whose rows are so different that more than a thousand nodes of the trie are looked at for each
//! is cut further, and where k is above 100, a group takes several rows at once; neither happens as printed. Tables above `block_rows` are first cut into blocks
//! by the rounded partition, and the blocks are clustered in parallel with the figures (domains, entropies) of the whole table.
//! ILossRate of `kaim` on the same rows, by the rows of a block; the time is about the same:
//!
//! | | 4 096 | 8 192 | 16 384 | 32 768 | all |
//! | --- | --- | --- | --- | --- | --- |
//! | 1.65 % missing | 0.0500 | 0.0511 | 0.0479 | 0.0480 | 0.0444 |
//! | 10 % missing | 0.0853 | 0.0832 | 0.0831 | 0.0790 | 0.0779 |
//!
//! **Departures** of `kaim`, each with the ILossRate on those rows in one block when it is added; `variant => 'paper'` has none.
//! These tables were measured with siblings of a hierarchy in the order of their labels. In the order of Adult's files the last
//! row is 0.0440, 0.0665 and 0.0808, and `k_member` loses 0.1240:
//!
//! | | 1.65 % missing | 5 % | 10 % |
//! | --- | --- | --- | --- |
//! | the formula as printed | 0.1137 | 0.1478 | 0.1722 |
//! | c is half the entropy of the column: a typical age weighed 50, a sex 2 to 3 | 0.0517 | | 0.0895 |
//! | missing cells cost nothing, groups start at the most complete rows | 0.0519 | | 0.0841 |
//! | groups are refined | 0.0444 | 0.0640 | 0.0773 |
//!
//! `k_member`, which drops the 7.4 % of the rows that miss any column, loses 0.1177 at 1.65 % (0.3338 and 0.5727 with more missing):
//! `kaim` with the column's c alone loses 0.440 of that, as the paper found (0.438), the formula as printed 0.97, the default 0.38. `bottom_up` does not pay for missing cells either (0.0981 instead of 0.1004 at 10 %).
//!
//! In all versions: the paper draws the rows left at random; they are placed in canonical order. Equally near tuples are
//! taken in the order of the search, which depends on codes and center only. Models beside k are an addition. Where k counts persons and
//! rows follow their person into a group, groups are not refined.
//!
//! **Source.** Gong, Yang and Luo, "Data anonymization approach for incomplete microdata", Journal of
//! Software 24(12), 2013 (the KAIM paper); Byun, Kamra, Bertino and Li, "Efficient k-anonymization using
//! clustering techniques", 2007; Xu et al., "Utility-based anonymization using local recoding", 2006.

mod bottom_up;
mod cost_cache;
mod distance;
mod greedy;
mod leftovers;
mod method;
mod refined;
mod trie;
mod tuples;

use std::ops::Range;

use rayon::prelude::*;

use self::bottom_up::bottom_up;
use self::distance::{Column, Constant, Distance, Metric};
use self::greedy::{Group, Grown, Growth, Rules, Start, persons_to_follow};
pub(super) use self::method::{BOTTOM_UP, K_MEMBER, KAIM};
use self::refined::refined;
use self::tuples::Tuples;
use super::bounds::Losses;
use super::partition::{Job, Split};
use super::refine::Context;
use super::{Variant, blocks};
use crate::error::{Error, Result};
use crate::hierarchy::Axis;
use crate::model::{
    Classes, Code, GlobalShares, Requirement, Row, RowTable, Seed, Tally, with_rows,
};

/// How groups are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub enum Clustering {
    /// By entropy, keeping rows with missing cells (method `kaim`).
    Kaim,
    /// By NCP, without the rows that have a missing cell (method `k_member`).
    KMember,
    /// By merging groups from single rows upward (method `bottom_up`).
    BottomUp,
}

/// Options of a clustering.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Which version of the method runs.
    pub variant: Variant,
    /// How much each quasi-identifier counts, in the order of the codes; empty for all alike.
    pub weights: &'a [f64],
    /// Draws the rows at which groups start.
    pub seed: &'a Seed,
    /// Tables with more rows are cut into blocks of about this many first.
    pub block_rows: usize,
    /// Which quasi-identifier `bottom_up` halves a group on.
    pub split: Split,
}

impl Clustering {
    /// A good `block_rows`, as measured on 48 842 rows of the Adult census and of `sample_census` (bench
    /// `clustering`): blocks add loss. `k_member` loses 3 to 5 % more in halves, 4 to 9 % in blocks of 4 096 rows, `kaim` more than
    /// that, because rows that miss a value are parted from others first. `bottom_up` compares all
    /// groups of a block, and blocks of 4 096 cost it 1.5 % (measured on `sample_census`).
    pub fn default_block_rows(self) -> usize {
        match self {
            Self::Kaim | Self::KMember => 65_536,
            Self::BottomUp => 4_096,
        }
    }

    fn distance(self, variant: Variant) -> Distance {
        let metric = match (self, variant) {
            (Self::Kaim, Variant::Best) => Metric::Entropy(Constant::HalfOfColumn),
            (Self::Kaim, Variant::Paper) => Metric::Entropy(Constant::OfValue),
            (Self::KMember | Self::BottomUp, _) => Metric::Ncp,
        };
        Distance { metric, charges_missing: variant == Variant::Paper }
    }

    /// Whether rows change hands when all of them have a group.
    fn is_refined(self, variant: Variant) -> bool {
        self == Self::Kaim && variant == Variant::Best
    }

    fn start(self, variant: Variant) -> Start {
        match (self, variant) {
            (Self::KMember, _) => Start::Furthest,
            (_, Variant::Best) => Start::Complete,
            (_, Variant::Paper) => Start::Random,
        }
    }
}

/// Groups the rows and leaves them in class order; suppressed rows stand behind the last class.
///
/// Works on the current rayon pool. The outcome does not depend on the order of the rows or the
/// number of threads.
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::Axis;
/// use datafusion_anonymize::pure::method::Variant;
/// use datafusion_anonymize::pure::method::cluster::{Clustering, Options, cluster};
/// use datafusion_anonymize::pure::method::partition::{Job, Split};
/// use datafusion_anonymize::pure::model::{Cancel, Requirement, RowKeys, RowTable, Seed};
///
/// // Ages 20 and 40, and two rows that miss it (code 0).
/// let mut rows = RowTable::from_codes(&[[1], [0], [2], [1], [0], [2]]).unwrap();
/// let axes = [Axis::line(&[20., 40.], true)];
/// let job = Job {
///     axes: &axes,
///     requirement: &Requirement::k(2),
///     sensitive: &[],
///     keys: &RowKeys::default(),
///     cancel: &Cancel::default(),
/// };
/// let method = Clustering::Kaim;
/// let options = Options {
///     variant: Variant::Best,
///     weights: &[],
///     seed: &Seed::from_bytes(b"any"),
///     block_rows: method.default_block_rows(),
///     split: Split::LeastLoss,
/// };
/// let classes = cluster(&mut rows, &job, method, &options)?;
/// let mut first: Vec<u32> = classes.range(0).map(|at| rows.id_at(at)).collect();
/// first.sort();
/// assert_eq!((classes.len(), first), (3, vec![1, 4]), "rows that miss the same go together");
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn cluster(
    rows: &mut RowTable,
    job: &Job,
    method: Clustering,
    options: &Options,
) -> Result<Classes> {
    let weights = weights(options.weights, job.axes.len())?;
    let global = GlobalShares::new(job.requirement, job.sensitive);
    let mut tally = Tally::new(job.requirement, job.sensitive, &global);
    if rows.is_empty() {
        // A column without a value has no entropy to prepare.
        tally.check_whole_table(std::iter::empty())?;
        return Classes::from_sizes(&[]);
    }
    let variant = options.variant;
    let counts = Counts::new(rows, job);
    let columns = columns(job, method.distance(variant), &weights, &counts);
    let clustered = match method {
        Clustering::KMember => with_rows!(rows, rows => complete_rows(rows, job)),
        Clustering::Kaim | Clustering::BottomUp => rows.len(),
    };
    tally.check_whole_table((0..clustered).map(|at| rows.id_at(at)))?;
    let blocks = with_rows!(rows, rows => {
        blocks::cut(&mut rows[..clustered], job, &global, options.block_rows)
    })?;
    let single = |model| Requirement { k: 1, models: vec![model] };
    let singles: Vec<Requirement> = job.requirement.models.iter().cloned().map(single).collect();
    let work = Work { method, options, job, columns, global: &global, singles };
    let (mut sizes, mut start) = (Vec::new(), 0);
    for block in work.all(rows, &blocks)? {
        sizes.extend(block.sizes);
        let len = block.targets.len();
        rows.permute_from(start, block.targets);
        start += len;
    }
    let follows = persons_to_follow(&job.requirement.models, job.sensitive);
    // Rows that followed their person stay together.
    if method.is_refined(variant) && follows.is_none() {
        let context = Context {
            job,
            losses: Losses::weighted(job.axes, &weights),
            global: &global,
            split: options.split,
            effort: refined::EFFORT,
        };
        sizes = with_rows!(rows, rows => refined(rows, &blocks, &sizes, &context))?;
    }
    Classes::from_sizes(&sizes)
}

/// What is the same for all blocks.
struct Work<'a> {
    method: Clustering,
    options: &'a Options<'a>,
    job: &'a Job<'a>,
    columns: Vec<Column<'a>>,
    global: &'a GlobalShares,
    /// Every model alone.
    singles: Vec<Requirement>,
}

/// Rows that are compared with each other.
struct Block {
    /// Blocks of different numbers draw different random rows.
    number: u64,
    range: Range<usize>,
    /// Whether it is cut further if its rows are so different that comparing them takes long.
    can_be_cut: bool,
}

/// Into how many parts a block is cut if comparing its rows takes too long.
const PARTS: Range<usize> = 4..64;

impl Work<'_> {
    /// Clusters all blocks, by their sizes, and cuts those again that take too long; in the order of the rows.
    fn all(&self, rows: &mut RowTable, sizes: &[u32]) -> Result<Vec<Arranged>> {
        let can_be_cut = self.options.variant == Variant::Best;
        let block = |(number, range)| Block { number, range, can_be_cut };
        let mut pending: Vec<Block> = (0..).zip(blocks::ranges(sizes)).map(block).collect();
        let mut number = pending.len() as u64;
        let mut done = Vec::new();
        while !pending.is_empty() {
            let table = &*rows;
            let worked: Vec<Result<Worked>> =
                pending.par_iter().map(|block| self.block(table, block)).collect();
            let mut again = Vec::new();
            for (block, outcome) in pending.into_iter().zip(worked) {
                let Range { start, end } = block.range;
                let parts = match outcome? {
                    Worked::Arranged(arranged) => {
                        done.push((start, arranged));
                        continue;
                    }
                    Worked::TooLarge { parts } => parts.clamp(PARTS.start, PARTS.end),
                };
                let most = (end - start).div_ceil(parts);
                let sizes = with_rows!(rows, rows => {
                    blocks::cut(&mut rows[start..end], self.job, self.global, most)
                })?;
                for part in blocks::ranges(&sizes) {
                    let range = start + part.start..start + part.end;
                    again.push(Block { number, range, can_be_cut: sizes.len() > 1 });
                    number += 1;
                }
            }
            pending = again;
        }
        done.sort_unstable_by_key(|(start, _)| *start);
        Ok(done.into_iter().map(|(_, arranged)| arranged).collect())
    }

    /// Clusters one block.
    fn block(&self, table: &RowTable, block: &Block) -> Result<Worked> {
        let Self { method, options, job, .. } = *self;
        let rules = Rules {
            columns: &self.columns,
            start: method.start(options.variant),
            k: job.requirement.k,
            models: &job.requirement.models,
            sensitive: job.sensitive,
            seed: options.seed,
            cancel: job.cancel,
            block: block.number,
            takes_shortcuts: options.variant == Variant::Best,
        };
        let tally = |single| Tally::new(single, job.sensitive, self.global);
        let tallies = self.singles.iter().map(tally).collect();
        let tuples = Tuples::new(table, block.range.clone(), &self.columns, job.keys);
        let grown = match method {
            Clustering::BottomUp => {
                Grown::Groups(bottom_up(rules, &tuples, tallies, options.split)?)
            }
            Clustering::Kaim | Clustering::KMember => {
                Growth::new(rules, &tuples, tallies).run(block.can_be_cut)?
            }
        };
        match grown {
            Grown::Groups(groups) => arranged(&tuples, groups).map(Worked::Arranged),
            Grown::TooLarge { parts } => Ok(Worked::TooLarge { parts }),
        }
    }
}

/// What became of a block.
enum Worked {
    Arranged(Arranged),
    /// It should be cut into about so many parts.
    TooLarge {
        parts: usize,
    },
}

/// How many rows miss at least one quasi-identifier: those that `k_member` leaves out.
pub fn incomplete_rows(rows: &RowTable, axes: &[Axis]) -> usize {
    with_rows!(rows, rows => rows.iter().filter(|row| is_incomplete(row, axes)).count())
}

fn is_incomplete<C: Code, const W: usize>(row: &Row<C, W>, axes: &[Axis]) -> bool {
    axes.iter().zip(&row.codes).any(|(axis, code)| axis.missing && code.get() == 0)
}

impl Clustering {
    /// Bytes that a clustering takes beside the rows, roughly, when `rows` rows stand in the blocks it
    /// works on at once; `codes` is the number of codes of every quasi-identifier.
    pub fn block_bytes(self, codes: impl Iterator<Item = u32>, rows: usize) -> usize {
        // Per code: what distances look up. Per row: tallies and groups, its place before and after, its slot, by which the
        // rows of a person are found, and the order of starts.
        const CODE: usize = 64;
        const ROW: usize = 180;
        // Per row and column: the code as it is read and that of the tuple, and
        let cell = 4
            + 4
            + match self {
                // a trie node of four numbers, half as much again while a trie is rebuilt, and the center of a group;
                Self::Kaim | Self::KMember => 24 + 48,
                // the center of a group, with the members of a set: every row may start as a group of its own.
                Self::BottomUp => size_of::<distance::Part>() + 32,
            };
        let columns = codes.map(|codes| codes as usize * CODE + rows * cell);
        columns.sum::<usize>() + rows * ROW
    }
}

/// Weights with 1 as the largest.
fn weights(weights: &[f64], columns: usize) -> Result<Vec<f64>> {
    if weights.is_empty() {
        return Ok(vec![1.0; columns]);
    }
    if weights.len() != columns {
        return Err(Error::invalid(format!(
            "{} weights for {columns} quasi-identifiers: write one weight per quasi-identifier",
            weights.len()
        )));
    }
    let largest = weights.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 || weights.iter().any(|weight| !weight.is_finite() || *weight < 0.0) {
        return Err(Error::invalid(
            "weights must be finite, not below 0 and not all 0: write 1 for every \
             quasi-identifier that should count like any other",
        ));
    }
    Ok(weights.iter().map(|weight| weight / largest).collect())
}

/// How often every code of every column occurs.
struct Counts(Vec<Vec<u64>>);

impl Counts {
    fn new(rows: &RowTable, job: &Job) -> Self {
        let of_column = |(index, axis): (usize, &Axis)| {
            let counts = rows.counts(0..rows.len(), index, axis.codes);
            counts.into_iter().map(u64::from).collect()
        };
        Self(job.axes.iter().enumerate().map(of_column).collect())
    }
}

/// The quasi-identifiers in the order they are searched: few values first.
fn columns<'a>(
    job: &Job<'a>,
    distance: Distance,
    weights: &[f64],
    counts: &Counts,
) -> Vec<Column<'a>> {
    let column = |(index, axis): (usize, &'a Axis)| {
        Column::new(index, axis, distance, weights[index], &counts.0[index])
    };
    let mut columns: Vec<Column<'a>> = job.axes.iter().enumerate().map(column).collect();
    columns.sort_by_key(|column| column.axis.codes);
    columns
}

/// Brings the rows without a missing cell to the front and counts them.
fn complete_rows<C: Code, const W: usize>(rows: &mut [Row<C, W>], job: &Job) -> usize {
    let mut complete = 0;
    for at in 0..rows.len() {
        if !is_incomplete(&rows[at], job.axes) {
            rows.swap(complete, at);
            complete += 1;
        }
    }
    complete
}

/// The classes of a block.
struct Arranged {
    /// By class, its rows.
    sizes: Vec<u32>,
    /// By row as it stood in the block, its place in class order.
    targets: Vec<u32>,
}

/// Brings the rows of a block into class order: classes by their first row, rows in canonical order.
fn arranged(tuples: &Tuples, mut groups: Vec<Group>) -> Result<Arranged> {
    groups.iter_mut().for_each(|group| group.rows.sort_unstable());
    groups.sort_unstable_by_key(|group| group.rows.first().copied());
    let sizes: Vec<u32> = groups.iter().map(|group| group.rows.len() as u32).collect();
    let mut targets = vec![u32::MAX; tuples.rows()];
    for (target, at) in groups.iter().flat_map(|group| &group.rows).enumerate() {
        targets[tuples.order[*at as usize] as usize] = target as u32;
    }
    if sizes.iter().sum::<u32>() as usize != targets.len() || targets.contains(&u32::MAX) {
        return Err(Error::bug("a clustering lost or doubled a row"));
    }
    Ok(Arranged { sizes, targets })
}

#[cfg(test)]
mod tests;
