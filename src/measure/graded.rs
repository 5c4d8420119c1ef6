//! Shares of sensitive values by their level of sensitivity, from counts of what was published.

use super::Measure;
use super::risk::{Distribution, ROUNDING, ValueCount};
use crate::error::{Error, Result};
use crate::model::AlphaScope;

/// Levels of sensitivity for the ranks of a sensitive column.
#[derive(Debug, Clone, PartialEq)]
pub struct RankLevels {
    /// From 1, the most sensitive; 0 for ranks that do not occur.
    level_of: Vec<u32>,
    /// The share of each level.
    alphas: Vec<f64>,
    scope: AlphaScope,
}

impl RankLevels {
    /// The level of every rank, 0 for none. Errors if a rank that occurs has no level with a share.
    pub fn new(
        mut level_of: Vec<u32>,
        alphas: Vec<f64>,
        scope: AlphaScope,
        whole: &Distribution,
    ) -> Result<Self> {
        level_of.resize(whole.ranks().max(level_of.len()), 0);
        let mut without = 0;
        for (rank, level) in level_of.iter_mut().enumerate() {
            if whole.rows_of(rank) == 0 {
                *level = 0;
            } else if !(1..=alphas.len()).contains(&(*level as usize)) {
                without += 1;
            }
        }
        if without > 0 {
            return Err(Error::invalid(format!(
                "sensitive values without a level between 1 and {}: {without}; give every value of the \
                 column a level, and every level an alpha",
                alphas.len()
            )));
        }
        Ok(Self { level_of, alphas, scope })
    }

    /// Number of levels.
    pub fn levels(&self) -> usize {
        self.alphas.len()
    }

    /// Rows of a class on each level.
    pub fn rows_on_level(&self, class: &[ValueCount]) -> Vec<u64> {
        let mut rows = vec![0; self.alphas.len()];
        for (rank, count) in class {
            if let Some(rows) = self.place(*rank).and_then(|place| rows.get_mut(place)) {
                *rows += count;
            }
        }
        rows
    }

    /// The largest share on each level: of one value, or of all values of the level together.
    fn shares(&self, class: &[ValueCount]) -> Vec<f64> {
        let rows = class.iter().map(|(_, count)| count).sum::<u64>().max(1) as f64;
        let most = match self.scope {
            AlphaScope::Level => self.rows_on_level(class),
            AlphaScope::Value => {
                let mut most = vec![0; self.alphas.len()];
                for (rank, count) in class {
                    if let Some(most) = self.place(*rank).and_then(|place| most.get_mut(place)) {
                        *most = (*most).max(*count);
                    }
                }
                most
            }
        };
        most.into_iter().map(|count| count as f64 / rows).collect()
    }

    fn place(&self, rank: u32) -> Option<usize> {
        (self.level_of.get(rank as usize).copied()? as usize).checked_sub(1)
    }
}

/// The largest shares of a release by level.
#[derive(Debug, Clone)]
pub(super) struct GradedRisk {
    levels: RankLevels,
    worst: Vec<f64>,
}

impl GradedRisk {
    pub(super) fn new(levels: RankLevels) -> Self {
        Self { worst: vec![0.0; levels.levels()], levels }
    }

    /// `alpha_1`, `alpha_2`, …: the largest share on each level.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let shares = self.worst.iter().zip(&self.levels.alphas);
        let measure = |(level, (share, alpha)): (usize, (&f64, &f64))| {
            Measure::of_table(format!("alpha_{}", level + 1), Some(*share))
                .against(Some(*alpha), *share <= alpha + ROUNDING)
                .of_column(0)
        };
        shares.enumerate().map(measure).collect()
    }

    /// Takes in a class; whether it keeps every share.
    pub(super) fn add(&mut self, class: &[ValueCount]) -> bool {
        let shares = self.levels.shares(class);
        let keeps = shares.iter().zip(&self.levels.alphas).all(|(s, a)| *s <= a + ROUNDING);
        for (worst, share) in self.worst.iter_mut().zip(shares) {
            *worst = worst.max(share);
        }
        keeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{ColumnRisk, Risk, Targets};

    #[test]
    fn shares_are_found_by_level() -> Result<()> {
        // Ranks 1 and 2 on level 1, rank 3 on level 2; nothing is missing.
        let whole = Distribution::new(vec![0, 3, 3, 4], false);
        let levels = |scope| RankLevels::new(vec![0, 1, 1, 2], vec![0.4, 0.6], scope, &whole);
        let alphas = |scope| -> Result<Vec<(f64, Option<bool>)>> {
            let mut risk = Risk::new(Targets::default(), 1);
            risk.grade(levels(scope)?);
            for class in [[(1, 2), (2, 1), (3, 2)], [(1, 1), (2, 2), (3, 2)]] {
                risk.add_class(5, [ColumnRisk::of_class(&class, &whole)], Some(&class));
            }
            let measures = risk.measures();
            Ok(["alpha_1", "alpha_2"]
                .map(|name| {
                    let found = measures.iter().find(|measure| measure.name == name);
                    let value = found.and_then(|measure| measure.value);
                    (value.unwrap_or(f64::NAN), found.and_then(|measure| measure.holds))
                })
                .to_vec())
        };
        assert_eq!(alphas(AlphaScope::Value)?, [(0.4, Some(true)), (0.4, Some(true))]);
        assert_eq!(alphas(AlphaScope::Level)?, [(0.6, Some(false)), (0.4, Some(true))]);
        let missing_level = RankLevels::new(vec![0, 1, 1], vec![0.4], AlphaScope::Value, &whole);
        assert!(missing_level.is_err_and(|error| error.to_string().contains(": 1;")));
        Ok(())
    }
}
