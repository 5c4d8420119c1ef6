//! Options that can be relations: hierarchies, and levels of sensitivity.

use std::fmt;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;

use super::{Accepts, Kind, Lookup, Misread, Wanted, constant, whole_number};
use crate::engine::options::Place;
use crate::engine::options::value::{Name, Relation, Value};
use crate::hierarchy::DateStep;

/// A hierarchy as the caller gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum Hierarchy {
    /// Aligned intervals of these widths, each a multiple of the one before.
    Intervals(Vec<String>),
    /// The first characters, the rest masked; lengths in falling order.
    Prefixes(Vec<usize>),
    /// Calendar units, from fine to coarse.
    Dates(Vec<DateStep>),
    /// A file of `leaf;level 1;…;top` lines, local or in an object store of the session.
    File(String),
    /// A relation whose columns are leaf, level 1, …, top.
    Table(Relation),
}

impl Hierarchy {
    /// Aligned intervals: `Hierarchy::intervals([5, 10, 20])`.
    pub fn intervals<T: ToString>(steps: impl IntoIterator<Item = T>) -> Self {
        Self::Intervals(steps.into_iter().map(|step| step.to_string()).collect())
    }

    /// Kept characters: `Hierarchy::prefixes([4, 3, 2])`.
    pub fn prefixes(kept: impl IntoIterator<Item = usize>) -> Self {
        Self::Prefixes(kept.into_iter().collect())
    }

    /// Calendar units: `Hierarchy::dates([DateStep::Month, DateStep::Year])`.
    pub fn dates(steps: impl IntoIterator<Item = DateStep>) -> Self {
        Self::Dates(steps.into_iter().collect())
    }

    /// A file of labels.
    pub fn file(path: impl Into<String>) -> Self {
        Self::File(path.into())
    }

    /// A table of labels.
    pub fn table(plan: LogicalPlan) -> Self {
        Self::Table(Relation::Plan(Box::new(plan)))
    }

    /// As a manifest tells it. Where files are is the publisher's business, and a query may quote values.
    fn for_manifest(&self) -> Value {
        let (name, value) = match self {
            Self::Intervals(steps) => {
                ("intervals", steps.iter().map(|step| number(step)).collect())
            }
            Self::Prefixes(kept) => ("prefixes", kept.iter().map(|kept| *kept as i64).collect()),
            Self::Dates(steps) => (
                "date_steps",
                steps.iter().map(|step| Value::from(step.to_string().as_str())).collect(),
            ),
            Self::File(_) => ("table", "file".into()),
            Self::Table(Relation::Named(name)) => ("table", name.as_str().into()),
            Self::Table(_) => ("table", "query".into()),
        };
        Value::map([(name, value)])
    }
}

/// A step as a number again.
fn number(step: &str) -> Value {
    match (step.parse::<i64>(), step.parse::<f64>()) {
        (Ok(whole), _) => whole.into(),
        (_, Ok(number)) => number.into(),
        _ => step.into(),
    }
}

/// Columns with their hierarchies.
pub struct Hierarchies;

impl Kind for Hierarchies {
    type Field = Vec<(String, Hierarchy)>;

    const WANTED: Wanted = Wanted {
        words: "a list of names and values",
        sql: "{age: …}",
        file: "{ age = { intervals = [5, 10] } }",
    };

    fn read(value: Value, place: Place) -> Result<Self::Field, Misread> {
        let Value::Map(entries) = value else { return Err(Misread::Wrong) };
        let hierarchy = |(name, value): (Name, Value)| {
            let column = name.column;
            let hierarchy = match place {
                Place::Sql(_) => of_sql(&column, value)?,
                Place::File => of_file(&column, value)?,
            };
            Ok((column, hierarchy))
        };
        entries.into_iter().map(hierarchy).collect()
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        let entries =
            field.iter().map(|(column, hierarchy)| (column.as_str(), hierarchy.for_manifest()));
        (!field.is_empty()).then(|| Value::map(entries))
    }

    fn rename_columns(field: &mut Self::Field, name: &dyn Fn(&str) -> String) {
        field.iter_mut().for_each(|(column, _)| *column = name(column));
    }

    fn relations(field: &mut Self::Field) -> Vec<Lookup<'_>> {
        let tables = field.iter_mut().filter_map(|(column, hierarchy)| match hierarchy {
            Hierarchy::Table(relation) => Some((column, relation)),
            _ => None,
        });
        let lookup = |(column, relation): (&mut String, _)| Lookup {
            what: format!("the hierarchy of column '{column}'"),
            instead: HIERARCHY_IS,
            relation,
        };
        tables.map(lookup).collect()
    }
}

impl<T: IntoIterator<Item = (C, Hierarchy)>, C: Into<String>> Accepts<T> for Hierarchies {
    fn accept(given: T) -> Self::Field {
        given.into_iter().map(|(column, hierarchy)| (column.into(), hierarchy)).collect()
    }
}

const HIERARCHY_IS: &str = "a hierarchy is intervals(5, 10), prefixes(3, 2), date_steps('month', 'year'), a table, a query or a path to a CSV file";

fn of_sql(column: &str, value: Value) -> Result<Hierarchy, Misread> {
    match value {
        Value::Call(name, arguments) => steps(column, &name, arguments, Place::Sql("")),
        Value::Relation(relation) => Ok(Hierarchy::Table(relation)),
        Value::Name(name) => Ok(Hierarchy::Table(table(name))),
        path => match path.text() {
            Some(path) => Ok(Hierarchy::file(path)),
            None => Err(Misread::Located(format!(
                "the hierarchy of column '{column}' must be {}",
                HIERARCHY_IS.trim_start_matches("a hierarchy is ")
            ))),
        },
    }
}

/// `{ intervals = [5, 10] }`, `{ input = "levels" }` and so on.
fn of_file(column: &str, value: Value) -> Result<Hierarchy, Misread> {
    let known = "`intervals`, `prefixes`, `date_steps`, `file`, `input`, `query`";
    let wrong = || {
        Misread::Located(format!(
            "the hierarchy of column '{column}' must be one of {known}, as in {{ intervals = [5, 10] }}"
        ))
    };
    let entry = match value {
        Value::Map(entries) if entries.len() == 1 => entries.into_iter().next(),
        _ => None,
    };
    let (name, value) = entry.ok_or_else(wrong)?;
    let text = value.text().map(str::to_owned).ok_or_else(wrong);
    match name.column.as_str() {
        call @ ("intervals" | "prefixes" | "date_steps") => match value {
            Value::List(items) => steps(column, call, items, Place::File),
            _ => Err(wrong()),
        },
        "file" => Ok(Hierarchy::File(text?)),
        "input" => Ok(Hierarchy::Table(Relation::Named(text?))),
        "query" => Ok(Hierarchy::Table(Relation::Query(text?))),
        unknown => Err(Misread::Located(format!(
            "the hierarchy of column '{column}': unknown variant `{unknown}`, expected one of {known}"
        ))),
    }
}

fn steps(
    column: &str,
    name: &str,
    arguments: Vec<Value>,
    place: Place,
) -> Result<Hierarchy, Misread> {
    let wrong = || {
        let (call, items) = match name {
            "intervals" => ("numbers", "5, 10, 20"),
            "prefixes" => ("how many characters to keep", "4, 3, 2"),
            _ => ("calendar units", "'month', 'year'"),
        };
        Misread::Located(match place {
            Place::Sql(_) => format!(
                "the hierarchy of column '{column}': {name}() takes {call}, as in {name}({items})"
            ),
            Place::File => format!(
                "the hierarchy of column '{column}': {name} takes {call}, as in {{ {name} = [{items}] }}"
            ),
        })
    };
    let constants = arguments.into_iter().map(|argument| constant(argument).ok());
    let constants = constants.collect::<Option<Vec<ScalarValue>>>().ok_or_else(wrong)?;
    let units = constants.iter().map(|constant| constant.try_as_str().flatten());
    match (name, units.collect::<Option<Vec<&str>>>()) {
        // Calendar units may also be written as intervals('month', 'year').
        ("date_steps" | "intervals", Some(units)) if !units.is_empty() => {
            let steps = units.iter().map(|unit| unit.parse()).collect::<Result<_, _>>();
            steps.map(Hierarchy::Dates).map_err(|error: crate::Error| {
                Misread::Located(format!("the hierarchy of column '{column}': {error}"))
            })
        }
        ("intervals", _) if constants.iter().all(|constant| constant.data_type().is_numeric()) => {
            Ok(Hierarchy::intervals(constants))
        }
        ("prefixes", _) => {
            let kept = constants.iter().map(|kept| usize::try_from(whole_number(kept)?).ok());
            kept.collect::<Option<_>>().map(Hierarchy::Prefixes).ok_or_else(wrong)
        }
        ("date_steps", _) if constants.is_empty() => Ok(Hierarchy::Dates(Vec::new())),
        _ => Err(wrong()),
    }
}

/// A name where a relation is wanted.
pub(super) fn table(name: Name) -> Relation {
    let mut parts = name.parts;
    let syntax = match parts.len() {
        1 => SqlExpr::Identifier(parts.swap_remove(0)),
        _ => SqlExpr::CompoundIdentifier(parts),
    };
    Relation::Syntax(Box::new(syntax))
}

/// How sensitive each value of the sensitive column is, as the caller gives it: level 1 is the most
/// sensitive.
#[derive(Clone)]
pub enum Sensitivity {
    /// Values with their levels.
    Listed(Vec<(String, i64)>),
    /// A relation of values and levels.
    Table(Relation),
}

impl Sensitivity {
    /// Values with their levels: `Sensitivity::listed([("HIV", 1), ("Flu", 4)])`.
    pub fn listed<T: Into<String>>(levels: impl IntoIterator<Item = (T, i64)>) -> Self {
        Self::Listed(levels.into_iter().map(|(value, level)| (value.into(), level)).collect())
    }
}

/// What is listed are values of the data.
impl fmt::Debug for Sensitivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sensitivity")
    }
}

/// Values with their levels.
pub struct Levels;

impl Kind for Levels {
    type Field = Option<Sensitivity>;

    const WANTED: Wanted = Wanted {
        words: "values with levels",
        sql: "{HIV: 1, Flu: 4}",
        file: "{ HIV = 1, Flu = 4 }",
    };

    fn read(value: Value, place: Place) -> Result<Self::Field, Misread> {
        let wrong = || {
            Misread::MustBe(match place {
                Place::Sql(_) => {
                    "values with levels, as in {HIV: 1, Flu: 4}, or a table of values and levels"
                }
                Place::File => {
                    "values with levels, as in { HIV = 1, Flu = 4 }, or the name of an input"
                }
            }
            .to_owned())
        };
        match (value, place) {
            (Value::Map(entries), _) => {
                let level = |(name, level): (Name, Value)| {
                    Some((name.written(), whole_number(&constant(level).ok()?)?))
                };
                let listed = entries.into_iter().map(level).collect::<Option<_>>();
                listed.map(|listed| Some(Sensitivity::Listed(listed))).ok_or_else(|| match place {
                    Place::Sql(_) => Misread::MustBe(
                        "values with whole numbers, as in sensitivity => {HIV: 1, Flu: 4}"
                            .to_owned(),
                    ),
                    Place::File => wrong(),
                })
            }
            (Value::Relation(relation), _) => Ok(Some(Sensitivity::Table(relation))),
            (Value::Name(name), _) => Ok(Some(Sensitivity::Table(table(name)))),
            (other, Place::File) => {
                let named = other.text().map(|name| Relation::Named(name.to_owned()));
                named.map(|named| Some(Sensitivity::Table(named))).ok_or_else(wrong)
            }
            (_, Place::Sql(_)) => Err(wrong()),
        }
    }

    /// How many values are listed, and never which.
    fn for_manifest(field: &Self::Field) -> Option<Value> {
        field.as_ref().map(|sensitivity| match sensitivity {
            Sensitivity::Listed(levels) => {
                Value::map([("listed_values", (levels.len() as i64).into())])
            }
            Sensitivity::Table(Relation::Named(name)) => {
                Value::map([("input", name.as_str().into())])
            }
            Sensitivity::Table(_) => Value::map([("input", "query".into())]),
        })
    }

    fn relations(field: &mut Self::Field) -> Vec<Lookup<'_>> {
        let lookup = match field {
            Some(Sensitivity::Table(relation)) => Some(Lookup {
                what: "option 'sensitivity'".to_owned(),
                instead: "write values with levels, as in {HIV: 1, Flu: 4}, or name a table of values and levels",
                relation,
            }),
            _ => None,
        };
        lookup.into_iter().collect()
    }
}

impl Accepts<Sensitivity> for Levels {
    fn accept(given: Sensitivity) -> Self::Field {
        Some(given)
    }
}
