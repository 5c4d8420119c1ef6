//! `[anonymize]`: every option of the SQL function, by its name.

use std::collections::BTreeMap;
use std::fmt;

use datafusion_anonymize::engine::AnonymizeConfig;
use datafusion_anonymize::method::{Family, MethodRef, Variant};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use super::{Input, SeedSource};
use crate::error::{Error, Result};

/// The options of `anonymize()`. As JSON they hold neither the seed nor a value of the data.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnonymizeOptions {
    /// How classes are formed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Which version of the method runs: the best one, or that of its `paper`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The smallest class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k: Option<i64>,
    /// What somebody could know about a person; published generalized.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quasi_identifiers: Vec<String>,
    /// What nobody should learn; published as it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
    /// What names a person; never read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub identifiers: Vec<String>,
    /// Harmless columns; published as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// What tells persons apart, so that k counts persons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy_unit: Option<String>,
    /// The largest share of a class that one person may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_share: Option<f64>,
    /// Distinct sensitive values of a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l: Option<i64>,
    /// Entropy of a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entropy_l: Option<f64>,
    /// Distance of a class to the whole table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t: Option<f64>,
    /// The largest share of one sensitive value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<OneOrMany>,
    /// What the shares bound: `value` or `level`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha_scope: Option<String>,
    /// Levels of sensitive values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Sensitivity>,
    /// Which column a group is cut on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// How generalized numbers are published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<String>,
    /// Whether the class is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_id: Option<bool>,
    /// Whether the bucket of a sliced table is published; it is, because it is verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket_id: Option<bool>,
    /// Whether it is published which columns of a bucket were permuted together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column_groups: Option<bool>,
    /// Columns with their own k.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Constraint>,
    /// What happens to rows that fit nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress: Option<Switch>,
    /// The largest share that may be suppressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppression_limit: Option<f64>,
    /// How much columns count in distances.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, f64>,
    /// Rows that are compared with each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rows: Option<i64>,
    /// Column groups of a sliced table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<i64>,
    /// Most columns of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_columns: Option<i64>,
    /// Fewest columns of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_columns: Option<i64>,
    /// Support of an association.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_support: Option<f64>,
    /// Confidence of an association.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_confidence: Option<f64>,
    /// Rarer values are generalized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rare_below: Option<f64>,
    /// Hierarchies by column.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hierarchies: BTreeMap<String, Hierarchy>,
    /// A secret, so it is read and never written.
    #[serde(skip_serializing)]
    pub seed: Option<SeedSource>,
}

/// A number as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(untagged, expecting = "a number is needed here")]
pub enum Number {
    /// Without a point.
    Whole(i64),
    /// With one.
    Real(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number:?}"),
        }
    }
}

/// One share, or one per level of sensitivity.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged, expecting = "alpha must be a number, or a list with one for each level")]
pub enum OneOrMany {
    /// For all values.
    One(f64),
    /// By level, the most sensitive first.
    Many(Vec<f64>),
}

/// `true`, `false`, `"rows"` or `"cells"`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged, expecting = "suppress must be true, false, \"rows\" or \"cells\"")]
pub enum Switch {
    /// On or off.
    Flag(bool),
    /// By name.
    Text(String),
}

/// Columns that one recipient could know, and how many rows must share their values.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Constraint {
    /// The columns.
    pub columns: Vec<String>,
    /// The rows.
    pub k: i64,
}

/// How sensitive the values of the sensitive column are.
#[derive(Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "sensitivity must be values with levels, as in { HIV = 1, Flu = 4 }, or the name of an input"
)]
pub enum Sensitivity {
    /// Values with their levels.
    Listed(BTreeMap<String, i64>),
    /// An input whose columns are value and level.
    Input(String),
}

/// What is listed are values of the data.
impl fmt::Debug for Sensitivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sensitivity")
    }
}

impl Serialize for Sensitivity {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Self::Listed(values) => map.serialize_entry("listed_values", &values.len())?,
            Self::Input(name) => map.serialize_entry("input", name)?,
        }
        map.end()
    }
}

/// The hierarchy of a quasi-identifier.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hierarchy {
    /// Aligned steps, each a multiple of the one before.
    Intervals(Vec<Number>),
    /// Kept characters, in falling order.
    Prefixes(Vec<u32>),
    /// Calendar units, from fine to coarse.
    DateSteps(Vec<String>),
    /// A file of `leaf;level 1;…;top` lines.
    File(String),
    /// An input whose columns are leaf, level 1, …, top.
    Input(String),
    /// A query of such columns.
    Query(String),
}

impl Serialize for Hierarchy {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Self::Intervals(steps) => map.serialize_entry("intervals", steps)?,
            Self::Prefixes(kept) => map.serialize_entry("prefixes", kept)?,
            Self::DateSteps(units) => map.serialize_entry("date_steps", units)?,
            // Where files are is the publisher's business, and a query may quote values.
            Self::File(_) => map.serialize_entry("table", "file")?,
            Self::Input(name) => map.serialize_entry("table", name)?,
            Self::Query(_) => map.serialize_entry("table", "query")?,
        }
        map.end()
    }
}

impl AnonymizeOptions {
    /// The method that these options choose.
    pub fn method(&self) -> Result<MethodRef> {
        let method = match &self.method {
            None if self.constraints.is_empty() => {
                AnonymizeConfig::default().default_method.parse()
            }
            None => MethodRef::for_constraints(),
            Some(name) => name.parse(),
        };
        method.map_err(|error| Error::job(format!("anonymize: {error}")))
    }

    /// Whether quasi-identifiers and sensitive values are published apart.
    pub fn has_two_tables(&self) -> bool {
        self.is_of(Family::TwoTables)
    }

    /// Whether the method runs as its paper prints it.
    pub fn is_paper(&self) -> bool {
        matches!(self.variant.as_deref().map(str::parse), Some(Ok(Variant::Paper)))
    }

    /// Whether values stay exact and the links between columns are broken.
    pub fn is_sliced(&self) -> bool {
        self.is_of(Family::Slices)
    }

    /// Whether the method keeps constraints instead of making classes.
    pub fn has_constraints(&self) -> bool {
        self.is_of(Family::Constraints)
    }

    fn is_of(&self, family: Family) -> bool {
        self.method().is_ok_and(|method| method.family() == family)
    }

    /// The constraints that a release must keep, also where they are written as k and quasi-identifiers.
    pub fn constraints(&self) -> Vec<Constraint> {
        match (self.constraints.is_empty(), self.k) {
            (true, Some(k)) => vec![Constraint { columns: self.quasi_identifiers.clone(), k }],
            _ => self.constraints.clone(),
        }
    }

    /// The quasi-identifiers; those of the constraints if none are listed.
    pub fn all_quasi_identifiers(&self) -> Vec<String> {
        let mut columns = self.quasi_identifiers.clone();
        if columns.is_empty() {
            for column in self.constraints.iter().flat_map(|constraint| &constraint.columns) {
                if !columns.contains(column) {
                    columns.push(column.clone());
                }
            }
        }
        columns
    }

    pub(super) fn check(&self, inputs: &BTreeMap<String, Input>) -> Result<()> {
        self.method()?;
        if self.is_sliced() && self.bucket_id == Some(false) {
            return Err(Error::job(
                "anonymize: without its buckets nobody can verify a sliced release; write bucket_id = true, \
                 or leave it out",
            ));
        }
        if self.has_two_tables() && self.is_paper() {
            return Err(Error::job(
                "anonymize: variant = \"paper\" of method 'alpha_k' is for experiments: readers of both tables \
                 can use the order of its rows to name people; leave it out",
            ));
        }
        let known = |what: &str, name: &String| match inputs.contains_key(name) {
            true => Ok(()),
            false => Err(Error::job(format!(
                "anonymize: {what} names the input '{name}', which is not there; write [input.{name}] with \
                 its path"
            ))),
        };
        if let Some(Sensitivity::Input(name)) = &self.sensitivity {
            known("sensitivity", name)?;
        }
        for (column, hierarchy) in &self.hierarchies {
            if let Hierarchy::Input(name) = hierarchy {
                known(&format!("the hierarchy of '{column}'"), name)?;
            }
        }
        Ok(())
    }
}
