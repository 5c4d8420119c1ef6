//! What a caller asks for, from SQL or from Rust, and the checks that turn it into a [`Spec`].

mod clustering;
mod constraints;
mod fit;
mod hierarchies;
mod models;
mod roles;
mod slicing;

use std::str::FromStr;

pub(super) use constraints::constraint_columns;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::LogicalPlan;
use hierarchies::add_automatic_hierarchies;
pub(super) use models::checked_levels;
pub(super) use roles::{Assignment, find_column};
pub(super) use slicing::SlicingOptions;

use super::config::AnonymizeConfig;
use super::logical::COLUMN_GROUPS;
use super::spec::Spec;
use crate::columnar::Ranges;
use crate::error::{Error, Result};
use crate::hierarchy::DateStep;
use crate::method::{Family, MethodRef, Variant};
use crate::model::Secret;

/// A hierarchy as the caller gives it.
#[derive(Debug, Clone)]
pub enum Hierarchy {
    /// Aligned intervals of these widths, each a multiple of the one before.
    Intervals(Vec<String>),
    /// The first characters, the rest masked; lengths in falling order.
    Prefixes(Vec<usize>),
    /// Calendar units, from fine to coarse.
    Dates(Vec<DateStep>),
    /// A file of `leaf;level 1;…;top` lines, local or in an object store of the session.
    File(String),
    /// A relation whose columns are leaf, level 1, …, top.
    Table(Box<LogicalPlan>),
}

impl Hierarchy {
    /// Aligned intervals: `Hierarchy::intervals([5, 10, 20])`.
    pub fn intervals<T: ToString>(steps: impl IntoIterator<Item = T>) -> Self {
        Self::Intervals(steps.into_iter().map(|step| step.to_string()).collect())
    }

    /// Kept characters: `Hierarchy::prefixes([4, 3, 2])`.
    pub fn prefixes(kept: impl IntoIterator<Item = usize>) -> Self {
        Self::Prefixes(kept.into_iter().collect())
    }

    /// Calendar units: `Hierarchy::dates([DateStep::Month, DateStep::Year])`.
    pub fn dates(steps: impl IntoIterator<Item = DateStep>) -> Self {
        Self::Dates(steps.into_iter().collect())
    }

    /// A file of labels.
    pub fn file(path: impl Into<String>) -> Self {
        Self::File(path.into())
    }
}

/// How sensitive each value of the sensitive column is, as the caller gives it: level 1 is the most
/// sensitive.
#[derive(Clone)]
pub enum Sensitivity {
    /// Values with their levels.
    Listed(Vec<(String, i64)>),
    /// A relation of values and levels.
    Table(Box<LogicalPlan>),
}

impl Sensitivity {
    /// Values with their levels: `Sensitivity::listed([("HIV", 1), ("Flu", 4)])`.
    pub fn listed<T: Into<String>>(levels: impl IntoIterator<Item = (T, i64)>) -> Self {
        Self::Listed(levels.into_iter().map(|(value, level)| (value.into(), level)).collect())
    }
}

/// What is listed are values of the data.
impl std::fmt::Debug for Sensitivity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sensitivity")
    }
}

/// A request, not yet checked against the input. Every field is an option of the SQL function.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(super) k: Option<i64>,
    pub(super) quasi_identifiers: Vec<String>,
    pub(super) sensitive: Vec<String>,
    pub(super) identifiers: Vec<String>,
    pub(super) keep: Vec<String>,
    pub(super) privacy_unit: Option<String>,
    pub(super) unit_share: Option<f64>,
    pub(super) method: Option<String>,
    pub(super) split: Option<String>,
    pub(super) ranges: Option<String>,
    pub(super) hierarchies: Vec<(String, Hierarchy)>,
    pub(super) l: Option<i64>,
    pub(super) entropy_l: Option<f64>,
    pub(super) t: Option<f64>,
    /// One share, or one per level of sensitivity; none if empty.
    pub(super) alpha: Vec<f64>,
    pub(super) alpha_scope: Option<String>,
    pub(super) sensitivity: Option<Sensitivity>,
    pub(super) publish: Option<String>,
    pub(super) variant: Option<String>,
    pub(super) constraints: Vec<(Vec<String>, i64)>,
    pub(super) suppress: Option<String>,
    pub(super) suppression_limit: Option<f64>,
    pub(super) weights: Vec<(String, f64)>,
    pub(super) block_rows: Option<i64>,
    pub(super) slicing: SlicingOptions,
    pub(super) class_id: bool,
    /// Parsed where it is read, so that its text is not kept; a mistake in it shows when the options are resolved.
    pub(super) seed: Option<Result<Secret>>,
}

impl Options {
    /// Checks the request against the input and the session's settings. Also returns the hierarchy
    /// tables, in the order the spec refers to them.
    pub(super) fn resolve(
        mut self,
        input: &DFSchema,
        settings: &AnonymizeConfig,
        session_secret: Secret,
    ) -> Result<(Spec, Vec<LogicalPlan>)> {
        let method = self.checked_method(settings)?;
        let family = method.family();
        let models = self.checked_models()?;
        let split = choice(self.split.as_deref(), ("split", &settings.split))?;
        let ranges: Ranges = choice(self.ranges.as_deref(), ("ranges", &settings.ranges))?;
        let suppress = self.suppress.as_deref().map(str::parse).transpose()?.unwrap_or_default();
        let publish = self.publish.as_deref().map(str::parse).transpose()?;
        let suppression_limit = in_range("suppression_limit", self.suppression_limit, 0.0..=1.0)?;
        let variant = self.checked_variant()?;
        let unit_share = self.checked_unit_share()?;
        self.check_fit(method, variant, ranges)?;
        let roles = self.roles(input)?;
        let (k, constraints) = if family == Family::Constraints {
            let constraints =
                self.checked_constraints(settings, input, &roles.quasi_identifiers)?;
            let largest = constraints.iter().map(|constraint| constraint.k).max();
            (largest.unwrap_or(0), constraints)
        } else {
            (self.checked_k(settings)?, Vec::new())
        };
        let mut slicing = self.checked_slicing(method, variant)?;
        // The sensitive column stands behind the quasi-identifiers where its links to them count.
        let linked = if slicing.is_some() { roles.sensitive.first() } else { None };
        let linked: Vec<Column> = roles.quasi_identifiers.iter().chain(linked).cloned().collect();
        let weights = self.checked_weights(input, &linked)?;
        let block_rows = self.checked_block_rows()?;
        // Two tables are joined by the class alone.
        let class_id =
            self.slicing.bucket_id.unwrap_or(self.class_id) || family == Family::TwoTables;
        let secret = self.seed.take().unwrap_or(Ok(session_secret))?;
        let class_column = if slicing.is_some() { "bucket_id" } else { "class_id" };
        if class_id && roles.publishes(class_column) {
            return Err(Error::invalid(format!(
                "option '{class_column}': the input has a column '{class_column}' already; rename it in \
                 the input query"
            )));
        }
        let says_groups = slicing.as_ref().is_some_and(|slicing| slicing.column_groups);
        if says_groups && roles.publishes(COLUMN_GROUPS) {
            return Err(Error::invalid(
                "option 'column_groups': the input has a column 'column_groups' already; rename it in the \
                 input query",
            ));
        }
        let mut tables = Vec::new();
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
            suppress,
            suppression_limit,
            weights,
            block_rows,
            slicing,
            secret,
        };
        Ok((spec, tables))
    }

    /// The method that was named, or the one that fits the other options.
    fn checked_method(&self, settings: &AnonymizeConfig) -> Result<MethodRef> {
        match &self.method {
            None if !self.constraints.is_empty() => MethodRef::for_constraints(),
            method => choice(method.as_deref(), ("default_method", &settings.default_method)),
        }
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
        self.variant.as_deref().map_or(Ok(Variant::Best), str::parse)
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

/// The choice that the option or, without it, the setting of the session names.
fn choice<T: FromStr<Err = Error>>(option: Option<&str>, setting: (&str, &str)) -> Result<T> {
    let (name, value) = setting;
    let in_setting = |error: Error| Error::invalid(format!("setting 'anonymize.{name}', {error}"));
    option.map_or_else(|| value.parse().map_err(in_setting), str::parse)
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
