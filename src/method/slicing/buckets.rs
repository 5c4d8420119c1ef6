//! Buckets of the rows of one block: a random row and the rows nearest to it.

use std::hash::Hasher;

use super::distance::Distance;
use super::finish::Bucket;
use super::vertices::{Node, Vertex};
use super::{Options, Variant};
use crate::error::Result;
use crate::method::Job;
use crate::model::{Code, Row};

/// The free rows of a block, attribute by attribute, in no particular order.
pub(super) struct Block<'a> {
    options: &'a Options<'a>,
    job: &'a Job<'a>,
    distance: &'a Distance<'a>,
    block: u64,
    /// The fewest rows of a bucket.
    least: usize,
    /// By attribute (the sensitive one last), the codes of the free rows.
    codes: Vec<Vec<u32>>,
    /// By free row, its position in the block.
    positions: Vec<u32>,
    /// By free row, its sensitive value, numbered within the block.
    values: Vec<u32>,
    /// By sensitive value, its free rows.
    free_of: Vec<u32>,
    buckets: Vec<Bucket>,
    /// By bucket, the codes of the row it started with.
    centers: Vec<Vec<u32>>,
    /// By bucket, its sensitive values in ascending order with their rows.
    counts: Vec<Vec<(u32, u32)>>,
}

impl<'a> Block<'a> {
    /// The rows of a block, in canonical order.
    pub(super) fn new<C: Code, const W: usize>(
        rows: &[Row<C, W>],
        job: &'a Job<'a>,
        options: &'a Options<'a>,
        distance: &'a Distance<'a>,
        block: u64,
    ) -> Self {
        let sensitive = job.axes.len();
        let attribute = |at: usize| rows.iter().map(|row| row.codes[at].get()).collect();
        let codes: Vec<Vec<u32>> = (0..=sensitive).map(attribute).collect();
        let mut present = codes[sensitive].clone();
        present.sort_unstable();
        present.dedup();
        let number = |code: &u32| present.partition_point(|other| other < code) as u32;
        let values: Vec<u32> = codes[sensitive].iter().map(number).collect();
        let mut free_of = vec![0; present.len()];
        values.iter().for_each(|value| free_of[*value as usize] += 1);
        Self {
            options,
            job,
            distance,
            block,
            least: options.least_rows(job.requirement.k),
            codes,
            positions: (0..rows.len() as u32).collect(),
            values,
            free_of,
            buckets: Vec::new(),
            centers: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Makes buckets for one association after the other, then of the rows that have none. Returns them
    /// and the positions of the rows that fit nowhere.
    pub(super) fn run(
        mut self,
        associations: &[Vertex],
        items: &[Node],
    ) -> Result<(Vec<Bucket>, Vec<u32>)> {
        for (number, vertex) in associations.iter().enumerate() {
            let nodes: Vec<Node> =
                vertex.set.items().iter().map(|item| items[*item as usize]).collect();
            while self.start(Some(number), &nodes)? {}
            if self.positions.len() < self.least {
                break;
            }
        }
        while self.start(None, &[])? {}
        let left_over = self.join_left_over()?;
        Ok((self.buckets, left_over))
    }

    fn has(&self, nodes: &[Node], at: usize) -> bool {
        nodes.iter().all(|node| node.covers(self.codes[node.attribute][at]))
    }

    /// Makes one bucket around a random row that has all the nodes, if there is such a row and a bucket
    /// can be made.
    fn start(&mut self, vertex: Option<usize>, nodes: &[Node]) -> Result<bool> {
        self.job.cancel.check()?;
        if Pick::new(self).is_none() {
            return Ok(false);
        }
        let matching: Vec<u32> = (0..self.positions.len())
            .filter(|at| self.has(nodes, *at))
            .map(|at| at as u32)
            .collect();
        if matching.is_empty() {
            return Ok(false);
        }
        let first = matching[(self.draw() % matching.len() as u64) as usize];
        let Some(mut chosen) = self.nearest(first as usize, nodes) else { return Ok(false) };
        let center = self.codes.iter().map(|codes| codes[first as usize]).collect();
        let rows = chosen.iter().map(|at| self.positions[*at]).collect();
        let number = (self.block << 32) | self.buckets.len() as u64;
        let mut values: Vec<u32> = chosen.iter().map(|at| self.values[*at]).collect();
        values.sort_unstable();
        let counts = values.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32));
        self.counts.push(counts.collect());
        values.iter().for_each(|value| self.free_of[*value as usize] -= 1);
        self.buckets.push(Bucket { rows, vertex, number });
        self.centers.push(center);
        chosen.sort_unstable_by(|a, b| b.cmp(a));
        for at in chosen {
            self.positions.swap_remove(at);
            self.values.swap_remove(at);
            self.codes.iter_mut().for_each(|codes| {
                codes.swap_remove(at);
            });
        }
        Ok(true)
    }

    /// A secret number, another one for every bucket.
    fn draw(&self) -> u64 {
        let mut hasher = self.options.seed.hasher();
        // Told apart from every other hash under this seed.
        hasher.write_u8(2);
        hasher.write_u64(self.block);
        hasher.write_u64(self.buckets.len() as u64);
        hasher.finish()
    }

    fn count(&mut self, bucket: usize, value: u32) {
        let counts = &mut self.counts[bucket];
        match counts.binary_search_by_key(&value, |(other, _)| *other) {
            Ok(at) => counts[at].1 += 1,
            Err(at) => counts.insert(at, (value, 1)),
        }
    }

    /// The free row and those nearest to it that make a sound bucket, `None` if there are none. Rows that
    /// have the nodes come before those that do not.
    fn nearest(&self, first: usize, nodes: &[Node]) -> Option<Vec<usize>> {
        let mut pick = Pick::new(self)?;
        pick.take(first, self.values[first]);
        let far = self.distances(first);
        let unlike = |at: usize| u64::from(!self.has(nodes, at));
        let key = |at: usize| {
            // Ties go to the row that stands first in canonical order.
            let distance = (unlike(at) << 31) + u64::from(far[at]);
            (distance << 32 | u64::from(self.positions[at]), at)
        };
        let mut order: Vec<(u64, usize)> =
            (0..self.positions.len()).filter(|at| *at != first).map(key).collect();
        // What the other rows could not do without goes first.
        if pick.needs_some() {
            order.sort_unstable();
            for (_, at) in &order {
                if pick.is_needed(self.values[*at]) {
                    pick.take(*at, self.values[*at]);
                }
            }
        }
        let mut start = 0;
        while start < order.len() && !pick.is_full() {
            // Only as many as are likely to be looked at are brought into order.
            let end = (start + 4 * pick.wanted).min(order.len());
            if end < order.len() {
                order[start..].select_nth_unstable(end - start);
            }
            order[start..end].sort_unstable();
            for (_, at) in &order[start..end] {
                pick.offer(*at, self.values[*at]);
            }
            start = end;
        }
        pick.is_full().then_some(pick.chosen)
    }

    /// The fewest rows of a bucket that takes its share of the most frequent value, so that the free rows
    /// left behind can make sound buckets too, and the most rows of one value in it.
    fn wanted_rows(&self) -> Option<(usize, u32)> {
        let (options, free) = (self.options, self.positions.len());
        if free < self.least {
            return None;
        }
        if options.variant == Variant::Paper {
            return Some((self.least, self.least as u32));
        }
        let most = self.free_of.iter().copied().max().unwrap_or(0) as usize;
        let fits = |rows: &usize| options.cap(*rows) * free >= most * rows;
        (self.least..=free).find(fits).map(|rows| (rows, options.cap(rows) as u32))
    }

    /// The distance of every free row to one of them.
    fn distances(&self, from: usize) -> Vec<u32> {
        let mut sums = vec![0u32; self.positions.len()];
        let mut table = Vec::new();
        for attribute in 0..self.distance.attributes() {
            let codes = &self.codes[attribute];
            let own = codes[from];
            let to = |code: u32| self.distance.between(attribute, own, code);
            // A table of all codes, unless there are more of them than rows to look up.
            if self.distance.codes(attribute) <= codes.len() {
                table.clear();
                table.extend((0..self.distance.codes(attribute) as u32).map(to));
                sums.iter_mut().zip(codes).for_each(|(sum, code)| *sum += table[*code as usize]);
            } else {
                sums.iter_mut().zip(codes).for_each(|(sum, code)| *sum += to(*code));
            }
        }
        sums
    }

    /// Gives the free rows to the nearest buckets that stay sound, again and again: a row of one value
    /// makes room for another.
    fn join_left_over(&mut self) -> Result<Vec<u32>> {
        let mut open: Vec<usize> = (0..self.positions.len()).collect();
        open.sort_unstable_by_key(|at| self.positions[*at]);
        loop {
            let before = open.len();
            let mut still_open = Vec::new();
            for at in open {
                self.job.cancel.check()?;
                match self.nearest_bucket(at) {
                    Some(bucket) => {
                        self.buckets[bucket].rows.push(self.positions[at]);
                        self.count(bucket, self.values[at]);
                    }
                    None => still_open.push(at),
                }
            }
            open = still_open;
            if open.is_empty() || open.len() == before {
                return Ok(open.into_iter().map(|at| self.positions[at]).collect());
            }
        }
    }

    fn nearest_bucket(&self, at: usize) -> Option<usize> {
        let value = self.values[at];
        let takes = |bucket: &usize| {
            let counts = &self.counts[*bucket];
            let own = counts.binary_search_by_key(&value, |(other, _)| *other);
            let (rows, own) = (self.buckets[*bucket].rows.len(), own.map_or(0, |at| counts[at].1));
            self.allows(own as usize + 1, rows + 1)
        };
        let far = |bucket: &usize| {
            let center = &self.centers[*bucket];
            let attributes = 0..self.distance.attributes();
            let of = |at_attribute: usize| {
                let own = self.codes[at_attribute][at];
                u64::from(self.distance.between(at_attribute, own, center[at_attribute]))
            };
            (attributes.map(of).sum::<u64>(), *bucket)
        };
        (0..self.buckets.len()).filter(takes).min_by_key(far)
    }

    fn allows(&self, most: usize, rows: usize) -> bool {
        self.options.allows(most, rows, self.options.least_columns(), 1)
    }
}

/// Rows chosen for a bucket.
struct Pick<'b> {
    block: &'b Block<'b>,
    /// How many rows the bucket shall have.
    wanted: usize,
    chosen: Vec<usize>,
    /// By free row, whether it is chosen.
    is_chosen: Vec<bool>,
    /// By value, the chosen rows.
    counts: Vec<u32>,
    /// How many values the chosen rows have.
    different: usize,
    /// The most rows of one value.
    cap: u32,
    /// By value, the rows without which the other free rows could make no sound buckets.
    needed: Vec<(u32, u32)>,
}

impl<'b> Pick<'b> {
    /// `None` if the free rows make no sound bucket.
    fn new(block: &'b Block<'b>) -> Option<Self> {
        let l = block.options.l as usize;
        let free = &block.free_of;
        let (wanted, cap) = block.wanted_rows()?;
        let others = block.positions.len() - wanted;
        let room: u64 = free.iter().map(|rows| u64::from(*rows.min(&cap))).sum();
        let different = free.iter().filter(|rows| **rows > 0).count();
        if room < wanted as u64 || different < l {
            return None;
        }
        let needed = |(value, rows): (usize, &u32)| {
            let needed = rows.saturating_sub((others / l) as u32).min(cap);
            (needed > 0).then_some((value as u32, needed))
        };
        let needed = match block.options.variant {
            Variant::Best => free.iter().enumerate().filter_map(needed).collect(),
            Variant::Paper => Vec::new(),
        };
        let chosen = Vec::with_capacity(wanted);
        let is_chosen = vec![false; block.positions.len()];
        let counts = vec![0; free.len()];
        Some(Self { block, wanted, chosen, is_chosen, counts, different: 0, cap, needed })
    }

    fn is_full(&self) -> bool {
        self.chosen.len() >= self.wanted
    }

    fn of(&self, value: u32) -> u32 {
        self.counts[value as usize]
    }

    fn take(&mut self, at: usize, value: u32) {
        self.chosen.push(at);
        self.is_chosen[at] = true;
        self.counts[value as usize] += 1;
        self.different += usize::from(self.counts[value as usize] == 1);
    }

    fn needs_some(&self) -> bool {
        !self.needed.is_empty()
    }

    fn is_needed(&self, value: u32) -> bool {
        let needed = self.needed.iter().find(|(other, _)| *other == value);
        !self.is_full() && needed.is_some_and(|(_, rows)| self.of(value) < *rows)
    }

    /// Whether the rows left behind, if they can make a bucket at all, still have l different values without
    /// another row of this one.
    fn leaves_enough(&self, value: u32) -> bool {
        let free = &self.block.free_of;
        if self.block.positions.len() < self.wanted + self.block.least {
            return true;
        }
        if free[value as usize] - self.of(value) > 1 {
            return true;
        }
        let left = free.iter().zip(&self.counts).filter(|(free, chosen)| free > chosen).count();
        left > self.block.options.l as usize
    }

    /// Takes the row if the bucket can still become sound with it.
    fn offer(&mut self, at: usize, value: u32) {
        if self.is_full() || self.is_chosen[at] {
            return;
        }
        let own = self.of(value);
        let missing = (self.block.options.l as usize).saturating_sub(self.different);
        let places = self.wanted - self.chosen.len();
        let fits = match self.block.options.variant {
            Variant::Best => own < self.cap,
            Variant::Paper => (own == 0 || places > missing) && self.leaves_enough(value),
        };
        if fits {
            self.take(at, value);
        }
    }
}
