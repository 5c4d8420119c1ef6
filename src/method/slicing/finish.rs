//! From buckets to published rows.

use std::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Sliced;
use super::check::{Published, is_diverse};
use super::columns::{Columns, varying};
use super::permutation::permutations;
use super::promise::{Promise, all, bits};
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::method::Job;
use crate::model::{Classes, RowTable};

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
pub(super) struct Part {
    buckets: Vec<Finished>,
    /// The published rows, bucket by bucket, and behind them the suppressed ones. In the shape of the table: all
    /// parts together are as large as it.
    rows: RowTable,
    /// Rows that are there so far.
    filled: usize,
    /// By row, the place in its bucket of the one whose kept attributes it publishes; empty if there are
    /// none.
    kept: Vec<u32>,
}

impl Part {
    /// Room for `rows` rows of the table.
    pub(super) fn new(table: &RowTable, rows: usize) -> Self {
        Self { buckets: Vec::new(), rows: table.zeroed_like(rows), filled: 0, kept: Vec::new() }
    }

    /// Adds rows behind the others; behind the last bucket they are suppressed.
    pub(super) fn add(&mut self, rows: &Rows) {
        for (codes, id) in rows.iter().zip(&rows.ids) {
            self.rows.write(self.filled, codes, *id);
            self.filled += 1;
        }
    }
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
    table: &'a RowTable,
    job: &'a Job<'a>,
    promise: &'a Promise<'a>,
    /// By quasi-identifier and code, whether the value is rare; empty if no value is.
    rare: Vec<Vec<bool>>,
}

impl<'a> Finisher<'a> {
    /// `rows` is the number of rows of the table that go into buckets.
    pub(super) fn new(
        table: &'a RowTable,
        rows: usize,
        job: &'a Job<'a>,
        promise: &'a Promise<'a>,
    ) -> Self {
        let options = promise.options;
        let least = options.rare_below * rows as f64;
        let of_attribute = |(at, axis): (usize, &crate::hierarchy::Axis)| {
            let counts = table.counts(0..rows, at, axis.codes);
            counts.into_iter().map(|count| f64::from(count) < least).collect()
        };
        let rare = match options.rare_below > 0.0 {
            true => job.axes.iter().enumerate().map(of_attribute).collect(),
            false => Vec::new(),
        };
        Self { table, job, promise, rare }
    }

    fn attributes(&self) -> usize {
        self.job.axes.len()
    }

    /// Generalizes, permutes and checks a bucket, and adds it to its part. `number` tells it apart from all others.
    pub(super) fn finish(
        &self,
        original: &Rows,
        columns: Columns,
        number: u64,
        part: &mut Part,
    ) -> Result<()> {
        self.job.cancel.check()?;
        let covered = self.covered(original, &columns);
        let hash = |at: &u32| {
            self.table.keyed_hash(*at as usize, self.job.keys, *self.promise.options.seed)
        };
        // A sum: the rows of a bucket are in no order.
        let key = original.positions.iter().map(hash).fold(0, u64::wrapping_add);
        let (published, kept) = self.permuted(original, &columns, key ^ number)?;
        let bucket =
            Published { original, published: &published, kept: &kept, columns: &columns, covered };
        bucket.check(self.promise, self.job.requirement.k)?;
        let mut groups = columns.others;
        groups.sort_unstable();
        part.buckets.push(Finished {
            key,
            rows: published.len() as u32,
            covered,
            groups,
            varying: (varying(original, self.attributes()) & !covered).count_ones(),
        });
        part.add(&published);
        part.kept.extend(kept);
        Ok(())
    }

    /// Those of the attributes that may stand beside the sensitive one: all of them, or those that are the
    /// same in all rows and so tell nothing apart.
    pub(super) fn harmless(&self, rows: &Rows, attributes: u64) -> u64 {
        let columns = self.promise.meant_columns();
        match is_diverse(rows, self.promise, attributes, columns) {
            true => attributes,
            false => rows.constant(bits(attributes)),
        }
    }

    /// The columns, changed until the bucket keeps its promise.
    pub(super) fn sound(&self, rows: &Rows, mut columns: Columns) -> Columns {
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
            let constant = rows.constant(bits(parted_by));
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
    fn covered(&self, rows: &Rows, columns: &Columns) -> u64 {
        let has_rare = |(at, rare): (usize, &Vec<bool>)| {
            rows.column(at).any(|code| rare[code as usize]).then_some(at)
        };
        let rare = self.rare.iter().enumerate().filter_map(has_rare);
        let covered = rare.fold(0u64, |covered, at| covered | 1 << at);
        if covered == 0 && !self.promise.is_paper() {
            return 0;
        }
        let sensitive = self.attributes();
        let different = |column: u64, beside: Option<usize>| {
            let part = |row: &[u32]| -> Vec<u32> {
                bits(column & !covered).chain(beside).map(|at| row[at]).collect()
            };
            let mut parts: Vec<Vec<u32>> = rows.iter().map(part).collect();
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
    fn permuted(
        &self,
        original: &Rows,
        columns: &Columns,
        number: u64,
    ) -> Result<(Rows, Vec<u32>)> {
        let has_kept = self.promise.options.has_kept;
        let count = columns.others.len() + usize::from(has_kept);
        let mut permutations =
            permutations(self.promise.options.seed, number, original.len(), count)?;
        let kept = match has_kept {
            true => permutations.pop().unwrap_or_default(),
            false => Vec::new(),
        };
        let mut published = original.clone();
        for (column, permutation) in columns.others.iter().zip(&permutations) {
            published.permute(bits(*column), permutation);
        }
        Ok((published, kept))
    }
}

/// All parts as one table, its buckets in an order that depends on nothing but their rows and the seed. The parts
/// have the first `rows` rows of the table.
pub(super) fn join(
    table: &mut RowTable,
    rows: usize,
    attributes: usize,
    parts: Vec<Result<Part>>,
) -> Result<Sliced> {
    let parts = parts.into_iter().collect::<Result<Vec<Part>>>()?;
    if parts.iter().map(|part| part.filled).sum::<usize>() != rows {
        return Err(Error::bug("a slicing lost or doubled a row"));
    }
    let mut codes = vec![0; attributes + 1];
    let mut to = 0;
    let mut copy = |part: &Part, from: Range<usize>| {
        for from in from {
            let id = part.rows.read(from, &mut codes);
            table.write(to, &codes, id);
            to += 1;
        }
        to
    };
    let mut sliced = Sliced::default();
    let mut numbers: HashMap<&[u64], u32, FixedState> = HashMap::default();
    let buckets = in_order(&parts);
    let mut sizes = Vec::with_capacity(buckets.len());
    for (part, start, bucket) in buckets {
        let from = start..start + bucket.rows as usize;
        let start = copy(part, from.clone()) as u32 - bucket.rows;
        let kept = part.kept.get(from).unwrap_or_default();
        sliced.kept.extend(kept.iter().map(|place| start + place));
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
    for part in &parts {
        let published = part.buckets.iter().map(|bucket| bucket.rows as usize).sum();
        copy(part, published..part.filled);
        sliced.suppressed += part.filled - published;
    }
    sliced.buckets = Classes::from_sizes(&sizes)?;
    Ok(sliced)
}

/// The buckets of all parts in the order of their keys, each with its part and where its rows start there.
fn in_order(parts: &[Part]) -> Vec<(&Part, usize, &Finished)> {
    let mut order = Vec::new();
    for part in parts {
        let mut start = 0;
        for bucket in &part.buckets {
            order.push((part, start, bucket));
            start += bucket.rows as usize;
        }
    }
    // A stable sort: equal keys are buckets of equal rows.
    order.sort_by_key(|(.., bucket)| bucket.key);
    order
}

/// Joins groups of rows with the next ones until each is diverse enough for a bucket: for the given number of columns,
/// or else for as many as it would have.
pub(super) fn join_unsound(
    rows: &RowTable,
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
        open.add(rows, end - *size as usize..end);
        if open.is_sound() {
            joined.push(open.rows as u32);
            start = end;
            open.clear();
        }
    }
    while open.rows > 0 {
        let Some(last) = joined.pop() else { return Err(promise.unsatisfiable()) };
        open.add(rows, start - last as usize..start);
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

    fn add(&mut self, rows: &RowTable, positions: Range<usize>) {
        let attributes = self.promise.groups.attributes();
        let mut codes = vec![0; attributes + 1];
        self.rows += positions.len();
        for position in positions {
            rows.read(position, &mut codes);
            if self.first.is_empty() {
                self.first.extend(&codes[..attributes]);
            }
            for (at, (code, first)) in codes.iter().zip(&self.first).enumerate() {
                self.varying |= u64::from(code != first) << at;
            }
            let count = self.counts.entry(codes[attributes]).or_default();
            *count += 1;
            self.most = self.most.max(*count);
        }
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
