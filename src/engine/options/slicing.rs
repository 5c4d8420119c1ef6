//! Options of the slicing methods.

use super::{Options, in_range};
use crate::association::MAX_SET;
use crate::engine::options::SlicingSpec;
use crate::error::{Error, Result};
use crate::method::slicing::least_groups;
use crate::method::{Family, MethodRef, Variant};
use crate::model::MAX_QUASI_IDENTIFIERS;

impl Options {
    /// The options of a slicing method, `None` for any other.
    pub(super) fn checked_slicing(
        &self,
        method: MethodRef,
        variant: Variant,
    ) -> Result<Option<SlicingSpec>> {
        if method.family() != Family::Slices {
            return Ok(None);
        }
        let max_columns = self.checked_max_columns()?;
        let min_columns = whole("min_columns", self.min_columns, 2, 1..=max_columns as i64)?;
        let attributes = self.quasi_identifiers.len() as i64 + 1;
        if attributes > MAX_QUASI_IDENTIFIERS as i64 {
            return Err(Error::invalid(format!(
                "option 'quasi_identifiers': {} columns are more than the {} that a sliced release can have",
                attributes - 1,
                MAX_QUASI_IDENTIFIERS - 1
            )));
        }
        let fewest = match variant {
            Variant::Best => 1 + least_groups(attributes as usize - 1, max_columns) as i64,
            Variant::Paper => 2,
        };
        let columns = match self.columns {
            Some(columns) => Some(whole("columns", Some(columns), 2, fewest..=attributes)?),
            None => None,
        };
        Ok(Some(SlicingSpec {
            columns,
            max_columns,
            min_columns,
            min_support: self.checked_min_support()?,
            min_confidence: self.checked_min_confidence()?,
            rare_below: in_range("rare_below", self.rare_below, 0.0..=1.0)?.unwrap_or(0.0),
            column_groups: self.column_groups.unwrap_or(false),
            sensitive_hierarchy: None,
        }))
    }

    /// What a slicing method needs.
    pub(super) fn check_sliced(&self, method: MethodRef) -> Result<()> {
        if self.sensitive.len() != 1 {
            return Err(Error::invalid(format!(
                "method '{method}' breaks the link to one sensitive column and {} are listed: write \
                 sensitive => ['…'], and make the others quasi_identifiers or keep",
                self.sensitive.len()
            )));
        }
        if self.l.is_none() {
            return Err(Error::invalid(format!(
                "method '{method}' needs option 'l': nobody shall name a sensitive value with a \
                 chance above 1/l; write l => 3"
            )));
        }
        Ok(())
    }

    /// Whether a report shall look at associations.
    pub(in crate::engine) fn asks_for_associations(&self) -> bool {
        self.min_support.is_some() || self.min_confidence.is_some() || self.max_columns.is_some()
    }

    /// The share of all rows that an association needs.
    pub(in crate::engine) fn checked_min_support(&self) -> Result<f64> {
        Ok(in_range("min_support", self.min_support, f64::MIN_POSITIVE..=1.0)?.unwrap_or(0.2))
    }

    /// How often the rule of an association holds.
    pub(in crate::engine) fn checked_min_confidence(&self) -> Result<f64> {
        Ok(in_range("min_confidence", self.min_confidence, 0.0..=1.0)?.unwrap_or(0.8))
    }

    /// The most attributes of an association.
    pub(in crate::engine) fn checked_max_columns(&self) -> Result<usize> {
        whole("max_columns", self.max_columns, 4, 2..=MAX_SET as i64)
    }
}

fn whole(
    option: &str,
    value: Option<i64>,
    default: usize,
    range: std::ops::RangeInclusive<i64>,
) -> Result<usize> {
    let (start, end) = (*range.start(), *range.end());
    match value {
        None => Ok(default.clamp(start as usize, end.max(start) as usize)),
        Some(value) if range.contains(&value) => Ok(value as usize),
        Some(value) => Err(Error::invalid(format!(
            "option '{option}': {value} is not between {start} and {end}"
        ))),
    }
}
