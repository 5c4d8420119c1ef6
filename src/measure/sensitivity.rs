//! Sensitivity distance: how far apart in level the sensitive values of a class are.
//!
//! For a class of q rows with levels L, `Ds = Σ_{i<j} W_{max(Li,Lj)}·|Li−Lj| / (q(q−1)/2)`, and
//! divided by λ−1 to lie in 0…1. The (αᵢ,k) paper (see [`alpha_k`](crate::method::alpha_k)) defines the divided form
//! and prints worked values of the other; reports give both. Its figure for a release is the mean over the classes
//! that have a value of its two most sensitive levels.

/// Weights of the levels 2 to λ: a pair of rows counts with that of its less sensitive level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelWeights(Vec<f64>);

impl LevelWeights {
    /// Weights from 0.85 for level 2 to 1 for level λ in even steps; for five levels the paper's.
    pub fn even(levels: u32) -> Self {
        let steps = levels.saturating_sub(2);
        let weight = |step: u32| 1.0 - 0.15 * f64::from(steps - step) / f64::from(steps.max(1));
        Self(if levels < 2 { Vec::new() } else { (0..=steps).map(weight).collect() })
    }

    /// Ds of a class before the division by λ−1, from the number of its rows on each level.
    ///
    /// ```
    /// use datafusion_anonymize::pure::measure::LevelWeights;
    /// // The paper's example: levels (1, 2, 3, 3) of five.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn distances_are_those_the_paper_works_out() {
        let weights = LevelWeights(vec![0.85, 0.9, 0.95, 1.0]);
        assert!((weights.class_distance(&[1, 1, 2, 0, 0]) - 6.25 / 6.0).abs() < 1e-12);
        assert!((weights.class_distance(&[0, 0, 1, 1, 2]) - 6.95 / 6.0).abs() < 1e-12);
        assert!(weights.0.iter().zip(&LevelWeights::even(5).0).all(|(a, b)| (a - b).abs() < 1e-12));
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
