//! Which options go with which method.

use super::Options;
use crate::columnar::Ranges;
use crate::engine::options::Suppress;
use crate::error::{Error, Result};
use crate::method::{Family, MethodOption, MethodRef, Variant};

impl Options {
    /// Errors if an option does not go with the method, or if one that the method needs is missing.
    pub(super) fn check_fit(
        &self,
        method: MethodRef,
        variant: Variant,
        ranges: Ranges,
    ) -> Result<()> {
        let is_given = |option: &MethodOption| self.is_given(*option, variant, ranges);
        let given: Vec<MethodOption> = MethodOption::ALL.iter().copied().filter(is_given).collect();
        method.check(&given)?;
        match method.family() {
            Family::TwoTables => self.check_two_tables(method),
            Family::Slices => self.check_sliced(method),
            Family::Classes | Family::Constraints => Ok(()),
        }
    }

    /// Whether the caller says something about the option.
    fn is_given(&self, option: MethodOption, variant: Variant, ranges: Ranges) -> bool {
        match option {
            MethodOption::Constraints => !self.constraints.is_empty(),
            MethodOption::ManyConstraints => self.constraints.len() > 1,
            MethodOption::Suppress => self.suppress.is_some(),
            MethodOption::SuppressCells => {
                self.suppress.as_ref().is_some_and(|asked| asked.eq_ignore_ascii_case("cells"))
            }
            MethodOption::SuppressRows => {
                matches!(self.suppress.as_deref().map(str::parse), Some(Ok(Suppress::Rows)))
            }
            MethodOption::L => self.l.is_some(),
            MethodOption::EntropyL => self.entropy_l.is_some(),
            MethodOption::T => self.t.is_some(),
            MethodOption::Alpha => !self.alpha.is_empty(),
            MethodOption::Sensitivity => self.sensitivity.is_some(),
            MethodOption::PrivacyUnit => self.privacy_unit.is_some(),
            MethodOption::Split => self.split.is_some(),
            // A setting of the session counts as given.
            MethodOption::MeanRanges => ranges == Ranges::Mean,
            MethodOption::Weights => !self.weights.is_empty(),
            MethodOption::BlockRows => self.block_rows.is_some(),
            MethodOption::MaxColumns => self.max_columns.is_some(),
            MethodOption::MinColumns => self.min_columns.is_some(),
            MethodOption::MinSupport => self.min_support.is_some(),
            MethodOption::MinConfidence => self.min_confidence.is_some(),
            MethodOption::Columns => self.columns.is_some(),
            MethodOption::RareBelow => self.rare_below.is_some(),
            MethodOption::ColumnGroups => self.column_groups.is_some(),
            MethodOption::BucketId => self.bucket_id.is_some(),
            MethodOption::Ranges => self.ranges.is_some(),
            MethodOption::Hierarchies => !self.hierarchies.is_empty(),
            MethodOption::Publish => self.publish.is_some() && self.series.is_none(),
            MethodOption::Series => self.series.is_some(),
            MethodOption::Paper => variant == Variant::Paper,
        }
    }

    fn check_two_tables(&self, method: MethodRef) -> Result<()> {
        if self.alpha.is_empty() {
            return Err(Error::invalid(format!(
                "method '{method}' needs option 'alpha', the largest share of one sensitive value in a \
                 class: write alpha => 0.5, or one share per level and sensitivity => {{…}}"
            )));
        }
        if self.sensitive.len() != 1 {
            return Err(Error::invalid(format!(
                "method '{method}' protects one sensitive column and {} are listed: write sensitive => \
                 ['…']",
                self.sensitive.len()
            )));
        }
        if self.publish.is_none() {
            return Err(Error::invalid(format!(
                "method '{method}' publishes two tables: write publish => 'quasi_identifiers' for one \
                 and publish => 'sensitive' for the other"
            )));
        }
        Ok(())
    }
}
