//! What joining a row with a group costs, column by column.
//!
//! A *center* is the generalization a group is published with, and `value` says how much a
//! generalization hides. All distances have one form: a row with code v that joins a group with
//! center g makes the center g ∨ v (the lowest common ancestor, the interval, or the set of
//! both), and costs in a column of weight w
//!
//! ```text
//! w · [ GenRate(v → g ∨ v) + s · GenRate(g → g ∨ v) ]
//!
//! kaim        GenRate(x → y) = Info(y) / (Info(x) + c)
//! k_member    GenRate(x → y) = NCP(y) − NCP(x)
//! ```
//!
//! Info is the sum of −p·ln p over the values under a generalization, 0 for a single value, and c is half of what all
//! values of the column have: so every column weighs the same, however many values it has. s counts the rows of the group that
//! have a value in the column. A missing cell loses nothing, whatever it is published as, and has no rate of its own.
//!
//! The formula as printed (`variant => 'paper'`) differs: c is −p·ln p of a single value and 0 above, a missing cell has the Info of the
//! whole column, and s counts all rows. 0/0 is 0. Costs are fixed-point integers, so that sums do not depend on
//! the order of the columns and equal distances are equal.

use crate::hierarchy::{Axis, Shape};

/// Fixed-point scale of a cost.
const UNIT: f64 = (1u64 << 24) as f64;
/// No column costs more than this, so that a sum over all columns fits.
const MOST: f64 = (1u64 << 57) as f64;

/// Which distance is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    /// How much entropy the join has, relative to what the row and the group had.
    Entropy(Constant),
    /// Normalized certainty penalty of the join.
    Ncp,
}

/// The constant c of an entropy distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Constant {
    /// Half the entropy of the column.
    HalfOfColumn,
    /// −p·ln p of a single value, 0 above.
    OfValue,
}

/// A metric, and whether it takes a missing cell for one that has lost its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Distance {
    pub(super) metric: Metric,
    pub(super) charges_missing: bool,
}

/// One quasi-identifier with everything a distance looks up.
#[derive(Debug)]
pub(super) struct Column<'a> {
    /// Place of the column's code in a row.
    pub(super) index: usize,
    pub(super) axis: &'a Axis,
    distance: Distance,
    weight: f64,
    /// Where each code begins and ends on the scale that values of stretches are differences of.
    start: Vec<f64>,
    end: Vec<f64>,
    /// Value of each node of a hierarchy.
    nodes: Vec<f64>,
    /// Value of a missing cell, and of everything joined.
    missing: f64,
    top: f64,
    /// What a set's value is below the sum of its members'.
    set_offset: f64,
    /// The constant c of the column; 0 where every value has one of its own.
    constant: f64,
    /// What the value of a join is multiplied with for the row's own part, by code; the smallest of a value.
    inverse: Vec<f64>,
    least_inverse: f64,
}

/// A center in one column: all codes of a group, generalized.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) low: u32,
    pub(super) high: u32,
    /// How many rows of the group lose when the center widens.
    charged: u32,
    value: f64,
    inverse: f64,
    /// Members in ascending order, for a set only.
    members: Vec<u32>,
}

impl<'a> Column<'a> {
    /// The column whose values occur `counts` times, by code.
    pub(super) fn new(
        index: usize,
        axis: &'a Axis,
        distance: Distance,
        weight: f64,
        counts: &[u64],
    ) -> Self {
        let mut column = Self {
            index,
            axis,
            distance,
            weight,
            start: Vec::new(),
            end: Vec::new(),
            nodes: Vec::new(),
            missing: 0.0,
            top: 1.0,
            set_offset: 0.0,
            constant: 0.0,
            inverse: Vec::new(),
            least_inverse: 0.0,
        };
        match distance.metric {
            Metric::Entropy(constant) => column.prepare_entropy(counts, constant),
            Metric::Ncp => column.prepare_ncp(),
        }
        column.inverse = (0..axis.codes).map(|code| column.own_inverse(code)).collect();
        let values = column.inverse.iter().skip(usize::from(axis.missing)).copied();
        column.least_inverse = values.reduce(f64::min).unwrap_or(0.0);
        column
    }

    fn prepare_entropy(&mut self, counts: &[u64], constant: Constant) {
        let values = usize::from(self.axis.missing)..self.axis.codes as usize;
        let total = counts[values.clone()].iter().sum::<u64>() as f64;
        let mut sum = 0.0;
        for (code, count) in counts.iter().enumerate() {
            self.start.push(sum);
            if values.contains(&code) && *count > 0 {
                let share = *count as f64 / total;
                let part = -share * share.ln();
                sum += part;
            }
            self.end.push(sum);
        }
        self.top = sum;
        if constant == Constant::HalfOfColumn {
            // A column of one value has no entropy, and yet `*` in its place loses that value.
            if sum == 0.0 && self.axis.missing {
                self.top = 1.0;
            }
            self.constant = self.top / 2.0;
        }
        if self.distance.charges_missing {
            self.missing = self.top;
        }
        if let Shape::Tree(tree) = &self.axis.shape {
            let value = |node: u32| {
                let (first, last) = tree.range(node);
                let stretch = self.end[last as usize] - self.start[first as usize];
                if node < tree.codes() { 0.0 } else { stretch }
            };
            self.nodes = (0..tree.nodes()).map(value).collect();
        }
    }

    /// What the value of a join is multiplied with for a single row.
    fn own_inverse(&self, code: u32) -> f64 {
        let is_missing = self.is_missing(code);
        match self.distance.metric {
            _ if is_missing && !self.distance.charges_missing => 0.0,
            Metric::Entropy(Constant::OfValue) if !is_missing => inverse(self.mass(code)),
            _ if is_missing => self.center_inverse(self.missing),
            _ => self.center_inverse(0.0),
        }
    }

    /// The same for every row of a group whose center has this value.
    fn center_inverse(&self, value: f64) -> f64 {
        match self.distance.metric {
            Metric::Entropy(_) => inverse(value + self.constant),
            Metric::Ncp => 1.0,
        }
    }

    fn prepare_ncp(&mut self) {
        match &self.axis.shape {
            Shape::Line(positions) => {
                self.start.clone_from(positions);
                self.end.clone_from(positions);
            }
            Shape::Tree(tree) => {
                self.nodes = (0..tree.nodes()).map(|node| tree.loss(node)).collect();
            }
            Shape::Set => {
                let values = self.axis.codes - u32::from(self.axis.missing);
                let unit = 1.0 / f64::from(values.saturating_sub(1).max(1));
                self.start = (0..self.axis.codes).map(|code| f64::from(code) * unit).collect();
                self.end = (1..=self.axis.codes).map(|code| f64::from(code) * unit).collect();
                self.set_offset = unit;
            }
        }
    }

    /// The center of rows with this code, of which none is charged yet.
    pub(super) fn part(&self, code: u32) -> Part {
        let is_missing = self.is_missing(code);
        let members = if self.axis.shape == Shape::Set { vec![code] } else { Vec::new() };
        Part {
            low: code,
            high: code,
            charged: 0,
            value: if is_missing { self.missing } else { 0.0 },
            inverse: self.inverse[code as usize],
            members,
        }
    }

    /// The center of these rows, given by their codes.
    pub(super) fn center(&self, mut codes: impl Iterator<Item = u32>) -> Part {
        let Some(first) = codes.next() else { return Part::default() };
        let mut part = self.part(first);
        self.charge(&mut part, first, 1);
        codes.for_each(|code| {
            self.join(&mut part, code);
            self.charge(&mut part, code, 1);
        });
        part
    }

    /// Counts rows that have joined: from now on they lose when the center widens.
    pub(super) fn charge(&self, part: &mut Part, code: u32, rows: u32) {
        if self.distance.charges_missing || !self.is_missing(code) {
            part.charged += rows;
        }
    }

    /// Joins a row into a center; says whether the center changed. [`Column::charge`] must follow.
    pub(super) fn join(&self, part: &mut Part, code: u32) -> bool {
        let is_set = self.axis.shape == Shape::Set;
        if (!is_set || part.low == part.high) && part.low <= code && code <= part.high {
            return false;
        }
        let value = self.joined(part, code);
        let mixed = self.is_missing(part.low) && part.low < part.high;
        let before = (part.low, part.high, part.members.len());
        if is_set
            && !mixed
            && let Err(place) = part.members.binary_search(&code)
        {
            part.members.insert(place, code);
        }
        part.low = part.low.min(code);
        part.high = part.high.max(code);
        if mixed || before == (part.low, part.high, part.members.len()) {
            return false;
        }
        let changed = part.value != value || self.is_missing(part.low);
        part.value = value;
        part.inverse = self.center_inverse(value);
        // A wider stretch under the same node of a hierarchy is the same center.
        changed || !matches!(self.axis.shape, Shape::Tree(_))
    }

    /// Joins one center into another.
    pub(super) fn join_part(&self, part: &mut Part, other: &Part) {
        if other.members.is_empty() {
            self.join(part, other.low);
            self.join(part, other.high);
        }
        for code in &other.members {
            self.join(part, *code);
        }
        part.charged += other.charged;
    }

    /// Whether a code stands for a missing cell.
    pub(super) fn is_missing(&self, code: u32) -> bool {
        self.axis.missing && code == 0
    }

    /// Value of the center a row would make of this one. Never smaller for a code further away.
    fn joined(&self, part: &Part, code: u32) -> f64 {
        if self.is_missing(code) || self.is_missing(part.low) {
            return if part.high == 0 && code == 0 { self.missing } else { self.top };
        }
        let (low, high) = (part.low.min(code), part.high.max(code));
        if low == high {
            return 0.0;
        }
        match &self.axis.shape {
            Shape::Line(_) => self.end[high as usize] - self.start[low as usize],
            Shape::Tree(tree) => self.nodes[tree.ancestor(low, high) as usize],
            Shape::Set => match part.members.binary_search(&code) {
                Ok(_) => part.value,
                Err(_) if part.low == part.high => {
                    self.mass(part.low) + self.mass(code) - self.set_offset
                }
                Err(_) => part.value + self.mass(code),
            },
        }
    }

    fn mass(&self, code: u32) -> f64 {
        self.end[code as usize] - self.start[code as usize]
    }

    /// Cost of a row in this column, and a cost that no value further from the center is below.
    pub(super) fn cost(&self, part: &Part, code: u32) -> Cost {
        let joined = self.joined(part, code);
        let group = self.group_cost(part, joined);
        Cost {
            cost: fixed(self.weight * (joined * self.inverse[code as usize] + group)),
            beyond: fixed(self.weight * (joined * self.least_inverse + group)),
        }
    }

    /// What the rows of a group lose together when its center gets this value.
    fn group_cost(&self, part: &Part, joined: f64) -> f64 {
        let held = if self.distance.metric == Metric::Ncp { part.value } else { 0.0 };
        f64::from(part.charged) * (joined - held) * part.inverse
    }

    /// The cost no row is below.
    pub(super) fn least(&self, part: &Part) -> u64 {
        let group = self.group_cost(part, part.value);
        let of_value = fixed(self.weight * (part.value * self.least_inverse + group));
        match self.axis.missing {
            true => of_value.min(self.distance(part, 0)),
            false => of_value,
        }
    }

    /// Cost of a row that joins a group.
    pub(super) fn distance(&self, part: &Part, code: u32) -> u64 {
        self.cost(part, code).cost
    }

    /// The NCP cost no code but the missing one is above.
    pub(super) fn most(&self, part: &Part) -> u64 {
        if self.axis.shape == Shape::Set {
            return fixed(self.weight * f64::from(part.charged + 1));
        }
        // One of the two ends is the code furthest away.
        let first = u32::from(self.axis.missing && self.axis.codes > 1);
        let ends = [first, self.axis.codes - 1].map(|code| self.distance(part, code));
        ends[0].max(ends[1])
    }

    /// Whether costs grow with the distance of the codes, as they do except in sets.
    pub(super) fn is_monotone(&self) -> bool {
        self.axis.shape != Shape::Set
    }

    /// Weighted loss of all rows of two groups joined; for the NCP metric.
    pub(super) fn joined_loss(&self, part: &Part, other: &Part) -> f64 {
        let (low, high) = (part.low.min(other.low), part.high.max(other.high));
        if low == high {
            return 0.0;
        }
        let value = match &self.axis.shape {
            _ if self.is_missing(low) => self.top,
            Shape::Line(_) => self.end[high as usize] - self.start[low as usize],
            Shape::Tree(tree) => self.nodes[tree.ancestor(low, high) as usize],
            Shape::Set => {
                let new = |code: &&u32| part.members.binary_search(code).is_err();
                let members = part.members.len() + other.members.iter().filter(new).count();
                (members - 1) as f64 * self.set_offset
            }
        };
        self.weight * f64::from(part.charged + other.charged) * value
    }

    /// What the rows of a group lose together in this column, weighted; for the NCP metric.
    pub(super) fn loss(&self, part: &Part) -> f64 {
        self.weight * f64::from(part.charged) * part.value
    }
}

fn inverse(value: f64) -> f64 {
    if value > 0.0 { 1.0 / value } else { 0.0 }
}

fn fixed(cost: f64) -> u64 {
    (cost * UNIT + 0.5).min(MOST) as u64
}

/// Costs of one code.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    pub(super) cost: u64,
    /// No code further from the center costs less.
    pub(super) beyond: u64,
}

#[cfg(test)]
mod tests;
