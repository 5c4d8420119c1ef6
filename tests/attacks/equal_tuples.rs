//! The attacker who compares rows of equal quasi-identifiers in two tables. Pure, so that the tests of the
//! method can turn the same attacker on weaker versions of it.

use std::collections::{HashMap, HashSet};

/// What a reader of both tables has.
#[derive(Debug, Clone)]
pub struct TwoTables {
    /// Quasi-identifiers of each row, numbered.
    pub tuple_of: Vec<u32>,
    /// Class of each row.
    pub class_of: Vec<usize>,
    /// The sensitive values of each class.
    pub values: Vec<Vec<u32>>,
}

/// How often somebody was right who names rows that have a value.
#[derive(Debug, Clone, Copy, Default)]
pub struct Score {
    pub named: usize,
    pub right: usize,
    /// How often a guess inside the same classes would be.
    pub chance: f64,
    variance: f64,
}

impl Score {
    /// Deviations from what chance would give.
    pub fn z(&self) -> f64 {
        (self.right as f64 - self.chance) / self.variance.sqrt().max(1e-9)
    }

    /// Right guesses for every one that chance would give.
    pub fn ratio(&self) -> f64 {
        self.right as f64 / self.chance
    }

    pub fn add(&mut self, other: Score) {
        self.named += other.named;
        self.right += other.right;
        self.chance += other.chance;
        self.variance += other.variance;
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Score { named, right, chance, .. } = self;
        let (ratio, z) = (self.ratio(), self.z());
        write!(
            f,
            "{right} of {named} named rightly, chance {chance:.0}, {ratio:.2} times, z {z:.1}"
        )
    }
}

impl TwoTables {
    /// The rows of each class.
    pub fn rows_of_classes(&self) -> Vec<Vec<usize>> {
        let mut rows = vec![Vec::new(); self.values.len()];
        for (row, class) in self.class_of.iter().enumerate() {
            rows[*class].push(row);
        }
        rows
    }

    /// The rows of each tuple.
    pub fn rows_of_tuples(&self) -> HashMap<u32, Vec<usize>> {
        let mut rows: HashMap<u32, Vec<usize>> = HashMap::new();
        for (row, tuple) in self.tuple_of.iter().enumerate() {
            rows.entry(*tuple).or_default().push(row);
        }
        rows
    }

    /// Classes that have a value.
    pub fn classes_with(&self, value: u32) -> Vec<usize> {
        (0..self.values.len()).filter(|class| self.values[*class].contains(&value)).collect()
    }

    /// In every class with a value, the row that a score speaks for most; no row where it speaks for none more
    /// than for another.
    pub fn name(&self, value: u32, score: impl Fn(usize) -> f64) -> Vec<usize> {
        let rows = self.rows_of_classes();
        let best = |class: usize| {
            let mut scores: Vec<(f64, usize)> =
                rows[class].iter().map(|row| (score(*row), *row)).collect();
            scores.sort_by(|a, b| b.0.total_cmp(&a.0));
            (scores.len() > 1 && scores[0].0 > scores[1].0).then_some(scores[0].1)
        };
        self.classes_with(value).into_iter().filter_map(best).collect()
    }

    /// How many of the rows named for a value have it.
    pub fn score(&self, value: u32, named: &[usize], truth: &[u32]) -> Score {
        let mut score = Score { named: named.len(), ..Score::default() };
        for row in named {
            let class = &self.values[self.class_of[*row]];
            let having = class.iter().filter(|other| **other == value).count();
            let chance = having as f64 / class.len() as f64;
            score.right += usize::from(truth[*row] == value);
            score.chance += chance;
            score.variance += chance * (1.0 - chance);
        }
        score
    }

    /// Names rows whose equals stand elsewhere.
    ///
    /// The rows of a rare value lead the first classes, those of others are spread over all. If equal tuples
    /// have one rank in every value, the companions of a rare row have their equals in classes with the rare
    /// value too, and the rare row itself has them anywhere. Looks at tuples of up to `copies` rows.
    pub fn displaced(&self, value: u32, copies: usize) -> Vec<usize> {
        let with: HashSet<usize> = self.classes_with(value).into_iter().collect();
        let tuples = self.rows_of_tuples();
        let is_with = |row: &&usize| with.contains(&self.class_of[**row]);
        let share = (0..self.tuple_of.len()).filter(|row| is_with(&row)).count() as f64;
        let share = (share / self.tuple_of.len() as f64).clamp(0.01, 0.99);
        // For a companion equals stand in such classes nearly always.
        let near: f64 = 0.9f64.max((1.0 + share) / 2.0);
        self.name(value, |row| {
            let equals = &tuples[&self.tuple_of[row]];
            if equals.len() > copies {
                return 0.0;
            }
            let others = equals.iter().filter(|other| self.class_of[**other] != self.class_of[row]);
            let inside = others.clone().filter(is_with).count() as f64;
            let outside = others.count() as f64 - inside;
            inside * (share / near).ln() + outside * ((1.0 - share) / (1.0 - near)).ln()
        })
    }
}
