//! The value of an option as it was written, before the option interprets it.
//!
//! ```text
//! SQL arguments     ─► engine::arguments ─┐
//! [anonymize] of a file ─► serde ─────────┴─► Value ─► Options::set ─► a field of Options
//! ```

use std::fmt;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Ident};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Deserializer, Serialize};

/// A value as SQL and files write it.
#[derive(Clone)]
pub enum Value {
    /// A number, a text, a truth value or NULL.
    Constant(ScalarValue),
    /// An identifier of SQL: a column or a table, whichever the option asks for.
    Name(Name),
    /// `[…]`
    List(Vec<Value>),
    /// `{name: value, …}`
    Map(Vec<(Name, Value)>),
    /// A call that only means something to an option, as in `intervals(5, 10)`.
    Call(String, Vec<Value>),
    /// A query, or a call of a table function.
    Relation(Relation),
    /// An expression that is none of these.
    Other,
}

/// A name, with what remains of how it was written.
#[derive(Clone)]
pub struct Name {
    /// The identifiers of a name such as `schema.table`.
    pub(in crate::engine) parts: Vec<Ident>,
    /// The column it means: the last part, in lower case unless it was quoted.
    pub(in crate::engine) column: String,
}

impl Name {
    /// The last part as it was written: a value, or a word of ours.
    pub(super) fn written(&self) -> String {
        self.parts.last().map(|part| part.value.clone()).unwrap_or_default()
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self { parts: vec![Ident::with_quote('"', name)], column: name.to_owned() }
    }
}

/// A relation that an option names or spells out. Whoever reads the options looks it up, because only the
/// planner of the query or the session of the job can.
#[derive(Clone, PartialEq)]
pub enum Relation {
    /// Looked up.
    Plan(Box<LogicalPlan>),
    /// A table or a query inside a query.
    Syntax(Box<SqlExpr>),
    /// A table, by its name in the session of a job.
    Named(String),
    /// The text of a query.
    Query(String),
}

impl Relation {
    /// The plan of a relation that was looked up.
    pub(super) fn into_plan(self) -> crate::Result<LogicalPlan> {
        match self {
            Self::Plan(plan) => Ok(*plan),
            Self::Syntax(_) | Self::Named(_) | Self::Query(_) => {
                Err(crate::Error::bug("a relation was not looked up"))
            }
        }
    }
}

/// Plans and syntax can hold values of the data. What a job file says of its tables is shown, since it tells
/// one definition from another.
impl fmt::Debug for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(_) | Self::Syntax(_) => f.write_str("Relation"),
            Self::Named(name) => write!(f, "Named({name:?})"),
            Self::Query(query) => write!(f, "Query({query:?})"),
        }
    }
}

/// It may be a seed, or a value of the data.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value")
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Constant(ScalarValue::Int64(Some(number)))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Constant(ScalarValue::Float64(Some(number)))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Constant(ScalarValue::Boolean(Some(flag)))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Constant(ScalarValue::from(text))
    }
}

impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl Value {
    /// `{name: value, …}`
    pub(super) fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::Map(entries.into_iter().map(|(name, value)| (Name::from(name), value)).collect())
    }

    /// The text of a constant that is one.
    pub(in crate::engine) fn text(&self) -> Option<&str> {
        match self {
            Self::Constant(constant) => constant.try_as_str().flatten(),
            _ => None,
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Constant(ScalarValue::Int64(Some(number))) => serializer.serialize_i64(*number),
            Self::Constant(ScalarValue::Float64(Some(number))) => serializer.serialize_f64(*number),
            Self::Constant(ScalarValue::Boolean(Some(flag))) => serializer.serialize_bool(*flag),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (name, value) in entries {
                    map.serialize_entry(&name.column, value)?;
                }
                map.end()
            }
            other => match other.text() {
                Some(text) => serializer.serialize_str(text),
                None => serializer.serialize_unit(),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Takes everything: whoever knows the option says what is wrong, and never repeats the value.
struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(match i64::try_from(number) {
            Ok(number) => number.into(),
            Err(_) => Value::Constant(ScalarValue::UInt64(Some(number))),
        })
    }

    fn visit_i128<E>(self, _: i128) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Constant(ScalarValue::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            entries.push((Name::from(name.as_str()), value));
        }
        Ok(Value::Map(entries))
    }
}
