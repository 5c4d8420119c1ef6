//! Options in files: `[anonymize]` of jobs and policies, and what a manifest tells.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::definition::{Definition, Options, Place};
use super::value::Value;

impl Serialize for Options {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.for_manifest())
    }
}

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Section)
    }
}

struct Section;

impl<'de> Visitor<'de> for Section {
    type Value = Options;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the options of anonymize, as in k = 10")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Options, A::Error> {
        let mut options = Options::default();
        while let Some(definition) = map.next_key_seed(OptionName)? {
            map.next_value_seed(Setting { options: &mut options, definition })?;
        }
        Ok(options)
    }
}

/// Known while the key is read, so that a mistake has the line of the key.
struct OptionName;

impl<'de> DeserializeSeed<'de> for OptionName {
    type Value = &'static Definition;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known: Vec<&Definition> = Options::definitions(Place::File).collect();
        known.iter().find(|definition| definition.name == name).copied().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|definition| definition.name).collect();
            D::Error::custom(format!(
                "unknown field `{name}`, {}expected one of `{}`",
                did_you_mean(&name, &names),
                names.join("`, `")
            ))
        })
    }
}

/// Set while the value is read, so that a mistake has the line of the value.
struct Setting<'a> {
    options: &'a mut Options,
    definition: &'static Definition,
}

impl<'de> DeserializeSeed<'de> for Setting<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let value = Value::deserialize(deserializer)?;
        self.options.set(self.definition, value, Place::File).map_err(D::Error::custom)
    }
}

/// `did you mean '…'? ` if a known name differs from a misspelt one in at most a third of its letters.
pub(in crate::engine) fn did_you_mean(name: &str, known: &[&str]) -> String {
    let distance =
        |option: &str| datafusion::common::utils::datafusion_strsim::levenshtein(name, option);
    let best = known.iter().min_by_key(|option| distance(option));
    match best.filter(|best| distance(best) * 3 <= name.len().max(best.len())) {
        Some(best) => format!("did you mean '{best}'? "),
        None => String::new(),
    }
}
