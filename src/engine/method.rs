//! The methods by their names, and what kind of work each is.

use std::fmt;
use std::str::FromStr;

use super::spec::choose;
use crate::error::{Error, Result};
use crate::method::classfly::Search;
use crate::method::cluster::{Clustering, Scale};
use crate::method::partition::Cut;

/// The ways to form classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
#[cfg_attr(feature = "codec", derive(serde::Serialize, serde::Deserialize))]
pub enum Method {
    /// Rounded partition: the smallest classes.
    Rounded,
    /// Layered freezing: the least loss.
    Layered,
    /// Strict Mondrian: equal values stay together.
    Mondrian,
    /// Relaxed Mondrian: halves.
    MondrianRelaxed,
    /// Many constraints: rows are frozen as soon as all constraints hold for them.
    ClassflyComplete,
    /// The same release, found by adding one constraint at a time.
    ClassflyPartial,
    /// Many constraints through the one that implies them all.
    ClassflyNaive,
    /// One constraint.
    Classfly,
    /// Whole columns are generalized until few rows violate a constraint.
    Datafly,
    /// Quasi-identifiers stay exact and are published apart from the sensitive values.
    AlphaK,
    /// Groups are specialized from the top of every hierarchy.
    TopDown,
    /// Clustering by entropy: rows with missing cells are kept, and find each other.
    Kaim,
    /// Clustering by loss: rows with missing cells are dropped.
    KMember,
    /// Groups are merged from single rows upward.
    BottomUp,
    /// Values stay exact; the links between groups of columns are broken, by associations.
    AsgLs,
    /// The same with one set of columns for the whole table, by correlation.
    Slicing,
}

const METHODS: [(&str, Method); 16] = [
    ("rounded", Method::Rounded),
    ("layered", Method::Layered),
    ("mondrian", Method::Mondrian),
    ("mondrian_relaxed", Method::MondrianRelaxed),
    ("classfly_complete", Method::ClassflyComplete),
    ("classfly_partial", Method::ClassflyPartial),
    ("classfly_naive", Method::ClassflyNaive),
    ("classfly", Method::Classfly),
    ("datafly", Method::Datafly),
    ("alpha_k", Method::AlphaK),
    ("top_down", Method::TopDown),
    ("kaim", Method::Kaim),
    ("k_member", Method::KMember),
    ("bottom_up", Method::BottomUp),
    ("asg_ls", Method::AsgLs),
    ("slicing", Method::Slicing),
];

/// What kind of work a method is: which options it takes and how its release is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approach {
    /// Groups are cut, here, as long as both sides satisfy the requirement.
    Partition(Cut),
    /// Rows are frozen where they lose least, and the rest climbs; one requirement.
    Layer,
    /// Values climb their hierarchies until all constraints hold; rows are frozen on the way.
    Freeze(Search),
    /// Values of all rows climb together.
    FullDomain,
    /// Groups are parted under the children of their nodes.
    Specialize,
    /// Rows are grouped by their sensitive values and published in two tables.
    TwoTables,
    /// Rows are grouped by distance.
    Cluster(Clustering),
    /// Columns of buckets are permuted apart.
    Slice(SliceBy),
}

/// What decides which columns stay together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SliceBy {
    /// Associations between values, bucket by bucket.
    Associations,
    /// Correlation in the whole table.
    Correlation,
}

impl Approach {
    /// Whether parts of a table can be anonymized apart from each other.
    pub fn works_in_cells(self) -> bool {
        match self {
            Self::Partition(_) | Self::Layer | Self::Cluster(_) | Self::Slice(_) => true,
            // These look at the whole table: how often a value occurs in it, or in which class its rows are.
            Self::Freeze(_) | Self::FullDomain | Self::Specialize | Self::TwoTables => false,
        }
    }

    /// Whether the method works from constraints, and needs a hierarchy for every column.
    pub fn has_constraints(self) -> bool {
        matches!(self, Self::Freeze(_) | Self::FullDomain)
    }
}

impl Method {
    /// The names of all methods.
    pub fn names() -> Vec<&'static str> {
        METHODS.iter().map(|(name, _)| *name).collect()
    }

    /// What kind of work the method is.
    pub fn approach(self) -> Approach {
        match self {
            Self::Rounded => Approach::Partition(Cut::Rounded),
            Self::Layered => Approach::Layer,
            Self::Mondrian => Approach::Partition(Cut::Strict),
            Self::MondrianRelaxed => Approach::Partition(Cut::Relaxed),
            Self::ClassflyComplete | Self::Classfly => Approach::Freeze(Search::Complete),
            Self::ClassflyPartial => Approach::Freeze(Search::Partial),
            Self::ClassflyNaive => Approach::Freeze(Search::Naive),
            Self::Datafly => Approach::FullDomain,
            Self::AlphaK => Approach::TwoTables,
            Self::TopDown => Approach::Specialize,
            Self::Kaim => Approach::Cluster(Clustering::Kaim(Scale::default())),
            Self::KMember => Approach::Cluster(Clustering::KMember),
            Self::BottomUp => Approach::Cluster(Clustering::BottomUp),
            Self::AsgLs => Approach::Slice(SliceBy::Associations),
            Self::Slicing => Approach::Slice(SliceBy::Correlation),
        }
    }
}

impl Method {
    /// Whether the method may leave out rows or cells.
    pub fn suppresses(self) -> bool {
        matches!(self, Self::KMember | Self::AlphaK | Self::AsgLs)
            || self.approach().has_constraints()
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        choose("method", name, &METHODS)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = METHODS.iter().find(|(_, method)| method == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}
