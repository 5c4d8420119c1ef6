//! The options that some methods take and others cannot honour.

use std::fmt;

use super::Family;

/// Whether an option can be honoured, or why not and what to write instead. In such a text `{all}` stands for "use"
/// and every method that takes the option, `{any}` for "use" and the first two of them.
pub type Takes = std::result::Result<(), &'static str>;

/// Calls a macro with the list of options that not every method takes, in the order in which they are checked. `= name`
/// is the option of that name in `engine/options`; a text says what else is asked for, such as one value of an option.
macro_rules! method_options {
    ($callback:ident) => {
        $callback! {
                /// Whether the release is one of a series.
                Series = series,
                /// Constraints, one or several.
                Constraints = constraints,
                /// More than one constraint.
                ManyConstraints = "a second constraint",
                /// What happens to suppressed rows, whatever was said.
                Suppress = suppress,
                /// Suppressed rows publish `*`.
                SuppressCells = "suppress => 'cells'",
                /// Suppressed rows are left out.
                SuppressRows = "suppress => 'rows'",
                /// Distinct l-diversity.
                L = l,
                /// Entropy l-diversity.
                EntropyL = entropy_l,
                /// t-closeness.
                T = t,
                /// The largest share of a value, or one for each level of sensitivity.
                Alpha = alpha,
                /// Levels of sensitivity.
                Sensitivity = sensitivity,
                /// k counts persons.
                PrivacyUnit = privacy_unit,
                /// Which column a group is cut on.
                Split = split,
                /// A generalized number is the mean of its class, by the option or the setting.
                MeanRanges = "ranges => 'mean'",
                /// How much a column counts in a distance.
                Weights = weights,
                /// How many rows are compared with each other.
                BlockRows = block_rows,
                /// The most attributes of a column of a sliced release.
                MaxColumns = max_columns,
                /// The fewest attributes of a column that an association makes.
                MinColumns = min_columns,
                /// The share of the rows that an association needs.
                MinSupport = min_support,
                /// How often the rule of an association holds.
                MinConfidence = min_confidence,
                /// The number of columns of a sliced release.
                Columns = columns,
                /// The share below which a value is generalized in a sliced release.
                RareBelow = rare_below,
                /// Whether the columns of a bucket are published.
                ColumnGroups = column_groups,
                /// Whether the bucket is published.
                BucketId = bucket_id,
                /// How generalized numbers are published.
                Ranges = ranges,
                /// Hierarchies of quasi-identifiers.
                Hierarchies = hierarchies,
                /// Which of two tables is wanted.
                Publish = "option 'publish'",
                /// The method as its paper prints it.
                Paper = "variant => 'paper'",
                /// The fewest rows of a run, of the toy method.
                #[cfg(test)]
                RunRows = run_rows,
        }
    };
}
#[cfg(feature = "engine")]
pub(crate) use method_options;

/// What a message calls an entry of the list.
macro_rules! written {
    ($name:ident) => {
        concat!("option '", stringify!($name), "'")
    };
    ($text:literal) => {
        $text
    };
}

macro_rules! define {
    ($($(#[doc = $doc:literal])+ $(#[cfg($cfg:meta)])? $option:ident = $written:tt,)*) => {
        /// An option, or a value of one, that not every method takes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum MethodOption {
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? $option,)*
        }

        impl MethodOption {
            /// All of them, in the order in which they are checked.
            pub const ALL: &[Self] = &[$($(#[cfg($cfg)])? Self::$option,)*];
        }

        impl fmt::Display for MethodOption {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($(#[cfg($cfg)])? Self::$option => written!($written),)*
                })
            }
        }
    };
}

method_options!(define);

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
