//! Buckets of the rows of one block: a random row and the rows nearest to it.

use std::hash::Hasher;

use super::distance::Distance;
use super::finish::Bucket;
use super::promise::Promise;
use super::rows::Rows;
use super::vertices::{Node, Vertex};
use crate::error::Result;
use crate::method::Job;

/// The free rows of a block, attribute by attribute, in no particular order.
pub(super) struct Block<'a> {
    promise: &'a Promise<'a>,
    job: &'a Job<'a>,
    distance: &'a Distance<'a>,
    block: u64,
    /// By attribute (the sensitive one last), the codes of the free rows.
    codes: Vec<Vec<u32>>,
    /// By free row, its position in the block.
    positions: Vec<u32>,
    /// By free row, its sensitive value, numbered within the block.
    values: Vec<u32>,
    /// By sensitive value, its free rows.
    free_of: Vec<u32>,
    /// By sensitive value, its node; empty where values need not be of different nodes.
    node_of: Vec<u32>,
    /// Whether the free rows make no bucket any more.
    is_done: bool,
    buckets: Vec<Bucket>,
    /// By bucket, the codes of the row it started with.
    centers: Vec<Vec<u32>>,
    /// By bucket, the quasi-identifiers that vary in it.
    varying: Vec<u64>,
    /// By bucket, its sensitive values in ascending order with their rows.
    counts: Vec<Vec<(u32, u32)>>,
}

impl<'a> Block<'a> {
    /// The rows of a block, in canonical order.
    pub(super) fn new(
        rows: &Rows,
        job: &'a Job<'a>,
        promise: &'a Promise<'a>,
        distance: &'a Distance<'a>,
        block: u64,
    ) -> Self {
        let sensitive = job.axes.len();
        let attribute = |at: usize| rows.column(at).collect();
        let codes: Vec<Vec<u32>> = (0..=sensitive).map(attribute).collect();
        let mut present = codes[sensitive].clone();
        present.sort_unstable();
        present.dedup();
        let number = |code: &u32| present.partition_point(|other| other < code) as u32;
        let values: Vec<u32> = codes[sensitive].iter().map(number).collect();
        let mut free_of = vec![0; present.len()];
        values.iter().for_each(|value| free_of[*value as usize] += 1);
        Self {
            promise,
            job,
            distance,
            block,
            codes,
            positions: (0..rows.len() as u32).collect(),
            values,
            free_of,
            node_of: present.iter().filter_map(|code| promise.node(*code)).collect(),
            is_done: false,
            buckets: Vec::new(),
            centers: Vec::new(),
            varying: Vec::new(),
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
            if self.is_done {
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
        self.is_done |= Pick::new(self, self.promise.meant_columns()).is_none();
        if self.is_done {
            return Ok(false);
        }
        let matching: Vec<u32> = (0..self.positions.len())
            .filter(|at| self.has(nodes, *at))
            .map(|at| at as u32)
            .collect();
        if matching.is_empty() {
            return Ok(false);
        }
        let first = matching[(self.draw() % matching.len() as u64) as usize] as usize;
        match self.nearest(first) {
            Some(chosen) => self.make(vertex, first, chosen),
            None => self.is_done = true,
        }
        Ok(!self.is_done)
    }

    /// Makes a bucket of chosen rows, which are free no more.
    fn make(&mut self, vertex: Option<usize>, first: usize, mut chosen: Vec<usize>) {
        let center = self.codes.iter().map(|codes| codes[first]).collect();
        let rows = chosen.iter().map(|at| self.positions[*at]).collect();
        let number = (self.block << 32) | self.buckets.len() as u64;
        self.varying.push(self.varying(first, &chosen));
        let counts = self.counts_of(&chosen);
        counts.iter().for_each(|(value, rows)| self.free_of[*value as usize] -= rows);
        self.counts.push(counts);
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
    }

    /// The sensitive values of free rows, ascending, with their rows.
    fn counts_of(&self, chosen: &[usize]) -> Vec<(u32, u32)> {
        let mut values: Vec<u32> = chosen.iter().map(|at| self.values[*at]).collect();
        values.sort_unstable();
        values.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect()
    }

    /// The quasi-identifiers in which free rows differ.
    fn varying(&self, first: usize, chosen: &[usize]) -> u64 {
        let differs = |codes: &[u32]| chosen.iter().any(|at| codes[*at] != codes[first]);
        let attributes = 0..self.distance.attributes();
        attributes.filter(|at| differs(&self.codes[*at])).fold(0, |varying, at| varying | 1 << at)
    }

    /// A secret number, another one for every bucket.
    fn draw(&self) -> u64 {
        let mut hasher = self.promise.options.seed.hasher();
        // Distinguishes this from every other hash under this seed.
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

    /// The free row and those nearest to it that make a sound bucket, `None` if there are none. The more columns
    /// a bucket has, the rarer its values must be: if it ends up with more columns than planned, it is filled again.
    fn nearest(&self, first: usize) -> Option<Vec<usize>> {
        let far = self.distances(first);
        // Ties go to the row that stands first in canonical order.
        let key = |at: usize| ((u64::from(far[at]) << 32) | u64::from(self.positions[at]), at);
        let mut order: Vec<(u64, usize)> =
            (0..self.positions.len()).filter(|at| *at != first).map(key).collect();
        let mut columns = self.promise.meant_columns();
        loop {
            let chosen = self.fill(first, columns, &mut order)?;
            if self.promise.is_paper() {
                return Some(chosen);
            }
            let ends_with = self.promise.columns(self.varying(first, &chosen));
            let most = self.counts_of(&chosen).iter().map(|(_, rows)| *rows).max().unwrap_or(0);
            if ends_with <= columns || self.promise.allows(most as usize, chosen.len(), ends_with) {
                return Some(chosen);
            }
            columns = ends_with;
        }
    }

    /// The first of the rows in this order, as many as a bucket of so many columns needs.
    fn fill(&self, first: usize, columns: usize, order: &mut [(u64, usize)]) -> Option<Vec<usize>> {
        let mut pick = Pick::new(self, columns)?;
        pick.take(first, self.values[first]);
        // First the rows that must go here, because buckets of the other rows could not take them.
        for (value, needed) in pick.needed.clone() {
            let missing = needed.saturating_sub(pick.of(value)) as usize;
            let has_value = |(_, at): &&(u64, usize)| self.values[*at] == value;
            let mut alike: Vec<(u64, usize)> = order.iter().filter(has_value).copied().collect();
            if (1..alike.len()).contains(&missing) {
                alike.select_nth_unstable(missing - 1);
            }
            for (_, at) in alike.into_iter().take(missing.min(pick.wanted - pick.chosen.len())) {
                pick.take(at, value);
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
        (pick.is_full() && pick.has_nodes()).then_some(pick.chosen)
    }

    /// The fewest rows of a bucket that takes its share of the most frequent value and node, so that the remaining
    /// free rows can make sound buckets too, and the most rows of one value in it.
    fn wanted_rows(&self, columns: usize) -> Option<(usize, u32)> {
        let (promise, free) = (self.promise, self.positions.len());
        let least = promise.least_rows(columns);
        if free < least {
            return None;
        }
        if promise.is_paper() {
            return Some((least, least as u32));
        }
        let most = self.free_of.iter().copied().max().unwrap_or(0) as usize;
        let fits = |rows: &usize| promise.cap(*rows, columns) * free >= most * rows;
        let rows = (least..=free).find(fits)?;
        let rows = match self.rows_of_other_nodes() {
            Some(0) => return None,
            Some(others) => rows.max(free / others),
            None => rows,
        };
        Some((rows, promise.cap(rows, columns) as u32))
    }

    /// Free rows that are not of the most frequent node.
    fn rows_of_other_nodes(&self) -> Option<usize> {
        let nodes = self.node_of.iter().zip(&self.free_of);
        let mut rows_of: Vec<(u32, u32)> = nodes.map(|(node, rows)| (*node, *rows)).collect();
        rows_of.sort_unstable();
        let of_node = rows_of.chunk_by(|a, b| a.0 == b.0);
        let most = of_node.map(|rows| rows.iter().map(|(_, rows)| rows).sum::<u32>()).max()?;
        Some(self.positions.len() - most as usize)
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
                        self.varying[bucket] = self.varying_with(bucket, at);
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
        let far = |bucket: &usize| {
            let center = &self.centers[*bucket];
            let attributes = 0..self.distance.attributes();
            let of = |at_attribute: usize| {
                let own = self.codes[at_attribute][at];
                u64::from(self.distance.between(at_attribute, own, center[at_attribute]))
            };
            (attributes.map(of).sum::<u64>(), *bucket)
        };
        (0..self.buckets.len()).filter(|bucket| self.takes(*bucket, at)).min_by_key(far)
    }

    /// Whether a bucket stays sound with one more row.
    fn takes(&self, bucket: usize, at: usize) -> bool {
        let value = self.values[at];
        let count = |(other, rows): &(u32, u32)| rows + u32::from(*other == value);
        let most = self.counts[bucket].iter().map(count).max().unwrap_or(0).max(1);
        let columns = self.promise.columns(self.varying_with(bucket, at));
        self.promise.allows(most as usize, self.buckets[bucket].rows.len() + 1, columns)
    }

    /// The quasi-identifiers that vary in a bucket with one more row.
    fn varying_with(&self, bucket: usize, at: usize) -> u64 {
        let center = self.centers[bucket].iter().zip(&self.codes).take(self.distance.attributes());
        let differs = center.enumerate().filter(|(_, (own, codes))| codes[at] != **own);
        differs.fold(self.varying[bucket], |varying, (attribute, _)| varying | 1 << attribute)
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
    /// The fewest rows that the rows left behind need for a bucket.
    least: usize,
    /// By value, the rows that the buckets of the other free rows could not take.
    needed: Vec<(u32, u32)>,
}

impl<'b> Pick<'b> {
    /// `None` if the free rows make no sound bucket.
    fn new(block: &'b Block<'b>, columns: usize) -> Option<Self> {
        let l = block.promise.options.l as usize;
        let free = &block.free_of;
        let least = block.promise.least_rows(columns);
        let (wanted, cap) = block.wanted_rows(columns)?;
        let others = block.positions.len() - wanted;
        let room: u64 = free.iter().map(|rows| u64::from(*rows.min(&cap))).sum();
        let different = free.iter().filter(|rows| **rows > 0).count();
        if room < wanted as u64 || different < l {
            return None;
        }
        let needed = |(value, rows): (usize, &u32)| {
            // What buckets like this one can take of a value.
            let capacity = others as u64 * u64::from(cap) / wanted as u64;
            let needed = rows.saturating_sub(capacity as u32).min(cap);
            (needed > 0).then_some((value as u32, needed))
        };
        let needed = match block.promise.is_paper() {
            false => free.iter().enumerate().filter_map(needed).collect(),
            true => Vec::new(),
        };
        let chosen = Vec::with_capacity(wanted);
        let is_chosen = vec![false; block.positions.len()];
        let counts = vec![0; free.len()];
        Some(Self { block, wanted, chosen, is_chosen, counts, different: 0, cap, least, needed })
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

    /// Whether the rows left behind, if they can make a bucket at all, still have l different values without
    /// another row of this one.
    fn leaves_enough(&self, value: u32) -> bool {
        let free = &self.block.free_of;
        if self.block.positions.len() < self.wanted + self.least {
            return true;
        }
        if free[value as usize] - self.of(value) > 1 {
            return true;
        }
        let left = free.iter().zip(&self.counts).filter(|(free, chosen)| free > chosen).count();
        left > self.block.promise.options.l as usize
    }

    /// Whether the chosen rows are of two nodes with one of this value.
    fn has_nodes_with(&self, value: u32) -> bool {
        let nodes = &self.block.node_of;
        let other = |at: &usize| nodes[self.block.values[*at] as usize] != nodes[value as usize];
        nodes.is_empty() || self.has_nodes() || self.chosen.iter().any(other)
    }

    fn has_nodes(&self) -> bool {
        let nodes = &self.block.node_of;
        let node = |at: &usize| nodes[self.block.values[*at] as usize];
        nodes.is_empty() || self.chosen.iter().any(|at| node(at) != node(&self.chosen[0]))
    }

    /// Takes the row if the bucket can still become sound with it.
    fn offer(&mut self, at: usize, value: u32) {
        if self.is_full() || self.is_chosen[at] {
            return;
        }
        let own = self.of(value);
        let missing = (self.block.promise.options.l as usize).saturating_sub(self.different);
        let places = self.wanted - self.chosen.len();
        let fits = match self.block.promise.is_paper() {
            false => own < self.cap && (places > 1 || self.has_nodes_with(value)),
            true => (own == 0 || places > missing) && self.leaves_enough(value),
        };
        if fits {
            self.take(at, value);
        }
    }
}
