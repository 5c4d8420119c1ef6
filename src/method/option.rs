//! The options that some methods take and others cannot honour.

use std::fmt;

use super::Family;

/// Whether an option can be honoured, or why not and what to write instead. In such a text `{all}` stands for "use"
/// and every method that takes the option, `{any}` for "use" and the first two of them.
pub type Takes = std::result::Result<(), &'static str>;

macro_rules! options {
    ($($(#[$doc:meta])* $option:ident = $written:literal,)*) => {
        /// An option, or a value of one, that not every method takes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum MethodOption {
            $($(#[$doc])* $option,)*
        }

        impl MethodOption {
            /// All of them, in the order in which they are checked.
            pub const ALL: &[Self] = &[$(Self::$option,)*];
        }

        impl fmt::Display for MethodOption {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$option => $written,)*
                })
            }
        }
    };
}

options! {
    /// Whether the release is one of a series.
    Series = "option 'series'",
    /// Constraints, one or several.
    Constraints = "option 'constraints'",
    /// More than one constraint.
    ManyConstraints = "a second constraint",
    /// What happens to suppressed rows, whatever was said.
    Suppress = "option 'suppress'",
    /// Suppressed rows publish `*`.
    SuppressCells = "suppress => 'cells'",
    /// Suppressed rows are left out.
    SuppressRows = "suppress => 'rows'",
    /// Distinct l-diversity.
    L = "option 'l'",
    /// Entropy l-diversity.
    EntropyL = "option 'entropy_l'",
    /// t-closeness.
    T = "option 't'",
    /// The largest share of a value, or one for each level of sensitivity.
    Alpha = "option 'alpha'",
    /// Levels of sensitivity.
    Sensitivity = "option 'sensitivity'",
    /// k counts persons.
    PrivacyUnit = "option 'privacy_unit'",
    /// Which column a group is cut on.
    Split = "option 'split'",
    /// A generalized number is the mean of its class, by the option or the setting.
    MeanRanges = "ranges => 'mean'",
    /// How much a column counts in a distance.
    Weights = "option 'weights'",
    /// How many rows are compared with each other.
    BlockRows = "option 'block_rows'",
    /// The most attributes of a column of a sliced release.
    MaxColumns = "option 'max_columns'",
    /// The fewest attributes of a column that an association makes.
    MinColumns = "option 'min_columns'",
    /// The share of the rows that an association needs.
    MinSupport = "option 'min_support'",
    /// How often the rule of an association holds.
    MinConfidence = "option 'min_confidence'",
    /// The number of columns of a sliced release.
    Columns = "option 'columns'",
    /// The share below which a value is generalized in a sliced release.
    RareBelow = "option 'rare_below'",
    /// Whether the columns of a bucket are published.
    ColumnGroups = "option 'column_groups'",
    /// Whether the bucket is published.
    BucketId = "option 'bucket_id'",
    /// How generalized numbers are published.
    Ranges = "option 'ranges'",
    /// Hierarchies of quasi-identifiers.
    Hierarchies = "option 'hierarchies'",
    /// Which of two tables is wanted.
    Publish = "option 'publish'",
    /// The method as its paper prints it.
    Paper = "variant => 'paper'",
}

impl MethodOption {
    /// Why a method that knows nothing of the option refuses it.
    pub fn refused(self) -> Takes {
        Err(match self {
            Self::Split => "it cuts no groups; leave it out",
            Self::MaxColumns | Self::RareBelow | Self::ColumnGroups => {
                "it breaks no links between columns; {all}"
            }
            Self::MinColumns | Self::MinSupport | Self::MinConfidence => {
                "it looks for no associations; {all}"
            }
            Self::Columns => "its columns differ from bucket to bucket or there are none; {all}",
            Self::BucketId => "it makes classes; use class_id",
            Self::Publish => "it publishes one table; {all}",
            Self::Series => "its classes do not stay together from one release to the next; {all}",
            Self::Paper => "no paper prints it; leave it out, or {any}",
            Self::PrivacyUnit => "it counts rows; {any}, or aggregate to a row per person",
            _ => "{all}",
        })
    }
}

impl Family {
    /// What the methods of the family take, unless they say otherwise.
    pub fn accepts(self, option: MethodOption) -> Takes {
        use MethodOption::*;
        let models = matches!(option, L | EntropyL | T | Alpha | Sensitivity);
        let generalizes = matches!(option, Ranges | MeanRanges | Hierarchies);
        match (self, option) {
            (Self::Classes, PrivacyUnit | Series) => Ok(()),
            (Self::Classes, _) if models || generalizes => Ok(()),
            (Self::Constraints, MeanRanges) => Err(
                "rows of one published value are not one class, and a mean could be a single row's value; use \
                 'label' or 'bounds'",
            ),
            (Self::Constraints, Constraints | ManyConstraints | Paper) => Ok(()),
            (Self::Constraints, Suppress | SuppressCells | SuppressRows) => Ok(()),
            (Self::Constraints, _) if generalizes => Ok(()),
            (Self::Constraints, _) if models => {
                Err("its groups differ from constraint to constraint; {any}")
            }
            (Self::TwoTables, Alpha | Sensitivity | Publish | Paper) => Ok(()),
            (Self::TwoTables, _) if models => Err("it keeps k and alpha; {any}"),
            // The setting of a session that asks for means is not about exact values.
            (Self::TwoTables, MeanRanges) => Ok(()),
            (Self::TwoTables, Ranges | Hierarchies) => {
                Err("it publishes quasi-identifiers as they are; leave it out")
            }
            (Self::Slices, L | MaxColumns | RareBelow | ColumnGroups | BucketId | Paper) => Ok(()),
            (Self::Slices, _) if models => Err("it keeps k and l; {any}"),
            (Self::Slices, _) if generalizes => Ok(()),
            _ => option.refused(),
        }
    }
}

/// The text of a refusal with the methods that take the option.
pub(super) fn explain(refusal: &str, takers: &[&str]) -> String {
    let first_two = &takers[..takers.len().min(2)];
    refusal.replace("{all}", &use_one_of(takers)).replace("{any}", &use_one_of(first_two))
}

fn use_one_of(names: &[&str]) -> String {
    format!("use {}", one_of(names))
}

/// `'a', 'b' or 'c'`.
pub(super) fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
