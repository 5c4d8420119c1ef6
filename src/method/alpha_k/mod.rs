//! Graded (αᵢ,k)-anonymity by a greedy over sensitive values (method `alpha_k`).
//!
//! **Guarantee.** Every class has at least k rows, and in every class each value of level i holds at
//! most the share αᵢ (or all values of level i together, as the scope says). Quasi-identifiers are
//! left exact: the release is two tables, joined only by the class. A row is in one class or
//! suppressed, and no suppressed row would fit into any class.
//!
//! **Steps.**
//!
//! 1. Group the rows by sensitive value. From here on only the sizes of the groups matter, up to step 7.
//! 2. Trim every value (or level, as the scope says) whose share of the remaining rows is larger than its αᵢ: set
//!    rows of it aside until it fits.
//! 3. Choose the size m of the next class: the smallest, k or more, at which ⌊αᵢ·m⌋/m is at least each value's share
//!    of the remaining rows. If 100 sizes in a row all fail, take the one that fails least. If the rows left would be
//!    too few for another class, the class takes them all.
//! 4. Fill it, starting with a row of the most sensitive level that has any left. Each further row comes from the
//!    level that is farthest behind its quota (rows left / classes left − rows taken, where classes left is rows
//!    left / m), the least sensitive of equals, and within the level by the same rule from a value, the first of
//!    equals. A value that has reached its αᵢ of m gives no more.
//! 5. Back to step 2, until the remaining rows cannot make a class.
//! 6. Rows left over, by level and then by rows left, join a class that stays valid: those farthest in level
//!    first (a class with the row's own level has distance 0), smaller before larger ones, one row each before
//!    any gets a second. This is repeated until no row fits; the others are suppressed.
//! 7. Assign each value's rows to its places by a keyed hash of quasi-identifiers, value, and number among equal
//!    rows, with a key that is derived from the seed for this alone.
//!
//! So places depend on counts alone, and which row of a value takes which place depends on the seed alone: to
//! somebody who does not know the seed, all assignments of a value's rows to its places are equally likely.
//!
//! Worked on twelve rows, k = 3, α = 0.34, 0.35, 0.4, 0.45, 0.5: HIV 2 and Cancer 2 (level 1), Heart 1
//! (level 3), Flu 2 and Viral 2 (level 4), Fever 3 (level 5). In classes of three every value may stand once,
//! a third, which is more than the share of any. So there are four classes. What a level is behind after the
//! leader of the first is 1/4 for level 3, 4/4 for level 4 and 3/4 for level 5.
//!
//! | class | leader | behind at levels 1, 3, 4, 5 | then |
//! | --- | --- | --- | --- |
//! | 1 | Cancer | 0, 1/4, 1, 3/4 | Flu, Fever |
//! | 2 | HIV | 0, 1/3, 1, 2/3 | Viral, Fever |
//! | 3 | Cancer | 0, 1/2, 1, 1/2 | Flu, Fever |
//! | 4 | HIV | 0, 1, 1, 0 | Viral, Heart |
//!
//! **Cost.** O(n log n) to order the rows inside their groups (on all threads), then O(λ + log v) per row with
//! λ levels and v values, and O(n) for the rows left over (see `join.rs`). Memory: 24 bytes per row, a second
//! copy of the codes at the end, and for a table with rows left over about 20 per class.
//!
//! **Departures.** The paper sweeps over the levels from the least sensitive upward, starts at k whatever the
//! shares are, and takes the rows of a value in the order they have; all of that is [`Variant::Paper`]. Its
//! order names people: rows of a rare value are at the same end of every class, which a reader of both tables
//! can exploit. Its sweeps leave rows over that could be published, and its classes grow beyond k. On 10 000 rows of Adult
//! (k = 5, five levels) ours makes 2 000 classes where the sweeps make 1 510, and their sensitivity distance is 1.31 instead
//! of 1.23; the order by key takes nothing away. "Distance
//! to the highest level" is read as the distance to the nearest level in the class. The paper's table 8 breaks
//! its own α₁ = 0.3 with 1 row in 3; here such a class has at least four rows.
//!
//! **Beware.** Inside a class the rows stand by level and value, and classes in the order they were made.
//! Whoever publishes must reorder the rows of each table by what that table shows.
//!
//! **Source.** "(αᵢ,k)-anonymity by grading of sensitivity" (the (αᵢ,k) paper); Wong, Li, Fu and Wang,
//! "(α,k)-anonymity", 2006.

mod fill;
mod groups;
mod join;
mod method;
mod mix;
mod paper;
mod queue;

use std::borrow::Cow;
use std::cmp::Ordering;

use groups::Group;
pub(super) use method::ALPHA_K;
use mix::MixingKey;

use super::{Job, Variant};
use crate::error::{Error, Result};
use crate::model::{Classes, Grades, Model, RowTable, Seed, SensitiveColumn};

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
/// of the job are ignored. The seed must be used for nothing else; the paper's version does not use it.
/// Works on the current rayon pool.
///
/// ```
/// use datafusion_anonymize::pure::method::{Job, Variant, alpha_k::alpha_k};
/// use datafusion_anonymize::pure::model::{
///     Cancel, Model, Purpose, Requirement, RowKeys, RowTable, Secret, SensitiveColumn,
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
/// let seed = Secret::random()?.seed(Purpose::Mixing);
/// let grouping = alpha_k(&mut rows, &job, Variant::Best, seed)?;
/// assert_eq!(grouping.classes.len(), 2);
/// assert_eq!(grouping.suppressed, 0);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn alpha_k(rows: &mut RowTable, job: &Job, variant: Variant, seed: Seed) -> Result<Grouping> {
    alpha_k_by(rows, job, (variant == Variant::Best).then(|| MixingKey::new(seed)))
}

/// The best version with a key, the paper's version without one.
fn alpha_k_by(rows: &mut RowTable, job: &Job, key: Option<MixingKey>) -> Result<Grouping> {
    let k = job.requirement.k;
    if rows.len() < k as usize {
        return Err(Error::TooFewRows { rows: rows.len(), k });
    }
    let (column, grades) = graded_column(job)?;
    let plan = Plan { job, k, column, grades: &grades };
    let (classes, destinations) = match key {
        Some(key) => best(rows, &plan, key),
        None => as_printed(rows, &plan),
    }?;
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
}

/// Classes made of places. A value has as many places as rows; which row takes which place is decided later.
#[derive(Debug)]
struct Made {
    /// The places of each value; those that a group has left are in no class.
    groups: Vec<Group>,
    /// Class of every place, or [`NO_CLASS`].
    class_of: Vec<u32>,
    /// Places of each class.
    sizes: Vec<u32>,
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
fn best(rows: &mut RowTable, plan: &Plan, key: MixingKey) -> Result<(Classes, Vec<u32>)> {
    let groups = groups::by_value(rows, plan)?;
    let order = mix::order(rows, &groups, plan, key)?;
    let mut made = fill::classes(groups, plan)?;
    // Groups stand by level and value, and sorting keeps that.
    join::leftovers(&mut made, plan, |_, _| Ordering::Equal)?;
    let (classes, places) = made.into_places(plan)?;
    let mut destinations = vec![0; rows.len()];
    order.iter().zip(places).for_each(|(row, place)| destinations[*row as usize] = place);
    Ok((classes, destinations))
}

/// The same as the paper does it: rows take the places of their value in canonical order.
fn as_printed(rows: &mut RowTable, plan: &Plan) -> Result<(Classes, Vec<u32>)> {
    let groups = groups::by_value(rows, plan)?;
    let mut made = paper::classes(rows, groups, plan)?;
    join::leftovers(&mut made, plan, |a, b| paper::earlier(rows, plan.job.keys, a, b))?;
    made.into_places(plan)
}

impl Plan<'_> {
    fn requirement(&self) -> String {
        let models = self.job.requirement.models.iter().map(ToString::to_string);
        let models: Vec<String> = models.collect();
        format!("k = {} and {} on column '{}'", self.k, models.join(", "), self.column.name)
    }
}

impl Made {
    /// The classes, and where each place is once they stand one behind the other.
    fn into_places(self, plan: &Plan) -> Result<(Classes, Vec<u32>)> {
        if self.sizes.is_empty() {
            return Err(Error::NoClass { requirement: plan.requirement() });
        }
        let classes = Classes::from_sizes(&self.sizes)?;
        let mut next: Vec<u32> = classes.ranges().map(|range| range.start as u32).collect();
        let mut next_suppressed = classes.rows() as u32;
        let mut places = self.class_of;
        for place in &mut places {
            let next = match *place {
                NO_CLASS => &mut next_suppressed,
                class => &mut next[class as usize],
            };
            *place = *next;
            *next += 1;
        }
        Ok((classes, places))
    }
}

#[cfg(test)]
mod tests;
