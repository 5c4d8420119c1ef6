//! The attacker who compares releases that follow each other: knows the method and the options, everybody's
//! quasi-identifiers and class on every night, and not the seed.
//!
//! [`naive`] is the control: releases made anew every night fall to this attacker. [`cohorts`] shows that series do not.

mod attacker;
mod cohorts;
mod naive;
mod world;

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::prelude::SessionContext;

use crate::attacks::rows;
use attacker::Night;
use world::World;

/// The methods that form classes of rows, which a series can publish.
const METHODS: [&str; 7] =
    ["rounded", "layered", "mondrian", "mondrian_relaxed", "kaim", "bottom_up", "top_down"];

const SEED: &str = "the secret of these nights";

/// Tonight's rows as a table `tonight`.
fn register_tonight(context: &SessionContext, world: &World) {
    let present = || world.people.iter().filter(|person| person.is_present);
    let mut columns = vec![(
        "who".to_owned(),
        Arc::new(Int64Array::from_iter_values(present().map(|person| person.who))) as _,
    )];
    for (at, name) in world.columns.iter().enumerate() {
        let cells = StringArray::from_iter_values(present().map(|person| &person.cells[at]));
        columns.push((name.clone(), Arc::new(cells) as _));
    }
    let values = StringArray::from_iter_values(present().map(|person| &person.value));
    columns.push(("secret".to_owned(), Arc::new(values) as _));
    context.deregister_table("tonight").unwrap();
    context.register_batch("tonight", RecordBatch::try_from_iter(columns).unwrap()).unwrap();
}

/// Everybody on every night, as a table `register`, with the classes of those who are there if they are known.
#[derive(Default)]
struct Register {
    who: Vec<i64>,
    night: Vec<i64>,
    class: Vec<Option<i64>>,
    cells: Vec<Vec<String>>,
}

impl Register {
    fn add(&mut self, world: &World, number: usize, night: &Night) {
        self.cells.resize(world.columns.len(), Vec::new());
        for person in world.people.iter().filter(|person| person.is_present) {
            self.who.push(person.who);
            self.night.push(number as i64 + 1);
            self.class.push(night.class_of.get(&person.who).copied());
            for (column, cell) in self.cells.iter_mut().zip(&person.cells) {
                column.push(cell.clone());
            }
        }
    }

    fn register(&self, context: &SessionContext, world: &World) {
        let mut columns = vec![
            ("person".to_owned(), Arc::new(Int64Array::from(self.who.clone())) as _),
            ("release".to_owned(), Arc::new(Int64Array::from(self.night.clone())) as _),
            ("class".to_owned(), Arc::new(Int64Array::from(self.class.clone())) as _),
        ];
        for (name, cells) in world.columns.iter().zip(&self.cells) {
            columns.push((name.clone(), Arc::new(StringArray::from(cells.clone())) as _));
        }
        context.deregister_table("register").unwrap();
        context.register_batch("register", RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    }
}

/// What `series_report` says of one measure: its value, and whether it holds.
async fn measured(
    context: &SessionContext,
    world: &World,
    releases: &[String],
    options: &str,
) -> impl Fn(&str) -> (Option<f64>, Option<bool>) {
    let sql = format!(
        "SELECT measure, value, holds FROM series_report({}, quasi_identifiers => [{}], sensitive => ['secret'], {options})",
        releases.join(", "),
        world.columns.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", "),
    );
    let lines = rows(context, &sql).await.unwrap();
    move |measure: &str| {
        let is_it = |line: &&Vec<Option<String>>| line[0].as_deref() == Some(measure);
        let line = lines.iter().find(is_it).unwrap_or_else(|| panic!("no line {measure}"));
        let number = line[1].as_ref().map(|value| value.parse().unwrap());
        (number, line[2].as_ref().map(|holds| holds.parse().unwrap()))
    }
}

/// A register as it is given to `series_report`: with the classes, or with what they are found by.
fn given_register(world: &World, with_classes: bool) -> String {
    if with_classes {
        return "register => (SELECT person, release, class FROM register)".to_owned();
    }
    format!(
        "{} register => (SELECT person, release, {} FROM register)",
        world.hierarchies, world.typed
    )
}

/// A query for what the attacker sees of a release: class, person and value of every row.
async fn seen(context: &SessionContext, release: &str, class: &str) -> Night {
    let sql = format!("SELECT {class}, who, secret FROM {release}");
    Night::new(rows(context, &sql).await.unwrap())
}
