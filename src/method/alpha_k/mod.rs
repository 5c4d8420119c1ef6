//! Graded (αᵢ,k)-anonymity by a greedy over sensitive values (method `alpha_k`).
//!
//! **Guarantee.** Every class has at least k rows, and in every class each value of level i holds at
//! most the share αᵢ (or all values of level i together, as the scope says). Quasi-identifiers are
//! left exact: the release is two tables, joined only by the class. A row is in one class or
//! suppressed, and no suppressed row would fit into any class.
//!
//! **Steps.**
//!
//! 1. Group the rows by sensitive value; inside a group they stand in canonical order.
//! 2. Groups have priority by level (1, the most sensitive, first), then by rows left (more first),
//!    then by their earliest row in canonical order: quasi-identifiers as declared, then row key.
//! 3. Take one row t from the first group. The class aims at the smallest size, k or more, in which
//!    one row of t's value keeps its share.
//! 4. Sweep the levels from the least sensitive upward without t's own, taking one row from the first
//!    group of each, again and again. A group whose share would not hold at that size is passed over.
//! 5. If no other level can give, t's own level does. If it cannot either, the class aims at the
//!    next size that its rows can fill, and the sweep goes on.
//! 6. If there is no such size, the class is undone and t's group is set aside: what remains of it
//!    is left over.
//! 7. Left-over rows, by the same priority, join a class that stays valid: those farthest in level
//!    first (a class with the row's own level has distance 0), smaller before larger ones, one row
//!    each before any gets a second. This is repeated until no row fits; the others are suppressed.
//!
//! Worked on rows 7 to 12 of the paper's table 1, k = 3, α = 0.34, 0.35, 0.4, 0.45, 0.5. HIV and
//! Cancer have two rows each and HIV has the earlier one: it starts a class, and Fever and Heart
//! follow. Then only level 1 is left: a class of one HIV and one Cancer cannot reach three rows, so it
//! is undone. Of the rows left over, one Cancer joins (1 of 4); any other would be 2 of 5.
//!
//! | row | Disease | level | class |
//! | --- | --- | --- | --- |
//! | 7 | HIV | 1 | 1 |
//! | 8 | Cancer | 1 | 1, joined |
//! | 9 | Cancer | 1 | suppressed |
//! | 10 | Fever | 5 | 1 |
//! | 11 | HIV | 1 | suppressed |
//! | 12 | Heart | 3 | 1 |
//!
//! **Cost.** O(n log n) to order the rows inside their groups (in place, on all threads), then
//! O(log v) per row with v values, and O(n) for the left-over rows (see `join.rs`). Memory: 4 bytes per
//! row, a second copy of the codes at the end, and for a table with left-over rows about 20 per class.
//!
//! **Departures.** The paper does not look at shares while a class grows, so a level of one frequent
//! value can spoil it; here a row is only taken if its share holds at the size aimed at. With one
//! level there is no other level to sweep: then the values themselves are swept, the one with most
//! rows first, which is the greedy for plain (α,k). "Distance to the highest level" is read as the
//! distance to the nearest level in the class. The paper's table 8 breaks its own α₁ = 0.3 with
//! 1 row in 3; here such a class has at least four rows.
//!
//! **Beware.** Rows of a value are taken in the order of their quasi-identifiers, as the paper does. So
//! the rows of a rare value stand at the same end of every class, and whoever reads both tables can use
//! that; mixing undoes it. Inside a class the rows stand by level and value, and classes in the order they were
//! made. Whoever publishes must reorder the rows of each table by what that table shows.
//!
//! **Source.** (αᵢ,k)-anonymity by grading of sensitivity (paper P4); Wong, Li, Fu and Wang,
//! "(α,k)-anonymity", 2006.

mod build;
mod groups;
mod join;
mod queue;

use std::borrow::Cow;

use rayon::prelude::*;

use super::Job;
use crate::error::{Error, Result};
use crate::model::{Classes, Code, Grades, Model, Row, RowTable, Seed, SensitiveColumn, with_rows};

/// The classes over the first rows, and how many rows behind them are suppressed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grouping {
    /// The classes, in the order they were made.
    pub classes: Classes,
    /// Rows that fit into no class; they stand behind the classes.
    pub suppressed: usize,
}

/// In place of a class, for a row that has none.
const NO_CLASS: u32 = u32::MAX;

/// Puts the rows into classes and leaves them in class order, the suppressed ones at the end.
///
/// The requirement must be k and one model, either [`Model::Share`] or [`Model::Graded`]. The axes
/// of the job are not looked at. With a seed to mix by, rows of one sensitive value change places
/// between the classes. Works on the current rayon pool.
///
/// ```
/// use datafusion_anonymize::method::{Job, alpha_k::alpha_k};
/// use datafusion_anonymize::model::{
///     Cancel, Model, Requirement, RowKeys, RowTable, SensitiveColumn,
/// };
///
/// // Four rows with the values a, a, b, c and no value in more than half of a class.
/// let mut rows = RowTable::from_codes(&[[0], [1], [2], [3]]).unwrap();
/// let codes = vec![0, 0, 1, 2];
/// let column = SensitiveColumn { name: "s".into(), codes: codes.into(), cardinality: 3, ordered: false };
/// let job = Job {
///     axes: &[],
///     requirement: &Requirement { k: 2, models: vec![Model::Share { column: 0, alpha: 0.5 }] },
///     sensitive: &[column],
///     keys: &RowKeys::default(),
///     cancel: &Cancel::default(),
/// };
/// let grouping = alpha_k(&mut rows, &job, None)?;
/// assert_eq!(grouping.classes.len(), 2);
/// assert_eq!(grouping.suppressed, 0);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn alpha_k(rows: &mut RowTable, job: &Job, mix: Option<Seed>) -> Result<Grouping> {
    let k = job.requirement.k;
    if rows.len() < k as usize {
        return Err(Error::TooFewRows { rows: rows.len(), k });
    }
    let (column, grades) = graded_column(job)?;
    let plan = Plan { job, k, column, grades: &grades, mix };
    let (classes, destinations) = with_rows!(&mut *rows, rows => group(rows, &plan))?;
    rows.scatter(&destinations);
    let suppressed = rows.len() - classes.rows();
    Ok(Grouping { classes, suppressed })
}

/// What the steps share.
#[derive(Debug, Clone, Copy)]
struct Plan<'a> {
    job: &'a Job<'a>,
    k: u32,
    column: &'a SensitiveColumn,
    grades: &'a Grades,
    mix: Option<Seed>,
}

/// The one sensitive column and its levels; plain alpha is one level.
fn graded_column<'a>(job: &Job<'a>) -> Result<(&'a SensitiveColumn, Cow<'a, Grades>)> {
    let [model] = job.requirement.models.as_slice() else {
        return Err(Error::invalid(
            "alpha_k takes k and the alpha of one sensitive column, and no other model",
        ));
    };
    let column = job
        .sensitive
        .get(model.column())
        .ok_or_else(|| Error::bug("a model looks at a column that is not there"))?;
    let grades = match model {
        Model::Share { alpha, .. } => Cow::Owned(Grades::one_level(column.cardinality, *alpha)?),
        Model::Graded { grades, .. } => Cow::Borrowed(grades.as_ref()),
        other => {
            return Err(Error::invalid(format!(
                "alpha_k cannot honour {other}: it takes k and alpha, and no other model"
            )));
        }
    };
    if grades.values() != column.cardinality as usize {
        return Err(Error::bug("levels were given for another number of values"));
    }
    Ok((column, grades))
}

/// The classes, and where every row must go to stand in class order.
fn group<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    plan: &Plan,
) -> Result<(Classes, Vec<u32>)> {
    let groups = groups::by_value(rows, plan)?;
    let mut made = build::classes(rows, groups, plan)?;
    if made.sizes.is_empty() {
        return Err(Error::NoClass { requirement: plan.requirement() });
    }
    join::leftovers(rows, &mut made, plan)?;
    if let Some(seed) = plan.mix {
        mix(rows, plan, seed);
    }
    let classes = Classes::from_sizes(&made.sizes)?;
    let destinations = destinations(made.class_of, &classes);
    Ok((classes, destinations))
}

/// Puts the rows of every value, which stand together, into the order of a keyed hash. The classes of
/// their places stay: they keep their values and sizes, and who of a value is in which class depends
/// on the seed alone.
fn mix<C: Code, const W: usize>(rows: &mut [Row<C, W>], plan: &Plan, seed: Seed) {
    let code = |row: &Row<C, W>| plan.column.codes[row.id as usize];
    let values: Vec<&mut [Row<C, W>]> = rows.chunk_by_mut(|a, b| code(a) == code(b)).collect();
    values.into_par_iter().for_each(|rows| {
        rows.sort_by_cached_key(|row| {
            (row.quasi_identifier_hash(seed), plan.job.keys.key(row.id).1)
        });
    });
}

impl Plan<'_> {
    fn requirement(&self) -> String {
        let models = self.job.requirement.models.iter().map(ToString::to_string);
        let models: Vec<String> = models.collect();
        format!("k = {} and {} on column '{}'", self.k, models.join(", "), self.column.name)
    }
}

/// From the class of every row to its position.
fn destinations(class_of: Vec<u32>, classes: &Classes) -> Vec<u32> {
    let mut next: Vec<u32> = classes.ranges().map(|range| range.start as u32).collect();
    let mut next_suppressed = classes.rows() as u32;
    let mut destinations = class_of;
    for place in &mut destinations {
        let next = match *place {
            NO_CLASS => &mut next_suppressed,
            class => &mut next[class as usize],
        };
        *place = *next;
        *next += 1;
    }
    destinations
}

#[cfg(test)]
mod tests;
