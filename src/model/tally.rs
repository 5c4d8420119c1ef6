//! Whether a set of rows satisfies a requirement, kept up to date while rows are added.

use super::Grades;
use crate::error::{Error, Result};

use super::requirement::{Model, ROUNDING, Requirement, SensitiveColumn};

/// Counts of the sensitive values of a growing set of rows, one counter set per model.
///
/// Methods decide with it whether a set of rows may be a class. Only the counters that were touched are cleared, so
/// that a set of ten rows costs ten steps however large the domain is.
#[derive(Debug)]
pub struct Tally<'a> {
    requirement: &'a Requirement,
    sensitive: &'a [SensitiveColumn],
    global: &'a GlobalShares,
    counters: Vec<Counter>,
    rows: u32,
}

#[derive(Debug, Default)]
struct Counter {
    counts: Vec<u32>,
    touched: Vec<u32>,
    /// The largest of the counts. Rows are only ever added, so it can be kept up to date.
    largest: u32,
}

impl<'a> Tally<'a> {
    /// An empty set.
    pub fn new(
        requirement: &'a Requirement,
        sensitive: &'a [SensitiveColumn],
        global: &'a GlobalShares,
    ) -> Self {
        let counter = |model: &Model| {
            let counts = match model {
                Model::Graded { grades, .. } => grades.bins(),
                _ => sensitive[model.column()].cardinality as usize,
            };
            Counter { counts: vec![0; counts], ..Counter::default() }
        };
        let counters = requirement.models.iter().map(counter).collect();
        Self { requirement, sensitive, global, counters, rows: 0 }
    }

    /// Adds one row, by its number.
    pub fn add(&mut self, id: u32) {
        self.rows += 1;
        for (model, counter) in self.requirement.models.iter().zip(&mut self.counters) {
            let code = self.sensitive[model.column()].codes[id as usize];
            counter.add(model, code, 1);
        }
    }

    /// Adds many rows at once, by how often each code occurs in every sensitive column. Counts that fit no
    /// counter are halved together until they do.
    pub fn add_counted(&mut self, rows: u64, counts: &[Vec<(u32, u64)>]) {
        let halvings = (64 - rows.leading_zeros()).saturating_sub(31);
        let scaled = |count: u64| count.div_ceil(1 << halvings) as u32;
        self.rows += scaled(rows);
        for (model, counter) in self.requirement.models.iter().zip(&mut self.counters) {
            for (code, count) in &counts[model.column()] {
                if *count > 0 {
                    counter.add(model, *code, scaled(*count));
                }
            }
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.rows = 0;
        for counter in &mut self.counters {
            for code in counter.touched.drain(..) {
                counter.counts[code as usize] = 0;
            }
            counter.largest = 0;
        }
    }

    /// Errors unless the whole table, these rows, would be a valid class: if it is not, no way to divide it is valid.
    pub fn check_whole_table(&mut self, ids: impl ExactSizeIterator<Item = u32>) -> Result<()> {
        let (rows, k) = (ids.len(), self.requirement.k);
        if rows < k as usize {
            return Err(Error::TooFewRows { rows, k });
        }
        self.clear();
        ids.for_each(|id| self.add(id));
        match self.first_failure() {
            Some(requirement) => Err(Error::Unsatisfiable { requirement }),
            None => Ok(()),
        }
    }

    /// Whether exactly these rows could be a class.
    pub fn holds_for(&mut self, ids: impl Iterator<Item = u32>) -> bool {
        self.clear();
        ids.for_each(|id| self.add(id));
        self.holds()
    }

    /// Whether the rows added so far could be a class.
    pub fn holds(&mut self) -> bool {
        self.rows >= self.requirement.k && self.failing_model().is_none()
    }

    /// The first part of the requirement that the rows added so far do not meet.
    pub fn first_failure(&mut self) -> Option<String> {
        if self.rows < self.requirement.k {
            return Some(format!("k = {}", self.requirement.k));
        }
        let model = &self.requirement.models[self.failing_model()?];
        Some(format!("{model} on column '{}'", self.sensitive[model.column()].name))
    }

    /// The first model that the rows added so far do not meet.
    fn failing_model(&mut self) -> Option<usize> {
        let rows = f64::from(self.rows);
        let holds = |(model, counter): (&Model, &mut Counter)| match model {
            Model::Distinct { at_least, .. } => counter.touched.len() >= *at_least as usize,
            Model::Entropy { l, .. } => counter.entropy(rows) >= l.ln() - ROUNDING,
            Model::Share { alpha: most, .. } | Model::UnitShare { at_most: most, .. } => {
                f64::from(counter.largest) / rows <= most + ROUNDING
            }
            Model::Graded { grades, .. } => counter.keeps(grades, self.rows),
            Model::Closeness { t, .. } => {
                let shares = &self.global.columns[model.column()];
                let distance = match self.sensitive[model.column()].ordered {
                    true => counter.ordered_distance(rows, shares),
                    false => counter.equal_distance(rows, shares),
                };
                distance <= t + ROUNDING
            }
        };
        let mut checks = self.requirement.models.iter().zip(&mut self.counters).map(holds);
        checks.position(|holds| !holds)
    }
}

impl Counter {
    #[inline]
    fn add(&mut self, model: &Model, code: u32, rows: u32) {
        let code = match model {
            Model::Graded { grades, .. } => grades.bin(code),
            _ => code,
        };
        let count = &mut self.counts[code as usize];
        if *count == 0 {
            self.touched.push(code);
        }
        *count += rows;
        self.largest = self.largest.max(*count);
    }

    fn entropy(&mut self, rows: f64) -> f64 {
        // Summed in code order: the order rows came in must not change the last digit.
        self.touched.sort_unstable();
        let shares = self.touched.iter().map(|code| f64::from(self.counts[*code as usize]) / rows);
        -shares.map(|share| share * share.ln()).sum::<f64>()
    }

    fn keeps(&self, grades: &Grades, rows: u32) -> bool {
        self.touched
            .iter()
            .all(|bin| grades.allows(grades.bin_level(*bin), self.counts[*bin as usize], rows))
    }

    /// Earth mover's distance when all values are equally far apart: the mass in excess.
    fn equal_distance(&mut self, rows: f64, global: &Shares) -> f64 {
        self.touched.sort_unstable();
        let excess = self.touched.iter().map(|code| {
            let here = f64::from(self.counts[*code as usize]) / rows;
            (here - global.share(*code)).max(0.0)
        });
        excess.sum()
    }

    /// Earth mover's distance over ranks: the mean gap between the two cumulative distributions.
    ///
    /// Between two values that occur here the own cumulative share is constant, so the gap to the
    /// table's is summed from prefix sums, split where the table's share overtakes it.
    fn ordered_distance(&mut self, rows: f64, global: &Shares) -> f64 {
        let values = global.cumulative.len();
        if values < 2 {
            return 0.0;
        }
        self.touched.sort_unstable();
        let (mut total, mut own, mut from) = (0.0, 0.0, 0usize);
        for code in &self.touched {
            total += global.gap(from, *code as usize, own);
            own += f64::from(self.counts[*code as usize]) / rows;
            from = *code as usize;
        }
        total += global.gap(from, values, own);
        total / (values - 1) as f64
    }
}

/// Distribution of every sensitive column over the whole table, made once per release.
#[derive(Debug)]
pub struct GlobalShares {
    columns: Vec<Shares>,
}

#[derive(Debug, Default)]
struct Shares {
    /// Share of the rows with this code or a smaller one.
    cumulative: Vec<f64>,
    /// Sums of `cumulative` over all smaller codes.
    summed: Vec<f64>,
}

impl GlobalShares {
    /// Counts the columns that some closeness model looks at.
    pub fn new(requirement: &Requirement, sensitive: &[SensitiveColumn]) -> Self {
        let shares = |(index, column): (usize, &SensitiveColumn)| {
            let population = requirement.models.iter().find_map(|model| match model {
                Model::Closeness { column, population, .. } if *column == index => Some(population),
                _ => None,
            });
            match population {
                None => Shares::default(),
                Some(None) => Shares::of_rows(column),
                Some(Some(counts)) => Shares::new(counts),
            }
        };
        Self { columns: sensitive.iter().enumerate().map(shares).collect() }
    }
}

impl Shares {
    fn of_rows(column: &SensitiveColumn) -> Self {
        let mut counts = vec![0u64; column.cardinality as usize];
        for code in &column.codes {
            counts[*code as usize] += 1;
        }
        Self::new(&counts)
    }

    fn new(counts: &[u64]) -> Self {
        let rows = counts.iter().sum::<u64>().max(1) as f64;
        let (mut count, mut sum) = (0u64, 0.0);
        let mut shares = Self::default();
        for in_code in counts {
            shares.summed.push(sum);
            count += *in_code;
            let cumulative = count as f64 / rows;
            shares.cumulative.push(cumulative);
            sum += cumulative;
        }
        shares.summed.push(sum);
        shares
    }

    fn share(&self, code: u32) -> f64 {
        let code = code as usize;
        let below = if code == 0 { 0.0 } else { self.cumulative[code - 1] };
        self.cumulative[code] - below
    }

    /// Sum over the codes `from..to` of |own − cumulative share of the table|.
    fn gap(&self, from: usize, to: usize, own: f64) -> f64 {
        let overtakes = from + self.cumulative[from..to].partition_point(|share| *share < own);
        let sum = |range: std::ops::Range<usize>| self.summed[range.end] - self.summed[range.start];
        let below = own * (overtakes - from) as f64 - sum(from..overtakes);
        let above = sum(overtakes..to) - own * (to - overtakes) as f64;
        below + above
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::AlphaScope;

    fn column(codes: &[u32], ordered: bool) -> Vec<SensitiveColumn> {
        vec![SensitiveColumn::of_values(codes, ordered)]
    }

    fn holds(model: Model, sensitive: &[SensitiveColumn], ids: &[u32]) -> bool {
        let requirement = Requirement { k: 1, models: vec![model] };
        let global = GlobalShares::new(&requirement, sensitive);
        Tally::new(&requirement, sensitive, &global).holds_for(ids.iter().copied())
    }

    #[test]
    fn distinct_values_are_counted() {
        let sensitive = column(&[0, 0, 1, 2], false);
        let model = Model::Distinct { column: 0, at_least: 2, unit: false };
        assert!(!holds(model.clone(), &sensitive, &[0, 1]));
        assert!(holds(model, &sensitive, &[0, 1, 2]));
    }

    #[test]
    fn entropy_of_an_even_pair_is_exactly_two() {
        let sensitive = column(&[0, 0, 1, 1], false);
        let model = |l| Model::Entropy { column: 0, l };
        assert!(holds(model(2.0), &sensitive, &[0, 1, 2, 3]));
        assert!(!holds(model(2.01), &sensitive, &[0, 1, 2, 3]));
        assert!(!holds(model(2.0), &sensitive, &[0, 1, 2]));
    }

    #[test]
    fn a_share_may_reach_alpha_and_not_pass_it() {
        let sensitive = column(&[0, 1, 2, 0], false);
        let model = |alpha| Model::Share { column: 0, alpha };
        assert!(holds(model(0.5), &sensitive, &[0, 1, 2, 3]));
        assert!(!holds(model(0.49), &sensitive, &[0, 1, 2, 3]));
    }

    #[test]
    fn graded_shares_bound_each_value_or_the_whole_level() {
        // Two values of level 1 and two of level 2, one row each.
        let sensitive = column(&[0, 1, 2, 3], false);
        let keeps = |alphas: [f64; 2], scope| {
            let grades = Grades::new(vec![1, 1, 2, 2], alphas.to_vec(), scope);
            let grades = Arc::new(grades.unwrap_or_else(|_| unreachable!()));
            holds(Model::Graded { column: 0, grades }, &sensitive, &[0, 1, 2, 3])
        };
        assert!(keeps([0.25, 0.5], AlphaScope::Value));
        assert!(!keeps([0.24, 0.5], AlphaScope::Value));
        assert!(!keeps([0.25, 0.5], AlphaScope::Level));
        assert!(keeps([0.5, 0.5], AlphaScope::Level));
    }

    // Li et al., "t-Closeness", section 4: salaries 3k..11k in nine rows; the class {3k,4k,5k} has
    // distance 0.375 and the class {6k,8k,11k} has distance 0.167.
    #[test]
    fn ordered_distance_is_that_of_the_t_closeness_paper() {
        let salaries: Vec<u32> = (0..9).collect();
        let sensitive = column(&salaries, true);
        let model = |t| Model::Closeness { column: 0, t, population: None };
        assert!(holds(model(0.3751), &sensitive, &[0, 1, 2]));
        assert!(!holds(model(0.3749), &sensitive, &[0, 1, 2]));
        assert!(holds(model(0.1667), &sensitive, &[3, 5, 8]));
        assert!(!holds(model(0.1665), &sensitive, &[3, 5, 8]));
    }

    #[test]
    fn unordered_distance_is_half_the_summed_differences() {
        let sensitive = column(&[0, 0, 1, 1], false);
        let model = |t| Model::Closeness { column: 0, t, population: None };
        assert!(holds(model(0.5), &sensitive, &[0, 1]));
        assert!(!holds(model(0.49), &sensitive, &[0, 1]));
        assert!(holds(model(0.0), &sensitive, &[0, 2]));
    }

    #[test]
    fn a_part_of_a_table_is_compared_with_the_whole() {
        // The rows at hand are evenly spread, the whole table is not.
        let sensitive = column(&[0, 1], false);
        let model = |t| Model::Closeness { column: 0, t, population: Some(Arc::from([3, 1])) };
        assert!(holds(model(0.25), &sensitive, &[0, 1]));
        assert!(!holds(model(0.24), &sensitive, &[0, 1]));
    }

    #[test]
    fn counted_rows_are_the_same_as_rows() {
        let sensitive = column(&[0, 0, 1, 2], false);
        for (l, holds) in [(2.0, true), (3.0, false)] {
            let requirement = Requirement { k: 4, models: vec![Model::Entropy { column: 0, l }] };
            let global = GlobalShares::new(&requirement, &sensitive);
            let mut tally = Tally::new(&requirement, &sensitive, &global);
            assert_eq!(tally.holds_for(0..4), holds);
            for factor in [1, 1 << 40] {
                tally.clear();
                let counts = [(0, 2 * factor), (1, factor), (2, factor)];
                tally.add_counted(4 * factor, &[counts.to_vec()]);
                assert_eq!(tally.holds(), holds);
            }
        }
    }

    #[test]
    fn one_person_holds_no_more_than_the_share() {
        let persons = column(&[0, 0, 0, 1, 2], false);
        let model = |at_most| Model::UnitShare { column: 0, at_most };
        assert!(holds(model(0.6), &persons, &[0, 1, 2, 3, 4]));
        assert!(!holds(model(0.59), &persons, &[0, 1, 2, 3, 4]));
        let requirement = Requirement { k: 2, models: vec![model(0.5)] };
        let global = GlobalShares::new(&requirement, &persons);
        let mut tally = Tally::new(&requirement, &persons, &global);
        assert!(!tally.holds_for([0, 1, 2, 3].into_iter()));
        // The largest share of the rows before is forgotten.
        assert!(tally.holds_for([2, 3].into_iter()));
        assert_eq!(
            tally.check_whole_table([0, 1, 2, 3, 4].into_iter()),
            Err(Error::Unsatisfiable { requirement: "unit_share = 0.5 on column 's'".to_owned() })
        );
    }

    #[test]
    fn clearing_forgets_everything() {
        let sensitive = column(&[0, 1], false);
        let requirement = Requirement {
            k: 1,
            models: vec![Model::Distinct { column: 0, at_least: 2, unit: false }],
        };
        let global = GlobalShares::new(&requirement, &sensitive);
        let mut tally = Tally::new(&requirement, &sensitive, &global);
        assert!(tally.holds_for([0, 1].into_iter()));
        assert!(!tally.holds_for([0, 0].into_iter()));
    }
}
