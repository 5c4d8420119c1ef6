//! Which quasi-identifiers stay together in our version: those that correlate in the table, in groups small enough
//! that none of them identifies a person.

use super::least_groups;
use super::promise::{LEAST_GROUPS, bits};
use super::rows::Rows;

/// How the quasi-identifiers of a bucket are grouped.
#[derive(Debug)]
pub(super) struct Groups {
    /// By pair of quasi-identifiers, how much they go together, from 0 to 1.
    near: Vec<Vec<f64>>,
    /// All pairs, the nearest first.
    pairs: Vec<(usize, usize)>,
    /// The most quasi-identifiers of a group.
    most: usize,
    /// The groups of the whole table, where all buckets have the same ones.
    fixed: Option<Vec<u64>>,
}

impl Groups {
    /// Groups that are found in every bucket anew.
    pub(super) fn new(near: Vec<Vec<f64>>, most: usize) -> Self {
        let attributes = near.len();
        let mut pairs: Vec<(usize, usize)> =
            (0..attributes).flat_map(|a| (a + 1..attributes).map(move |b| (a, b))).collect();
        pairs.sort_by(|a, b| near[b.0][b.1].total_cmp(&near[a.0][a.1]).then(a.cmp(b)));
        Self { near, pairs, most: most.max(1), fixed: None }
    }

    /// The same groups in all buckets: as many as wanted, or as few as allowed. A bucket in which too few of them
    /// vary splits one of them.
    pub(super) fn fixed(near: Vec<Vec<f64>>, most: usize, wanted: Option<usize>) -> Self {
        let mut groups = Self::new(near, most);
        let attributes = super::promise::all(groups.attributes());
        let least = groups.count(attributes);
        groups.fixed = Some(groups.gathered(attributes, wanted.unwrap_or(least).max(least)));
        groups
    }

    /// Number of quasi-identifiers.
    pub(super) fn attributes(&self) -> usize {
        self.near.len()
    }

    /// How many groups there are in a bucket in which these quasi-identifiers vary.
    pub(super) fn count(&self, varying: u64) -> usize {
        let attributes = varying.count_ones() as usize;
        match &self.fixed {
            Some(fixed) => {
                let groups = fixed.iter().filter(|group| **group & varying != 0).count();
                groups.max(attributes.min(LEAST_GROUPS))
            }
            None => least_groups(attributes, self.most),
        }
    }

    /// The groups of a bucket in which these quasi-identifiers vary.
    pub(super) fn of(&self, rows: &Rows, varying: u64) -> Vec<u64> {
        let parts = Parts::new(rows, varying);
        match &self.fixed {
            Some(fixed) => {
                let groups = fixed.iter().map(|group| group & varying);
                let groups = groups.filter(|group| *group != 0).collect();
                parts.cut_until(groups, self.count(varying))
            }
            None => {
                let mut groups = self.gathered(varying, self.count(varying));
                self.balance(&parts, &mut groups);
                groups
            }
        }
    }

    /// Puts the nearest attributes together until there are so many groups.
    fn gathered(&self, attributes: u64, wanted: usize) -> Vec<u64> {
        let mut groups: Vec<u64> = bits(attributes).map(|at| 1 << at).collect();
        for (a, b) in &self.pairs {
            if groups.len() <= wanted {
                break;
            }
            let of = |at: &usize| groups.iter().position(|group| group >> at & 1 == 1);
            let (Some(one), Some(other)) = (of(a), of(b)) else { continue };
            let joined = groups[one] | groups[other];
            if one != other && joined.count_ones() as usize <= self.most {
                groups[one] = joined;
                groups.swap_remove(other);
            }
        }
        // No two groups fit into one: the attributes of the smallest go where there is room.
        while groups.len() > wanted {
            groups.sort_unstable_by_key(|group| (std::cmp::Reverse(group.count_ones()), *group));
            for at in groups.pop().into_iter().flat_map(bits) {
                let room = |group: &&mut u64| (group.count_ones() as usize) < self.most;
                let nearest = groups.iter_mut().filter(room).max_by(|a, b| {
                    self.nearness(at, **a).total_cmp(&self.nearness(at, **b)).then(b.cmp(a))
                });
                match nearest {
                    Some(group) => *group |= 1 << at,
                    None => return groups.into_iter().chain([1 << at]).collect(),
                }
            }
        }
        groups
    }

    /// How near an attribute is to a group, on average.
    fn nearness(&self, at: usize, group: u64) -> f64 {
        let sum: f64 = bits(group).map(|other| self.near[at][other]).sum();
        sum / f64::from(group.count_ones().max(1))
    }

    /// As long as one group alone tells more than half of the rows apart, it gives an attribute away.
    fn balance(&self, parts: &Parts, groups: &mut [u64]) {
        let half = parts.different(groups.iter().fold(0, |all, group| all | group)) / 2;
        let mut different: Vec<usize> =
            groups.iter().map(|group| parts.different(*group)).collect();
        while let Some((giver, receiver, at)) = self.gift(parts, groups, &different, half) {
            groups[giver] &= !(1 << at);
            groups[receiver] |= 1 << at;
            different[giver] = parts.different(groups[giver]);
            different[receiver] = parts.different(groups[receiver]);
        }
    }

    /// The next attribute to move: the group it leaves, the group it joins, and the attribute. Each move makes a group
    /// above the limit tell fewer rows apart, so there is an end.
    fn gift(
        &self,
        parts: &Parts,
        groups: &[u64],
        different: &[usize],
        half: usize,
    ) -> Option<(usize, usize, usize)> {
        let mut givers: Vec<usize> = (0..groups.len())
            .filter(|giver| different[*giver] > half && groups[*giver].count_ones() > 1)
            .collect();
        givers.sort_by_key(|giver| (std::cmp::Reverse(different[*giver]), groups[*giver]));
        for giver in givers {
            let has_room =
                |to: &usize| *to != giver && (groups[*to].count_ones() as usize) < self.most;
            let gifts = bits(groups[giver]).flat_map(|at| {
                let left = parts.different(groups[giver] & !(1 << at));
                (0..groups.len()).filter(has_room).map(move |to| {
                    let then = parts.different(groups[to] | 1 << at);
                    (left.max(then), left, then, to, at)
                })
            });
            let best = gifts.filter(|gift| gift.0 < different[giver]).min();
            if let Some((.., to, at)) = best {
                return Some((giver, to, at));
            }
        }
        None
    }
}

/// The rows of a bucket as hashes. They only decide about groups, so collisions do no harm.
struct Parts {
    rows: usize,
    /// By attribute that varies, by row.
    hashes: Vec<u64>,
    /// By attribute, where its hashes start.
    starts: [u32; 64],
}

impl Parts {
    fn new(rows: &Rows, varying: u64) -> Self {
        let mut parts = Self { rows: rows.len(), hashes: Vec::new(), starts: [0; 64] };
        for at in bits(varying) {
            parts.starts[at] = parts.hashes.len() as u32;
            let hash = |code: u32| mixed((at as u64) << 32 | u64::from(code));
            parts.hashes.extend(rows.column(at).map(hash));
        }
        parts
    }

    /// How many different rows these attributes have.
    fn different(&self, attributes: u64) -> usize {
        let mut sums = vec![0u64; self.rows];
        for at in bits(attributes) {
            let hashes = &self.hashes[self.starts[at] as usize..][..self.rows];
            sums.iter_mut().zip(hashes).for_each(|(sum, hash)| *sum = sum.wrapping_add(*hash));
        }
        sums.sort_unstable();
        sums.dedup();
        sums.len()
    }

    /// Cuts groups until there are so many: the one that tells most apart loses the attribute that lowers this most.
    fn cut_until(&self, mut groups: Vec<u64>, wanted: usize) -> Vec<u64> {
        while groups.len() < wanted {
            let places = (0..groups.len()).filter(|place| groups[*place].count_ones() > 1);
            let most = places.max_by_key(|place| (self.different(groups[*place]), groups[*place]));
            let Some(place) = most else { break };
            let left = |at: &usize| (self.different(groups[place] & !(1 << at)), *at);
            let Some(at) = bits(groups[place]).min_by_key(left) else { break };
            groups[place] &= !(1 << at);
            groups.push(1 << at);
        }
        groups
    }
}

fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 29)
}
