//! The tables that a series goes on from.

use std::fmt;

use datafusion::logical_expr::LogicalPlan;

use super::tables::table;
use super::{Accepts, Kind, Lookup, Misread, Wanted};
use crate::engine::options::Place;
use crate::engine::options::value::{Name, Relation, Value};

/// What a release of a series goes on from.
#[derive(Clone)]
pub struct SeriesTables {
    /// The members of all cohorts so far.
    pub members: Relation,
    /// The release before this one.
    pub last: Relation,
}

impl SeriesTables {
    /// The rows that `publish => 'members'` gave on all nights before, and the last release; both empty on the
    /// first night.
    pub fn new(members: LogicalPlan, last: LogicalPlan) -> Self {
        let plan = |plan| Relation::Plan(Box::new(plan));
        Self { members: plan(members), last: plan(last) }
    }
}

/// Where the state of a series is, is its publisher's business.
impl fmt::Debug for SeriesTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeriesTables")
    }
}

/// Members and the last release.
pub struct Series;

impl Kind for Series {
    type Field = Option<SeriesTables>;

    const WANTED: Wanted = Wanted {
        words: "the tables 'members' and 'last'",
        sql: "{members: members, last: last_release}",
        file: "{ members = \"…\", last = \"…\" }",
    };

    fn read(value: Value, place: Place) -> Result<Self::Field, Misread> {
        let (Value::Map(entries), Place::Sql(_)) = (value, place) else {
            return Err(Misread::Wrong);
        };
        let (mut members, mut last) = (None, None);
        for (name, value) in entries {
            let place = match name.column.as_str() {
                "members" => &mut members,
                "last" => &mut last,
                _ => return Err(Misread::Wrong),
            };
            if place.replace(relation(&name, value)?).is_some() {
                return Err(Misread::Wrong);
            }
        }
        match (members, last) {
            (Some(members), Some(last)) => Ok(Some(SeriesTables { members, last })),
            _ => Err(Misread::Wrong),
        }
    }

    fn for_manifest(_: &Self::Field) -> Option<Value> {
        None
    }

    fn relations(field: &mut Self::Field) -> Vec<Lookup<'_>> {
        let Some(SeriesTables { members, last }) = field else { return Vec::new() };
        let lookup = |(name, relation)| Lookup {
            what: format!("option 'series', '{name}'"),
            instead: "write a table or a query, as in series => {members: members, last: last_release}; on the \
                      first night empty ones: CREATE TABLE members (person BYTEA, cohort BIGINT) and CREATE TABLE \
                      last_release (cohort BIGINT)",
            relation,
        };
        [("members", members), ("last", last)].map(lookup).into()
    }
}

fn relation(name: &Name, value: Value) -> Result<Relation, Misread> {
    match value {
        Value::Relation(relation) => Ok(relation),
        Value::Name(name) => Ok(table(name)),
        _ => Err(Misread::Located(format!(
            "option 'series': '{}' must be a table or a query in parentheses, as in series => {{members: members, \
             last: (SELECT * FROM last_release)}}",
            name.column
        ))),
    }
}

impl Accepts<SeriesTables> for Series {
    fn accept(given: SeriesTables) -> Self::Field {
        Some(given)
    }
}
