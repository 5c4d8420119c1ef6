//! What a caller asks for, from SQL or from Rust, and the checks that turn it into a [`Spec`].

mod clustering;
mod config;
mod constraints;
mod definition;
mod file;
mod fit;
mod hierarchies;
mod kinds;
mod models;
mod roles;
mod secret;
mod series;
mod slicing;
mod spec;
#[cfg(test)]
mod tests;
mod value;

pub use config::AnonymizeConfig;
pub(super) use constraints::constraint_columns;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::LogicalPlan;
pub use definition::{Definition, Options, Place};
pub(super) use file::did_you_mean;
use fit::Meaning;
use hierarchies::add_automatic_hierarchies;
pub use kinds::{Chosen, Hierarchy, Lookup, SeedSource, Sensitivity, SeriesTables};
pub(super) use kinds::{Column as ColumnKind, Kind};
pub(super) use models::checked_levels;
pub(super) use roles::{Assignment, find_column};
pub(super) use secret::SessionSecret;
pub use series::Newcomers;
pub(super) use series::{COHORT, HELD, PERSON, SeriesOutput, SeriesSpec};
pub(super) use spec::{
    COLUMN_GROUPS, Grading, HierarchySource, LevelSource, QuasiIdentifier, SlicingSpec, listed,
};
pub use spec::{Models, Publish, Spec, Suppress};
pub use value::{Name, Relation, Value};

use crate::error::{Error, Result};
use crate::method::partition::Split;
use crate::method::{Family, MethodRef, Variant};

/// `anonymize` for Rust programs: a setter for every option, and [`apply`](Self::apply).
///
/// ```
/// # use datafusion::prelude::*;
/// # use datafusion_anonymize::{Anonymize, Hierarchy};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let context = SessionContext::new();
/// datafusion_anonymize::register_all(&context)?;
/// anonymize_sample::register(&context)?;
/// let census = context.sql("SELECT age, zip, occupation FROM sample_census(rows => 500)").await?;
/// let release = Anonymize::new(5)
///     .quasi_identifiers(["age", "zip"])
///     .sensitive(["occupation"])
///     .hierarchy("zip", Hierarchy::prefixes([3, 2]))
///     .apply(census)?;
/// assert_eq!(release.count().await?, 500);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Anonymize {
    pub(super) options: Options,
}

impl Options {
    /// Checks the request against the input and the session's settings. Also returns the hierarchy
    /// tables, in the order the spec refers to them.
    pub(super) fn resolve(
        mut self,
        input: &DFSchema,
        settings: &AnonymizeConfig,
        session: SessionSecret,
    ) -> Result<(Spec, Vec<LogicalPlan>)> {
        let method = self.checked_method(settings)?;
        let family = method.family();
        let models = self.checked_models()?;
        let variant = self.checked_variant()?;
        let split = self.checked_split(variant, settings)?;
        let ranges = self.ranges.get()?.unwrap_or(settings.ranges);
        let suppress = self.suppress.as_deref().map(str::parse).transpose()?;
        let publish = self.checked_publish()?;
        let suppression_limit = in_range("suppression_limit", self.suppression_limit, 0.0..=1.0)?;
        let unit_share = self.checked_unit_share()?;
        self.check_fit(method, Meaning { variant, ranges, suppress })?;
        let roles = self.roles(input)?;
        let constraints = match family {
            Family::Constraints => {
                self.checked_constraints(settings, input, &roles.quasi_identifiers)?
            }
            _ => Vec::new(),
        };
        let k = match family {
            Family::Constraints => constraints.iter().map(|one| one.k).max().unwrap_or(0),
            _ => self.checked_k(settings)?,
        };
        #[cfg(test)]
        let k = self.with_run_rows(k)?;
        let mut slicing = self.checked_slicing(method, variant)?;
        // The sensitive column stands behind the quasi-identifiers where its links to them count.
        let linked = if slicing.is_some() { roles.sensitive.first() } else { None };
        let linked: Vec<Column> = roles.quasi_identifiers.iter().chain(linked).cloned().collect();
        let weights = self.checked_weights(input, &linked)?;
        let block_rows = self.checked_block_rows()?;
        // Two tables are joined by the class alone.
        let class_id =
            self.bucket_id.or(self.class_id).unwrap_or(false) || family == Family::TwoTables;
        let mut tables = Vec::new();
        let series = self.checked_series(&roles, session.is_named, &mut tables)?;
        let secret = self.seed.take().map_or(Ok(session.secret), SeedSource::secret)?;
        let class_column = if slicing.is_some() { "bucket_id" } else { "class_id" };
        roles.check_free(class_column, class_id)?;
        let says_groups = slicing.as_ref().is_some_and(|slicing| slicing.column_groups);
        roles.check_free(COLUMN_GROUPS, says_groups)?;
        let grading = self.checked_grading(&mut tables)?;
        let mut quasi_identifiers = self.with_hierarchies(&linked, input, &mut tables)?;
        if method.needs_hierarchies() {
            add_automatic_hierarchies(&mut quasi_identifiers, input)?;
        }
        if let Some(slicing) = &mut slicing {
            slicing.sensitive_hierarchy = quasi_identifiers.pop().and_then(|last| last.hierarchy);
        }
        let spec = Spec {
            method,
            split,
            k,
            models,
            quasi_identifiers,
            sensitive: roles.sensitive,
            keep: roles.keep,
            privacy_unit: roles.privacy_unit,
            unit_share,
            ranges,
            class_id,
            constraints,
            grading,
            publish,
            variant,
            suppress: suppress.unwrap_or_default(),
            suppression_limit,
            weights,
            block_rows,
            slicing,
            series,
            secret,
        };
        Ok((spec, tables))
    }

    /// The method that was named, or the one that fits the other options.
    pub fn checked_method(&self, settings: &AnonymizeConfig) -> Result<MethodRef> {
        match self.method.get()? {
            Some(method) => Ok(method),
            None if !self.constraints.is_empty() => MethodRef::for_constraints(),
            None => Ok(settings.default_method),
        }
    }

    /// Which of two tables is wanted. In a series the option chooses between its release and its members.
    fn checked_publish(&self) -> Result<Option<Publish>> {
        if self.series.is_some() {
            return Ok(None);
        }
        self.check_no_series()?;
        self.publish.as_deref().map(str::parse).transpose()
    }

    pub(super) fn checked_unit_share(&self) -> Result<Option<f64>> {
        let share = in_range("unit_share", self.unit_share, f64::MIN_POSITIVE..=1.0)?;
        if share.is_some() && self.privacy_unit.is_none() {
            return Err(Error::invalid(
                "option 'unit_share' bounds what one person holds of a class: say which column tells persons \
                 apart, as in privacy_unit => 'person_id'",
            ));
        }
        Ok(share)
    }

    fn checked_variant(&self) -> Result<Variant> {
        Ok(self.variant.get()?.unwrap_or(Variant::Best))
    }

    /// The column that groups are cut on. The papers cut the widest one, whatever the session prefers.
    fn checked_split(&self, variant: Variant, settings: &AnonymizeConfig) -> Result<Split> {
        match (self.split.get()?, variant) {
            (Some(split), _) => Ok(split),
            (None, Variant::Paper) => Ok(Split::Widest),
            (None, Variant::Best) => Ok(settings.split),
        }
    }

    /// The use of the toy option: a run is a class.
    #[cfg(test)]
    fn with_run_rows(&self, k: u32) -> Result<u32> {
        match self.run_rows {
            Some(rows) if rows < i64::from(k) => {
                Err(Error::invalid(format!("option 'run_rows': {rows} is less than k = {k}")))
            }
            Some(rows) => u32::try_from(rows).map_err(|error| Error::invalid(error.to_string())),
            None => Ok(k),
        }
    }

    pub(super) fn checked_k(&self, settings: &AnonymizeConfig) -> Result<u32> {
        let default = (settings.default_k > 0).then(|| i64::from(settings.default_k));
        match self.k.or(default) {
            None => Err(Error::invalid(
                "option 'k' is missing: write k => 10, or SET anonymize.default_k = 10",
            )),
            Some(k) if k < 2 => Err(Error::invalid(format!(
                "option 'k': {k} hides nobody; the smallest class has at least 2 rows, write k => 10"
            ))),
            Some(k) => u32::try_from(k).map_err(|_| {
                Error::invalid(format!("option 'k': {k} is more than a table can hold"))
            }),
        }
    }
}

pub(super) fn in_range(
    option: &str,
    value: Option<f64>,
    range: std::ops::RangeInclusive<f64>,
) -> Result<Option<f64>> {
    match value {
        Some(value) if !range.contains(&value) => {
            let (start, end) = (range.start(), range.end());
            let wanted = match *start == f64::MIN_POSITIVE {
                true => format!("above 0 and at most {end}"),
                false => format!("between {start} and {end}"),
            };
            Err(Error::invalid(format!("option '{option}': {value} is not {wanted}")))
        }
        other => Ok(other),
    }
}
