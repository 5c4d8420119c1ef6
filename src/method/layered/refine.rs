//! Refinement: rows change hands between neighbouring classes as long as the total loss falls.

use std::ops::Range;

use rayon::prelude::*;

use super::neighbourhood::Neighbourhood;
use super::{Class, Context};
use crate::error::Result;
use crate::model::Code;

/// Classes are compared with the others of a neighbourhood of 20k classes, within these bounds: the
/// larger the classes, the fewer there are, and the less it costs beside the rest of the work.
const NEIGHBOURHOOD: Range<usize> = 256..1024;

/// Tables of more classes refine this many, and this share of the others, the worst.
const ALWAYS_REFINED: usize = 16_000;
const LARGE_SHARE: f64 = 0.02;

/// The share of the classes of a table that is refined.
pub(super) fn share(classes: usize) -> f64 {
    if classes <= ALWAYS_REFINED {
        return 1.0;
    }
    let always = ALWAYS_REFINED as f64 / classes as f64;
    always + (1.0 - always) * LARGE_SHARE
}

/// Refines the classes of a block.
pub(super) fn refine<C: Code, const W: usize>(
    classes: Vec<Class<C, W>>,
    context: &Context,
) -> Result<Vec<Class<C, W>>> {
    let mut neighbourhoods = Vec::new();
    part(classes, context, &mut neighbourhoods);
    let refined: Vec<Result<Vec<Class<C, W>>>> = neighbourhoods
        .into_par_iter()
        .map(|classes| Neighbourhood::new(classes, context).run())
        .collect();
    let mut classes = Vec::new();
    for neighbourhood in refined {
        classes.extend(neighbourhood?);
    }
    Ok(classes)
}

/// Halves the classes, each time on the axis on which the halves lie furthest apart.
fn part<C: Code, const W: usize>(
    mut classes: Vec<Class<C, W>>,
    context: &Context,
    parts: &mut Vec<Vec<Class<C, W>>>,
) {
    let most = (20 * context.k()).clamp(NEIGHBOURHOOD.start, NEIGHBOURHOOD.end);
    if classes.len() <= most {
        parts.push(classes);
        return;
    }
    let middle = classes.len() / 2;
    let mut order: Vec<u32> = (0..classes.len() as u32).collect();
    let mut best = (f32::MIN, 0);
    for axis in 0..context.losses.axes().len() {
        let code = |at: &u32| {
            let bounds = &classes[*at as usize].bounds;
            (bounds.low[axis], bounds.high[axis], *at)
        };
        order.select_nth_unstable_by_key(middle, code);
        let spread = |part: &[u32]| {
            let low = part.iter().map(|at| classes[*at as usize].bounds.low[axis].get()).min();
            let high = part.iter().map(|at| classes[*at as usize].bounds.high[axis].get()).max();
            context.losses.on(axis, low.unwrap_or(0), high.unwrap_or(0))
        };
        let gain = 2.0 * spread(&order) - spread(&order[..middle]) - spread(&order[middle..]);
        if gain > best.0 {
            best = (gain, axis);
        }
    }
    let axis = best.1;
    classes.sort_by_key(|class| (class.bounds.low[axis], class.bounds.high[axis]));
    let right = classes.split_off(middle);
    part(classes, context, parts);
    part(right, context, parts);
}
