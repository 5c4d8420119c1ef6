//! What joining a row with a group costs, column by column.
//!
//! A *center* is the generalization a group is published with, and `value` says how much a
//! generalization hides. All distances have one form: a row with code v that joins a group of s rows
//! with center g makes the center g ∨ v (the lowest common ancestor, the interval, or the set of
//! both), and costs in a column of weight w
//!
//! ```text
//! w · [ GenRate(v → g ∨ v) + s · GenRate(g → g ∨ v) ]
//!
//! kaim        GenRate(x → y) = Info(y) / (Info(x) + c)
//! k_member    GenRate(x → y) = NCP(y) − NCP(x)
//! ```
//!
//! Info is the sum of −p·ln p over the values under a generalization, 0 for a single value, and c is −p·ln p of a single
//! value, 0 above. A missing cell has the Info of the whole column; 0/0 is 0. Costs are fixed-point integers, so that sums do
//! not depend on the order of the columns and equal distances are equal.

use crate::hierarchy::{Axis, Shape};

/// Fixed-point scale of a cost.
const UNIT: f64 = (1u64 << 24) as f64;
/// No column costs more than this, so that a sum over all columns fits.
const MOST: f64 = (1u64 << 57) as f64;

/// Which distance is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    /// How much entropy the join has, relative to what the row and the group had.
    Entropy,
    /// Normalized certainty penalty of the join.
    Ncp,
}

/// One quasi-identifier with everything a distance looks up.
#[derive(Debug)]
pub(super) struct Column<'a> {
    /// Place of the column's code in a row.
    pub(super) index: usize,
    pub(super) axis: &'a Axis,
    metric: Metric,
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
    /// What the value of a join is multiplied with for the row's own part, by code; the smallest.
    inverse: Vec<f64>,
    least_inverse: f64,
}

/// A center in one column: all codes of a group, generalized.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) low: u32,
    pub(super) high: u32,
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
        metric: Metric,
        weight: f64,
        counts: &[u64],
    ) -> Self {
        let mut column = Self {
            index,
            axis,
            metric,
            weight,
            start: Vec::new(),
            end: Vec::new(),
            nodes: Vec::new(),
            missing: 0.0,
            top: 1.0,
            set_offset: 0.0,
            inverse: vec![0.0; axis.codes as usize],
            least_inverse: 0.0,
        };
        match metric {
            Metric::Entropy => column.prepare_entropy(counts),
            Metric::Ncp => column.prepare_ncp(),
        }
        column
    }

    fn prepare_entropy(&mut self, counts: &[u64]) {
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
        (self.top, self.missing) = (sum, sum);
        for code in 0..self.axis.codes {
            let info = if self.is_missing(code) { self.missing } else { 0.0 };
            self.inverse[code as usize] = self.info_inverse(info, Some(code));
        }
        self.least_inverse = self.inverse.iter().copied().reduce(f64::min).unwrap_or(0.0);
        if let Shape::Tree(tree) = &self.axis.shape {
            let value = |node: u32| {
                let (first, last) = tree.range(node);
                let stretch = self.end[last as usize] - self.start[first as usize];
                if node < tree.codes() { 0.0 } else { stretch }
            };
            self.nodes = (0..tree.nodes()).map(value).collect();
        }
    }

    /// 1/(Info + c) of a center, or of a single code.
    fn info_inverse(&self, info: f64, code: Option<u32>) -> f64 {
        let own = code.filter(|code| !self.is_missing(*code)).map_or(0.0, |code| self.mass(code));
        match self.metric {
            Metric::Entropy => inverse(info + own),
            Metric::Ncp => 1.0,
        }
    }

    fn prepare_ncp(&mut self) {
        self.inverse.fill(1.0);
        self.least_inverse = 1.0;
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

    /// The center of a single row.
    pub(super) fn part(&self, code: u32) -> Part {
        let is_missing = self.is_missing(code);
        let members = if self.axis.shape == Shape::Set { vec![code] } else { Vec::new() };
        Part {
            low: code,
            high: code,
            value: if is_missing { self.missing } else { 0.0 },
            inverse: self.inverse[code as usize],
            members,
        }
    }

    /// Joins a row into a center; says whether the center changed.
    pub(super) fn join(&self, part: &mut Part, code: u32) -> bool {
        if part.low == part.high && part.low == code {
            return false;
        }
        let value = self.joined(part, code);
        let mixed = self.is_missing(part.low) && part.low < part.high;
        let before = (part.low, part.high, part.members.len());
        if self.axis.shape == Shape::Set
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
        part.inverse = self.info_inverse(value, None);
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
    }

    fn is_missing(&self, code: u32) -> bool {
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

    /// Cost of a row in this column, and a cost that no code further from the center is below.
    pub(super) fn cost(&self, part: &Part, size: u32, code: u32) -> Cost {
        let joined = self.joined(part, code);
        let held = if self.metric == Metric::Ncp { part.value } else { 0.0 };
        let group = f64::from(size) * (joined - held) * part.inverse;
        Cost {
            cost: fixed(self.weight * (joined * self.inverse[code as usize] + group)),
            beyond: fixed(self.weight * (joined * self.least_inverse + group)),
        }
    }

    /// The cost no row is below.
    pub(super) fn least(&self, part: &Part, size: u32) -> u64 {
        let held = if self.metric == Metric::Ncp { 0.0 } else { part.value };
        let group = f64::from(size) * held * part.inverse;
        fixed(self.weight * (part.value * self.least_inverse + group))
    }

    /// Cost of a row that joins a group of `size` rows.
    pub(super) fn distance(&self, part: &Part, size: u32, code: u32) -> u64 {
        self.cost(part, size, code).cost
    }

    /// The NCP cost no code but the missing one is above.
    pub(super) fn most(&self, part: &Part, size: u32) -> u64 {
        if self.axis.shape == Shape::Set {
            return fixed(self.weight * f64::from(size + 1));
        }
        // One of the two ends is the code furthest away.
        let first = u32::from(self.axis.missing && self.axis.codes > 1);
        let ends = [first, self.axis.codes - 1].map(|code| self.distance(part, size, code));
        ends[0].max(ends[1])
    }

    /// Whether costs grow with the distance of the codes, as they do except in sets.
    pub(super) fn is_monotone(&self) -> bool {
        self.axis.shape != Shape::Set
    }

    /// Weighted loss of two centers joined; for the NCP metric.
    pub(super) fn joined_loss(&self, part: &Part, other: &Part) -> f64 {
        let (low, high) = (part.low.min(other.low), part.high.max(other.high));
        if low == high {
            return 0.0;
        }
        if self.is_missing(low) {
            return self.weight * self.top;
        }
        self.weight
            * match &self.axis.shape {
                Shape::Line(_) => self.end[high as usize] - self.start[low as usize],
                Shape::Tree(tree) => self.nodes[tree.ancestor(low, high) as usize],
                Shape::Set => {
                    let new = |code: &&u32| part.members.binary_search(code).is_err();
                    let members = part.members.len() + other.members.iter().filter(new).count();
                    (members - 1) as f64 * self.set_offset
                }
            }
    }

    /// Share of the column that publishing this center hides, weighted; for the NCP metric.
    pub(super) fn loss(&self, part: &Part) -> f64 {
        self.weight * part.value
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
mod tests {
    use super::*;

    /// Values a, b under x and c, d under y; a occurs four times, b and c twice, d and missing once.
    fn tree() -> Axis {
        Axis::of_labels("a;x;*\nb;x;*\nc;y;*\nd;y;*\n", true)
    }

    const COUNTS: [u64; 5] = [1, 4, 2, 2, 1];

    fn part_of(count: f64) -> f64 {
        -(count / 9.0) * (count / 9.0).ln()
    }

    fn close(cost: u64, expected: f64) -> bool {
        (cost as f64 / UNIT - expected).abs() < 1e-6
    }

    #[test]
    fn entropy_distances_follow_the_formula_of_the_paper() {
        let axis = tree();
        let column = Column::new(0, &axis, Metric::Entropy, 1.0, &COUNTS);
        let (a, b, c, d) = (part_of(4.0), part_of(2.0), part_of(2.0), part_of(1.0));
        let (x, top) = (a + b, a + b + c + d);
        let from_a = column.part(1);
        assert_eq!(column.distance(&from_a, 1, 1), 0, "a leaf has no information to lose");
        assert!(close(column.distance(&from_a, 1, 2), x / b + x / a));
        assert!(close(column.distance(&from_a, 3, 4), top / d + 3.0 * top / a));
        assert!(close(column.distance(&from_a, 3, 0), 1.0 + 3.0 * top / a), "missing is the top");
        let mut from_x = column.part(1);
        assert!(column.join(&mut from_x, 2));
        assert!(!column.join(&mut from_x, 1), "x stays x");
        assert!(close(column.distance(&from_x, 2, 1), x / a + 2.0));
        assert!(close(column.distance(&from_x, 2, 3), top / c + 2.0 * top / x));
        let missing = column.part(0);
        assert!(close(column.distance(&missing, 2, 0), 1.0 + 2.0));
        assert!(close(column.distance(&missing, 2, 1), top / a + 2.0));
    }

    #[test]
    fn numbers_join_to_intervals_and_texts_to_sets() {
        let line = Axis::line(&[10.0, 20.0, 50.0], false);
        let set = Axis::set(3, false);
        let counts = [1, 2, 1];
        let (one, two) = (0.25 * 4f64.ln(), 0.5 * 2f64.ln());
        for (axis, ends) in [(&line, one + two + one), (&set, one + one)] {
            let column = Column::new(0, axis, Metric::Entropy, 1.0, &counts);
            assert!(close(column.distance(&column.part(0), 1, 2), 2.0 * ends / one));
        }
        let ncp = |axis, code| {
            let column = Column::new(0, axis, Metric::Ncp, 1.0, &counts);
            let mut part = column.part(0);
            column.join(&mut part, 1);
            // (s + 1)·NCP(after) − s·NCP(before)
            column.distance(&part, 2, code)
        };
        assert!(close(ncp(&line, 2), 3.0 * 1.0 - 2.0 * 0.25));
        assert!(close(ncp(&set, 2), 3.0 * 1.0 - 2.0 * 0.5));
        assert!(close(ncp(&set, 0), 0.5), "the row itself loses what the group has lost");
    }

    #[test]
    fn nothing_over_nothing_is_nothing() {
        let axis = Axis::line(&[7.0], true);
        let column = Column::new(0, &axis, Metric::Entropy, 1.0, &[2, 3]);
        assert_eq!(column.distance(&column.part(0), 4, 1), 0);
    }
}
