//! How sensitive each value of a sensitive column is, and what share of a class it may hold.

use std::fmt;

use super::requirement::ROUNDING;
use crate::error::{Error, Result};

/// The most levels of sensitivity a column can have.
pub const MAX_LEVELS: usize = 64;

/// What must not pass the share of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum AlphaScope {
    /// Each value of the level on its own.
    #[default]
    Value,
    /// All values of the level together.
    Level,
}

/// Levels of sensitivity: 1 is the most sensitive, λ the least, and level i has a share αᵢ.
///
/// Shares are bounded per **bin**: a bin is one value or one whole level, as the scope says.
///
/// ```
/// use datafusion_anonymize::{AlphaScope, Grades};
/// // Two values of level 1 and one of level 2.
/// let grades = Grades::new(vec![1, 1, 2], vec![0.25, 0.5], AlphaScope::Value)?;
/// assert_eq!(grades.levels(), 2);
/// assert!(grades.allows(1, 1, 4));
/// assert!(!grades.allows(1, 1, 3));
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Grades {
    level_of: Vec<u32>,
    alphas: Vec<f64>,
    scope: AlphaScope,
}

impl Grades {
    /// The level of each code, from 1 to the number of shares, and the share of each level.
    ///
    /// Level 0 stands for a value that was given none; such values are counted in the error.
    pub fn new(level_of: Vec<u32>, alphas: Vec<f64>, scope: AlphaScope) -> Result<Self> {
        let levels = alphas.len();
        if !(1..=MAX_LEVELS).contains(&levels) {
            return Err(Error::invalid(format!(
                "alpha lists {levels} levels: give between 1 and {MAX_LEVELS} shares"
            )));
        }
        if let Some(alpha) = alphas.iter().find(|alpha| !(**alpha > 0.0 && **alpha <= 1.0)) {
            return Err(Error::invalid(format!(
                "alpha = {alpha} is not a share: write numbers above 0 and at most 1"
            )));
        }
        let outside = |level: &&u32| !(1..=levels).contains(&(**level as usize));
        match level_of.iter().filter(outside).count() {
            0 => Ok(Self { level_of, alphas, scope }),
            count => Err(Error::invalid(format!(
                "sensitive values without a level between 1 and {levels}: {count}; give every value of \
                 the column a level, and every level an alpha"
            ))),
        }
    }

    /// One level for all of `values` values: plain alpha.
    pub fn one_level(values: u32, alpha: f64) -> Result<Self> {
        Self::new(vec![1; values as usize], vec![alpha], AlphaScope::Value)
    }

    /// Number of levels, λ.
    pub fn levels(&self) -> u32 {
        self.alphas.len() as u32
    }

    /// Number of codes that have a level.
    pub fn values(&self) -> usize {
        self.level_of.len()
    }

    /// Level of a code, from 1.
    pub fn level(&self, code: u32) -> u32 {
        self.level_of[code as usize]
    }

    /// The share of a level.
    pub fn alpha(&self, level: u32) -> f64 {
        self.alphas[level as usize - 1]
    }

    /// What the shares bound.
    pub fn scope(&self) -> AlphaScope {
        self.scope
    }

    /// Whether a bin of this level may have `count` of the `rows` rows of a class.
    #[inline]
    pub fn allows(&self, level: u32, count: u32, rows: u32) -> bool {
        f64::from(count) / f64::from(rows) <= self.alpha(level) + ROUNDING
    }

    /// The most rows a bin of this level may have in a class of `rows` rows.
    pub fn most(&self, level: u32, rows: u32) -> u32 {
        let guess = ((self.alpha(level) + ROUNDING) * f64::from(rows)) as u32;
        let mut most = guess.min(rows);
        // The product and the quotient may round differently; the quotient decides.
        while most > 0 && !self.allows(level, most, rows) {
            most -= 1;
        }
        while most < rows && self.allows(level, most + 1, rows) {
            most += 1;
        }
        most
    }

    /// The fewest rows of a class in which a bin of this level may have one.
    pub fn fewest(&self, level: u32) -> u32 {
        let mut rows = (1.0 / (self.alpha(level) + ROUNDING)).ceil().max(1.0) as u32;
        while rows > 1 && self.allows(level, 1, rows - 1) {
            rows -= 1;
        }
        while !self.allows(level, 1, rows) {
            rows += 1;
        }
        rows
    }

    /// Number of bins.
    pub(super) fn bins(&self) -> usize {
        match self.scope {
            AlphaScope::Value => self.level_of.len(),
            AlphaScope::Level => self.alphas.len(),
        }
    }

    /// The bin of a code.
    #[inline]
    pub(super) fn bin(&self, code: u32) -> u32 {
        match self.scope {
            AlphaScope::Value => code,
            AlphaScope::Level => self.level(code) - 1,
        }
    }

    /// The level of a bin.
    #[inline]
    pub(super) fn bin_level(&self, bin: u32) -> u32 {
        match self.scope {
            AlphaScope::Value => self.level(bin),
            AlphaScope::Level => bin + 1,
        }
    }
}

impl fmt::Debug for Grades {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grades({} values, {self})", self.level_of.len())
    }
}

/// The shares and what they bound; never a value.
impl fmt::Display for Grades {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("alpha = [")?;
        for (index, alpha) in self.alphas.iter().enumerate() {
            write!(f, "{}{alpha}", if index == 0 { "" } else { ", " })?;
        }
        match self.scope {
            AlphaScope::Value => f.write_str("] by level, for each value"),
            AlphaScope::Level => f.write_str("] by level, for all values of a level together"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_a_level_are_counted_and_not_shown() {
        let outcome = Grades::new(vec![1, 0, 3, 2], vec![0.3, 0.5], AlphaScope::Value);
        let message = outcome.map(|_| ()).map_err(|error| error.to_string());
        assert!(message.is_err_and(|message| {
            message.starts_with("sensitive values without a level between 1 and 2: 2;")
        }));
    }

    #[test]
    fn shares_outside_zero_to_one_are_refused() {
        for alphas in [vec![0.0], vec![1.1], vec![f64::NAN], vec![], vec![0.5; MAX_LEVELS + 1]] {
            assert!(matches!(
                Grades::new(vec![1], alphas, AlphaScope::Value),
                Err(Error::Invalid(_))
            ));
        }
    }

    #[test]
    fn most_and_fewest_agree_with_allows() {
        let alphas: Vec<f64> = vec![0.001, 0.1, 0.2, 0.3, 1.0 / 3.0, 0.34, 0.5, 0.7, 0.999, 1.0];
        let grades =
            Grades::new(vec![], alphas, AlphaScope::Value).unwrap_or_else(|_| unreachable!());
        for level in 1..=grades.levels() {
            let fewest = grades.fewest(level);
            assert!(grades.allows(level, 1, fewest));
            assert!(fewest == 1 || !grades.allows(level, 1, fewest - 1));
            for rows in 1..200 {
                let most = grades.most(level, rows);
                assert!(most == 0 || grades.allows(level, most, rows));
                assert!(most == rows || !grades.allows(level, most + 1, rows));
            }
        }
    }
}
