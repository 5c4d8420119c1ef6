//! The one list of options. SQL arguments, the builder for Rust, `[anonymize]` of jobs and policies, manifests,
//! the options that reports share and the table in `docs/options.md` come from it.
//!
//! An option is a line of [`options!`]: its documentation, its name, `as` a clearer name in the builder if it has one, its
//! [kind](super::kinds) and, in brackets, the reports that take it too. The first paragraph of the documentation is in
//! plain words: the page about a release shows it to people who are no programmers.

use super::Anonymize;
use super::kinds::{
    Accepts, Choice, Column, Columns, Constraints, Flag, Hierarchies, Kind, Levels, Lookup, Number,
    Numbers, Seed, Series, Text, TextOrFlag, Wanted, Weights, Whole,
};
use super::series::Newcomers;
use super::value::Value;
use crate::columnar::Ranges;
use crate::error::{Error, Result};
use crate::method::partition::Split;
use crate::method::{MethodRef, Variant};
use crate::model::AlphaScope;
use crate::model::series::{Changes, Leavers};

/// The description of an option.
#[derive(Debug)]
pub struct Definition {
    /// Its name, wherever it is written.
    pub name: &'static str,
    /// The lines of its documentation.
    documentation: &'static [&'static str],
    pub(super) wanted: Wanted,
    /// Where else it is taken: the reports, or `sql_only` if files do not set it.
    scopes: &'static [&'static str],
}

/// Where a value was read: how things are written there, and what a mistake is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a call of this SQL function.
    Sql(&'static str),
    /// In a job or policy file, or a manifest.
    File,
}

impl Definition {
    /// Whether the option can be written in this place.
    pub fn is_in(&self, place: Place) -> bool {
        match place {
            Place::Sql("anonymize") => true,
            Place::Sql(report) => self.scopes.contains(&report),
            Place::File => !self.scopes.contains(&"sql_only"),
        }
    }

    /// What its value is, in words: "a whole number".
    pub fn value(&self) -> &'static str {
        self.wanted.words
    }

    /// What the option does, in plain words.
    pub fn summary(&self) -> String {
        let lines = self.documentation.iter().map(|line| line.trim());
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// All of its documentation, in one line.
    pub fn description(&self) -> String {
        let lines = self.documentation.iter().map(|line| line.trim());
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// The setter of an option in the builder, under the option's own name unless it says `as`.
macro_rules! setter {
    ($(#[doc = $doc:literal])+ $name:ident: $kind:ty) => {
        setter! { $(#[doc = $doc])+ $name as $name: $kind }
    };
    ($(#[doc = $doc:literal])+ $name:ident as $setter:ident: $kind:ty) => {
        $(#[doc = $doc])+
        pub fn $setter<T>(mut self, value: T) -> Self
        where
            $kind: Accepts<T>,
        {
            self.options.$name = <$kind as Accepts<T>>::accept(value);
            self
        }
    };
}

macro_rules! options {
    ($(
        $(#[doc = $doc:literal])+
        $(#[cfg($cfg:meta)])?
        $name:ident $(as $setter:ident)?: $kind:ty $([$($scope:ident),+])?,
    )+) => {
        /// A request, not yet checked against the input. Every field is an option of the SQL function.
        #[derive(Debug, Clone, Default)]
        pub struct Options {
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? pub $name: <$kind as Kind>::Field,)+
        }

        /// Every option, in the order in which they are listed.
        pub(super) static DEFINITIONS: &[Definition] = &[$($(#[cfg($cfg)])? Definition {
            name: stringify!($name),
            documentation: &[$($doc),+],
            wanted: <$kind as Kind>::WANTED,
            scopes: &[$($(stringify!($scope)),+)?],
        }),+];

        impl Options {
            /// Reads a value into the option of this definition.
            pub(in crate::engine) fn set(
                &mut self,
                definition: &Definition,
                value: Value,
                place: Place,
            ) -> Result<()> {
                match definition.name {
                    $($(#[cfg($cfg)])? stringify!($name) => {
                        let read = <$kind as Kind>::read(value, place);
                        self.$name = read.map_err(|misread| definition.wanted.mistake(definition.name, misread, place))?;
                    })+
                    _ => return Err(Error::bug("an option without a field")),
                }
                Ok(())
            }

            /// The options that are set, as a manifest may tell them: no seed, no value of the data.
            pub fn for_manifest(&self) -> Vec<(&'static str, Value)> {
                let told = [$($(#[cfg($cfg)])? (stringify!($name), <$kind as Kind>::for_manifest(&self.$name))),+];
                told.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
            }

            /// Leaves out the options that are not wanted.
            pub fn retain(&mut self, wanted: impl Fn(&Definition) -> bool) {
                let mut definitions = DEFINITIONS.iter();
                $($(#[cfg($cfg)])? if !definitions.next().is_some_and(&wanted) {
                    self.$name = Default::default();
                })+
            }

            /// Calls columns by other names, wherever an option names one.
            pub fn rename_columns(&mut self, name: &dyn Fn(&str) -> String) {
                $($(#[cfg($cfg)])? <$kind as Kind>::rename_columns(&mut self.$name, name);)+
            }

            /// The relations that the options name, to be looked up.
            pub fn relations(&mut self) -> Vec<Lookup<'_>> {
                let mut lookups = Vec::new();
                $($(#[cfg($cfg)])? lookups.extend(<$kind as Kind>::relations(&mut self.$name));)+
                lookups
            }
        }

        /// A setter for every option.
        impl Anonymize {
            $($(#[cfg($cfg)])? setter! { $(#[doc = $doc])+ $name $(as $setter)?: $kind })+
        }
    };
}

options! {
    /// The fewest records that must look alike.
    ///
    /// At least 2; `SET anonymize.default_k = 10` for queries that name none.
    k: Whole [privacy_report, utility_report, series_report],
    /// What somebody could know about a person; published less precisely.
    quasi_identifiers: Columns [privacy_report, utility_report, series_report],
    /// What nobody should learn about a person; published as it is.
    sensitive: Columns [privacy_report, utility_report, series_report],
    /// What names a person; not read and not published.
    identifiers: Columns,
    /// Harmless; published as it is.
    keep: Columns,
    /// Tells persons apart, so that groups are counted in persons; not published.
    privacy_unit: Column [privacy_report],
    /// The largest share of a group that one person may hold.
    ///
    /// Above 0 and at most 1. Needs `privacy_unit`; without it one person may hold all but k − 1 rows of a class.
    unit_share: Number [privacy_report],
    /// How records are grouped.
    ///
    /// `layered` for queries that name none, `classfly_complete` if they have `constraints`; `SET anonymize.default_method` chooses
    /// another.
    method: Choice<MethodRef>,
    /// Whether the method runs as its paper prints it.
    ///
    /// `best` (the default) or `paper`.
    variant: Choice<Variant>,
    /// The steps in which values become less precise.
    ///
    /// By column: `intervals(5, 10)`, `prefixes(3, 2)`, `date_steps('month', 'year')`, a table, a query or a path to
    /// a CSV file.
    hierarchies: Hierarchies [utility_report, series_report],
    /// The fewest different sensitive values in a group.
    l: Whole [privacy_report, series_report],
    /// How evenly sensitive values are spread in a group.
    ///
    /// The l whose logarithm the entropy of a class reaches.
    entropy_l: Number [privacy_report],
    /// How far a group may differ from the whole table.
    ///
    /// The distance between the distributions of sensitive values, from 0 to 1.
    t: Number [privacy_report],
    /// The largest share of one sensitive value in a group.
    ///
    /// One share, or with `sensitivity` one for each level.
    alpha: Numbers [privacy_report, series_report],
    /// How sensitive the values are; the values themselves are never told.
    ///
    /// Values with levels from 1, the most sensitive, or a table of both.
    sensitivity: Levels [privacy_report, utility_report],
    /// Whether shares are those of a value or of a level of sensitivity.
    ///
    /// `value` (the default) or `level`.
    alpha_scope: Choice<AlphaScope> [privacy_report],
    /// Which of two tables is wanted.
    ///
    /// `quasi_identifiers` or `sensitive`; a job publishes both. With `series` `release` (the default), or `members`, the
    /// persons of its new cohorts, which are to be kept in private.
    publish: Text [sql_only],
    /// What the release goes on from, so that nobody learns more from comparing it with earlier ones.
    ///
    /// The rows that `publish => 'members'` gave on all nights before, and the last release; empty tables on the first
    /// night.
    series: Series [sql_only],
    /// What happens to a group of which somebody is gone.
    ///
    /// `hold` (the default) repeats its rows of the last release, `withdraw` leaves it out for good. With `series`.
    leavers: Choice<Leavers> [sql_only],
    /// Whether changed values of persons are published.
    ///
    /// `publish` (the default), or `never`: everybody's first ones for ever. With `series`.
    changes: Choice<Changes> [sql_only],
    /// What happens to persons who are in no group yet.
    ///
    /// `group` (the default) groups them among themselves, `wait` leaves them for a later night. With `series`.
    newcomers: Choice<Newcomers> [sql_only],
    /// Whether it is published of which groups somebody is gone.
    ///
    /// A column `held`. With `series`.
    held: Flag [sql_only],
    /// Which column a group is divided by.
    ///
    /// `least_loss` or `widest`; for queries that name none `SET anonymize.split`, or `widest` with `variant => 'paper'`.
    split: Choice<Split>,
    /// How ranges of numbers are written.
    ///
    /// `label`, `bounds` or `mean`; `SET anonymize.ranges` for queries that name none.
    ranges: Choice<Ranges>,
    /// Whether the number of a group is published.
    class_id: Flag,
    /// Whether the number of a bucket is published.
    bucket_id: Flag,
    /// Whether it is published which columns of a bucket belong together.
    column_groups: Flag,
    /// Combinations of columns, each with the fewest records that must share them.
    constraints: Constraints [privacy_report],
    /// What happens to records that fit nowhere.
    ///
    /// `cells` publishes `*`, `rows` or `true` leaves them out.
    suppress: TextOrFlag,
    /// The largest share that may be left out.
    suppression_limit: Number,
    /// How much columns count when records are compared.
    ///
    /// 1 for a column that is not listed.
    weights: Weights,
    /// How many records are compared with each other.
    ///
    /// Larger tables are cut into blocks first.
    block_rows: Whole,
    /// How many groups of columns stay together.
    columns as slice_groups: Whole,
    /// The most columns that stay together.
    max_columns: Whole [utility_report],
    /// The fewest columns that stay together.
    ///
    /// With `variant => 'paper'` only.
    min_columns: Whole,
    /// How frequent a connection between columns must be to be kept.
    ///
    /// A share of all rows.
    min_support: Number [utility_report],
    /// How reliable a connection between columns must be to be kept.
    ///
    /// How often its rule holds, from 0 to 1.
    min_confidence: Number [utility_report],
    /// The share below which a value is too rare to be published exactly.
    rare_below: Number,
    /// The secret that breaks ties.
    ///
    /// Without it one is drawn per session. A release that is written needs one of 16 characters or more, or
    /// `SET anonymize.allow_short_seeds = true`. In a file `{ env = "NAME" }` or `{ file = "path" }` says where it is.
    seed: Seed,
    /// The fewest rows of a run.
    ///
    /// For tests: this line, its line in `method/option.rs` and its use are all there is of it, which `engine/toy_option.rs`
    /// writes in every place that takes options.
    #[cfg(test)]
    run_rows: Whole,
}

impl Options {
    /// The options that can be written in this place, in the order in which they are listed.
    pub fn definitions(place: Place) -> impl Iterator<Item = &'static Definition> {
        DEFINITIONS.iter().filter(move |definition| definition.is_in(place))
    }
}
