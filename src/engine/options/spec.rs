//! A fully checked request: what the operator does, bound to the columns of its input.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use datafusion::common::Column;

use super::series::SeriesSpec;
use crate::columnar::{Automatic, ListedLevels, Ranges};
use crate::error::{Error, Result};
use crate::hierarchy::DateStep;
use crate::method::classfly::Constraint;
use crate::method::partition::Split;
use crate::method::{Family, MethodOption, MethodRef, Variant};
use crate::model::{AlphaScope, Secret};

/// The names of the choices of an option, both ways.
macro_rules! choices {
    ($option:literal, $type:ident { $($name:literal => $choice:ident),+ }) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$choice => $name),+
                })
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(name: &str) -> Result<Self> {
                choose($option, name, &[$(($name, Self::$choice)),+])
            }
        }
    };
}
pub(super) use choices;

choices!("split", Split { "least_loss" => LeastLoss, "widest" => Widest });
choices!("ranges", Ranges { "label" => Label, "bounds" => Bounds, "mean" => Mean });
choices!("publish", Publish { "quasi_identifiers" => QuasiIdentifiers, "sensitive" => Sensitive });
choices!("alpha_scope", AlphaScope { "value" => Value, "level" => Level });
choices!("variant", Variant { "best" => Best, "paper" => Paper });

/// What happens to a row that is suppressed in all its quasi-identifiers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum Suppress {
    /// It publishes `*` in all of them.
    #[default]
    Cells,
    /// It is dropped.
    Rows,
}

impl fmt::Display for Suppress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cells => "cells",
            Self::Rows => "rows",
        })
    }
}

impl FromStr for Suppress {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            // As in suppress => true, for a method that otherwise publishes every row.
            "true" => Ok(Self::Rows),
            "false" => Ok(Self::Cells),
            _ => choose("suppress", name, &[("cells", Self::Cells), ("rows", Self::Rows)]),
        }
    }
}

/// Which of two tables a query asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum Publish {
    /// Quasi-identifiers as they are, with the class.
    QuasiIdentifiers,
    /// Sensitive values with the class.
    Sensitive,
}

/// How sensitive the values of the sensitive column are, and what share of a class they may hold.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct Grading {
    /// Where the level of each value is listed.
    pub levels: LevelSource,
    /// The share of each level, or one for all of them.
    pub alphas: Vec<f64>,
    /// What the shares bound.
    pub scope: AlphaScope,
}

/// Where the level of each sensitive value is listed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum LevelSource {
    /// In the query.
    Listed(ListedLevels),
    /// In a table of values and levels, by its position among the operator's tables.
    Table(usize),
}

impl Grading {
    /// The share of each level; one that was given for all is repeated.
    pub fn shares(&self, listed: &ListedLevels) -> Vec<f64> {
        match self.alphas.as_slice() {
            [alpha] => vec![*alpha; listed.largest().max(1) as usize],
            alphas => alphas.to_vec(),
        }
    }
}

impl fmt::Display for Grading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alphas: Vec<String> = self.alphas.iter().map(f64::to_string).collect();
        write!(f, "[{}] by sensitivity, for each {}", alphas.join(", "), self.scope)
    }
}

/// The choice of that name, or an error that lists the choices.
pub(in crate::engine) fn choose<T: Copy>(
    option: &str,
    name: &str,
    choices: &[(&str, T)],
) -> Result<T> {
    let chosen = choices.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    chosen.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("'{name}'")).collect();
        Error::invalid(format!(
            "option '{option}': '{name}' is not known; use {}",
            names.join(", ")
        ))
    })
}

/// Where a quasi-identifier's hierarchy comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum HierarchySource {
    /// Aligned steps, as they were written.
    Intervals(Vec<String>),
    /// Kept characters.
    Prefixes(Vec<usize>),
    /// Calendar units.
    Dates(Vec<DateStep>),
    /// A `;`-separated file, read through the session's object stores.
    File(String),
    /// A table, by its position among the operator's hierarchy inputs.
    Table(usize),
    /// Chosen by the column's type, because the method needs one and none was given.
    Automatic(Automatic),
}

impl fmt::Display for HierarchySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |items: Vec<String>| items.join(", ");
        match self {
            Self::Intervals(steps) => write!(f, "intervals({})", steps.join(", ")),
            Self::Prefixes(kept) => {
                write!(f, "prefixes({})", join(kept.iter().map(usize::to_string).collect()))
            }
            Self::Dates(steps) => {
                write!(f, "date_steps({})", join(steps.iter().map(DateStep::to_string).collect()))
            }
            Self::File(_) => f.write_str("file"),
            Self::Table(_) => f.write_str("table"),
            Self::Automatic(automatic) => write!(f, "automatic {automatic}"),
        }
    }
}

/// A quasi-identifier and its hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct QuasiIdentifier {
    /// The input column.
    #[cfg_attr(feature = "cluster", serde(with = "crate::engine::wire::column"))]
    pub column: Column,
    /// Its hierarchy, if one was given.
    pub hierarchy: Option<HierarchySource>,
}

/// Conditions on the sensitive columns, beside k.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct Models {
    /// Distinct values.
    pub l: Option<u32>,
    /// Entropy, as the l whose logarithm is the bound.
    pub entropy_l: Option<f64>,
    /// Distance to the whole table's distribution.
    pub t: Option<f64>,
    /// Largest share of one value.
    pub alpha: Option<f64>,
}

impl Models {
    /// Whether a model looks at the sensitive columns.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Models {
    /// The models that were asked for, by the names of their options.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let entries = [
            ("l", self.l.map(|l| l.to_string())),
            ("entropy_l", self.entropy_l.map(|l| l.to_string())),
            ("t", self.t.map(|t| t.to_string())),
            ("alpha", self.alpha.map(|alpha| alpha.to_string())),
        ];
        entries.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl fmt::Display for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(self.entries()))
    }
}

/// How a slicing method works, checked.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct SlicingSpec {
    /// Columns of the whole table, if a number was given.
    pub columns: Option<usize>,
    /// The most attributes of an association and of a column.
    pub max_columns: usize,
    /// The fewest attributes of a column that an association makes.
    pub min_columns: usize,
    /// The share of all rows that an association needs.
    pub min_support: f64,
    /// How often the rule of an association holds.
    pub min_confidence: f64,
    /// Values that a smaller share of the rows has are generalized.
    pub rare_below: f64,
    /// Whether it is published which columns of a bucket were permuted together.
    pub column_groups: bool,
    /// The hierarchy of the sensitive column, if there is one.
    pub sensitive_hierarchy: Option<HierarchySource>,
}

/// Everything the operator needs to know, checked.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct Spec {
    /// How classes are formed.
    pub method: MethodRef,
    /// Which quasi-identifier a group is cut on.
    pub split: Split,
    /// The smallest class.
    pub k: u32,
    /// Conditions on the sensitive columns.
    pub models: Models,
    /// Published generalized.
    pub quasi_identifiers: Vec<QuasiIdentifier>,
    /// Published as they are, protected by the models.
    #[cfg_attr(feature = "cluster", serde(with = "crate::engine::wire::columns"))]
    pub sensitive: Vec<Column>,
    /// Published as they are.
    #[cfg_attr(feature = "cluster", serde(with = "crate::engine::wire::columns"))]
    pub keep: Vec<Column>,
    /// Counted instead of rows, never published.
    #[cfg_attr(feature = "cluster", serde(with = "crate::engine::wire::maybe_column"))]
    pub privacy_unit: Option<Column>,
    /// The largest share of a class that one person may hold.
    pub unit_share: Option<f64>,
    /// How generalized numbers are published.
    pub ranges: Ranges,
    /// Whether the class number is published.
    pub class_id: bool,
    /// What must hold, for the methods that work from constraints; columns by their positions
    /// among the quasi-identifiers.
    pub constraints: Vec<Constraint>,
    /// Levels of sensitivity; alpha is then not among the models.
    pub grading: Option<Grading>,
    /// Which of two tables is wanted, for the method that publishes two.
    pub publish: Option<Publish>,
    /// Which version of the method runs.
    pub variant: Variant,
    /// What happens to rows that are suppressed altogether.
    pub suppress: Suppress,
    /// The largest share of cells or rows that may be suppressed, if one was given.
    pub suppression_limit: Option<f64>,
    /// How much each quasi-identifier counts in a distance; empty for all alike.
    pub weights: Vec<f64>,
    /// The most rows that are looked at together, if a number was given.
    pub block_rows: Option<usize>,
    /// How columns are put together, for the methods that break the links between them.
    pub slicing: Option<SlicingSpec>,
    /// What the release goes on from, if it is one of a series.
    pub series: Option<SeriesSpec>,
    /// The secret from which ties are broken and everything else is drawn.
    pub secret: Secret,
}

// No field is ever NaN: all numbers are checked to be in range.
impl Eq for Spec {}

impl Hash for Spec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.method, self.split, self.k, self.ranges, self.class_id, self.secret).hash(state);
        self.quasi_identifiers.hash(state);
        (&self.sensitive, &self.keep, &self.privacy_unit).hash(state);
        (&self.constraints, self.suppress, self.publish, self.variant, self.block_rows).hash(state);
        self.grading.as_ref().map(|grading| &grading.levels).hash(state);
        self.series.hash(state);
    }
}

impl Spec {
    /// The largest share of cells or rows that may be suppressed. Methods that suppress nothing
    /// allow none.
    pub fn suppression_limit(&self) -> f64 {
        let suppresses = self.method.suppresses() || self.suppress == Suppress::Rows;
        let default = if suppresses { 0.05 } else { 0.0 };
        self.suppression_limit.unwrap_or(default)
    }

    /// The constraints with the names of their columns: `[age, zip]: 3, [sex]: 2`.
    pub fn named_constraints(&self) -> String {
        let named = self.constraints.iter().map(|constraint| {
            format!("[{}]: {}", self.column_names(&constraint.columns), constraint.k)
        });
        named.collect::<Vec<String>>().join(", ")
    }

    /// Names of quasi-identifiers, by their positions.
    pub fn column_names(&self, quasi_identifiers: &[usize]) -> String {
        let name = |index: &usize| Some(self.quasi_identifiers.get(*index)?.column.name.as_str());
        quasi_identifiers.iter().filter_map(name).collect::<Vec<&str>>().join(", ")
    }

    /// The models that were asked for, the graded one among them, by the names of their options.
    pub fn model_entries(&self) -> Vec<(&'static str, String)> {
        let mut entries = self.models.entries();
        entries.extend(self.grading.as_ref().map(|grading| ("alpha", grading.to_string())));
        entries
    }

    /// Whether a model looks at the sensitive columns.
    pub fn has_models(&self) -> bool {
        !self.models.is_empty() || self.grading.is_some()
    }

    fn cluster_entries(&self) -> Vec<(&'static str, String)> {
        let weighted = self.quasi_identifiers.iter().zip(&self.weights);
        let weights: Vec<String> =
            weighted.map(|(qi, weight)| format!("{}: {weight}", qi.column.name)).collect();
        let weights =
            (!weights.is_empty()).then(|| ("weights", format!("{{{}}}", weights.join(", "))));
        let block_rows = self.block_rows.map(|rows| ("block_rows", rows.to_string()));
        weights.into_iter().chain(block_rows).collect()
    }

    fn slicing_entries(&self) -> Vec<(&'static str, String)> {
        let Some(slicing) = &self.slicing else { return Vec::new() };
        let hierarchy = slicing.sensitive_hierarchy.as_ref();
        let hierarchy = hierarchy.map(|of| ("sensitive_hierarchy", of.to_string()));
        let mut entries: Vec<(&'static str, String)> = hierarchy.into_iter().collect();
        entries.push(("max_columns", slicing.max_columns.to_string()));
        if self.method.takes(MethodOption::MinSupport) {
            if self.variant == Variant::Paper {
                entries.push(("min_columns", slicing.min_columns.to_string()));
            }
            entries.extend([
                ("min_support", slicing.min_support.to_string()),
                ("min_confidence", slicing.min_confidence.to_string()),
            ]);
        }
        entries.extend(self.cluster_entries());
        entries.extend(slicing.columns.map(|columns| ("columns", columns.to_string())));
        if slicing.rare_below > 0.0 {
            entries.push(("rare_below", slicing.rare_below.to_string()));
        }
        entries
    }

    /// What tells persons apart where they are counted in classes. In a series everybody has one row, so rows are.
    pub fn counted_unit(&self) -> Option<&Column> {
        self.privacy_unit.as_ref().filter(|_| self.series.is_none())
    }

    /// The name of the column that tells classes apart.
    pub fn class_column(&self) -> &'static str {
        if self.slicing.is_some() { "bucket_id" } else { "class_id" }
    }

    /// What the method looks at beside the quasi-identifiers as if it were one: the sensitive column, where
    /// its link to them is broken.
    pub fn linked_sensitive(&self) -> Option<QuasiIdentifier> {
        let hierarchy = self.slicing.as_ref()?.sensitive_hierarchy.clone();
        let column = self.sensitive.first()?.clone();
        Some(QuasiIdentifier { column, hierarchy })
    }

    /// Method, k, models and roles: what EXPLAIN may show. Never the seed.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let names = |columns: &[Column]| {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            format!("[{}]", names.join(", "))
        };
        let quasi_identifier = |quasi_identifier: &QuasiIdentifier| {
            let name = &quasi_identifier.column.name;
            match &quasi_identifier.hierarchy {
                Some(hierarchy) => format!("{name}: {hierarchy}"),
                None => name.clone(),
            }
        };
        let quasi_identifiers: Vec<String> =
            self.quasi_identifiers.iter().map(quasi_identifier).collect();
        let has_constraints = self.method.family() == Family::Constraints;
        let wanted = match has_constraints {
            true => ("constraints", format!("{{{}}}", self.named_constraints())),
            false => ("k", self.k.to_string()),
        };
        let paper = (self.variant == Variant::Paper).then(|| ("variant", "paper".to_owned()));
        let mut entries = vec![("method", self.method.to_string())];
        entries.extend(paper);
        entries.push(wanted);
        entries.extend(self.model_entries());
        entries.push(("quasi_identifiers", format!("[{}]", quasi_identifiers.join(", "))));
        if !self.sensitive.is_empty() {
            entries.push(("sensitive", names(&self.sensitive)));
        }
        if !self.keep.is_empty() {
            entries.push(("keep", names(&self.keep)));
        }
        if let Some(unit) = &self.privacy_unit {
            entries.push(("privacy_unit", unit.name.clone()));
        }
        entries.extend(self.unit_share.map(|share| ("unit_share", share.to_string())));
        entries.extend(self.publish.map(|publish| ("publish", publish.to_string())));
        entries.extend(self.series.iter().flat_map(SeriesSpec::entries));
        if self.method.takes(MethodOption::Split) {
            entries.push(("split", self.split.to_string()));
        }
        if self.suppress == Suppress::Rows {
            entries.push(("suppress", "rows".to_owned()));
        }
        match self.slicing {
            Some(_) => entries.extend(self.slicing_entries()),
            None => entries.extend(self.cluster_entries()),
        }
        entries
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(self.entries()))
    }
}

/// The column that says which columns of a bucket were permuted together.
pub(in crate::engine) const COLUMN_GROUPS: &str = "column_groups";

/// Entries as `name=value, …`.
pub(in crate::engine) fn listed(entries: Vec<(&'static str, String)>) -> String {
    let entry = |(name, value)| format!("{name}={value}");
    entries.into_iter().map(entry).collect::<Vec<String>>().join(", ")
}
