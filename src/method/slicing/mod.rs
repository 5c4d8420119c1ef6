//! Slicing: buckets of rows whose columns are permuted apart (methods `asg_ls` and `slicing`).
//!
//! Values stay exact; what is broken is the link between groups of attributes. In this module an
//! *attribute* is a quasi-identifier or the sensitive attribute, and a *column* is a group of attributes
//! whose values stay together in a bucket.
//!
//! **Guarantee** ([`Variant::Best`]).
//!
//! - Every bucket has at least k rows. Whoever knows all quasi-identifiers of its persons, how columns are permuted
//!   and the published bucket, but not the seed, names a person's sensitive value with a chance of at most 1/l. As for
//!   every model of sensitive values, this is about the rows of a bucket, not about why they were put
//!   together: where a near row is missing from a bucket, someone who replays the method may conclude that its value
//!   did not fit.
//! - Where the sensitive attribute has a hierarchy, the values of a bucket come from at least two nodes below its top,
//!   or below the lowest node that covers all values of the table.
//! - In every bucket at least three groups of varying quasi-identifiers are permuted apart, two where only two vary, each
//!   of at most `max_columns`. No row keeps its own values of two columns, unless others in the bucket have the same.
//! - Where fewer than two quasi-identifiers vary there is nothing to separate: such buckets are counted
//!   ([`Sliced::undivided`]).
//!
//! A row is assembled from several persons and can match a real one by coincidence. How often that happens is
//! measured, not promised: `intact_tuples` of `privacy_report`.
//!
//! Quasi-identifiers outside rare values ([`Options::rare_below`]) are published as they are.
//!
//! Why l different values are not enough, and what is kept instead:
//!
//! - A value that most rows of a bucket have is named at once. So counts matter, not only
//!   how many values there are.
//! - A varying quasi-identifier in the sensitive attribute's column would narrow the bucket down to the rows that
//!   share the person's value. So there is none in that column.
//! - No row keeps its own value, and everyone may know that: each column in which the person is found
//!   rules one sensitive value out. So of n rows in c columns at most (n − c)/l have the same value, (n − 1)/l in two
//!   columns, (n − 2c + 2)/l in more than five. The last bound is proved where it is computed (`needed_rows`); up to five
//!   columns the tests count all cases, and say up to which sizes.
//!
//! **Steps of `asg_ls`** (association set generating, local slicing).
//!
//! 1. *Associations*: frequent nodes of the hierarchies, then sets of nodes of two, three, … attributes
//!    that at least `min_support` of the rows have. Most specific sets first: one in which the best
//!    rule has `min_confidence` is an association, and its generalizations are not looked at. Those with
//!    the sensitive attribute are ordered by importance: Σ weight · depth of the node / depth of the
//!    hierarchy + lift.
//! 2. *Buckets*: for each association with the sensitive attribute, while free rows have it: a random such row
//!    and the rows nearest to it that keep the guarantee, whether or not they have the association (rows that share
//!    it share a node of the sensitive attribute). Then the same around rows that have none. How frequent a value may
//!    be depends on the number of columns; a bucket that ends up with more columns than planned is filled again. Rows
//!    left over join the nearest bucket that stays sound; if there is none they are suppressed.
//! 3. *Columns* of a bucket: the quasi-identifiers that vary, grouped by how much they correlate in the table (mean
//!    square contingency). As long as one group alone tells more than half of the rows apart it gives
//!    an attribute to another, where that helps. What does not vary joins the sensitive attribute's column.
//! 4. *Rare values*: an attribute of the bucket with a value that fewer than `rare_below` of all rows have is
//!    generalized to what covers the bucket. If then fewer than two columns have k different rows, all
//!    of the bucket is generalized.
//! 5. *Permutation*: the sensitive attribute's column stays, every other one is permuted by the seed.
//!
//! **`slicing`** (the baseline) has one set of groups for the whole table and buckets by Mondrian. A bucket in which fewer
//! than three of the groups vary parts one of them; groups are not balanced. Steps 4 and 5 and the guarantee are the same.
//!
//! Worked on a bucket of six rows, k = 6, l = 2: three quasi-identifiers vary, so there are four columns, and each disease
//! may occur (6 − 4)/2 = 1 time. The seed draws the permutations; here they shift by one, two and three rows. Each
//! published row takes age, sex and zip from three different persons, none of them the one with its disease.
//!
//! | Age | Sex | Zip | Disease | published age | sex | zip | disease |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | 25 | F | 4711 | Flu | 28 | F | 4714 | Flu |
//! | 28 | M | 4712 | Cold | 31 | M | 4715 | Cold |
//! | 31 | F | 4713 | Asthma | 36 | F | 4716 | Asthma |
//! | 36 | M | 4714 | Ulcer | 40 | M | 4711 | Ulcer |
//! | 40 | F | 4715 | Gout | 44 | F | 4712 | Gout |
//! | 44 | M | 4716 | Angina | 25 | M | 4713 | Angina |
//!
//! **Cost.** Associations are counted by bitmaps (`src/association.rs`). Nearest rows are looked for
//! inside blocks of `block_rows` rows, cut by the rounded partition: n/k · block_rows distances. As printed the table is one
//! block, unless `block_rows` is given.
//!
//! **The paper's version** ([`Variant::Paper`]) keeps l different values only, and in its own example a value is named with
//! a chance of 1/2 where l is 3. Columns are the association's attributes; then the other associations by how many rows
//! of the bucket have them, each taking its attributes that are still free if they are at least `min_columns`; the rest is one
//! column, or even parts if it is more than `max_columns`. A bucket without an association has two columns, and so
//! publishes everybody's quasi-identifiers. Every bucket in which fewer than two columns have k different rows is
//! generalized as a whole (line 22). `slicing` finds its columns by k-medoids, of at most `max_columns`. `asg_ls` looks for
//! neighbours in the whole table.
//!
//! | ours | the paper | gain |
//! | --- | --- | --- |
//! | the chance to name a value is at most 1/l | l different values | a frequent value is not named: 1/3 instead of 1/2 in the paper's example |
//! | groups of columns that correlate, permuted apart | the columns of associations | no row is a real tuple but by coincidence, and no bucket publishes everybody's quasi-identifiers |
//! | only rare values are generalized | buckets with too few different rows are | associations retained on 14 columns of Adult, k = 20: 0.99 instead of 0.38; NCP 0 instead of 0.28 |
//! | neighbours are looked for in blocks | in the whole table | time linear in the rows |
//!
//! **Departures** of both: nodes at the top of a hierarchy are in no association, they hold for every row. Columns are joined
//! where a bucket is too small for as many. A quasi-identifier beside the sensitive attribute leaves its column in the
//! buckets where rows that share its value have fewer than l sensitive values.
//!
//! **Source.** Wang, Yu and Zhang, "Anonymous algorithm based on local partition", Application
//! Research of Computers, 2018 (the ASG-LS paper); Li, Li, Zhang and Molloy, "Slicing: a new approach for privacy
//! preserving data publishing", 2012.

mod buckets;
mod check;
mod columns;
mod correlation;
mod distance;
mod finish;
mod groups;
mod method;
mod permutation;
mod promise;
mod rows;
mod vertices;

use std::ops::Range;

use rayon::prelude::*;

use self::buckets::Block;
use self::columns::{Chooser, Columns};
use self::correlation::{correlations, global_columns};
use self::distance::Distance;
use self::finish::{Finisher, Part};
use self::groups::Groups;
pub use self::method::Settings;
pub(super) use self::method::{ASG_LS, SLICING};
use self::promise::{Promise, needed_rows};
use self::rows::Rows;
use self::vertices::{Associations, associations};
use super::Job;
use super::blocks::{cut as cut_into_blocks, ranges};
use super::partition::{Cut, Split, partition_rows};
use crate::error::{Error, Result};
use crate::hierarchy::Axis;
use crate::method::Variant;
use crate::model::{Classes, GlobalShares, Model, Requirement, RowTable, Seed, with_rows};

/// Options of both slicing methods.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The sensitive attribute; its codes stand behind those of the quasi-identifiers.
    pub sensitive: &'a Axis,
    /// By quasi-identifier, the place of every code between 0 and 1 where it is a number or a date.
    pub positions: &'a [Option<Vec<f64>>],
    /// How diverse the sensitive values are.
    pub l: u32,
    /// The best version, or the paper's.
    pub variant: Variant,
    /// The most attributes of a column, and of an association.
    pub max_columns: usize,
    /// Whether the sensitive values of a bucket must come from at least two nodes below the top of their hierarchy.
    pub nodes: bool,
    /// Values that fewer than this share of the rows have are generalized.
    pub rare_below: f64,
    /// Whether kept attributes are published, in a column of their own.
    pub has_kept: bool,
    /// Draws rows and permutations.
    pub seed: &'a Seed,
}

/// How `asg_ls` finds associations and buckets.
#[derive(Debug, Clone, Copy)]
pub struct AsgOptions<'a> {
    /// The share of all rows that an association needs.
    pub min_support: f64,
    /// The share of the rows with all nodes but one that have the last one too.
    pub min_confidence: f64,
    /// The fewest attributes of a column that an association makes.
    pub min_columns: usize,
    /// How much each quasi-identifier, and behind them the sensitive attribute, counts; empty for all alike.
    pub weights: &'a [f64],
    /// Tables with more rows are cut into blocks of about this many first.
    pub block_rows: usize,
    /// The most words read to find associations.
    pub work: u64,
}

/// Rows of a block unless the caller says otherwise: few enough to find neighbours quickly, and hundreds of buckets'
/// worth. Other sizes have not been measured.
pub const DEFAULT_BLOCK_ROWS: usize = 4_096;

/// A sliced table. Its rows are in bucket order and hold, in each quasi-identifier, the code that is
/// published; the number of a row says whose sensitive value it publishes.
#[derive(Debug, Default)]
pub struct Sliced {
    /// The buckets.
    pub buckets: Classes,
    /// Rows behind the buckets, which fit nowhere.
    pub suppressed: usize,
    /// By bucket, the quasi-identifiers that publish what covers the bucket, a bit for each.
    pub covered: Vec<u64>,
    /// By position, that of the row of the bucket whose kept attributes are published; empty if none are.
    pub kept: Vec<u32>,
    /// By bucket, a number into `groups`.
    pub groups_of: Vec<u32>,
    /// Columns of buckets beside the sensitive attribute's, whose quasi-identifiers are those in none of them; a
    /// bit for each.
    pub groups: Vec<Vec<u64>>,
    /// Columns of all buckets together.
    pub columns: u64,
    /// Buckets in which fewer than two quasi-identifiers vary, so that there is nothing to separate.
    pub undivided: u64,
    /// Associations with the sensitive attribute, and without it.
    pub associations: (usize, usize),
    /// Sets of nodes that were not looked at because the work would have been too much.
    pub cut: u64,
}

/// The fewest groups that the quasi-identifiers can form, each of at most `most`.
pub fn least_groups(attributes: usize, most: usize) -> usize {
    attributes.div_ceil(most.max(1)).max(attributes.min(promise::LEAST_GROUPS))
}

/// Bytes that a slicing takes for each row beside the codes and their second table, roughly: bitmaps of
/// the nodes, the columns of a block and the places of the kept attributes.
pub fn row_bytes(attributes: usize) -> usize {
    8 * attributes + 16
}

/// Bytes that a row of a block takes while `asg_ls` works on the block: its codes as read, in canonical order and, by
/// attribute, among the free rows; its number, position, value and distance; its place among the nearest rows; and its
/// share of a bucket of two rows.
fn block_row_bytes(attributes: usize) -> usize {
    const PLACES: usize = 60;
    const OF_BUCKET: usize = 100;
    3 * size_of::<u32>() * attributes + PLACES + OF_BUCKET
}

/// Slices the rows by associations (method `asg_ls`).
///
/// Works on the current rayon pool. The outcome does not depend on the order of the rows or the number of
/// threads. The requirement's models are not asked: [`Options::l`] is kept.
pub fn asg_ls(
    rows: &mut RowTable,
    job: &Job,
    options: &Options,
    asg: &AsgOptions,
) -> Result<Sliced> {
    let groups = Groups::new(near(rows, job)?, options.max_columns);
    let promise = Promise::new(job.requirement.k, options, &groups);
    check_possible(rows, rows.len(), job, &promise)?;
    let left = without_surplus(rows, job, &promise);
    // If too few rows are left now, it is because of their values: another error than for a small table.
    check_possible(rows, left, job, &promise).map_err(|_| promise.unsatisfiable())?;
    let Associations { with_sensitive, others, items, cut } =
        associations(rows, left, job, options, asg)?;
    let blocks = blocks(rows, left, job, &promise, asg.block_rows)?;
    let table = &*rows;
    let distance = Distance::new(job.axes, options.positions);
    let (attributes, max_columns) = (job.axes.len(), options.max_columns);
    let chooser = Chooser { items: &items, others: &others, asg, max_columns, attributes };
    let finisher = Finisher::new(table, left, job, &promise);
    let columns = |rows: &Rows, vertex: Option<usize>| match vertex {
        _ if !promise.is_paper() => Columns::grouped(rows, &groups),
        Some(vertex) => {
            let harmless = |attributes| finisher.harmless(rows, attributes);
            finisher.sound(rows, chooser.columns(rows, &with_sensitive[vertex].set, harmless))
        }
        None => finisher.sound(rows, Columns::apart(attributes)),
    };
    let work = |(block, positions): (usize, Range<usize>)| -> Result<Part> {
        let mut part = Part::new(table, positions.len());
        let rows = Rows::in_canonical_order(table, positions, attributes, job.keys);
        let block = Block::new(&rows, job, &promise, &distance, block as u64);
        let (buckets, left_over) = block.run(&with_sensitive, &items)?;
        for mut bucket in buckets {
            bucket.rows.sort_unstable();
            let original = rows.picked(&bucket.rows);
            let columns = columns(&original, bucket.vertex);
            finisher.finish(&original, columns, bucket.number, &mut part)?;
        }
        part.add(&rows.picked(&left_over));
        Ok(part)
    };
    let parts = ranges(&blocks).into_par_iter().enumerate().map(work).collect();
    let mut sliced = finish::join(rows, left, attributes, parts)?;
    sliced.suppressed += rows.len() - left;
    sliced.associations = (with_sensitive.len(), others.len());
    sliced.cut = cut;
    Ok(sliced)
}

/// Slices the rows by one set of columns (method `slicing`): as many as said, or as fit the data best.
pub fn slicing(
    rows: &mut RowTable,
    job: &Job,
    options: &Options,
    columns: Option<usize>,
) -> Result<Sliced> {
    let paper = options.variant == Variant::Paper;
    let groups = match paper {
        true => Groups::new(near(rows, job)?, options.max_columns),
        // The sensitive attribute stands apart from all of them.
        false => Groups::fixed(
            near(rows, job)?,
            options.max_columns,
            columns.map(|all| all.saturating_sub(1)),
        ),
    };
    let promise = Promise::new(job.requirement.k, options, &groups);
    check_possible(rows, rows.len(), job, &promise)?;
    let attributes = job.axes.len();
    let counts = rows.counts(0..rows.len(), attributes, options.sensitive.codes);
    if !promise.holds_for(&counts) {
        return Err(promise.unsatisfiable());
    }
    let of_paper = match paper {
        true => {
            let axes: Vec<&Axis> = job.axes.iter().chain([options.sensitive]).collect();
            let near = correlations(rows, job, &axes)?;
            Some(global_columns(&near, columns, options.max_columns))
        }
        false => None,
    };
    let least = promise.least_rows(promise.meant_columns());
    let requirement = Requirement { k: least as u32, models: job.requirement.models.clone() };
    let cut = Job { requirement: &requirement, ..*job };
    let sizes =
        with_rows!(rows, rows => partition_rows(rows, &cut, Cut::Relaxed, Split::Widest, false))?;
    let sizes = finish::join_unsound(rows, &sizes, job, &promise, None)?;
    let table = &*rows;
    let finisher = Finisher::new(table, table.len(), job, &promise);
    let columns = |rows: &Rows| match &of_paper {
        Some(columns) => finisher.sound(rows, columns.clone()),
        None => Columns::grouped(rows, &groups),
    };
    // Buckets by the thousand, so that threads have enough to do with each piece.
    let buckets = ranges(&sizes);
    let work = |(piece, buckets): (usize, &[Range<usize>])| -> Result<Part> {
        let mut part = Part::new(table, buckets.iter().map(Range::len).sum());
        for (bucket, positions) in buckets.iter().enumerate() {
            let rows = Rows::in_canonical_order(table, positions.clone(), attributes, job.keys);
            let number = ((piece as u64) << 32) | bucket as u64;
            finisher.finish(&rows, columns(&rows), number, &mut part)?;
        }
        Ok(part)
    };
    let parts = buckets.par_chunks(1_024).enumerate().map(work).collect();
    let all = rows.len();
    finish::join(rows, all, attributes, parts)
}

/// How much any two quasi-identifiers go together.
fn near(rows: &RowTable, job: &Job) -> Result<Vec<Vec<f64>>> {
    correlations(rows, job, &job.axes.iter().collect::<Vec<&Axis>>())
}

/// Cuts the first rows into blocks and returns their sizes.
///
/// The more frequent a value is in a block, the larger are the buckets that keep the guarantee. So blocks are
/// first cut such that buckets of twice the least size do; where that leaves large blocks, such that
/// buckets of four times that size do, and so on.
fn blocks(
    table: &mut RowTable,
    rows: usize,
    job: &Job,
    promise: &Promise,
    block_rows: usize,
) -> Result<Vec<u32>> {
    let (options, columns) = (promise.options, promise.most_columns());
    let mut blocks = vec![rows as u32];
    let shares = (1..=MOST_DOUBLINGS).map(|doublings| {
        let bucket = promise.least_rows(columns) << doublings;
        Some(promise.cap(bucket, columns) as f64 / bucket as f64)
    });
    let shares: Vec<Option<f64>> = match options.variant {
        Variant::Best => shares.chain([None]).collect(),
        Variant::Paper => vec![None],
    };
    for share in shares {
        let models = match share {
            Some(alpha) => vec![Model::Share { column: 0, alpha }],
            None => job.requirement.models.clone(),
        };
        let requirement = Requirement { k: job.requirement.k, models };
        let of_blocks = Job { requirement: &requirement, ..*job };
        let global = GlobalShares::new(&requirement, job.sensitive);
        let mut smaller = Vec::with_capacity(blocks.len());
        for block in ranges(&blocks) {
            let most = table.counts(block.clone(), job.axes.len(), options.sensitive.codes);
            let most = f64::from(most.into_iter().max().unwrap_or(0));
            let holds = share.is_none_or(|share| most <= share * block.len() as f64);
            match block.len() > block_rows && holds {
                true => smaller.extend(with_rows!(table, rows => {
                    cut_into_blocks(&mut rows[block], &of_blocks, &global, block_rows)
                })?),
                false => smaller.push(block.len() as u32),
            }
        }
        blocks = smaller;
    }
    // A block in which no bucket is sound goes with the next one.
    finish::join_unsound(table, &blocks, job, promise, Some(columns))
}

/// How many times the size of buckets is doubled before blocks are cut under the models of the table alone.
const MOST_DOUBLINGS: u32 = 4;

/// Fails if the first rows of the table cannot be a single bucket.
fn check_possible(table: &RowTable, rows: usize, job: &Job, promise: &Promise) -> Result<()> {
    let options = promise.options;
    let least = promise.least_rows(promise.most_columns());
    if rows < job.requirement.k as usize {
        return Err(Error::TooFewRows { rows, k: job.requirement.k });
    }
    let counts = table.counts(0..rows, job.axes.len(), options.sensitive.codes);
    let different = counts.iter().filter(|count| **count > 0).count();
    // With l values that are all as frequent as they may be there is no row to spare.
    let wanted = options.l as usize + usize::from(options.variant == Variant::Best);
    if rows < least || different < wanted {
        return Err(promise.unsatisfiable());
    }
    Ok(())
}

/// Brings rows of values that are too frequent for any sound table behind the others, drawn by the seed, and
/// counts the others.
fn without_surplus(rows: &mut RowTable, job: &Job, promise: &Promise) -> usize {
    let options = promise.options;
    let sensitive = job.axes.len();
    let mut counts = rows.counts(0..rows.len(), sensitive, options.sensitive.codes);
    let mut left = rows.len();
    if options.variant == Variant::Paper {
        return left;
    }
    let mut surplus = vec![0u32; counts.len()];
    let (l, columns) = (options.l as usize, promise.most_columns());
    loop {
        let most = counts.iter().enumerate().max_by_key(|(_, count)| **count);
        let Some((value, most)) = most.map(|(value, most)| (value, *most as usize)) else { break };
        if left == 0 || promise.allows(most, left, columns) {
            break;
        }
        // As many as are too many, but not so many that another value becomes the most frequent one.
        let others = counts.iter().enumerate().filter(|(other, _)| *other != value);
        let next = others.map(|(_, count)| *count as usize).max().unwrap_or(0);
        let excess = (needed_rows(l * most, columns) - left).div_ceil(l.max(2) - 1);
        let gone = excess.min(most - next + 1).min(most).max(1);
        counts[value] -= gone as u32;
        surplus[value] += gone as u32;
        left -= gone;
    }
    if left == rows.len() {
        return left;
    }
    // Surplus rows in the order of their keyed hashes, so that it does not matter where they stood.
    let hash = |at: usize| {
        let key = job.keys.key(rows.id_at(at));
        (rows.keyed_hash(at, job.keys, *options.seed), key, at)
    };
    let mut order: Vec<(u64, (u64, u64), usize)> = (0..rows.len()).map(hash).collect();
    order.sort_unstable();
    let values = rows.codes(0..rows.len(), sensitive);
    let (mut kept, mut moved) = (0..left as u32, left as u32..);
    let mut targets = vec![0; rows.len()];
    for (.., at) in order {
        let surplus = &mut surplus[values[at] as usize];
        let is_surplus = *surplus > 0;
        *surplus -= u32::from(is_surplus);
        let next = if is_surplus { moved.next() } else { kept.next() };
        targets[at] = next.unwrap_or_default();
    }
    rows.permute(targets);
    left
}

#[cfg(test)]
mod tests;
