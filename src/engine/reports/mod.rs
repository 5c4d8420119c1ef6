//! `privacy_report`, `utility_report` and `series_report`: a second look at releases.
//!
//! Nothing here knows how a release was made. The published rows are grouped by DataFusion's own
//! aggregation, and a small operator turns the counts of the groups into measures:
//!
//! ```text
//!   published ─► Projection (comparable keys) ─► Aggregate (several grouping sets, one pass)
//!       ─► Sort, where groups of one class must be neighbours ─► ReportExec ─► one small batch
//! ```
//!
//! | report | of the table | of every column |
//! | --- | --- | --- |
//! | privacy | `rows`, `classes`, `k`, `largest_class`, `average_class`, `prosecutor_risk_max`, `prosecutor_risk_average`, `violating_classes`, `violating_rows` | `l`, `entropy_l`, `t`, `alpha` |
//! | privacy with constraints | `rows` | of every constraint: `k`, `groups`, `violating_groups`, `violating_rows`, `suppressed_rows` |
//! | privacy with `bucket` | as above, for buckets, without prosecutor risks; with quasi-identifiers `undivided_buckets`, and with `original` `intact_tuples` and `unique_intact_tuples` | `naming_chance` beside them |
//! | utility | `rows_original`, `rows_published`, `suppressed_rows`, `classes`, `dm`, `cm` (with `class`), `c_avg`, `ncp`, `prec` (with hierarchies), `iloss`, `iloss_generalization`, `iloss_suppression`, `iloss_rate`, `vmr`, `rmr`; with `min_support`, `min_confidence` or `max_columns` also `rules_original`, `rules_published`, `rules_kept`, `association_retention`, `association_sets_cut` | `ncp`, `iloss`, `iloss_generalization`, `iloss_suppression`, `iloss_rate`, `vmr`, `rmr` |
//!
//! [`series`] is about releases that follow each other.
//!
//! What is not obvious about them:
//!
//! - A target that cannot be judged, because nothing was published, does not hold. Without any
//!   target the violations are NULL: nothing was asked.
//! - A missing sensitive value is one more value, in order before all others.
//! - A row that publishes nothing but `*` in the columns of a constraint could be anyone: it is
//!   counted as suppressed and does not violate the constraint.
//! - Means do not tell what they lost: their `ncp` and `iloss` and the totals are NULL.
//! - Bounds have one NULL for a missing cell and for `*`: as many as the original has missing cells
//!   count as unchanged. `ncp` is then the least the release can have lost.
//! - `iloss` counts values where `ncp` counts the steps between them, and takes a missing cell for the
//!   top of its hierarchy: published as `*` it has lost nothing. How many `*` were missing follows
//!   from the counts where no row was suppressed, or every row with a missing cell. Otherwise the most
//!   the release can have lost is told. `iloss_rate` is its share of all cells, suppressed ones lost. Floating-point
//!   numbers cannot be counted: they lose the width of their range, relative to that of the column.
//! - `iloss` is `iloss_generalization`, what published cells lost, and `iloss_suppression`, 1 for every cell of a row that
//!   was not published.
//! - `prec` is 1 minus the mean of (levels climbed / height) over all rows and quasi-identifiers; the cells of suppressed
//!   rows are at the top. A quasi-identifier without a hierarchy has one level, `*`; ranges of numbers that are aligned as
//!   those of the hierarchies that methods make by themselves climb in these. If another range or a set of it is
//!   published, `prec` is NULL: name the hierarchies that the release was made with. Labels that several nodes have count
//!   as the highest of them.
//! - `naming_chance` is the largest share of a sensitive value among the rows of a bucket but one: no row of a
//!   sliced table keeps its own value, so the one beside a person is known not to be it.
//! - A row of a sliced table is assembled from several persons, so 1/k is not its risk. How much of real persons is
//!   left is measured against the original: `intact_tuples` is the share of rows whose quasi-identifiers together occur
//!   in it, `unique_intact_tuples` the share of rows whose quasi-identifiers occur in it exactly once. Some do by
//!   coincidence. In `undivided_buckets` fewer than two quasi-identifiers vary, so that their rows are real tuples.
//! - Rules say that whoever has some labels of different columns has one more. A cell has its own label and
//!   those above it in the hierarchies that are given, so that a generalized cell can keep a rule.
//! - `vmr` and `rmr` are of the original: the share of its cells that are missing, of its rows that
//!   miss one. Both are the same for a single column.
//!
//! 1. [`sql`] reads the arguments, [`plan`] checks them and makes the grouped inputs;
//! 2. [`node`] is the logical plan, [`exec`] the operator;
//! 3. [`privacy`] and [`utility`] take in the groups; the arithmetic is in [`crate::measure`], the
//!    reading of published values in [`crate::columnar`].

mod associations;
mod classes;
mod constraints;
mod exec;
mod grouping;
mod node;
mod plan;
mod privacy;
mod sensitivity;
mod series;
mod slices;
mod two_tables;
mod utility;

pub use constraints::ConstraintsSpec;
pub use exec::ReportExec;
pub use node::ReportNode;
pub use plan::{Published, plan_privacy_report, plan_utility_report};
pub use series::{SeriesReportSpec, plan_series_report};

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::physical_plan::ExecutionPlan;

pub use associations::AssociationsSpec;
use classes::ClassesSpec;

use crate::columnar::PublishedForm;
use crate::engine::options::{Grading, QuasiIdentifier};
use crate::measure::{RuleLimits, Targets};

/// A checked request for a report.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum Report {
    /// How safe a release is.
    Privacy(PrivacySpec),
    /// Whether a release keeps several constraints.
    Constraints(ConstraintsSpec),
    /// What is left of a table.
    Utility(UtilitySpec),
    /// What is left of a table that was published in two.
    TwoTableUtility(TwoTableUtilitySpec),
    /// What releases that follow each other tell together.
    Series(SeriesReportSpec),
}

/// `privacy_report`, checked.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct PrivacySpec {
    /// The published quasi-identifiers, or the class where they are published apart.
    pub(super) quasi_identifiers: Vec<String>,
    /// How the input is grouped.
    pub(super) classes: ClassesSpec,
    /// What the release is asked to keep.
    pub(super) targets: Targets,
    /// Levels of sensitivity, with the shares that the release is asked to keep.
    pub(super) grading: Option<Grading>,
    /// Whether quasi-identifiers and sensitive values are published in two tables.
    pub(super) two_tables: bool,
    /// What is looked at in the buckets of a sliced table, `None` where classes are something else.
    pub(super) buckets: Option<BucketsSpec>,
    /// Whether the privacy unit is among the grouped columns.
    pub(super) counts_persons: bool,
    /// The largest share of a class that one person may hold.
    pub(super) unit_share: Option<f64>,
}

/// What is looked at in a sliced table beside its buckets; each has an input of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct BucketsSpec {
    /// Whether its quasi-identifiers are known.
    pub(super) divided: bool,
    /// Whether the original is there to compare with.
    pub(super) original: bool,
}

/// `utility_report` of two tables, checked.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct TwoTableUtilitySpec {
    /// How the table of sensitive values is grouped.
    pub(super) classes: ClassesSpec,
    /// Levels of sensitivity.
    pub(super) grading: Option<Grading>,
}

/// The graded sensitive column of a utility report.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct GradedSpec {
    /// How the published table is grouped by class and sensitive value.
    pub(super) classes: ClassesSpec,
    /// Levels of sensitivity.
    pub(super) grading: Grading,
}

/// `utility_report`, checked.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct UtilitySpec {
    /// The quasi-identifiers of the original, with their hierarchies.
    pub(super) quasi_identifiers: Vec<QuasiIdentifier>,
    /// How each of them was published.
    pub(super) published: Vec<PublishedSpec>,
    /// The column whose majority a class should keep.
    pub(super) class: Option<String>,
    /// The k that classes are compared with.
    pub(super) k: Option<u32>,
    /// The sensitive column, if its values have levels.
    pub(super) graded: Option<GradedSpec>,
    /// What counts as an association, if they were asked for.
    pub(super) associations: Option<AssociationsSpec>,
}

/// A published quasi-identifier of a utility report.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct PublishedSpec {
    pub(super) form: PublishedForm,
    /// Its columns among the keys of the grouped input; bounds have two.
    pub(super) keys: Range<usize>,
}

impl Report {
    /// The SQL function.
    pub fn function(&self) -> &'static str {
        match self {
            Self::Privacy(_) | Self::Constraints(_) => "privacy_report",
            Self::Utility(_) | Self::TwoTableUtility(_) => "utility_report",
            Self::Series(_) => "series_report",
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Privacy(_) | Self::Constraints(_) => "PrivacyReport",
            Self::Utility(_) | Self::TwoTableUtility(_) => "UtilityReport",
            Self::Series(_) => "SeriesReport",
        }
    }

    /// The columns of the report.
    pub fn schema(&self) -> SchemaRef {
        let mut fields = vec![
            Field::new("measure", DataType::Utf8, false),
            Field::new("column_name", DataType::Utf8, true),
            Field::new("value", DataType::Float64, true),
        ];
        if self.has_targets() {
            fields.push(Field::new("target", DataType::Float64, true));
            fields.push(Field::new("holds", DataType::Boolean, true));
        }
        Arc::new(Schema::new(fields))
    }

    fn has_targets(&self) -> bool {
        matches!(self, Self::Privacy(_) | Self::Constraints(_) | Self::Series(_))
    }

    /// The names of the columns that measures refer to by their index.
    fn column_names(&self) -> Vec<&str> {
        match self {
            Self::Privacy(spec) => spec.classes.names(),
            Self::TwoTableUtility(spec) => spec.classes.names(),
            Self::Series(spec) => spec.sensitive.iter().map(String::as_str).collect(),
            Self::Constraints(spec) => {
                spec.constraints.iter().map(|constraint| constraint.columns.as_str()).collect()
            }
            Self::Utility(spec) => {
                let sensitive = spec.graded.iter().flat_map(|graded| graded.classes.names());
                let quasi_identifiers = spec.quasi_identifiers.iter();
                quasi_identifiers.map(|qi| qi.column.name.as_str()).chain(sensitive).collect()
            }
        }
    }

    /// By how many leading columns each grouped input must be sorted, 0 for any order.
    fn sorted_columns(&self) -> Vec<usize> {
        match self {
            Self::Privacy(spec) => vec![spec.classes.sorted_columns()],
            Self::Constraints(_) => vec![0],
            Self::Series(spec) => spec.sorted_columns(),
            Self::TwoTableUtility(spec) => vec![0, spec.classes.sorted_columns()],
            // Phase and class keys: the class labels of a class are neighbours.
            Self::Utility(spec) => {
                let by_label = if spec.class.is_some() { 1 + spec.class_keys() } else { 0 };
                let by_class = spec.graded.iter().map(|graded| graded.classes.sorted_columns());
                [0, by_label].into_iter().chain(by_class).collect()
            }
        }
    }
}

impl UtilitySpec {
    fn class_keys(&self) -> usize {
        self.published.last().map_or(0, |published| published.keys.end)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries = Vec::new();
        match self {
            Self::Series(spec) => return spec.fmt(f),
            Self::Privacy(spec) => {
                let targets = &spec.targets;
                let numbers = [
                    ("k", targets.k.map(f64::from)),
                    ("l", targets.l.map(f64::from)),
                    ("entropy_l", targets.entropy_l),
                    ("t", targets.t),
                    ("alpha", targets.alpha),
                ];
                let given = |(name, value): (&str, Option<f64>)| Some(format!("{name}={}", value?));
                entries.extend(numbers.into_iter().filter_map(given));
                entries.extend(spec.grading.iter().map(|grading| format!("alpha={grading}")));
                entries.push(format!("quasi_identifiers=[{}]", spec.quasi_identifiers.join(", ")));
                if !spec.classes.sensitive.is_empty() {
                    entries.push(format!("sensitive=[{}]", self.column_names().join(", ")));
                }
                if let Some(buckets) = spec.buckets {
                    entries.push("buckets".to_owned());
                    entries.extend(buckets.original.then(|| "original".to_owned()));
                }
                if spec.two_tables {
                    entries.push("tables=2".to_owned());
                }
            }
            Self::Constraints(spec) => {
                let constraints = spec.constraints.iter();
                let named = constraints.map(|c| format!("[{}]: {}", c.columns, c.k));
                let named: Vec<String> = named.collect();
                entries.push(format!("constraints={{{}}}", named.join(", ")));
            }
            Self::TwoTableUtility(spec) => {
                entries.push(format!("sensitive=[{}], tables=2", spec.classes.names().join(", ")));
            }
            Self::Utility(spec) => {
                entries.extend(spec.k.map(|k| format!("k={k}")));
                let name = |qi: &QuasiIdentifier| match &qi.hierarchy {
                    Some(hierarchy) => format!("{}: {hierarchy}", qi.column.name),
                    None => qi.column.name.clone(),
                };
                let names: Vec<String> = spec.quasi_identifiers.iter().map(name).collect();
                entries.push(format!("quasi_identifiers=[{}]", names.join(", ")));
                entries.extend(spec.class.iter().map(|class| format!("class={class}")));
                if let Some(associations) = &spec.associations {
                    let RuleLimits { min_support, min_confidence, max_columns } =
                        associations.limits;
                    entries.push(format!(
                        "min_support={min_support}, min_confidence={min_confidence}, \
                         max_columns={max_columns}"
                    ));
                }
            }
        }
        f.write_str(&entries.join(", "))
    }
}

/// The inputs of a report that compares a release with its original.
struct BothTables<'a> {
    original: &'a Arc<dyn ExecutionPlan>,
    /// The release, or that of its tables with the sensitive values.
    published: &'a Arc<dyn ExecutionPlan>,
    /// Hierarchies, and levels of sensitivity.
    lookups: &'a [Arc<dyn ExecutionPlan>],
}
