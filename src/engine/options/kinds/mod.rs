//! The kinds of options: how each is read, what to write when it is wrong, and what a manifest says of it.

mod choice;
mod columns;
mod seed;
mod series;
mod tables;

pub use choice::{Choice, Chosen};
pub use columns::{Column, Columns, Constraints, Weights};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

pub use seed::{Seed, SeedSource};
pub use series::{Series, SeriesTables};
pub use tables::{Hierarchies, Hierarchy, Levels, Sensitivity};

use super::Place;
use super::value::{Relation, Value};
use crate::error::Error;

/// A kind of option.
pub trait Kind {
    /// The field in [`Options`](super::Options); its default is an option that is left out.
    type Field: Default;

    /// What to write.
    const WANTED: Wanted;

    /// What a value means here.
    fn read(value: Value, place: Place) -> Result<Self::Field, Misread>;

    /// The option as a manifest may tell it, `None` if it is left out: no seed, no value of the data.
    fn for_manifest(field: &Self::Field) -> Option<Value>;

    /// Calls columns by other names.
    fn rename_columns(_: &mut Self::Field, _: &dyn Fn(&str) -> String) {}

    /// The relations that must be looked up.
    fn relations(_: &mut Self::Field) -> Vec<Lookup<'_>> {
        Vec::new()
    }
}

/// A kind whose field a Rust program sets from a `T`.
pub trait Accepts<T>: Kind {
    /// The field.
    fn accept(given: T) -> Self::Field;
}

/// What to write: in words, and an example in SQL and in a file.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub(super) words: &'static str,
    pub(super) sql: &'static str,
    pub(super) file: &'static str,
}

impl Wanted {
    /// Why the option of this name was misread, and what to write.
    pub(in crate::engine) fn mistake(&self, name: &str, misread: Misread, place: Place) -> Error {
        let Self { words, sql, file } = self;
        let in_sql = format!("{words}, as in {name} => {sql}");
        Error::invalid(match (misread, place) {
            (Misread::Complete(error), _) => return error,
            (Misread::Located(message), Place::Sql(function)) => format!("{function}: {message}"),
            (Misread::Located(message), Place::File) => message,
            (Misread::MustBe(wanted), Place::Sql(function)) => {
                format!("{function}: option '{name}' must be {wanted}")
            }
            (Misread::MustBe(wanted), Place::File) => {
                format!("invalid type: option '{name}', expected {wanted}")
            }
            (Misread::Null, Place::Sql(function)) => {
                format!("{function}: option '{name}' is NULL: leave it out, or write {in_sql}")
            }
            (Misread::NotConstant, Place::Sql(function)) => {
                format!("{function}: option '{name}' must be a constant, {in_sql}")
            }
            (Misread::Wrong, Place::Sql(function)) => {
                format!("{function}: option '{name}' must be {in_sql}")
            }
            (Misread::Null | Misread::NotConstant | Misread::Wrong, Place::File) => {
                format!("invalid type: option '{name}', expected {words}, as in {name} = {file}")
            }
        })
    }
}

/// A relation that an option needs.
#[derive(Debug)]
pub struct Lookup<'a> {
    /// What it is for.
    pub what: String,
    /// What else could be written.
    pub instead: &'static str,
    /// Where the plan goes.
    pub relation: &'a mut Relation,
}

/// Why a value is not what an option wants.
pub enum Misread {
    /// It is NULL. A computed value that happens to be missing must not drop a requirement.
    Null,
    /// It is not known before the query runs.
    NotConstant,
    /// It is of another kind.
    Wrong,
    /// It must be something else: what, in words.
    MustBe(String),
    /// A message, which the place of the mistake precedes.
    Located(String),
    /// A complete message.
    Complete(Error),
}

fn constant(value: Value) -> Result<ScalarValue, Misread> {
    match value {
        Value::Constant(constant) if constant.is_null() => Err(Misread::Null),
        Value::Constant(constant) => Ok(constant),
        Value::List(_) | Value::Map(_) => Err(Misread::Wrong),
        Value::Name(_) | Value::Call(..) | Value::Relation(_) | Value::Other => {
            Err(Misread::NotConstant)
        }
    }
}

fn whole_number(constant: &ScalarValue) -> Option<i64> {
    match constant {
        ScalarValue::Int8(v) => v.map(i64::from),
        ScalarValue::Int16(v) => v.map(i64::from),
        ScalarValue::Int32(v) => v.map(i64::from),
        ScalarValue::Int64(v) => *v,
        ScalarValue::UInt8(v) => v.map(i64::from),
        ScalarValue::UInt16(v) => v.map(i64::from),
        ScalarValue::UInt32(v) => v.map(i64::from),
        ScalarValue::UInt64(v) => v.and_then(|v| i64::try_from(v).ok()),
        _ => None,
    }
}

fn any_number(constant: &ScalarValue) -> Option<f64> {
    match constant.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(number)) if constant.data_type().is_numeric() => number,
        _ => None,
    }
}

fn finite_number(constant: &ScalarValue) -> Option<f64> {
    any_number(constant).filter(|number| number.is_finite())
}

/// A whole number.
pub struct Whole;

impl Kind for Whole {
    type Field = Option<i64>;

    const WANTED: Wanted = Wanted { words: "a whole number", sql: "10", file: "10" };

    fn read(value: Value, _: Place) -> Result<Self::Field, Misread> {
        whole_number(&constant(value)?).map(Some).ok_or(Misread::Wrong)
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        field.map(Value::from)
    }
}

impl<T: TryInto<i64>> Accepts<T> for Whole {
    fn accept(given: T) -> Self::Field {
        // More than fits is refused like any number that is too large.
        Some(given.try_into().unwrap_or(i64::MAX))
    }
}

/// A number.
pub struct Number;

impl Kind for Number {
    type Field = Option<f64>;

    const WANTED: Wanted = Wanted { words: "a number", sql: "0.2", file: "0.2" };

    fn read(value: Value, _: Place) -> Result<Self::Field, Misread> {
        finite_number(&constant(value)?).map(Some).ok_or(Misread::Wrong)
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        field.map(Value::from)
    }
}

impl Accepts<f64> for Number {
    fn accept(given: f64) -> Self::Field {
        Some(given)
    }
}

/// A number, or several; none if the option is left out.
pub struct Numbers;

impl Kind for Numbers {
    type Field = Vec<f64>;

    const WANTED: Wanted =
        Wanted { words: "a number or a list of numbers", sql: "[0.2, 0.5]", file: "[0.2, 0.5]" };

    fn read(value: Value, _: Place) -> Result<Self::Field, Misread> {
        let items = match value {
            Value::List(items) if items.is_empty() => return Err(Misread::Wrong),
            Value::List(items) => items,
            Value::Constant(constant) if constant.is_null() => return Err(Misread::Null),
            single => vec![single],
        };
        let number = |item| finite_number(&constant(item).ok()?);
        items.into_iter().map(number).collect::<Option<_>>().ok_or(Misread::Wrong)
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        match field.as_slice() {
            [] => None,
            [single] => Some((*single).into()),
            several => Some(several.iter().copied().collect()),
        }
    }
}

impl<T: IntoIterator<Item = f64>> Accepts<T> for Numbers {
    fn accept(given: T) -> Self::Field {
        given.into_iter().collect()
    }
}

/// A text.
pub struct Text;

impl Kind for Text {
    type Field = Option<String>;

    const WANTED: Wanted = Wanted { words: "a text", sql: "'…'", file: "\"…\"" };

    fn read(value: Value, _: Place) -> Result<Self::Field, Misread> {
        let constant = constant(value)?;
        constant.try_as_str().flatten().map(|text| Some(text.to_owned())).ok_or(Misread::Wrong)
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        field.as_deref().map(Value::from)
    }
}

impl<T: ToString> Accepts<T> for Text {
    fn accept(given: T) -> Self::Field {
        Some(given.to_string())
    }
}

/// A text, or `true` and `false` by how they are written.
pub struct TextOrFlag;

impl Kind for TextOrFlag {
    type Field = Option<String>;

    const WANTED: Wanted = Wanted { words: "a text, or true or false", sql: "true", file: "true" };

    fn read(value: Value, place: Place) -> Result<Self::Field, Misread> {
        match value {
            Value::Constant(ScalarValue::Boolean(Some(flag))) => Ok(Some(flag.to_string())),
            other => Text::read(other, place),
        }
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        let text = field.as_deref()?;
        Some(text.parse::<bool>().map_or_else(|_| text.into(), Value::from))
    }
}

impl<T: ToString> Accepts<T> for TextOrFlag {
    fn accept(given: T) -> Self::Field {
        Some(given.to_string())
    }
}

/// `true` or `false`.
pub struct Flag;

impl Kind for Flag {
    type Field = Option<bool>;

    const WANTED: Wanted = Wanted { words: "true or false", sql: "true", file: "true" };

    fn read(value: Value, _: Place) -> Result<Self::Field, Misread> {
        match constant(value)? {
            ScalarValue::Boolean(flag) => Ok(flag),
            _ => Err(Misread::Wrong),
        }
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        field.map(Value::from)
    }
}

impl Accepts<bool> for Flag {
    fn accept(given: bool) -> Self::Field {
        Some(given)
    }
}
