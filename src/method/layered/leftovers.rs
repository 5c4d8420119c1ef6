//! Rows that no layer froze find a class.

use super::{Class, Cutter};
use crate::error::Result;
use crate::method::bounds::{Nearest, cheapest};
use crate::model::{Code, Row};

/// How many classes a row is tried in, the cheapest first, before it counts as unplaced.
const CLASSES_TRIED: usize = 8;

/// Every row looks at all classes of its block. If models leave more rows than this, all of them become
/// one group that is cut anew.
const MOST_PLACED_SINGLY: usize = 1024;

/// Adds each row to the class where it costs least and that still could be one with it. Rows that
/// none takes become a class of their own, with the classes they need to be one.
pub(super) fn place<C: Code, const W: usize>(
    cutter: &mut Cutter,
    classes: &mut Vec<Class<C, W>>,
    left: Vec<Row<C, W>>,
) -> Result<()> {
    let (left, mut unplaced) = match left.len() <= MOST_PLACED_SINGLY {
        true => (left, Vec::new()),
        false => (Vec::new(), left),
    };
    for row in left {
        cutter.context.job.cancel.check()?;
        if !join_nearest(cutter, classes, row) {
            unplaced.push(row);
        }
    }
    let mut grown = Vec::new();
    if !unplaced.is_empty() {
        grown.push(absorb(cutter, classes, unplaced)?);
    }
    for class in classes.iter_mut().filter(|class| class.rows.len() >= 2 * cutter.context.k()) {
        grown.push(std::mem::take(&mut class.rows));
    }
    classes.retain(|class| !class.rows.is_empty());
    grown.into_iter().for_each(|rows| cutter.divide(rows, classes));
    Ok(())
}

fn join_nearest<C: Code, const W: usize>(
    cutter: &mut Cutter,
    classes: &mut [Class<C, W>],
    row: Row<C, W>,
) -> bool {
    let losses = &cutter.context.losses;
    let mut nearest = Nearest::new(CLASSES_TRIED);
    for (at, class) in classes.iter().enumerate() {
        if let Some(cost) = class.cost_below(&row.codes, losses, nearest.limit()) {
            nearest.offer(cost, at);
        }
    }
    for at in nearest.places() {
        let class = &mut classes[at];
        class.rows.push(row);
        if cutter.holds(&class.rows) {
            class.tighten(&cutter.context.losses);
            return true;
        }
        class.rows.pop();
    }
    false
}

/// Takes the classes that cost least, again and again and more every time, until all rows together
/// could be a class. At the latest the whole block can.
fn absorb<C: Code, const W: usize>(
    cutter: &mut Cutter,
    classes: &mut Vec<Class<C, W>>,
    rows: Vec<Row<C, W>>,
) -> Result<Vec<Row<C, W>>> {
    let mut pool = Class::new(rows, &cutter.context.losses);
    let mut absorbed = 0;
    while !cutter.holds(&pool.rows) && !classes.is_empty() {
        cutter.context.job.cancel.check()?;
        let losses = &cutter.context.losses;
        let cost = |class: &Class<C, W>| pool.joined_total(class, losses) - class.total();
        // One at a time, then a quarter of what was taken before: the number of rounds is logarithmic.
        let taken = cheapest(classes.iter().map(cost).zip(0..).collect(), 1 + absorbed / 4);
        absorbed += taken.len();
        for at in taken {
            pool.rows.append(&mut classes[at].rows);
        }
        classes.retain(|class| !class.rows.is_empty());
        pool.tighten(&cutter.context.losses);
    }
    Ok(pool.rows)
}
