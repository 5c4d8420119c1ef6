//! Options that name columns.

use super::{Accepts, Kind, Misread, Wanted, any_number, constant, whole_number};
use crate::engine::options::Place;
use crate::engine::options::value::{Name, Value};

/// A column named by a text or an identifier.
fn column_name(value: Value) -> Option<String> {
    match value {
        Value::Name(name) => Some(name.column),
        value => value.text().map(str::to_owned),
    }
}

/// A list of columns, or a single one.
fn column_names(value: Value) -> Option<Vec<String>> {
    match value {
        Value::List(items) => items.into_iter().map(column_name).collect(),
        single => column_name(single).map(|column| vec![column]),
    }
}

/// Columns; a single one needs no list in SQL.
pub struct Columns;

impl Kind for Columns {
    type Field = Vec<String>;

    const WANTED: Wanted =
        Wanted { words: "a list of columns", sql: "['age', 'zip']", file: "[\"age\", \"zip\"]" };

    fn read(value: Value, place: Place) -> Result<Self::Field, Misread> {
        if place == Place::File && !matches!(value, Value::List(_)) {
            return Err(Misread::MustBe(format!("a list, as in {}", Self::WANTED.file)));
        }
        match value {
            Value::Constant(constant) if constant.is_null() => Err(Misread::Null),
            columns => column_names(columns).ok_or(Misread::Wrong),
        }
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        (!field.is_empty()).then(|| field.iter().map(String::as_str).collect())
    }

    fn rename_columns(field: &mut Self::Field, name: &dyn Fn(&str) -> String) {
        field.iter_mut().for_each(|column| *column = name(column));
    }
}

impl<T: IntoIterator<Item: Into<String>>> Accepts<T> for Columns {
    fn accept(given: T) -> Self::Field {
        given.into_iter().map(Into::into).collect()
    }
}

/// One column.
pub struct Column;

impl Kind for Column {
    type Field = Option<String>;

    const WANTED: Wanted = Wanted { words: "a column", sql: "'age'", file: "\"age\"" };

    fn read(value: Value, _: Place) -> Result<Self::Field, Misread> {
        column_name(value).map(Some).ok_or(Misread::Wrong)
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        field.as_deref().map(Value::from)
    }

    fn rename_columns(field: &mut Self::Field, name: &dyn Fn(&str) -> String) {
        field.iter_mut().for_each(|column| *column = name(column));
    }
}

impl<T: Into<String>> Accepts<T> for Column {
    fn accept(given: T) -> Self::Field {
        Some(given.into())
    }
}

/// Columns with a number each.
pub struct Weights;

impl Kind for Weights {
    type Field = Vec<(String, f64)>;

    const WANTED: Wanted =
        Wanted { words: "a list of columns and numbers", sql: "{age: 2.0}", file: "{ age = 2.0 }" };

    fn read(value: Value, _: Place) -> Result<Self::Field, Misread> {
        let Value::Map(entries) = value else { return Err(Misread::Wrong) };
        let weight =
            |(name, value): (Name, Value)| Some((name.column, any_number(&constant(value).ok()?)?));
        entries.into_iter().map(weight).collect::<Option<_>>().ok_or(Misread::Wrong)
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        let entries = field.iter().map(|(column, weight)| (column.as_str(), (*weight).into()));
        (!field.is_empty()).then(|| Value::map(entries))
    }

    fn rename_columns(field: &mut Self::Field, name: &dyn Fn(&str) -> String) {
        field.iter_mut().for_each(|(column, _)| *column = name(column));
    }
}

impl<T: IntoIterator<Item = (C, f64)>, C: Into<String>> Accepts<T> for Weights {
    fn accept(given: T) -> Self::Field {
        given.into_iter().map(|(column, weight)| (column.into(), weight)).collect()
    }
}

/// Lists of columns, each with a k of its own.
pub struct Constraints;

impl Kind for Constraints {
    type Field = Vec<(Vec<String>, i64)>;

    const WANTED: Wanted = Wanted {
        words: "a list of columns with their k",
        sql: "[{columns: ['age', 'zip'], k: 3}, {columns: ['sex'], k: 10}]",
        file: "[{ columns = [\"age\", \"zip\"], k = 3 }, { columns = [\"sex\"], k = 10 }]",
    };

    fn read(value: Value, _: Place) -> Result<Self::Field, Misread> {
        match value {
            Value::List(items) if !items.is_empty() => {
                items.into_iter().map(constraint).collect::<Option<_>>().ok_or(Misread::Wrong)
            }
            _ => Err(Misread::Wrong),
        }
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        let constraint = |(columns, k): &(Vec<String>, i64)| {
            let columns: Value = columns.iter().map(String::as_str).collect();
            Value::map([("columns", columns), ("k", (*k).into())])
        };
        (!field.is_empty()).then(|| field.iter().map(constraint).collect())
    }

    fn rename_columns(field: &mut Self::Field, name: &dyn Fn(&str) -> String) {
        field.iter_mut().for_each(|(columns, _)| Columns::rename_columns(columns, name));
    }
}

impl<T: IntoIterator<Item = (Vec<C>, u32)>, C: Into<String>> Accepts<T> for Constraints {
    fn accept(given: T) -> Self::Field {
        let constraint = |(columns, k): (Vec<C>, u32)| (Columns::accept(columns), i64::from(k));
        given.into_iter().map(constraint).collect()
    }
}

/// `{columns: […], k: n}`
fn constraint(value: Value) -> Option<(Vec<String>, i64)> {
    let Value::Map(entries) = value else { return None };
    let (mut columns, mut k) = (None, None);
    for (name, value) in entries {
        match name.written().to_lowercase().as_str() {
            "columns" if columns.is_none() => columns = Some(column_names(value)?),
            "k" if k.is_none() => k = Some(whole_number(&constant(value).ok()?)?),
            _ => return None,
        }
    }
    Some((columns?, k?))
}
