//! Sensitivity distance: how far apart in level the sensitive values of a class are.
//!
//! For a class of q rows with levels L, `Ds = Σ_{i<j} W_{max(Li,Lj)}·|Li−Lj| / (q(q−1)/2)`, and
//! divided by λ−1 to lie in 0…1. Paper P4 defines the divided form and prints worked values of the
//! other; both are given here. The paper's figure for a release is the mean over the classes that
//! have a value of its two most sensitive levels.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::model::{Classes, Grades, RowTable, SensitiveColumn};

/// Weights of the levels 2 to λ: a pair of rows counts with that of its less sensitive level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelWeights(Vec<f64>);

impl LevelWeights {
    /// The weights of levels 2, 3, … λ.
    pub fn new(weights: Vec<f64>) -> Result<Self> {
        if weights.iter().any(|weight| !weight.is_finite() || *weight < 0.0) {
            return Err(Error::invalid("weights of levels must be numbers of at least 0"));
        }
        Ok(Self(weights))
    }

    /// Weights from 0.85 for level 2 to 1 for level λ in even steps; for five levels the paper's.
    pub fn even(levels: u32) -> Self {
        let steps = levels.saturating_sub(2);
        let weight = |step: u32| 1.0 - 0.15 * f64::from(steps - step) / f64::from(steps.max(1));
        Self(if levels < 2 { Vec::new() } else { (0..=steps).map(weight).collect() })
    }

    /// Number of levels, λ.
    pub fn levels(&self) -> u32 {
        self.0.len() as u32 + 1
    }

    /// Ds of a class before the division by λ−1, from the number of its rows on each level.
    ///
    /// ```
    /// use datafusion_anonymize::measure::LevelWeights;
    /// // Paper P4: levels (1, 2, 3, 3) of five.
    /// let distance = LevelWeights::even(5).class_distance(&[1, 1, 2]);
    /// assert!((distance - 1.042).abs() < 5e-4);
    /// ```
    pub fn class_distance(&self, rows_on_level: &[u64]) -> f64 {
        let rows: u64 = rows_on_level.iter().sum();
        if rows < 2 {
            return 0.0;
        }
        // Rows on the levels passed, and the steps from them all to the level at hand.
        let (mut passed, mut steps, mut total) = (0u64, 0u64, 0.0);
        for (index, here) in rows_on_level.iter().enumerate() {
            steps += passed;
            if index > 0 {
                let weight = self.0.get(index - 1).copied().unwrap_or(1.0);
                total += weight * *here as f64 * steps as f64;
            }
            passed += here;
        }
        total / (rows as f64 * (rows - 1) as f64 / 2.0)
    }
}

/// Mean sensitivity distance over classes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SensitivityDistance {
    /// Classes that were counted.
    pub classes: usize,
    /// Mean weighted distance of two rows, in levels.
    pub in_levels: f64,
    /// The same divided by λ−1: from 0 to 1.
    pub normalized: f64,
}

/// Mean Ds of the classes that have a value of the `most_sensitive` first levels (2 in the paper).
///
/// Rows must be in class order. There must be a weight for every level.
pub fn sensitivity_distance(
    rows: &RowTable,
    classes: &Classes,
    column: &SensitiveColumn,
    (grades, weights): (&Grades, &LevelWeights),
    most_sensitive: u32,
) -> Result<SensitivityDistance> {
    let levels = grades.levels();
    if weights.levels() != levels {
        return Err(Error::invalid(format!(
            "weights are given for {} levels, but there are {levels}",
            weights.levels()
        )));
    }
    let distance = |class: usize| {
        let mut on_level = vec![0u64; levels as usize];
        for at in classes.range(class) {
            let code = column.codes[rows.id_at(at) as usize];
            on_level[grades.level(code) as usize - 1] += 1;
        }
        let sensitive = on_level.iter().take(most_sensitive as usize).any(|rows| *rows > 0);
        sensitive.then(|| weights.class_distance(&on_level))
    };
    // Collected and then summed in order, so that the figure does not depend on threads.
    let distances: Vec<f64> = (0..classes.len()).into_par_iter().filter_map(distance).collect();
    let in_levels = distances.iter().sum::<f64>() / distances.len().max(1) as f64;
    let normalized = in_levels / f64::from(levels.saturating_sub(1).max(1));
    Ok(SensitivityDistance { classes: distances.len(), in_levels, normalized })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AlphaScope;
    use proptest::prelude::*;

    #[test]
    fn p4_worked_distances() {
        let weights = LevelWeights::new(vec![0.85, 0.9, 0.95, 1.0]);
        let weights = weights.unwrap_or_else(|_| unreachable!());
        assert!((weights.class_distance(&[1, 1, 2, 0, 0]) - 6.25 / 6.0).abs() < 1e-12);
        assert!((weights.class_distance(&[0, 0, 1, 1, 2]) - 6.95 / 6.0).abs() < 1e-12);
        assert!(weights.0.iter().zip(&LevelWeights::even(5).0).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    #[test]
    fn a_release_counts_only_classes_with_sensitive_values() {
        // Classes (1, 2, 3, 3) and (3, 4, 5, 5) of levels, in codes one less.
        let codes = vec![0, 1, 2, 2, 2, 3, 4, 4];
        let column = SensitiveColumn {
            name: "s".into(),
            codes: codes.into(),
            cardinality: 5,
            ordered: false,
        };
        let grades = Grades::new(vec![1, 2, 3, 4, 5], vec![0.5; 5], AlphaScope::Value);
        let grades = grades.unwrap_or_else(|_| unreachable!());
        let rows = RowTable::from_codes(&[[0u32]; 8]).unwrap_or_else(|| unreachable!());
        let classes = Classes::from_sizes(&[4, 4]).unwrap_or_default();
        let weights = LevelWeights::even(5);
        let mean = |most_sensitive| {
            sensitivity_distance(&rows, &classes, &column, (&grades, &weights), most_sensitive)
                .unwrap_or_default()
        };
        assert_eq!(mean(2).classes, 1);
        assert!((mean(2).in_levels - 6.25 / 6.0).abs() < 1e-12);
        assert!((mean(2).normalized - 6.25 / 24.0).abs() < 1e-12);
        assert!((mean(5).in_levels - 13.2 / 12.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_sum_over_levels_is_the_sum_over_pairs(levels in prop::collection::vec(0usize..6, 2..30)) {
            let weights = LevelWeights::even(6);
            let mut on_level = [0u64; 6];
            levels.iter().for_each(|level| on_level[*level] += 1);
            let mut total = 0.0;
            for (i, a) in levels.iter().enumerate() {
                for b in &levels[i + 1..] {
                    if a != b {
                        total += weights.0[a.max(b) - 1] * a.abs_diff(*b) as f64;
                    }
                }
            }
            let pairs = (levels.len() * (levels.len() - 1) / 2) as f64;
            prop_assert!((weights.class_distance(&on_level) - total / pairs).abs() < 1e-9);
        }
    }
}
