//! Rows that join the suppressed ones, so that `*` hides as many people as every other tuple does.

use std::hash::Hasher;

use super::group::Members;
use super::number::number_tuples;
use super::{Component, Constraint, Job, Recoding};
use crate::error::{Error, Result};
use crate::model::{RowTable, Seed};

/// Suppresses more rows, until every component that publishes suppressed rows publishes at least its largest k rows
/// of nothing but tops. `kept` are the constraints that each component has to keep.
pub(super) fn join_suppressed(
    rows: &RowTable,
    job: &Job,
    kept: &[Vec<Constraint>],
    recoding: &mut Recoding,
) -> Result<()> {
    let mut hidden_in = vec![0u32; if job.drop_suppressed { rows.len() } else { 0 }];
    for component in recoding.components.iter().filter(|_| job.drop_suppressed) {
        component.suppressed.iter().for_each(|row| hidden_in[*row as usize] += 1);
    }
    // A row that joins in one component may now be suppressed in all of them and be dropped, and then another
    // component lacks it. So this is repeated until nothing is missing.
    loop {
        let mut is_complete = true;
        for (index, kept) in kept.iter().enumerate() {
            job.cancel.check()?;
            let table = Table { rows, job, recoding, index, hidden_in: &hidden_in };
            let missing = table.missing();
            if missing == 0 {
                continue;
            }
            is_complete = false;
            let joined = Shown::new(&table, kept).join(&table, missing)?;
            if job.drop_suppressed {
                joined.iter().for_each(|row| hidden_in[*row as usize] += 1);
            }
            suppress(joined, recoding, index, job);
        }
        if is_complete {
            return Ok(());
        }
    }
}

fn suppress(joined: Vec<u32>, recoding: &mut Recoding, index: usize, job: &Job) {
    let component = &mut recoding.components[index];
    for column in &component.columns {
        let top = job.trees[*column].nodes().saturating_sub(1);
        joined.iter().for_each(|row| recoding.nodes[*column][*row as usize] = top);
    }
    component.joined += joined.len();
    component.suppressed.extend(joined);
    component.suppressed.sort_unstable();
}

/// One component of a recoding.
struct Table<'a> {
    rows: &'a RowTable,
    job: &'a Job<'a>,
    recoding: &'a Recoding,
    index: usize,
    /// In how many components each row is suppressed, where rows suppressed in all are dropped.
    hidden_in: &'a [u32],
}

impl Table<'_> {
    fn component(&self) -> &Component {
        &self.recoding.components[self.index]
    }

    /// Whether the row is suppressed in exactly so many components, and such rows may be dropped.
    fn is_hidden_in(&self, row: u32, components: usize) -> bool {
        self.hidden_in.get(row as usize).is_some_and(|hidden| *hidden as usize == components)
    }

    fn is_dropped(&self, row: u32) -> bool {
        self.is_hidden_in(row, self.recoding.components.len())
    }

    /// Whether a row stays published when it is suppressed here.
    fn may_join(&self, row: u32) -> bool {
        !self.is_hidden_in(row, self.recoding.components.len() - 1)
    }

    fn is_top(&self, row: u32) -> bool {
        let node = |column: &usize| self.recoding.nodes[*column][row as usize];
        let top = |column: &usize| node(column) + 1 == self.job.trees[*column].nodes();
        self.component().columns.iter().all(top)
    }

    /// How many more rows of tops must be published.
    fn missing(&self) -> usize {
        let Component { suppressed, max_k, .. } = self.component();
        let published = suppressed.iter().filter(|row| !self.is_dropped(**row)).count();
        if published == 0 || published >= *max_k as usize {
            return 0;
        }
        let rows = 0..self.rows.len() as u32;
        let tops = rows.filter(|row| !self.is_dropped(*row) && self.is_top(*row)).count();
        (*max_k as usize).saturating_sub(tops)
    }

    /// Orders rows that cost the same by the secret, so that neither their values nor their places in the input
    /// decide which of them join.
    fn key(&self, row: u32, seed: Seed) -> (u64, u64) {
        let (keys, row) = (self.job.keys, row as usize);
        (self.rows.keyed_hash(row, keys, seed), keys.key(self.rows.id_at(row)).1)
    }
}

/// The rows that a component shows, by published tuple.
struct Shown {
    /// The tuple of each row; suppressed rows have a number of their own, the last one.
    tuple_of: Vec<u32>,
    /// Rows of each tuple.
    sizes: Vec<u32>,
    members: Members,
    /// What a row of each tuple loses when it is suppressed, in millionths of a cell. Whole numbers, so
    /// that no sum depends on an order.
    costs: Vec<u64>,
    /// A keyed hash of each tuple.
    hashes: Vec<u64>,
    /// The tuple of nothing but tops, if a row that is not suppressed has it.
    top: Option<u32>,
    groups: Vec<Groups>,
    seed: Seed,
}

/// Tuples grouped by the projection of one constraint.
struct Groups {
    k: u32,
    /// The group of each tuple.
    of: Vec<u32>,
    /// Rows of each group.
    rows: Vec<u32>,
    members: Members,
}

/// How many of the cheapest tuples are examined for what falls with them, before the best is taken.
const CANDIDATES: usize = 256;

impl Shown {
    fn new(table: &Table, kept: &[Constraint]) -> Self {
        let Table { job, recoding, .. } = table;
        let component = table.component();
        let columns = component.columns.iter();
        let bounded: Vec<(&[u32], u32)> = (columns.clone())
            .map(|column| (recoding.nodes[*column].as_slice(), job.trees[*column].nodes()))
            .collect();
        let numbered = number_tuples(&bounded);
        let (mut tuple_of, tuples) = (numbered.numbers, numbered.distinct);
        let mut nodes = vec![vec![0u32; tuples]; bounded.len()];
        for (row, tuple) in tuple_of.iter().enumerate() {
            for (nodes, (of_rows, _)) in nodes.iter_mut().zip(&bounded) {
                nodes[*tuple as usize] = of_rows[row];
            }
        }
        for row in &component.suppressed {
            tuple_of[*row as usize] = tuples as u32;
        }
        let mut sizes = vec![0u32; tuples + 1];
        tuple_of.iter().for_each(|tuple| sizes[*tuple as usize] += 1);
        let seed = job.seed;
        let trees: Vec<_> = columns.map(|column| job.trees[*column]).collect();
        let of_tuple = |tuple: usize| nodes.iter().map(move |nodes| nodes[tuple]);
        let cost = |tuple: usize| {
            let kept = of_tuple(tuple).zip(&trees).map(|(node, tree)| 1.0 - tree.loss(node));
            kept.map(|kept| (kept * 1e6) as u64).sum()
        };
        let hash = |tuple: usize| {
            let mut hasher = seed.hasher();
            of_tuple(tuple).for_each(|node| hasher.write_u32(node));
            hasher.finish()
        };
        let is_top = |tuple: &usize| {
            sizes[*tuple] > 0
                && of_tuple(*tuple).zip(&trees).all(|(node, tree)| node + 1 == tree.nodes())
        };
        let groups = kept.iter().map(|constraint| {
            let places = (0..trees.len())
                .filter(|place| constraint.columns.contains(&component.columns[*place]));
            let projection: Vec<(&[u32], u32)> =
                places.map(|place| (nodes[place].as_slice(), trees[place].nodes())).collect();
            Groups::new(constraint.k, &projection, &sizes)
        });
        Self {
            costs: (0..tuples).map(cost).collect(),
            hashes: (0..tuples).map(hash).collect(),
            top: (0..tuples).find(is_top).map(|tuple| tuple as u32),
            groups: groups.collect(),
            members: Members::new(&tuple_of, &sizes),
            tuple_of,
            sizes,
            seed,
        }
    }

    /// The rows that have to be suppressed so that this many more publish nothing but tops: the
    /// cheapest that the others can spare or, if they are too few, whole groups before them.
    fn join(mut self, table: &Table, missing: usize) -> Result<Vec<u32>> {
        let (mut joined, mut gained) = (Vec::new(), 0);
        while gained < missing {
            table.job.cancel.check()?;
            if let Some(spared) = self.spared(table, missing - gained) {
                joined.extend(spared);
                break;
            }
            let Some(falling) = self.cheapest() else {
                let k = table.component().max_k;
                return Err(Error::Unsatisfiable { requirement: format!("k = {k} for '*'") });
            };
            for tuple in falling {
                if Some(tuple) != self.top {
                    gained += self.sizes[tuple as usize] as usize;
                }
                joined.extend(self.members.of(tuple));
                self.remove(tuple);
                self.sizes[tuple as usize] = 0;
            }
        }
        Ok(joined)
    }

    /// Tuples that show something.
    fn tuples(&self) -> impl Iterator<Item = u32> {
        let tuples = 0..self.costs.len() as u32;
        tuples.filter(|tuple| self.sizes[*tuple as usize] > 0 && Some(*tuple) != self.top)
    }

    /// The cheapest rows without which every group still has k, `None` if there are not so many.
    fn spared(&self, table: &Table, wanted: usize) -> Option<Vec<u32>> {
        let mut left: Vec<Vec<u32>> =
            self.groups.iter().map(|groups| groups.rows.clone()).collect();
        let can_spare = |tuple: u32, left: &[Vec<u32>]| {
            let mut groups = self.groups.iter().zip(left);
            groups.all(|(groups, left)| left[groups.of[tuple as usize] as usize] > groups.k)
        };
        let mut tuples: Vec<u32> = self.tuples().filter(|tuple| can_spare(*tuple, &left)).collect();
        let cost = |tuple: &u32| self.costs[*tuple as usize];
        tuples.sort_unstable_by_key(cost);
        let mut spared = Vec::with_capacity(wanted);
        for alike in tuples.chunk_by(|a, b| cost(a) == cost(b)) {
            let rows = alike.iter().flat_map(|tuple| self.members.of(*tuple));
            let rows = rows.filter(|row| table.may_join(**row));
            let mut rows: Vec<_> = rows.map(|row| (table.key(*row, self.seed), *row)).collect();
            rows.sort_unstable();
            for (_, row) in rows {
                let tuple = self.tuple_of[row as usize];
                if !can_spare(tuple, &left) {
                    continue;
                }
                for (groups, left) in self.groups.iter().zip(&mut left) {
                    left[groups.of[tuple as usize] as usize] -= 1;
                }
                spared.push(row);
                if spared.len() == wanted {
                    return Some(spared);
                }
            }
        }
        None
    }

    /// The tuple that is cheapest to suppress, with those that then fall below a k.
    fn cheapest(&mut self) -> Option<Vec<u32>> {
        let own = |tuple: &u32| {
            let at = *tuple as usize;
            (self.costs[at] * u64::from(self.sizes[at]), self.hashes[at])
        };
        let mut tuples: Vec<u32> = self.tuples().collect();
        tuples.sort_unstable_by_key(own);
        let tuples: Vec<(u64, u32)> =
            tuples.iter().take(CANDIDATES).map(|tuple| (own(tuple).0, *tuple)).collect();
        let (mut least, mut cheapest) = (u64::MAX, None);
        for (own, tuple) in tuples {
            if own >= least {
                break;
            }
            let (cost, falling) = self.falling(tuple, least);
            falling.iter().for_each(|tuple| self.restore(*tuple));
            if cost < least {
                (least, cheapest) = (cost, Some(falling));
            }
        }
        cheapest
    }

    /// Removes a tuple and those that fall with it, until they cost as much as `limit`.
    fn falling(&mut self, tuple: u32, limit: u64) -> (u64, Vec<u32>) {
        let mut is_gone = vec![false; self.costs.len()];
        let (mut cost, mut gone, mut next) = (0, Vec::new(), vec![tuple]);
        while let Some(tuple) = next.pop() {
            if std::mem::replace(&mut is_gone[tuple as usize], true) {
                continue;
            }
            cost += self.costs[tuple as usize] * u64::from(self.sizes[tuple as usize]);
            gone.push(tuple);
            self.remove(tuple);
            if cost >= limit {
                break;
            }
            for groups in &self.groups {
                let (group, sizes) = (groups.of[tuple as usize], &self.sizes);
                let left = groups.rows[group as usize];
                let had_k = left + sizes[tuple as usize] >= groups.k;
                if left > 0 && left < groups.k && had_k {
                    let others = groups.members.of(group).iter().copied();
                    next.extend(others.filter(|t| sizes[*t as usize] > 0 && !is_gone[*t as usize]));
                }
            }
        }
        (cost, gone)
    }

    fn remove(&mut self, tuple: u32) {
        for groups in &mut self.groups {
            groups.rows[groups.of[tuple as usize] as usize] -= self.sizes[tuple as usize];
        }
    }

    fn restore(&mut self, tuple: u32) {
        for groups in &mut self.groups {
            groups.rows[groups.of[tuple as usize] as usize] += self.sizes[tuple as usize];
        }
    }
}

impl Groups {
    /// Groups tuples, given by the columns of the projection, of so many rows each.
    fn new(k: u32, projection: &[(&[u32], u32)], sizes: &[u32]) -> Self {
        let numbered = number_tuples(projection);
        let (mut rows, mut tuples) = (vec![0; numbered.distinct], vec![0; numbered.distinct]);
        for (group, size) in numbered.numbers.iter().zip(sizes) {
            rows[*group as usize] += size;
            tuples[*group as usize] += 1;
        }
        let members = Members::new(&numbered.numbers, &tuples);
        Self { k, of: numbered.numbers, rows, members }
    }
}
