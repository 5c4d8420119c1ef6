//! Refinement: rows change hands between neighbouring classes as long as the total loss falls (`layered` and `kaim`).
//!
//! Nothing of it looks at sensitive values, except that a change which breaks a model is not made.

mod around;
mod class;
mod cut;
mod neighbourhood;
mod trim;
mod undo;

pub(super) use self::class::{Class, in_order};
pub(super) use self::cut::Cutter;
use self::neighbourhood::Neighbourhood;
use super::Job;
use super::bounds::{Losses, order_by};
use super::budget::Budget;
use super::partition::Split;
use crate::error::Result;
use crate::model::{Code, GlobalShares, Row, map_parts};

/// What all threads share.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) losses: Losses<'a>,
    pub(super) global: &'a GlobalShares,
    /// How the place of a cut is chosen.
    pub(super) split: Split,
    pub(super) effort: Effort,
}

/// How much refinement does. Neighbourhoods share the looks by their losses, because where much is lost much can be gained.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// How many cells may be looked at for each cell of the table.
    pub(super) looks: f64,
    /// A class is compared with at most so many others.
    pub(super) neighbourhood: usize,
}

impl Context<'_> {
    pub(super) fn k(&self) -> usize {
        self.job.requirement.k as usize
    }
}

/// Refines the classes of a block with a share of the effort.
pub(super) fn refine<C: Code, const W: usize>(
    classes: Vec<Class<C, W>>,
    context: &Context,
    share: f64,
) -> Result<Vec<Class<C, W>>> {
    let rows: usize = classes.iter().map(|class| class.rows.len()).sum();
    let mut neighbourhoods = Vec::new();
    part(classes, context, &mut neighbourhoods);
    let lost = |classes: &Vec<Class<C, W>>| classes.iter().map(Class::total).sum::<f64>();
    let all: f64 = neighbourhoods.iter().map(lost).sum();
    if all <= 0.0 {
        return Ok(neighbourhoods.into_iter().flatten().collect());
    }
    let budget = Budget::of_cells(share * context.effort.looks, rows, context.losses.axes().len());
    let with_budget = |classes: Vec<Class<C, W>>| {
        let share = lost(&classes) / all;
        (classes, budget.share(share))
    };
    let neighbourhoods = neighbourhoods.into_iter().map(with_budget).collect();
    let refined = map_parts(neighbourhoods, &|(classes, budget)| {
        Neighbourhood::new(classes, context, budget).run()
    });
    let mut classes = Vec::new();
    for neighbourhood in refined {
        classes.extend(neighbourhood?);
    }
    Ok(classes)
}

/// Puts the rows of classes in the place of all rows, and returns the sizes of the classes, in an order that the published
/// boxes tell anyway.
pub(super) fn arrange<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    classes: Vec<Class<C, W>>,
) -> Vec<u32> {
    let bounds = |at: usize| (classes[at].bounds.low, classes[at].bounds.high);
    let order = order_by(classes.len(), &|a, b| bounds(a).cmp(&bounds(b)));
    let classes = in_order(classes, &order);
    let arranged = classes.iter().flat_map(|class| &class.rows);
    rows.iter_mut().zip(arranged).for_each(|(place, row)| *place = *row);
    classes.iter().map(|class| class.rows.len() as u32).collect()
}

/// Halves the classes, each time on the axis on which the halves lie furthest apart.
fn part<C: Code, const W: usize>(
    classes: Vec<Class<C, W>>,
    context: &Context,
    parts: &mut Vec<Vec<Class<C, W>>>,
) {
    if classes.len() <= context.effort.neighbourhood {
        parts.push(classes);
        return;
    }
    let middle = classes.len() / 2;
    let mut stretches = Vec::with_capacity(classes.len());
    let stretches_on = |axis: usize, stretches: &mut Vec<Stretch>| {
        let bounds = classes.iter().map(|class| &class.bounds).zip(0..);
        stretches.clear();
        stretches.extend(bounds.map(|(b, at)| (b.low[axis].get(), b.high[axis].get(), at)));
    };
    let mut best = (f32::MIN, 0);
    for axis in 0..context.losses.axes().len() {
        stretches_on(axis, &mut stretches);
        let gain = gain(&mut stretches, context, axis);
        if gain > best.0 {
            best = (gain, axis);
        }
    }
    stretches_on(best.1, &mut stretches);
    let mut classes = in_order(classes, &sorted(stretches));
    let right = classes.split_off(middle);
    part(classes, context, parts);
    part(right, context, parts);
}

/// The smallest and the largest code of a class on one axis, and which class it is.
type Stretch = (u32, u32, usize);

fn sorted(mut stretches: Vec<Stretch>) -> Vec<usize> {
    stretches.sort_unstable();
    stretches.into_iter().map(|(.., at)| at).collect()
}

/// How much less the two halves spread on an axis than twice the whole.
fn gain(stretches: &mut [Stretch], context: &Context, axis: usize) -> f32 {
    let middle = stretches.len() / 2;
    stretches.select_nth_unstable(middle);
    let spread = |part: &[Stretch]| {
        let low = part.iter().map(|(low, ..)| *low).min();
        let high = part.iter().map(|(_, high, _)| *high).max();
        context.losses.on(axis, low.unwrap_or(0), high.unwrap_or(0))
    };
    2.0 * spread(stretches) - spread(&stretches[..middle]) - spread(&stretches[middle..])
}
