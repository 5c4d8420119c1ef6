//! Every method, in one table, and what the rest of the program may ask of one.
//!
//! A method is a type that implements [`Method`] in its own file, and one line in [`METHODS`]. Checks of
//! options, the alternatives that errors name, documentation tables, `EXPLAIN`, the plan codec and the lists of the tests
//! all read that table; nothing else knows a method by name.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::str::FromStr;

use super::option::{MethodOption, Takes, explain, one_of};
use super::{Job, Settings, TableShape, Unverified};
use super::{alpha_k, classfly, cluster, layered, partition, slicing, top_down};
use crate::error::{Error, Result};
use crate::model::RowTable;

/// A way to anonymize rows.
///
/// A plain method says what it is and forms classes; every other answer has a default that its [`Family`] gives.
pub trait Method: Sync {
    /// Its name, its family, and what the documentation says.
    fn about(&self) -> &About;

    /// The name in SQL.
    fn name(&self) -> &'static str {
        self.about().name
    }

    /// What kind of release it makes.
    fn family(&self) -> Family {
        self.about().family
    }

    /// Whether the option can be honoured beside all `given` ones, or why not and what to use instead.
    fn accepts(&self, option: MethodOption, _given: &[MethodOption]) -> Takes {
        self.family().accepts(option)
    }

    /// Whether rows or cells may be suppressed without having been asked for.
    fn suppresses(&self) -> bool {
        self.family() == Family::Constraints
    }

    /// Whether rows that miss a quasi-identifier are left out.
    fn drops_incomplete_rows(&self) -> bool {
        false
    }

    /// Whether every quasi-identifier needs a hierarchy, a default one if none was given.
    fn needs_hierarchies(&self) -> bool {
        self.family() == Family::Constraints
    }

    /// Whether parts of a table can be anonymized apart from each other.
    fn works_in_cells(&self) -> bool {
        matches!(self.family(), Family::Classes | Family::Slices)
    }

    /// Bytes that are allocated beside the table and the counters of its values.
    fn memory(&self, _shape: &TableShape, _settings: &Settings) -> usize {
        0
    }

    /// Forms the release. The caller verifies it. Works on the current rayon pool.
    fn form(&self, rows: &mut RowTable, job: &Job, settings: &Settings) -> Result<Unverified>;
}

/// What a method is.
#[derive(Debug)]
pub struct About {
    /// The name in SQL, as in the paper.
    pub name: &'static str,
    /// What kind of release it makes.
    pub family: Family,
    /// Completes "choose it when …" in the documentation.
    pub summary: &'static str,
    /// What a reader may expect of the classes, for the documentation.
    pub class_sizes: &'static str,
}

/// What kind of release a method makes: how the engine executes, verifies and publishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Classes that satisfy one requirement and publish what covers their values.
    Classes,
    /// Every row publishes nodes of hierarchies, so that each constraint on some of the columns holds.
    Constraints,
    /// Quasi-identifiers and sensitive values stay exact, in two tables that share a class.
    TwoTables,
    /// Values stay exact, and groups of columns are permuted apart inside buckets.
    Slices,
}

/// The order in which errors and documentation list the methods.
static METHODS: &[&dyn Method] = &[
    &layered::LAYERED,
    &partition::ROUNDED,
    &partition::MONDRIAN,
    &partition::MONDRIAN_RELAXED,
    &classfly::CLASSFLY_COMPLETE,
    &classfly::CLASSFLY_PARTIAL,
    &classfly::CLASSFLY_NAIVE,
    &classfly::CLASSFLY,
    &classfly::DATAFLY,
    &alpha_k::ALPHA_K,
    &top_down::TOP_DOWN,
    &cluster::KAIM,
    &cluster::K_MEMBER,
    &cluster::BOTTOM_UP,
    &slicing::ASG_LS,
    &slicing::SLICING,
    #[cfg(test)]
    &super::toy::SORTED_RUNS,
];

/// Every method.
pub fn methods() -> impl Iterator<Item = MethodRef> {
    METHODS.iter().copied().map(MethodRef)
}

/// The names of methods as messages list them: `'a', 'b' or 'c'`.
fn listed(methods: impl Iterator<Item = MethodRef>) -> String {
    one_of(&methods.map(|method| method.0.name()).collect::<Vec<_>>())
}

impl Family {
    /// Its methods, for messages.
    pub fn method_names(self) -> String {
        listed(methods().filter(|method| method.family() == self))
    }
}

impl MethodOption {
    /// The first two methods that take the option, for messages.
    pub fn method_names(self) -> String {
        listed(methods().filter(|method| method.takes(self)).take(2))
    }
}

/// A registered method. Equal, hashed, printed and serialized by its name.
#[derive(Clone, Copy)]
pub struct MethodRef(&'static dyn Method);

impl MethodRef {
    /// The method of queries that name none, in a session that does not either.
    pub const DEFAULT: Self = Self(&layered::LAYERED);

    /// The method that several constraints choose if none is named.
    pub fn for_constraints() -> Result<Self> {
        let first = methods().find(|method| method.family() == Family::Constraints);
        first.ok_or_else(|| Error::bug("no method is registered for constraints"))
    }

    /// Whether the method takes an option that depends on no other.
    pub fn takes(self, option: MethodOption) -> bool {
        self.accepts(option, &[option]).is_ok()
    }

    /// Errors on the first of the given options that the method cannot honour: nothing is ever dropped silently.
    pub fn check(self, given: &[MethodOption]) -> Result<()> {
        for option in given {
            if let Err(refusal) = self.accepts(*option, given) {
                let instead = explain(refusal, &self.alternatives(*option, given));
                return Err(Error::invalid(format!(
                    "{option} does not go with method '{self}': {instead}"
                )));
            }
        }
        Ok(())
    }

    /// The methods that take everything that was given, or at least this option.
    fn alternatives(self, option: MethodOption, given: &[MethodOption]) -> Vec<&'static str> {
        let takes = |wanted: &[MethodOption], given: &[MethodOption]| {
            let fits = |method: &Self| wanted.iter().all(|o| method.accepts(*o, given).is_ok());
            methods().filter(fits).map(|method| method.0.name()).collect::<Vec<_>>()
        };
        // Some options are taken in company only, as those of a paper's version.
        let attempts: [(&[_], &[_]); 3] =
            [(given, given), (&[option], given), (&[option], MethodOption::ALL)];
        let mut found = attempts.into_iter().map(|(wanted, given)| takes(wanted, given));
        found.find(|names| !names.is_empty()).unwrap_or_default()
    }
}

impl Deref for MethodRef {
    type Target = dyn Method;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl FromStr for MethodRef {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = methods().find(|method| method.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| {
            let names: Vec<String> = methods().map(|method| format!("'{method}'")).collect();
            let names = names.join(", ");
            Error::invalid(format!("option 'method': '{name}' is not known; use {names}"))
        })
    }
}

impl fmt::Display for MethodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for MethodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for MethodRef {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for MethodRef {}

impl Hash for MethodRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

#[cfg(feature = "cluster")]
impl serde::Serialize for MethodRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(feature = "cluster")]
impl<'de> serde::Deserialize<'de> for MethodRef {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_back_to_their_method() {
        for method in methods() {
            assert_eq!(method.name().parse(), Ok(method));
            let same = methods().filter(|other| other == &method).count();
            assert_eq!(same, 1, "{method}");
        }
    }

    #[test]
    fn every_refusal_names_a_way_out_that_works() {
        for method in methods() {
            for &option in MethodOption::ALL {
                let Err(refusal) = method.accepts(option, &[option]) else { continue };
                let text = explain(refusal, &method.alternatives(option, &[option]));
                assert!(
                    !text.contains('{') && !text.ends_with("use "),
                    "{method}, {option}: {text}"
                );
                let named = methods().filter(|other| text.contains(&format!("'{other}'")));
                for other in named {
                    let takes =
                        other.accepts(option, MethodOption::ALL).is_ok() || other.takes(option);
                    assert!(takes, "{method}, {option}: {text}");
                }
            }
        }
    }
}
