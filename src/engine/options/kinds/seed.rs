//! The secret of a release, or where it is kept.

use std::fmt;

use datafusion::common::ScalarValue;

use super::{Accepts, Kind, Misread, Wanted, constant};
use crate::engine::options::Place;
use crate::engine::options::value::{Name, Value};
use crate::error::{Error, Result};
use crate::model::Secret;

/// Where the seed comes from. It is a secret, so a file that is shared names a variable or another file.
#[derive(Clone)]
pub enum SeedSource {
    /// It was written where it was read; its text is not kept.
    Given(Result<Secret>),
    /// An environment variable holds it.
    Environment(String),
    /// A file of its own holds it.
    File(String),
}

/// What is written is a secret.
impl fmt::Debug for SeedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeedSource(secret)")
    }
}

impl SeedSource {
    /// The secret itself. Variables and files are looked up by whoever reads the job.
    pub(in crate::engine) fn secret(self) -> Result<Secret> {
        match self {
            Self::Given(secret) => secret,
            Self::Environment(_) | Self::File(_) => Err(Error::bug("the seed was not looked up")),
        }
    }
}

/// A secret.
pub struct Seed;

impl Kind for Seed {
    type Field = Option<SeedSource>;

    const WANTED: Wanted = Wanted {
        words: "a text or a whole number",
        sql: "'…'",
        file: "{ env = \"PATIENTS_SEED\" }",
    };

    fn read(value: Value, place: Place) -> Result<Self::Field, Misread> {
        let source = match (value, place) {
            (Value::Map(entries), Place::File) => SeedSource::from_reference(&entries),
            (value, _) => constant(value).map(|constant| SeedSource::written(&constant)),
        };
        match (source, place) {
            (Ok(Some(source)), _) => Ok(Some(source)),
            (Err(wrong), Place::Sql(_)) => Err(wrong),
            (Ok(None), Place::Sql(_)) => Err(Misread::Wrong),
            (_, Place::File) => Err(Misread::Complete(Error::invalid(
                "the seed must be a text, a whole number, { env = \"NAME\" } or { file = \"path\" }",
            ))),
        }
    }

    fn for_manifest(_: &Self::Field) -> Option<Value> {
        None
    }
}

impl SeedSource {
    /// A seed that stands where it is read: texts and whole numbers, by how they are written.
    fn written(constant: &ScalarValue) -> Option<Self> {
        let accepted =
            constant.data_type().is_integer() || constant.try_as_str().flatten().is_some();
        accepted.then(|| Self::Given(Secret::from_text(&constant.to_string())))
    }

    /// `{ env = "NAME" }` or `{ file = "path" }`
    fn from_reference(entries: &[(Name, Value)]) -> Result<Option<Self>, Misread> {
        let [(place, name)] = entries else { return Ok(None) };
        let Some(name) = name.text().map(str::to_owned) else { return Ok(None) };
        Ok(match place.column.as_str() {
            "env" => Some(Self::Environment(name)),
            "file" => Some(Self::File(name)),
            _ => None,
        })
    }
}

impl<T: ToString> Accepts<T> for Seed {
    fn accept(given: T) -> Self::Field {
        Some(SeedSource::Given(Secret::from_text(&given.to_string())))
    }
}
