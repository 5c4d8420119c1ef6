//! From buckets to published rows.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::check::{Published, is_diverse};
use super::columns::{Columns, varying};
use super::permutation::permutations;
use super::promise::{Promise, all, bits};
use super::{Sliced, counts};
use crate::error::{Error, Result};
use crate::method::Job;
use crate::model::{Classes, Code, Row};

/// Rows that are published together, by their positions.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) rows: Vec<u32>,
    /// The association it was made for.
    pub(super) vertex: Option<usize>,
    /// Tells the bucket apart from all others of the table.
    pub(super) number: u64,
}

/// Finished buckets of one part of the table.
#[derive(Debug)]
pub(super) struct Part<C, const W: usize> {
    buckets: Vec<Finished>,
    rows: Vec<Row<C, W>>,
    /// By row, the place in its bucket of the one whose kept attributes it publishes; empty if there are
    /// none.
    kept: Vec<u32>,
    suppressed: Vec<Row<C, W>>,
}

#[derive(Debug)]
struct Finished {
    /// Orders buckets without revealing how they were made.
    key: u64,
    rows: u32,
    covered: u64,
    /// The columns beside the sensitive attribute's, ascending.
    groups: Vec<u64>,
    /// How many quasi-identifiers vary.
    varying: u32,
}

/// What every bucket is finished with.
pub(super) struct Finisher<'a> {
    job: &'a Job<'a>,
    promise: &'a Promise<'a>,
    /// By quasi-identifier and code, whether the value is rare; empty if no value is.
    rare: Vec<Vec<bool>>,
}

impl<'a> Finisher<'a> {
    pub(super) fn new<C: Code, const W: usize>(
        rows: &[Row<C, W>],
        job: &'a Job<'a>,
        promise: &'a Promise<'a>,
    ) -> Self {
        let options = promise.options;
        let least = options.rare_below * rows.len() as f64;
        let of_attribute = |(at, axis): (usize, &crate::hierarchy::Axis)| {
            counts(rows, at, axis.codes).into_iter().map(|count| f64::from(count) < least).collect()
        };
        let rare = match options.rare_below > 0.0 {
            true => job.axes.iter().enumerate().map(of_attribute).collect(),
            false => Vec::new(),
        };
        Self { job, promise, rare }
    }

    fn attributes(&self) -> usize {
        self.job.axes.len()
    }

    /// Chooses columns, generalizes, permutes and checks every bucket.
    pub(super) fn finish<C: Code, const W: usize>(
        &self,
        rows: &[Row<C, W>],
        buckets: Vec<Bucket>,
        left_over: Vec<u32>,
        choose: &dyn Fn(&[Row<C, W>], &Bucket) -> Columns,
    ) -> Result<Part<C, W>> {
        let mut part = Part {
            buckets: Vec::with_capacity(buckets.len()),
            rows: Vec::with_capacity(rows.len()),
            kept: Vec::new(),
            suppressed: left_over.into_iter().map(|at| rows[at as usize]).collect(),
        };
        for mut bucket in buckets {
            self.job.cancel.check()?;
            bucket.rows.sort_unstable();
            let original: Vec<Row<C, W>> =
                bucket.rows.iter().map(|at| rows[*at as usize]).collect();
            let columns = choose(&original, &bucket);
            let covered = self.covered(&original, &columns);
            let of_row =
                |row: &Row<C, W>| row.keyed_hash(self.job.keys, *self.promise.options.seed);
            // A sum: the rows of a bucket are in no order.
            let key = original.iter().fold(0u64, |sum, row| sum.wrapping_add(of_row(row)));
            let (published, kept) = self.permuted(&original, &columns, key ^ bucket.number)?;
            let bucket = Published {
                original: &original,
                published: &published,
                kept: &kept,
                columns: &columns,
                covered,
            };
            bucket.check(self.promise, self.job.requirement.k)?;
            let mut groups = columns.others;
            groups.sort_unstable();
            part.buckets.push(Finished {
                key,
                rows: published.len() as u32,
                covered,
                groups,
                varying: (varying(&original, self.attributes()) & !covered).count_ones(),
            });
            part.rows.extend(published);
            part.kept.extend(kept);
        }
        Ok(part)
    }

    /// Those of the attributes that may stand beside the sensitive one: all of them, or those that are the
    /// same in all rows and so tell nothing apart.
    pub(super) fn harmless<C: Code, const W: usize>(
        &self,
        rows: &[Row<C, W>],
        attributes: u64,
    ) -> u64 {
        let columns = self.promise.meant_columns();
        match is_diverse(rows, self.promise, attributes, columns) {
            true => attributes,
            false => constant(rows, attributes),
        }
    }

    /// The columns, changed until the bucket keeps its promise.
    pub(super) fn sound<C: Code, const W: usize>(
        &self,
        rows: &[Row<C, W>],
        mut columns: Columns,
    ) -> Columns {
        let harmless = self.harmless(rows, columns.with_sensitive);
        columns.cut_off(!harmless);
        if columns.others.is_empty() {
            columns.cut_off(u64::MAX);
        }
        let permuted = usize::from(self.promise.options.has_kept);
        loop {
            let count = 1 + columns.others.len() + permuted;
            let parted_by = columns.with_sensitive;
            let is_sound = count <= rows.len() && is_diverse(rows, self.promise, parted_by, count);
            if is_sound {
                return columns;
            }
            let constant = constant(rows, parted_by);
            if constant != parted_by {
                columns.cut_off(!constant);
            } else if columns.others.len() > 1 {
                columns.join_smallest();
            } else {
                // The check that follows says that this must not leave.
                return columns;
            }
        }
    }

    /// The quasi-identifiers that publish what covers the bucket.
    fn covered<C: Code, const W: usize>(&self, rows: &[Row<C, W>], columns: &Columns) -> u64 {
        let has_rare = |(at, rare): (usize, &Vec<bool>)| {
            rows.iter().any(|row| rare[row.codes[at].get() as usize]).then_some(at)
        };
        let rare = self.rare.iter().enumerate().filter_map(has_rare);
        let covered = rare.fold(0u64, |covered, at| covered | 1 << at);
        if covered == 0 && !self.promise.is_paper() {
            return 0;
        }
        let sensitive = self.attributes();
        let different = |column: u64, beside: Option<usize>| {
            let part = |row: &Row<C, W>| -> Vec<C> {
                bits(column & !covered).chain(beside).map(|at| row.codes[at]).collect()
            };
            let mut parts: Vec<Vec<C>> = rows.iter().map(part).collect();
            parts.sort_unstable();
            parts.dedup();
            parts.len() >= self.job.requirement.k as usize
        };
        let others = columns.others.iter().filter(|column| different(**column, None)).count();
        let with_sensitive = different(columns.with_sensitive, Some(sensitive));
        if others + usize::from(with_sensitive) < 2 { all(self.attributes()) } else { covered }
    }

    /// The rows with every column but the sensitive attribute's permuted, and whose kept attributes each
    /// publishes.
    pub(super) fn permuted<C: Code, const W: usize>(
        &self,
        original: &[Row<C, W>],
        columns: &Columns,
        number: u64,
    ) -> Result<(Vec<Row<C, W>>, Vec<u32>)> {
        let has_kept = self.promise.options.has_kept;
        let count = columns.others.len() + usize::from(has_kept);
        let mut permutations =
            permutations(self.promise.options.seed, number, original.len(), count)?;
        let kept = match has_kept {
            true => permutations.pop().unwrap_or_default(),
            false => Vec::new(),
        };
        let mut published = original.to_vec();
        for (column, permutation) in columns.others.iter().zip(&permutations) {
            for at in bits(*column) {
                for (row, from) in published.iter_mut().zip(permutation) {
                    row.codes[at] = original[*from as usize].codes[at];
                }
            }
        }
        Ok((published, kept))
    }
}

/// Those of the attributes that are the same in all rows.
fn constant<C: Code, const W: usize>(rows: &[Row<C, W>], attributes: u64) -> u64 {
    let is_constant =
        |at: &usize| rows.windows(2).all(|pair| pair[0].codes[*at] == pair[1].codes[*at]);
    bits(attributes).filter(is_constant).fold(0, |constant, at| constant | 1 << at)
}

/// All parts as one table, its buckets in an order that depends on nothing but their rows and the seed.
pub(super) fn join<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    parts: Vec<Result<Part<C, W>>>,
) -> Result<Sliced> {
    let parts = parts.into_iter().collect::<Result<Vec<Part<C, W>>>>()?;
    // By bucket: its key, its part, where its rows start there, and the bucket.
    let mut order = Vec::new();
    for part in &parts {
        let mut start = 0;
        for bucket in &part.buckets {
            order.push((bucket.key, start, part, bucket));
            start += bucket.rows as usize;
        }
    }
    // A stable sort: equal keys are buckets of equal rows.
    order.sort_by_key(|(key, ..)| *key);
    let mut sliced = Sliced::default();
    let mut numbers: HashMap<&[u64], u32, FixedState> = HashMap::default();
    let mut sizes = Vec::with_capacity(order.len());
    let mut to = 0;
    for (_, start, part, bucket) in order {
        let from = start..start + bucket.rows as usize;
        rows[to..to + from.len()].copy_from_slice(&part.rows[from.clone()]);
        let kept = part.kept.get(from.clone()).unwrap_or_default();
        sliced.kept.extend(kept.iter().map(|place| to as u32 + place));
        to += from.len();
        sliced.covered.push(bucket.covered);
        sliced.columns += 1 + bucket.groups.len() as u64;
        sliced.undivided += u64::from(bucket.varying < 2);
        let next = numbers.len() as u32;
        let number = *numbers.entry(bucket.groups.as_slice()).or_insert(next);
        if number == next {
            sliced.groups.push(bucket.groups.clone());
        }
        sliced.groups_of.push(number);
        sizes.push(bucket.rows);
    }
    for row in parts.iter().flat_map(|part| &part.suppressed) {
        rows[to] = *row;
        to += 1;
        sliced.suppressed += 1;
    }
    if to != rows.len() {
        return Err(Error::bug("a slicing lost or doubled a row"));
    }
    sliced.buckets = Classes::from_sizes(&sizes)?;
    Ok(sliced)
}

/// Joins groups of rows with the next ones until each is diverse enough for a bucket: for the given number of columns,
/// or else for as many as it would have.
pub(super) fn join_unsound<C: Code, const W: usize>(
    rows: &[Row<C, W>],
    sizes: &[u32],
    job: &Job,
    promise: &Promise,
    columns: Option<usize>,
) -> Result<Vec<u32>> {
    let mut open = Open::new(promise, columns);
    let mut joined: Vec<u32> = Vec::with_capacity(sizes.len());
    let mut start = 0;
    for size in sizes {
        job.cancel.check()?;
        let end = start + open.rows + *size as usize;
        open.add(&rows[end - *size as usize..end]);
        if open.is_sound() {
            joined.push(open.rows as u32);
            start = end;
            open.clear();
        }
    }
    while open.rows > 0 {
        let Some(last) = joined.pop() else { return Err(promise.unsatisfiable()) };
        open.add(&rows[start - last as usize..start]);
        start -= last as usize;
        if open.is_sound() {
            joined.push(open.rows as u32);
            open.clear();
        }
    }
    Ok(joined)
}

/// What is known of rows that are put together.
struct Open<'a> {
    promise: &'a Promise<'a>,
    /// In how many columns they must be sound, `None` for those they have.
    columns: Option<usize>,
    /// By sensitive value that is there, its rows.
    counts: HashMap<u32, u32, FixedState>,
    rows: usize,
    most: u32,
    /// The quasi-identifiers of the first row.
    first: Vec<u32>,
    /// The quasi-identifiers that vary.
    varying: u64,
}

impl<'a> Open<'a> {
    fn new(promise: &'a Promise<'a>, columns: Option<usize>) -> Self {
        let (counts, first) = (HashMap::default(), Vec::new());
        Self { promise, columns, counts, rows: 0, most: 0, first, varying: 0 }
    }

    fn add<C: Code, const W: usize>(&mut self, rows: &[Row<C, W>]) {
        let attributes = self.promise.groups.attributes();
        for row in rows {
            if self.first.is_empty() {
                self.first.extend(row.codes[..attributes].iter().map(|code| code.get()));
            }
            for (at, (code, first)) in row.codes.iter().zip(&self.first).enumerate() {
                self.varying |= u64::from(code.get() != *first) << at;
            }
            let count = self.counts.entry(row.codes[attributes].get()).or_default();
            *count += 1;
            self.most = self.most.max(*count);
        }
        self.rows += rows.len();
    }

    fn is_sound(&self) -> bool {
        let columns = self.columns.unwrap_or_else(|| self.promise.columns(self.varying));
        self.counts.len() >= self.promise.options.l as usize
            && self.promise.allows(self.most as usize, self.rows, columns)
            && self.promise.has_nodes(self.counts.keys().copied())
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.first.clear();
        (self.rows, self.most, self.varying) = (0, 0, 0);
    }
}
