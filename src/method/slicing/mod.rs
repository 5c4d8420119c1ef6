//! Slicing: buckets of rows whose columns are permuted apart (methods `asg_ls` and `slicing`).
//!
//! Values stay exact; what is broken is the link between groups of attributes. In this module an
//! *attribute* is a quasi-identifier or the sensitive attribute, and a *column* is a group of attributes
//! whose values stay together in a bucket.
//!
//! **Guarantee.** Every bucket has at least k rows, at least l different sensitive values and at least
//! two columns. Whoever knows all quasi-identifiers of the persons in a bucket, how columns are permuted and
//! the published bucket, but not the seed, names a person's sensitive value with a chance of at most 1/l
//! ([`Variant::Best`]). As for every model that looks at sensitive values, this is about the rows
//! of a bucket, not about why they were put together: where a near row is missing from a bucket, someone who
//! replays the method may conclude that its value did not fit. Of any two columns no row keeps both its own parts. Quasi-identifiers
//! outside rare values ([`Options::rare_below`]) are published as they are.
//!
//! Why l different values are not enough, and what is kept instead:
//!
//! - A value that most rows of a bucket have is named at once. So counts matter, not only
//!   how many values there are.
//! - A quasi-identifier in the sensitive attribute's column parts the bucket: only the rows that share
//!   the person's value there are left. So the condition is kept in every such part of a bucket, and
//!   a quasi-identifier that would break it leaves the column.
//! - No row keeps its own value, and everyone may know it: each column in which the person is found
//!   rules one sensitive value out. So a part of m rows in a bucket of c ≤ 4 columns has at most (m − c)/l
//!   rows of one value, (m − 1)/l where two columns are all there is; with more columns the parts must be
//!   larger still.
//!
//! **Steps of `asg_ls`** (association set generating, local slicing).
//!
//! 1. *Associations*: frequent nodes of the hierarchies, then sets of nodes of two, three, … attributes
//!    that at least `min_support` of the rows have. Most specific sets first: one in which the best
//!    rule has `min_confidence` is an association, and its generalizations are not looked at. Those with
//!    the sensitive attribute are ordered by importance: Σ weight · depth of the node / depth of the
//!    hierarchy + confidence.
//! 2. *Buckets*: for each association with the sensitive attribute, while free rows have it: a random such row
//!    and the rows nearest to it that keep the guarantee, those that have the association too first. Then the
//!    rows that have no association in the same way. Rows left over join the nearest bucket that stays
//!    sound; if there is none they are suppressed.
//! 3. *Columns* of a bucket: the association's attributes; then the other associations by how many rows
//!    of the bucket have them, each taking its attributes that are still free if they are at least
//!    `min_columns`; the rest is one column, or even parts if it is more than `max_columns`. A bucket
//!    without an association has two columns, quasi-identifiers and sensitive attribute.
//! 4. *Rare values*: an attribute of the bucket with a value that fewer than `rare_below` of all rows have is
//!    generalized to what covers the bucket. If then fewer than two columns have k different rows, all
//!    of the bucket is generalized.
//! 5. *Permutation*: the sensitive attribute's column stays, every other one is permuted by the seed.
//!
//! **`slicing`** (the baseline) has one set of columns for the whole table, found by correlation (mean
//! square contingency, k-medoids), and buckets by Mondrian. Steps 4 and 5 and the guarantee are the same.
//!
//! **Cost.** Associations are counted by bitmaps ([`crate::association`]). Nearest rows are looked for
//! inside blocks of `block_rows` rows, cut by the rounded partition: n/k · block_rows distances.
//!
//! **Departures.** The paper keeps l different values only, and in its own example a value is named with
//! a chance of 1/2 where l is 3; [`Variant::Paper`] does what it says. Nodes at the top of a hierarchy
//! are in no association, they hold for every row. Rows that have the association are taken before nearer
//! ones that do not. Columns are joined where a bucket is too small for as many. `slicing` cuts a
//! quasi-identifier off the sensitive attribute's column in the buckets where it would break the guarantee.
//!
//! **Source.** Wang, Yu and Zhang, "Anonymous algorithm based on local partition", Application
//! Research of Computers, 2018 (paper P3); Li, Li, Zhang and Molloy, "Slicing: a new approach for privacy
//! preserving data publishing", 2012.

mod buckets;
mod check;
mod columns;
mod correlation;
mod distance;
mod finish;
mod permutation;
mod vertices;

use rayon::prelude::*;

use self::buckets::Block;
use self::check::is_diverse;
use self::columns::Chooser;
use self::correlation::global_columns;
use self::distance::Distance;
use self::finish::{Bucket, Finisher};
use self::vertices::{Associations, associations};
use super::Job;
use super::blocks::{cut as cut_into_blocks, slices as slices_of};
use super::partition::{Cut, Split, partition_rows};
use crate::error::{Error, Result};
use crate::hierarchy::Axis;
use crate::method::Variant;
use crate::model::{
    Classes, Code, GlobalShares, Model, Requirement, Row, RowTable, Seed, with_rows,
};

/// What a slicing is told beside its job.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The sensitive attribute; its codes stand behind those of the quasi-identifiers.
    pub sensitive: &'a Axis,
    /// By quasi-identifier, the place of every code between 0 and 1 where it is a number or a date.
    pub positions: &'a [Option<Vec<f64>>],
    /// How diverse the sensitive values are.
    pub l: u32,
    /// What l means: at best a sensitive value is named with a chance of at most 1/l, in the paper a bucket
    /// has at least l different values, however often each of them occurs.
    pub variant: Variant,
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
    /// The most attributes of an association and of a column.
    pub max_columns: usize,
    /// The fewest attributes of a column that an association makes.
    pub min_columns: usize,
    /// How much each quasi-identifier, and behind them the sensitive attribute, counts; empty for all alike.
    pub weights: &'a [f64],
    /// Tables with more rows are cut into blocks of about this many first.
    pub block_rows: usize,
    /// The most words read to find associations.
    pub work: u64,
}

/// Blocks of so many rows unless a caller says otherwise: neighbours are found in little time, and there are
/// hundreds of buckets' worth of them. What other sizes keep has not been measured.
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
    /// Columns of all buckets together.
    pub columns: u64,
    /// Associations with the sensitive attribute, and without it.
    pub associations: (usize, usize),
    /// Sets of nodes that were not looked at because the work would have been too much.
    pub cut: u64,
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
    with_rows!(rows, rows => asg_ls_rows(rows, job, options, asg))
}

/// Slices the rows by one set of columns (method `slicing`): as many as said, or as fit the data best.
pub fn slicing(
    rows: &mut RowTable,
    job: &Job,
    options: &Options,
    columns: Option<usize>,
) -> Result<Sliced> {
    with_rows!(rows, rows => slicing_rows(rows, job, options, columns))
}

/// Bytes that a slicing takes for each row beside the codes, roughly: a second table of rows, bitmaps of
/// the nodes, the columns of a block and the places of the kept attributes.
pub fn row_bytes(attributes: usize) -> usize {
    8 * attributes + 16
}

impl Options<'_> {
    /// The fewest rows of a bucket.
    fn least_rows(&self, k: u32) -> usize {
        let diverse = match self.variant {
            Variant::Best => needed_rows(self.l as usize, self.least_columns(), 1),
            // As many as it has columns, so that none keeps its own parts of two of them.
            Variant::Paper => (self.l as usize).max(self.least_columns()),
        };
        diverse.max(k as usize)
    }

    /// The whole table does not keep what is asked.
    fn unsatisfiable(&self) -> Error {
        let l = self.l;
        let requirement = match self.variant {
            Variant::Best => format!(
                "l = {l}, a chance of at most 1/{l} to name a value (variant => 'paper' asks for \
                 different values only)"
            ),
            Variant::Paper => format!("l = {l} different values"),
        };
        Error::Unsatisfiable { requirement }
    }

    /// The fewest columns of a bucket.
    fn least_columns(&self) -> usize {
        2 + usize::from(self.has_kept)
    }

    /// Whether one of so many parts of a bucket of so many columns may have so many rows of one value.
    fn allows(&self, most: usize, rows: usize, columns: usize, parts: usize) -> bool {
        match self.variant {
            Variant::Best => needed_rows(self.l as usize * most, columns, parts) <= rows,
            Variant::Paper => true,
        }
    }

    /// The most rows of one value that so many rows may have, in the fewest columns.
    fn cap(&self, rows: usize) -> usize {
        (rows + 1 - needed_rows(1, self.least_columns(), 1)) / self.l as usize
    }
}

/// The fewest rows in which `weight`, l times the rows of one value, keeps the chance of 1/l.
///
/// Each column beside the sensitive attribute's rules one row out. The others are then equally likely where
/// nothing else parts them, in a bucket of two columns. Otherwise they are not quite: one row more makes up for it
/// in buckets of up to four columns (counted out in the tests), and twice the rows in larger ones.
fn needed_rows(weight: usize, columns: usize, parts: usize) -> usize {
    match columns {
        2 if parts == 1 => weight + 1,
        ..=4 => weight + columns,
        _ => 2 * weight + columns - 1,
    }
}

fn asg_ls_rows<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    job: &Job,
    options: &Options,
    asg: &AsgOptions,
) -> Result<Sliced> {
    check_possible(rows, job, options)?;
    let left = without_surplus(rows, job, options);
    let (rows, surplus) = rows.split_at_mut(left);
    check_possible(rows, job, options)?;
    let Associations { with_sensitive, others, items, cut } =
        associations(rows, job, options, asg)?;
    let blocks = blocks(rows, job, options, asg.block_rows)?;
    let distance = Distance::new(job.axes, options.positions);
    let chooser = Chooser { items: &items, others: &others, asg, attributes: job.axes.len() };
    let finisher = Finisher::new(rows, job, options);
    let work = |(block, rows): (usize, &mut [Row<C, W>])| {
        rows.sort_unstable_by(|a, b| a.canonical_order(b, job.keys));
        let block = Block::new(rows, job, options, &distance, block as u64);
        let (buckets, left_over) = block.run(&with_sensitive, &items)?;
        finisher.finish(rows, buckets, left_over, &|rows, bucket: &Bucket| match bucket.vertex {
            Some(vertex) => {
                let harmless = |attributes| finisher.harmless(rows, attributes);
                chooser.columns(rows, &with_sensitive[vertex].set, harmless)
            }
            None => columns::Columns::apart(job.axes.len()),
        })
    };
    let parts: Vec<Result<finish::Part<C, W>>> =
        slices_of(rows, &blocks).into_par_iter().enumerate().map(work).collect();
    let mut sliced = finish::join(rows, parts)?;
    sliced.suppressed += surplus.len();
    sliced.associations = (with_sensitive.len(), others.len());
    sliced.cut = cut;
    Ok(sliced)
}

fn slicing_rows<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    job: &Job,
    options: &Options,
    columns: Option<usize>,
) -> Result<Sliced> {
    check_possible(rows, job, options)?;
    if !is_diverse(rows, job.axes.len(), 0, options, options.least_columns()) {
        return Err(options.unsatisfiable());
    }
    let columns = global_columns(rows, job, options, columns)?;
    let least = options.least_rows(job.requirement.k);
    let requirement = Requirement { k: least as u32, models: job.requirement.models.clone() };
    let cut = Job { requirement: &requirement, ..*job };
    let sizes = partition_rows(rows, &cut, Cut::Relaxed, Split::Widest)?;
    let sizes = finish::join_unsound(rows, &sizes, job, options)?;
    let finisher = Finisher::new(rows, job, options);
    // Buckets by the thousand, so that threads have enough to do with each piece.
    let pieces: Vec<&[u32]> = sizes.chunks(1_024).collect();
    let rows_of = |piece: &&[u32]| piece.iter().sum::<u32>();
    let piece_sizes: Vec<u32> = pieces.iter().map(rows_of).collect();
    let work = |(piece, rows): (usize, &mut [Row<C, W>])| {
        let mut buckets = Vec::with_capacity(pieces[piece].len());
        let mut start = 0;
        for size in pieces[piece] {
            rows[start as usize..(start + size) as usize]
                .sort_unstable_by(|a, b| a.canonical_order(b, job.keys));
            let number = ((piece as u64) << 32) | buckets.len() as u64;
            buckets.push(Bucket { rows: (start..start + size).collect(), vertex: None, number });
            start += size;
        }
        finisher.finish(rows, buckets, Vec::new(), &|_, _| columns.clone())
    };
    let parts: Vec<Result<finish::Part<C, W>>> =
        slices_of(rows, &piece_sizes).into_par_iter().enumerate().map(work).collect();
    finish::join(rows, parts)
}

/// Cuts the rows into blocks and returns their sizes.
///
/// The more frequent a value is in a block, the larger are the buckets that keep the guarantee. So blocks are
/// first cut such that buckets of twice the least size do; where that leaves large blocks, such that
/// buckets of four times that size do, and so on.
fn blocks<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    job: &Job,
    options: &Options,
    block_rows: usize,
) -> Result<Vec<u32>> {
    let mut blocks = vec![rows.len() as u32];
    let shares = (1..=MOST_DOUBLINGS).map(|doublings| {
        let bucket = options.least_rows(job.requirement.k) << doublings;
        Some(options.cap(bucket) as f64 / bucket as f64)
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
        for (block, size) in slices_of(rows, &blocks).into_iter().zip(&blocks) {
            let most = counts(block, job.axes.len(), options.sensitive.codes);
            let most = f64::from(most.into_iter().max().unwrap_or(0));
            let holds = share.is_none_or(|share| most <= share * f64::from(*size));
            match *size as usize > block_rows && holds {
                true => smaller.extend(cut_into_blocks(block, &of_blocks, &global, block_rows)?),
                false => smaller.push(*size),
            }
        }
        blocks = smaller;
    }
    // A block in which no bucket is sound goes with the next one.
    finish::join_unsound(rows, &blocks, job, options)
}

/// How many times buckets may double before no more is asked of a block than of the table.
const MOST_DOUBLINGS: u32 = 4;

/// The rows of every code of an attribute.
fn counts<C: Code, const W: usize>(rows: &[Row<C, W>], attribute: usize, codes: u32) -> Vec<u32> {
    let mut counts = vec![0u32; codes as usize];
    rows.iter().for_each(|row| counts[row.codes[attribute].get() as usize] += 1);
    counts
}

fn check_possible<C: Code, const W: usize>(
    rows: &[Row<C, W>],
    job: &Job,
    options: &Options,
) -> Result<()> {
    let least = options.least_rows(job.requirement.k);
    if rows.len() < job.requirement.k as usize {
        return Err(Error::TooFewRows { rows: rows.len(), k: job.requirement.k });
    }
    let counts = counts(rows, job.axes.len(), options.sensitive.codes);
    let different = counts.iter().filter(|count| **count > 0).count();
    // With l values that are all as frequent as they may be there is no row to spare.
    let wanted = options.l as usize + usize::from(options.variant == Variant::Best);
    if rows.len() < least || different < wanted {
        return Err(options.unsatisfiable());
    }
    Ok(())
}

/// Brings rows of values that are too frequent for any sound table behind the others, drawn by the seed, and
/// counts the others.
fn without_surplus<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    job: &Job,
    options: &Options,
) -> usize {
    let sensitive = job.axes.len();
    let mut counts = counts(rows, sensitive, options.sensitive.codes);
    let mut left = rows.len();
    if options.variant == Variant::Paper {
        return left;
    }
    let mut surplus = vec![0u32; counts.len()];
    let (l, columns) = (options.l as usize, options.least_columns());
    loop {
        let most = counts.iter().enumerate().max_by_key(|(_, count)| **count);
        let Some((value, most)) = most.map(|(value, most)| (value, *most as usize)) else { break };
        if left == 0 || options.allows(most, left, columns, 1) {
            break;
        }
        // As many as are too many, but not so many that another value becomes the most frequent one.
        let others = counts.iter().enumerate().filter(|(other, _)| *other != value);
        let next = others.map(|(_, count)| *count as usize).max().unwrap_or(0);
        let excess = (needed_rows(l * most, columns, 1) - left).div_ceil(l.max(2) - 1);
        let gone = excess.min(most - next + 1).min(most).max(1);
        counts[value] -= gone as u32;
        surplus[value] += gone as u32;
        left -= gone;
    }
    if left == rows.len() {
        return left;
    }
    // Surplus rows in the order of their keyed hashes, so that it does not matter where they stood.
    rows.sort_unstable_by(|a, b| {
        let key = |row: &Row<C, W>| row.keyed_hash(job.keys, *options.seed);
        key(a).cmp(&key(b)).then_with(|| a.canonical_order(b, job.keys))
    });
    let (mut kept, mut moved) = (Vec::with_capacity(left), Vec::new());
    for row in rows.iter() {
        let surplus = &mut surplus[row.codes[sensitive].get() as usize];
        match *surplus > 0 {
            true => {
                *surplus -= 1;
                moved.push(*row);
            }
            false => kept.push(*row),
        }
    }
    rows[..left].copy_from_slice(&kept);
    rows[left..].copy_from_slice(&moved);
    left
}

#[cfg(test)]
mod tests;
