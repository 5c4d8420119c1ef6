//! Disclosure risk of a release, from how often each sensitive value occurs in each class.
//!
//! This is the second opinion on a release: it counts published rows and shares no code with the
//! methods that form classes.

use super::Measure;
use super::graded::{GradedRisk, RankLevels};

/// Slack for comparing shares and entropies: a bound met exactly must not fail by rounding.
pub(super) const ROUNDING: f64 = 1e-9;

/// What a release is asked to keep. Only what is given counts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct Targets {
    /// The smallest class.
    pub k: Option<u32>,
    /// The fewest different sensitive values in a class.
    pub l: Option<u32>,
    /// The smallest entropy in a class, as the l whose logarithm it is.
    pub entropy_l: Option<f64>,
    /// The largest distance of a class's values from those of the whole table.
    pub t: Option<f64>,
    /// The largest share of one value in a class.
    pub alpha: Option<f64>,
}

/// The rank of a sensitive value and the rows that hold it.
pub type ValueCount = (u32, u64);

/// How the values of a sensitive column are distributed over the whole table.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Whether nearer ranks are more alike: numbers and dates.
    ordered: bool,
    /// Ranks that occur.
    values: usize,
    /// Rows of each rank.
    counts: Vec<u64>,
    rows: u64,
    /// Share of the rows up to each rank.
    cumulative: Vec<f64>,
    /// Sum of `cumulative` below each rank, and of all of it at the end.
    summed: Vec<f64>,
}

impl Distribution {
    /// The distribution with these rows per rank. The first rank is that of missing values and may
    /// have no rows; every other rank occurs.
    pub fn new(counts: Vec<u64>, ordered: bool) -> Self {
        let rows: u64 = counts.iter().sum();
        let values = counts.iter().filter(|count| **count > 0).count();
        let (mut cumulative, mut summed) = (Vec::with_capacity(counts.len()), vec![0.0]);
        let (mut below, mut sum) = (0, 0.0);
        for count in &counts {
            below += count;
            let share = below as f64 / rows.max(1) as f64;
            sum += share;
            cumulative.push(share);
            summed.push(sum);
        }
        Self { ordered, values, counts, rows, cumulative, summed }
    }

    /// Rows of a rank.
    pub(super) fn rows_of(&self, rank: usize) -> u64 {
        self.counts.get(rank).copied().unwrap_or(0)
    }

    /// Number of ranks.
    pub(super) fn ranks(&self) -> usize {
        self.counts.len()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        3 * self.counts.capacity() * size_of::<u64>()
    }

    /// Earth mover's distance of a class from the whole table, from 0 to 1. Values of the class are
    /// in ascending rank, each once.
    pub fn distance(&self, class: &[ValueCount]) -> f64 {
        let rows: u64 = class.iter().map(|(_, count)| count).sum();
        if rows == 0 || self.values < 2 {
            return 0.0;
        }
        if self.ordered {
            self.distance_over_ranks(class, rows as f64)
        } else {
            self.moved_mass(class, rows as f64)
        }
    }

    /// All values equally far apart: half the summed differences, which is the mass in excess.
    fn moved_mass(&self, class: &[ValueCount], rows: f64) -> f64 {
        let excess = class.iter().map(|(rank, count)| {
            let everywhere = self.counts.get(*rank as usize).copied().unwrap_or(0);
            (*count as f64 / rows - everywhere as f64 / self.rows as f64).max(0.0)
        });
        excess.sum()
    }

    /// Neighbouring values one step apart, the whole order 1 long: the mean gap between the two
    /// cumulative distributions.
    fn distance_over_ranks(&self, class: &[ValueCount], rows: f64) -> f64 {
        let (mut from, mut count_below, mut gaps) = (0, 0u64, 0.0);
        for (rank, count) in class {
            gaps += self.gap(from, *rank as usize, count_below as f64 / rows);
            from = *rank as usize;
            count_below += count;
        }
        gaps += self.gap(from, self.cumulative.len(), 1.0);
        gaps / (self.values - 1) as f64
    }

    /// Summed distance of the table's cumulative shares from a constant one, over ranks `from..to`.
    ///
    /// Shares only grow, so one search splits the stretch into those below and those above.
    fn gap(&self, from: usize, to: usize, share: f64) -> f64 {
        let Some(stretch) = self.cumulative.get(from..to) else { return 0.0 };
        let split = from + stretch.partition_point(|cumulative| *cumulative < share);
        let below = share * (split - from) as f64 - (self.summed[split] - self.summed[from]);
        let above = (self.summed[to] - self.summed[split]) - share * (to - split) as f64;
        (below + above).max(0.0)
    }
}

/// What somebody who finds a class learns about one sensitive column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ColumnRisk {
    /// Different values.
    pub l: u64,
    /// Entropy of the values, in natural logarithms.
    pub entropy: f64,
    /// Distance from the whole table.
    pub t: f64,
    /// Largest share of one value.
    pub alpha: f64,
}

impl ColumnRisk {
    /// The risk of one class. Its values are in ascending rank, each once.
    pub fn of_class(class: &[ValueCount], whole: &Distribution) -> Self {
        let rows = class.iter().map(|(_, count)| count).sum::<u64>().max(1) as f64;
        let shares = || class.iter().map(|(_, count)| *count as f64 / rows);
        Self {
            l: class.len() as u64,
            entropy: -shares().map(|share| share * share.ln()).sum::<f64>(),
            t: whole.distance(class),
            alpha: shares().fold(0.0, f64::max),
        }
    }

    /// The higher of two risks, measure by measure.
    fn worst(self, other: Self) -> Self {
        Self {
            l: self.l.min(other.l),
            entropy: self.entropy.min(other.entropy),
            t: self.t.max(other.t),
            alpha: self.alpha.max(other.alpha),
        }
    }

    /// Every measure by name: what was found, what was asked for, and whether it holds.
    fn checks(&self, targets: &Targets) -> [(&'static str, f64, Option<f64>, bool); 4] {
        let Targets { l, entropy_l, t, alpha, .. } = *targets;
        let is_diverse = entropy_l.is_none_or(|l| self.entropy >= l.ln() - ROUNDING);
        let at_most =
            |found: f64, most: Option<f64>| most.is_none_or(|most| found <= most + ROUNDING);
        [
            ("l", self.l as f64, l.map(f64::from), l.is_none_or(|l| self.l >= u64::from(l))),
            ("entropy_l", self.entropy.exp(), entropy_l, is_diverse),
            ("t", self.t, t, at_most(self.t, t)),
            ("alpha", self.alpha, alpha, at_most(self.alpha, alpha)),
        ]
    }

    fn meets(&self, targets: &Targets) -> bool {
        self.checks(targets).iter().all(|(.., holds)| *holds)
    }
}

/// The risk of a release, class by class.
#[derive(Debug, Clone)]
pub struct Risk {
    targets: Targets,
    rows: u64,
    classes: u64,
    smallest: u64,
    largest: u64,
    violating_classes: u64,
    violating_rows: u64,
    /// The worst of the classes so far, per sensitive column.
    columns: Vec<Option<ColumnRisk>>,
    /// Shares by level of the first sensitive column, where it is graded.
    graded: Option<GradedRisk>,
}

impl Risk {
    /// A release of which nothing has been seen.
    pub fn new(targets: Targets, sensitive_columns: usize) -> Self {
        Self {
            targets,
            rows: 0,
            classes: 0,
            smallest: u64::MAX,
            largest: 0,
            violating_classes: 0,
            violating_rows: 0,
            columns: vec![None; sensitive_columns],
            graded: None,
        }
    }

    /// Looks at the first sensitive column by level from now on.
    pub fn grade(&mut self, levels: RankLevels) {
        self.graded = Some(GradedRisk::new(levels));
    }

    /// Takes in a class: its rows, its risk for every sensitive column, and the values of the first
    /// of them.
    pub fn add_class(
        &mut self,
        rows: u64,
        columns: impl IntoIterator<Item = ColumnRisk>,
        values: Option<&[ValueCount]>,
    ) {
        self.rows += rows;
        self.classes += 1;
        self.smallest = self.smallest.min(rows);
        self.largest = self.largest.max(rows);
        let mut meets = self.targets.k.is_none_or(|k| rows >= u64::from(k));
        for (worst, risk) in self.columns.iter_mut().zip(columns) {
            meets &= risk.meets(&self.targets);
            *worst = Some(worst.map_or(risk, |worst| worst.worst(risk)));
        }
        if let (Some(graded), Some(values)) = (&mut self.graded, values) {
            meets &= graded.add(values);
        }
        if !meets {
            self.violating_classes += 1;
            self.violating_rows += rows;
        }
    }

    /// The report: first the table, then every sensitive column.
    ///
    /// Without rows there is nothing to measure: counts are 0, everything else is unknown, and no
    /// target is met. Without targets nothing can be violated, and the violations are unknown too.
    pub fn measures(&self) -> Vec<Measure> {
        let mut measures = self.table_measures();
        for (column, risk) in self.columns.iter().enumerate() {
            measures.extend(self.column_measures(*risk).map(|measure| measure.of_column(column)));
        }
        measures.extend(self.graded.iter().flat_map(GradedRisk::measures));
        measures
    }

    /// The report of a release whose quasi-identifiers are published apart: whoever knows them finds
    /// the class for certain, so the risk of a row is that of its sensitive value alone.
    pub fn measures_by_class_alone(&self) -> Vec<Measure> {
        let mut measures = self.measures();
        measures.retain(|measure| !measure.name.starts_with("prosecutor_risk"));
        measures
    }

    fn table_measures(&self) -> Vec<Measure> {
        let (rows, classes) = (self.rows as f64, self.classes as f64);
        let known = |value: f64| (self.classes > 0).then_some(value);
        let table = Measure::of_table;
        let is_checked = self.targets != Targets::default() || self.graded.is_some();
        let violation = |name, count: u64| {
            let count = known(count as f64).filter(|_| is_checked);
            table(name, count).against(is_checked.then_some(0.0), count == Some(0.0))
        };
        let k = self.targets.k.map(f64::from);
        vec![
            table("rows", Some(rows)),
            table("classes", Some(classes)),
            table("k", known(self.smallest as f64))
                .against(k, k.is_none_or(|k| self.smallest as f64 >= k)),
            table("largest_class", known(self.largest as f64)),
            table("average_class", known(rows / classes)),
            table("prosecutor_risk_max", known(1.0 / self.smallest as f64)),
            table("prosecutor_risk_average", known(classes / rows)),
            violation("violating_classes", self.violating_classes),
            violation("violating_rows", self.violating_rows),
        ]
    }

    fn column_measures(&self, risk: Option<ColumnRisk>) -> [Measure; 4] {
        risk.unwrap_or_default().checks(&self.targets).map(|(name, value, target, holds)| {
            Measure::of_table(name, risk.map(|_| value)).against(target, holds)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-12
    }

    fn found(measures: &[Measure], name: &str) -> (Option<f64>, Option<bool>) {
        let measure = measures.iter().find(|measure| measure.name == name);
        measure.map_or((None, None), |measure| (measure.value, measure.holds))
    }

    // Li et al., "t-Closeness", section 4: nine salaries from 3k to 11k, one row each; the class
    // {3k, 4k, 5k} is 0.375 away from the table and {6k, 8k, 11k} is 0.167 away.
    #[test]
    fn the_distance_over_ranks_is_that_of_the_t_closeness_paper() {
        let whole = Distribution::new(vec![1; 9], true);
        assert!(near(whole.distance(&[(0, 1), (1, 1), (2, 1)]), 0.375));
        assert!(near(whole.distance(&[(3, 1), (5, 1), (8, 1)]), 1.0 / 6.0));
    }

    #[test]
    fn a_class_like_the_table_is_at_no_distance() {
        for ordered in [false, true] {
            let whole = Distribution::new(vec![0, 2, 4, 6], ordered);
            assert!(near(whole.distance(&[(1, 1), (2, 2), (3, 3)]), 0.0), "{ordered}");
        }
    }

    #[test]
    fn the_two_ends_of_an_order_are_as_far_apart_as_anything_can_be() {
        let whole = Distribution::new(vec![50, 50], true);
        assert!(near(whole.distance(&[(0, 4)]), 0.5));
        // Rank 0 stands for missing values, which this column does not have.
        let whole = Distribution::new(vec![0, 1, 99], true);
        assert!(near(whole.distance(&[(1, 1)]), 0.99));
    }

    #[test]
    fn unordered_values_are_all_equally_far_apart() {
        // ½ (|1 − ½| + |0 − ¼| + |0 − ¼|)
        let whole = Distribution::new(vec![4, 2, 2], false);
        assert!(near(whole.distance(&[(0, 3)]), 0.5));
        // ½ (|0 − ½| + |½ − ¼| + |½ − ¼|)
        assert!(near(whole.distance(&[(1, 1), (2, 1)]), 0.5));
    }

    #[test]
    fn the_risk_of_a_class_is_that_of_its_counts() {
        let whole = Distribution::new(vec![4, 4], false);
        let risk = ColumnRisk::of_class(&[(0, 3), (1, 1)], &whole);
        assert_eq!((risk.l, risk.alpha), (2, 0.75));
        let entropy = -(0.75f64 * 0.75f64.ln() + 0.25 * 0.25f64.ln());
        assert!(near(risk.entropy, entropy) && near(risk.t, 0.25));
    }

    #[test]
    fn every_measure_shows_the_worst_class() {
        let whole = Distribution::new(vec![3, 2], false);
        let class = |counts: &[ValueCount]| ColumnRisk::of_class(counts, &whole);
        let targets = Targets { k: Some(2), l: Some(2), ..Targets::default() };
        let mut risk = Risk::new(targets, 1);
        risk.add_class(3, [class(&[(0, 1), (1, 2)])], None);
        risk.add_class(2, [class(&[(0, 2)])], None);
        let measures = risk.measures();
        assert_eq!(found(&measures, "rows"), (Some(5.0), None));
        assert_eq!(found(&measures, "classes"), (Some(2.0), None));
        assert_eq!(found(&measures, "k"), (Some(2.0), Some(true)));
        assert_eq!(found(&measures, "largest_class"), (Some(3.0), None));
        assert_eq!(found(&measures, "average_class"), (Some(2.5), None));
        assert_eq!(found(&measures, "prosecutor_risk_max"), (Some(0.5), None));
        assert_eq!(found(&measures, "prosecutor_risk_average"), (Some(0.4), None));
        assert_eq!(found(&measures, "violating_classes"), (Some(1.0), Some(false)));
        assert_eq!(found(&measures, "violating_rows"), (Some(2.0), Some(false)));
        assert_eq!(found(&measures, "l"), (Some(1.0), Some(false)));
        assert_eq!(found(&measures, "entropy_l"), (Some(1.0), None));
        assert_eq!(found(&measures, "alpha"), (Some(1.0), None));
        assert!(found(&measures, "t").0.is_some_and(|t| near(t, 0.4)));
    }

    #[test]
    fn a_bound_met_exactly_holds() {
        let whole = Distribution::new(vec![2, 2, 2], false);
        let class = ColumnRisk::of_class(&[(0, 1), (1, 1), (2, 1)], &whole);
        let targets = Targets {
            entropy_l: Some(3.0),
            t: Some(0.0),
            alpha: Some(1.0 / 3.0),
            ..Targets::default()
        };
        assert!(class.meets(&targets));
        assert!(!class.meets(&Targets { entropy_l: Some(3.01), ..targets }));
    }

    #[test]
    fn an_empty_release_meets_no_target() {
        let targets = Targets { k: Some(2), t: Some(0.5), ..Targets::default() };
        let measures = Risk::new(targets, 1).measures();
        assert_eq!(found(&measures, "rows"), (Some(0.0), None));
        for name in ["k", "t", "violating_classes", "violating_rows"] {
            assert_eq!(found(&measures, name), (None, Some(false)), "{name}");
        }
        assert_eq!(found(&measures, "largest_class"), (None, None));
    }

    #[test]
    fn nothing_is_violated_where_nothing_was_asked() {
        let mut risk = Risk::new(Targets::default(), 0);
        risk.add_class(1, [], None);
        assert_eq!(found(&risk.measures(), "violating_rows"), (None, None));
        assert_eq!(found(&risk.measures(), "k"), (Some(1.0), None));
    }
}
